//! [`Instruction`]: an instruction on the verifier's list.

use super::vectors::Vectors;
use super::word::Number;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
    /// AND, which also sets flags.
    Test,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shift {
    Left,
    Right,
    Arithmetic,
    Rotate,
}

/// How an operand of fewer bits is extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(super) is_signed: bool,
    pub(super) bits: u32,
}

/// The second operand of an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    Constant(i64),
    Shifted(Number, Shift, u32),
    /// A register that is extended, and shifted to the left. Destination and first operand may be
    /// the stack pointer.
    Extended(Number, Extension, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wide {
    Not,
    Zero,
    /// Replaces 16 bits of the register.
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Signed,
    /// Replaces bits of the destination.
    Keep,
    Unsigned,
}

/// The change that a conditional select makes to its second operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Select {
    Plain,
    Increment,
    Invert,
    Negate,
}

/// Instructions on two registers. The verifier knows only the width of their results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Divide,
    Shift,
    /// The result has 32 bits.
    Checksum,
    /// The upper half of a product.
    High,
}

/// How an address is computed from the base register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    Offset(i64),
    /// The base is changed before the access.
    Before(i64),
    /// The base is changed after the access.
    After(i64),
    Register(Number, Extension, u32),
}

/// A load or store of one register, or of two successive words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(super) is_load: bool,
    pub(super) is_vector: bool,
    /// Bytes of one register.
    pub(super) bytes: u32,
    /// Bits to which a load extends the sign.
    pub(super) signed: Option<u32>,
    pub(super) register: Number,
    pub(super) second: Option<Number>,
    pub(super) base: Number,
    pub(super) index: Index,
}

/// An addition, subtraction or comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addition {
    pub(super) is_wide: bool,
    pub(super) is_minus: bool,
    pub(super) sets_flags: bool,
    pub(super) to: Number,
    pub(super) first: Number,
    pub(super) second: Second,
}

/// A logical operation on registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logical {
    pub(super) is_wide: bool,
    pub(super) logic: Logic,
    pub(super) inverts: bool,
    pub(super) to: Number,
    pub(super) first: Number,
    pub(super) second: Number,
    pub(super) shift: Shift,
    pub(super) amount: u32,
}

/// A conditional select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(super) is_wide: bool,
    pub(super) select: Select,
    pub(super) to: Number,
    pub(super) first: Number,
    pub(super) second: Number,
    pub(super) condition: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    Nothing,
    Trap,
    Add(Addition),
    /// An addition or subtraction with the carry flag.
    Carry {
        is_wide: bool,
        sets_flags: bool,
        to: Number,
        first: Number,
        second: Number,
    },
    LogicConstant {
        is_wide: bool,
        logic: Logic,
        to: Number,
        first: Number,
        constant: i64,
    },
    Logic(Logical),
    Move {
        is_wide: bool,
        wide: Wide,
        to: Number,
        constant: u64,
        shift: u32,
    },
    Field {
        is_wide: bool,
        field: Field,
        to: Number,
        from: Number,
        rotate: u32,
        last: u32,
    },
    /// Bits of two registers.
    Extract {
        is_wide: bool,
        to: Number,
        first: Number,
        second: Number,
    },
    /// An address near the instruction, or the address of a page of 4 KiB, as a text offset.
    Address {
        to: Number,
        target: i64,
    },
    /// A comparison, if a condition holds.
    Compare {
        is_wide: bool,
        first: Number,
        second: Second,
        condition: u8,
    },
    Select(Selection),
    Product {
        is_wide: bool,
        is_minus: bool,
        to: Number,
        first: Number,
        second: Number,
        add: Number,
    },
    /// The product of two 32-bit registers, added to or subtracted from a 64-bit register.
    LongProduct {
        is_signed: bool,
        is_minus: bool,
        to: Number,
        first: Number,
        second: Number,
        add: Number,
    },
    Binary {
        is_wide: bool,
        binary: Binary,
        to: Number,
        first: Number,
        second: Number,
    },
    /// Reverses or counts bits.
    Unary {
        is_wide: bool,
        counts: bool,
        to: Number,
        from: Number,
    },
    Jump(u32),
    Call(u32),
    JumpIf {
        condition: u8,
        target: u32,
    },
    /// A jump if a register is 0, or if the register is not 0.
    JumpZero {
        is_wide: bool,
        is_not: bool,
        register: Number,
        target: u32,
    },
    /// A jump if a bit of a register is 0, or if the bit is 1.
    JumpBit {
        is_not: bool,
        bit: u32,
        register: Number,
        target: u32,
    },
    JumpTo(Number),
    CallTo(Number),
    Return,
    Memory(Memory),
    /// A load at a text offset.
    Literal {
        is_vector: bool,
        bytes: u32,
        is_signed: bool,
        to: Number,
        target: i64,
    },
    /// A load-acquire, exclusive or not, or a store-release.
    Ordered {
        is_load: bool,
        bytes: u32,
        register: Number,
        base: Number,
    },
    StoreExclusive {
        bytes: u32,
        status: Number,
        register: Number,
        base: Number,
    },
    /// A read-modify-write of memory (LSE).
    Atomic {
        bytes: u32,
        operand: Number,
        to: Number,
        base: Number,
    },
    /// A compare-and-swap (LSE). `expected` gets the old value.
    Exchange {
        bytes: u32,
        expected: Number,
        new: Number,
        base: Number,
    },
    /// A load of one element into all lanes.
    Replicate {
        bytes: u32,
        to: Number,
        base: Number,
    },
    Vectors(Vectors),
}

pub(super) fn extension(option: u32) -> Extension {
    Extension {
        is_signed: option & 4 != 0,
        bits: 8 << (option & 3),
    }
}
