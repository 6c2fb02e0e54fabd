//! Scanned: the image is mapped copy-on-write, the kernel is asked which pages the instance has made
//! its own, and only those are put back.
//!
//! ```text
//!   memory 0:  │ image: private mapping of a file │ zeros: private memory │ inaccessible ...
//!   pages:       shared, until written              none, until touched
//! ```
//!
//! A page that was put back stays resident, so that the next instance writes to it without a fault; it
//! is found and compared at every reset. So that one large request does not tax the small ones after
//! it, resident pages are given back when resets keep finding most of them unchanged, and a reset
//! that finds very many gives back those beyond a limit.
//!
//! # Safety
//!
//! Owns the fact that a page of the slot which is not found is exactly as it was mapped: it was never
//! written, or given back since.
#![allow(unsafe_code)]

use super::lines::Lines;
use super::{PAGE, PUT_BACK_MAX, SPARE, Scanner};
use crate::module::Module;
use crate::region::slot::Parts;
use crate::sys::pagemap::Backing;
use core::ops::Range;
use std::io;

/// Resets in a row that found many more pages than had changed, before those are given back.
const IDLE_MAX: u8 = 3;

/// Makes the first `used` bytes of memory 0, all that are accessible, the initial memory of the module,
/// whose image is mapped over the first `mapped` of them.
///
/// `idle` counts the resets in a row that found many more pages than had changed.
///
/// # Errors
///
/// What ioctl(2) and madvise(2) give: then the contents are unknown.
///
/// # Safety
///
/// Nobody may use the slot meanwhile. The initial memory must be at most `used` bytes.
pub(super) unsafe fn restore(
    scanner: &Scanner,
    parts: &Parts<'_>,
    used: usize,
    mapped: usize,
    idle: &mut u8,
    module: &Module,
) -> io::Result<()> {
    let memory = parts.vmctx();
    let initial = module.memory_bytes() as usize;
    // SAFETY: memory that is accessible and that nobody uses, as the caller says.
    unsafe {
        parts
            .reservation
            .decommit(memory + initial..memory + used)?;
    };
    let mut pages = Pages {
        lines: &scanner.lines,
        parts,
        module,
        found: 0,
        changed: 0,
    };
    // One walk for both parts: a second system call costs more than comparing the zero page where a
    // guest has read memory that it never wrote.
    let backing = if mapped > 0 {
        Backing::File
    } else {
        Backing::Zero
    };
    scanner
        .pagemap
        .written(memory..memory + initial, backing, |run| {
            // SAFETY: as above: what is found lies in the range.
            unsafe { pages.restore(run) }
        })?;
    let Pages { found, changed, .. } = pages;
    *idle = if found > 2 * changed + SPARE {
        *idle + 1
    } else {
        0
    };
    if *idle >= IDLE_MAX {
        *idle = 0;
        // SAFETY: as above. What is given back is as it was mapped: the image, or zeros.
        unsafe { parts.reservation.decommit(memory..memory + initial)? };
    }
    Ok(())
}

/// The pages of one reset.
struct Pages<'a> {
    lines: &'a Lines,
    parts: &'a Parts<'a>,
    module: &'a Module,
    found: usize,
    changed: usize,
}

impl Pages<'_> {
    /// Puts back a run of pages; `false` if all that lies behind was given back instead.
    ///
    /// # Safety
    ///
    /// The run must lie in the accessible memory of a slot that nobody uses.
    unsafe fn restore(&mut self, run: Range<usize>) -> io::Result<bool> {
        let memory = self.parts.vmctx();
        for at in run.step_by(PAGE) {
            if self.changed == PUT_BACK_MAX {
                let end = memory + self.module.memory_bytes() as usize;
                // SAFETY: the caller's promise, for all of the initial memory. The start may lie within
                // a page of the kernel's: then all of that page is as it was.
                unsafe { self.parts.reservation.decommit(whole(at)..end)? };
                return Ok(false);
            }
            let initial = self.module.image_page(at - memory);
            self.found += 1;
            // SAFETY: a page of the run, which is writable and nobody else uses.
            if unsafe { self.lines.restore(at as *mut u8, initial) } {
                self.changed += 1;
            }
        }
        Ok(true)
    }
}

/// The start of the kernel's page that an address lies in.
fn whole(address: usize) -> usize {
    address - address % crate::sys::page_bytes()
}
