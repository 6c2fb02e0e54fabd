//! Scanned: the image is mapped copy-on-write. A reset asks the kernel which pages have private
//! copies, and restores only those.
//!
//! ```text
//!   memory 0:  │ image: private mapping of a file │ zeros: private memory │ inaccessible ...
//!   pages:       shared, until written              none, until touched
//! ```
//!
//! A restored page stays resident, so that the next instance writes to it without a fault. Every
//! later reset finds the page again and compares it. One large request must not slow down the small
//! requests after it. So resident pages return to the kernel if several resets in a row find most
//! of them unchanged. A reset that finds more changed pages than a limit returns the rest to the
//! kernel.
//!
//! # Safety
//!
//! Owns this invariant: a page of the slot that the scan does not report is exactly as it was
//! mapped. It was never written, or returned to the kernel since.
#![allow(unsafe_code)]

use super::lines::Lines;
use super::{PAGE, PUT_BACK_MAX, SPARE, Scanner};
use crate::module::Module;
use crate::region::slot::Parts;
use crate::sys::pagemap::Backing;
use core::ops::Range;
use std::io;

/// Number of resets in a row that must find many more pages than have changed before the pages
/// return to the kernel.
const IDLE_MAX: u8 = 3;

/// Restores the first `used` bytes of memory 0, which are all accessible bytes, to the initial
/// memory of the module. The module's image is mapped over the first `mapped` bytes.
///
/// `idle` counts the resets in a row that found many more pages than had changed.
///
/// # Errors
///
/// The error of ioctl(2) or madvise(2). The contents are then unknown.
///
/// # Safety
///
/// No thread may use the slot during the call. The initial memory must be at most `used` bytes.
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
    // SAFETY: the caller ensures that the memory is accessible up to `used`, and that no thread
    // uses it.
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
    // One scan covers the image and the zeros after it. A second system call would cost more than
    // the comparison of zero pages, which a guest has read and never written.
    let backing = if mapped > 0 {
        Backing::File
    } else {
        Backing::Zero
    };
    scanner
        .pagemap
        .written(memory..memory + initial, backing, |run| {
            // SAFETY: the run lies in the scanned range, which is accessible and which no thread
            // uses.
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
        // SAFETY: the initial memory is accessible, and no thread uses it. Returned pages are again
        // as they were mapped: the image, or zeros.
        unsafe { parts.reservation.decommit(memory..memory + initial)? };
    }
    Ok(())
}

/// Restores the pages of one reset, and counts them.
struct Pages<'a> {
    lines: &'a Lines,
    parts: &'a Parts<'a>,
    module: &'a Module,
    found: usize,
    changed: usize,
}

impl Pages<'_> {
    /// Restores a run of pages. `false` if the rest of the memory returned to the kernel instead.
    ///
    /// # Safety
    ///
    /// The run must lie in the accessible memory of a slot that no thread uses.
    unsafe fn restore(&mut self, run: Range<usize>) -> io::Result<bool> {
        let memory = self.parts.vmctx();
        for at in run.step_by(PAGE) {
            if self.changed == PUT_BACK_MAX {
                let end = memory + self.module.memory_bytes() as usize;
                // SAFETY: the initial memory is accessible, and the caller ensures that no thread
                // uses the slot. If `at` lies inside a page of the kernel, that whole page returns
                // to its mapped state.
                unsafe { self.parts.reservation.decommit(whole(at)..end)? };
                return Ok(false);
            }
            let initial = self.module.image_page(at - memory);
            self.found += 1;
            // SAFETY: the page lies in the run, which is writable and which no other thread uses.
            if unsafe { self.lines.restore(at as *mut u8, initial) } {
                self.changed += 1;
            }
        }
        Ok(true)
    }
}

/// Start of the kernel's page that contains an address.
fn whole(address: usize) -> usize {
    address - address % crate::sys::page_bytes()
}
