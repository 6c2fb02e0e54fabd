//! Spills values of long blocks explicitly, before register allocation.
//!
//! Cranelift's register allocator gives a live range a register where it can. Otherwise it splits
//! the range and tries again, guided by how often the remainder is used. In a block without
//! branches the next use of every value is known. Where such a block computes with many more values
//! than there are registers, it is cheapest to spill the value whose next use is farthest away (L.
//! A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966).
//!
//! This pass inserts stores to the stack frame and loads from it into the IR, so that the pressure
//! never exceeds the allocator's registers. Some instructions overwrite one operand and can read
//! the other one from memory. If the spilled value has no near use after such an instruction, it is
//! loaded for that instruction alone and becomes its memory operand ([`loads`]).
//!
//! A memory operand is addressed through a register that holds the frame's address, because
//! lowering would otherwise compute that address first. All other accesses use rsp: processors
//! forward a store to a load sooner if both use rsp.

use crate::ir::block::{List, Numbers, Registers, is_constant};
use crate::ir::liveness::shared_values;
use crate::optimize::after_cranelift::loads::{self, is_operand};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    Block, Function, Inst, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind,
    Value,
};

/// Registers reserved for the address of the frame and for values that live only one or two
/// instructions.
const APART: usize = 3;

/// Bytes of one spill slot in the frame.
const PLACE_BYTES: i32 = 8;

/// Spills values in the blocks whose register pressure exceeds the registers.
pub(crate) fn spill(func: &mut Function, registers: Registers) {
    let shared = shared_values(func);
    let mut numbers = Numbers::new();
    let blocks: Vec<_> = func.layout.blocks().collect();
    for block in blocks {
        let insts: Vec<_> = func.layout.block_insts(block).collect();
        let list = List::new(func, &insts, &shared, &mut numbers);
        if list.exceeds(registers) {
            let count = registers.0[0] - APART;
            Spiller::new(func, block, &list, &numbers, count).run(&insts);
        }
    }
}

/// The state of the spiller, which walks one block from its start to its end.
struct Spiller<'a> {
    func: &'a mut Function,
    list: &'a List,
    numbers: &'a Numbers,
    /// The largest number of values in registers.
    count: usize,
    /// The stack slot for spilled values, and its address.
    slot: StackSlot,
    frame: Value,
    /// The numbers of the values that are in registers.
    held: Vec<u32>,
    /// For each value, the IR value that its last load defined.
    names: Vec<Value>,
    /// For each value, its offset in the stack slot, once it was stored.
    places: Vec<Option<i32>>,
    /// For each value, how many of its users the walk has passed.
    passed: Vec<usize>,
    /// Offsets that no value uses any more.
    free: Vec<i32>,
    /// Bytes of all spill slots so far.
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
        let comes_in = |number: &u32| list.values[*number as usize].definition.is_none();
        this.held = numbers
            .filter(|number| comes_in(number) && this.is_managed(*number))
            .collect();
        this
    }

    /// Whether this pass may spill the value: an integer local to this block that is not a
    /// constant. A value that other blocks use stays live throughout this block.
    fn is_managed(&self, number: u32) -> bool {
        let local = &self.list.values[number as usize];
        let is_kept = local.stays || local.users.is_empty() || is_constant(self.func, local.value);
        is_operand(self.func.dfg.value_type(local.value)) && !is_kept
    }

    fn run(mut self, insts: &[Inst]) {
        let list = self.list;
        // The terminator keeps its operands: values that leave the block are not managed here.
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
            let after = self.func.layout.next_inst(*inst).expect("a terminator");
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
            let defined = node
                .defines
                .iter()
                .filter(|number| self.is_managed(**number));
            let defined: Vec<_> = defined.copied().collect();
            self.held.extend(defined);
            self.make_room(self.count, &[], after);
        }
        self.func.sized_stack_slots[self.slot].size = self.bytes as u32;
    }

    /// The position of the next instruction that uses a value.
    fn next_use(&self, number: u32) -> Option<u32> {
        let users = &self.list.values[number as usize].users;
        users.get(self.passed[number as usize]).copied()
    }

    /// Priority for spilling: a far next use first, then a value that is in memory already.
    fn worth(&self, number: u32) -> (u32, bool) {
        let next = self.next_use(number).unwrap_or(u32::MAX);
        (next, self.places[number as usize].is_some())
    }

    /// The spilled value that an instruction may use as a memory operand. The instruction must be
    /// the last use of its other operand, and the values in registers must all be used earlier.
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

    /// Spills values until at most `count` are in registers, but none of `uses`.
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

    /// Loads a spilled value, into a register or as a memory operand.
    fn load(&mut self, number: u32, before: Inst, is_operand: bool) -> Value {
        let place =
            self.places[number as usize].expect("a value without a register has a spill slot");
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

    /// Replaces the operands of an instruction by the current IR values.
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
