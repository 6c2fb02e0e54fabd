//! Reorders instructions without side effects in long blocks, to reduce register pressure.
//!
//! The translator places such instructions where the guest's compiler had them. Cranelift's
//! optimiser places them before their first use, and lowering keeps that order. Some blocks compute
//! with many more values than there are registers, for example in unrolled ciphers. In such a block
//! the order decides how many values are spilled.
//!
//! This pass schedules such a block from its end to its start. An instruction is ready once all its
//! users are scheduled. Effects keep their order: an effect also waits for the next effect of the
//! old order. The pass picks the ready instruction that keeps the fewest values live. Among equals,
//! it picks the instruction whose user was scheduled last (bottom-up list scheduling for registers:
//! Goodman and Hsu, Code scheduling and register allocation in large basic blocks, 1988).
//!
//! Loads, stores, and instructions that have another effect or may trap keep their order, so a
//! guest cannot observe the change.
//!
//! `optimize/mod.rs` runs the pass instead of the optimiser, on functions with a large frame and
//! far more live values than registers. `optimize/mod.rs` takes the result only if the machine code
//! is below `SCHEDULED_PERCENT` of the optimised code's size.

use crate::ir::block::{List, Numbers, Registers, is_free};
use crate::ir::liveness::shared_values;
use cranelift_codegen::ir::{Block, Function, Inst};
use std::collections::BinaryHeap;

/// A block is reordered only if at least this percentage of its instructions may move.
const FREE_PERCENT: usize = 75;

/// Reorders the blocks whose register pressure exceeds the number of registers and most of whose
/// instructions may move. Returns whether there was such a block. The new order of a block may
/// equal the old order.
pub(crate) fn schedule(func: &mut Function, registers: Registers) -> bool {
    let mut is_changed = false;
    let mut shared = None;
    let mut numbers = Numbers::new();
    let blocks: Vec<_> = func.layout.blocks().collect();
    for block in blocks {
        let insts: Vec<_> = func.layout.block_insts(block).collect();
        let opcodes = insts.iter().map(|inst| func.dfg.insts[*inst].opcode());
        let free = opcodes.filter(|opcode| is_free(*opcode)).count();
        if insts.len() <= registers.fewest() || free * 100 < insts.len() * FREE_PERCENT {
            continue;
        }
        let shared = shared.get_or_insert_with(|| shared_values(func));
        let list = List::new(func, &insts, shared, &mut numbers);
        if list.exceeds(registers) {
            is_changed = true;
            let order = list.order();
            place(func, block, order.iter().map(|at| insts[*at as usize]));
        }
    }
    is_changed
}

/// The sum over all instructions of the live values without a register. Blocks that are too short
/// for [`schedule`] are left out.
pub(crate) fn excess(func: &Function, registers: Registers) -> u64 {
    let shared = shared_values(func);
    let mut numbers = Numbers::new();
    let blocks = func.layout.blocks();
    let of = blocks.map(|block| {
        let insts: Vec<_> = func.layout.block_insts(block).collect();
        if insts.len() <= registers.fewest() {
            return 0;
        }
        let list = List::new(func, &insts, &shared, &mut numbers);
        list.excesses(registers).map(|excess| excess as u64).sum()
    });
    of.sum()
}

fn place(func: &mut Function, block: Block, order: impl Iterator<Item = Inst>) {
    for inst in order {
        func.layout.remove_inst(inst);
        func.layout.append_inst(inst, block);
    }
}

impl List {
    /// Returns an order of the instructions that keeps few values live.
    fn order(&self) -> Vec<u32> {
        let mut successors = vec![0u32; self.nodes.len()];
        for before in self.nodes.iter().flat_map(|node| &node.before) {
            successors[*before as usize] += 1;
        }
        let mut order = Order {
            list: self,
            live: self.values.iter().map(|local| local.stays).collect(),
            wanted: vec![0; self.values.len()],
            successors,
            ready: BinaryHeap::new(),
        };
        order.run()
    }
}

/// The state of the bottom-up scheduler. Instructions are placed from the block's end to its start.
struct Order<'a> {
    list: &'a List,
    /// For each value, whether it is live above the instructions placed so far.
    live: Vec<bool>,
    /// For each value, the time at which a user was last placed: the count of placed instructions,
    /// including that user. 0 if no user was placed.
    wanted: Vec<u32>,
    /// For each instruction, the number of its successors that are not placed yet.
    successors: Vec<u32>,
    /// The ready instructions, best candidate first. An instruction is added again when its
    /// priority rises, so the queue may also hold placed instructions.
    ready: BinaryHeap<(Worth, u32)>,
}

/// Priority: by how much the instruction reduces the number of live values; then the last time at
/// which a user of its result was placed.
type Worth = (i32, u32);

impl Order<'_> {
    fn run(&mut self) -> Vec<u32> {
        let count = self.list.nodes.len();
        let mut order = Vec::with_capacity(count);
        let mut is_placed = vec![false; count];
        for at in 0..count as u32 {
            if self.successors[at as usize] == 0 {
                self.add(at);
            }
        }
        // The terminator is placed first, because every other instruction precedes it.
        let last = (0..count as u32).last();
        self.ready.extend(last.map(|last| ((i32::MAX, 0), last)));
        while let Some((_, at)) = self.ready.pop() {
            if !std::mem::replace(&mut is_placed[at as usize], true) {
                order.push(at);
                self.place(at, order.len() as u32);
            }
        }
        order.reverse();
        order
    }

    fn place(&mut self, at: u32, time: u32) {
        let node = &self.list.nodes[at as usize];
        for value in &node.defines {
            self.live[*value as usize] = false;
        }
        for value in &node.uses {
            self.wanted[*value as usize] = time;
            if !std::mem::replace(&mut self.live[*value as usize], true) {
                // The value is live now, so placing its other users adds no live value.
                for user in &self.list.values[*value as usize].users {
                    if *user != at && self.successors[*user as usize] == 0 {
                        self.add(*user);
                    }
                }
            }
        }
        for before in &node.before {
            self.successors[*before as usize] -= 1;
            if self.successors[*before as usize] == 0 {
                self.add(*before);
            }
        }
    }

    fn add(&mut self, at: u32) {
        let node = &self.list.nodes[at as usize];
        let live = |value: &&u32| self.live[**value as usize];
        let begun = node.uses.iter().filter(|value| !live(value)).count();
        let ended = node.defines.iter().filter(live).count();
        let wanted = node
            .defines
            .iter()
            .map(|value| self.wanted[*value as usize]);
        let worth = (ended as i32 - begun as i32, wanted.max().unwrap_or(0));
        self.ready.push((worth, at));
    }
}

#[cfg(test)]
pub(crate) mod tests;
