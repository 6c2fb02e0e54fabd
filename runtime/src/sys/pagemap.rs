//! [`Pagemap`]: finds the pages of a range that a process has written.
//!
//! `PAGEMAP_SCAN` (Linux 6.7, Documentation/admin-guide/mm/pagemap.rst) walks the page tables of a
//! range and lists runs of pages by category. A written page of private memory is present or
//! swapped out, and is not a page of the mapped file. The category "written" does not help: without
//! a userfaultfd, this category includes untouched pages, too.
//!
//! System calls: open(2) once, ioctl(2) once per scan of up to [`RUNS`] runs.
//!
//! # Safety
//!
//! Owns the layout of the ioctl's argument, which the kernel reads and writes.
#![allow(unsafe_code)]

use super::fork::ForkMark;
use core::ops::Range;
use nix::ioctl_readwrite;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The argument of `PAGEMAP_SCAN`: `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// One run of pages: `struct page_region` of `linux/fs.h`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

ioctl_readwrite!(
    /// `PAGEMAP_SCAN`. Returns the number of listed runs.
    pagemap_scan,
    b'f',
    16,
    ScanArg
);

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// Runs that one system call lists.
const RUNS: usize = 64;

/// Backing of a scanned range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Anonymous memory: pages start as zero. A page that was only read is the zero page, which is
    /// unchanged.
    Zero,
    /// A private mapping of a file. The zero page counts as a change: the kernel may replace a page
    /// that was written with zeros by the zero page.
    File,
}

/// The page tables of this process.
#[derive(Debug)]
pub(crate) struct Pagemap {
    file: File,
    /// In a child process, the file still shows the parent's page tables.
    mark: ForkMark,
}

impl Pagemap {
    /// Opens the page tables of this process.
    ///
    /// # Errors
    ///
    /// The error of open(2), mmap(2) or madvise(2).
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            file: File::open("/proc/self/pagemap")?,
            mark: ForkMark::new()?,
        })
    }

    /// Whether this process opened the page tables. False in a fork.
    pub(crate) fn is_ours(&self) -> bool {
        self.mark.is_ours()
    }

    /// Calls `found` for every run of pages that was written since the range was mapped or returned
    /// to the system. The runs ascend. Stops when `found` returns `false`. The range must be
    /// page-aligned private memory.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2) or of `found`; then some pages were not reported.
    pub(crate) fn written(
        &self,
        range: Range<usize>,
        backing: Backing,
        mut found: impl FnMut(Range<usize>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let unchanged = match backing {
            Backing::Zero => PAGE_IS_FILE | PAGE_IS_PFNZERO,
            Backing::File => PAGE_IS_FILE,
        };
        let mut runs = [PageRegion::default(); RUNS];
        let mut start = range.start as u64;
        while start < range.end as u64 {
            let mut arg = ScanArg {
                size: size_of::<ScanArg>() as u64,
                flags: 0,
                start,
                end: range.end as u64,
                walk_end: 0,
                vec: (&raw mut runs) as u64,
                vec_len: RUNS as u64,
                max_pages: 0,
                category_inverted: unchanged,
                category_mask: unchanged,
                category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            };
            // SAFETY: the argument and the array that it points to are valid, and have the sizes
            // that the argument states.
            let count = unsafe { pagemap_scan(self.file.as_raw_fd(), &raw mut arg)? };
            for run in &runs[..(count as usize).min(RUNS)] {
                if !found(run.start as usize..run.end as usize)? {
                    return Ok(());
                }
            }
            if arg.walk_end <= start {
                return Err(io::Error::other("PAGEMAP_SCAN makes no progress"));
            }
            start = arg.walk_end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::{Access, Reservation, image_file};
    use crate::sys::page_bytes;
    use std::os::fd::AsFd;

    /// Returns `None` on a kernel without PAGEMAP_SCAN.
    fn pagemap() -> Option<Pagemap> {
        let pagemap = Pagemap::open().ok()?;
        let nothing = Reservation::new(page_bytes()).ok()?;
        let probe = pagemap.written(nothing.range(), Backing::Zero, |_| Ok(true));
        probe.is_ok().then_some(pagemap)
    }

    fn list(pagemap: &Pagemap, range: Range<usize>, backing: Backing) -> Vec<usize> {
        let (start, mut pages) = (range.start, vec![]);
        let told = pagemap.written(range, backing, |run| {
            pages.extend(
                run.step_by(page_bytes())
                    .map(|at| (at - start) / page_bytes()),
            );
            Ok(true)
        });
        told.unwrap();
        pages
    }

    #[test]
    fn what_was_written_is_told_and_nothing_else() {
        let Some(pagemap) = pagemap() else { return };
        let (page, count) = (page_bytes(), 1000);
        let memory = Reservation::new(count * page).unwrap();
        let at = |n: usize| (memory.range().start + n * page) as *mut u8;
        // The number of runs is larger than one system call lists.
        let written: Vec<usize> = (0..count).filter(|n| n % 3 == 0).collect();
        // SAFETY: a reservation that only this test uses.
        unsafe {
            memory.protect(memory.range(), Access::ReadWrite).unwrap();
            for n in 0..count {
                match n % 3 {
                    // Writing a zero counts as a write.
                    0 => at(n).write_volatile((n % 2) as u8),
                    1 => drop(at(n).read_volatile()),
                    _ => {}
                }
            }
        }
        assert_eq!(list(&pagemap, memory.range(), Backing::Zero), written);
        // SAFETY: only this test uses the reservation, and the test holds no reference into it.
        unsafe { memory.decommit(memory.range()).unwrap() };
        assert_eq!(list(&pagemap, memory.range(), Backing::Zero), [0; 0]);
    }

    #[test]
    fn pages_of_a_file_are_told_once_they_are_our_own() {
        let Some(pagemap) = pagemap() else { return };
        let page = page_bytes();
        let file = image_file([(0, &[7; 100][..]), (3 * page, &[8; 100])].into_iter()).unwrap();
        let memory = Reservation::new(4 * page).unwrap();
        let at = |n: usize| (memory.range().start + n * page) as *mut u8;
        // SAFETY: a reservation that only this test uses.
        unsafe {
            memory.map_file(memory.range(), file.as_fd()).unwrap();
            let access = Access::ReadWrite;
            memory.protect(memory.range(), access).unwrap();
            assert_eq!([at(0).read(), at(1).read(), at(3).read()], [7, 0, 8]);
            assert_eq!(list(&pagemap, memory.range(), Backing::File), [0; 0]);
            at(1).write_volatile(0);
            at(3).write_volatile(9);
            assert_eq!(list(&pagemap, memory.range(), Backing::File), [1, 3]);
            memory.decommit(memory.range()).unwrap();
            assert_eq!(at(3).read(), 8, "the file's byte again");
        }
    }
}
