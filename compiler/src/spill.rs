//! Values of long blocks in memory while they are not wanted.
//!
//! Cranelift's allocator of registers gives a value a register where it lives, and where there is none, splits it and
//! tries again, by how often what is left is used. In a block without branches that computes with many more values
//! than there are registers it is known which value is wanted last, and putting that one away costs least (L. A.
//! Belady, A study of replacement algorithms for a virtual-storage computer, 1966). So here values are stored to the
//! frame and loaded from it by instructions of the intermediate code, such that no more are alive at once than the
//! allocator has registers for. Where the user of a value in memory writes over its other operand, and the value is
//! not wanted soon again, it is loaded for that user alone, and becomes its operand ([`loads`]).
//!
//! Such an operand is addressed by a register of its own, as lowering makes an address of the frame's own first; all
//! else by rsp, from which processors load sooner what has just been stored by it.

use crate::block::{List, Numbers, Registers, is_constant};
use crate::loads::{self, is_operand};
use crate::values::shared_values;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    Block, Function, Inst, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind,
    Value,
};

/// Registers that values leave to the address of the frame, and to what lives beside them for an instruction or two.
const APART: usize = 3;

/// Bytes that a value has in the frame.
const PLACE_BYTES: i32 = 8;

/// Keeps values of those blocks in memory in which more are alive at once than there are registers.
pub(crate) fn spill(func: &mut Function, registers: Registers) {
    let shared = shared_values(func);
    let mut numbers = Numbers::new();
    let blocks: Vec<_> = func.layout.blocks().collect();
    for block in blocks {
        let insts: Vec<_> = func.layout.block_insts(block).collect();
        let list = List::new(func, &insts, &shared, &mut numbers);
        if list.presses(registers) {
            let count = registers.0[0] - APART;
            Spiller::new(func, block, &list, &numbers, count).run(&insts);
        }
    }
}

/// A block while its values are put where there is room, from its start on.
struct Spiller<'a> {
    func: &'a mut Function,
    list: &'a List,
    numbers: &'a Numbers,
    /// How many values may be in registers.
    count: usize,
    /// The part of the frame, and its address.
    slot: StackSlot,
    frame: Value,
    /// Those in registers, by their numbers.
    held: Vec<u32>,
    /// Of every value its name since it was loaded last.
    names: Vec<Value>,
    /// Of every value its place in the frame, once it was stored.
    places: Vec<Option<i32>>,
    /// How many of its users have been passed, of every value.
    passed: Vec<usize>,
    /// Places that no value has any more.
    free: Vec<i32>,
    /// Bytes of all places.
    bytes: i32,
}

impl<'a> Spiller<'a> {
    fn new(
        func: &'a mut Function,
        block: Block,
        list: &'a List,
        numbers: &'a Numbers,
        count: usize,
    ) -> Self {
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 0, 3);
        let slot = func.create_sized_stack_slot(slot);
        let mut cursor = FuncCursor::new(func).at_first_insertion_point(block);
        let frame = cursor.ins().stack_addr(I64, slot, 0);
        let mut this = Self {
            func,
            list,
            numbers,
            count,
            slot,
            frame,
            held: vec![],
            names: list.values.iter().map(|local| local.value).collect(),
            places: vec![None; list.values.len()],
            passed: vec![0; list.values.len()],
            free: vec![],
            bytes: 0,
        };
        let numbers = 0..list.values.len() as u32;
        let comes_in = |number: &u32| list.values[*number as usize].maker.is_none();
        this.held = numbers
            .filter(|number| comes_in(number) && this.is_managed(*number))
            .collect();
        this
    }

    /// Whether it is put anywhere: an integer of this block, and no constant. What other blocks use, too, is alive in all
    /// of this one.
    fn is_managed(&self, number: u32) -> bool {
        let local = &self.list.values[number as usize];
        let is_kept = local.stays || local.users.is_empty() || is_constant(self.func, local.value);
        is_operand(self.func.dfg.value_type(local.value)) && !is_kept
    }

    fn run(mut self, insts: &[Inst]) {
        let list = self.list;
        // The last one leaves the block: what it uses is handed on as it is.
        for (inst, node) in insts.iter().zip(&list.nodes).take(insts.len() - 1) {
            let uses: Vec<_> = node
                .uses
                .iter()
                .copied()
                .filter(|number| self.is_managed(*number))
                .collect();
            for number in &uses {
                self.passed[*number as usize] += 1;
            }
            let behind = self.func.layout.next_inst(*inst).expect("not the last one");
            let operand = self.operand(*inst, &uses);
            for number in &uses {
                if !self.held.contains(number) && operand != Some(*number) {
                    self.make_room(self.count - 1, &uses, *inst);
                    let loaded = self.load(*number, *inst, false);
                    self.names[*number as usize] = loaded;
                    self.held.push(*number);
                }
            }
            if let Some(number) = operand {
                self.names[number as usize] = self.load(number, *inst, true);
            }
            self.rename(*inst);
            for number in &uses {
                if self.next_use(*number).is_none() {
                    self.held.retain(|held| held != number);
                    self.free.extend(self.places[*number as usize].take());
                }
            }
            let made = node.makes.iter().filter(|number| self.is_managed(**number));
            let made: Vec<_> = made.copied().collect();
            self.held.extend(made);
            self.make_room(self.count, &[], behind);
        }
        self.func.sized_stack_slots[self.slot].size = self.bytes as u32;
    }

    /// Where a value is used next.
    fn next_use(&self, number: u32) -> Option<u32> {
        let users = &self.list.values[number as usize].users;
        users.get(self.passed[number as usize]).copied()
    }

    /// How well a value is put away: by its next use, and rather one that is stored already.
    fn worth(&self, number: u32) -> (u32, bool) {
        let next = self.next_use(number).unwrap_or(u32::MAX);
        (next, self.places[number as usize].is_some())
    }

    /// Of what an instruction uses, that which it may use where it is, in memory: its other operand ends there, and all
    /// that are in registers are wanted earlier.
    fn operand(&self, inst: Inst, uses: &[u32]) -> Option<u32> {
        uses.iter().copied().find(|number| {
            if self.held.contains(number) {
                return false;
            }
            let value = self.list.values[*number as usize].value;
            let other = loads::other_operand(self.func, inst, value);
            let other = other.and_then(|other| self.list.find(other, self.numbers));
            let ends = other
                .is_some_and(|other| self.held.contains(&other) && self.next_use(other).is_none());
            let is_wanted_last = || {
                let others = self.held.iter().filter(|held| !uses.contains(held));
                let latest = others.map(|held| self.worth(*held).0).max();
                self.held.len() >= self.count
                    && latest.is_none_or(|latest| latest <= self.worth(*number).0)
            };
            ends && (self.next_use(*number).is_none() || is_wanted_last())
        })
    }

    /// Puts values away until only so many are in registers; none of `uses`.
    fn make_room(&mut self, count: usize, uses: &[u32], before: Inst) {
        while self.held.len() > count {
            let candidates = (0..self.held.len()).filter(|at| !uses.contains(&self.held[*at]));
            let Some(at) = candidates.max_by_key(|at| self.worth(self.held[*at])) else {
                return;
            };
            let number = self.held.swap_remove(at);
            if self.places[number as usize].is_none() && self.next_use(number).is_some() {
                let place = self.free.pop().unwrap_or(self.bytes);
                self.bytes = self.bytes.max(place + PLACE_BYTES);
                self.places[number as usize] = Some(place);
                let mut cursor = FuncCursor::new(self.func).at_inst(before);
                cursor.use_srcloc(before);
                let value = self.names[number as usize];
                let address = cursor.ins().stack_addr(I64, self.slot, place);
                cursor
                    .ins()
                    .store(MemFlagsData::trusted(), value, address, 0);
            }
        }
    }

    /// Loads a value that is in memory: into a register, or to be an operand.
    fn load(&mut self, number: u32, before: Inst, is_operand: bool) -> Value {
        let place = self.places[number as usize].expect("what is in no register was stored");
        let ty = self.func.dfg.value_type(self.names[number as usize]);
        let mut cursor = FuncCursor::new(self.func).at_inst(before);
        cursor.use_srcloc(before);
        let (address, offset) = match is_operand {
            true => (self.frame, place),
            false => (cursor.ins().stack_addr(I64, self.slot, place), 0),
        };
        let flags = MemFlagsData::trusted();
        cursor.ins().load(ty, flags, address, offset)
    }

    /// Has an instruction use its values by the names that they have now.
    fn rename(&mut self, inst: Inst) {
        let dfg = &mut self.func.dfg;
        for at in 0..dfg.inst_args(inst).len() {
            let value = dfg.resolve_aliases(dfg.inst_args(inst)[at]);
            if let Some(number) = self.list.find(value, self.numbers) {
                dfg.inst_args_mut(inst)[at] = self.names[number as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests;
