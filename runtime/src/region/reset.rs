//! [`Reset`]: the strategies that clean a slot for the next instance.
//!
//! The interface is one function, [`Strategy::restore`]. It turns memory that the last instance of
//! a module may have changed into exactly the module's initial memory again, or returns an error.
//! After an error, the contents of the slot are unknown. `Kept::pave` in `slot.rs` then rebuilds
//! the slot's memory before an instance gets the slot.
//!
//! # Safety
//!
//! Owns this invariant: no thread uses a slot between the end of its instance and its return to the
//! free list.
#![allow(unsafe_code)]

mod lines;
mod probe;
mod rewritten;
mod scanned;
pub(crate) mod tracked;

use super::layout::{Layout, Limits};
use super::slot::Parts;
use crate::module::Module;
use crate::sys::memory::{NotProtected, Reservation};
use crate::sys::pagemap::Pagemap;
use core::{fmt, ptr};
use lines::Lines;
use pirn_format::layout::{IMAGE_PAGE_BYTES, WASM_PAGE_BYTES};
use std::io;
pub(super) use tracked::Reach;
use tracked::Tracker;

/// The strategy that cleans a slot for the next instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reset {
    /// The fastest strategy that works on this machine, found by a test when the region is built.
    #[default]
    Auto,
    /// The runtime fills memory page by page when it is touched, and lists the dirty pages. A reset
    /// restores the pages on the list (userfaultfd(2), Linux 6.1). Usually, the only system calls
    /// are those that fill a page that an instance is the first to touch in its slot.
    ///
    /// A system call that gets a pointer to a page that was never touched fails with `EFAULT`. So
    /// pass it slices from [`MemoryMut::slice_mut`](crate::MemoryMut::slice_mut) and similar
    /// methods, which fill the pages first. Do not pass it parts of
    /// [`MemoryMut::as_mut_slice`](crate::MemoryMut::as_mut_slice).
    Tracked,
    /// The image is mapped copy-on-write. A reset asks the kernel which pages were written
    /// (`PAGEMAP_SCAN`, Linux 6.7), and restores them.
    Scanned,
    /// A reset rewrites the first 64 KiB of memory, so that their pages stay resident. It returns
    /// the rest to the kernel, and copies the image's part of the rest again.
    Rewritten,
    /// A reset returns all memory to the kernel, and copies the image again.
    Decommitted,
}

impl Reset {
    /// All strategies that can be requested by name.
    pub const ALL: [Self; 4] = [
        Self::Tracked,
        Self::Scanned,
        Self::Rewritten,
        Self::Decommitted,
    ];
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Tracked => "tracked",
            Self::Scanned => "scanned",
            Self::Rewritten => "rewritten",
            Self::Decommitted => "decommitted",
        })
    }
}

/// A reset strategy that works on this machine.
#[derive(Debug)]
pub(super) enum Strategy {
    /// See [`Reset::Tracked`]. The scanner serves modules that tracking does not suit, if scanning
    /// works.
    Tracked(Box<Tracker>, Option<Scanner>),
    /// See [`Reset::Scanned`].
    Scanned(Scanner),
    /// See [`Reset::Rewritten`].
    Rewritten,
    /// See [`Reset::Decommitted`].
    Decommitted,
}

/// The chosen strategy, and the better ones that do not work here, each with the reason.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) strategy: Strategy,
    pub(super) refused: Vec<(Reset, String)>,
}

/// The resources that scanning needs.
#[derive(Debug)]
pub(super) struct Scanner {
    pagemap: Pagemap,
    lines: Lines,
}

/// Backing of memory 0 of a slot while the slot holds a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Private anonymous memory, accessible up to the memory's current size.
    Plain,
    /// Private anonymous memory, with the image mapped over this many bytes at its start.
    Mapped(usize),
    /// Memory that is filled on demand, see [`Reset::Tracked`].
    Tracked,
}

/// Memory 0 of a slot that a reset is to clean.
#[derive(Debug)]
pub(super) struct Memory0<'a> {
    /// Index of the slot.
    pub(super) index: u32,
    /// Size of the accessible part, in bytes.
    pub(super) used: usize,
    /// Its backing.
    pub(super) keeping: Keeping,
    /// Number of resets in a row that found many more resident pages than changed pages. Only
    /// scanning counts them.
    pub(super) idle: &'a mut u8,
    /// Its tracked part.
    pub(super) reach: &'a mut Reach,
}

/// Size of a page that a reset restores, in bytes.
const PAGE: usize = IMAGE_PAGE_BYTES as usize;

/// Maximum number of pages of a slot that a reset restores: 4 MiB. It returns further pages to the
/// kernel.
const PUT_BACK_MAX: usize = 1024;

/// Number of unchanged resident pages that a slot may keep without limit in time: comparing them at
/// each reset costs less than a system call.
const SPARE: usize = 8;

/// Size of the part of memory that a reset rewrites and keeps resident, in bytes.
const REWRITTEN_BYTES: usize = WASM_PAGE_BYTES as usize;

/// Maximum size of an image for tracking, in bytes. With tracking, each slot has its own copy of
/// the image pages that guests read. With a mapped image, all slots share them.
const TRACKED_IMAGE_BYTES: usize = 4 << 20;

impl Strategy {
    /// Returns the requested strategy, after a test that it works on this machine.
    ///
    /// # Errors
    ///
    /// The reason why a strategy that was requested by name does not work here.
    pub(super) fn choose(
        reset: Reset,
        chunks: &[Reservation],
        chunk_slots: u32,
        layout: &Layout,
        limits: &Limits,
    ) -> io::Result<Chosen> {
        let named = |reset| match reset {
            // `Auto` comes here after all better strategies have failed. `Rewritten` works
            // everywhere.
            Reset::Auto | Reset::Rewritten => Ok(Self::Rewritten),
            Reset::Tracked => {
                probe::tracked()?;
                let tracker = Tracker::new(chunks, chunk_slots, layout, limits)?;
                Ok(Self::Tracked(tracker, Scanner::new().ok()))
            }
            Reset::Scanned => Scanner::new().map(Self::Scanned),
            Reset::Decommitted => Ok(Self::Decommitted),
        };
        let mut refused = vec![];
        if reset == Reset::Auto {
            for better in [Reset::Tracked, Reset::Scanned] {
                match named(better) {
                    Ok(strategy) => return Ok(Chosen { strategy, refused }),
                    Err(error) => refused.push((better, error.to_string())),
                }
            }
        }
        let strategy = named(reset)?;
        Ok(Chosen { strategy, refused })
    }

    /// Name of the strategy.
    pub(super) fn name(&self) -> Reset {
        match self {
            Self::Tracked(..) => Reset::Tracked,
            Self::Scanned(_) => Reset::Scanned,
            Self::Rewritten => Reset::Rewritten,
            Self::Decommitted => Reset::Decommitted,
        }
    }

    /// Best backing of a slot's memory for a module.
    pub(super) fn keeping(&self, module: &Module) -> Keeping {
        match self {
            Self::Tracked(tracker, _)
                if tracker.is_ours()
                    && module.has_memory()
                    && !module.is_wide()
                    && module.image_bytes() <= TRACKED_IMAGE_BYTES =>
            {
                Keeping::Tracked
            }
            _ => self.keeping_untracked(module),
        }
    }

    /// Best backing of a slot's memory for a module, without tracking.
    pub(super) fn keeping_untracked(&self, module: &Module) -> Keeping {
        match self {
            Self::Tracked(_, Some(_)) | Self::Scanned(_) if module.image_end() > 0 => {
                let page = crate::sys::page_bytes();
                Keeping::Mapped(module.image_end().next_multiple_of(page))
            }
            _ => Keeping::Plain,
        }
    }

    /// Whether a slot that is clean for `module` needs another backing before use. This happens in
    /// a fork, or if instances of the module used more memory than a slot keeps track of.
    #[inline]
    pub(super) fn has_changed(&self, keeping: Keeping, module: &Module) -> bool {
        match (keeping, self) {
            (Keeping::Tracked, Self::Tracked(tracker, _)) => !tracker.is_ours() || module.is_wide(),
            _ => false,
        }
    }

    /// The tracker of the slots, if the strategy tracks.
    pub(super) fn tracker(&self) -> Option<&Tracker> {
        match self {
            Self::Tracked(tracker, _) => Some(tracker),
            _ => None,
        }
    }

    /// Restores the accessible bytes of memory 0 to the initial memory of the module, followed by
    /// zeros. The memory keeps its size.
    ///
    /// # Errors
    ///
    /// The error of the system call that failed. The contents are then unknown.
    ///
    /// # Safety
    ///
    /// No thread may use the slot during the call. The initial memory must be at most as large as
    /// the accessible part. `memory0` must state the true backing and size of the memory.
    pub(super) unsafe fn restore(
        &self,
        parts: &Parts<'_>,
        memory0: Memory0<'_>,
        module: &Module,
    ) -> Result<(), NotProtected> {
        let Memory0 {
            index,
            used,
            keeping,
            idle,
            reach,
        } = memory0;
        let memory = parts.vmctx();
        let mapped = match keeping {
            Keeping::Mapped(bytes) => bytes,
            Keeping::Plain | Keeping::Tracked => 0,
        };
        // SAFETY: (all arms) the caller ensures that no thread uses the slot, that the initial
        // memory is accessible, and that `memory0` states the true backing.
        unsafe {
            let restored = match (self, keeping) {
                (Self::Tracked(tracker, _), Keeping::Tracked) => {
                    return tracker.restore(index, parts, reach, module);
                }
                (Self::Tracked(_, Some(scanner)) | Self::Scanned(scanner), _) => {
                    if scanner.pagemap.is_ours() {
                        scanned::restore(scanner, parts, used, mapped, idle, module)
                    } else {
                        // In a fork, the pagemap is that of the parent. So the reset returns all
                        // pages to the kernel. They are then as they were mapped.
                        parts.reservation.decommit(memory..memory + used)
                    }
                }
                (Self::Tracked(_, None) | Self::Rewritten, _) => {
                    rewritten::restore(parts, used, REWRITTEN_BYTES, module)
                }
                (Self::Decommitted, _) => rewritten::restore(parts, used, 0, module),
            };
            Ok(restored?)
        }
    }
}

impl Scanner {
    fn new() -> io::Result<Self> {
        Ok(Self {
            pagemap: probe::scanned()?,
            lines: Lines::detect(),
        })
    }
}

/// Copies the part of the image that starts at offset `from` into memory. The memory must be zero
/// there, because only the image's pages are written.
///
/// # Safety
///
/// `memory` must be writable for the whole size of the module's initial memory, and no other thread
/// may use it.
pub(super) unsafe fn copy_image(memory: *mut u8, from: usize, module: &Module) {
    for (start, bytes) in module.image_pieces() {
        let skipped = from.saturating_sub(start).min(bytes.len());
        let bytes = &bytes[skipped..];
        // SAFETY: `Module::open` checked that the image's runs lie in the initial memory, which the
        // caller says is writable.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), memory.add(start + skipped), bytes.len());
        };
    }
}
