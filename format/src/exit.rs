//! Exits: how generated code calls the runtime.
//!
//! Generated code exits to the host by calling one of two routines. Their addresses are in the
//! [`Context`](crate::layout::Context). These routines, and the two below, use the platform's C
//! calling convention:
//!
//! ```text
//! host_call(vmctx, host: u64, cells)        field `host_call` of the context
//! exit(vmctx, reason: u64, cells)           field `exit`
//! ```
//!
//! `host_call` calls a host function. Its argument `host` is the byte offset of the function's
//! entry in the instance's table of entries. The caller reads the offset from
//! [`FuncImport::host`](crate::layout::FuncImport::host). `exit` handles all other exits: the low
//! byte of `reason` is a [`Kind`], the upper bits are the number of a [`Builtin`] or [`TrapCode`].
//!
//! Two routines copy and fill memory 0 without an exit:
//!
//! ```text
//! copy(vmctx, to: u64, from: u64, len: u64) -> (skip: u64, rest: u64)      field `copy`
//! fill(vmctx, to: u64, byte: u64, len: u64) -> (skip: u64, rest: u64)      field `fill`
//! ```
//!
//! They take the last three numbers of [`Builtin::MemoryCopy`] and [`Builtin::MemoryFill`], check
//! the bounds, and never trap. A `skip` of -1 says that all is done. Otherwise the caller exits for
//! the rest: `rest` bytes, `skip` bytes after `to` and `from`. The caller exits also for a rest of
//! 0 bytes, so that the guest can be stopped there. A routine does nothing, and returns `(0, len)`,
//! for a range of at most [`SHORT_BULK_BYTES`], or one that exceeds the bounds.
//!
//! `cells` is the address of an array of 16-byte cells. The array has max(parameters, results)
//! cells, and at least one. The cells hold the parameters; on return, the results have overwritten
//! them. A trap has no cells and does not return.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Bytes of one parameter or result in the arrays that cross between guest and host.
///
/// A value lies at the start of its cell in little-endian order. `i32` and `f32` take 4 bytes,
/// `i64`, `f64` and references take 8, `v128` takes 16. The rest of the cell is unspecified.
pub const CELL_BYTES: u32 = 16;

/// Generated code copies and fills at most this number of bytes without a routine. If the number is
/// a constant, it may be larger.
pub const SHORT_BULK_BYTES: u32 = 64;

/// Bits of the exit reason that hold the [`Kind`].
pub const KIND_BITS: u32 = 8;

/// Why the guest calls the exit routine: the low byte of the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The guest asked for something that only the runtime can do; the number is a [`Builtin`].
    Builtin = 1,
    /// The guest trapped; the number is a [`TrapCode`].
    Trap = 2,
}

/// Packs a kind and its number into an exit reason.
#[must_use]
pub const fn reason(kind: Kind, number: u32) -> u64 {
    (number as u64) << KIND_BITS | kind as u64
}

/// Splits an exit reason into kind and number; `None` for a kind that does not exist.
#[must_use]
#[inline]
pub const fn split(reason: u64) -> Option<(Kind, u32)> {
    let kind = match reason as u8 {
        1 => Kind::Builtin,
        2 => Kind::Trap,
        _ => return None,
    };
    Some((kind, (reason >> KIND_BITS) as u32))
}

/// A service that generated code requests from the runtime. Each parameter and each result is a
/// 64-bit value in its own cell.
///
/// Indices (`memory`, `table`, `segment`, ...) refer to the calling module. Addresses, lengths and
/// element counts are zero-extended. The runtime checks bounds, and raises a trap where the
/// WebAssembly instruction traps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Builtin {
    /// `(memory, delta_pages) -> previous pages or -1`
    MemoryGrow = 0,
    /// `(dst_memory, src_memory, dst, src, len)`
    MemoryCopy = 1,
    /// `(memory, dst, byte, len)`
    MemoryFill = 2,
    /// `(memory, segment, dst, src, len)`
    MemoryInit = 3,
    /// `(segment)`
    DataDrop = 4,
    /// `(table, reference, delta) -> previous elements or -1`
    TableGrow = 5,
    /// `(dst_table, src_table, dst, src, len)`
    TableCopy = 6,
    /// `(table, dst, reference, len)`
    TableFill = 7,
    /// `(table, segment, dst, src, len)`
    TableInit = 8,
    /// `(segment)`
    ElemDrop = 9,
    /// `(tag, values)`: throws an exception. `values` is the address of the exception's values, in
    /// cells. Does not return.
    Throw = 10,
    /// `(reference)`: throws the exception that an `exnref` refers to. Does not return.
    ThrowRef = 11,
    /// `()`: throws the most recently caught exception again. Does not return.
    Rethrow = 12,
    /// `() -> reference`: makes an `exnref` to the most recently caught exception.
    Keep = 13,
    /// `(bytes)`: makes memory accessible for a struct or an array of this size after
    /// [`Context::heap_next`](crate::layout::Context::heap_next). The builtin does not change
    /// `heap_next`.
    HeapGrow = 14,
    /// `(type, segment, src, len) -> reference`: makes an array and copies its elements from a data
    /// segment.
    ArrayNewData = 15,
    /// `(type, segment, src, len) -> reference`: makes an array of references from an element
    /// segment.
    ArrayNewElem = 16,
    /// `(segment, address, src, bytes)`: copies from a data segment to array elements, whose bounds
    /// the generated code has checked.
    ArrayInitData = 17,
    /// `(segment, address, src, len)`: copies from an element segment to array elements, whose
    /// bounds the generated code has checked.
    ArrayInitElem = 18,
    /// `(dst address, src address, bytes)`: copies array elements, whose bounds the generated code
    /// has checked.
    ArrayCopy = 19,
    /// `(number) -> reference`: makes a boxed reference for a host number that does not fit in a
    /// reference.
    HostBox = 20,
    /// `(memory, address, expected, timeout_ns) -> 0 woken, 1 not equal, 2 timed out`: waits if
    /// memory holds the expected 32 bits. A negative timeout means no timeout.
    MemoryWait32 = 21,
    /// `(memory, address, expected, timeout_ns) -> 0 woken, 1 not equal, 2 timed out`: waits if
    /// memory holds the expected 64 bits. A negative timeout means no timeout.
    MemoryWait64 = 22,
    /// `(memory, address, count) -> number`: wakes at most `count` waiters at this address, and
    /// returns the number of woken waiters.
    MemoryNotify = 23,
}

impl Builtin {
    /// All builtins, in the order of their numbers.
    pub const ALL: [Self; 24] = [
        Self::MemoryGrow,
        Self::MemoryCopy,
        Self::MemoryFill,
        Self::MemoryInit,
        Self::DataDrop,
        Self::TableGrow,
        Self::TableCopy,
        Self::TableFill,
        Self::TableInit,
        Self::ElemDrop,
        Self::Throw,
        Self::ThrowRef,
        Self::Rethrow,
        Self::Keep,
        Self::HeapGrow,
        Self::ArrayNewData,
        Self::ArrayNewElem,
        Self::ArrayInitData,
        Self::ArrayInitElem,
        Self::ArrayCopy,
        Self::HostBox,
        Self::MemoryWait32,
        Self::MemoryWait64,
        Self::MemoryNotify,
    ];

    /// The builtin with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Number of parameters, each a 64-bit value in its own cell.
    #[must_use]
    pub const fn params(self) -> usize {
        match self {
            Self::Rethrow | Self::Keep => 0,
            Self::DataDrop | Self::ElemDrop | Self::ThrowRef | Self::HeapGrow | Self::HostBox => 1,
            Self::MemoryGrow | Self::Throw => 2,
            Self::TableGrow | Self::ArrayCopy | Self::MemoryNotify => 3,
            Self::MemoryFill
            | Self::TableFill
            | Self::ArrayNewData
            | Self::ArrayNewElem
            | Self::ArrayInitData
            | Self::ArrayInitElem
            | Self::MemoryWait32
            | Self::MemoryWait64 => 4,
            Self::MemoryCopy | Self::MemoryInit | Self::TableCopy | Self::TableInit => 5,
        }
    }

    /// Whether the builtin returns a result, which is a 64-bit value in the first cell.
    #[must_use]
    pub const fn has_result(self) -> bool {
        matches!(
            self,
            Self::MemoryGrow
                | Self::TableGrow
                | Self::Keep
                | Self::ArrayNewData
                | Self::ArrayNewElem
                | Self::HostBox
                | Self::MemoryWait32
                | Self::MemoryWait64
                | Self::MemoryNotify
        )
    }

    /// Whether the builtin allocates on the heap of structs and arrays, or makes room there.
    #[must_use]
    pub const fn allocates(self) -> bool {
        matches!(
            self,
            Self::HeapGrow | Self::ArrayNewData | Self::ArrayNewElem | Self::HostBox
        )
    }

    /// Name in symbols, such as `memory.grow`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MemoryGrow => "memory.grow",
            Self::MemoryCopy => "memory.copy",
            Self::MemoryFill => "memory.fill",
            Self::MemoryInit => "memory.init",
            Self::DataDrop => "data.drop",
            Self::TableGrow => "table.grow",
            Self::TableCopy => "table.copy",
            Self::TableFill => "table.fill",
            Self::TableInit => "table.init",
            Self::ElemDrop => "elem.drop",
            Self::Throw => "throw",
            Self::ThrowRef => "throw_ref",
            Self::Rethrow => "rethrow",
            Self::Keep => "exception.keep",
            Self::HeapGrow => "heap.grow",
            Self::ArrayNewData => "array.new_data",
            Self::ArrayNewElem => "array.new_elem",
            Self::ArrayInitData => "array.init_data",
            Self::ArrayInitElem => "array.init_elem",
            Self::ArrayCopy => "array.copy",
            Self::HostBox => "host.box",
            Self::MemoryWait32 => "memory.atomic.wait32",
            Self::MemoryWait64 => "memory.atomic.wait64",
            Self::MemoryNotify => "memory.atomic.notify",
        }
    }
}

/// The faults that end a guest (spec 4.4, "traps"). Some faults report that the host has no more
/// memory for the guest, as [`MemoryExhausted`](Self::MemoryExhausted) does. Other errors of host
/// functions have no code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum TrapCode {
    /// The guest used up the stack of its slot.
    StackOverflow = 1,
    /// A load, store or bulk operation past the end of a memory.
    MemoryOutOfBounds = 2,
    /// A table access past the end of a table.
    TableOutOfBounds = 3,
    /// `call_indirect` through an index past the end of its table.
    UndefinedElement = 4,
    /// `call_indirect` of a null reference.
    UninitializedElement = 5,
    /// `call_indirect` of a function of another type.
    IndirectCallTypeMismatch = 6,
    /// Signed division overflow, or a conversion whose result does not fit.
    IntegerOverflow = 7,
    /// Division or remainder by zero.
    IntegerDivideByZero = 8,
    /// Conversion of NaN to an integer.
    InvalidConversionToInteger = 9,
    /// `unreachable` was executed.
    Unreachable = 10,
    /// `ref.as_non_null` of a null reference.
    NullReference = 11,
    /// The system has no memory for a page on its first access.
    MemoryExhausted = 12,
    /// The guest used all its fuel. Only code compiled to count fuel raises this trap.
    OutOfFuel = 13,
    /// `call_ref` of a null reference.
    NullFunctionReference = 14,
    /// `throw_ref` of a null reference.
    NullExceptionReference = 15,
    /// Exception references hold more exceptions than an instance has room for.
    ExceptionsExhausted = 16,
    /// A struct operation on a null reference.
    NullStructReference = 17,
    /// An array operation on a null reference.
    NullArrayReference = 18,
    /// `i31.get_s` or `i31.get_u` of a null reference.
    NullI31Reference = 19,
    /// An access past the end of an array.
    ArrayOutOfBounds = 20,
    /// `ref.cast` of a reference of another type.
    CastFailure = 21,
    /// The guest makes more structs and arrays than the instance has room for.
    HeapExhausted = 22,
    /// An atomic access whose address is no multiple of its size.
    UnalignedAtomic = 23,
    /// `memory.atomic.wait32` or `memory.atomic.wait64` on a memory that is not shared.
    ExpectedSharedMemory = 24,
    /// The host would need more memory for the guest than its limit allows. Only the runtime raises
    /// this trap, so no module's trap table contains its code.
    HostMemoryExhausted = 25,
}

impl TrapCode {
    /// All trap codes, in the order of their numbers.
    pub const ALL: [Self; 25] = [
        Self::StackOverflow,
        Self::MemoryOutOfBounds,
        Self::TableOutOfBounds,
        Self::UndefinedElement,
        Self::UninitializedElement,
        Self::IndirectCallTypeMismatch,
        Self::IntegerOverflow,
        Self::IntegerDivideByZero,
        Self::InvalidConversionToInteger,
        Self::Unreachable,
        Self::NullReference,
        Self::MemoryExhausted,
        Self::OutOfFuel,
        Self::NullFunctionReference,
        Self::NullExceptionReference,
        Self::ExceptionsExhausted,
        Self::NullStructReference,
        Self::NullArrayReference,
        Self::NullI31Reference,
        Self::ArrayOutOfBounds,
        Self::CastFailure,
        Self::HeapExhausted,
        Self::UnalignedAtomic,
        Self::ExpectedSharedMemory,
        Self::HostMemoryExhausted,
    ];

    /// The trap code with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get((number as usize).checked_sub(1)?).copied()
    }

    /// The message for this trap: the message of the WebAssembly spec test suite, if the suite has
    /// one.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::StackOverflow => "call stack exhausted",
            Self::MemoryOutOfBounds => "out of bounds memory access",
            Self::TableOutOfBounds => "out of bounds table access",
            Self::UndefinedElement => "undefined element",
            Self::UninitializedElement => "uninitialized element",
            Self::IndirectCallTypeMismatch => "indirect call type mismatch",
            Self::IntegerOverflow => "integer overflow",
            Self::IntegerDivideByZero => "integer divide by zero",
            Self::InvalidConversionToInteger => "invalid conversion to integer",
            Self::Unreachable => "unreachable",
            Self::NullReference => "null reference",
            Self::MemoryExhausted => "the system has no memory for a page",
            Self::OutOfFuel => "out of fuel",
            Self::NullFunctionReference => "null function reference",
            Self::NullExceptionReference => "null exception reference",
            Self::ExceptionsExhausted => "too many exceptions are kept",
            Self::NullStructReference => "null structure reference",
            Self::NullArrayReference => "null array reference",
            Self::NullI31Reference => "null i31 reference",
            Self::ArrayOutOfBounds => "out of bounds array access",
            Self::CastFailure => "cast failure",
            Self::HeapExhausted => "out of memory for structs and arrays",
            Self::UnalignedAtomic => "unaligned atomic",
            Self::ExpectedSharedMemory => "expected shared memory",
            Self::HostMemoryExhausted => "out of host memory for the guest",
        }
    }
}

impl fmt::Display for TrapCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_what_they_number() {
        for (i, b) in Builtin::ALL.into_iter().enumerate() {
            assert_eq!(b as usize, i);
            assert_eq!(Builtin::from_number(b as u32), Some(b));
        }
        for code in TrapCode::ALL {
            assert_eq!(TrapCode::from_number(code as u32), Some(code));
        }
        assert_eq!(Builtin::from_number(Builtin::ALL.len() as u32), None);
        assert_eq!(TrapCode::from_number(0), None);
        assert_eq!(TrapCode::from_number(TrapCode::ALL.len() as u32 + 1), None);
    }

    #[test]
    fn a_reason_splits_into_what_made_it() {
        for kind in [Kind::Builtin, Kind::Trap] {
            for number in [0, 1, 255, 256, u32::MAX] {
                assert_eq!(split(reason(kind, number)), Some((kind, number)));
            }
        }
        for nothing in [0, 3, 0xff] {
            assert_eq!(split(nothing), None);
        }
    }
}
