//! The codes of traps, as numbers.

/// The guest used up the stack of its slot.
pub const PIRN_TRAP_STACK_OVERFLOW: u32 = 1;
/// A load, store or bulk operation past the end of a memory.
pub const PIRN_TRAP_MEMORY_OUT_OF_BOUNDS: u32 = 2;
/// A table access past the end of a table.
pub const PIRN_TRAP_TABLE_OUT_OF_BOUNDS: u32 = 3;
/// `call_indirect` through an index past the end of its table.
pub const PIRN_TRAP_UNDEFINED_ELEMENT: u32 = 4;
/// `call_indirect` of a null reference.
pub const PIRN_TRAP_UNINITIALIZED_ELEMENT: u32 = 5;
/// `call_indirect` of a function of another type.
pub const PIRN_TRAP_INDIRECT_CALL_TYPE_MISMATCH: u32 = 6;
/// Signed division overflow, or a conversion whose result does not fit.
pub const PIRN_TRAP_INTEGER_OVERFLOW: u32 = 7;
/// Division or remainder by zero.
pub const PIRN_TRAP_INTEGER_DIVIDE_BY_ZERO: u32 = 8;
/// Conversion of NaN to an integer.
pub const PIRN_TRAP_INVALID_CONVERSION_TO_INTEGER: u32 = 9;
/// `unreachable` was executed.
pub const PIRN_TRAP_UNREACHABLE: u32 = 10;
/// `ref.as_non_null` of a null reference.
pub const PIRN_TRAP_NULL_REFERENCE: u32 = 11;
/// The system has no memory for a page on its first access.
pub const PIRN_TRAP_MEMORY_EXHAUSTED: u32 = 12;
/// The guest used all its fuel. Only code compiled to count fuel raises this trap.
pub const PIRN_TRAP_OUT_OF_FUEL: u32 = 13;
/// `call_ref` of a null reference.
pub const PIRN_TRAP_NULL_FUNCTION_REFERENCE: u32 = 14;
/// `throw_ref` of a null reference.
pub const PIRN_TRAP_NULL_EXCEPTION_REFERENCE: u32 = 15;
/// Exception references hold more exceptions than an instance has room for.
pub const PIRN_TRAP_EXCEPTIONS_EXHAUSTED: u32 = 16;
/// A struct operation on a null reference.
pub const PIRN_TRAP_NULL_STRUCT_REFERENCE: u32 = 17;
/// An array operation on a null reference.
pub const PIRN_TRAP_NULL_ARRAY_REFERENCE: u32 = 18;
/// `i31.get_s` or `i31.get_u` of a null reference.
pub const PIRN_TRAP_NULL_I31_REFERENCE: u32 = 19;
/// An access past the end of an array.
pub const PIRN_TRAP_ARRAY_OUT_OF_BOUNDS: u32 = 20;
/// `ref.cast` of a reference of another type.
pub const PIRN_TRAP_CAST_FAILURE: u32 = 21;
/// The guest makes more structs and arrays than the instance has room for.
pub const PIRN_TRAP_HEAP_EXHAUSTED: u32 = 22;
/// An atomic access whose address is no multiple of its size.
pub const PIRN_TRAP_UNALIGNED_ATOMIC: u32 = 23;
/// `memory.atomic.wait32` or `memory.atomic.wait64` on a memory that is not shared.
pub const PIRN_TRAP_EXPECTED_SHARED_MEMORY: u32 = 24;
/// The host would need more memory for the guest than its limit allows. Only the runtime raises
/// this trap; no module's trap table contains it.
pub const PIRN_TRAP_HOST_MEMORY_EXHAUSTED: u32 = 25;

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_runtime::TrapCode;

    #[test]
    fn each_code_of_the_runtime_has_its_number() {
        let numbers: Vec<u32> =
            (PIRN_TRAP_STACK_OVERFLOW..=PIRN_TRAP_HOST_MEMORY_EXHAUSTED).collect();
        let codes: Vec<u32> = TrapCode::ALL.iter().map(|code| *code as u32).collect();
        assert_eq!(numbers, codes);
    }
}
