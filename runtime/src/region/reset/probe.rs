//! Tests whether a reset strategy works on this machine. Each test reads and writes real pages, and
//! does not rely on return codes alone.
//!
//! # Safety
//!
//! Owns the pages that the tests use.
#![allow(unsafe_code)]

use super::tracked::{Reach, Tracker};
use crate::region::layout::{Layout, Limits};
use crate::region::slot::Parts;
use crate::sys::memory::{Access, Reservation, image_file};
use crate::sys::page_bytes;
use crate::sys::pagemap::{Backing, Pagemap};
use core::ops::Range;
use std::io;
use std::os::fd::AsFd;

/// Returns a pagemap, after a test that it distinguishes written pages from others, in anonymous
/// memory and in a mapped file.
///
/// # Errors
///
/// The error of a system call, or an error that says that the kernel's answer is wrong.
pub(super) fn scanned() -> io::Result<Pagemap> {
    let (page, pagemap) = (page_bytes(), Pagemap::open()?);
    let file = image_file([(0, &[1; 64][..]), (2 * page, &[1; 64])].into_iter())?;
    let memory = Reservation::new(6 * page)?;
    let start = memory.range().start;
    let (image, zeros) = (start..start + 3 * page, start + 3 * page..start + 6 * page);
    // SAFETY: no other code knows this reservation. In each half, the test reads the first page and
    // writes the second. It does not touch the third.
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
        let mut told: Vec<Range<usize>> = vec![];
        pagemap.written(range.clone(), backing, |run| {
            told.push(run);
            Ok(true)
        })?;
        if told != [second] {
            return Err(io::Error::other(
                "PAGEMAP_SCAN tells pages that were not written",
            ));
        }
    }
    Ok(pagemap)
}

/// Tests that a tracker distinguishes read pages from written ones, in this thread and with the
/// signal handler that is installed.
///
/// # Errors
///
/// The error of a system call, or an error that says that the tracker's list is wrong.
pub(super) fn tracked() -> io::Result<()> {
    if !crate::signals::handles(libc::SIGBUS)? {
        return Err(io::Error::other("another handler has taken SIGBUS"));
    }
    crate::sys::signal::prepare_thread()?;
    let mut limits = Limits {
        slots: 1,
        memories: 1,
        memory_bytes_max: 1 << 16,
        tables: 0,
        table_elements: 0,
        stack_bytes: 1 << 16,
        instance_bytes: 1 << 16,
    };
    let layout = Layout::new(&mut limits).map_err(|_| io::ErrorKind::InvalidInput)?;
    let memory = [Reservation::new(layout.bytes())?];
    let tracker = Tracker::new(&memory, 1, &layout, &limits)?;
    let parts = Parts::new(&memory[0], memory[0].range().start, &layout);
    let page = page_bytes();
    let at = |n: usize| (parts.vmctx() + n * page) as *mut u8;
    // SAFETY: no other code knows this reservation. The memory's size is set to three pages before
    // the test touches them.
    let read = unsafe {
        tracker.resize(0, &parts, &mut Reach::default(), 3 * page)?;
        let read = [at(0).read_volatile(), at(2).read_volatile()];
        at(1).write_volatile(1);
        at(2).write_volatile(2);
        [
            read[0],
            read[1],
            at(0).read_volatile(),
            at(1).read_volatile(),
        ]
    };
    if read != [0, 0, 0, 1] || tracker.listed(0) != [1, 2] {
        return Err(io::Error::other(
            "userfaultfd does not tell what is read from what is written",
        ));
    }
    Ok(())
}
