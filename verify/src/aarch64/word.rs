//! The fields of an instruction's word.

/// The number of a register in an operand. In some operands, 31 is the stack pointer, in others the
/// zero register.
pub(crate) type Number = u8;

pub(super) fn bits(word: u32, high: u32, low: u32) -> u32 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

pub(super) fn bit(word: u32, at: u32) -> bool {
    word >> at & 1 != 0
}

pub(super) fn number(word: u32, low: u32) -> Number {
    bits(word, low + 4, low) as Number
}

/// The signed number in some bits.
pub(super) fn signed(word: u32, high: u32, low: u32) -> i64 {
    let width = high - low + 1;
    i64::from((word >> low) << (32 - width)).wrapping_shl(32) >> (64 - width)
}
