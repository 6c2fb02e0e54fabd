//! Decommitted: a reset returns all memory to the kernel, and copies the image again.
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
use std::io;

/// See [`Reset::Decommitted`](super::Reset::Decommitted).
#[derive(Debug)]
pub(in crate::region) struct Decommitted;

impl ResetStrategy for Decommitted {
    /// The strategy works everywhere.
    fn probe(_: Site<'_>) -> io::Result<Self> {
        Ok(Self)
    }

    fn backing(&self, module: &Module) -> MemoryBacking {
        copied_or_mapped(module)
    }

    unsafe fn restore(
        &self,
        parts: &Parts<'_>,
        memory0: Memory0<'_>,
        module: &Module,
    ) -> Result<(), NotProtected> {
        let memory = parts.vmctx();
        // SAFETY: the caller ensures that the memory is accessible up to `used`, and that no thread
        // uses it. The initial memory is not larger than `used`.
        unsafe {
            parts.reservation.decommit(memory..memory + memory0.used)?;
            if memory0.backing == MemoryBacking::Plain {
                copy_image(memory as *mut u8, 0, module);
            }
        }
        Ok(())
    }
}
