//! Where values are live: across blocks, and for how many instructions.

use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{Block, Function, Value, ValueDef};

/// The block that defines a value, if it is in the layout.
fn defining_block(func: &Function, value: Value) -> Option<Block> {
    match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => func.layout.inst_block(inst),
        ValueDef::Param(block, _) => func.layout.is_block_inserted(block).then_some(block),
        ValueDef::Union(..) => None,
    }
}

/// Values that are used outside the block that defines them.
pub(crate) fn shared_values(func: &Function) -> EntitySet<Value> {
    let mut shared = EntitySet::new();
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            for value in func.dfg.inst_values(inst) {
                let value = func.dfg.resolve_aliases(value);
                if defining_block(func, value) != Some(block) {
                    shared.insert(value);
                }
            }
        }
    }
    shared
}

/// The cost of a block, in instructions, when a value's live range passes through it.
const BLOCK_COST: u64 = 8;

/// A use of a value: its block and its position in the block.
struct UsePlace {
    value: Value,
    block: Block,
    place: u64,
}

/// The total length of all live ranges in instructions, or any number above `most` if the total
/// exceeds it. A value that is live into a block counts as live to the block's end.
pub(crate) fn live_range_length(func: &Function, most: u64) -> u64 {
    let cfg = ControlFlowGraph::with_function(func);
    let mut lengths: SecondaryMap<Block, u64> = SecondaryMap::new();
    let mut defined: SecondaryMap<Value, u64> = SecondaryMap::new();
    let mut uses = vec![];
    for block in func.layout.blocks() {
        let mut place = 0;
        for inst in func.layout.block_insts(block) {
            place += 1;
            for value in func.dfg.inst_values(inst) {
                let value = func.dfg.resolve_aliases(value);
                uses.push(UsePlace {
                    value,
                    block,
                    place,
                });
            }
            for value in func.dfg.inst_results(inst) {
                defined[*value] = place;
            }
        }
        lengths[block] = place;
    }
    // The values are visited in a fixed order, one at a time, so one mark per block is enough.
    uses.sort_by_key(|used| used.value);
    let mut marks: SecondaryMap<Block, Option<Value>> = SecondaryMap::new();
    let (mut sum, mut to_do) = (0, vec![]);
    for uses in uses.chunk_by(|a, b| a.value == b.value) {
        let value = uses[0].value;
        let Some(home) = defining_block(func, value) else {
            continue;
        };
        let mut longest = 0;
        for used in uses {
            // A use at or before the definition in the same block means that the value is live
            // around a loop.
            if used.block == home && used.place > defined[value] {
                longest = longest.max(used.place - defined[value]);
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
                    longest = lengths[home] - defined[value];
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
