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
    /// Whether any of these branches is itself not cold.
    pub(super) end_likely: bool,
    /// Whether it is a block of the table of a loop around it. Then branches to its end may be
    /// translated up to the end of that loop.
    pub(super) is_dispatched: bool,
    /// The table of blocks that the loop starts with.
    pub(super) dispatch: Option<Dispatch>,
}

impl Frame {
    /// The blocks of a loop's table that are in the loop.
    pub(super) fn dispatched(&self) -> &[Block] {
        let dispatch = self.dispatch.as_ref();
        dispatch.map_or(&[], |dispatch| &dispatch.inside)
    }
}

/// The branch by a table that a loop starts with (`threading.rs`).
pub(super) struct Dispatch {
    /// The local variable that is the operand of the branch.
    pub(super) local: Variable,
    /// For each value of the local, the end of the block that the branch goes to. `None` if the
    /// target is no block, or a block with results. The last one is for all greater values.
    pub(super) targets: Vec<Option<Block>>,
    /// Those of the blocks that are in the loop.
    pub(super) inside: Vec<Block>,
}

/// What was translated last, if it may be the start of a loop with a table.
#[derive(Clone, Copy, Default)]
pub(super) enum LoopStart {
    /// Something else.
    #[default]
    Other,
    /// The loop, which has this index in `frames`, and blocks.
    Blocks(usize),
    /// The loop, blocks, and a `local.get` of this variable.
    Local(usize, Variable),
}

/// The kind of an enclosing block, with what its end needs.
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
    /// The handler of the calls in its body that may throw, if there are any.
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
