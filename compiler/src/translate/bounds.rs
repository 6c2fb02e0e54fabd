//! Bounds of linear memory: how every load and store stays inside the sandbox.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ This file is the sandbox. Every change to it wants two reviews.                              │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! An index is 32 bits wide and is zero-extended in this file. Only bulk operations
//! (`trampoline/bulk.rs`, with its own bounds) and the rewrites of
//! `optimize/before_cranelift/address.rs` (within the same bounds) extend indices elsewhere. So an
//! index reaches `base .. base + 4 GiB`. After that lie [`GUARD_BYTES`] that are never accessible.
//! Each slot reserves both ranges for every memory that a module defines. So an imported memory has
//! both ranges as well, in its owner's slot:
//!
//! ```text
//! base                      current size               base + 4 GiB             + GUARD_BYTES
//!  │ accessible               │ inaccessible              │ inaccessible            │
//!  └──────────────────────────┴───────────────────────────┴─────────────────────────┘
//!    index (u32) ────────────────────────────────────────▶│ offset + size ─────────▶│
//! ```
//!
//! * `offset + size <= GUARD_BYTES`: the access cannot leave the reservation. The access is one
//!   instruction without a check. The processor faults past the end of the memory, and the trap
//!   table maps the fault to a trap.
//! * otherwise the end of the access is compared with the memory's current size in 64-bit
//!   arithmetic. The sum cannot wrap: index < 2^32 and offset <= 2^32. The address is masked under
//!   speculation.
//!
//! A memory with pages of one byte may end inside a processor page, so each access is compared with
//! the memory's size.
//!
//! An index into a 64-bit memory is any 64-bit number. No memory has more than 4 GiB, so an index
//! with a bit above the lowest 32 is out of bounds for every size. Such an index traps by a
//! comparison of the index with its lower half. After the comparison, only the zero-extended lower
//! half is used, by the rules for 32-bit memories. The address is computed from the lower half, so
//! it stays in the reservation even if the processor mispredicts the comparison. No other mask is
//! needed. The check costs a copy, a comparison and a branch, but no load, for memories of any
//! size:
//!
//! ```text
//! index ──▶ low = index & (2^32 - 1) ──▶ trap unless low = index ──▶ [base + low + offset]
//! ```
//!
//! An offset of 2^32 or more is out of bounds for every index. Such an offset is treated as 2^32,
//! which no memory reaches, so that no sum wraps.

use super::function::{BoundsCheck, FuncTranslator, Region};
#[cfg(feature = "faults")]
use crate::faults::Fault;
use crate::ir::types::POINTER;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Value, types};
use pirn_format::exit::TrapCode;
use pirn_format::layout::{
    CONTEXT_MEMORY, GUARD_BYTES, MEMORY_BASE, MEMORY_BYTES, MEMORY_BYTES_MAX, MEMORY_REACH_BYTES,
};
use pirn_format::types::{AddrType, PageSize};
use wasmparser::{MemArg, MemArgTarget};

// An offset that is clamped to the reach is out of bounds.
const _: () = assert!(MEMORY_BYTES_MAX < MEMORY_REACH_BYTES && GUARD_BYTES < MEMORY_REACH_BYTES);

/// An index of 32 bits into a memory, zero-extended.
#[derive(Clone, Copy)]
pub(super) struct Index {
    memory: u32,
    value: Value,
}

impl Index {
    /// The index itself, 64 bits wide.
    pub(super) fn value(self) -> Value {
        self.value
    }
}

impl FuncTranslator<'_, '_> {
    /// Address, displacement and flags for an access of `access_bytes` bytes at `memarg`'s offset
    /// from `index`. The index has the memory's address type.
    pub(super) fn memory_address(
        &mut self,
        memarg: &MemArg,
        index: Value,
        access_bytes: u32,
    ) -> (Value, i32, MemFlagsData) {
        let index = self.memory_index(memory_of(memarg), index);
        self.address_within(index, memarg.offset, access_bytes)
    }

    /// Address, displacement and flags for an access at `offset` from the result of
    /// [`memory_index`](Self::memory_index).
    pub(super) fn address_within(
        &mut self,
        index: Index,
        offset: u64,
        access_bytes: u32,
    ) -> (Value, i32, MemFlagsData) {
        let Index {
            memory,
            value: index,
        } = index;
        let base = self.memory_base(memory);
        let offset = offset.min(MEMORY_REACH_BYTES);
        let end = offset + u64::from(access_bytes);
        let flags = self
            .guest_flags(Region::Memory)
            .with_trap_code(Some(ir::TrapCode::HEAP_OUT_OF_BOUNDS));
        let ends_with_page = match self.env.metadata.memories[memory as usize].page {
            PageSize::Large => true,
            PageSize::Byte => false,
        };
        let is_guarded = ends_with_page && end <= GUARD_BYTES;
        if let (true, Ok(offset)) = (is_guarded, i32::try_from(offset)) {
            return (self.builder.ins().iadd(base, index), offset, flags);
        }
        #[cfg(feature = "faults")]
        if self.has(Fault::OffsetPastGuard) {
            let start = self.builder.ins().iadd_imm_s(index, offset.cast_signed());
            return (self.builder.ins().iadd(base, start), 0, flags);
        }
        let bytes = self.memory_bytes(memory);
        let access_end = self.builder.ins().iadd_imm_s(index, end.cast_signed());
        let check = BoundsCheck {
            outside: IntCC::UnsignedGreaterThan,
            value: access_end,
            bound: bytes,
        };
        self.trap_outside(check, TrapCode::MemoryOutOfBounds);
        let start = self.builder.ins().iadd_imm_s(index, offset.cast_signed());
        let address = self.builder.ins().iadd(base, start);
        (self.mask_outside(check, address, None), 0, flags)
    }

    /// The zero-extended lower half of an index into a memory. Traps if the upper half is not zero.
    pub(super) fn memory_index(&mut self, memory: u32, index: Value) -> Index {
        let wide = self.wide_index(memory, index);
        self.lower_half(memory, wide)
    }

    /// The whole index, as 64 bits.
    pub(super) fn wide_index(&mut self, memory: u32, index: Value) -> Value {
        match self.env.metadata.memory_address(memory) {
            AddrType::I32 => self.extend(index),
            AddrType::I64 => index,
        }
    }

    /// The lower half of the result of [`wide_index`](Self::wide_index). Traps if the upper half is
    /// not zero.
    pub(super) fn lower_half(&mut self, memory: u32, wide: Value) -> Index {
        let value = match self.env.metadata.memory_address(memory) {
            AddrType::I32 => wide,
            #[cfg(feature = "faults")]
            AddrType::I64 if self.has(Fault::UpperHalfUnchecked) => wide,
            AddrType::I64 => {
                let low = self.builder.ins().ireduce(types::I32, wide);
                let low = self.extend(low);
                let outside = self.builder.ins().icmp(IntCC::NotEqual, low, wide);
                self.trap_if(outside, TrapCode::MemoryOutOfBounds);
                low
            }
        };
        Index { memory, value }
    }

    /// Address of byte 0 of a memory.
    fn memory_base(&mut self, memory: u32) -> Value {
        if memory == self.env.imported.memories {
            return self.own_base;
        }
        let (desc, offset) = self.memory_desc(memory);
        // A memory's base never changes.
        self.load_constant(POINTER, desc, offset + MEMORY_BASE)
    }

    /// Current size of a memory in bytes.
    ///
    /// Another thread may grow a shared memory at any time. A thread that learns of the growth
    /// through an atomic access loads the new size after that access. No other thread may rely on
    /// the new size. Only `memory.size` must return the current size even in a loop, so it uses
    /// [`memory_bytes_now`](Self::memory_bytes_now).
    pub(super) fn memory_bytes(&mut self, memory: u32) -> Value {
        let (desc, offset) = self.memory_desc(memory);
        let flags = self.flags(Region::Descriptor);
        self.builder
            .ins()
            .load(POINTER, flags, desc, offset + MEMORY_BYTES)
    }

    /// Current size of a shared memory in bytes, loaded atomically so that growth by other threads
    /// is visible.
    pub(super) fn memory_bytes_now(&mut self, memory: u32) -> Value {
        let (desc, offset) = self.memory_desc(memory);
        let flags = self.flags(Region::Descriptor);
        let address = i64::from(offset + MEMORY_BYTES);
        let address = self.builder.ins().iadd_imm_s(desc, address);
        self.builder.ins().atomic_load(POINTER, flags, address)
    }

    /// Loads the address of byte 0 of the module's first own memory, at the function's entry.
    ///
    /// That address is the context itself. A function with calls needs the context at each call. So
    /// the allocator may spill the context and reload it at each access, even in a loop. A separate
    /// value for accesses stays in a register where there are no calls.
    pub(super) fn enter_memory(&mut self) {
        self.own_base = self.load_constant(POINTER, self.vmctx, CONTEXT_MEMORY + MEMORY_BASE);
    }

    /// Completes `enter_memory` at the end of the function. A function without calls uses the
    /// context instead, which is one value less.
    pub(super) fn leave_memory(&mut self) {
        if self.calls {
            return;
        }
        let func = &mut self.builder.func;
        if let Some(load) = func.dfg.value_def(self.own_base).inst() {
            func.dfg.clear_results(load);
            func.dfg.change_to_alias(self.own_base, self.vmctx);
            func.layout.remove_inst(load);
        }
    }

    /// The location of a memory's descriptor: an address and an offset from it.
    fn memory_desc(&mut self, memory: u32) -> (Value, i32) {
        let imported = self.env.imported.memories;
        if memory == imported {
            return (self.vmctx, CONTEXT_MEMORY);
        }
        let cell = self.env.layout.memory(memory);
        if memory > imported {
            return (self.vmctx, cell);
        }
        // The cell holds the address of the owner's descriptor.
        (self.load_constant(POINTER, self.vmctx, cell), 0)
    }
}

/// The memory that an operator names.
pub(super) fn memory_of(memarg: &MemArg) -> u32 {
    match memarg.target {
        MemArgTarget::Memory(memory) => memory,
        MemArgTarget::Array(_) => unreachable!("validated: arrays are refused"),
    }
}
