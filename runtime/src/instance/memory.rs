//! [`Memory`] and [`MemoryMut`]: a guest's linear memory as the host sees it while the guest does not
//! run.
//!
//! # Safety
//!
//! Owns the fact that the descriptor of a memory in an instance area names bytes that are mapped and
//! writable: the runtime alone writes it, after the slot has made those bytes accessible.
#![allow(unsafe_code)]

use crate::host::Caller;
use crate::region::reset::populate;
use crate::switch::Record;
use crate::trap::{Trap, TrapCode};
use crate::value::Stamp;
use core::slice;
use pirn_format::layout::{CONTEXT_MEMORY, MemoryDesc};

/// A guest's linear memory, to be read. Every address is an offset in it, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a>(&'a [u8]);

/// A guest's linear memory, to be read and changed. Every address is an offset in it, in bytes.
#[derive(Debug)]
pub struct MemoryMut<'a>(&'a mut [u8]);

/// Memory 0.
///
/// # Safety
///
/// `vmctx` must be the context of an instance that stays in place and does not run for `'a`, and
/// nobody may change its memory meanwhile.
#[inline]
pub(crate) unsafe fn view<'a>(vmctx: *mut u8) -> Memory<'a> {
    // SAFETY: the context is initialised, so its record is; the rest is passed on.
    unsafe { view_of((*Record::of(vmctx)).memory as *const MemoryDesc) }
}

/// Memory 0, to be changed.
///
/// # Safety
///
/// As for [`view`], and nobody else may read its memory meanwhile.
#[inline]
pub(crate) unsafe fn view_mut<'a>(vmctx: *mut u8) -> MemoryMut<'a> {
    // SAFETY: as in `view`.
    unsafe { view_mut_of((*Record::of(vmctx)).memory as *const MemoryDesc) }
}

/// The memory that the pointers of interfaces are offsets in, to be changed.
///
/// # Safety
///
/// As for [`view_mut`].
#[inline]
pub(crate) unsafe fn interface_view_mut<'a>(vmctx: *mut u8) -> MemoryMut<'a> {
    // SAFETY: as in `view`.
    unsafe { view_mut_of((*Record::of(vmctx)).interface_memory as *const MemoryDesc) }
}

/// The memory that a descriptor is of.
///
/// # Safety
///
/// It must be one of a memory that an initialised instance has or imports, all of which stay in place and do not run for
/// `'a`, and nobody may change the memory meanwhile.
#[inline]
pub(crate) unsafe fn view_of<'a>(desc: *const MemoryDesc) -> Memory<'a> {
    // SAFETY: passed on.
    let (base, bytes) = unsafe { bounds(desc) };
    // SAFETY: the descriptor names mapped bytes, see the module's doc; `base` is never null.
    Memory(unsafe { slice::from_raw_parts(base, bytes) })
}

/// The same, to be changed.
///
/// # Safety
///
/// As for [`view_of`], and nobody else may read the memory meanwhile.
#[inline]
pub(crate) unsafe fn view_mut_of<'a>(desc: *const MemoryDesc) -> MemoryMut<'a> {
    // SAFETY: passed on.
    let (base, bytes) = unsafe { bounds(desc) };
    // SAFETY: the descriptor names mapped, writable bytes; `base` is never null.
    MemoryMut(unsafe { slice::from_raw_parts_mut(base, bytes) })
}

/// Base and size of a memory; a size of 0 at some address if it is none, or was left behind in the process that this one
/// is a fork of.
#[inline]
unsafe fn bounds(place: *const MemoryDesc) -> (*mut u8, usize) {
    // SAFETY: a descriptor, as the caller says: in the instance's own area, or in that of the instance that the memory was
    // imported from, which lives as long, and its region.
    let desc = unsafe { *place };
    let nothing = (place.cast_mut().cast(), 0);
    if desc.bytes == 0 {
        return nothing;
    }
    let owner = place
        .cast_mut()
        .wrapping_byte_offset(-(CONTEXT_MEMORY as isize));
    // The first memory that an instance defines has its descriptor in the context, and begins at it. A fork inherits all
    // others.
    let is_first = owner as u64 == desc.base;
    // SAFETY: the context of an initialised instance.
    if is_first && unsafe { !(*Record::of(owner.cast())).is_whole() } {
        return nothing;
    }
    (desc.base as *mut u8, desc.bytes as usize)
}

/// The stamp of the instance that calls, made now if it is `needed` and there is none.
#[inline]
pub(crate) fn stamp<T>(caller: &Caller<'_, T>, needed: bool) -> Stamp {
    if !needed {
        return Stamp(0);
    }
    // SAFETY: a caller's context is initialised and its instance does not run.
    unsafe { stamp_of(caller.vmctx()) }
}

/// The stamp of an instance, made now if there is none.
///
/// # Safety
///
/// `vmctx` must be the context of an initialised instance that does not run.
pub(crate) unsafe fn stamp_of(vmctx: *mut u8) -> Stamp {
    // SAFETY: passed on.
    let stamp = unsafe { &mut (*Record::of(vmctx)).stamp };
    if *stamp == 0 {
        *stamp = Stamp::fresh().0;
    }
    Stamp(*stamp)
}

/// The range of `len` bytes at `address` in a memory of `bytes`.
#[inline]
fn range(bytes: usize, address: u32, len: usize) -> Result<core::ops::Range<usize>, Trap> {
    let start = address as usize;
    match start.checked_add(len) {
        Some(end) if end <= bytes => Ok(start..end),
        _ => Err(Trap::new(TrapCode::MemoryOutOfBounds)),
    }
}

/// Makes the pages of bytes of a view readable.
#[inline]
fn readable(bytes: &[u8]) -> Result<(), Trap> {
    // SAFETY: a view borrows the instance, and its bytes lie in the memory.
    unsafe { populate::readable(bytes.as_ptr(), bytes.len()) }.map_err(Trap::new)
}

/// Makes the pages of bytes of a view writable.
#[inline]
fn writable(bytes: &mut [u8]) -> Result<(), Trap> {
    // SAFETY: a view that can be changed borrows the instance alone.
    unsafe { populate::writable(bytes.as_mut_ptr(), bytes.len()) }.map_err(Trap::new)
}

macro_rules! read_methods {
    () => {
        /// Its size in bytes.
        #[must_use]
        pub fn len(&self) -> usize {
            self.0.len()
        }

        /// Whether it has no byte.
        #[must_use]
        pub fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        /// All of it. Nothing is populated: if the kernel has no memory for a page that is touched
        /// for the first time, the process is sent SIGBUS. [`slice`](Self::slice) and
        /// [`read`](Self::read) report that as an error.
        #[must_use]
        pub fn as_slice(&self) -> &[u8] {
            self.0
        }

        /// The address that a pointer of a guest with a 64-bit memory is, all of whose addresses have 32 bits.
        ///
        /// # Errors
        ///
        /// [`TrapCode::MemoryOutOfBounds`] for a pointer of more.
        pub fn address(&self, pointer: u64) -> Result<u32, Trap> {
            u32::try_from(pointer).map_err(|_| Trap::new(TrapCode::MemoryOutOfBounds))
        }

        /// `len` bytes at `address`. Their pages are populated, so that a system call can read from
        /// them. A system call on [`as_slice`](Self::as_slice) may fail with `EFAULT`, because that
        /// populates nothing.
        ///
        /// # Errors
        ///
        /// [`TrapCode::MemoryOutOfBounds`] if they do not all lie in the memory,
        /// [`TrapCode::MemoryExhausted`] if the kernel has no memory for a page.
        #[inline]
        pub fn slice(&self, address: u32, len: u32) -> Result<&[u8], Trap> {
            let bytes = &self.0[range(self.0.len(), address, len as usize)?];
            readable(bytes)?;
            Ok(bytes)
        }

        /// Copies out of the memory, from `address`, as many bytes as `into` holds.
        ///
        /// # Errors
        ///
        /// As [`slice`](Self::slice); then nothing is copied.
        #[inline]
        pub fn read(&self, address: u32, into: &mut [u8]) -> Result<(), Trap> {
            let bytes = &self.0[range(self.0.len(), address, into.len())?];
            readable(bytes)?;
            into.copy_from_slice(bytes);
            Ok(())
        }

        /// The little-endian 32-bit number at `address`.
        ///
        /// # Errors
        ///
        /// As [`slice`](Self::slice), for its 4 bytes.
        #[inline]
        pub fn read_u32(&self, address: u32) -> Result<u32, Trap> {
            let bytes = &self.0[range(self.0.len(), address, 4)?];
            // SAFETY: a view borrows the instance, and the bytes lie in its memory.
            unsafe { populate::number_u32(bytes.as_ptr()) }.map_err(Trap::new)
        }

        /// The little-endian 64-bit number at `address`.
        ///
        /// # Errors
        ///
        /// As [`slice`](Self::slice), for its 8 bytes.
        #[inline]
        pub fn read_u64(&self, address: u32) -> Result<u64, Trap> {
            let bytes = &self.0[range(self.0.len(), address, 8)?];
            // SAFETY: a view borrows the instance, and the bytes lie in its memory.
            unsafe { populate::number_u64(bytes.as_ptr()) }.map_err(Trap::new)
        }
    };
}

impl Memory<'_> {
    read_methods!();
}

impl MemoryMut<'_> {
    read_methods!();

    /// All of it, to be changed. Nothing is populated, see [`as_slice`](Self::as_slice); call
    /// [`populate`](Self::populate) first for the ranges that are used.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0
    }

    /// Populates the pages of `len` bytes at `address` for reading and writing. They stay populated
    /// until the instance ends: neither the host nor a system call faults on them. No byte changes.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice).
    #[inline]
    pub fn populate(&mut self, address: u32, len: u32) -> Result<(), Trap> {
        self.slice_mut(address, len).map(drop)
    }

    /// `len` bytes at `address`, to be changed. Their pages are populated, so that a system call can
    /// write to them. A system call on [`as_mut_slice`](Self::as_mut_slice) may fail with `EFAULT`,
    /// because that populates nothing.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice).
    #[inline]
    pub fn slice_mut(&mut self, address: u32, len: u32) -> Result<&mut [u8], Trap> {
        let range = range(self.0.len(), address, len as usize)?;
        let bytes = &mut self.0[range];
        writable(bytes)?;
        Ok(bytes)
    }

    /// Copies `bytes` into the memory at `address`.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice); then nothing is copied.
    #[inline]
    pub fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), Trap> {
        let range = range(self.0.len(), address, bytes.len())?;
        let to = &mut self.0[range];
        writable(to)?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    /// Copies as much of `bytes` as `capacity` holds into the guest's buffer at `address`, and tells
    /// how many bytes that were.
    ///
    /// # Errors
    ///
    /// [`TrapCode::MemoryOutOfBounds`] unless the guest's whole buffer lies in the memory,
    /// [`TrapCode::MemoryExhausted`] if the kernel has no memory for a page that is written to.
    pub fn write_prefix(&mut self, address: u32, capacity: u32, bytes: &[u8]) -> Result<u32, Trap> {
        let range = range(self.0.len(), address, capacity as usize)?;
        let len = bytes.len().min(range.len());
        let to = &mut self.0[range][..len];
        writable(to)?;
        to.copy_from_slice(&bytes[..len]);
        Ok(len as u32)
    }

    /// Writes a little-endian 32-bit number at `address`.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice), for its 4 bytes.
    #[inline]
    pub fn write_u32(&mut self, address: u32, value: u32) -> Result<(), Trap> {
        let range = range(self.0.len(), address, 4)?;
        let to = self.0[range].as_mut_ptr();
        // SAFETY: a view that can be changed borrows the instance alone, and the bytes lie in its
        // memory.
        unsafe { populate::put_u32(to, value) }.map_err(Trap::new)
    }

    /// Writes a little-endian 64-bit number at `address`.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice), for its 8 bytes.
    #[inline]
    pub fn write_u64(&mut self, address: u32, value: u64) -> Result<(), Trap> {
        let range = range(self.0.len(), address, 8)?;
        let to = self.0[range].as_mut_ptr();
        // SAFETY: a view that can be changed borrows the instance alone, and the bytes lie in its
        // memory.
        unsafe { populate::put_u64(to, value) }.map_err(Trap::new)
    }
}
