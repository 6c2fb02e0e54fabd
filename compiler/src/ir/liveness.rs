//! Where values are live: across blocks, and for how many instructions.

use cranelift_codegen::entity::packed_option::PackedOption;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{Block, Function, Value};

/// Values that are used outside the block that defines them. All blocks must be reachable: only an
/// unreachable block can use a value before it defines it, and the value would count as shared.
pub(crate) fn shared_values(func: &Function) -> EntitySet<Value> {
    let mut shared = EntitySet::new();
    let mut homes: SecondaryMap<Value, PackedOption<Block>> = SecondaryMap::new();
    homes.resize(func.dfg.num_values());
    for block in func.layout.blocks() {
        for param in func.dfg.block_params(block) {
            homes[*param] = block.into();
        }
        for inst in func.layout.block_insts(block) {
            for value in func.dfg.inst_values(inst) {
                let value = func.dfg.resolve_aliases(value);
                if homes[value] != block.into() {
                    shared.insert(value);
                }
            }
            for result in func.dfg.inst_results(inst) {
                homes[*result] = block.into();
            }
        }
    }
    shared
}

/// The cost of a block, in instructions, when a value's live range passes through it.
const BLOCK_COST: u64 = 8;

/// The definition of a value, and its last use in the same block. Positions count instructions from
/// the start of the block.
#[derive(Clone, Copy, Default)]
struct LocalRange {
    block: PackedOption<Block>,
    defined: u32,
    last: u32,
}

/// The total length of all live ranges in instructions, or any number above `most` if the total
/// exceeds it. A value that is live into a block counts as live to the block's end.
pub(crate) fn live_range_length(func: &Function, most: u64) -> u64 {
    let cfg = ControlFlowGraph::with_function(func);
    let mut lengths: SecondaryMap<Block, u32> = SecondaryMap::new();
    let mut ranges: SecondaryMap<Value, LocalRange> = SecondaryMap::new();
    ranges.resize(func.dfg.num_values());
    // Uses outside the block of the definition, or before the definition.
    let mut outside = vec![];
    for block in func.layout.blocks() {
        let mut place = 0;
        let range = LocalRange {
            block: block.into(),
            ..LocalRange::default()
        };
        for param in func.dfg.block_params(block) {
            ranges[*param] = range;
        }
        for inst in func.layout.block_insts(block) {
            place += 1;
            for value in func.dfg.inst_values(inst) {
                let value = func.dfg.resolve_aliases(value);
                if ranges[value].block == range.block {
                    ranges[value].last = place;
                } else {
                    outside.push((value, block));
                }
            }
            for result in func.dfg.inst_results(inst) {
                ranges[*result] = LocalRange {
                    defined: place,
                    last: place,
                    ..range
                };
            }
        }
        lengths[block] = place;
    }
    let local = ranges.values().map(|range| range.last - range.defined);
    let mut sum = local.map(u64::from).sum();
    outside.sort_unstable();
    outside.dedup();
    // The values are visited one at a time, so one mark per block is enough.
    let mut marks: SecondaryMap<Block, PackedOption<Value>> = SecondaryMap::new();
    let mut to_do = vec![];
    for uses in outside.chunk_by(|a, b| a.0 == b.0) {
        let value = uses[0].0;
        let range = ranges[value];
        let Some(home) = range.block.expand() else {
            continue;
        };
        for (_, block) in uses {
            marks[*block] = value.into();
            to_do.push(*block);
        }
        let mut leaves = false;
        while let Some(block) = to_do.pop() {
            sum += u64::from(lengths[block]) + BLOCK_COST;
            if sum > most {
                return sum;
            }
            for pred in cfg.pred_iter(block) {
                if pred.block == home {
                    leaves = true;
                } else if marks[pred.block] != value.into() {
                    marks[pred.block] = value.into();
                    to_do.push(pred.block);
                }
            }
        }
        if leaves {
            sum += u64::from(lengths[home] - range.last);
        }
    }
    sum
}

#[cfg(test)]
mod tests;
