//! [`Memory`] and [`MemoryMut`]: the host's views of a guest's linear memory while the guest does
//! not run.
//!
//! # Safety
//!
//! This file owns one fact. The descriptor of a memory in an instance area names bytes that are
//! mapped and writable. Only the runtime writes the descriptor, after the slot has made those bytes
//! accessible.
#![allow(unsafe_code)]

use super::populate;
use crate::switch::Record;
use crate::trap::{Trap, TrapCode};
use core::{slice, str};
use pirn_format::layout::{CONTEXT_MEMORY, MemoryDesc};
use thiserror::Error;

/// A read-only view of a guest's linear memory. Every address is an offset in the memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a>(&'a [u8]);

/// A mutable view of a guest's linear memory. Every address is an offset in the memory, in bytes.
#[derive(Debug)]
pub struct MemoryMut<'a>(&'a mut [u8]);

/// Why a string was not read.
///
/// A host function can return this error by `?`. Then [`Trap`](Self::Trap) ends the guest's call
/// with that trap, and [`Utf8`](Self::Utf8) ends the guest's call with
/// [`CallError::Host`](crate::CallError::Host).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadStrError {
    /// The bytes cannot be read.
    #[error(transparent)]
    Trap(#[from] Trap),
    /// The bytes are not UTF-8.
    #[error(
        "string of {len} bytes at address {address} is UTF-8 only for its first {valid} bytes; \
         encode it as UTF-8"
    )]
    Utf8 {
        /// Address of the first byte.
        address: u32,
        /// Number of bytes.
        len: u32,
        /// Number of bytes that are UTF-8, from the first byte on.
        valid: u32,
    },
}

/// A view of memory 0.
///
/// # Safety
///
/// `vmctx` must be the context of an instance that stays in place and does not run for `'a`.
/// Nothing else may change its memory during `'a`.
#[inline]
pub(crate) unsafe fn view<'a>(vmctx: *mut u8) -> Memory<'a> {
    // SAFETY: the caller ensures that the context is initialised, so its record is, too. The record
    // holds the address of a memory descriptor, and the caller ensures that nothing changes the
    // memory.
    unsafe { view_of((*Record::of(vmctx)).memory as *const MemoryDesc) }
}

/// A mutable view of memory 0.
///
/// # Safety
///
/// As [`view`]. In addition, nothing else may read the memory during `'a`.
#[inline]
pub(crate) unsafe fn view_mut<'a>(vmctx: *mut u8) -> MemoryMut<'a> {
    // SAFETY: the caller ensures that the context is initialised and that nothing else accesses the
    // memory. The record holds the address of a memory descriptor.
    unsafe { view_mut_of((*Record::of(vmctx)).memory as *const MemoryDesc) }
}

/// A mutable view of the memory that the pointers of interfaces refer to.
///
/// # Safety
///
/// As [`view_mut`].
#[inline]
pub(crate) unsafe fn interface_view_mut<'a>(vmctx: *mut u8) -> MemoryMut<'a> {
    // SAFETY: the caller ensures that the context is initialised and that nothing else accesses the
    // memory. The record holds the address of a memory descriptor.
    unsafe { view_mut_of((*Record::of(vmctx)).interface_memory as *const MemoryDesc) }
}

/// A view of the memory with this descriptor.
///
/// # Safety
///
/// `desc` must describe a memory that an initialised instance defines or imports. All instances
/// with that memory must stay in place and must not run for `'a`. Nothing else may change the
/// memory during `'a`.
#[inline]
pub(crate) unsafe fn view_of<'a>(desc: *const MemoryDesc) -> Memory<'a> {
    // SAFETY: the caller ensures that `desc` is a descriptor of an initialised instance.
    let (base, bytes) = unsafe { bounds(desc) };
    // SAFETY: the descriptor names mapped bytes, see the module's doc. `base` is never null.
    Memory(unsafe { slice::from_raw_parts(base, bytes) })
}

/// A mutable view of the memory with this descriptor.
///
/// # Safety
///
/// As [`view_of`]. In addition, nothing else may read the memory during `'a`.
#[inline]
pub(crate) unsafe fn view_mut_of<'a>(desc: *const MemoryDesc) -> MemoryMut<'a> {
    // SAFETY: the caller ensures that `desc` is a descriptor of an initialised instance.
    let (base, bytes) = unsafe { bounds(desc) };
    // SAFETY: the descriptor names mapped, writable bytes, see the module's doc. `base` is never
    // null.
    MemoryMut(unsafe { slice::from_raw_parts_mut(base, bytes) })
}

/// Base and size of a memory. The size is 0 if there is no memory, or if this process is a fork
/// that did not inherit the memory.
#[inline]
unsafe fn bounds(place: *const MemoryDesc) -> (*mut u8, usize) {
    // SAFETY: the caller ensures that `place` is a descriptor. The descriptor lies in the area of
    // this instance, or of the instance that defines the memory. Both instances keep their region
    // alive.
    let desc = unsafe { *place };
    let nothing = (place.cast_mut().cast(), 0);
    if desc.bytes == 0 {
        return nothing;
    }
    let owner = place
        .cast_mut()
        .wrapping_byte_offset(-(CONTEXT_MEMORY as isize));
    // The first memory that an instance defines begins at the instance's context, which contains
    // its descriptor. A fork inherits all other memories.
    let is_first = owner as u64 == desc.base;
    // SAFETY: `owner` is the context of an initialised instance, because the memory begins at a
    // context.
    if is_first && unsafe { !(*Record::of(owner.cast())).is_whole() } {
        return nothing;
    }
    (desc.base as *mut u8, desc.bytes as usize)
}

/// The range of `len` bytes at `address`, checked against a memory of `bytes` bytes.
#[inline]
fn range(bytes: usize, address: u32, len: usize) -> Result<core::ops::Range<usize>, Trap> {
    let start = address as usize;
    match start.checked_add(len) {
        Some(end) if end <= bytes => Ok(start..end),
        _ => Err(Trap::new(TrapCode::MemoryOutOfBounds)),
    }
}

/// Makes the pages of a part of a view readable.
#[inline]
fn readable(bytes: &[u8]) -> Result<(), Trap> {
    // SAFETY: the bytes lie in a memory, and their view borrows the instance.
    unsafe { populate::readable(bytes.as_ptr(), bytes.len()) }.map_err(Trap::new)
}

/// Makes the pages of a part of a view writable.
#[inline]
fn writable(bytes: &mut [u8]) -> Result<(), Trap> {
    // SAFETY: the bytes lie in a memory, and their view borrows the instance mutably.
    unsafe { populate::writable(bytes.as_mut_ptr(), bytes.len()) }.map_err(Trap::new)
}

macro_rules! read_methods {
    () => {
        /// The size of the memory in bytes.
        #[must_use]
        pub fn len(&self) -> usize {
            self.0.len()
        }

        /// Whether the memory is empty.
        #[must_use]
        pub fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        /// The whole memory. No page is populated.
        ///
        /// If the kernel has no memory for a page at its first access, the process gets SIGBUS.
        /// [`slice`](Self::slice) and [`read`](Self::read) return an error instead.
        #[must_use]
        pub fn as_slice(&self) -> &[u8] {
            self.0
        }

        /// Converts a pointer of a guest with a 64-bit memory to an address. Addresses in a memory
        /// have 32 bits.
        ///
        /// # Errors
        ///
        /// [`TrapCode::MemoryOutOfBounds`] for a pointer that needs more bits.
        pub fn address(&self, pointer: u64) -> Result<u32, Trap> {
            u32::try_from(pointer).map_err(|_| Trap::new(TrapCode::MemoryOutOfBounds))
        }

        /// `len` bytes at `address`.
        ///
        /// The pages of these bytes are populated, so that a system call can read the bytes.
        /// [`as_slice`](Self::as_slice) populates no page, so a system call on its result may fail
        /// with `EFAULT`.
        ///
        /// # Errors
        ///
        /// [`TrapCode::MemoryOutOfBounds`] if not all bytes lie in the memory;
        /// [`TrapCode::MemoryExhausted`] if the kernel has no memory for a page.
        #[inline]
        pub fn slice(&self, address: u32, len: u32) -> Result<&[u8], Trap> {
            let bytes = &self.0[range(self.0.len(), address, len as usize)?];
            readable(bytes)?;
            Ok(bytes)
        }

        /// Copies bytes from `address` of the memory into all of `into`.
        ///
        /// # Errors
        ///
        /// As [`slice`](Self::slice). After an error, no byte has been copied.
        #[inline]
        pub fn read(&self, address: u32, into: &mut [u8]) -> Result<(), Trap> {
            let bytes = &self.0[range(self.0.len(), address, into.len())?];
            readable(bytes)?;
            into.copy_from_slice(bytes);
            Ok(())
        }

        /// `len` bytes at `address`, as a string.
        ///
        /// # Errors
        ///
        /// [`ReadStrError::Trap`] as [`slice`](Self::slice), [`ReadStrError::Utf8`] if the bytes
        /// are not UTF-8.
        pub fn read_str(&self, address: u32, len: u32) -> Result<&str, ReadStrError> {
            let bytes = self.slice(address, len)?;
            str::from_utf8(bytes).map_err(|error| ReadStrError::Utf8 {
                address,
                len,
                valid: error.valid_up_to() as u32,
            })
        }

        /// The byte at `address`.
        ///
        /// # Errors
        ///
        /// As [`slice`](Self::slice).
        #[inline]
        pub fn read_u8(&self, address: u32) -> Result<u8, Trap> {
            let mut bytes = [0; 1];
            self.read(address, &mut bytes)?;
            Ok(u8::from_le_bytes(bytes))
        }

        /// The little-endian 16-bit number at `address`.
        ///
        /// # Errors
        ///
        /// As [`slice`](Self::slice), for its 2 bytes.
        #[inline]
        pub fn read_u16(&self, address: u32) -> Result<u16, Trap> {
            let mut bytes = [0; 2];
            self.read(address, &mut bytes)?;
            Ok(u16::from_le_bytes(bytes))
        }

        /// The little-endian 32-bit number at `address`.
        ///
        /// # Errors
        ///
        /// As [`slice`](Self::slice), for its 4 bytes.
        #[inline]
        pub fn read_u32(&self, address: u32) -> Result<u32, Trap> {
            let bytes = &self.0[range(self.0.len(), address, 4)?];
            // SAFETY: the view borrows the instance, and `range` checked that the bytes lie in its
            // memory.
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
            // SAFETY: the view borrows the instance, and `range` checked that the bytes lie in its
            // memory.
            unsafe { populate::number_u64(bytes.as_ptr()) }.map_err(Trap::new)
        }
    };
}

impl Memory<'_> {
    read_methods!();
}

impl MemoryMut<'_> {
    read_methods!();

    /// The whole memory, mutable. No page is populated, see [`as_slice`](Self::as_slice). Call
    /// [`populate`](Self::populate) first for the ranges that are used.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0
    }

    /// Populates the pages of `len` bytes at `address` for reading and writing. The pages stay
    /// populated until the instance ends: neither the host nor a system call faults on them. No
    /// byte changes.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice).
    #[inline]
    pub fn populate(&mut self, address: u32, len: u32) -> Result<(), Trap> {
        self.slice_mut(address, len).map(drop)
    }

    /// `len` bytes at `address`, mutable.
    ///
    /// The pages of these bytes are populated, so that a system call can write the bytes.
    /// [`as_mut_slice`](Self::as_mut_slice) populates no page, so a system call on its result may
    /// fail with `EFAULT`.
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
    /// As [`slice`](Self::slice). After an error, no byte has been copied.
    #[inline]
    pub fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), Trap> {
        let range = range(self.0.len(), address, bytes.len())?;
        let to = &mut self.0[range];
        writable(to)?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    /// Copies `bytes` into a buffer of the guest: at most `capacity` bytes at `address`. Returns
    /// the number of copied bytes.
    ///
    /// # Errors
    ///
    /// [`TrapCode::MemoryOutOfBounds`] unless the whole buffer lies in the memory;
    /// [`TrapCode::MemoryExhausted`] if the kernel has no memory for a page that is written to.
    pub fn write_prefix(&mut self, address: u32, capacity: u32, bytes: &[u8]) -> Result<u32, Trap> {
        let range = range(self.0.len(), address, capacity as usize)?;
        let len = bytes.len().min(range.len());
        let to = &mut self.0[range][..len];
        writable(to)?;
        to.copy_from_slice(&bytes[..len]);
        Ok(len as u32)
    }

    /// Writes a byte at `address`.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice).
    #[inline]
    pub fn write_u8(&mut self, address: u32, value: u8) -> Result<(), Trap> {
        self.write(address, &value.to_le_bytes())
    }

    /// Writes a little-endian 16-bit number at `address`.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice), for its 2 bytes.
    #[inline]
    pub fn write_u16(&mut self, address: u32, value: u16) -> Result<(), Trap> {
        self.write(address, &value.to_le_bytes())
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
        // SAFETY: the view borrows the instance mutably, and `range` checked that the bytes lie in
        // its memory.
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
        // SAFETY: the view borrows the instance mutably, and `range` checked that the bytes lie in
        // its memory.
        unsafe { populate::put_u64(to, value) }.map_err(Trap::new)
    }
}
