//! Rewritten and decommitted: the reset keeps a first part of the memory and rewrites all of it,
//! whatever the instance wrote there. It returns the rest of the memory to the kernel.
//!
//! # Safety
//!
//! Owns this invariant: all writes lie in memory that the caller says is accessible.
#![allow(unsafe_code)]

use super::copy_image;
use crate::module::Module;
use crate::region::slot::Parts;
use core::ptr;
use std::io;

/// Restores the first `used` bytes of memory 0, which are all accessible bytes, to the initial
/// memory of the module.
///
/// At most the first `kept` bytes stay resident. The others return to the kernel, and the image's
/// part of them is copied again. No byte after the initial memory stays resident: a later change of
/// the slot's backing relies on this.
///
/// # Errors
///
/// The error of madvise(2). The contents are then unknown.
///
/// # Safety
///
/// No thread may use the slot during the call. The initial memory must be at most `used` bytes.
pub(super) unsafe fn restore(
    parts: &Parts<'_>,
    used: usize,
    kept: usize,
    module: &Module,
) -> io::Result<()> {
    let kept = kept.min(module.memory_bytes() as usize);
    let memory = parts.vmctx();
    // SAFETY: the caller ensures that the memory is accessible up to `used`, and that no thread
    // uses it.
    unsafe {
        parts.reservation.decommit(memory + kept..memory + used)?;
        rewrite(memory as *mut u8, kept, module);
        copy_image(memory as *mut u8, kept, module);
    }
    Ok(())
}

/// Rewrites the first `len` bytes of memory: with the image's pages where it has any, and with zero
/// elsewhere.
///
/// # Safety
///
/// `memory` must be writable for `len` bytes, a multiple of the image's page size. No other thread
/// may use it.
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
