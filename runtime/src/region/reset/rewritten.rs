//! Rewritten: a reset keeps the first 64 KiB of the memory resident and rewrites them at each
//! reset, dirty or not. It returns the rest of the memory to the kernel. An image of more than 256
//! KiB is mapped copy-on-write instead: no page then stays resident.
//!
//! # Safety
//!
//! Owns this invariant: all writes lie in memory that the caller says is accessible.
#![allow(unsafe_code)]

use super::memory0::{Memory0, MemoryBacking, copied_or_mapped, copy_image};
use super::strategy::{ResetStrategy, Site};
use crate::module::Module;
use crate::region::parts::Parts;
use crate::sys::memory::NotProtected;
use core::ptr;
use pirn_format::layout::WASM_PAGE_BYTES;
use std::io;

/// Size of the part of memory that a reset rewrites and keeps resident, in bytes.
const REWRITTEN_BYTES: usize = WASM_PAGE_BYTES as usize;

/// See [`Reset::Rewritten`](super::Reset::Rewritten).
#[derive(Debug)]
pub(in crate::region) struct Rewritten;

impl ResetStrategy for Rewritten {
    /// The strategy works everywhere.
    fn probe(_: Site<'_>) -> io::Result<Self> {
        Ok(Self)
    }

    fn backing(&self, module: &Module) -> MemoryBacking {
        copied_or_mapped(module)
    }

    /// At most the first [`REWRITTEN_BYTES`] stay resident. All other bytes return to the kernel,
    /// and the image's part of them is copied again. No byte after the initial memory stays
    /// resident: a later change of the slot's backing relies on this.
    unsafe fn restore(
        &self,
        parts: &Parts<'_>,
        memory0: Memory0<'_>,
        module: &Module,
    ) -> Result<(), NotProtected> {
        let kept = match memory0.backing {
            MemoryBacking::Plain => REWRITTEN_BYTES.min(module.memory_bytes() as usize),
            // Decommitted pages of a mapped image are read from the file again.
            MemoryBacking::Mapped(_) | MemoryBacking::Tracked(_) => 0,
        };
        let memory = parts.vmctx();
        // SAFETY: the caller ensures that the memory is accessible up to `used`, and that no thread
        // uses it.
        unsafe {
            parts
                .reservation
                .decommit(memory + kept..memory + memory0.used)?;
            if kept > 0 {
                rewrite(memory as *mut u8, kept, module);
                copy_image(memory as *mut u8, kept, module);
            }
        }
        Ok(())
    }
}

/// Rewrites the first `len` bytes of memory: with the image's pages, and with zeros where the image
/// has no page.
///
/// # Safety
///
/// `memory` must be writable for `len` bytes, a multiple of the image's page size. No other thread
/// may use the memory.
unsafe fn rewrite(memory: *mut u8, len: usize, module: &Module) {
    let mut at = 0;
    for (start, bytes) in module.image_pieces() {
        if start >= len {
            break;
        }
        let bytes = &bytes[..bytes.len().min(len - start)];
        // SAFETY: the pieces ascend and do not overlap, and this part of the piece lies below
        // `len`.
        unsafe {
            ptr::write_bytes(memory.add(at), 0, start - at);
            ptr::copy_nonoverlapping(bytes.as_ptr(), memory.add(start), bytes.len());
        }
        at = start + bytes.len();
    }
    // SAFETY: `at` is at most `len`, and the caller ensures that `len` bytes are writable.
    unsafe { ptr::write_bytes(memory.add(at), 0, len - at) };
}
