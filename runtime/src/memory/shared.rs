//! [`SharedMemory`]: a linear memory that the host makes and several instances use at once, each on
//! its own thread.
//!
//! A shared memory is not in a slot. A shared memory has its own reservation, and lives as long as
//! a handle exists. Instances and preparations hold handles, too. So no other instance can write to
//! the memory of a slot, and the reset of a slot needs no special case.
//!
//! # Safety
//!
//! Owns the fact that the bytes below a shared memory's size are accessible as long as it lives. A
//! shared memory only grows, and its size is written after the system has made the bytes
//! accessible. The only references to the bytes are to atomics and cells, because guests may write
//! at any time.
#![allow(unsafe_code)]

use super::waiters::{Waiters, tell};
use crate::sys;
use crate::sys::memory::{Access, Reservation};
use crate::trap::{Trap, TrapCode};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::slice;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};
use core::task::Waker;
use pirn_format::layout::{
    GUARD_BYTES, MEMORY_BYTES_MAX, MEMORY_REACH_BYTES, MemoryDesc, WASM_PAGE_BYTES,
};
use pirn_format::types::MemoryType;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use thiserror::Error;

/// A linear memory that several instances use at once, each on its own thread (the threads
/// proposal). A clone is a handle to the same memory.
///
/// A [`Linker`](crate::Linker) offers a shared memory by [`memory`](crate::Linker::memory).
/// Instances of one preparation can get different memories by
/// [`Prepared::with_memory`](crate::Prepared::with_memory). Addresses are offsets in bytes. The
/// host's reads and writes are concurrent with the reads and writes of guests: only
/// [`atomic_u32`](Self::atomic_u32) and [`atomic_u64`](Self::atomic_u64) define an order.
#[derive(Debug, Clone)]
pub struct SharedMemory(Arc<Shared>);

/// Reason why a shared memory cannot be made or grown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SharedMemoryError {
    /// The type is not the type of a shared memory.
    #[error("memory of {found} is not shared; set `shared` in its type, and a maximum")]
    NotShared {
        /// The type.
        found: String,
    },
    /// The requested size exceeds the maximum.
    #[error("shared memory would have {pages} pages, its maximum is {max}; ask for less")]
    Limit {
        /// Requested size, in pages.
        pages: u64,
        /// Maximum size, in pages.
        max: u64,
    },
    /// The system cannot provide the memory.
    #[error("the system gives no shared memory: {0}; raise `ulimit -v`, or free memory")]
    System(#[from] io::Error),
}

#[derive(Debug)]
struct Shared {
    desc: Desc,
    ty: MemoryType,
    reservation: Reservation,
    locks: Locks,
}

/// The fields that threads write to. These fields have cache lines of their own, because guests
/// read the descriptor all the time. The alignment is two lines, because processors fetch lines in
/// pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Locks {
    /// Held while the memory grows.
    growing: Mutex<()>,
    waiters: Mutex<Waiters>,
    /// Number of entries of `waiters`, for threads that wake without the lock. The number changes
    /// only while the lock is held.
    waiters_len: AtomicUsize,
}

/// A [`MemoryDesc`] that several threads access.
#[derive(Debug)]
#[repr(C)]
struct Desc {
    base: u64,
    bytes: AtomicU64,
}

const _: () = assert!(size_of::<Desc>() == size_of::<MemoryDesc>());
const _: () = assert!(offset_of!(Desc, base) == offset_of!(MemoryDesc, base));
const _: () = assert!(offset_of!(Desc, bytes) == offset_of!(MemoryDesc, bytes));

/// Size of the range that an access can reach. Under Miri there are no guests, whose accesses are
/// checked by the guard, and Miri allocates the whole range.
const REACH_BYTES: usize = match cfg!(miri) {
    true => 4 * WASM_PAGE_BYTES as usize,
    false => (MEMORY_REACH_BYTES + GUARD_BYTES) as usize,
};

impl SharedMemory {
    /// Makes a memory of a type, for example of the type of a module's import
    /// ([`Module::imports`](crate::Module::imports)). The memory reserves 4 GiB of address space.
    /// All bytes are zero.
    ///
    /// # Errors
    ///
    /// [`SharedMemoryError::NotShared`] if the type is not shared, [`SharedMemoryError::Limit`] if
    /// its minimum exceeds its maximum, [`SharedMemoryError::System`] if the system gives no
    /// memory.
    pub fn new(ty: &MemoryType) -> Result<Self, SharedMemoryError> {
        let Some(max) = ty.max.filter(|_| ty.shared) else {
            let found = ty.to_string();
            return Err(SharedMemoryError::NotShared { found });
        };
        let max = max.min(MEMORY_BYTES_MAX / ty.page.bytes());
        if ty.min > max {
            return Err(SharedMemoryError::Limit { pages: ty.min, max });
        }
        let reservation = Reservation::new(REACH_BYTES)?;
        // As in the memory of slots: a fork must not see a guest's data.
        reservation.wipe_on_fork(reservation.range())?;
        let shared = Shared {
            desc: Desc {
                base: reservation.range().start as u64,
                bytes: AtomicU64::new(0),
            },
            ty: *ty,
            reservation,
            locks: Locks::default(),
        };
        shared.make_accessible(0, ty.min * ty.page.bytes())?;
        Ok(Self(Arc::new(shared)))
    }

    /// The type with which the memory was made, with its limits.
    #[must_use]
    pub fn ty(&self) -> MemoryType {
        self.0.ty
    }

    /// Size in bytes. The memory only grows, so the size may already be larger when this method
    /// returns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes() as usize
    }

    /// Whether the size is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Grows the memory by a number of pages of its type. Returns the previous size in pages.
    ///
    /// # Errors
    ///
    /// [`SharedMemoryError::Limit`] past the maximum, [`SharedMemoryError::System`] if there is no
    /// memory.
    pub fn grow(&self, pages: u64) -> Result<u64, SharedMemoryError> {
        let (page, max) = (self.0.ty.page.bytes(), self.bytes_max());
        let mut before = 0;
        let grown = self.grow_where(pages, |current, desired| {
            before = current / page;
            desired <= max
        });
        grown?.ok_or(SharedMemoryError::Limit {
            pages: before.saturating_add(pages),
            max: max / page,
        })
    }

    /// Reads bytes at an address. Each byte is a value that was stored at its address, but the
    /// bytes need not have been in the memory at the same time.
    ///
    /// # Errors
    ///
    /// [`TrapCode::MemoryOutOfBounds`] if the range is not all in the memory.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Trap> {
        let (head, words, tail) = self.atomic_words(address, into.len())?;
        let (first, rest) = into.split_at_mut(head.len());
        let (whole, last) = rest.as_chunks_mut();
        for (byte, from) in first.iter_mut().zip(head).chain(last.iter_mut().zip(tail)) {
            *byte = from.load(Relaxed);
        }
        for (word, from) in whole.iter_mut().zip(words) {
            *word = from.load(Relaxed).to_ne_bytes();
        }
        Ok(())
    }

    /// Writes bytes at an address, in any order.
    ///
    /// # Errors
    ///
    /// [`TrapCode::MemoryOutOfBounds`] if the range is not all in the memory; then nothing is
    /// written.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Trap> {
        let (head, words, tail) = self.atomic_words(address, bytes.len())?;
        let (first, rest) = bytes.split_at(head.len());
        let (whole, last) = rest.as_chunks();
        for (byte, into) in first.iter().zip(head).chain(last.iter().zip(tail)) {
            into.store(*byte, Relaxed);
        }
        for (word, into) in whole.iter().zip(words) {
            into.store(u64::from_ne_bytes(*word), Relaxed);
        }
        Ok(())
    }

    /// The 32-bit number at an address, as guests access it by `i32.atomic` instructions.
    ///
    /// # Errors
    ///
    /// [`TrapCode::UnalignedAtomic`] if the address is not a multiple of 4,
    /// [`TrapCode::MemoryOutOfBounds`] if the number is not all in the memory.
    pub fn atomic_u32(&self, address: u64) -> Result<&AtomicU32, Trap> {
        let at = self.atomic(address, 4).map_err(Trap::new)?;
        // SAFETY: `atomic` checked that the address is aligned and in the memory, which stays
        // accessible while it lives. All other references to the number are atomics or cells.
        Ok(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    /// The 64-bit number at an address, as guests access it by `i64.atomic` instructions.
    ///
    /// # Errors
    ///
    /// As [`atomic_u32`](Self::atomic_u32), with a multiple of 8.
    pub fn atomic_u64(&self, address: u64) -> Result<&AtomicU64, Trap> {
        let at = self.atomic(address, 8).map_err(Trap::new)?;
        // SAFETY: `atomic` checked that the address is aligned and in the memory, which stays
        // accessible while it lives. All other references to the number are atomics or cells.
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    /// Wakes at most `count` guests that wait at an address, as `memory.atomic.notify` does. Guests
    /// that have waited longest come first. Returns the number of woken guests.
    ///
    /// # Errors
    ///
    /// As [`atomic_u32`](Self::atomic_u32).
    pub fn notify(&self, address: u64, count: u32) -> Result<u32, Trap> {
        self.atomic_u32(address)?;
        Ok(self.wake(address, count))
    }

    /// Number of guests that wait at an address.
    #[must_use]
    pub fn waiters(&self, address: u64) -> usize {
        self.waiting().count(address)
    }

    /// Wakes at most `count` waiters at an address. Returns the number of woken guests.
    pub(crate) fn wake(&self, address: u64, count: u32) -> u32 {
        // Orders the caller's stores before the load. A waiter publishes its entry before it loads
        // the number that it expects (`begin_waiting`). So either this thread finds the entry, or
        // the waiter finds the new number. Without waiters, threads that wake share no lock.
        fence(SeqCst);
        if self.0.locks.waiters_len.load(Relaxed) == 0 {
            return 0;
        }
        let mut waiters = self.waiting();
        let woken = waiters.remove(address, count);
        self.publish(&waiters);
        drop(waiters);
        // A waker may wake other waiters, which takes the lock. So the lock is released before the
        // calls of wakers.
        let number = woken.len() as u32;
        woken.into_iter().for_each(tell);
        number
    }

    /// The waiters, locked.
    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiters> {
        sys::lock(&self.0.locks.waiters)
    }

    /// Adds a waiter at an address if `is_expected` returns true. `is_expected` looks at the number
    /// at that address. Returns the waiter's key.
    pub(super) fn begin_waiting(
        &self,
        address: u64,
        is_expected: impl FnOnce() -> bool,
    ) -> Option<(u64, u64)> {
        let mut waiters = self.waiting();
        let key = waiters.add(address);
        self.publish(&waiters);
        fence(SeqCst);
        if is_expected() {
            return Some(key);
        }
        waiters.waiting.remove(&key);
        self.publish(&waiters);
        None
    }

    /// Removes a waiter. Returns its waker, unless the waiter was woken already.
    pub(super) fn end_waiting(&self, key: &(u64, u64)) -> Option<Waker> {
        let mut waiters = self.waiting();
        let known = waiters.waiting.remove(key);
        self.publish(&waiters);
        known
    }

    /// Publishes the number of waiters. The caller holds their lock.
    fn publish(&self, waiters: &Waiters) {
        let len = waiters.waiting.len();
        self.0.locks.waiters_len.store(len, Relaxed);
    }

    /// Start and end of the addresses that an access to the memory can reach.
    pub(super) fn reach(&self) -> [usize; 2] {
        let range = self.0.reservation.range();
        [range.start, range.end]
    }

    /// All current bytes, for libraries that copy from and to cells. Guests may write to them at
    /// the same time: read a cell only in a way that is valid while another thread writes it.
    #[must_use]
    pub fn cells(&self) -> &[UnsafeCell<u8>] {
        let (base, bytes) = (self.0.desc.base as *const UnsafeCell<u8>, self.len());
        // SAFETY: the bytes are accessible as long as the memory lives. Cells may change under a
        // shared reference.
        unsafe { slice::from_raw_parts(base, bytes) }
    }

    /// Whether both handles refer to the same memory.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Address of the memory's descriptor.
    pub(crate) fn desc(&self) -> *const MemoryDesc {
        (&raw const self.0.desc).cast()
    }

    /// Current size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.desc.bytes.load(SeqCst)
    }

    /// Maximum size in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        let page = self.0.ty.page.bytes();
        let max = self.0.ty.max.unwrap_or(u64::MAX);
        max.saturating_mul(page).min(MEMORY_BYTES_MAX)
    }

    /// Grows the memory by a number of pages if `is_permitted` allows it. `is_permitted` gets the
    /// current and the desired size in bytes, and must refuse a size above the maximum. If another
    /// thread grows the memory meanwhile, `is_permitted` is called again. Returns the previous size
    /// in pages, or `None` if refused.
    ///
    /// # Errors
    ///
    /// The error of mprotect(2).
    pub(crate) fn grow_where(
        &self,
        pages: u64,
        mut is_permitted: impl FnMut(u64, u64) -> bool,
    ) -> io::Result<Option<u64>> {
        let page = self.0.ty.page.bytes();
        loop {
            let current = self.bytes();
            let before = current / page;
            if pages == 0 {
                return Ok(Some(before));
            }
            let desired = before.saturating_add(pages).saturating_mul(page);
            // No lock is held here, because `is_permitted` is code of the embedder.
            if !is_permitted(current, desired) {
                return Ok(None);
            }
            let _growing = sys::lock(&self.0.locks.growing);
            if self.bytes() == current {
                self.0.make_accessible(current, desired)?;
                return Ok(Some(before));
            }
        }
    }

    /// Address of an atomic access.
    ///
    /// # Errors
    ///
    /// The trap of an unaligned or out-of-bounds access.
    fn atomic(&self, address: u64, bytes: u64) -> Result<*mut u8, TrapCode> {
        if !address.is_multiple_of(bytes) {
            return Err(TrapCode::UnalignedAtomic);
        }
        let end = address.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes()) {
            return Err(TrapCode::MemoryOutOfBounds);
        }
        Ok((self.0.desc.base + address) as *mut u8)
    }

    /// A range of bytes as atomics.
    fn atomic_bytes(&self, address: u64, len: usize) -> Result<&[AtomicU8], Trap> {
        let end = address.checked_add(len as u64);
        if end.is_none_or(|end| end > self.bytes()) {
            return Err(Trap::new(TrapCode::MemoryOutOfBounds));
        }
        let start = (self.0.desc.base + address) as *const AtomicU8;
        // SAFETY: the range is in the memory, which stays accessible while it lives. All other
        // references to the range are atomics or cells.
        Ok(unsafe { slice::from_raw_parts(start, len) })
    }

    /// A range of bytes as atomics: the bytes before the first multiple of 8, whole words, and the
    /// bytes after the last word.
    fn atomic_words(&self, address: u64, len: usize) -> Result<AtomicWords<'_>, Trap> {
        let bytes = self.atomic_bytes(address, len)?;
        // SAFETY: any eight bytes are a valid word, and `align_to` makes only aligned words.
        // `atomic_bytes` checked that the range is in the memory, to which all other references
        // are atomics or cells.
        Ok(unsafe { bytes.align_to() })
    }
}

/// A range of bytes: bytes, words, and bytes again.
type AtomicWords<'a> = (&'a [AtomicU8], &'a [AtomicU64], &'a [AtomicU8]);

/// Defines the reads and writes of one type of number.
macro_rules! numbers {
    ($($number:ty, $bytes:literal: $read:ident, $write:ident;)*) => {
        /// Little-endian numbers, at any address. Numbers may be torn, like the bytes that
        /// [`read`](Self::read) and [`write`](Self::write) copy.
        impl SharedMemory {
            $(
                #[doc = concat!("The little-endian number of ", $bytes, " at an address.")]
                ///
                /// # Errors
                ///
                /// As [`read`](Self::read).
                pub fn $read(&self, address: u64) -> Result<$number, Trap> {
                    let mut bytes = [0; size_of::<$number>()];
                    self.read(address, &mut bytes)?;
                    Ok(<$number>::from_le_bytes(bytes))
                }

                #[doc = concat!("Writes a little-endian number of ", $bytes, " at an address.")]
                ///
                /// # Errors
                ///
                /// As [`write`](Self::write).
                pub fn $write(&self, address: u64, value: $number) -> Result<(), Trap> {
                    self.write(address, &value.to_le_bytes())
                }
            )*
        }
    };
}

numbers! {
    u8, "1 byte": read_u8, write_u8;
    u16, "2 bytes": read_u16, write_u16;
    u32, "4 bytes": read_u32, write_u32;
    u64, "8 bytes": read_u64, write_u64;
}

impl Shared {
    /// Makes bytes accessible, and then publishes the new size to guests on all threads.
    ///
    /// # Errors
    ///
    /// The error of mprotect(2); then nothing has changed.
    fn make_accessible(&self, current: u64, desired: u64) -> io::Result<()> {
        let page = |bytes: u64| bytes.next_multiple_of(WASM_PAGE_BYTES) as usize;
        let start = self.reservation.range().start;
        let new = start + page(current)..start + page(desired);
        // SAFETY: the range is after the accessible part, so no thread uses it. The caller holds
        // the lock `growing`, or owns the memory alone.
        unsafe { self.reservation.protect(new, Access::ReadWrite)? };
        self.desc.bytes.store(desired, SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
