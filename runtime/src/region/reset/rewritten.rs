//! Rewritten and decommitted: what lies past a kept part is given back to the kernel, and the kept part
//! is written anew, whatever the instance did with it.
//!
//! # Safety
//!
//! Owns the fact that what is written lies in memory that the caller said is accessible.
#![allow(unsafe_code)]

use super::copy_image;
use crate::module::Module;
use crate::region::slot::Parts;
use core::ptr;
use std::io;

/// Makes the first `used` bytes of memory 0, all that are accessible, the initial memory of the module,
/// keeping at most `kept` of that resident, and nothing behind it: whoever keeps the slot in another way
/// next relies on that.
///
/// # Errors
///
/// What madvise(2) gives: then the contents are unknown.
///
/// # Safety
///
/// Nobody may use the slot meanwhile. The initial memory must be at most `used` bytes.
pub(super) unsafe fn restore(
    parts: &Parts<'_>,
    used: usize,
    kept: usize,
    module: &Module,
) -> io::Result<()> {
    let kept = kept.min(module.memory_bytes() as usize);
    let memory = parts.vmctx();
    // SAFETY: memory that is accessible and that nobody uses, as the caller says.
    unsafe {
        parts.reservation.decommit(memory + kept..memory + used)?;
        rewrite(memory as *mut u8, kept, module);
        copy_image(memory as *mut u8, kept, module);
    }
    Ok(())
}

/// Rewrites the first `len` bytes of memory: with the image where it has pages, else with zero.
///
/// # Safety
///
/// `memory` must be writable for `len` bytes, which must be whole pages of the image's.
unsafe fn rewrite(memory: *mut u8, len: usize, module: &Module) {
    let mut at = 0;
    for (start, bytes) in module.image_pieces() {
        if start >= len {
            break;
        }
        let bytes = &bytes[..bytes.len().min(len - start)];
        // SAFETY: pieces ascend and lie apart; these parts of them lie below `len`.
        unsafe {
            ptr::write_bytes(memory.add(at), 0, start - at);
            ptr::copy_nonoverlapping(bytes.as_ptr(), memory.add(start), bytes.len());
        }
        at = start + bytes.len();
    }
    // SAFETY: as above.
    unsafe { ptr::write_bytes(memory.add(at), 0, len - at) };
}
