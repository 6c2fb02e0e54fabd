//! [`Subject`]: what the search varies.

use crate::random::Random;
use core::fmt::Debug;

/// The numbers of a module or component, which the search changes.
pub trait Subject: Copy + Debug {
    /// The names of all kinds.
    const KINDS: &'static [&'static str];

    /// A random small one of a kind.
    fn any(kind: usize, random: &mut Random) -> Self;

    /// One with some numbers doubled, halved, or slightly changed.
    #[must_use]
    fn changed(self, random: &mut Random) -> Self;

    /// Index of its kind.
    fn kind(self) -> usize;

    /// The module or component in the binary format.
    fn binary(self) -> Vec<u8>;

    /// The name of its kind.
    fn name(self) -> &'static str {
        Self::KINDS[self.kind()]
    }
}
