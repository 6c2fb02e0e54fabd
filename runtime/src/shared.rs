//! [`SharedMemory`]: a linear memory that the host makes, and several instances use at once, each on a thread of its own.
//!
//! It lies in no slot: it is reserved, and given back, by itself, and lives as long as anybody has it, instances and
//! preparations included. So a slot holds nothing that another instance may write to, and its reset is what it ever was.
//!
//! # Safety
//!
//! Owns the fact that the bytes below a shared memory's size are accessible as long as it lives: it only grows, and the size
//! is written after the system has made the bytes accessible. Nobody has a reference to them but to atomics and cells,
//! because guests write there at any time.
#![allow(unsafe_code)]

pub(crate) mod wait;

use crate::sys;
use crate::sys::memory::{Access, Reservation};
use crate::trap::{Trap, TrapCode};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::slice;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use pirn_format::layout::{
    GUARD_BYTES, MEMORY_BYTES_MAX, MEMORY_REACH_BYTES, MemoryDesc, WASM_PAGE_BYTES,
};
use pirn_format::types::MemoryType;
use std::io;
use std::sync::{Arc, Mutex};
use thiserror::Error;
use wait::Waiters;

/// A linear memory that several instances use at once, each on a thread of its own (the threads proposal). A clone is the same
/// memory.
///
/// A [`Linker`](crate::Linker) offers it by [`memory`](crate::Linker::memory); instances of one preparation get others by
/// [`Prepared::with_memory`](crate::Prepared::with_memory). Addresses are offsets in bytes. What the host reads and writes here it
/// reads and writes beside guests that do the same: only [`atomic_u32`](Self::atomic_u32) and [`atomic_u64`](Self::atomic_u64) say in
/// which order.
#[derive(Debug, Clone)]
pub struct SharedMemory(Arc<Shared>);

/// Why there is no shared memory of a type.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SharedMemoryError {
    /// The type is not of a shared memory.
    #[error("memory of {found} is not shared; set `shared` in its type, and a maximum")]
    NotShared {
        /// The type.
        found: String,
    },
    /// It is to have more than it may.
    #[error("shared memory is to have {pages} pages, it may have {max}; ask for less")]
    Limit {
        /// Pages that it is to have.
        pages: u64,
        /// The most.
        max: u64,
    },
    /// The system gives no memory.
    #[error("the system gives no shared memory: {0}")]
    System(#[from] io::Error),
}

#[derive(Debug)]
struct Shared {
    desc: Desc,
    ty: MemoryType,
    reservation: Reservation,
    /// Taken by whoever grows it.
    growing: Mutex<()>,
    waiters: Mutex<Waiters>,
}

/// A [`MemoryDesc`] that is read and written on several threads.
#[derive(Debug)]
#[repr(C)]
struct Desc {
    base: u64,
    bytes: AtomicU64,
}

const _: () = assert!(size_of::<Desc>() == size_of::<MemoryDesc>());
const _: () = assert!(offset_of!(Desc, base) == offset_of!(MemoryDesc, base));
const _: () = assert!(offset_of!(Desc, bytes) == offset_of!(MemoryDesc, bytes));

/// All that an access can reach.
const REACH_BYTES: usize = (MEMORY_REACH_BYTES + GUARD_BYTES) as usize;

impl SharedMemory {
    /// Makes one of a type, which a module's import has ([`Module::imports`](crate::Module::imports)). It reserves 4 GiB of
    /// addresses, and has zeros.
    ///
    /// # Errors
    ///
    /// [`SharedMemoryError`].
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
        // As the memory of slots: no fork has what a guest wrote.
        reservation.wipe_on_fork(reservation.range())?;
        let shared = Shared {
            desc: Desc {
                base: reservation.range().start as u64,
                bytes: AtomicU64::new(0),
            },
            ty: *ty,
            reservation,
            growing: Mutex::new(()),
            waiters: Mutex::default(),
        };
        shared.make_accessible(0, ty.min * ty.page.bytes())?;
        Ok(Self(Arc::new(shared)))
    }

    /// Its type, with the limits that it was made with.
    #[must_use]
    pub fn ty(&self) -> MemoryType {
        self.0.ty
    }

    /// Its size in bytes, which may be more by now: it only grows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes() as usize
    }

    /// Whether it has no byte yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Grows it by so many pages of its type, and gives how many there were.
    ///
    /// # Errors
    ///
    /// [`SharedMemoryError::Limit`] past its maximum, [`SharedMemoryError::System`] if there is no memory.
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

    /// Reads bytes. Each is one that was there; together they need not be what was there at any one time.
    ///
    /// # Errors
    ///
    /// [`TrapCode::MemoryOutOfBounds`] if they do not all lie in the memory.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Trap> {
        let bytes = self.atomic_bytes(address, into.len())?;
        for (byte, from) in into.iter_mut().zip(bytes) {
            *byte = from.load(Relaxed);
        }
        Ok(())
    }

    /// Writes bytes, one after another.
    ///
    /// # Errors
    ///
    /// [`TrapCode::MemoryOutOfBounds`] if they do not all lie in the memory; then none is written.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Trap> {
        let into = self.atomic_bytes(address, bytes.len())?;
        for (byte, into) in bytes.iter().zip(into) {
            into.store(*byte, Relaxed);
        }
        Ok(())
    }

    /// The number of 32 bits at an address, as guests have it by `i32.atomic`.
    ///
    /// # Errors
    ///
    /// [`TrapCode::UnalignedAtomic`] if the address is no multiple of 4, [`TrapCode::MemoryOutOfBounds`] if it does not lie in
    /// the memory.
    pub fn atomic_u32(&self, address: u64) -> Result<&AtomicU32, Trap> {
        let at = self.atomic(address, 4).map_err(Trap::new)?;
        // SAFETY: accessible as long as the memory lives, and aligned; nobody has another reference to it but as atomics.
        Ok(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    /// The number of 64 bits at an address, as guests have it by `i64.atomic`.
    ///
    /// # Errors
    ///
    /// As [`atomic_u32`](Self::atomic_u32), with a multiple of 8.
    pub fn atomic_u64(&self, address: u64) -> Result<&AtomicU64, Trap> {
        let at = self.atomic(address, 8).map_err(Trap::new)?;
        // SAFETY: as in `atomic_u32`.
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    /// Wakes so many of the guests that wait at an address, those first that wait for longest, as `memory.atomic.notify` does;
    /// tells how many.
    ///
    /// # Errors
    ///
    /// As [`atomic_u32`](Self::atomic_u32).
    pub fn notify(&self, address: u64, count: u32) -> Result<u32, Trap> {
        self.atomic_u32(address)?;
        Ok(self.wake(address, count))
    }

    /// All that it has now, for libraries that copy from and to cells. Guests write there meanwhile: who reads a cell must do so
    /// as one does where another thread writes.
    #[must_use]
    pub fn cells(&self) -> &[UnsafeCell<u8>] {
        let (base, bytes) = (self.0.desc.base as *const UnsafeCell<u8>, self.len());
        // SAFETY: accessible as long as the memory lives; cells may change under a shared reference.
        unsafe { slice::from_raw_parts(base, bytes) }
    }

    /// Whether it is that one.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Where its descriptor lies.
    pub(crate) fn desc(&self) -> *const MemoryDesc {
        (&raw const self.0.desc).cast()
    }

    /// Its size now.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.desc.bytes.load(SeqCst)
    }

    /// The most bytes that it may have.
    pub(crate) fn bytes_max(&self) -> u64 {
        let page = self.0.ty.page.bytes();
        let max = self.0.ty.max.unwrap_or(u64::MAX);
        max.saturating_mul(page).min(MEMORY_BYTES_MAX)
    }

    /// Grows it by so many pages if that is permitted, from so many bytes to so many, no more than the most; gives how many
    /// pages there were. Where another thread grows it meanwhile, that is asked again.
    ///
    /// # Errors
    ///
    /// What mprotect(2) gives.
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
            // Under no lock: who permits it is the embedder.
            if !is_permitted(current, desired) {
                return Ok(None);
            }
            let _growing = sys::lock(&self.0.growing);
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
    /// The trap of one that is unaligned or outside.
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

    /// Bytes as atomics.
    fn atomic_bytes(&self, address: u64, len: usize) -> Result<&[AtomicU8], Trap> {
        let end = address.checked_add(len as u64);
        if end.is_none_or(|end| end > self.bytes()) {
            return Err(Trap::new(TrapCode::MemoryOutOfBounds));
        }
        let start = (self.0.desc.base + address) as *const AtomicU8;
        // SAFETY: accessible as long as the memory lives; nobody has another reference to it but as atomics.
        Ok(unsafe { slice::from_raw_parts(start, len) })
    }
}

impl Shared {
    /// Makes bytes accessible, and says so: to guests as well, on whatever thread.
    ///
    /// # Errors
    ///
    /// What mprotect(2) gives; then nothing has changed.
    fn make_accessible(&self, current: u64, desired: u64) -> io::Result<()> {
        let page = |bytes: u64| bytes.next_multiple_of(WASM_PAGE_BYTES) as usize;
        let start = self.reservation.range().start;
        let new = start + page(current)..start + page(desired);
        // SAFETY: behind what is accessible, where nobody looks; who makes it accessible has the lock, or the memory alone.
        unsafe { self.reservation.protect(new, Access::ReadWrite)? };
        self.desc.bytes.store(desired, SeqCst);
        Ok(())
    }
}

/// The shared memories of the host's that an instance imports: by index, `None` for another instance's.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedImports(Vec<Option<SharedMemory>>);

impl SharedImports {
    /// The next imported memory is this one, or another instance's.
    pub(crate) fn push(&mut self, memory: Option<&SharedMemory>) {
        self.0.push(memory.cloned());
    }

    /// Puts another in the place of one.
    pub(crate) fn replace(&mut self, index: usize, memory: &SharedMemory) {
        self.0[index] = Some(memory.clone());
    }

    /// The memory of an index, if it is the host's.
    pub(crate) fn get(&self, index: u32) -> Option<&SharedMemory> {
        self.0.get(index as usize)?.as_ref()
    }

    /// The memories that are the host's, with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &SharedMemory)> {
        let all = (0..).zip(&self.0);
        all.filter_map(|(index, memory)| Some((index, memory.as_ref()?)))
    }

    /// Whether accesses of one of them can reach an address. The signal handler asks.
    pub(crate) fn reach(&self, address: usize) -> bool {
        self.iter()
            .any(|(_, memory)| memory.0.reservation.range().contains(&address))
    }
}
