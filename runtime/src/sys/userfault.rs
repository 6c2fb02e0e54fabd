//! [`Userfault`]: memory that reports the first touch and the first write of each page to the
//! process.
//!
//! In a registered range, two accesses raise SIGBUS in the thread that makes them
//! (`UFFD_FEATURE_SIGBUS`): any access to a missing page, and a write to a page that was filled
//! write-protected. The signal handler then fills the page or removes its protection by an ioctl.
//! In a registered private mapping of a file in memory, only writes to protected pages raise
//! SIGBUS. The kernel fills missing pages of such a mapping from the file. The kernel keeps the
//! protection of pages that are missing or that it takes back. The kernel forgets the protection of
//! pages that madvise(2) discards after a write. With `UFFD_USER_MODE_ONLY`, a userfaultfd needs no
//! privilege. In return, a system call that is passed a missing or protected page fails with
//! `EFAULT`. Sources: userfaultfd(2), ioctl_userfaultfd(2),
//! Documentation/admin-guide/mm/userfaultfd.rst.
//!
//! System calls: userfaultfd(2) and an ioctl once, one ioctl per range, and one or two ioctls per
//! page that is touched for the first time.
//!
//! # Safety
//!
//! Owns the layouts of the ioctls' arguments, which the kernel reads and writes. The caller that
//! fills a page must own it, see [`Userfault::fill`].
#![allow(unsafe_code)]

use core::ops::Range;
use nix::errno::Errno;
use nix::ioctl_readwrite;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct uffdio_api` of `linux/userfaultfd.h`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_copy`.
#[repr(C)]
struct Copy {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

ioctl_readwrite!(uffdio_api, UFFD_API, 0x3f, Api);
ioctl_readwrite!(uffdio_register, UFFD_API, 0, Register);
ioctl_readwrite!(uffdio_copy, UFFD_API, 3, Copy);
ioctl_readwrite!(uffdio_writeprotect, UFFD_API, 6, WriteProtect);

/// Type of the ioctls, and version of the interface.
const UFFD_API: u64 = 0xaa;
const UFFD_USER_MODE_ONLY: i32 = 1;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const FEATURE_SIGBUS: u64 = 1 << 7;
/// Write-protection in mappings of files in memory (Linux 5.19).
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const REGISTER_MISSING: u64 = 1 << 0;
const REGISTER_WP: u64 = 1 << 1;
const COPY_WP: u64 = 1 << 1;
const PROTECT_WP: u64 = 1 << 0;

/// Result of filling a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// The page was missing and is now filled.
    Filled,
    /// The page was present: another thread filled the page first, or the page is write-protected.
    WasThere,
}

/// A userfaultfd. Registered ranges keep their behaviour while this value lives.
#[derive(Debug)]
pub(crate) struct Userfault {
    fd: OwnedFd,
    /// Whether writes to private mappings of files in memory can be reported.
    protects_files: bool,
}

impl Userfault {
    /// Opens a userfaultfd.
    ///
    /// # Errors
    ///
    /// The error of userfaultfd(2) or ioctl(2): EPERM under a seccomp filter, ENOSYS or EINVAL if
    /// the kernel lacks the feature or a part of it.
    pub(crate) fn new() -> io::Result<Self> {
        // The kernel refuses features that it does not know, with EINVAL.
        Self::with(FEATURE_WP_HUGETLBFS_SHMEM).or_else(|_| Self::with(0))
    }

    fn with(more: u64) -> io::Result<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
        // nix lacks userfaultfd(2).
        // SAFETY: the arguments contain no pointers.
        let fd = Errno::result(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })?;
        // SAFETY: the descriptor was just made, and no other code owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let mut api = Api {
            api: UFFD_API,
            features: FEATURE_SIGBUS | FEATURE_PAGEFAULT_FLAG_WP | more,
            ioctls: 0,
        };
        // SAFETY: the descriptor is a userfaultfd, and the argument is valid.
        unsafe { uffdio_api(fd.as_raw_fd(), &raw mut api)? };
        let protects_files = more != 0;
        Ok(Self { fd, protects_files })
    }

    /// Whether [`register_file`](Self::register_file) works.
    pub(crate) fn protects_files(&self) -> bool {
        self.protects_files
    }

    /// Registers a range: from now on, the first touch and the first write of each page raise
    /// SIGBUS.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2): EINVAL if the range is not private anonymous memory.
    pub(crate) fn register(&self, range: &Range<usize>) -> io::Result<()> {
        self.register_as(range, REGISTER_MISSING | REGISTER_WP)
    }

    /// Registers and protects a range of a private mapping of a file in memory: from now on, the
    /// first write to each page raises SIGBUS. Allocates the page tables of the range.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2): EINVAL for another mapping, ENOMEM. The range may then be registered,
    /// and protected in part.
    pub(crate) fn register_file(&self, range: &Range<usize>) -> io::Result<()> {
        self.register_as(range, REGISTER_WP)?;
        self.protect(range)
    }

    /// Protects all pages of a range that [`register_file`](Self::register_file) has registered,
    /// whether they are missing or present.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2). The range may then be protected in part.
    pub(crate) fn protect(&self, range: &Range<usize>) -> io::Result<()> {
        Ok(self.write_protect(range.start, range.len(), PROTECT_WP)?)
    }

    fn register_as(&self, range: &Range<usize>, mode: u64) -> io::Result<()> {
        let mut register = Register {
            start: range.start as u64,
            len: range.len() as u64,
            mode,
            ioctls: 0,
        };
        // SAFETY: the descriptor is a userfaultfd, and the argument is valid.
        unsafe { uffdio_register(self.fd.as_raw_fd(), &raw mut register)? };
        Ok(())
    }

    /// Fills a page of a registered range with a copy of another page, write-protected if
    /// `protected`. The page appears in one step for all threads. Async-signal-safe except for
    /// `errno`.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2): EAGAIN if the caller should try again, ENOMEM, ENOENT outside a
    /// registered range.
    ///
    /// # Safety
    ///
    /// The page must belong to the caller. `page` and `from` must be aligned pages of `bytes`
    /// bytes, and `from` must be readable.
    pub(crate) unsafe fn fill(
        &self,
        page: usize,
        from: *const u8,
        bytes: usize,
        protected: bool,
    ) -> nix::Result<Fill> {
        let mut copy = Copy {
            dst: page as u64,
            src: from as u64,
            len: bytes as u64,
            mode: if protected { COPY_WP } else { 0 },
            copied: 0,
        };
        // SAFETY: the descriptor is a userfaultfd, and the argument is valid. The caller owns the
        // page and promises a readable source.
        match unsafe { uffdio_copy(self.fd.as_raw_fd(), &raw mut copy) } {
            Ok(_) => Ok(Fill::Filled),
            Err(Errno::EEXIST) => Ok(Fill::WasThere),
            Err(error) => Err(error),
        }
    }

    /// Fills consecutive missing pages of a registered range with a copy of `from`, up to the first
    /// page that is present. Returns the number of bytes filled: 0 if the first page is present.
    /// Each page appears in one step, write-protected if `protected`.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2): EAGAIN if the caller should try again, ENOMEM, ENOENT outside a
    /// registered range.
    ///
    /// # Safety
    ///
    /// The pages must belong to the caller. `from` must have `bytes` readable bytes. `pages`,
    /// `from` and `bytes` must be multiples of the page size.
    pub(crate) unsafe fn fill_run(
        &self,
        pages: usize,
        from: *const u8,
        bytes: usize,
        protected: bool,
    ) -> nix::Result<usize> {
        let mut copy = Copy {
            dst: pages as u64,
            src: from as u64,
            len: bytes as u64,
            mode: if protected { COPY_WP } else { 0 },
            copied: 0,
        };
        // SAFETY: the descriptor is a userfaultfd, and the argument is valid. The caller owns the
        // pages and promises a readable source.
        match unsafe { uffdio_copy(self.fd.as_raw_fd(), &raw mut copy) } {
            Ok(_) => Ok(bytes),
            // The kernel stopped after some pages, and answers EAGAIN.
            Err(_) if copy.copied > 0 => Ok(copy.copied as usize),
            Err(Errno::EEXIST) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Removes the write-protection of a page. Async-signal-safe except for `errno`.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2): EAGAIN if the caller should try again.
    pub(crate) fn unprotect(&self, page: usize, bytes: usize) -> nix::Result<()> {
        self.write_protect(page, bytes, 0)
    }

    fn write_protect(&self, start: usize, bytes: usize, mode: u64) -> nix::Result<()> {
        let mut protection = WriteProtect {
            start: start as u64,
            len: bytes as u64,
            mode,
        };
        // SAFETY: the descriptor is a userfaultfd, and the argument is valid.
        unsafe { uffdio_writeprotect(self.fd.as_raw_fd(), &raw mut protection) }.map(drop)
    }
}

/// Runs a function that may change `errno`, and restores `errno`. For handlers that interrupt any
/// code.
pub(crate) fn keeping_errno<R>(run: impl FnOnce() -> R) -> R {
    let before = Errno::last_raw();
    let result = run();
    Errno::set_raw(before);
    result
}
