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
mod probe;
mod rewritten;
mod scanned;

use super::slot::Parts;
use crate::module::Module;
use crate::sys::pagemap::Pagemap;
use core::{fmt, ptr};
use lines::Lines;
use pirn_format::layout::WASM_PAGE_BYTES;
use std::io;

/// How a slot is made clean for the next instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reset {
    /// The fastest that works on this machine, found by trying.
    #[default]
    Auto,
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
    pub const ALL: [Self; 3] = [Self::Scanned, Self::Rewritten, Self::Decommitted];
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Scanned => "scanned",
            Self::Rewritten => "rewritten",
            Self::Decommitted => "decommitted",
        })
    }
}

/// A way of resetting that works here.
#[derive(Debug)]
pub(super) enum Strategy {
    /// See [`Reset::Scanned`].
    Scanned(Pagemap, Lines),
    /// See [`Reset::Rewritten`].
    Rewritten,
    /// See [`Reset::Decommitted`].
    Decommitted,
}

/// Bytes of memory that stay resident when rewritten.
const REWRITTEN_BYTES: usize = WASM_PAGE_BYTES as usize;

impl Strategy {
    /// The strategy that is asked for, after trying that it works.
    ///
    /// # Errors
    ///
    /// Why what was asked for by name does not work here.
    pub(super) fn choose(reset: Reset) -> io::Result<Self> {
        match reset {
            Reset::Auto => Ok(Self::scanned().unwrap_or(Self::Rewritten)),
            Reset::Scanned => Self::scanned(),
            Reset::Rewritten => Ok(Self::Rewritten),
            Reset::Decommitted => Ok(Self::Decommitted),
        }
    }

    fn scanned() -> io::Result<Self> {
        Ok(Self::Scanned(probe::scanned()?, Lines::detect()))
    }

    /// Its name.
    pub(super) fn name(&self) -> Reset {
        match self {
            Self::Scanned(..) => Reset::Scanned,
            Self::Rewritten => Reset::Rewritten,
            Self::Decommitted => Reset::Decommitted,
        }
    }

    /// Bytes at the start of memory over which the image of a module is to be mapped.
    pub(super) fn mapped_bytes(&self, module: &Module) -> usize {
        match self {
            Self::Scanned(..) => module
                .image_end()
                .next_multiple_of(crate::sys::page_bytes()),
            Self::Rewritten | Self::Decommitted => 0,
        }
    }

    /// Makes the first `used` bytes of memory 0, all that are accessible, the initial memory of the
    /// module.
    ///
    /// # Errors
    ///
    /// What the kernel gives: then the contents are unknown.
    ///
    /// # Safety
    ///
    /// Nobody may use the slot meanwhile. The initial memory must be at most `used` bytes, and its
    /// image be mapped over the first `mapped` of them, or copied if that is 0.
    pub(super) unsafe fn restore(
        &self,
        parts: &Parts<'_>,
        used: usize,
        mapped: usize,
        idle: &mut u8,
        module: &Module,
    ) -> io::Result<()> {
        let memory = parts.vmctx();
        // SAFETY: (all arms) passed on.
        unsafe {
            match self {
                Self::Scanned(pagemap, lines) if pagemap.is_ours() => {
                    scanned::restore(pagemap, lines, parts, used, mapped, idle, module)
                }
                // In a fork the pagemap is that of the parent: everything is given back, and is as it
                // was mapped.
                Self::Scanned(..) => parts.reservation.decommit(memory..memory + used),
                Self::Rewritten => rewritten::restore(parts, used, REWRITTEN_BYTES, module),
                Self::Decommitted => rewritten::restore(parts, used, 0, module),
            }
        }
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
