//! Address space: reserved, made accessible, decommitted.
//!
//! System calls: mmap(2), munmap(2), mprotect(2), madvise(2); memfd_create(2) and fcntl(2) once a module
//! whose image is mapped, or that is opened from memory.
//!
//! # Safety
//!
//! Owns reservations: address space that nobody else maps into between [`Reservation::new`] and its
//! drop. Callers of [`protect`](Reservation::protect) and [`decommit`](Reservation::decommit) own what
//! lies in the range.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::num::NonZeroUsize;
use core::ops::Range;
use core::ptr;
use once_cell::race::OnceNonZeroUsize;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Bytes of a page of this kernel.
pub(crate) fn page_bytes() -> usize {
    static PAGE: OnceNonZeroUsize = OnceNonZeroUsize::new();
    const USUAL: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
    let ask = || {
        // SAFETY: sysconf(3) has no preconditions.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).ok().and_then(NonZeroUsize::new)
    };
    PAGE.get_or_init(|| ask().unwrap_or(USUAL)).get()
}

/// What may be done with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing: every access faults.
    None,
    /// Read and write, never execute.
    ReadWrite,
}

/// The kernel refused to change what may be done with a range of memory.
#[derive(Debug)]
pub(crate) struct NotProtected {
    pub(crate) error: io::Error,
    /// Whether the whole range may be accessed as before. If not, the kernel has refused twice, and
    /// any part of the range may have the old rights or the new ones.
    pub(crate) is_unchanged: bool,
}

impl From<NotProtected> for io::Error {
    fn from(refused: NotProtected) -> Self {
        refused.error
    }
}

/// For what is refused before any rights are changed.
impl From<io::Error> for NotProtected {
    fn from(error: io::Error) -> Self {
        Self {
            error,
            is_unchanged: true,
        }
    }
}

/// A range of address space of our own, inaccessible until [`protect`](Self::protect) says otherwise.
#[derive(Debug)]
pub(crate) struct Reservation {
    start: usize,
    bytes: usize,
}

impl Reservation {
    /// Reserves address space, page-aligned; no memory is committed.
    ///
    /// # Errors
    ///
    /// What mmap(2) gives.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let reservation = Self {
            start: start as usize,
            bytes,
        };
        // A huge page would commit 2 MiB where a guest touches one byte. A kernel without huge pages
        // refuses, and has none to give.
        // SAFETY: advice about our own mapping, which changes no contents.
        unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
        Ok(reservation)
    }

    /// The addresses.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    /// Sets what may be done with a page-aligned range of it, of which the other was allowed, or which nobody uses. Contents
    /// stay.
    ///
    /// The kernel goes mapping by mapping, and what lies in several, of which it refuses a later one, is changed in part: a
    /// memory that has not grown could be accessed past its end, by a guest whose bytes nobody would look for there. So what
    /// fails is taken back.
    ///
    /// # Errors
    ///
    /// What mprotect(2) gives: ENOMEM at the limit of mappings (`vm.max_map_count`) or of memory; and whether
    /// taking it back was refused, too.
    ///
    /// # Safety
    ///
    /// The range must lie in this reservation and belong to the caller, and no reference into it may
    /// live if access is taken away.
    pub(crate) unsafe fn protect(
        &self,
        range: Range<usize>,
        access: Access,
    ) -> Result<(), NotProtected> {
        self.check(&range);
        if range.is_empty() {
            return Ok(());
        }
        const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
        let (rights, other) = match access {
            Access::None => (libc::PROT_NONE, BOTH),
            Access::ReadWrite => (BOTH, libc::PROT_NONE),
        };
        let (start, bytes) = (range.start as *mut libc::c_void, range.len());
        // SAFETY: a range of our own mapping, which the caller owns.
        cvt(unsafe { libc::mprotect(start, bytes, rights) }).map_err(|error| {
            // It splits no mappings but those that were just merged, and asks for no memory that was not just given back.
            // SAFETY: the same range, whose rights become those that the caller has for it again.
            let taken_back = cvt(unsafe { libc::mprotect(start, bytes, other) });
            NotProtected {
                error,
                is_unchanged: taken_back.is_ok(),
            }
        })
    }

    /// Gives the memory of a page-aligned range back to the kernel: it reads as zero afterwards.
    ///
    /// # Errors
    ///
    /// What madvise(2) gives; then any part of the range may have been given back.
    ///
    /// # Safety
    ///
    /// The range must lie in this reservation and belong to the caller, and no reference into it may
    /// live.
    pub(crate) unsafe fn decommit(&self, range: Range<usize>) -> io::Result<()> {
        self.check(&range);
        if range.is_empty() {
            return Ok(());
        }
        let (start, bytes) = (range.start as *mut libc::c_void, range.len());
        // SAFETY: a private anonymous range of our own mapping, which the caller owns.
        cvt(unsafe { libc::madvise(start, bytes, libc::MADV_DONTNEED) })
    }

    /// Makes the kernel replace a page-aligned range of it by zeros in every child of this process.
    ///
    /// # Errors
    ///
    /// What madvise(2) gives.
    pub(crate) fn wipe_on_fork(&self, range: Range<usize>) -> io::Result<()> {
        self.check(&range);
        let (start, bytes) = (range.start as *mut libc::c_void, range.len());
        // SAFETY: advice about our own mapping, which changes no contents here.
        cvt(unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) })
    }

    /// Forbids the kernel to merge pages of a page-aligned range with others of the same contents
    /// (Documentation/admin-guide/mm/ksm.rst): a merged page loses its write-protection.
    pub(crate) fn never_merge(&self, range: Range<usize>) {
        self.check(&range);
        let (start, bytes) = (range.start as *mut libc::c_void, range.len());
        // A kernel that does not merge refuses.
        // SAFETY: advice about our own mapping, which changes no contents.
        unsafe { libc::madvise(start, bytes, libc::MADV_UNMERGEABLE) };
    }

    /// Maps a file from its start over a page-aligned range of it, inaccessible, so that no limit on what
    /// can be written to (RLIMIT_DATA) makes it fail. What is written there later is not the file's. What
    /// was there is gone.
    ///
    /// # Errors
    ///
    /// What mmap(2) gives. Then nothing may be mapped there, and anybody's memory may come to be: the
    /// range must never be used again.
    ///
    /// # Safety
    ///
    /// As for [`decommit`](Self::decommit). The file must be as long as the range and never become
    /// shorter.
    pub(crate) unsafe fn map_file(
        &self,
        range: Range<usize>,
        file: BorrowedFd<'_>,
    ) -> io::Result<()> {
        // SAFETY: passed on.
        unsafe { self.map(range, 0, file.as_raw_fd()) }
    }

    /// Maps fresh memory, inaccessible, over a page-aligned range of it. What was there is gone.
    ///
    /// # Errors
    ///
    /// As [`map_file`](Self::map_file).
    ///
    /// # Safety
    ///
    /// As for [`decommit`](Self::decommit).
    pub(crate) unsafe fn map_fresh(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = (range.start as *mut libc::c_void, range.len());
        // SAFETY: passed on; then advice about our own mapping, as in `new`.
        unsafe {
            self.map(range, libc::MAP_ANONYMOUS, -1)?;
            libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for its callers.
    unsafe fn map(&self, range: Range<usize>, kind: i32, file: i32) -> io::Result<()> {
        self.check(&range);
        if range.is_empty() {
            return Ok(());
        }
        let kind = kind | libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let (start, bytes) = (range.start as *mut libc::c_void, range.len());
        // SAFETY: a range of our own mapping, which the caller owns.
        let mapped = unsafe { libc::mmap(start, bytes, libc::PROT_NONE, kind, file, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn check(&self, range: &Range<usize>) {
        let page = page_bytes();
        let own = self.range();
        // A range outside would change somebody else's memory: worth a check next to a system call.
        assert!(
            range.start <= range.end
                && own.start <= range.start
                && range.end <= own.end
                && range.start.is_multiple_of(page)
                && range.end.is_multiple_of(page),
            "range {range:x?} is not of whole pages of reservation {own:x?}"
        );
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; who drops it has no use for any address in it. Unmapping
        // a whole mapping cannot fail in a way that could be mended.
        unsafe { libc::munmap(self.start as *mut _, self.bytes) };
    }
}

/// A file in memory that holds these bytes at these offsets and zeros elsewhere, up to a whole page
/// behind the last. Nobody can change it any more.
///
/// # Errors
///
/// What memfd_create(2), write(2) and fcntl(2) give.
pub(crate) fn image_file<'a>(
    pieces: impl Iterator<Item = (usize, &'a [u8])>,
) -> io::Result<fs::File> {
    sealed(memory_file(c"pirn-image", 0)?, pieces)
}

/// A file in memory that holds these bytes and can be mapped to be executed. Nobody can change it any
/// more.
///
/// # Errors
///
/// As [`image_file`]; memfd_create(2) refuses where `vm.memfd_noexec` forbids it.
pub(crate) fn code_file(bytes: &[u8]) -> io::Result<fs::File> {
    // Linux 6.3 asks for the flag, and earlier ones do not know it.
    let file = match memory_file(c"pirn-module", libc::MFD_EXEC) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => memory_file(c"pirn-module", 0),
        made => made,
    };
    sealed(file?, [(0, bytes)].into_iter())
}

fn memory_file(name: &CStr, flags: u32) -> io::Result<fs::File> {
    let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a name that ends in a zero.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made, and that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// Writes the pieces, and makes that the last change.
fn sealed<'a>(
    file: fs::File,
    pieces: impl Iterator<Item = (usize, &'a [u8])>,
) -> io::Result<fs::File> {
    let mut end = 0;
    for (at, bytes) in pieces {
        file.write_all_at(bytes, at as u64)?;
        end = at + bytes.len();
    }
    file.set_len(end.next_multiple_of(page_bytes()) as u64)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: fcntl(2) on a descriptor of ours.
    cvt(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(file)
}

fn cvt(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decommitted_reads_as_zero() {
        let page = page_bytes();
        let reservation = Reservation::new(4 * page).unwrap();
        let start = reservation.range().start;
        let byte = (start + page) as *mut u8;
        // SAFETY: a fresh reservation that only this test uses.
        unsafe {
            reservation
                .protect(start..start + 2 * page, Access::ReadWrite)
                .unwrap();
            byte.write(7);
            reservation
                .decommit(start + page..start + 2 * page)
                .unwrap();
            assert_eq!(byte.read(), 0);
        }
    }

    #[test]
    #[should_panic(expected = "is not of whole pages of reservation")]
    fn a_range_outside_is_refused() {
        let page = page_bytes();
        let reservation = Reservation::new(page).unwrap();
        let end = reservation.range().end;
        // SAFETY: refused before anything happens.
        let _ = unsafe { reservation.decommit(end..end + page) };
    }
}
