//! [`Caller`]: the host function's access to the instance that calls it.
//!
//! # Safety
//!
//! This file owns one fact. The context of a `Caller` belongs to an instance that runs only in
//! nested calls while the `Caller` lives. [`Caller::new`] requires it. Every view borrows the
//! `Caller`, and a nested call borrows it mutably.
#![allow(unsafe_code)]

use crate::account::{Account, HostBytesError};
use crate::error::FuelError;
use crate::memory::view::{interface_view_mut, view, view_mut, view_mut_of};
use crate::memory::{Memory, MemoryMut, SharedImports, SharedMemory};
use crate::store::fuel;
use crate::switch::interrupt_flag::is_stopped;
use crate::switch::{Activation, Record};
use crate::value::InstanceId;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;
use pirn_format::layout::CONTEXT_ACTIVATION;

/// The host function's access to the calling instance: its memory, its functions and the host's
/// data.
pub struct Caller<'a, T> {
    vmctx: *mut u8,
    /// A pointer, not a reference: a nested call reaches the data through a pointer of its own.
    data: *mut T,
    borrowed: PhantomData<&'a mut T>,
}

// SAFETY: the caller of `new` ensured exclusive access to the instance, and the data is `Send`.
unsafe impl<T: Send> Send for Caller<'_, T> {}
// SAFETY: the data is `Sync`. A shared reference allows reads of the memory, and look-ups of
// functions, which change the record only on the thread of the waiting guest.
unsafe impl<T: Sync> Sync for Caller<'_, T> {}

impl<'a, T> Caller<'a, T> {
    /// # Safety
    ///
    /// `vmctx` must be the context of an instance that stays in place for `'a`, and that runs
    /// during `'a` only in nested calls of this value. Nothing else may view its memory during
    /// `'a`. `data` must be valid during `'a`. Only this value and its nested calls may use it.
    pub(crate) unsafe fn new(vmctx: *mut u8, data: *mut T) -> Self {
        let borrowed = PhantomData;
        Self {
            vmctx,
            data,
            borrowed,
        }
    }

    /// The host's data of the instance. The pointer is valid while this value lives.
    pub(super) fn data_pointer(&self) -> *mut T {
        self.data
    }

    /// The context of the calling instance.
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.vmctx
    }

    /// The activation of the running call.
    pub(super) fn activation(&self) -> *mut Activation {
        // SAFETY: the context of a caller is initialised.
        unsafe { activation_of(self.vmctx) }
    }

    /// Whether the guest runs in a nested call, in which it cannot be suspended.
    pub(super) fn is_nested(&self) -> bool {
        // SAFETY: the activation lives as long as the call, whose guest waits.
        unsafe { (*Record::with(self.activation())).nested_calls > 0 }
    }

    /// Refuses nested calls until the guard is dropped.
    pub(super) fn in_async_host(&self) -> InAsyncHost {
        let activation = self.activation();
        // SAFETY: the activation lives as long as the call, whose guest waits.
        unsafe { (*Record::with(activation)).in_async_host = true };
        InAsyncHost(activation)
    }

    /// Whether a kill or a limit has stopped the guest since it called. Such a guest does not
    /// continue. A host function that waits should check this now and then.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop_flag().is_stopped()
    }

    /// A value that answers [`is_stopped`](Self::is_stopped) while the host function holds a view
    /// of the memory.
    #[must_use]
    #[inline]
    pub fn stop_flag(&self) -> StopFlag<'a> {
        StopFlag {
            vmctx: self.vmctx,
            borrowed: PhantomData,
        }
    }

    /// The host's data of the instance.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &T {
        // SAFETY: the caller of `new` ensured that the data is valid. A nested call borrows `self`
        // mutably.
        unsafe { &*self.data }
    }

    /// The host's data of the instance, mutable.
    #[inline]
    pub fn data_mut(&mut self) -> &mut T {
        // SAFETY: the caller of `new` ensured that the data is valid, and `self` is borrowed
        // mutably.
        unsafe { &mut *self.data }
    }

    /// Memory 0 of the calling instance. The view is empty if there is no memory 0, or if memory 0
    /// is a shared memory of the host ([`shared_memory`](Self::shared_memory)).
    #[must_use]
    #[inline]
    pub fn memory(&self) -> Memory<'_> {
        // SAFETY: the caller of `new` ensured that the instance runs only in nested calls. They
        // borrow `self` mutably, and the view borrows `self`.
        unsafe { view(self.vmctx) }
    }

    /// Memory 0 of the calling instance, mutable. The view is empty if there is no memory 0, or if
    /// memory 0 is a shared memory of the host ([`shared_memory`](Self::shared_memory)).
    #[inline]
    pub fn memory_mut(&mut self) -> MemoryMut<'_> {
        // SAFETY: the caller of `new` ensured that the instance runs only in nested calls. The view
        // borrows `self` mutably, so there is no nested call and no other view.
        unsafe { view_mut(self.vmctx) }
    }

    /// Memory 0 of the calling instance, if it is a shared memory from the host. Such a memory has
    /// no view.
    #[must_use]
    pub fn shared_memory(&self) -> Option<&SharedMemory> {
        // SAFETY: the context is initialised, and its instance keeps its imports alive.
        let shared = unsafe { SharedImports::of(self.vmctx) };
        shared?.get(0)
    }

    /// The remaining fuel of the calling instance, as [`Instance::fuel`](crate::Instance::fuel).
    #[must_use]
    pub fn fuel(&self) -> Option<u64> {
        // SAFETY: the caller of `new` ensured that the context is initialised and the instance does
        // not run.
        unsafe { fuel::left(self.vmctx) }
    }

    /// Sets the remaining fuel of the calling instance.
    ///
    /// The host can take fuel for its own work on behalf of the guest, or give more.
    ///
    /// # Errors
    ///
    /// As [`Instance::set_fuel`](crate::Instance::set_fuel).
    pub fn set_fuel(&mut self, fuel: u64) -> Result<(), FuelError> {
        // SAFETY: the caller of `new` ensured that the context is initialised and the instance does
        // not run.
        unsafe { fuel::set(self.vmctx, fuel) }
    }

    /// Counts `bytes` of the host's own memory as held for the guest.
    ///
    /// Call this method before you allocate memory that outlives this host call, or whose size the
    /// guest decides. [`release_host_bytes`](Self::release_host_bytes) gives the bytes back, and so
    /// does the end of the instance. The instances of a group share one sum.
    ///
    /// # Errors
    ///
    /// [`HostBytesError`] if the sum would exceed
    /// [`RegionBuilder::host_bytes_max`](crate::RegionBuilder::host_bytes_max). Then nothing is
    /// counted. A host function that returns this error ends the call with
    /// [`TrapCode::HostMemoryExhausted`](crate::TrapCode::HostMemoryExhausted).
    pub fn hold_host_bytes(&mut self, bytes: usize) -> Result<(), HostBytesError> {
        // SAFETY: the caller of `new` ensured that the context is initialised. The instance keeps
        // its region alive.
        unsafe { Record::account(self.vmctx) }.hold(bytes)
    }

    /// Counts `bytes` as no longer held. [`hold_host_bytes`](Self::hold_host_bytes) must have
    /// counted them before.
    pub fn release_host_bytes(&mut self, bytes: usize) {
        // SAFETY: the caller of `new` ensured that the context is initialised. The instance keeps
        // its region alive.
        unsafe { Record::account(self.vmctx) }.release(bytes);
    }

    /// Bytes of the host's own memory that are held for the guest, as
    /// [`Instance::host_bytes`](crate::Instance::host_bytes).
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        // SAFETY: the caller of `new` ensured that the context is initialised. The instance keeps
        // its region alive.
        let account = unsafe { Record::open_account(self.vmctx) };
        account.map_or(0, Account::host_bytes)
    }

    /// Counts bytes that the guest has read from files, streams or sockets of the host, and bytes
    /// that it has written to them, for [`Instance::usage`](crate::Instance::usage).
    pub fn count_io(&mut self, read: u64, written: u64) {
        // SAFETY: the caller of `new` ensured that the context is initialised. The instance keeps
        // its region alive.
        let account = unsafe { Record::account(self.vmctx) };
        account.bytes_read.add(read);
        account.bytes_written.add(written);
    }

    /// The memory that pointers of an interface like WASI preview 1 refer to, and the data, both
    /// mutable.
    ///
    /// The interface memory is the memory that the calling instance exports as `memory`, or memory
    /// 0 without such an export. If the interface memory is a shared memory of the host, the view
    /// is empty: see [`interface_split_shared`](Self::interface_split_shared).
    #[inline]
    pub fn interface_split(&mut self) -> (MemoryMut<'_>, &mut T) {
        // SAFETY: the caller of `new` ensured that the instance runs only in nested calls. `self`
        // is borrowed mutably, so there is no nested call. The data belongs to the host and lies
        // outside the memory.
        unsafe { (interface_view_mut(self.vmctx), &mut *self.data) }
    }

    /// As [`interface_split`](Self::interface_split), and the interface memory if it is a shared
    /// memory of the host. The view is then empty.
    ///
    /// The shared memory is borrowed: a clone would write to a count that all threads share.
    #[inline]
    pub fn interface_split_shared(&mut self) -> (Option<&SharedMemory>, MemoryMut<'_>, &mut T) {
        // SAFETY: the context is initialised, and its instance keeps its imports alive. Shared
        // memories belong to the host and lie outside the view and the data.
        let (shared, index) = unsafe {
            let index = (*Record::of(self.vmctx)).interface_index;
            (SharedImports::of(self.vmctx), index)
        };
        let shared = shared.and_then(|shared| shared.get(index));
        let (view, data) = self.interface_split();
        (shared, view, data)
    }

    /// The exported memory `name` of the calling instance and the data, both mutable.
    ///
    /// `None` if there is no such memory, if it is a shared memory of the host, or if the guest
    /// does not wait for this host function on this thread: a future of
    /// [`Linker::func_async`](crate::Linker::func_async) gets the memory only before its first
    /// wait.
    pub fn exported_split(&mut self, name: &str) -> Option<(MemoryMut<'_>, &mut T)> {
        let desc = self.memory_export(name)?;
        // SAFETY: the descriptor belongs to the calling instance, which runs only in nested calls.
        // `self` is borrowed mutably, so there is no nested call. The data belongs to the host and
        // lies outside the memory.
        Some(unsafe { (view_mut_of(desc), &mut *self.data) })
    }

    /// Memory 0 and the data, both mutable.
    #[inline]
    pub fn split(&mut self) -> (MemoryMut<'_>, &mut T) {
        // SAFETY: the caller of `new` ensured that the instance runs only in nested calls. `self`
        // is borrowed mutably, so there is no nested call. The data belongs to the host and lies
        // outside the memory.
        unsafe { (view_mut(self.vmctx), &mut *self.data) }
    }
}

/// Whether the guest that called a host function has been stopped. Borrows neither the memory nor
/// the data.
pub struct StopFlag<'a> {
    vmctx: *mut u8,
    borrowed: PhantomData<&'a ()>,
}

impl StopFlag<'_> {
    /// As [`Caller::is_stopped`].
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        // SAFETY: `Caller::new` requires that the context stays in place for the lifetime of the
        // caller, which is the lifetime of this value. An activation contains the address of its
        // interrupt flag, and outlives the host function.
        unsafe {
            let activation = activation_of(self.vmctx);
            is_stopped((*(*activation).interrupt_flag).load(Ordering::SeqCst))
        }
    }
}

impl fmt::Debug for StopFlag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopFlag").finish_non_exhaustive()
    }
}

/// The activation of the running call.
///
/// # Safety
///
/// `vmctx` must be an initialised context.
unsafe fn activation_of(vmctx: *mut u8) -> *mut Activation {
    let place = vmctx.wrapping_offset(CONTEXT_ACTIVATION as isize);
    // SAFETY: an initialised context contains the address of the running call's activation.
    unsafe { *place.cast::<*mut Activation>() }
}

/// Guard: while it lives, an async host function runs, and nested calls are refused.
pub(super) struct InAsyncHost(*mut Activation);

impl Drop for InAsyncHost {
    fn drop(&mut self) {
        // SAFETY: the guest waits for the host function, which has not returned.
        unsafe { (*Record::with(self.0)).in_async_host = false };
    }
}

/// The id of the calling instance. If the id is `needed` and does not exist, it is created now.
#[inline]
pub(crate) fn instance_id<T>(caller: &Caller<'_, T>, needed: bool) -> InstanceId {
    if !needed {
        return InstanceId(0);
    }
    // SAFETY: the context of a caller is initialised, and its instance does not run.
    unsafe { Record::instance_id(caller.vmctx()) }
}

impl<T: fmt::Debug> fmt::Debug for Caller<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("data", self.data())
            .finish_non_exhaustive()
    }
}
