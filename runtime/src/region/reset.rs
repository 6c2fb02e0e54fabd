//! [`Reset`]: how a slot is made clean for the next instance.
//!
//! One interface: [`restore`] makes memory that the last instance of a module may have changed exactly
//! the module's initial memory again, or says that it could not. A slot whose restoration failed holds
//! nothing that may be relied upon, and is paved over before anybody gets it.
//!
//! # Safety
//!
//! Owns the fact that nobody uses a slot between its instance's end and its return to the free list.
#![allow(unsafe_code)]

use super::slot::Parts;
use crate::module::Module;
use core::{fmt, ptr};
use pirn_format::layout::WASM_PAGE_BYTES;
use std::io;

/// How a slot is made clean for the next instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reset {
    /// The fastest that this machine has.
    #[default]
    Auto,
    /// The first 64 KiB of memory are rewritten, so that their pages stay resident; the rest is given
    /// back to the kernel, and what of the image lies there is copied again.
    Rewritten,
    /// All memory is given back to the kernel, and the image is copied again.
    Decommitted,
}

impl Reset {
    /// The strategy that [`Auto`](Self::Auto) means here.
    pub(super) fn chosen(self) -> Self {
        match self {
            Self::Auto => Self::Rewritten,
            chosen => chosen,
        }
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Rewritten => "rewritten",
            Self::Decommitted => "decommitted",
        })
    }
}

/// Bytes of memory that stay resident when rewritten.
const REWRITTEN_BYTES: usize = WASM_PAGE_BYTES as usize;

/// Makes the first `used` bytes of memory 0, all that are accessible, the initial memory of the module.
///
/// # Errors
///
/// What madvise(2) gives: then the contents are unknown.
///
/// # Safety
///
/// Nobody may use the slot meanwhile. The initial memory must be at most `used` bytes.
pub(super) unsafe fn restore(
    reset: Reset,
    parts: &Parts<'_>,
    used: usize,
    module: &Module,
) -> io::Result<()> {
    let kept = match reset {
        Reset::Decommitted => 0,
        Reset::Auto | Reset::Rewritten => REWRITTEN_BYTES.min(used),
    };
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
