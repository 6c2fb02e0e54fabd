//! Parts and classes of a reference that code converts between externref and anyref.

use pirn_format::layout::{EXTERNAL_PREFIX, EXTERNAL_SHIFT, TAG_BOXED, TAG_HOST, TAG_I31};

/// A part of a reference that code computes to convert between externref and anyref, see
/// `external.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The highest 16 bits of an externref. They are `EXTERNAL_PREFIX` in a converted anyref.
    Prefix,
    /// The highest 3 bits of an externref, which an anyref does not have room for.
    High,
    /// An externref without its prefix.
    Inner,
    /// An externref, shifted to the left by the bits of a tag.
    Scaled,
    /// An externref as an anyref: shifted, with the tag of the host's references.
    HostAny,
    /// An anyref with the prefix of converted references.
    Extern,
    /// An anyref without its tag: the number of a host reference.
    HostNumber,
}

impl Part {
    /// Whether code may compare this part with a constant. Allowed comparisons tell only whether an
    /// externref was converted from an anyref, and whether its number is large.
    pub(crate) fn is_comparable(self, constant: i64) -> bool {
        match self {
            Self::Prefix => constant.cast_unsigned() == EXTERNAL_PREFIX,
            Self::High => constant == 0,
            _ => false,
        }
    }
}

/// Classes that a reference may belong to, as a bit set. Bit n, from 0 to 7, is the class of each
/// anyref whose lowest three bits are the number n. Higher bits are classes of externrefs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Classes(u16);

impl Classes {
    /// An anyref of the host whose number is in the reference.
    pub(crate) const HOST: Self = Self(1 << TAG_HOST);
    /// An anyref of the host whose number is in a box.
    pub(crate) const BOXED: Self = Self(1 << TAG_BOXED);
    /// An externref that was converted from an anyref.
    pub(crate) const GUEST: Self = Self(1 << 8);
    /// An externref whose number has no bit that [`Part::High`] selects, or null.
    pub(crate) const SMALL: Self = Self(1 << 9);
    /// Any reference.
    pub(crate) const ALL: Self = Self(u16::MAX);

    /// No reference.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) fn is_within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }
}

/// The prefix of an externref that was converted from an anyref, shifted to the highest bits.
pub(crate) const PREFIX: i64 = (EXTERNAL_PREFIX << EXTERNAL_SHIFT).cast_signed();

/// Whether a constant is a 31-bit integer that was converted to an externref.
pub(crate) fn is_external_i31(constant: i64) -> bool {
    constant & !i64::from(u32::MAX) == PREFIX && constant.cast_unsigned() & TAG_I31 != 0
}
