//! [`Symbol`]: the name of an integer or a reference.

/// A value number: two values with one symbol contain the same integer or reference at run time.
/// [`Symbol::ZERO`] is the integer 0, so a constant is the zero symbol plus that constant.
///
/// The highest bits identify the source of the symbol, so that two sources never choose the same
/// symbol:
///
/// | bit | source | lower bits |
/// |---|---|---|
/// | 63 | a join | text offset of the block, location |
/// | 62 | an argument of the function | its number |
/// | 61 | an instruction that writes several registers | text offset, number |
/// | 60 | a result of a call | text offset, number |
/// | 59, 58 | a register after a call, at the function's start | text offset, register |
/// | 57 | a function of the module | its index |
/// | 56 | the lowest 32 bits of another symbol | that symbol |
/// | 55 | an object that the function allocated | text offset |
/// | 54 to 52 | a vector register: a result, at the start, after a call | text offset, register |
/// | 51 | a vector register that is 0 | none |
/// | 50 | the upper half of a vector in memory | the lower half's symbol |
/// | none | any other instruction | text offset, number |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Symbol(pub(crate) u64);

impl Symbol {
    pub(crate) const ZERO: Self = Self(0);

    /// Tag bit: a reference to the module's function whose index is in the lower bits.
    pub(crate) const FUNCTION: u64 = 1 << 57;

    /// A vector register that is 0.
    pub(crate) const CLEARED: Self = Self(1 << 51);

    /// Number of low bits of a join's symbol that say the location. Higher bits say the block.
    pub(crate) const LOCATION_BITS: u32 = 24;

    /// Tag bit: the lowest 32 bits of the number that has the symbol without this bit.
    pub(crate) const WORD: u64 = 1 << 56;

    /// Tag bit: an object that this function allocated. The object has exactly the type of a
    /// reference with such a symbol, and no proper subtype.
    const ALLOCATED: u64 = 1 << 55;

    /// Names the object that the instruction at a text offset allocates.
    pub(crate) fn allocated(at: u32) -> Self {
        Self(Self::ALLOCATED | u64::from(at) << 4 | 8)
    }

    /// Whether the symbol names an object that this function allocated.
    pub(crate) fn is_allocated(self) -> bool {
        self.0 & !(u64::from(u32::MAX) << 4 | 8) == Self::ALLOCATED
    }

    /// Another symbol of the same object, which does not say that the type is exact. It is unique,
    /// because the allocating instruction makes no other value.
    pub(crate) fn inexact(self) -> Self {
        match self.is_allocated() {
            true => Self(self.0 & !Self::ALLOCATED),
            false => self,
        }
    }

    /// Names the upper half of a vector whose lower half this symbol names.
    pub(crate) fn upper(self) -> Self {
        Self(self.0 | 1 << 50)
    }

    /// Names the lowest 32 bits of the number that this symbol names.
    pub(crate) fn word(self) -> Self {
        Self(self.0 | Self::WORD)
    }

    /// Whether both symbols name the same number, or one names the lowest 32 bits of the other's
    /// number.
    pub(crate) fn is_of(self, other: Self) -> bool {
        self.word() == other.word()
    }

    /// Whether the symbol names the lowest 32 bits of a number.
    pub(crate) fn is_word(self) -> bool {
        self.0 & Self::WORD != 0
    }
}
