//! Reserves address space, makes parts of it accessible, and returns their memory to the kernel.
//!
//! System calls: mmap(2), munmap(2), mprotect(2), madvise(2). Also memfd_create(2) and fcntl(2)
//! once for each module whose image is mapped or that is opened from memory.
//!
//! # Safety
//!
//! Owns reservations: no other code maps memory into the range of a [`Reservation`] while it lives.
//! Callers of [`protect`](Reservation::protect) and [`decommit`](Reservation::decommit) own the
//! contents of the range.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_void};
use core::num::NonZeroUsize;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags};
use nix::sys::mman::{madvise, mmap, mmap_anonymous, mprotect, munmap};
use nix::unistd::{SysconfVar, sysconf};
use once_cell::race::OnceNonZeroUsize;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;

/// Size of a page of this kernel, in bytes.
pub(crate) fn page_bytes() -> usize {
    static PAGE: OnceNonZeroUsize = OnceNonZeroUsize::new();
    const USUAL: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
    let ask = || {
        let bytes = sysconf(SysconfVar::PAGE_SIZE).ok()??;
        usize::try_from(bytes).ok().and_then(NonZeroUsize::new)
    };
    PAGE.get_or_init(|| ask().unwrap_or(USUAL)).get()
}

/// Access rights to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// No access: every access faults.
    None,
    /// Read and write, never execute.
    ReadWrite,
}

/// The order in which memory will be accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The order is unknown.
    Any,
    /// An access to a page tells nothing about the next access.
    Random,
}

/// The kernel refused to change the access rights of a range of memory.
#[derive(Debug)]
pub(crate) struct NotProtected {
    pub(crate) error: io::Error,
    /// Whether the whole range has its previous rights. If not, the kernel has refused twice, and
    /// any part of the range may have the old or the new rights.
    pub(crate) is_unchanged: bool,
}

impl From<NotProtected> for io::Error {
    fn from(refused: NotProtected) -> Self {
        refused.error
    }
}

/// Converts an error that came before any rights were changed.
impl From<io::Error> for NotProtected {
    fn from(error: io::Error) -> Self {
        Self {
            error,
            is_unchanged: true,
        }
    }
}

/// Whether memory has access rights and takes advice. Under Miri, memory has no rights and takes no
/// advice: a reservation is accessible from the start. A reservation must be small, because Miri
/// allocates the whole range.
const HAS_RIGHTS: bool = !cfg!(miri);

/// The rights of accessible memory.
const BOTH: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

/// Flags of a mapping over a range of a reservation.
const OVER: MapFlags = MapFlags::MAP_PRIVATE
    .union(MapFlags::MAP_FIXED)
    .union(MapFlags::MAP_NORESERVE);

/// A range of address space, inaccessible until [`protect`](Self::protect) makes it accessible.
#[derive(Debug)]
pub(crate) struct Reservation {
    start: usize,
    bytes: usize,
}

impl Reservation {
    /// Reserves page-aligned address space and commits no memory.
    ///
    /// # Errors
    ///
    /// The error of mmap(2).
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let (rights, kind) = match HAS_RIGHTS {
            true => (
                ProtFlags::PROT_NONE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
            ),
            false => (BOTH, MapFlags::MAP_PRIVATE),
        };
        // mmap(2) refuses an empty mapping with this error.
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        // SAFETY: this makes a fresh anonymous mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(None, length, rights, kind)? };
        let reservation = Self {
            start: start.as_ptr() as usize,
            bytes,
        };
        if !HAS_RIGHTS {
            return Ok(reservation);
        }
        // A huge page would commit 2 MiB where a guest touches one byte. A kernel without huge
        // pages refuses the advice, and does not need it.
        // SAFETY: this is advice about our own mapping and changes no contents.
        let _ = unsafe { madvise(start, bytes, MmapAdvise::MADV_NOHUGEPAGE) };
        Ok(reservation)
    }

    /// The addresses of the reservation.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    /// Sets the access rights of a page-aligned range. The range must have had the other rights, or
    /// be unused. The contents of the range stay.
    ///
    /// The kernel changes one mapping after another. If the range lies in several mappings and the
    /// kernel refuses a later mapping, the rights are changed in part. Then a guest could access
    /// memory past its size, and a reset would not find the guest's data there. So on failure this
    /// function restores the previous rights.
    ///
    /// # Errors
    ///
    /// The error of mprotect(2): ENOMEM at the limit of mappings (`vm.max_map_count`) or of memory.
    /// The error also tells whether restoring the rights failed.
    ///
    /// # Safety
    ///
    /// The range must lie in this reservation and belong to the caller. If access is removed, no
    /// reference into the range may exist.
    pub(crate) unsafe fn protect(
        &self,
        range: Range<usize>,
        access: Access,
    ) -> Result<(), NotProtected> {
        let (start, bytes) = self.check(&range);
        if range.is_empty() || !HAS_RIGHTS {
            return Ok(());
        }
        let (rights, other) = match access {
            Access::None => (ProtFlags::PROT_NONE, BOTH),
            Access::ReadWrite => (BOTH, ProtFlags::PROT_NONE),
        };
        // SAFETY: the range is in our own mapping (`check`), and the caller owns it.
        unsafe { mprotect(start, bytes, rights) }.map_err(|error| {
            // This call splits only mappings that were just merged, and needs only memory that was
            // just released.
            // SAFETY: the range is in our own mapping, and gets back the rights that the caller
            // expects.
            let taken_back = unsafe { mprotect(start, bytes, other) };
            NotProtected {
                error: error.into(),
                is_unchanged: taken_back.is_ok(),
            }
        })
    }

    /// Returns the memory of a page-aligned range to the kernel. The range then reads as zero, or
    /// as the file that is mapped over it.
    ///
    /// # Errors
    ///
    /// The error of madvise(2); then any part of the range may have been returned.
    ///
    /// # Safety
    ///
    /// The range must lie in this reservation and belong to the caller, and no reference into the
    /// range may exist.
    pub(crate) unsafe fn decommit(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.check(&range);
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: the range is private memory in our own mapping (`check`), and the caller owns it.
        unsafe { madvise(start, bytes, MmapAdvise::MADV_DONTNEED)? };
        Ok(())
    }

    /// Makes the kernel replace a page-aligned range by zeros in every child of this process.
    ///
    /// # Errors
    ///
    /// The error of madvise(2).
    pub(crate) fn wipe_on_fork(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.check(&range);
        if !HAS_RIGHTS {
            return Ok(());
        }
        // SAFETY: this is advice about our own mapping and changes no contents in this process.
        unsafe { madvise(start, bytes, MmapAdvise::MADV_WIPEONFORK)? };
        Ok(())
    }

    /// Forbids the kernel to merge pages of a page-aligned range with identical pages
    /// (Documentation/admin-guide/mm/ksm.rst). A merged page would lose its write-protection.
    pub(crate) fn never_merge(&self, range: Range<usize>) {
        let (start, bytes) = self.check(&range);
        // A kernel without page merging refuses the advice, and does not need it.
        // SAFETY: this is advice about our own mapping and changes no contents.
        let _ = unsafe { madvise(start, bytes, MmapAdvise::MADV_UNMERGEABLE) };
    }

    /// Tells the kernel in which order a page-aligned range will be accessed. Neighbouring ranges
    /// with different orders are never one mapping (`VM_RAND_READ`). For memory without a file, the
    /// advice has no other effect than on reading ahead from swap.
    pub(crate) fn expect(&self, range: Range<usize>, order: Order) {
        let (start, bytes) = self.check(&range);
        let advice = match order {
            Order::Any => MmapAdvise::MADV_NORMAL,
            Order::Random => MmapAdvise::MADV_RANDOM,
        };
        // The memory also works without the advice.
        // SAFETY: this is advice about our own mapping and changes no contents.
        let _ = unsafe { madvise(start, bytes, advice) };
    }

    /// Maps a file, from its start, over a page-aligned range, privately. The range is inaccessible
    /// at first, so a limit on writable memory (RLIMIT_DATA) cannot make the call fail. Later
    /// writes do not change the file. The previous contents of the range are lost.
    ///
    /// # Errors
    ///
    /// The error of mmap(2). The range may then be unmapped, and other code may map memory over it:
    /// the range must never be used again.
    ///
    /// # Safety
    ///
    /// As for [`decommit`](Self::decommit). The file must be as long as the range and must never
    /// become shorter.
    pub(crate) unsafe fn map_file(
        &self,
        range: Range<usize>,
        file: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let (start, bytes) = self.check(&range);
        if let Some(bytes) = NonZeroUsize::new(bytes) {
            // SAFETY: the range is in our own mapping (`check`). The caller owns the range, has no
            // reference into it, and promises that the file is long enough.
            unsafe {
                mmap(
                    Some(start.addr()),
                    bytes,
                    ProtFlags::PROT_NONE,
                    OVER,
                    file,
                    0,
                )?
            };
        }
        Ok(())
    }

    /// Maps fresh, inaccessible memory over a page-aligned range. The previous contents are lost.
    ///
    /// # Errors
    ///
    /// As [`map_file`](Self::map_file).
    ///
    /// # Safety
    ///
    /// As for [`decommit`](Self::decommit).
    pub(crate) unsafe fn map_fresh(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.check(&range);
        if let Some(bytes) = NonZeroUsize::new(bytes) {
            // SAFETY: the range is in our own mapping (`check`). The caller owns the range and has
            // no reference into it.
            unsafe { mmap_anonymous(Some(start.addr()), bytes, ProtFlags::PROT_NONE, OVER)? };
        }
        // SAFETY: this is advice about our own mapping and changes no contents.
        let _ = unsafe { madvise(start, bytes, MmapAdvise::MADV_NOHUGEPAGE) };
        Ok(())
    }

    /// Address and length of a range, for a system call. Panics unless the range consists of whole
    /// pages of this reservation.
    fn check(&self, range: &Range<usize>) -> (NonNull<c_void>, usize) {
        let page = page_bytes();
        let own = self.range();
        // A range outside the reservation would change other memory. The check is cheap compared
        // with a system call.
        assert!(
            range.start <= range.end
                && own.start <= range.start
                && range.end <= own.end
                && range.start.is_multiple_of(page)
                && range.end.is_multiple_of(page),
            "range {range:x?} is not of whole pages of reservation {own:x?}"
        );
        // SAFETY: the range starts in the reservation, which mmap(2) did not place at address 0.
        let start = unsafe { NonNull::new_unchecked(range.start as *mut c_void) };
        (start, range.len())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, not at address 0, and the dropping owner no longer uses
        // any address in the mapping. A failure to unmap has no remedy.
        let _ = unsafe { munmap(NonNull::new_unchecked(self.start as *mut _), self.bytes) };
    }
}

/// The bytes of a sealed file, mapped for reading.
#[derive(Debug)]
pub(crate) struct FileView {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the bytes are never written, and any thread may unmap them.
unsafe impl Send for FileView {}

// SAFETY: the bytes are never written.
unsafe impl Sync for FileView {}

impl FileView {
    /// Maps the first `bytes` bytes of a file that [`image_file`] made. The file must have that
    /// many bytes.
    ///
    /// # Errors
    ///
    /// The error of mmap(2), or of fstat(2).
    pub(crate) fn new(file: &fs::File, bytes: usize) -> io::Result<Self> {
        // A page beyond the end of the file would raise SIGBUS.
        assert!(
            bytes as u64 <= file.metadata()?.len(),
            "the file is long enough"
        );
        // mmap(2) refuses an empty mapping with this error.
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        // Before Linux 6.7 a sealed file has no shared mappings, not even for reading.
        let flags = MapFlags::MAP_PRIVATE;
        // SAFETY: this makes a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap(None, length, ProtFlags::PROT_READ, flags, file, 0)? };
        Ok(Self { start, bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `new` mapped `self.bytes` bytes of a file that has these bytes. The file is
        // sealed, so no code changes the bytes. The bytes stay mapped as long as `self` lives.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes) }
    }
}

impl Drop for FileView {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and the dropping owner has no reference into the mapping.
        // A failure to unmap has no remedy.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

/// Makes a file in memory with the given bytes at their offsets, and zeros between them. The file
/// ends with the last piece, rounded up to a page. The file is sealed: no process can change it.
///
/// # Errors
///
/// The error of memfd_create(2), write(2) or fcntl(2).
pub(crate) fn image_file<'a>(
    pieces: impl Iterator<Item = (usize, &'a [u8])>,
) -> io::Result<fs::File> {
    sealed(memory_file(c"pirn-image", MFdFlags::empty())?, pieces)
}

/// Makes a file in memory with these bytes that can be mapped as executable. The file is sealed: no
/// process can change it.
///
/// # Errors
///
/// As [`image_file`]. memfd_create(2) also fails where `vm.memfd_noexec` forbids executable files.
pub(crate) fn code_file(bytes: &[u8]) -> io::Result<fs::File> {
    // Linux 6.3 and later ask for this flag; earlier kernels reject the flag. nix does not name it.
    let exec = MFdFlags::from_bits_retain(libc::MFD_EXEC);
    let file = match memory_file(c"pirn-module", exec) {
        Err(Errno::EINVAL) => memory_file(c"pirn-module", MFdFlags::empty()),
        made => made,
    };
    sealed(file?, [(0, bytes)].into_iter())
}

fn memory_file(name: &CStr, flags: MFdFlags) -> nix::Result<fs::File> {
    let flags = flags | MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    memfd_create(name, flags).map(fs::File::from)
}

/// Writes the pieces, and then seals the file against any change.
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
    let any_change = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    // The kernel treats a page that it uses for a moment, such as during migration, as mapped for
    // writing (EBUSY, fcntl(2)). The kernel waits some 75 ms for such pages.
    const TRIES: usize = 20;
    let mut tries = 1;
    loop {
        let seals = FcntlArg::F_ADD_SEALS(any_change | SealFlag::F_SEAL_SEAL);
        match fcntl(&file, seals) {
            Err(Errno::EBUSY) if tries < TRIES => tries += 1,
            other => return Ok(other.map(|_| file)?),
        }
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
        // SAFETY: only this test uses the reservation.
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
        // SAFETY: the range is refused before any system call.
        let _ = unsafe { reservation.decommit(end..end + page) };
    }
}
