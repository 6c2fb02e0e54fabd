//! [`Reset`]: how a slot is made clean for the next instance.
//!
//! One interface: [`Strategy::restore`] makes memory that the last instance of a module may have changed
//! exactly the module's initial memory again, or says that it could not. A slot whose restoration failed
//! holds nothing that may be relied upon, and is paved over before anybody gets it.
//!
//! # Safety
//!
//! Owns the fact that nobody uses a slot between its instance's end and its return to the free list.
#![allow(unsafe_code)]

mod lines;
pub(crate) mod populate;
mod probe;
mod rewritten;
mod scanned;
mod tracked;

pub(crate) use tracked::{Lock, Touched, lock, populate};

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

/// How a slot is made clean for the next instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reset {
    /// The fastest that works on this machine, found by trying.
    #[default]
    Auto,
    /// Memory is filled page by page as it is touched, and the pages that are written to are listed and
    /// put back (userfaultfd, Linux 6.1). No system call, but for the pages that an instance is the first
    /// to touch in its slot.
    ///
    /// A system call that is handed a page of a guest's memory which nobody has touched fails with
    /// `EFAULT`: hand it what [`MemoryMut::slice_mut`](crate::MemoryMut::slice_mut) and its like give,
    /// which see to it, and no part of [`MemoryMut::as_mut_slice`](crate::MemoryMut::as_mut_slice).
    Tracked,
    /// The image is mapped copy-on-write, the kernel is asked which pages were written
    /// (`PAGEMAP_SCAN`, Linux 6.7), and those are put back.
    Scanned,
    /// The first 64 KiB of memory are rewritten, so that their pages stay resident; the rest is given
    /// back to the kernel, and what of the image lies there is copied again.
    Rewritten,
    /// All memory is given back to the kernel, and the image is copied again.
    Decommitted,
}

impl Reset {
    /// All that can be asked for by name.
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

/// A way of resetting that works here.
#[derive(Debug)]
pub(super) enum Strategy {
    /// See [`Reset::Tracked`]; and what modules that it does not suit are kept by, if that works.
    Tracked(Box<Tracker>, Option<Scanner>),
    /// See [`Reset::Scanned`].
    Scanned(Scanner),
    /// See [`Reset::Rewritten`].
    Rewritten,
    /// See [`Reset::Decommitted`].
    Decommitted,
}

/// What was chosen, and what does not work here, with the reason.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) strategy: Strategy,
    pub(super) refused: Vec<(Reset, String)>,
}

/// What scanning needs.
#[derive(Debug)]
pub(super) struct Scanner {
    pagemap: Pagemap,
    lines: Lines,
}

/// How the memory of one slot is kept while it holds a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Private memory, of which the current size is accessible.
    Plain,
    /// The same, with the image mapped over so many bytes at its start.
    Mapped(usize),
    /// Tracked.
    Tracked,
}

/// The memory of a slot that is to be made clean.
#[derive(Debug)]
pub(super) struct Memory0<'a> {
    /// Which slot.
    pub(super) index: u32,
    /// Bytes that are accessible.
    pub(super) used: usize,
    /// How they are kept.
    pub(super) keeping: Keeping,
    /// Resets in a row that found more resident pages than are of use, where that is counted.
    pub(super) idle: &'a mut u8,
    /// How far it is tracked.
    pub(super) reach: &'a mut Reach,
}

/// Bytes of a page that is put back.
const PAGE: usize = IMAGE_PAGE_BYTES as usize;

/// Most pages of a slot that are put back at a reset: 4 MiB. Where there are more, they are given back to
/// the kernel.
const PUT_BACK_MAX: usize = 1024;

/// Resident pages of a slot that may stay unchanged for as long as they like: putting them back costs less
/// than a system call.
const SPARE: usize = 8;

/// Bytes of memory that stay resident when rewritten.
const REWRITTEN_BYTES: usize = WASM_PAGE_BYTES as usize;

/// Bytes of an image up to which it is tracked: each slot then has its own copy of the pages that are
/// read, where those of a mapped image are the same for all.
const TRACKED_IMAGE_BYTES: usize = 4 << 20;

impl Strategy {
    /// The strategy that is asked for, after trying that it works.
    ///
    /// # Errors
    ///
    /// Why what was asked for by name does not work here.
    pub(super) fn choose(
        reset: Reset,
        chunks: &[Reservation],
        chunk_slots: u32,
        layout: &Layout,
        limits: &Limits,
    ) -> io::Result<Chosen> {
        let named = |reset| match reset {
            // Works everywhere.
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

    /// Its name.
    pub(super) fn name(&self) -> Reset {
        match self {
            Self::Tracked(..) => Reset::Tracked,
            Self::Scanned(_) => Reset::Scanned,
            Self::Rewritten => Reset::Rewritten,
            Self::Decommitted => Reset::Decommitted,
        }
    }

    /// How the memory of a slot is best kept for a module.
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

    /// How it is best kept but for tracking.
    pub(super) fn keeping_untracked(&self, module: &Module) -> Keeping {
        match self {
            Self::Tracked(_, Some(_)) | Self::Scanned(_) if module.image_end() > 0 => {
                let page = crate::sys::page_bytes();
                Keeping::Mapped(module.image_end().next_multiple_of(page))
            }
            _ => Keeping::Plain,
        }
    }

    /// Whether a slot that is clean for a module is to be kept another way before it is used: in a fork,
    /// or because of what was learnt of the module.
    #[inline]
    pub(super) fn has_changed(&self, keeping: Keeping, module: &Module) -> bool {
        match (keeping, self) {
            (Keeping::Tracked, Self::Tracked(tracker, _)) => !tracker.is_ours() || module.is_wide(),
            _ => false,
        }
    }

    /// Who tracks the slots that are tracked.
    pub(super) fn tracker(&self) -> Option<&Tracker> {
        match self {
            Self::Tracked(tracker, _) => Some(tracker),
            _ => None,
        }
    }

    /// Makes the accessible bytes of memory 0 the initial memory of the module, and zeros behind it: its
    /// size stays.
    ///
    /// # Errors
    ///
    /// What the kernel gives: then the contents are unknown.
    ///
    /// # Safety
    ///
    /// Nobody may use the slot meanwhile. The initial memory must be at most what is accessible, and be
    /// kept as said.
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
        // SAFETY: (all arms) passed on.
        unsafe {
            let restored = match (self, keeping) {
                (Self::Tracked(tracker, _), Keeping::Tracked) => {
                    return tracker.restore(index, parts, reach, module);
                }
                (Self::Tracked(_, Some(scanner)) | Self::Scanned(scanner), _) => {
                    if scanner.pagemap.is_ours() {
                        scanned::restore(scanner, parts, used, mapped, idle, module)
                    } else {
                        // In a fork the pagemap is that of the parent: everything is given back, and is
                        // as it was mapped.
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

/// Copies what of the image lies at or behind `from` into memory that is zero there.
///
/// # Safety
///
/// `memory` must be writable for the module's whole initial memory.
pub(super) unsafe fn copy_image(memory: *mut u8, from: usize, module: &Module) {
    for (start, bytes) in module.image_pieces() {
        let skipped = from.saturating_sub(start).min(bytes.len());
        let bytes = &bytes[skipped..];
        // SAFETY: the image's runs lie in the initial memory, which `open` has checked.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), memory.add(start + skipped), bytes.len());
        };
    }
}
