//! Whether a strategy works on this machine, found by trying and never by a return code alone.
//!
//! # Safety
//!
//! Owns the pages that it tries on.
#![allow(unsafe_code)]

use crate::sys::memory::{Access, Reservation, image_file};
use crate::sys::page_bytes;
use crate::sys::pagemap::{Backing, Pagemap};
use core::ops::Range;
use std::io;
use std::os::fd::AsFd;

/// A pagemap that tells written pages from others, both in plain memory and in a mapped file.
///
/// # Errors
///
/// What the system gives, or that what was told is wrong.
pub(super) fn scanned() -> io::Result<Pagemap> {
    let (page, pagemap) = (page_bytes(), Pagemap::open()?);
    let file = image_file([(0, &[1; 64][..]), (2 * page, &[1; 64])].into_iter())?;
    let memory = Reservation::new(6 * page)?;
    let start = memory.range().start;
    let (image, zeros) = (start..start + 3 * page, start + 3 * page..start + 6 * page);
    // SAFETY: a reservation that nobody else knows. Of each half the first page is read, the second
    // written, the third left alone.
    unsafe {
        memory.map_file(image.clone(), file.as_fd())?;
        memory.protect(zeros.clone(), Access::ReadWrite)?;
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
