//! [`Reset`]: the strategies that clean a slot for the next instance.
//!
//! A strategy is a file that implements [`ResetStrategy`], and a line in the list below. The main
//! function is [`ResetStrategy::restore`]. It restores memory 0, which the last instance of a
//! module may have changed, to the module's initial memory, followed by zeros. Otherwise it returns
//! an error. `Kept::clean` in `rebuild.rs` resets the size of memory 0, and all further memories.
//! After an error, the contents of the slot are unknown. `Kept::pave` in `rebuild.rs` then rebuilds
//! the slot's memory before an instance gets the slot.
//!
//! # Safety
//!
//! Owns this invariant: no thread uses a slot between the end of its instance and its return to the
//! free list.
#![allow(unsafe_code)]

mod decommitted;
mod lines;
mod memory0;
mod rewritten;
mod scanned;
mod strategy;
mod tracked;
pub(crate) mod tracker;

use super::parts::Parts;
use crate::module::Module;
use crate::sys::memory::NotProtected;
use core::fmt;
pub(super) use memory0::{Memory0, MemoryBacking, Reach, copy_image};
use std::io;
use strategy::ResetStrategy;
pub(super) use strategy::Site;
use tracker::Tracker;

/// Defines [`Reset`] and [`Strategy`] from the list of strategies. Each line has the name, the type
/// that implements [`ResetStrategy`], and the strategy's word in a region's description.
macro_rules! strategies {
    ($($(#[$doc:meta])* $name:ident: $strategy:ty = $word:literal,)*) => {
        /// The strategy that cleans a slot for the next instance.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub enum Reset {
            /// The fastest strategy that works on this machine, found by a test when the region is
            /// built.
            #[default]
            Auto,
            $($(#[$doc])* $name,)*
        }

        impl Reset {
            /// All strategies that can be requested by name.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$name),*];
        }

        impl fmt::Display for Reset {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    Self::Auto => "auto",
                    $(Self::$name => $word,)*
                })
            }
        }

        /// A reset strategy that works on this machine. It has the methods of [`ResetStrategy`].
        #[derive(Debug)]
        pub(super) enum Strategy {
            $($name($strategy),)*
        }

        impl Strategy {
            fn named(reset: Reset, site: Site<'_>) -> io::Result<Self> {
                match reset {
                    // `choose` tries all strategies for `Auto`.
                    Reset::Auto => Err(io::ErrorKind::InvalidInput.into()),
                    $(Reset::$name => <$strategy>::probe(site).map(Self::$name),)*
                }
            }

            /// Name of the strategy.
            pub(super) fn name(&self) -> Reset {
                match self {
                    $(Self::$name(_) => Reset::$name,)*
                }
            }

            pub(super) fn backing(&self, module: &Module) -> MemoryBacking {
                match self {
                    $(Self::$name(strategy) => strategy.backing(module),)*
                }
            }

            pub(super) fn backing_untracked(&self, module: &Module) -> MemoryBacking {
                match self {
                    $(Self::$name(strategy) => strategy.backing_untracked(module),)*
                }
            }

            #[inline]
            pub(super) fn has_changed(&self, backing: MemoryBacking, module: &Module) -> bool {
                match self {
                    $(Self::$name(strategy) => strategy.has_changed(backing, module),)*
                }
            }

            pub(super) fn tracker(&self) -> Option<&Tracker> {
                match self {
                    $(Self::$name(strategy) => strategy.tracker(),)*
                }
            }

            /// # Safety
            ///
            /// As [`ResetStrategy::restore`].
            #[inline]
            pub(super) unsafe fn restore(
                &self,
                parts: &Parts<'_>,
                memory0: Memory0<'_>,
                module: &Module,
            ) -> Result<(), NotProtected> {
                match self {
                    // SAFETY: the caller ensures what `ResetStrategy::restore` requires.
                    $(Self::$name(strategy) => unsafe {
                        strategy.restore(parts, memory0, module)
                    },)*
                }
            }
        }
    };
}

strategies! {
    // The strategies are in the order in which `Reset::Auto` tries them.

    /// The runtime fills a page of memory when the page is touched, and lists the dirty pages. A
    /// reset restores the pages on the list (userfaultfd(2), Linux 6.1). Usually, the runtime makes
    /// a system call only to fill a page that no earlier instance touched in the slot. The image of
    /// a snapshot or a component above 256 KiB, and of another module above 4 MiB, is mapped. Slots
    /// share the mapped pages that they only read.
    ///
    /// A system call that gets a pointer to a page that was never touched fails with `EFAULT`. So
    /// pass the system call slices from [`MemoryMut::slice_mut`](crate::MemoryMut::slice_mut) and
    /// similar methods, which fill the pages first. Do not pass parts of
    /// [`MemoryMut::as_mut_slice`](crate::MemoryMut::as_mut_slice).
    Tracked: tracked::Tracked = "tracked",
    /// The image is mapped copy-on-write. A reset asks the kernel which pages were written
    /// (`PAGEMAP_SCAN`, Linux 6.7), and restores these pages.
    Scanned: scanned::Scanned = "scanned",
    /// A reset rewrites the first 64 KiB of memory, so that their pages stay resident. It returns
    /// the rest of the memory to the kernel, and copies the image's part of the rest again. An
    /// image of more than 256 KiB is mapped copy-on-write instead: no page then stays resident.
    Rewritten: rewritten::Rewritten = "rewritten",
    /// A reset returns all memory to the kernel, and copies the image again. An image of more than
    /// 256 KiB is mapped copy-on-write and not copied.
    Decommitted: decommitted::Decommitted = "decommitted",
}

/// The chosen strategy, and the better strategies that do not work here, each with the reason.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) strategy: Strategy,
    pub(super) refused: Vec<(Reset, String)>,
}

impl Strategy {
    /// Returns the requested strategy, after a test that it works on this machine.
    ///
    /// # Errors
    ///
    /// The reason why a strategy that was requested by name does not work here.
    pub(super) fn choose(reset: Reset, site: Site<'_>) -> io::Result<Chosen> {
        let mut refused = vec![];
        if reset != Reset::Auto {
            let strategy = Self::named(reset, site)?;
            return Ok(Chosen { strategy, refused });
        }
        for better in Reset::ALL {
            match Self::named(better, site) {
                Ok(strategy) => return Ok(Chosen { strategy, refused }),
                Err(error) => refused.push((better, error.to_string())),
            }
        }
        Err(io::Error::other("no strategy works"))
    }
}
