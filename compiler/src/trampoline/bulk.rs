//! Inline `memory.copy` and `memory.fill` (spec 4.4.7) of at most [`SHORT`] bytes inside memory 0:
//! loads and stores. Longer operations in memory 0 call a routine of the runtime on this stack,
//! which checks the bounds. Operations on other memories exit to the runtime, and so does what the
//! routine has left.
//!
//! A fault or a signal during the loads and stores of this file hits generated code, as it may
//! anywhere in a guest.
//!
//! Overlapping accesses of one width cover the length. All values are loaded before anything is
//! stored, so source and destination may overlap.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ This file is a part of the sandbox. Every change to it wants two reviews.                    │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! Addresses are `base + index + offset`. The index is the guest's, zero-extended from 32 bits. For
//! a 64-bit memory, the index is the lower half, which is compared with the whole index (see
//! `translate/bounds.rs`). An offset is never below 0 or above [`SHORT`], not even under a
//! mispredicted branch. The context lies below the base. A speculative store to the context is
//! never committed, but later loads could see it and give a guest another base.

use super::Trampoline;
use crate::ir::types::{POINTER, bulk_signature};
use crate::translate::Env;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, Value, types,
};
use pirn_format::exit::{self, Builtin, CELL_BYTES, Kind, SHORT_BULK_BYTES};
use pirn_format::layout::{
    CONTEXT_COPY, CONTEXT_EXIT, CONTEXT_FILL, CONTEXT_MEMORY, MEMORY_BASE, MEMORY_BYTES,
};
use pirn_format::types::AddrType;
use types::{I8, I8X16, I16, I32, I64};

/// Most bytes that are written without the runtime.
const SHORT: i64 = SHORT_BULK_BYTES as i64;
const _: () = assert!(SHORT.count_ones() == 1, "SHORT - 1 is a mask");

/// Bytes of the widest access. Four of them cover [`SHORT`].
const WIDE: i64 = 16;
const _: () = assert!(SHORT == 4 * WIDE);

/// The bytes to write.
#[derive(Clone, Copy)]
struct ByteRange {
    /// Address of the first byte to write.
    to: Value,
    len: Value,
}

/// The data to write.
#[derive(Clone, Copy)]
enum BulkSource {
    /// The bytes starting at this address.
    Memory(Value),
    /// One byte, in an i64.
    Byte(Value),
}

impl Trampoline<'_> {
    /// Performs the operation without an exit if possible, and returns from the function. Otherwise
    /// continues in a new block.
    pub(super) fn in_place(&mut self, builtin: Builtin, env: Env<'_>) {
        let (memories, to, source, len) = match (builtin, &self.params[1..]) {
            (Builtin::MemoryCopy, &[a, b, to, from, len]) => {
                (vec![a, b], to, BulkSource::Memory(from), len)
            }
            (Builtin::MemoryFill, &[a, to, byte, len]) => {
                (vec![a], to, BulkSource::Byte(byte), len)
            }
            _ => return,
        };
        let leave = self.builder.create_block();
        self.builder.set_cold_block(leave);
        if env.metadata.memories.len() > 1 {
            for memory in memories {
                self.unless(memory, leave);
            }
        }
        let long = self.builder.create_block();
        let is_long = IntCC::UnsignedGreaterThan;
        let is_long = self.builder.ins().icmp_imm_u(is_long, len, SHORT);
        let short = self.builder.create_block();
        self.builder.ins().brif(is_long, long, [], short, []);
        self.builder.switch_to_block(short);
        self.short(env, to, source, len, is_long, leave);
        self.builder.switch_to_block(long);
        self.long(builtin, to, source, len);
        self.builder.switch_to_block(leave);
    }

    /// Performs an operation of at most [`SHORT`] bytes, and returns from the function.
    fn short(
        &mut self,
        env: Env<'_>,
        to: Value,
        source: BulkSource,
        len: Value,
        is_long: Value,
        leave: Block,
    ) {
        let (base, bytes) = self.memory(env);
        // A mispredicted access to another memory may use its index for memory 0, so that index
        // must be 32 bits wide as well.
        let mut memories = env.metadata.memories.iter();
        let (to, source) = match (memories.any(|ty| ty.address == AddrType::I64), source) {
            (false, source) => (to, source),
            (true, BulkSource::Memory(from)) => (
                self.low(to, leave),
                BulkSource::Memory(self.low(from, leave)),
            ),
            (true, source) => (self.low(to, leave), source),
        };
        let mut end = to;
        if let BulkSource::Memory(from) = source {
            end = self.builder.ins().umax(to, from);
        }
        // The indices and the length are less than 2^32, so the sum does not wrap.
        let end = self.builder.ins().iadd(end, len);
        let outside = self
            .builder
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, end, bytes);
        self.unless(outside, leave);
        let mut range = ByteRange {
            to: self.builder.ins().iadd(base, to),
            len,
        };
        if env.spectre {
            // The length stays within the limit even under misprediction.
            let none = self.builder.ins().iconst(I64, 0);
            range.len = self.builder.ins().select_spectre_guard(is_long, none, len);
        }
        match source {
            BulkSource::Memory(from) => {
                let from = self.builder.ins().iadd(base, from);
                self.write(range, BulkSource::Memory(from));
            }
            BulkSource::Byte(byte) => {
                // The value is zero-extended from 32 bits; only the lowest 8 count.
                let byte = self.builder.ins().band_imm_u(byte, 0xff);
                self.write(range, BulkSource::Byte(byte));
            }
        }
    }

    /// Calls the runtime's routine, exits for what the routine has left, and returns from the
    /// function.
    ///
    /// The parameters and the context wait in the frame. In registers that a callee preserves, they
    /// would make the function save these registers also for a few bytes.
    fn long(&mut self, builtin: Builtin, to: Value, source: BulkSource, len: Value) {
        let (field, from) = match source {
            BulkSource::Memory(from) => (CONTEXT_COPY, from),
            BulkSource::Byte(byte) => (CONTEXT_FILL, byte),
        };
        let (vmctx, flags) = (self.params[0], MemFlagsData::trusted());
        let cells = self.cells_slot(builtin.params());
        let cell = |number: usize| number as i32 * CELL_BYTES as i32;
        let params = self.params[1..].to_vec();
        for (number, param) in params.iter().enumerate().skip(1) {
            self.builder
                .ins()
                .stack_store(POINTER, *param, cells, cell(number));
        }
        // The first cell is written after the call. Otherwise, the optimiser would compute its
        // address once, and keep it in a register during the call.
        let waiting = [vmctx, params[0]];
        let bytes = POINTER.bytes() * waiting.len() as u32;
        let home = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
        let home = self.builder.create_sized_stack_slot(home);
        let place = |number: usize| (POINTER.bytes() as usize * number) as i32;
        for (number, value) in waiting.into_iter().enumerate() {
            self.builder
                .ins()
                .stack_store(POINTER, value, home, place(number));
        }
        let routine = self
            .builder
            .ins()
            .load(POINTER, flags.with_readonly(), vmctx, field);
        let signature = self.builder.import_signature(bulk_signature());
        let call = self
            .builder
            .ins()
            .call_indirect(signature, routine, &[vmctx, to, from, len]);
        let [skip, rest] = self.builder.inst_results(call)[..] else {
            unreachable!("the routine has two results")
        };
        let is_done = self.builder.ins().icmp_imm_s(IntCC::Equal, skip, -1);
        let (done, next) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(is_done, done, [], next, []);
        self.builder.switch_to_block(done);
        self.builder.ins().return_(&[]);
        self.builder.switch_to_block(next);
        self.builder.set_cold_block(next);
        let last = params.len() - 1;
        let moved = match source {
            BulkSource::Memory(_) => vec![last - 2, last - 1],
            BulkSource::Byte(_) => vec![last - 2],
        };
        for number in moved {
            let at = cell(number);
            let start = self.builder.ins().stack_load(POINTER, I64, cells, at);
            let start = self.builder.ins().iadd(start, skip);
            self.builder.ins().stack_store(POINTER, start, cells, at);
        }
        self.builder
            .ins()
            .stack_store(POINTER, rest, cells, cell(last));
        let [vmctx, first] = [0, 1].map(|number| {
            let ins = self.builder.ins();
            ins.stack_load(POINTER, POINTER, home, place(number))
        });
        let address = self.builder.ins().stack_addr(POINTER, cells, 0);
        self.store(address, &[first]);
        let reason = self.word(exit::reason(Kind::Builtin, builtin as u32));
        self.leave(CONTEXT_EXIT, vmctx, reason, address);
        self.builder.ins().return_(&[]);
    }

    /// The lower half of an index, zero-extended. Exits to the runtime if the upper half is not
    /// zero.
    fn low(&mut self, index: Value, leave: Block) -> Value {
        let low = self.builder.ins().ireduce(I32, index);
        let low = self.builder.ins().uextend(I64, low);
        let outside = self.builder.ins().icmp(IntCC::NotEqual, low, index);
        self.unless(outside, leave);
        low
    }

    /// Base and size of memory 0.
    fn memory(&mut self, env: Env<'_>) -> (Value, Value) {
        let (vmctx, flags) = (self.params[0], MemFlagsData::trusted());
        if env.imported.memories == 0 {
            let bytes = CONTEXT_MEMORY + MEMORY_BYTES;
            let bytes = self.builder.ins().load(POINTER, flags, vmctx, bytes);
            return (vmctx, bytes);
        }
        let cell = env.layout.memory(0);
        let desc = self.builder.ins().load(POINTER, flags, vmctx, cell);
        let base = self.builder.ins().load(POINTER, flags, desc, MEMORY_BASE);
        let bytes = self.builder.ins().load(POINTER, flags, desc, MEMORY_BYTES);
        (base, bytes)
    }

    /// Exits to the runtime for all if `condition` is not zero, else continues.
    fn unless(&mut self, condition: Value, leave: Block) {
        let next = self.builder.create_block();
        self.builder.ins().brif(condition, leave, [], next, []);
        self.builder.switch_to_block(next);
    }

    /// Continues if `len` is at least `bytes`; otherwise branches to the returned block.
    fn at_least(&mut self, bytes: i64, len: Value) -> Block {
        let (more, less) = (self.builder.create_block(), self.builder.create_block());
        let enough = IntCC::UnsignedGreaterThanOrEqual;
        let enough = self.builder.ins().icmp_imm_u(enough, len, bytes);
        self.builder.ins().brif(enough, more, [], less, []);
        self.builder.switch_to_block(more);
        less
    }

    /// Writes a range, and returns from the function.
    fn write(&mut self, range: ByteRange, source: BulkSource) {
        let less = self.at_least(WIDE, range.len);
        self.write_wide(range, source);
        self.builder.switch_to_block(less);
        for ty in [I64, I32, I16] {
            let less = self.at_least(i64::from(ty.bytes()), range.len);
            self.write_ends(range, source, ty);
            self.builder.switch_to_block(less);
        }
        let less = self.at_least(1, range.len);
        let byte = self.value(source, I8, None);
        self.put(byte, range.to);
        self.builder.ins().return_(&[]);
        self.builder.switch_to_block(less);
        self.builder.ins().return_(&[]);
    }

    /// Writes a range between one and two times as long as the type.
    fn write_ends(&mut self, range: ByteRange, source: BulkSource, ty: Type) {
        let last = self.last(range, ty);
        let head = self.value(source, ty, None);
        let tail = self.value(source, ty, Some(last));
        self.put(head, range.to);
        let to = self.builder.ins().iadd(range.to, last);
        self.put(tail, to);
        self.builder.ins().return_(&[]);
    }

    /// Writes a range of at least [`WIDE`] bytes.
    fn write_wide(&mut self, range: ByteRange, source: BulkSource) {
        let short = self.at_least(2 * WIDE + 1, range.len);
        let last = self.last(range, I8X16);
        let last_but_one = self.builder.ins().iadd_imm_s(range.len, -2 * WIDE);
        let last_but_one = self.within(last_but_one);
        let second = self.builder.ins().iconst(I64, WIDE);
        let places = [None, Some(second), Some(last_but_one), Some(last)];
        let values = places.map(|at| self.value(source, I8X16, at));
        for (at, value) in places.into_iter().zip(values) {
            let to = match at {
                Some(at) => self.builder.ins().iadd(range.to, at),
                None => range.to,
            };
            self.put(value, to);
        }
        self.builder.ins().return_(&[]);
        self.builder.switch_to_block(short);
        self.write_ends(range, source, I8X16);
    }

    /// Offset of the last value of a type in a range.
    fn last(&mut self, range: ByteRange, ty: Type) -> Value {
        let bytes = i64::from(ty.bytes());
        let last = self.builder.ins().iadd_imm_s(range.len, -bytes);
        self.within(last)
    }

    /// Masks an offset that is a difference. If the length was compared correctly, the mask does
    /// not change the offset. Under misprediction the mask keeps it in bounds: a data dependency,
    /// not a prediction.
    fn within(&mut self, offset: Value) -> Value {
        self.builder.ins().band_imm_u(offset, SHORT - 1)
    }

    /// The value to write at `offset`, or at 0 if `offset` is `None`.
    fn value(&mut self, source: BulkSource, ty: Type, offset: Option<Value>) -> Value {
        match source {
            BulkSource::Memory(from) => {
                let from = match offset {
                    Some(offset) => self.builder.ins().iadd(from, offset),
                    None => from,
                };
                let flags = MemFlagsData::new();
                self.builder.ins().load(ty, flags, from, 0)
            }
            BulkSource::Byte(byte) if ty == I8X16 => {
                let byte = self.builder.ins().ireduce(I8, byte);
                self.builder.ins().splat(I8X16, byte)
            }
            BulkSource::Byte(byte) => {
                let ones = (u64::MAX / 255).cast_signed();
                let all = self.builder.ins().imul_imm_s(byte, ones);
                match ty {
                    I64 => all,
                    narrow => self.builder.ins().ireduce(narrow, all),
                }
            }
        }
    }

    fn put(&mut self, value: Value, to: Value) {
        let flags = MemFlagsData::new();
        self.builder.ins().store(flags, value, to, 0);
    }
}

#[cfg(test)]
mod tests;
