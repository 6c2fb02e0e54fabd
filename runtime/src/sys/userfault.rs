//! [`Userfault`]: memory whose first touch and first write are told to the process itself.
//!
//! In a range that is registered, a page that was never filled, and one that was filled write-protected
//! and is written to, raise SIGBUS in the thread that touches it (`UFFD_FEATURE_SIGBUS`), and the handler
//! fills the page or lifts its protection by an ioctl. With `UFFD_USER_MODE_ONLY` nobody needs a
//! privilege for that; the price is that a system call which is handed such a page answers `EFAULT`.
//! Sources: userfaultfd(2), ioctl_userfaultfd(2), Documentation/admin-guide/mm/userfaultfd.rst.
//!
//! System calls: userfaultfd(2) and an ioctl once, an ioctl a range, one or two a page that is touched
//! for the first time.
//!
//! # Safety
//!
//! Owns the layouts of the ioctls' arguments, which the kernel reads and writes. Whoever fills a page
//! owns it, see [`Userfault::fill`].
#![allow(unsafe_code)]

use core::ops::Range;
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

/// `_IOWR(0xaa, number, argument)`
const fn request<T>(number: u64) -> u64 {
    3 << 30 | (size_of::<T>() as u64) << 16 | 0xaa << 8 | number
}

const UFFDIO_API: u64 = request::<Api>(0x3f);
const UFFDIO_REGISTER: u64 = request::<Register>(0);
const UFFDIO_COPY: u64 = request::<Copy>(3);
const UFFDIO_WRITEPROTECT: u64 = request::<WriteProtect>(6);

const UFFD_API: u64 = 0xaa;
const UFFD_USER_MODE_ONLY: i32 = 1;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const FEATURE_SIGBUS: u64 = 1 << 7;
const REGISTER_MISSING: u64 = 1 << 0;
const REGISTER_WP: u64 = 1 << 1;
const COPY_WP: u64 = 1 << 1;

/// What filling a page came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// It is filled.
    Filled,
    /// It was there already: another thread was first, or it is there and write-protected.
    WasThere,
}

/// Registered ranges keep their behaviour while it lives.
#[derive(Debug)]
pub(crate) struct Userfault(OwnedFd);

impl Userfault {
    /// Asks the kernel for it.
    ///
    /// # Errors
    ///
    /// What userfaultfd(2) and ioctl(2) give: EPERM under a seccomp filter, ENOSYS or EINVAL where the
    /// kernel does not have it or not all of it.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
        // SAFETY: no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made, and that nobody else has.
        let userfault = Self(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        let wanted = FEATURE_SIGBUS | FEATURE_PAGEFAULT_FLAG_WP;
        userfault.ioctl(
            UFFDIO_API,
            &mut Api {
                api: UFFD_API,
                features: wanted,
                ioctls: 0,
            },
        )?;
        Ok(userfault)
    }

    /// From now on the first touch and the first write of each page of the range raise SIGBUS.
    ///
    /// # Errors
    ///
    /// What ioctl(2) gives: EINVAL if the range is not private memory without a file.
    pub(crate) fn register(&self, range: &Range<usize>) -> io::Result<()> {
        self.ioctl(
            UFFDIO_REGISTER,
            &mut Register {
                start: range.start as u64,
                len: range.len() as u64,
                mode: REGISTER_MISSING | REGISTER_WP,
                ioctls: 0,
            },
        )
    }

    /// Fills a page of a registered range with a copy of another, in one step for all who look, and
    /// write-protects it if asked to. Async-signal-safe but for `errno`.
    ///
    /// # Errors
    ///
    /// What ioctl(2) gives: EAGAIN where it is to be tried again, ENOMEM, ENOENT outside such a range.
    ///
    /// # Safety
    ///
    /// The page must belong to the caller, and both pages be of `bytes`, aligned, and `from` readable.
    pub(crate) unsafe fn fill(
        &self,
        page: usize,
        from: *const u8,
        bytes: usize,
        protected: bool,
    ) -> io::Result<Fill> {
        let filled = self.ioctl(
            UFFDIO_COPY,
            &mut Copy {
                dst: page as u64,
                src: from as u64,
                len: bytes as u64,
                mode: if protected { COPY_WP } else { 0 },
                copied: 0,
            },
        );
        match filled {
            Ok(()) => Ok(Fill::Filled),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(Fill::WasThere),
            Err(error) => Err(error),
        }
    }

    /// Fills consecutive missing pages of a registered range with a copy of `from`, up to the first
    /// page that is present. Returns the number of bytes filled: 0 if the first page is present.
    /// Each page appears in one step, write-protected if `protected`.
    ///
    /// # Errors
    ///
    /// The errors of ioctl(2): EAGAIN if the caller is to try again, ENOMEM, ENOENT outside a
    /// registered range.
    ///
    /// # Safety
    ///
    /// The pages must belong to the caller, and `from` be as many readable bytes. Both are aligned
    /// to pages.
    pub(crate) unsafe fn fill_run(
        &self,
        pages: usize,
        from: *const u8,
        bytes: usize,
        protected: bool,
    ) -> io::Result<usize> {
        let mut copy = Copy {
            dst: pages as u64,
            src: from as u64,
            len: bytes as u64,
            mode: if protected { COPY_WP } else { 0 },
            copied: 0,
        };
        match self.ioctl(UFFDIO_COPY, &mut copy) {
            Ok(()) => Ok(bytes),
            // The kernel stopped after some pages, and answers EAGAIN.
            Err(_) if copy.copied > 0 => Ok(copy.copied as usize),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Lifts the write-protection of a page. Async-signal-safe but for `errno`.
    ///
    /// # Errors
    ///
    /// What ioctl(2) gives: EAGAIN where it is to be tried again.
    pub(crate) fn unprotect(&self, page: usize, bytes: usize) -> io::Result<()> {
        self.ioctl(
            UFFDIO_WRITEPROTECT,
            &mut WriteProtect {
                start: page as u64,
                len: bytes as u64,
                mode: 0,
            },
        )
    }

    fn ioctl<T>(&self, request: u64, argument: &mut T) -> io::Result<()> {
        // SAFETY: the argument is the structure that the request names, of the size that it holds.
        match unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                request as _,
                core::ptr::from_mut(argument),
            )
        } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Runs what may change `errno`, and puts it back: for handlers that interrupt any code.
pub(crate) fn keeping_errno<R>(run: impl FnOnce() -> R) -> R {
    // SAFETY: this thread's errno(3).
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *place };
    let result = run();
    // SAFETY: as above.
    unsafe { *place = before };
    result
}
