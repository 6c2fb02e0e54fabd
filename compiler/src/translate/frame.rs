//! [`Frame`]: an enclosing block, from its start to its end, for structured control and exceptions.

use cranelift_codegen::ir::{Block, Value};
use cranelift_frontend::Variable;
use wasmparser::Catch;

/// One enclosing block.
pub(super) struct Frame {
    pub(super) kind: BlockKind,
    /// The target of branches to this block.
    pub(super) target: Block,
    /// Height of the operand stack below the block's parameters.
    pub(super) height: usize,
    /// Number of values that a branch to this block passes.
    pub(super) branch_values: usize,
    /// Number of the block's results.
    pub(super) results: usize,
    /// Whether the end of the block is the target of a branch.
    pub(super) end_reachable: bool,
    /// Whether any branch to the end of the block is not cold.
    pub(super) end_likely: bool,
    /// Whether this block is a target of the `br_table` at the start of an enclosing loop. Then
    /// branches to the block's end may be translated up to the end of that loop.
    pub(super) is_table_target: bool,
    /// The `br_table` that the loop starts with.
    pub(super) loop_table: Option<LoopTable>,
}

impl Frame {
    /// The targets of a loop's `br_table` that are in the loop.
    pub(super) fn table_targets(&self) -> &[Block] {
        let table = self.loop_table.as_ref();
        table.map_or(&[], |table| &table.inside)
    }
}

/// The `br_table` that a loop starts with (`threading.rs`).
pub(super) struct LoopTable {
    /// The local variable that is the operand of the `br_table`.
    pub(super) local: Variable,
    /// For each value of the local, the destination of a threaded branch; the last one is the
    /// default. `None` if the branch must go to the loop: the target has operands, or is not a
    /// `block`, an `else` or the function's body.
    pub(super) targets: Vec<Option<Block>>,
    /// The targets that are in the loop.
    pub(super) inside: Vec<Block>,
}

/// How much of `loop`, `block`s and `local.get` precedes the current operator.
#[derive(Clone, Copy, Default)]
pub(super) enum LoopStart {
    /// None of these operators.
    #[default]
    Other,
    /// The loop, which has this index in `frames`, and blocks.
    Blocks(usize),
    /// The loop, blocks, and a `local.get` of this variable.
    Local(usize, Variable),
}

/// The kind of an enclosing block, with the data that the block's end needs.
pub(super) enum BlockKind {
    /// A `block`, or the function body.
    Block,
    Loop,
    /// The body of a leaf that is inlined.
    Inlined,
    /// An `if` before its `else`: the block for the `else`, and the parameters it starts with.
    If(Block, Vec<Value>),
    /// A `try_table`, or a legacy `try`.
    Try(Box<Try>),
    /// Any block that starts in unreachable code.
    Unreachable,
}

/// A `try_table`, or a legacy `try`.
#[derive(Default)]
pub(super) struct Try {
    /// The handler of the calls in the body that may throw, if there are such calls.
    pub(super) handler: Option<Block>,
    /// The number of edges to the handler.
    pub(super) ways: usize,
    /// The clauses of a `try_table`.
    pub(super) catches: Vec<Catch>,
    /// The exception that the current clause of a legacy `try` has caught; `None` in the body.
    pub(super) caught: Option<Caught>,
    /// The block in which the next clause of a legacy `try` is tested.
    pub(super) next: Option<Block>,
    /// The label to which a legacy `try` delegates exceptions, instead of clauses.
    pub(super) delegate: Option<u32>,
}

/// The exception that a clause has caught.
pub(super) enum Caught {
    /// The tag and its values.
    Values(u32, Vec<Value>),
    /// Any exception, by reference.
    Any(Value),
    /// None: the body cannot throw.
    Never,
}
