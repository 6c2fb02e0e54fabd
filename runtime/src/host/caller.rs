//! [`Caller`]: what a host function sees of the instance that calls it.
//!
//! # Safety
//!
//! Owns the fact that the context of a `Caller` belongs to an instance that does not run while the
//! `Caller` lives: [`Caller::new`] asks for it, and every view borrows the `Caller`.
#![allow(unsafe_code)]

use super::Store;
use crate::account::{Account, HostBytesError};
use crate::error::FuelError;
use crate::instance::fuel;
use crate::instance::memory::{Memory, MemoryMut, interface_view_mut, view, view_mut};
use crate::shared::SharedMemory;
use crate::stop;
use crate::switch::{Activation, Record};
use core::fmt;
use pirn_format::layout::CONTEXT_ACTIVATION;

/// What a host function sees of the instance that calls it: its memory and the host's data.
pub struct Caller<'a, T> {
    vmctx: *mut u8,
    data: &'a mut T,
}

// SAFETY: by `new`, whoever has it alone has the instance.
unsafe impl<T: Send> Send for Caller<'_, T> {}
// SAFETY: through a shared reference the memory is only read.
unsafe impl<T: Sync> Sync for Caller<'_, T> {}

impl<'a, T> Caller<'a, T> {
    /// # Safety
    ///
    /// `vmctx` must be the context of an instance that stays in place and does not run for `'a`, and
    /// nobody else may view its memory meanwhile.
    pub(crate) unsafe fn new(vmctx: *mut u8, data: &'a mut T) -> Self {
        Self { vmctx, data }
    }

    /// The context of the instance that calls.
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.vmctx
    }

    /// Whether the guest was stopped since it called, by a kill or a limit: it is not gone on with. A host
    /// function that waits looks at this now and then.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        // SAFETY: an initialised context names the activation of the call that runs, and that its gate.
        unsafe {
            let place = self.vmctx.wrapping_offset(CONTEXT_ACTIVATION as isize);
            let activation = *place.cast::<*const Activation>();
            stop::is_stopped(&*(*activation).gate)
        }
    }

    /// The host's data of the instance.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &T {
        self.data
    }

    /// The host's data of the instance.
    #[inline]
    pub fn data_mut(&mut self) -> &mut T {
        self.data
    }

    /// Memory 0 of the instance that calls; of no byte if it has none, or a shared one of the host's
    /// ([`shared_memory`](Self::shared_memory)).
    #[must_use]
    #[inline]
    pub fn memory(&self) -> Memory<'_> {
        // SAFETY: by `new`, for as long as `self` is borrowed.
        unsafe { view(self.vmctx) }
    }

    /// Memory 0 of the instance that calls, to be changed; of no byte if it has none.
    #[inline]
    pub fn memory_mut(&mut self) -> MemoryMut<'_> {
        // SAFETY: by `new`; `self` is borrowed mutably, so there is one view at a time.
        unsafe { view_mut(self.vmctx) }
    }

    /// Memory 0 of the instance that calls, if it is a shared one that the host gave it, of which there is no view.
    #[must_use]
    pub fn shared_memory(&self) -> Option<&SharedMemory> {
        // SAFETY: an initialised context, whose instance keeps what it imports.
        let shared = unsafe { (*Record::of(self.vmctx)).guest.shared.as_ref() };
        shared?.get(0)
    }

    /// The fuel that the instance that calls has left, as [`Instance::fuel`](crate::Instance::fuel).
    #[must_use]
    pub fn fuel(&self) -> Option<u64> {
        // SAFETY: by `new`.
        unsafe { fuel::left(self.vmctx) }
    }

    /// Has the instance that calls go on with so much fuel: with less than it has for what the host did on
    /// its behalf, or with more.
    ///
    /// # Errors
    ///
    /// As [`Instance::set_fuel`](crate::Instance::set_fuel).
    pub fn set_fuel(&mut self, fuel: u64) -> Result<(), FuelError> {
        // SAFETY: by `new`.
        unsafe { fuel::set(self.vmctx, fuel) }
    }

    /// Counts `bytes` of the host's own memory as held for the guest. Call it before you allocate
    /// memory that outlives this host call, or whose size the guest decides.
    /// [`release_host_bytes`](Self::release_host_bytes) gives them back, and so does the end of the
    /// instance. The instances of a group share one sum.
    ///
    /// # Errors
    ///
    /// [`HostBytesError`] if the sum would exceed
    /// [`RegionBuilder::host_bytes_max`](crate::RegionBuilder::host_bytes_max): nothing is counted then.
    /// A host function that gives this error ends the call with
    /// [`TrapCode::HostMemoryExhausted`](crate::TrapCode::HostMemoryExhausted).
    pub fn hold_host_bytes(&mut self, bytes: usize) -> Result<(), HostBytesError> {
        // SAFETY: by `new`; the instance keeps its region.
        unsafe { Record::account(self.vmctx) }.hold(bytes)
    }

    /// Counts `bytes` as no longer held, of those that
    /// [`hold_host_bytes`](Self::hold_host_bytes) has counted.
    pub fn release_host_bytes(&mut self, bytes: usize) {
        // SAFETY: by `new`; the instance keeps its region.
        unsafe { Record::account(self.vmctx) }.release(bytes);
    }

    /// Bytes of the host's own memory that are held for the guest, as
    /// [`Instance::host_bytes`](crate::Instance::host_bytes).
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        // SAFETY: by `new`; the instance keeps its region.
        let account = unsafe { Record::open_account(self.vmctx) };
        account.map_or(0, Account::host_bytes)
    }

    /// Counts bytes that the guest has read from files, streams or sockets of the host's, and written
    /// there, for [`Instance::usage`](crate::Instance::usage).
    pub fn count_io(&mut self, read: u64, written: u64) {
        // SAFETY: by `new`; the instance keeps its region.
        let account = unsafe { Record::account(self.vmctx) };
        account.bytes_read.add(read);
        account.bytes_written.add(written);
    }

    /// The memory that pointers of an interface like WASI preview 1 are offsets in, and the data.
    /// It is the memory that the calling instance exports as `memory`, or memory 0 if it exports
    /// none by that name. If that is a shared memory of the host's, the view has no bytes: see
    /// [`interface_shared_memory`](Self::interface_shared_memory).
    #[inline]
    pub fn interface_split(&mut self) -> (MemoryMut<'_>, &mut T) {
        // SAFETY: as in `memory_mut`; the data is the host's and no part of the memory.
        (unsafe { interface_view_mut(self.vmctx) }, self.data)
    }

    /// The memory of [`interface_split`](Self::interface_split), if it is a shared memory that the
    /// host gave the calling instance.
    #[must_use]
    pub fn interface_shared_memory(&self) -> Option<&SharedMemory> {
        // SAFETY: an initialised context, whose instance keeps what it imports.
        let (shared, index) = unsafe {
            let record = &*Record::of(self.vmctx);
            (record.guest.shared.as_ref(), record.interface_index)
        };
        shared?.get(index)
    }

    /// Memory and data at once.
    #[inline]
    pub fn split(&mut self) -> (MemoryMut<'_>, &mut T) {
        // SAFETY: as in `memory_mut`; the data is the host's and no part of the memory.
        (unsafe { view_mut(self.vmctx) }, self.data)
    }
}

impl<'a, T, Q, A> Caller<'a, Store<T, Q, A>> {
    /// What a host function sees: the data that the embedder gave.
    #[inline]
    pub(crate) fn of_data(self) -> Caller<'a, T> {
        Caller {
            vmctx: self.vmctx,
            data: &mut self.data.data,
        }
    }

    /// What the instance holds beside that.
    pub(crate) fn store(&mut self) -> &mut Store<T, Q, A> {
        self.data
    }
}

impl<T: fmt::Debug> fmt::Debug for Caller<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
