//! Inline `memory.copy` and `memory.fill` (spec 4.4.7) of at most [`IN_PLACE_BYTES`] inside memory
//! 0. Nearly all operations of programs are of this kind. The trampoline performs them with loads
//! and stores. Longer or out-of-bounds operations exit to the runtime.
//!
//! A fault or a signal during these accesses hits generated code, as it may anywhere in a guest.
//!
//! Overlapping accesses of one width cover the length. If source and destination overlap, the first
//! or last value is loaded before anything is stored.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ This file is a part of the sandbox. Every change to it wants two reviews.                    │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! Addresses are `base + index + offset`. The index is the guest's, zero-extended from 32 bits. For
//! a 64-bit memory, the index is the lower half, which is compared with the whole index (see
//! `translate/bounds.rs`). An offset is never below 0 or above [`IN_PLACE_BYTES`], not even under a
//! mispredicted branch. The context lies below the base. A speculative store to the context is
//! never committed, but later loads could see it and give a guest another base.

use super::Trampoline;
use crate::ir::types::POINTER;
use crate::translate::Env;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Type, Value, types};
use pirn_format::exit::Builtin;
use pirn_format::layout::{CONTEXT_MEMORY, MEMORY_BASE, MEMORY_BYTES};
use pirn_format::types::AddrType;
use types::{I8, I8X16, I16, I32, I64};

/// Most bytes that are written without the runtime. Above this length the host's routines are
/// faster by more than an exit costs.
const IN_PLACE_BYTES: i64 = 1024;
const _: () = assert!(
    IN_PLACE_BYTES.count_ones() == 1,
    "IN_PLACE_BYTES - 1 is a mask"
);

/// Bytes of the widest access.
const WIDE: i64 = 16;

/// Wide accesses in one iteration of a loop.
const UNROLLED: i64 = 4;

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
    /// Performs the operation inline and returns from the function. Other cases continue in a new
    /// block.
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
        let many = self
            .builder
            .ins()
            .icmp_imm_u(IntCC::UnsignedGreaterThan, len, IN_PLACE_BYTES);
        self.unless(many, leave);
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
            range.len = self.builder.ins().select_spectre_guard(many, none, len);
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
        self.builder.switch_to_block(leave);
    }

    /// The lower half of an index, zero-extended. Branches to `other` if the upper half is not
    /// zero.
    fn low(&mut self, index: Value, other: Block) -> Value {
        let low = self.builder.ins().ireduce(I32, index);
        let low = self.builder.ins().uextend(I64, low);
        let outside = self.builder.ins().icmp(IntCC::NotEqual, low, index);
        self.unless(outside, other);
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

    /// Branches to `other` if `condition` is not zero, else continues.
    fn unless(&mut self, condition: Value, other: Block) {
        let next = self.builder.create_block();
        self.builder.ins().brif(condition, other, [], next, []);
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
        let head = self.value(source, I8X16, None);
        let tail = self.value(source, I8X16, Some(last));
        let end = self.builder.ins().iadd(range.to, last);
        match source {
            BulkSource::Byte(_) => {
                self.ascend(range, source);
                self.put(tail, end);
                self.builder.ins().return_(&[]);
            }
            BulkSource::Memory(from) => {
                // Ascending is right unless the destination starts inside the source.
                let distance = self.builder.ins().isub(range.to, from);
                let inside = IntCC::UnsignedLessThan;
                let inside = self.builder.ins().icmp(inside, distance, range.len);
                let descend = self.builder.create_block();
                self.unless(inside, descend);
                self.ascend(range, source);
                self.put(tail, end);
                self.builder.ins().return_(&[]);
                self.builder.switch_to_block(descend);
                self.descend(range, source);
                self.put(head, range.to);
                self.builder.ins().return_(&[]);
            }
        }
        self.builder.switch_to_block(short);
        self.write_ends(range, source, I8X16);
    }

    /// Writes a range from its start upwards, except a remainder shorter than a wide access at its
    /// end.
    fn ascend(&mut self, range: ByteRange, source: BulkSource) {
        let mut at = self.builder.ins().iconst(I64, 0);
        for count in [UNROLLED, 1] {
            at = self.pass(
                at,
                |t, at| {
                    let end = t.builder.ins().iadd_imm_s(at, count * WIDE);
                    let more = IntCC::UnsignedLessThanOrEqual;
                    let more = t.builder.ins().icmp(more, end, range.len);
                    (more, at, end)
                },
                range,
                source,
                count,
            );
        }
    }

    /// Writes a range from its end downwards, except a remainder shorter than a wide access at its
    /// start.
    fn descend(&mut self, range: ByteRange, source: BulkSource) {
        let mut at = range.len;
        for count in [UNROLLED, 1] {
            at = self.pass(
                at,
                |t, at| {
                    let more = IntCC::UnsignedGreaterThanOrEqual;
                    let more = t.builder.ins().icmp_imm_u(more, at, count * WIDE);
                    let start = t.builder.ins().iadd_imm_s(at, -count * WIDE);
                    let start = t.within(start);
                    (more, start, start)
                },
                range,
                source,
                count,
            );
        }
    }

    /// A loop that writes `count` wide values in each iteration. For the current position, `step`
    /// returns whether another iteration runs, the offset to write at, and the next position.
    fn pass(
        &mut self,
        at: Value,
        step: impl Fn(&mut Self, Value) -> (Value, Value, Value),
        range: ByteRange,
        source: BulkSource,
        count: i64,
    ) -> Value {
        let header = self.builder.create_block();
        let (body, done) = (self.builder.create_block(), self.builder.create_block());
        let here = self.builder.append_block_param(header, I64);
        self.builder.ins().jump(header, &[at.into()]);
        self.builder.switch_to_block(header);
        let (more, offset, next) = step(self, here);
        self.builder.ins().brif(more, body, [], done, []);
        self.builder.switch_to_block(body);
        let places = (0..count).map(|n| self.builder.ins().iadd_imm_s(offset, n * WIDE));
        let places: Vec<_> = places.collect();
        let values = places.iter().map(|at| self.value(source, I8X16, Some(*at)));
        let values: Vec<_> = values.collect();
        for (at, value) in places.into_iter().zip(values) {
            let to = self.builder.ins().iadd(range.to, at);
            self.put(value, to);
        }
        self.builder.ins().jump(header, &[next.into()]);
        self.builder.switch_to_block(done);
        here
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
        self.builder.ins().band_imm_u(offset, IN_PLACE_BYTES - 1)
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
