//! [`FdFlags`]: the flags of a descriptor (`fdflags` of preview 1).

use core::ops::BitOr;

/// Flags of a descriptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FdFlags(u16);

impl FdFlags {
    pub(crate) const APPEND: Self = Self(1);
    pub(crate) const DSYNC: Self = Self(2);
    pub(crate) const NONBLOCK: Self = Self(4);
    pub(crate) const RSYNC: Self = Self(8);
    pub(crate) const SYNC: Self = Self(16);
    /// The flags of synchronous writes. Linux has one flag for all three.
    pub(crate) const SYNCHRONOUS: Self = Self(2 | 8 | 16);
    /// The flags that an open file can get.
    pub(crate) const CHANGEABLE: Self = Self(1 | 4);
    const ALL: Self = Self(31);

    /// Flags with these bits; `None` if a bit has no meaning.
    pub(crate) fn of(bits: u32) -> Option<Self> {
        let flags = Self(u16::try_from(bits).ok()?);
        Self::ALL.contains(flags).then_some(flags)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    pub(crate) fn from_known(bits: u16) -> Self {
        Self(bits & Self::ALL.0)
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These flags if `is_set`, or else none.
    pub(crate) fn when(self, is_set: bool) -> Self {
        match is_set {
            true => self,
            false => Self(0),
        }
    }

    /// The flags that a file reports that was opened with these. As on Linux, one flag of
    /// synchronous writes sets all three.
    pub(crate) fn reported(self) -> Self {
        let changeable = Self(self.0 & Self::CHANGEABLE.0);
        changeable | Self::SYNCHRONOUS.when(self.intersects(Self::SYNCHRONOUS))
    }
}

impl BitOr for FdFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
