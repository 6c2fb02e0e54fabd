//! [`Memory0`]: the memory of a slot that a reset cleans, and the backing of that memory.
//!
//! # Safety
//!
//! Owns this invariant: the image is copied only into memory that the caller says is writable.
#![allow(unsafe_code)]

use crate::module::Module;
use crate::sys::page_bytes;
use core::ptr;
use pirn_format::layout::IMAGE_PAGE_BYTES;

/// Backing of memory 0 of a slot while the slot holds a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::region) enum MemoryBacking {
    /// Private anonymous memory, accessible up to the memory's current size.
    Plain,
    /// Private anonymous memory, with the image mapped over the given number of bytes at its start.
    Mapped(usize),
    /// Memory that is filled on demand, see [`Reset::Tracked`](super::Reset::Tracked). The image is
    /// mapped over the given number of bytes at its start.
    Tracked(usize),
}

impl MemoryBacking {
    /// Number of bytes over which the image is mapped.
    pub(in crate::region) fn mapped_bytes(self) -> usize {
        match self {
            Self::Mapped(bytes) | Self::Tracked(bytes) => bytes,
            Self::Plain => 0,
        }
    }

    pub(in crate::region) fn is_tracked(self) -> bool {
        matches!(self, Self::Tracked(_))
    }
}

/// Memory 0 of a slot, for a reset that cleans it.
#[derive(Debug)]
pub(in crate::region) struct Memory0<'a> {
    /// Index of the slot.
    pub(in crate::region) index: u32,
    /// Size of the accessible part, in bytes.
    pub(in crate::region) used: usize,
    /// The backing of the memory.
    pub(in crate::region) backing: MemoryBacking,
    /// Number of resets in a row that found many more resident pages than changed pages. Only the
    /// strategy `Scanned` counts such resets.
    pub(in crate::region) idle: &'a mut u8,
    /// The tracked part of the memory.
    pub(in crate::region) reach: &'a mut Reach,
}

/// The tracked parts of a slot's memory, in bytes from its start. `open` is at most `tracked`, and
/// `tracked` is at most `marked`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::region) struct Reach {
    /// End of the accessible part.
    pub(super) open: usize,
    /// End of the part that is registered with userfaultfd.
    pub(super) tracked: usize,
    /// End of the part whose mapping may differ from the original reservation.
    pub(in crate::region) marked: usize,
    /// End of the part over which the image is mapped.
    pub(in crate::region) mapped: usize,
    /// Start and end of the grown part that the kernel does not merge with the part before it.
    pub(super) apart: (usize, usize),
}

/// Size of a page that a reset restores, in bytes.
pub(super) const PAGE: usize = IMAGE_PAGE_BYTES as usize;

/// Maximum number of pages of a slot that a reset restores: 4 MiB. A reset returns further pages to
/// the kernel.
pub(super) const PUT_BACK_MAX: usize = 1024;

/// Number of unchanged resident pages that a slot may keep without limit in time. Comparing these
/// pages at each reset costs less than a system call.
pub(super) const SPARE: usize = 8;

/// Maximum size of an image that each reset copies, in bytes. A larger image is mapped. The cost of
/// a reset then depends on the pages that the instance wrote, and not on the size of the image.
const COPIED_IMAGE_BYTES: usize = 256 << 10;

/// Backing for strategies that decommit memory. The kernel then reads a mapped image from its file
/// again.
pub(super) fn copied_or_mapped(module: &Module) -> MemoryBacking {
    match module.image_bytes() > COPIED_IMAGE_BYTES {
        true => MemoryBacking::Mapped(module.image_end().next_multiple_of(page_bytes())),
        false => MemoryBacking::Plain,
    }
}

/// Copies the part of the image that starts at offset `from` into memory. The memory must be zero
/// from that offset on, because only the image's pages are written.
///
/// # Safety
///
/// `memory` must be writable for the whole size of the module's initial memory, and no other thread
/// may use the memory.
pub(in crate::region) unsafe fn copy_image(memory: *mut u8, from: usize, module: &Module) {
    for (start, bytes) in module.image_pieces() {
        let skipped = from.saturating_sub(start).min(bytes.len());
        let bytes = &bytes[skipped..];
        // SAFETY: the image's runs lie in the initial memory, which the caller says is writable.
        // `Module::open` checked the runs of a file, and a snapshot's runs are pages of its memory.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), memory.add(start + skipped), bytes.len());
        };
    }
}
