//! The order of what has no effect in long blocks, so that few values are alive at once.
//!
//! The translator puts what has no effect where the guest's compiler had it, Cranelift's optimiser where it is first
//! wanted, and lowering keeps that order. Where a block computes with many more values than there are registers, as
//! unrolled ciphers do, the order decides how many of them are spilled. Here such a block is ordered anew, from
//! its end to its start: of all that nothing without a place uses any more, next comes what leaves fewest values
//! alive, and of these what was wanted last (bottom-up list scheduling for registers: Goodman and Hsu, Code
//! scheduling and register allocation in large basic blocks, 1988).
//!
//! What has an effect, or may trap, keeps its order, so a guest cannot tell.

use crate::block::{List, Numbers, Registers, is_free};
use crate::values::shared_values;
use cranelift_codegen::ir::{Block, Function, Inst};
use std::collections::BinaryHeap;

/// How many hundredths of a block's instructions must have no effect for an order of our own.
const FREE_PERCENT: usize = 75;

/// Orders anew the blocks of a function in which more values are alive at once than there are registers, and most
/// of which may be ordered; whether there is one.
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
        if list.presses(registers) {
            is_changed = true;
            let order = list.order();
            place(func, block, order.iter().map(|at| insts[*at as usize]));
        }
    }
    is_changed
}

fn place(func: &mut Function, block: Block, order: impl Iterator<Item = Inst>) {
    for inst in order {
        func.layout.remove_inst(inst);
        func.layout.append_inst(inst, block);
    }
}

impl List {
    /// An order that leaves few values alive at once.
    fn order(&self) -> Vec<u32> {
        let mut behind = vec![0u32; self.nodes.len()];
        for before in self.nodes.iter().flat_map(|node| &node.before) {
            behind[*before as usize] += 1;
        }
        let mut order = Order {
            list: self,
            live: self.values.iter().map(|local| local.stays).collect(),
            wanted: vec![0; self.values.len()],
            behind,
            ready: BinaryHeap::new(),
        };
        order.run()
    }
}

/// An order while it is made, from the end on.
struct Order<'a> {
    list: &'a List,
    /// Which values are used by what has its place, or by other blocks.
    live: Vec<bool>,
    /// When what uses a value had its place last.
    wanted: Vec<u32>,
    /// How many of those that must come behind an instruction have no place yet.
    behind: Vec<u32>,
    /// What all of those have their place of, the next one first, and perhaps once more with what it was worth
    /// earlier.
    ready: BinaryHeap<(Worth, u32)>,
}

/// How many values less are alive before an instruction than behind it, and when its own was wanted.
type Worth = (i32, u32);

impl Order<'_> {
    fn run(&mut self) -> Vec<u32> {
        let count = self.list.nodes.len();
        let mut order = Vec::with_capacity(count);
        let mut is_placed = vec![false; count];
        for at in 0..count as u32 {
            if self.behind[at as usize] == 0 {
                self.add(at);
            }
        }
        // The last one leaves the block: everything else is before it.
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
        for value in &node.makes {
            self.live[*value as usize] = false;
        }
        for value in &node.uses {
            self.wanted[*value as usize] = time;
            if !std::mem::replace(&mut self.live[*value as usize], true) {
                // It costs the others that use it nothing any more.
                for user in &self.list.values[*value as usize].users {
                    if *user != at && self.behind[*user as usize] == 0 {
                        self.add(*user);
                    }
                }
            }
        }
        for before in &node.before {
            self.behind[*before as usize] -= 1;
            if self.behind[*before as usize] == 0 {
                self.add(*before);
            }
        }
    }

    fn add(&mut self, at: u32) {
        let node = &self.list.nodes[at as usize];
        let live = |value: &&u32| self.live[**value as usize];
        let begun = node.uses.iter().filter(|value| !live(value)).count();
        let ended = node.makes.iter().filter(live).count();
        let wanted = node.makes.iter().map(|value| self.wanted[*value as usize]);
        let worth = (ended as i32 - begun as i32, wanted.max().unwrap_or(0));
        self.ready.push((worth, at));
    }
}

#[cfg(test)]
pub(crate) mod tests;
