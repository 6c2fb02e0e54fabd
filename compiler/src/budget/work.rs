//! Limits the cost of one function: for some functions, the code generator's time and memory grow
//! faster than their size.
//!
//! A function of a few hundred kilobytes may need more values than memory can hold. Each block of
//! 1,000 results, each join of 50,000 locals and each call of 1,000 parameters takes a few bytes of
//! a module. Three steps take quadratic time:
//!
//! * `cranelift_frontend` finds the values that a loop carries by adding a block parameter for each
//!   local used in the loop. The builder then removes parameters that do not change, and moves all
//!   other parameters for each removal;
//! * the optimiser searches for the block of a value among all blocks that dominate it;
//! * the register allocator compares a live range with the other allocations of a register, over
//!   all instructions in the range.
//!
//! The optimiser is skipped for deep functions. The other two costs are counted before the work is
//! done. Their limits (`limits.rs`) are about ten times the cost of the largest functions of
//! real programs.

use crate::budget::Budget;
use crate::error::CompileError;
use crate::ir::liveness::live_range_length;
use crate::limits::{self, Limit};
use crate::symbol::Symbol;
use cranelift_codegen::Context;
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Function, Signature};
use cranelift_codegen::loop_analysis::{Loop, LoopAnalysis};
use pirn_format::metadata::Metadata;

/// Up to this product of instructions and blocks a function is optimised. One function of a Ruby
/// interpreter has 2^30, all other functions have less.
const DEEP: u64 = 1 << 35;

/// Up to this product of instructions and the square of the loop depth a function is optimised. At
/// the limit, optimisation takes 0.7 s. For each operand, Cranelift's optimiser tests the enclosing
/// loops in order, until one does not contain the operand's definition. Each test walks up from the
/// innermost loop around that definition.
const NESTED: u64 = 1 << 33;

/// The values, instructions and blocks that any function may have, and how many more for each byte
/// of its body. The densest function of a Ruby interpreter has five per byte. Calls with 1,000
/// parameters could need hundreds per byte. [`NODE_NS`] is the price of a value, which also takes
/// some 500 bytes of memory.
const NODES_FREE: u64 = 1 << 12;
const NODES_PER_BYTE: u64 = 1 << 6;

/// The operands that any function may have, and how many more for each byte of its body. The
/// densest function of a Ruby interpreter has fifteen per byte. [`OPERAND_NS`] is the price of an
/// operand.
const OPERANDS_FREE: u64 = 1 << 16;
const OPERANDS_PER_BYTE: u64 = 1 << 9;

/// A local with one edge to an exception handler costs 20 ns and four bytes. So does this number of
/// pairs of locals in a loop.
const WAY_COST: u64 = 1 << 4;

/// Prices in nanoseconds: twice the time that the costliest known functions take
/// (`testing/fuzz/checks`). Most functions take a fifth of these prices or less.
const FUNCTION_NS: u64 = 20_000;
const NODE_NS: u64 = 3000;
const OPERAND_NS: u64 = 300;
const LIVE_NS: u64 = 50;
const PAIR_NS: u64 = 2;
/// Price of each parameter and result beyond the first eight. Such a value is stored and loaded,
/// once more than other values if the frame is large. Up to three code versions are tried.
const STACKED_NS: u64 = 16_000;
const IN_REGISTERS: usize = 8;

/// Price of each pair of block parameters. All block parameters of one local are allocated
/// together, and examined again each time that some of the parameters get no register.
const JOINED_NS: u64 = 2;

/// Memory in bytes for a node while machine code is generated.
const CODEGEN_BYTES: u64 = 2000;

/// Nanoseconds per unit.
const UNIT_NS: u64 = 1000;

/// The cost of a translated function in units of the [`Budget`]. `pairs` is the number of pairs of
/// locals in the function's loops.
pub(crate) fn cost(func: &Function, pairs: u64, budget: &Budget) -> u64 {
    let dfg = &func.dfg;
    let operands = dfg.value_lists.capacity() as u64;
    // Counting stops once the result exceeds the budget.
    let most = limits::FUNCTION_LIVE_RANGES.most();
    let live = live_range_length(
        func,
        most.min(budget.limit().saturating_mul(UNIT_NS) / LIVE_NS),
    );
    // The sum does not overflow: the limits of one function bound each term.
    let ns = FUNCTION_NS
        + nodes(func) * NODE_NS
        + operands * OPERAND_NS
        + stacked(func) * STACKED_NS
        + joined(func).pow(2) * JOINED_NS
        + live * LIVE_NS
        + pairs * PAIR_NS;
    ns.div_ceil(UNIT_NS)
}

/// The bytes of memory that generating the function's machine code takes at most.
pub(crate) fn codegen_bytes(func: &Function) -> u64 {
    nodes(func) * CODEGEN_BYTES
}

/// The number of values, instructions and blocks.
fn nodes(func: &Function) -> u64 {
    let dfg = &func.dfg;
    (dfg.num_insts() + dfg.num_values() + dfg.num_blocks()) as u64
}

/// The number of block parameters, except the parameters of the entry block.
fn joined(func: &Function) -> u64 {
    let entry = func.layout.entry_block();
    let blocks = func.layout.blocks().filter(|block| Some(*block) != entry);
    let params = blocks.map(|block| func.dfg.num_block_params(block) as u64);
    params.sum()
}

/// The number of parameters and results without registers, of the function and of its callees.
fn stacked(func: &Function) -> u64 {
    let more = |count: usize| count.saturating_sub(IN_REGISTERS) as u64;
    let of = |signature: &Signature| more(signature.params.len()) + more(signature.returns.len());
    let insts = func
        .layout
        .blocks()
        .flat_map(|block| func.layout.block_insts(block));
    let calls = insts.filter_map(|inst| func.dfg.call_signature(inst));
    let calls: u64 = calls.map(|called| of(&func.dfg.signatures[called])).sum();
    of(&func.signature) + calls
}

/// Whether the function exceeds `DEEP` or `NESTED`, so that the optimiser would take too long.
pub(crate) fn is_deep(context: &mut Context) -> bool {
    let dfg = &context.func.dfg;
    let (insts, blocks) = (dfg.num_insts() as u64, dfg.num_blocks() as u64);
    if insts * blocks > DEEP {
        return true;
    }
    let is_nested = |depth: u64| insts.saturating_mul(depth * depth) > NESTED;
    // Loops cannot be nested deeper than there are blocks.
    if !is_nested(blocks) {
        return false;
    }
    context.flowgraph();
    context.compute_loop_analysis();
    is_nested(loop_depth(&context.loop_analysis))
}

/// The largest nesting depth of loops.
fn loop_depth(loops: &LoopAnalysis) -> u64 {
    let mut depths: SecondaryMap<Loop, u64> = SecondaryMap::new();
    let mut outwards = vec![];
    for inner in loops.loops() {
        let mut next = Some(inner);
        while let Some(at) = next.filter(|at| depths[*at] == 0) {
            outwards.push(at);
            next = loops.loop_parent(at);
        }
        let mut depth = next.map_or(0, |known| depths[known]);
        while let Some(at) = outwards.pop() {
            depth += 1;
            depths[at] = depth;
        }
    }
    depths.values().copied().max().unwrap_or(0)
}

/// Checks of one function against its limits.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) symbol: Symbol,
    pub(crate) metadata: &'a Metadata,
    pub(crate) budget: &'a Budget,
}

impl Work<'_> {
    fn check(self, limit: Limit, found: u64) -> Result<(), CompileError> {
        limit.check_function(found, || self.symbol.describe(self.metadata))
    }

    /// Refuses IR that is too large for the part of the body translated so far, `bytes` bytes. The
    /// check is cheap, because the translator makes it after each operator.
    pub(crate) fn check_size(self, func: &Function, bytes: u64) -> Result<(), CompileError> {
        let dfg = &func.dfg;
        let most = NODES_FREE + bytes * NODES_PER_BYTE;
        self.check(limits::FUNCTION_NODES.at_most(most), nodes(func))?;
        // The pool's capacity is less than twice its content. The pool starts empty, so the
        // capacity is the same each time.
        let operands = dfg.value_lists.capacity() as u64;
        let most = OPERANDS_FREE + bytes * OPERANDS_PER_BYTE;
        self.check(limits::FUNCTION_OPERANDS.at_most(most), operands)
    }

    /// Refuses loops that cost too much: `sum` adds up the squares of the numbers of carried
    /// values.
    pub(crate) fn check_loop(self, sum: &mut u64, carried: usize) -> Result<(), CompileError> {
        *sum += (carried as u64).pow(2);
        self.check_pairs(*sum)
    }

    /// Refuses `try`s that cost too much. For each local that is used in a handler, Cranelift
    /// examines all `ways`, the edges to the handler.
    pub(crate) fn check_try(
        self,
        sum: &mut u64,
        ways: usize,
        locals: usize,
    ) -> Result<(), CompileError> {
        *sum += ways as u64 * locals as u64 * WAY_COST;
        self.check_pairs(*sum)
    }

    /// Refuses a number of pairs above the limit of one function, or above the budget of the
    /// module.
    fn check_pairs(self, pairs: u64) -> Result<(), CompileError> {
        self.check(limits::FUNCTION_LOOPS, pairs)?;
        let units = pairs * PAIR_NS / UNIT_NS;
        match units > self.budget.limit() {
            true => self.budget.draw(units),
            false => Ok(()),
        }
    }

    /// Refuses a `try` whose clauses take too many values in total, before the values are created.
    pub(crate) fn check_clauses(self, func: &Function, values: usize) -> Result<(), CompileError> {
        let nodes = (func.dfg.num_insts() + 2 * values) as u64;
        self.check(limits::FUNCTION_NODES, nodes)
    }

    /// Refuses a function whose live ranges have too many instructions in total.
    pub(crate) fn check_live_ranges(self, func: &Function) -> Result<(), CompileError> {
        let most = limits::FUNCTION_LIVE_RANGES.most();
        // An upper bound: each value is live across all instructions.
        if func.dfg.num_values() as u64 * func.dfg.num_insts() as u64 <= most {
            return Ok(());
        }
        self.check(limits::FUNCTION_LIVE_RANGES, live_range_length(func, most))
    }
}
