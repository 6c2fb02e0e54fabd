//! Scanned: the image is mapped copy-on-write. A reset asks the kernel which pages have private
//! copies, and restores only these pages.
//!
//! ```text
//!   memory 0:  │ image: private mapping of a file │ zeros: private memory │ inaccessible ...
//!   pages:       shared, until written              none, until touched
//! ```
//!
//! A restored page stays resident, so that the next instance writes to the page without a fault.
//! Every later reset finds the page again and compares it. One large request must not slow down the
//! small requests after it. So resident pages return to the kernel if several resets in a row find
//! most of these pages unchanged. A reset that finds more written pages than a limit returns the
//! rest of the memory to the kernel.
//!
//! # Safety
//!
//! Owns this invariant: a page of the slot that the scan does not report has its mapped contents.
//! The page was never written, or has returned to the kernel since.
#![allow(unsafe_code)]

use super::lines::Lines;
use super::memory0::{Memory0, MemoryBacking, PAGE, PUT_BACK_MAX, SPARE};
use super::strategy::{ResetStrategy, Site};
use crate::module::Module;
use crate::region::parts::Parts;
use crate::sys::memory::{Access, NotProtected, Reservation, image_file};
use crate::sys::page_bytes;
use crate::sys::pagemap::{Backing, Pagemap};
use core::ops::Range;
use std::io;
use std::os::fd::AsFd;

/// Number of resets in a row that must find many more resident pages than changed pages, before the
/// pages return to the kernel.
const IDLE_MAX: u8 = 3;

/// See [`Reset::Scanned`](super::Reset::Scanned).
#[derive(Debug)]
pub(in crate::region) struct Scanned {
    pagemap: Pagemap,
    lines: Lines,
}

impl ResetStrategy for Scanned {
    fn probe(_: Site<'_>) -> io::Result<Self> {
        Ok(Self {
            pagemap: tested_pagemap()?,
            lines: Lines::detect(),
        })
    }

    fn backing(&self, module: &Module) -> MemoryBacking {
        match module.image_end() {
            0 => MemoryBacking::Plain,
            end => MemoryBacking::Mapped(end.next_multiple_of(page_bytes())),
        }
    }

    unsafe fn restore(
        &self,
        parts: &Parts<'_>,
        memory0: Memory0<'_>,
        module: &Module,
    ) -> Result<(), NotProtected> {
        let memory = parts.vmctx();
        // SAFETY: the caller ensures that no thread uses the slot, that the initial memory is
        // accessible, and that `memory0` states the true backing.
        unsafe {
            if !self.pagemap.is_ours() {
                // In a fork, the pagemap shows the parent's memory. So the reset returns all pages
                // to the kernel, and the pages then have their mapped contents.
                parts.reservation.decommit(memory..memory + memory0.used)?;
                return Ok(());
            }
            let mapped = memory0.backing.mapped_bytes();
            self.restore_written(parts, memory0.used, mapped, memory0.idle, module)?;
        }
        Ok(())
    }
}

impl Scanned {
    /// Restores the first `used` bytes of memory 0, which are all accessible bytes, to the initial
    /// memory of the module. The module's image is mapped over the first `mapped` bytes.
    ///
    /// `idle` counts the resets in a row that found many more resident pages than changed pages.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2) or madvise(2). The contents are then unknown.
    ///
    /// # Safety
    ///
    /// No thread may use the slot during the call. The initial memory must be at most `used` bytes.
    unsafe fn restore_written(
        &self,
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
        let mut pages = ScannedPages {
            lines: &self.lines,
            parts,
            module,
            found: 0,
            changed: 0,
        };
        // One scan covers the image and the zeros after it. A second system call would cost more
        // than the comparison of zero pages, which a guest has read and never written.
        let backing = if mapped > 0 {
            Backing::File
        } else {
            Backing::Zero
        };
        self.pagemap
            .written(memory..memory + initial, backing, |run| {
                // SAFETY: the run lies in the scanned range, which is accessible and which no
                // thread uses.
                unsafe { pages.restore(run) }
            })?;
        let ScannedPages { found, changed, .. } = pages;
        *idle = if found > 2 * changed + SPARE {
            *idle + 1
        } else {
            0
        };
        if *idle >= IDLE_MAX {
            *idle = 0;
            // SAFETY: the initial memory is accessible, and no thread uses it. Returned pages have
            // their mapped contents again: the image, or zeros.
            unsafe { parts.reservation.decommit(memory..memory + initial)? };
        }
        Ok(())
    }
}

/// Restores the pages of one reset, and counts them.
struct ScannedPages<'a> {
    lines: &'a Lines,
    parts: &'a Parts<'a>,
    module: &'a Module,
    found: usize,
    changed: usize,
}

impl ScannedPages<'_> {
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

/// Returns a pagemap, after a test that it distinguishes written pages from other pages, in
/// anonymous memory and in a mapped file.
///
/// # Errors
///
/// The error of a system call, or an error that says that the kernel's answer is wrong.
fn tested_pagemap() -> io::Result<Pagemap> {
    let (page, pagemap) = (page_bytes(), Pagemap::open()?);
    let file = image_file([(0, &[1; 64][..]), (2 * page, &[1; 64])].into_iter())?;
    let memory = Reservation::new(6 * page)?;
    let start = memory.range().start;
    let (image, zeros) = (start..start + 3 * page, start + 3 * page..start + 6 * page);
    // SAFETY: no other code knows this reservation. In each half, the test reads the first page,
    // writes the second page, and does not touch the third page.
    unsafe {
        memory.map_file(image.clone(), file.as_fd())?;
        memory.protect(memory.range(), Access::ReadWrite)?;
        for half in [&image, &zeros] {
            (half.start as *const u8).read_volatile();
            ((half.start + page) as *mut u8).write_volatile(1);
        }
    }
    for (range, backing) in [(image, Backing::File), (zeros, Backing::Zero)] {
        let second = range.start + page..range.start + 2 * page;
        let mut reported: Vec<Range<usize>> = vec![];
        pagemap.written(range.clone(), backing, |run| {
            reported.push(run);
            Ok(true)
        })?;
        if reported != [second] {
            return Err(io::Error::other(
                "PAGEMAP_SCAN reports pages that were not written",
            ));
        }
    }
    Ok(pagemap)
}
