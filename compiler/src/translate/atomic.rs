//! Atomic accesses, wait and notify (the threads proposal).
//!
//! All atomic accesses are sequentially consistent, the only ordering of the proposal. Cranelift
//! moves no access across an atomic one, and neither does this compiler (`block::is_free`). An
//! address that is not a multiple of the access's size traps, whether or not the processor allows
//! it.

use super::bounds::{Index, memory_of};
use super::function::FuncTranslator;
use crate::ir::types::POINTER;
use cranelift_codegen::ir::{
    AtomicRmwOp, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, Value, types,
};
use pirn_format::cpu::Arch;
use pirn_format::exit::{Builtin, TrapCode};
use pirn_format::layout::MEMORY_REACH_BYTES;
use wasmparser::{MemArg, Operator};

impl FuncTranslator<'_, '_> {
    /// Translates an atomic operator. Returns `false` for other operators.
    pub(super) fn atomic(&mut self, op: &Operator<'_>) -> bool {
        self.atomic_access(op) || self.atomic_update(op)
    }

    /// Loads, stores, wait, notify and the fence.
    fn atomic_access(&mut self, op: &Operator<'_>) -> bool {
        use types::{I8, I16, I32, I64};
        match op {
            Operator::I32AtomicLoad { memarg } => self.atomic_load(memarg, I32, I32),
            Operator::I32AtomicLoad8U { memarg } => self.atomic_load(memarg, I8, I32),
            Operator::I32AtomicLoad16U { memarg } => self.atomic_load(memarg, I16, I32),
            Operator::I64AtomicLoad { memarg } => self.atomic_load(memarg, I64, I64),
            Operator::I64AtomicLoad8U { memarg } => self.atomic_load(memarg, I8, I64),
            Operator::I64AtomicLoad16U { memarg } => self.atomic_load(memarg, I16, I64),
            Operator::I64AtomicLoad32U { memarg } => self.atomic_load(memarg, I32, I64),
            Operator::I32AtomicStore { memarg } | Operator::I64AtomicStore32 { memarg } => {
                self.atomic_store(memarg, I32);
            }
            Operator::I64AtomicStore { memarg } => self.atomic_store(memarg, I64),
            Operator::I32AtomicStore8 { memarg } | Operator::I64AtomicStore8 { memarg } => {
                self.atomic_store(memarg, I8);
            }
            Operator::I32AtomicStore16 { memarg } | Operator::I64AtomicStore16 { memarg } => {
                self.atomic_store(memarg, I16);
            }
            Operator::MemoryAtomicWait32 { memarg } => {
                self.atomic_wait(Builtin::MemoryWait32, memarg);
            }
            Operator::MemoryAtomicWait64 { memarg } => {
                self.atomic_wait(Builtin::MemoryWait64, memarg);
            }
            Operator::MemoryAtomicNotify { memarg } => self.atomic_notify(memarg),
            Operator::AtomicFence { .. } => {
                self.builder.ins().fence();
            }
            _ => return false,
        }
        true
    }

    /// Read-modify-write operators.
    fn atomic_update(&mut self, op: &Operator<'_>) -> bool {
        use AtomicRmwOp::{Add, And, Or, Sub, Xchg, Xor};
        use types::{I8, I16, I32, I64};
        match op {
            Operator::I32AtomicRmwAdd { memarg } => self.atomic_rmw(memarg, Add, I32, I32),
            Operator::I32AtomicRmw8AddU { memarg } => self.atomic_rmw(memarg, Add, I8, I32),
            Operator::I32AtomicRmw16AddU { memarg } => self.atomic_rmw(memarg, Add, I16, I32),
            Operator::I64AtomicRmwAdd { memarg } => self.atomic_rmw(memarg, Add, I64, I64),
            Operator::I64AtomicRmw8AddU { memarg } => self.atomic_rmw(memarg, Add, I8, I64),
            Operator::I64AtomicRmw16AddU { memarg } => self.atomic_rmw(memarg, Add, I16, I64),
            Operator::I64AtomicRmw32AddU { memarg } => self.atomic_rmw(memarg, Add, I32, I64),
            Operator::I32AtomicRmwSub { memarg } => self.atomic_rmw(memarg, Sub, I32, I32),
            Operator::I32AtomicRmw8SubU { memarg } => self.atomic_rmw(memarg, Sub, I8, I32),
            Operator::I32AtomicRmw16SubU { memarg } => self.atomic_rmw(memarg, Sub, I16, I32),
            Operator::I64AtomicRmwSub { memarg } => self.atomic_rmw(memarg, Sub, I64, I64),
            Operator::I64AtomicRmw8SubU { memarg } => self.atomic_rmw(memarg, Sub, I8, I64),
            Operator::I64AtomicRmw16SubU { memarg } => self.atomic_rmw(memarg, Sub, I16, I64),
            Operator::I64AtomicRmw32SubU { memarg } => self.atomic_rmw(memarg, Sub, I32, I64),
            Operator::I32AtomicRmwAnd { memarg } => self.atomic_rmw(memarg, And, I32, I32),
            Operator::I32AtomicRmw8AndU { memarg } => self.atomic_rmw(memarg, And, I8, I32),
            Operator::I32AtomicRmw16AndU { memarg } => self.atomic_rmw(memarg, And, I16, I32),
            Operator::I64AtomicRmwAnd { memarg } => self.atomic_rmw(memarg, And, I64, I64),
            Operator::I64AtomicRmw8AndU { memarg } => self.atomic_rmw(memarg, And, I8, I64),
            Operator::I64AtomicRmw16AndU { memarg } => self.atomic_rmw(memarg, And, I16, I64),
            Operator::I64AtomicRmw32AndU { memarg } => self.atomic_rmw(memarg, And, I32, I64),
            Operator::I32AtomicRmwOr { memarg } => self.atomic_rmw(memarg, Or, I32, I32),
            Operator::I32AtomicRmw8OrU { memarg } => self.atomic_rmw(memarg, Or, I8, I32),
            Operator::I32AtomicRmw16OrU { memarg } => self.atomic_rmw(memarg, Or, I16, I32),
            Operator::I64AtomicRmwOr { memarg } => self.atomic_rmw(memarg, Or, I64, I64),
            Operator::I64AtomicRmw8OrU { memarg } => self.atomic_rmw(memarg, Or, I8, I64),
            Operator::I64AtomicRmw16OrU { memarg } => self.atomic_rmw(memarg, Or, I16, I64),
            Operator::I64AtomicRmw32OrU { memarg } => self.atomic_rmw(memarg, Or, I32, I64),
            Operator::I32AtomicRmwXor { memarg } => self.atomic_rmw(memarg, Xor, I32, I32),
            Operator::I32AtomicRmw8XorU { memarg } => self.atomic_rmw(memarg, Xor, I8, I32),
            Operator::I32AtomicRmw16XorU { memarg } => self.atomic_rmw(memarg, Xor, I16, I32),
            Operator::I64AtomicRmwXor { memarg } => self.atomic_rmw(memarg, Xor, I64, I64),
            Operator::I64AtomicRmw8XorU { memarg } => self.atomic_rmw(memarg, Xor, I8, I64),
            Operator::I64AtomicRmw16XorU { memarg } => self.atomic_rmw(memarg, Xor, I16, I64),
            Operator::I64AtomicRmw32XorU { memarg } => self.atomic_rmw(memarg, Xor, I32, I64),
            Operator::I32AtomicRmwXchg { memarg } => self.atomic_rmw(memarg, Xchg, I32, I32),
            Operator::I32AtomicRmw8XchgU { memarg } => self.atomic_rmw(memarg, Xchg, I8, I32),
            Operator::I32AtomicRmw16XchgU { memarg } => self.atomic_rmw(memarg, Xchg, I16, I32),
            Operator::I64AtomicRmwXchg { memarg } => self.atomic_rmw(memarg, Xchg, I64, I64),
            Operator::I64AtomicRmw8XchgU { memarg } => self.atomic_rmw(memarg, Xchg, I8, I64),
            Operator::I64AtomicRmw16XchgU { memarg } => self.atomic_rmw(memarg, Xchg, I16, I64),
            Operator::I64AtomicRmw32XchgU { memarg } => self.atomic_rmw(memarg, Xchg, I32, I64),
            Operator::I32AtomicRmwCmpxchg { memarg } => self.atomic_cas(memarg, I32, I32),
            Operator::I32AtomicRmw8CmpxchgU { memarg } => self.atomic_cas(memarg, I8, I32),
            Operator::I32AtomicRmw16CmpxchgU { memarg } => self.atomic_cas(memarg, I16, I32),
            Operator::I64AtomicRmwCmpxchg { memarg } => self.atomic_cas(memarg, I64, I64),
            Operator::I64AtomicRmw8CmpxchgU { memarg } => self.atomic_cas(memarg, I8, I64),
            Operator::I64AtomicRmw16CmpxchgU { memarg } => self.atomic_cas(memarg, I16, I64),
            Operator::I64AtomicRmw32CmpxchgU { memarg } => self.atomic_cas(memarg, I32, I64),
            _ => return false,
        }
        true
    }

    /// The index of an atomic access. Traps if the address is not a multiple of `bytes`, even if
    /// the address is out of bounds.
    fn atomic_index(&mut self, memarg: &MemArg, index: Value, bytes: u32) -> Index {
        let memory = memory_of(memarg);
        let index = self.wide_index(memory, index);
        let mask = i64::from(bytes) - 1;
        if mask != 0 {
            // The lowest bits of the sum depend only on the lowest bits of index and offset.
            let offset = memarg.offset.cast_signed() & mask;
            let address = self.builder.ins().iadd_imm_s(index, offset);
            let beside = self.builder.ins().band_imm_s(address, mask);
            self.trap_if(beside, TrapCode::UnalignedAtomic);
        }
        self.lower_half(memory, index)
    }

    /// Address and flags for an atomic access.
    fn atomic_address(
        &mut self,
        memarg: &MemArg,
        index: Value,
        bytes: u32,
    ) -> (Value, MemFlagsData) {
        let index = self.atomic_index(memarg, index, bytes);
        let (address, offset, flags) = self.address_within(index, memarg.offset, bytes);
        let address = match offset {
            0 => address,
            offset => self.builder.ins().iadd_imm_s(address, i64::from(offset)),
        };
        (address, flags)
    }

    fn atomic_load(&mut self, memarg: &MemArg, access: Type, ty: Type) {
        let index = self.pop();
        let (address, flags) = self.atomic_address(memarg, index, access.bytes());
        let value = self.builder.ins().atomic_load(access, flags, address);
        self.push_extended(value, ty);
    }

    fn atomic_store(&mut self, memarg: &MemArg, access: Type) {
        let (index, value) = self.pop2();
        let (address, flags) = self.atomic_address(memarg, index, access.bytes());
        let value = self.reduced(value, access);
        let is_x86_64 = self.env.cpu.arch() == Arch::X86_64;
        let ins = self.builder.ins();
        if is_x86_64 {
            // Cranelift's `atomic_store` is a store and `mfence`, which is slower than an exchange
            // with the same ordering.
            ins.atomic_rmw(access, flags, AtomicRmwOp::Xchg, address, value);
        } else {
            ins.atomic_store(flags, value, address);
        }
    }

    fn atomic_rmw(&mut self, memarg: &MemArg, op: AtomicRmwOp, access: Type, ty: Type) {
        let (index, operand) = self.pop2();
        let (address, flags) = self.atomic_address(memarg, index, access.bytes());
        let operand = self.reduced(operand, access);
        let ins = self.builder.ins();
        let before = ins.atomic_rmw(access, flags, op, address, operand);
        self.push_extended(before, ty);
    }

    /// The expected value is wrapped to the access's width before the comparison (threads proposal,
    /// "expected wrapped").
    fn atomic_cas(&mut self, memarg: &MemArg, access: Type, ty: Type) {
        let (index, expected, replacement) = self.pop3();
        let (address, flags) = self.atomic_address(memarg, index, access.bytes());
        let narrow = self.reduced(expected, access);
        let narrow = self.compared(narrow);
        let replacement = self.reduced(replacement, access);
        let ins = self.builder.ins();
        let before = ins.atomic_cas(flags, address, narrow, replacement);
        self.push_extended(before, ty);
    }

    /// The value that an exclusive load is compared with.
    ///
    /// For 32 bits on aarch64 without LSE, Cranelift 0.135 compares all 64 bits of both registers
    /// (`AtomicCASLoop` in its `isa/aarch64/inst/emit.rs`). Cranelift does not clear the upper bits
    /// of the expected value. If these bits are not zero, the comparison never succeeds. A load
    /// from memory clears these bits, and no optimisation removes the load.
    fn compared(&mut self, expected: Value) -> Value {
        let cpu = self.env.cpu;
        let is_loop = cpu.arch() == Arch::Aarch64 && !cpu.has("lse");
        if !is_loop || self.type_of(expected) != types::I32 {
            return expected;
        }
        let builder = &mut self.builder;
        let slot = *self.compared.get_or_insert_with(|| {
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
            builder.create_sized_stack_slot(slot)
        });
        let address = self.builder.ins().stack_addr(POINTER, slot, 0);
        let flags = MemFlagsData::trusted();
        self.builder.ins().store(flags, expected, address, 0);
        let whole = self.builder.ins().uload32(flags, address, 0);
        self.builder.ins().ireduce(types::I32, whole)
    }

    fn atomic_wait(&mut self, builtin: Builtin, memarg: &MemArg) {
        let (index, expected, timeout) = self.pop3();
        let bytes = self.type_of(expected).bytes();
        let address = self.whole_address(memarg, index, bytes);
        let memory = self.word(memory_of(memarg));
        let expected = self.extended(expected);
        self.answered(builtin, &[memory, address, expected, timeout]);
    }

    fn atomic_notify(&mut self, memarg: &MemArg) {
        let (index, count) = self.pop2();
        let address = self.whole_address(memarg, index, 4);
        let memory = self.word(memory_of(memarg));
        let count = self.extended(count);
        self.answered(Builtin::MemoryNotify, &[memory, address, count]);
    }

    /// The address of an operand in a memory. The address may be out of bounds: the runtime checks
    /// the bounds.
    fn whole_address(&mut self, memarg: &MemArg, index: Value, bytes: u32) -> Value {
        let index = self.atomic_index(memarg, index, bytes);
        // A larger offset is out of bounds for every index. The replacement keeps the lowest 3
        // bits, so the alignment does not change.
        let offset = match memarg.offset {
            offset if offset < MEMORY_REACH_BYTES => offset,
            offset => MEMORY_REACH_BYTES | offset & 7,
        };
        let ins = self.builder.ins();
        ins.iadd_imm_s(index.value(), offset.cast_signed())
    }

    /// Pushes the i32 result of a builtin.
    fn answered(&mut self, builtin: Builtin, params: &[Value]) {
        if let Some(answer) = self.builtin(builtin, params) {
            let answer = self.builder.ins().ireduce(types::I32, answer);
            self.push(answer);
        }
    }

    /// The lowest bits of an operand, truncated to the access's width.
    fn reduced(&mut self, operand: Value, access: Type) -> Value {
        match self.type_of(operand) == access {
            true => operand,
            false => self.builder.ins().ireduce(access, operand),
        }
    }

    /// Pushes the result of an access, zero-extended.
    fn push_extended(&mut self, value: Value, ty: Type) {
        let value = match self.type_of(value) == ty {
            true => value,
            false => self.builder.ins().uextend(ty, value),
        };
        self.push(value);
    }
}
