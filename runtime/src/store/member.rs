//! [`Member`]: one instance in its slot, without the host's data.
//!
//! # Safety
//!
//! This file owns one fact. The slot of a [`Member`] is given back when the member is dropped, and
//! no code uses the slot afterwards. The file reads only instance state that `initialise.rs` has
//! written.
#![allow(unsafe_code)]

use super::bulk::Bulk;
use super::exceptions::Exceptions;
use super::fuel;
use super::preparation::Share;
use crate::account::{Account, Clocks};
use crate::error::FuelError;
use crate::memory::wait::{Blocking, Waiting};
use crate::memory::{SharedImports, SharedMemory};
use crate::region::Slot;
use crate::stop::Watch;
use crate::switch::Record;
use crate::value::Cell;
use core::slice;
use pirn_format::layout::FuncRef;
use pirn_format::metadata::ExportItem;
use std::sync::Arc;

/// The references that an instance made for its element segments: one list for each segment, up to
/// the last segment with such references. The list of a segment without such references is empty. A
/// list stays when its segment is dropped.
pub(crate) type Made = Vec<Vec<u64>>;

/// One instance in its slot.
#[derive(Debug)]
pub(crate) struct Member<T> {
    pub(crate) slot: Slot,
    pub(crate) inner: Arc<Share<T>>,
    /// The means to stop the instance; `None` if it cannot be stopped.
    pub(crate) watch: Option<Watch>,
    /// The exceptions that the runtime keeps for the guest; `None` before the first exception. In a
    /// group, the first member has the exceptions of all members.
    pub(crate) exceptions: Option<Box<Exceptions>>,
    /// The references that this instance made for its element segments at its start.
    pub(crate) made: Made,
    /// The shared memories that this instance imports, unless it uses the memories of its
    /// preparation.
    memories: Option<Arc<SharedImports>>,
    /// The clocks that the runtime reads for calls of this instance.
    pub(crate) clocks: Clocks,
    /// How long the guest may block the thread by waiting.
    pub(crate) blocking: Blocking,
    // The next two fields are boxed: an instance rarely needs one of these fields, and is moved
    // when it is made. Moving an instance of more than 256 bytes takes 10 ns longer (bench `cycle`,
    // null).
    /// The wait during which the guest was left.
    pub(crate) waiting: Option<Box<Waiting>>,
    /// The rest of a bulk write, if the guest was suspended during the write.
    pub(crate) bulk: Option<Box<Bulk>>,
}

impl<T> Drop for Member<T> {
    fn drop(&mut self) {
        self.waiting = None;
        // The next owner of the slot gets the slot's control, so the watch must go first.
        self.watch = None;
        // SAFETY: no code uses the slot of a member after the member's drop.
        unsafe { self.slot.give_back(&self.inner.region, &self.inner.module) };
    }
}

/// The target of a call: a function's code, the entry trampoline of its type, and its context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) code: usize,
    pub(crate) entry: usize,
    pub(crate) vmctx: *mut u8,
}

impl<T> Member<T> {
    /// An instance that is not yet initialised. `memories`, if given, replaces the shared memories
    /// of the preparation.
    #[inline(always)]
    pub(crate) fn new(
        slot: Slot,
        inner: Arc<Share<T>>,
        memories: Option<Arc<SharedImports>>,
    ) -> Self {
        Self {
            slot,
            inner,
            watch: None,
            exceptions: None,
            made: Made::default(),
            memories,
            clocks: Clocks::None,
            blocking: Blocking::default(),
            waiting: None,
            bulk: None,
        }
    }

    /// The shared memories that the instance imports from the host.
    pub(super) fn shared_imports(&self) -> &SharedImports {
        let linked = &self.inner.imports.shared;
        self.memories.as_deref().unwrap_or(linked)
    }

    /// The memory with an index, if it is a shared memory of the host.
    pub(crate) fn shared(&self, index: u32) -> Option<&SharedMemory> {
        self.shared_imports().get(index)
    }

    /// The exported memory with a name, if it is a shared memory of the host.
    pub(crate) fn exported_shared(&self, name: &str) -> Option<&SharedMemory> {
        match self.inner.module.metadata().export(name)? {
            ExportItem::Memory(index) => self.shared(index),
            _ => None,
        }
    }

    /// The means to stop the instance, created at the first use.
    pub(crate) fn watch(&mut self) -> &mut Watch {
        let slot = &mut self.slot;
        self.watch.get_or_insert_with(|| Watch::new(slot.control()))
    }

    /// Whether a call of the instance has ended with an error, or was cancelled.
    pub(crate) fn has_failed(&self) -> bool {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run.
        unsafe { (*Record::of(self.vmctx())).has_failed }
    }

    /// Records that a call of the instance has ended with an error, or was cancelled.
    pub(crate) fn note_failure(&mut self) {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run.
        unsafe { (*Record::of(self.vmctx())).has_failed = true };
    }

    /// The address of the context.
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.slot.vmctx()
    }

    /// The account of the instance or its group. Clears the account first if it may hold data of an
    /// earlier instance of the slot.
    pub(crate) fn account(&self) -> &Account {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run. The member keeps
        // its region alive.
        unsafe { Record::account(self.vmctx()) }
    }

    /// Bytes of host memory that are held for the instance or its group.
    pub(crate) fn host_bytes(&self) -> usize {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run. The member keeps
        // its region alive.
        let account = unsafe { Record::open_account(self.vmctx()) };
        account.map_or(0, Account::host_bytes)
    }

    /// Address of the cell at an offset from the context.
    pub(crate) fn cell<C>(&self, offset: i32) -> *mut C {
        self.vmctx().wrapping_offset(offset as isize).cast()
    }

    /// The top `count` cells of the stack, for the parameters and results of a call.
    ///
    /// The slice must not be used after the guest has run. Call this method again for the results.
    pub(crate) fn cells(&mut self, count: usize) -> &mut [Cell] {
        let cells = self.cells_address(count) as *mut Cell;
        // SAFETY: the stack is ours and no guest runs on it. `check_limits` has checked that the
        // cells of every function of the module fit. Any bytes are a valid cell.
        unsafe { slice::from_raw_parts_mut(cells, count) }
    }

    /// Address of the top `count` cells. The guest's stack begins below that address.
    pub(crate) fn cells_address(&self, count: usize) -> usize {
        (self.slot.stack_end() - count * size_of::<Cell>()) & !15
    }

    /// The target of function `index` of this instance, if the host can call it.
    pub(crate) fn target(&self, index: u32) -> Option<Target> {
        let module = &self.inner.module;
        let metadata = module.metadata();
        let position = metadata.address_taken_position(index)?;
        let ty = metadata.funcs[index as usize];
        // SAFETY: `write_constants` wrote the function references when the slot got the module.
        let reference = unsafe { *self.cell::<FuncRef>(module.layout().funcref(position)) };
        Some(Target {
            code: reference.code as usize,
            entry: module.code(metadata.entries[ty as usize]?),
            vmctx: reference.vmctx as *mut u8,
        })
    }

    /// The target of function `index`, and the id of its type. That type may be a subtype of the
    /// type that this instance imports.
    pub(crate) fn linked(&self, index: u32) -> Option<(Target, u32)> {
        let module = &self.inner.module;
        let position = module.metadata().address_taken_position(index)?;
        // SAFETY: `write_constants` wrote the function references when the slot got the module.
        let reference = unsafe { *self.cell::<FuncRef>(module.layout().funcref(position)) };
        Some((self.target(index)?, reference.type_id))
    }

    /// The index of the function that a reference with this address refers to. `None` if this
    /// member has no function reference at that address.
    pub(crate) fn func_at(&self, address: u64) -> Option<u32> {
        let address_taken = &self.inner.module.metadata().address_taken;
        let last = (address_taken.len() as u32).checked_sub(1)?;
        // The list grows down: the reference at its last position has the lowest address.
        let lowest = self.cell::<FuncRef>(self.inner.module.layout().funcref(last));
        let offset = address.checked_sub(lowest as u64)?;
        let bytes = size_of::<FuncRef>() as u64;
        let above = u32::try_from(offset / bytes).ok()?;
        let position = last.checked_sub(above)?;
        (offset % bytes == 0).then(|| address_taken[position as usize])
    }

    /// The index of the exported function with a name.
    pub(crate) fn exported_func(&self, name: &str) -> Option<u32> {
        match self.inner.module.metadata().export(name)? {
            ExportItem::Func(index) => Some(index),
            _ => None,
        }
    }

    /// Address of the cell that holds the value of global `index`.
    pub(crate) fn global_cell(&self, index: u32) -> *mut Cell {
        let (metadata, layout) = (self.inner.module.metadata(), self.inner.module.layout());
        let cell = self.cell::<Cell>(layout.global(index));
        let elsewhere = index < self.inner.module.imported().globals
            && metadata.globals[index as usize].mutable;
        if !elsewhere {
            return cell;
        }
        // SAFETY: the cell of an imported mutable global holds the address of the owner's cell.
        unsafe { *cell.cast::<*mut Cell>() }
    }
}

/// The fuel of the instance.
impl<T> Member<T> {
    /// As [`Instance::fuel`](crate::Instance::fuel).
    pub(crate) fn fuel(&self) -> Option<u64> {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run.
        unsafe { fuel::left(self.vmctx()) }
    }

    /// As [`Instance::set_fuel`](crate::Instance::set_fuel).
    pub(crate) fn set_fuel(&mut self, fuel: u64) -> Result<(), FuelError> {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run.
        unsafe { fuel::set(self.vmctx(), fuel) }
    }
}
