//! What one function may cost: the code generator's work, and what it holds meanwhile, grow faster than some functions do.
//!
//! A function of a few hundred kilobytes may ask for more values than there is memory for: each block of 1,000 results, each
//! join of 50,000 locals, each call of 1,000 parameters is a few bytes of a module. And three steps take time by the square of
//! what they are given:
//!
//! * what a loop carries is found by asking for all locals that are used in it, and leaving out those that do not change, each
//!   by moving all others (`cranelift_frontend`);
//! * the optimiser looks for the block that a value is of among all blocks that dominate it;
//! * registers are allocated to a value by looking at what else has them, over all instructions that it is held across.
//!
//! The second is left out for functions that are deep. The others are counted before they are done, and have limits
//! (`parse/limits.rs`) some ten times as far away as the largest functions of real programs.

use crate::budget::Budget;
use crate::error::CompileError;
use crate::names::Callee;
use crate::parse::limits::{self, Limit};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{Block, Function, Signature, Value, ValueDef};
use pirn_format::metadata::Metadata;

/// Instructions times blocks up to which a function is optimised; in an interpreter of Ruby one has 2^30, others less.
const DEEP: u64 = 1 << 35;

/// Values, instructions and blocks that a function may have, and so many more for each byte of its body. The densest of that
/// interpreter's has five a byte; by calls of 1,000 parameters it could be hundreds, at some 10 us and 500 bytes each.
const NODES_FREE: u64 = 1 << 12;
const NODES_PER_BYTE: u64 = 1 << 6;

/// The same for their operands, which cost a fiftieth of that. It has fifteen a byte.
const OPERANDS_FREE: u64 = 1 << 16;
const OPERANDS_PER_BYTE: u64 = 1 << 9;

/// What a block costs beside its instructions when a value is followed through it.
const BLOCK_COST: u64 = 8;

/// How many pairs of locals in a loop cost as much as one way to where exceptions are caught and one local: 20 ns, and four
/// bytes.
const WAY_COST: u64 = 1 << 4;

/// Prices, in nanoseconds: twice what the costliest functions that were found take (`fuzz/checks`).
/// Most take a fifth of it, or less.
const FUNCTION_NS: u64 = 20_000;
const NODE_NS: u64 = 3000;
const OPERAND_NS: u64 = 300;
const HELD_NS: u64 = 50;
const PAIR_NS: u64 = 2;
/// Of each parameter and result beyond the first eight: it is stored and loaded, once more than
/// other values, where frames are large, and that is tried in three ways.
const STACKED_NS: u64 = 16_000;
const IN_REGISTERS: usize = 8;

/// Of each pair of parameters of blocks: registers are allocated to all that one local becomes,
/// which is looked at again each time that a part of it finds none.
const JOINED_NS: u64 = 2;

/// Nanoseconds of a unit.
const UNIT_NS: u64 = 1000;

/// What a function costs as it was translated, in units of the [`Budget`]. `pairs` is the sum of
/// its pairs of locals in loops.
pub(crate) fn cost(func: &Function, pairs: u64, budget: &Budget) -> u64 {
    let dfg = &func.dfg;
    let nodes = (dfg.num_insts() + dfg.num_values() + dfg.num_blocks()) as u64;
    let operands = dfg.value_lists.capacity() as u64;
    // What is more than the budget need not be counted to its end.
    let most = limits::FUNCTION_HELD.most();
    let held = held(
        func,
        most.min(budget.limit().saturating_mul(UNIT_NS) / HELD_NS),
    );
    // In range: the limits of one function are.
    let ns = FUNCTION_NS
        + nodes * NODE_NS
        + operands * OPERAND_NS
        + stacked(func) * STACKED_NS
        + joined(func).pow(2) * JOINED_NS
        + held * HELD_NS
        + pairs * PAIR_NS;
    ns.div_ceil(UNIT_NS)
}

/// Parameters of blocks, in all.
fn joined(func: &Function) -> u64 {
    let entry = func.layout.entry_block();
    let blocks = func.layout.blocks().filter(|block| Some(*block) != entry);
    let params = blocks.map(|block| func.dfg.num_block_params(block) as u64);
    params.sum()
}

/// Parameters and results that have no registers, in all: of the function, and of those that it
/// calls.
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

/// Whether the optimiser would take long for a function because of its depth.
pub(crate) fn is_deep(func: &Function) -> bool {
    func.dfg.num_insts() as u64 * func.dfg.num_blocks() as u64 > DEEP
}

/// Refuses functions that become too much.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) callee: Callee,
    pub(crate) metadata: &'a Metadata,
    pub(crate) budget: &'a Budget,
}

impl Work<'_> {
    fn check(self, limit: Limit, found: u64) -> Result<(), CompileError> {
        limit.check_function(found, || {
            crate::compile::describe(self.callee, self.metadata)
        })
    }

    /// Refuses intermediate code that has become too much for a body of so many bytes. To be asked after each operator, and
    /// to be cheap.
    pub(crate) fn check_size(self, func: &Function, bytes: u64) -> Result<(), CompileError> {
        let dfg = &func.dfg;
        let nodes = (dfg.num_insts() + dfg.num_values() + dfg.num_blocks()) as u64;
        let most = NODES_FREE + bytes * NODES_PER_BYTE;
        self.check(limits::FUNCTION_NODES.at_most(most), nodes)?;
        // What the pool has room for is less than twice what is in it, and as it begins empty, the same each time.
        let operands = dfg.value_lists.capacity() as u64;
        let most = OPERANDS_FREE + bytes * OPERANDS_PER_BYTE;
        self.check(limits::FUNCTION_OPERANDS.at_most(most), operands)
    }

    /// Refuses loops for which too much is looked at: the squares of what each carries are summed up in `sum`.
    pub(crate) fn check_loop(self, sum: &mut u64, carried: usize) -> Result<(), CompileError> {
        *sum += (carried as u64).pow(2);
        self.check_pairs(*sum)
    }

    /// Refuses `try`s for which too much is looked at: for each local that is used where exceptions are caught, all `ways` that
    /// lead there.
    pub(crate) fn check_try(
        self,
        sum: &mut u64,
        ways: usize,
        locals: usize,
    ) -> Result<(), CompileError> {
        *sum += ways as u64 * locals as u64 * WAY_COST;
        self.check_pairs(*sum)
    }

    /// Refuses so many pairs in one function, or in any function of a module of this size.
    fn check_pairs(self, pairs: u64) -> Result<(), CompileError> {
        self.check(limits::FUNCTION_LOOPS, pairs)?;
        let units = pairs * PAIR_NS / UNIT_NS;
        match units > self.budget.limit() {
            true => self.budget.draw(units),
            false => Ok(()),
        }
    }

    /// Refuses clauses of a `try` that take too many values, in all, before there are any.
    pub(crate) fn check_clauses(self, func: &Function, values: usize) -> Result<(), CompileError> {
        let nodes = (func.dfg.num_insts() + 2 * values) as u64;
        self.check(limits::FUNCTION_NODES, nodes)
    }

    /// Refuses a function whose values are held across too many instructions, in all.
    pub(crate) fn check_held(self, func: &Function) -> Result<(), CompileError> {
        let most = limits::FUNCTION_HELD.most();
        // No value is held across more than all.
        if func.dfg.num_values() as u64 * func.dfg.num_insts() as u64 <= most {
            return Ok(());
        }
        self.check(limits::FUNCTION_HELD, held(func, most))
    }
}

/// A use of a value: where, by block and place in it.
struct Use {
    value: Value,
    block: Block,
    place: u64,
}

/// Across how many instructions all values are held, summed up, or any sum above `most`. A value that comes into a block is taken
/// to be held to its end.
fn held(func: &Function, most: u64) -> u64 {
    let cfg = ControlFlowGraph::with_function(func);
    let mut lengths: SecondaryMap<Block, u64> = SecondaryMap::new();
    let mut made: SecondaryMap<Value, u64> = SecondaryMap::new();
    let mut uses = vec![];
    for block in func.layout.blocks() {
        let mut place = 0;
        for inst in func.layout.block_insts(block) {
            place += 1;
            for value in func.dfg.inst_values(inst) {
                let value = func.dfg.resolve_aliases(value);
                uses.push(Use {
                    value,
                    block,
                    place,
                });
            }
            for value in func.dfg.inst_results(inst) {
                made[*value] = place;
            }
        }
        lengths[block] = place;
    }
    // One value after the other, in a fixed order, so that one mark a block is enough.
    uses.sort_by_key(|used| used.value);
    let mut marks: SecondaryMap<Block, Option<Value>> = SecondaryMap::new();
    let (mut sum, mut to_do) = (0, vec![]);
    for uses in uses.chunk_by(|a, b| a.value == b.value) {
        let value = uses[0].value;
        let Some(home) = block_of(func, value) else {
            continue;
        };
        let mut longest = 0;
        for used in uses {
            // What a block takes and gives to itself comes around to it.
            if used.block == home && used.place > made[value] {
                longest = longest.max(used.place - made[value]);
            } else if marks[used.block] != Some(value) {
                marks[used.block] = Some(value);
                to_do.push(used.block);
            }
        }
        while let Some(block) = to_do.pop() {
            sum += lengths[block] + BLOCK_COST;
            if sum > most {
                return sum;
            }
            for pred in cfg.pred_iter(block) {
                if pred.block == home {
                    longest = lengths[home] - made[value];
                } else if marks[pred.block] != Some(value) {
                    marks[pred.block] = Some(value);
                    to_do.push(pred.block);
                }
            }
        }
        sum += longest;
    }
    sum
}

/// The block that makes a value, if any does.
fn block_of(func: &Function, value: Value) -> Option<Block> {
    match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => func.layout.inst_block(inst),
        ValueDef::Param(block, _) => func.layout.is_block_inserted(block).then_some(block),
        ValueDef::Union(..) => None,
    }
}
