//! [`Member`]: one instance in its slot, without the host's data.
//!
//! # Safety
//!
//! This file owns the contents of the instance area of a slot in use. It writes every cell before
//! the guest runs, at the offsets of [`pirn_format::layout`]. Every address that it writes belongs
//! to something that lives at least as long as the instance.
#![allow(unsafe_code)]

use super::bulk::{Bulk, Halt, look};
use super::constant::Constant;
use super::exception::Exceptions;
use super::heap::{self, Made};
use super::imports::{Hosts, Imports, LinkedFunc};
use super::plan::Plan;
use super::{builtin, exit, fuel};
use crate::account::{Account, Clocks};
use crate::error::{CallError, LinkError};
use crate::host::Store;
use crate::host::limiter::Limiter;
use crate::host::linker::Linker;
use crate::memory::wait::{Patience, Waiting};
use crate::memory::{Memory, MemoryMut, SharedImports, SharedMemory, view};
use crate::module::{Module, types};
use crate::region::{Region, Slot};
use crate::stop::{Watch, Watched};
use crate::switch::activation::LAST;
use crate::switch::{
    AccountState, Guest, HostEntry, Record, exit_routine, floats, host_call_routine,
};
use crate::sys;
use crate::value::{Cell, Stamp, Value};
use core::ops::Deref;
use core::{ptr, slice};
use pirn_format::layout::InstanceLayout;
use pirn_format::layout::{
    CONTEXT_ACTIVATION, CONTEXT_EXCEPTION_TAG, CONTEXT_EXIT, CONTEXT_HEAP_NEXT, CONTEXT_HOST_CALL,
    CONTEXT_MEMORY, CONTEXT_TYPE_ROWS, FuncImport, FuncRef, MemoryDesc, TableDesc,
};
use pirn_format::metadata::{ExportItem, SegmentMode};
use std::sync::Arc;

/// A module prepared for a region: everything that its instances have in common.
#[derive(Debug)]
pub(crate) struct Inner<T> {
    /// Identifies this preparation: no other one in the process has this id.
    pub(crate) id: Stamp,
    pub(crate) module: Module,
    pub(crate) region: Region,
    pub(crate) hosts: Hosts<T>,
    pub(crate) limiter: Limiter<T>,
    pub(crate) imports: Imports,
    pub(crate) plan: Plan,
}

impl<T, Q, A> Inner<Store<T, Q, A>> {
    /// Prepares a module whose imports the linker provides.
    pub(crate) fn new(
        module: &Module,
        region: &Region,
        linker: &Linker<T, Q, A>,
    ) -> Result<Self, LinkError> {
        let (imports, hosts) = Imports::resolve(module.metadata(), linker)?;
        let limiter = linker.limiter.clone();
        Self::linked(module, region, imports, hosts, limiter)
    }
}

impl<T> Inner<T> {
    /// Whether instantiation runs code or writes data to which the limits of a call apply.
    #[inline]
    pub(crate) fn starts(&self) -> bool {
        self.plan.prepares || self.module.metadata().start.is_some()
    }

    /// Prepares a module whose imports are already resolved.
    pub(crate) fn linked(
        module: &Module,
        region: &Region,
        imports: Imports,
        hosts: Hosts<T>,
        limiter: Limiter<T>,
    ) -> Result<Self, LinkError> {
        super::prepared::check_limits(module, region)?;
        let plan = Plan::new(module, &imports);
        Ok(Self {
            id: Stamp::fresh(),
            module: module.clone(),
            region: region.clone(),
            hosts,
            limiter,
            imports,
            plan,
        })
    }
}

/// A shared reference to a preparation, on cache lines of its own.
///
/// With at most one thread per processor, each thread has its own share. Instances increment and
/// decrement the reference count of a share. So threads that instantiate one preparation avoid
/// false sharing.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Share<T>(Arc<Inner<T>>);

impl<T> Share<T> {
    /// Shares of a preparation. A thread uses the one at its number modulo the number of shares.
    pub(crate) fn split(inner: Inner<T>) -> Box<[Arc<Self>]> {
        let inner = Arc::new(inner);
        let share = |_| Arc::new(Self(Arc::clone(&inner)));
        (0..sys::thread::parts()).map(share).collect()
    }

    /// The only share in a preparation.
    pub(crate) fn alone(inner: Inner<T>) -> Arc<Self> {
        Arc::new(Self(Arc::new(inner)))
    }
}

impl<T> Deref for Share<T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        &self.0
    }
}

/// One instance in its slot.
#[derive(Debug)]
pub(crate) struct Member<T> {
    pub(crate) slot: Slot,
    pub(crate) inner: Arc<Share<T>>,
    /// The means to stop the instance; `None` if it cannot be stopped.
    pub(crate) watch: Option<Watch>,
    /// The exceptions of the store, if there were any. In a group, the first member has them.
    pub(crate) exceptions: Option<Box<Exceptions>>,
    /// References of element segments that only this instance has, made at its start.
    pub(crate) made: Made,
    /// The shared memories that this instance imports, unless it uses those of its preparation.
    memories: Option<Arc<SharedImports>>,
    /// The clocks that the runtime reads for its calls.
    pub(crate) clocks: Clocks,
    /// How long its guest may block the thread by waiting.
    pub(crate) patience: Patience,
    // The next two fields are boxed: an instance rarely has either of them, and is moved when it is
    // made. Moving an instance of more than 256 bytes takes 10 ns longer (bench `cycle`, null).
    /// The wait of a guest that was left during it.
    pub(crate) waiting: Option<Box<Waiting>>,
    /// The rest of a bulk write of a builtin that the suspended call has called.
    pub(crate) bulk: Option<Box<Bulk>>,
}

/// Descriptor of memory 0 if that is a shared memory of the host, which has no views.
static NOTHING: MemoryDesc = MemoryDesc { base: 0, bytes: 0 };

impl<T> Drop for Member<T> {
    fn drop(&mut self) {
        self.waiting = None;
        // The next owner of the slot gets the slot's control, so the watch must go first.
        self.watch = None;
        // SAFETY: nothing uses the slot of a member after its drop.
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
            patience: Patience::default(),
            waiting: None,
            bulk: None,
        }
    }

    /// The shared memories that it imports from the host.
    fn shared_imports(&self) -> &SharedImports {
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

    /// The address of the context.
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.slot.vmctx()
    }

    /// The account of the instance or of its group, opened for this instance.
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

    /// Writes the whole instance area, in the state before any segment is written dynamically.
    pub(crate) fn initialise(&mut self, member: usize) {
        // As a rule, the instance first runs on this thread, so inspect the thread's float control
        // now.
        floats::look();
        // The slot is not warm while the area is written, because a failure below leaves it
        // incomplete.
        let warm = self.slot.is_warm();
        self.slot.set_warm(false);
        if !warm {
            self.write_constants(member);
        }
        self.write_state();
        if !(warm && self.inner.plan.tables_constant) {
            self.write_tables();
        }
        self.slot.set_warm(true);
    }

    /// Writes the part that stays valid while the slot keeps the module.
    fn write_constants(&self, member: usize) {
        let (module, vmctx) = (&self.inner.module, self.vmctx());
        let (metadata, layout) = (module.metadata(), module.layout());
        for index in 0..self.inner.imports.funcs.len() as u32 {
            let import = self.import(index);
            // SAFETY: the offset comes from the layout, and the slot holds the layout's area, see
            // `check_limits`. The slot is exclusively ours, and its guest does not run.
            unsafe { self.cell::<FuncImport>(layout.import(index)).write(import) };
        }
        for (index, id) in module.type_ids().iter().enumerate() {
            // SAFETY: the offset comes from the layout, and the slot holds the layout's area, see
            // `check_limits`. The slot is exclusively ours, and its guest does not run.
            unsafe { self.cell::<u32>(layout.type_id(index as u32)).write(*id) };
        }
        for (position, func) in metadata.escaped.iter().enumerate() {
            let linked = self
                .inner
                .imports
                .funcs
                .get(*func as usize)
                .copied()
                .flatten();
            let (code, vmctx) = match *func < module.imported().funcs {
                true => {
                    let import = self.import(*func);
                    (import.code, import.vmctx)
                }
                false => {
                    let code = module.code(metadata.code[*func as usize]);
                    (code as u64, vmctx as u64)
                }
            };
            let reference = FuncRef {
                code,
                vmctx,
                type_id: linked.map_or(
                    module.type_ids()[metadata.funcs[*func as usize] as usize],
                    |linked| linked.type_id,
                ),
                reserved: 0,
            };
            // SAFETY: the offset comes from the layout, and the slot holds the layout's area, see
            // `check_limits`. The slot is exclusively ours, and its guest does not run.
            unsafe {
                self.cell::<FuncRef>(layout.funcref(position as u32))
                    .write(reference);
            };
        }
        for index in 0..metadata.tags.len() as u32 {
            let cell = self.cell::<u64>(layout.tag(index));
            let imported = self.inner.imports.tags.get(index as usize).copied();
            // SAFETY: the offset of the tag comes from the layout, and the slot holds the layout's
            // area, see `check_limits`. The slot is exclusively ours, and its guest does not run.
            unsafe { cell.write(imported.unwrap_or(cell as u64)) };
        }
        let interface = self.inner.plan.interface_memory;
        let memory = self.memory_desc(0);
        let interface = (interface, self.memory_desc(interface));
        let mark = self.slot.mark(&self.inner.region);
        let account = self.slot.account(&self.inner.region);
        let record = Record::new(
            self.guest(),
            memory,
            interface,
            member as u64,
            mark,
            account,
        );
        // SAFETY: the context lies in the instance area, and the record in the context. The slot is
        // exclusively ours, and its guest does not run.
        unsafe {
            Record::of(vmctx).write(record);
            self.cell::<u64>(CONTEXT_ACTIVATION)
                .write(Record::of(vmctx) as u64);
            self.cell::<u64>(CONTEXT_EXIT).write(exit_routine());
            self.cell::<u64>(CONTEXT_HOST_CALL)
                .write(host_call_routine());
            self.cell::<u64>(CONTEXT_TYPE_ROWS).write(types::rows());
        }
    }

    /// The import descriptor that generated code reads for the imported function with this index.
    fn import(&self, index: u32) -> FuncImport {
        let module = &self.inner.module;
        if let Some(LinkedFunc { code, vmctx, .. }) = self.inner.imports.funcs[index as usize] {
            return FuncImport {
                code,
                vmctx,
                instance: 0,
                host: 0,
            };
        }
        let code = module.metadata().code[index as usize];
        FuncImport {
            code: module.code(code) as u64,
            vmctx: self.cell::<u8>(module.layout().import(index)) as u64,
            instance: self.vmctx() as u64,
            host: u64::from(index) * size_of::<HostEntry>() as u64,
        }
    }

    /// Address of the descriptor of a memory, which may belong to another instance. For a shared
    /// memory of the host it is the address of an empty descriptor.
    fn memory_desc(&self, index: u32) -> u64 {
        let imports = &self.inner.imports;
        if imports.shared.get(index).is_some() {
            return &raw const NOTHING as u64;
        }
        let own = || match index > self.inner.module.imported().memories {
            true => self.cell::<MemoryDesc>(self.inner.module.layout().memory(index)),
            false => self.cell(CONTEXT_MEMORY),
        };
        let imported = imports.memories.get(index as usize).copied();
        imported.unwrap_or_else(|| own() as u64)
    }

    /// The address ranges and data that the signal handler needs.
    fn guest(&self) -> Guest {
        let (text, traps) = (self.inner.module.text(), self.inner.module.trap_bytes());
        let slot = self.slot.ranges(&self.inner.region);
        let range = |range: core::ops::Range<usize>| [range.start, range.end];
        Guest {
            text: range(text),
            traps: [traps.as_ptr() as usize, traps.len()],
            memory: range(slot.memory),
            shared: ptr::null(),
            stack_guard: range(slot.stack_guard),
            stack: range(slot.stack),
            next: LAST,
        }
    }

    /// Writes the part that guests change: globals, descriptors, segments.
    fn write_state(&self) {
        let (plan, vmctx) = (&self.inner.plan, self.vmctx());
        let (layout, slot) = (self.inner.module.layout(), &self.slot);
        let state = self.cell::<u8>(layout.state());
        // SAFETY: the state lies in the layout's area, which the slot holds, see `check_limits`.
        // The slot is exclusively ours, and its guest does not run.
        unsafe { ptr::copy_nonoverlapping(plan.state.as_ptr(), state, plan.state.len()) };
        for (at, delta) in &plan.relative {
            let cell = Constant::Relative(*delta).at(vmctx);
            // SAFETY: `at` is the offset of a whole cell within the state that was just copied.
            unsafe { state.add(*at).cast::<Cell>().write(cell) };
        }
        for (n, (cell, elements)) in (0..).zip(&plan.table_cells) {
            let desc = TableDesc {
                base: slot.table(&self.inner.region, n) as u64,
                elements: *elements,
            };
            // SAFETY: the cell is in the layout's area, which the slot holds, see `check_limits`.
            // The slot is exclusively ours, and its guest does not run.
            unsafe { self.cell::<TableDesc>(*cell).write(desc) };
        }
        if plan.shares_memory {
            self.write_shared(layout);
        }
        let memory = |number, bytes| MemoryDesc {
            base: slot.memory(&self.inner.region, number) as u64,
            bytes,
        };
        for (number, (cell, bytes)) in (1..).zip(&plan.memory_cells) {
            // SAFETY: the cell is in the layout's area, which the slot holds, see `check_limits`.
            // The slot is exclusively ours, and its guest does not run.
            unsafe { self.cell::<MemoryDesc>(*cell).write(memory(number, *bytes)) };
        }
        let nothing = MemoryDesc { base: 0, bytes: 0 };
        let first = plan.memory_bytes.map_or(nothing, |bytes| memory(0, bytes));
        // SAFETY: the context lies in the instance area of a slot that is exclusively ours.
        // `write_constants` wrote the record when the slot got the module.
        unsafe {
            self.cell::<MemoryDesc>(CONTEXT_MEMORY).write(first);
            let record = &mut *Record::of(vmctx);
            record.stamp = 0;
            record.account_state = AccountState::Stale;
            self.cell::<[u64; 2]>(CONTEXT_EXCEPTION_TAG).write([0; 2]);
            // The heap starts empty: none of its addresses is accessible yet.
            let heap = plan
                .heap
                .map(|number| slot.memory(&self.inner.region, number));
            let heap = heap.map_or(0, |heap| heap as u64);
            self.cell::<[u64; 2]>(CONTEXT_HEAP_NEXT).write([heap; 2]);
            // A slot stays warm for a module, but the module may have been prepared with another
            // linker.
            record.hosts = self.inner.hosts.entries();
            fuel::start(vmctx, plan.counts_fuel);
        }
    }

    /// Writes the addresses of the imported shared memories. A warm slot may hold those of another
    /// instance of the module.
    fn write_shared(&self, layout: &InstanceLayout) {
        let shared = self.shared_imports();
        for (index, memory) in shared.iter() {
            let cell = self.cell::<u64>(layout.memory(index));
            // SAFETY: the cell is in the layout's area, which the slot holds, see `check_limits`.
            // The slot is exclusively ours, and its guest does not run.
            unsafe { cell.write(memory.desc() as u64) };
        }
        // SAFETY: `write_constants` wrote the record when the slot got the module, and the guest
        // does not run.
        unsafe { shared.enter(Record::of(self.vmctx())) };
    }

    /// Writes all elements of the tables that the module defines. An empty table also gets its
    /// first element.
    ///
    /// Under a branch misprediction, generated code reads the first element in place of an index
    /// past the end (`translate/table.rs`).
    fn write_tables(&self) {
        let plan = &self.inner.plan;
        for (n, ((_, min), elements)) in (0..).zip(plan.table_cells.iter().zip(&plan.tables)) {
            // SAFETY: each table of the slot has room for `min` elements, see `check_limits`, and
            // always for one. The slot is exclusively ours.
            let table = unsafe {
                let first = self.slot.table(&self.inner.region, n);
                slice::from_raw_parts_mut(first, (*min).max(1) as usize)
            };
            let (first, rest) = table.split_at_mut(elements.first.len());
            for (to, element) in first.iter_mut().zip(&elements.first) {
                *to = element.at(self.vmctx()).u64();
            }
            let is_made = *min > 0 && plan.made_tables.contains(&n);
            // `heap::make` writes every element that is left out here.
            if !is_made && !plan.filled_tables.contains(&n) {
                rest.fill(elements.rest.at(self.vmctx()).u64());
            }
        }
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
        let position = metadata.escaped_position(index)?;
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
        let position = module.metadata().escaped_position(index)?;
        // SAFETY: `write_constants` wrote the function references when the slot got the module.
        let reference = unsafe { *self.cell::<FuncRef>(module.layout().funcref(position)) };
        Some((self.target(index)?, reference.type_id))
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

/// Runs the rest of the start of member `at`: dynamic segments, then the start function (spec
/// 4.5.4, steps 14 to 17).
///
/// # Errors
///
/// The trap of a segment that does not fit, or the error of the start function.
pub(crate) fn start<T>(
    members: &mut [Member<T>],
    at: usize,
    data: &mut T,
) -> Result<(), CallError> {
    if !members[at].inner.starts() {
        return Ok(());
    }
    let inner = Arc::clone(&members[at].inner);
    let start = inner.module.metadata().start;
    exit::run_prepared(members, at, data, |members, data, watched| {
        if inner.plan.is_made {
            heap::make(members, at, data, watched)?;
        }
        if inner.plan.has_dynamic_segments {
            write_segments(members, at, watched)?;
        }
        // The start function is always in the list of functions that can be referenced.
        Ok(start.map(|start| members[at].target(start)))
    })
}

/// Writes the segments that depend on the imports and sizes of this instance.
fn write_segments<T>(
    members: &mut [Member<T>],
    at: usize,
    watched: Option<&Watched>,
) -> Result<(), Halt> {
    let inner = Arc::clone(&members[at].inner);
    let metadata = inner.module.metadata();
    let elements = metadata.elements.iter().enumerate();
    for (segment, element) in elements.skip(inner.plan.first_dynamic_element) {
        if let SegmentMode::Active { index, offset } = &element.mode {
            let address = metadata.tables[*index as usize].address;
            let start = builtin::offset(&members[at], offset, address);
            let len = element.items.len() as u64;
            let mut bulk =
                builtin::write_elements(&members[at], *index, segment as u32, start, 0, len)?;
            bulk.run(&members[at], watched)?;
            look(watched)?;
        }
    }
    for (number, segment) in (0..).zip(&metadata.data) {
        if let SegmentMode::Active { index, offset } = &segment.mode {
            let address = metadata.memory_address(*index);
            let start = builtin::offset(&members[at], offset, address);
            let bytes = builtin::data(&members[at], number);
            let mut bulk = builtin::write_data(&members[at], *index, bytes, start)?;
            bulk.run(&members[at], watched)?;
            look(watched)?;
        }
    }
    Ok(())
}

/// Access for the host while the guest does not run.
impl<T> Member<T> {
    /// The instance id that function references carry. It is created now if it is `needed` and
    /// there is none.
    pub(crate) fn stamp(&mut self, needed: bool) -> Stamp {
        if !needed {
            return Stamp(0);
        }
        // SAFETY: `vmctx` is an initialised context, and its guest does not run.
        unsafe { Record::stamp(self.vmctx()) }
    }

    /// The type number of the object that `reference` refers to. `None` if that object has no type,
    /// or if it belongs to another instance or group.
    pub(crate) fn type_of(&mut self, reference: Value) -> Option<u32> {
        let stamp = self.stamp(true);
        let cell = Cell::from_value(reference, stamp).ok()?;
        match reference {
            // SAFETY: `from_value` checked the id: this instance or another one of its group made
            // the reference. Its target was written earlier and stays as long as they do.
            Value::FuncRef(Some(_)) => Some(unsafe { (*(cell.u64() as *const FuncRef)).type_id }),
            Value::AnyRef(Some(any)) => {
                let header = any.header()?;
                // SAFETY: `from_value` checked that the reference belongs here, and an object
                // header begins with the type id.
                Some(unsafe { *(header as *const u32) })
            }
            _ => None,
        }
    }

    /// The value of global `index`.
    pub(crate) fn global(&mut self, index: u32) -> Value {
        let ty = self.inner.module.metadata().globals[index as usize].content;
        let stamp = self.stamp(true);
        // SAFETY: the cell belongs to a global of an initialised instance, and the guest does not
        // run.
        unsafe { *self.global_cell(index) }.value(ty, stamp)
    }

    /// Memory 0; empty if there is none.
    pub(crate) fn memory(&self) -> Memory<'_> {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run. Views that can
        // change the memory borrow the instance or the group mutably.
        unsafe { view::view(self.vmctx()) }
    }

    /// Memory 0, mutable.
    pub(crate) fn memory_mut(&mut self) -> MemoryMut<'_> {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run. The view borrows
        // the instance mutably.
        unsafe { view::view_mut(self.vmctx()) }
    }

    /// The exported memory with a name.
    pub(crate) fn exported_memory(&self, name: &str) -> Option<Memory<'_>> {
        let desc = self.memory_export(name)?;
        // SAFETY: the descriptor belongs to this initialised instance, whose guest does not run.
        // Views that can change the memory borrow the instance or the group mutably.
        Some(unsafe { view::view_of(desc) })
    }

    /// The exported memory with a name, mutable.
    pub(crate) fn exported_memory_mut(&mut self, name: &str) -> Option<MemoryMut<'_>> {
        let desc = self.memory_export(name)?;
        // SAFETY: the descriptor belongs to this initialised instance, whose guest does not run.
        // The view borrows the instance mutably.
        Some(unsafe { view::view_mut_of(desc) })
    }

    /// The descriptor of the exported memory with a name.
    fn memory_export(&self, name: &str) -> Option<*const MemoryDesc> {
        match self.inner.module.metadata().export(name)? {
            // A shared memory of the host has no view, because other instances write to it.
            ExportItem::Memory(index) if self.shared(index).is_some() => None,
            ExportItem::Memory(index) => Some(builtin::memory(self, index)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Instance, Linker, Module, Region, Reset};
    use pirn_compiler::{Options, compile, parse_text};

    fn instance(region: &Region, text: &str) -> Instance<()> {
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        let so = compile(&wasm, &Options::default()).expect("the module compiles");
        let module = Module::from_bytes(&so).expect("the module opens");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        prepared.try_instantiate(()).expect("the slot is free")
    }

    /// Masked indices read this element after a branch misprediction, whatever the table contains.
    #[test]
    fn the_first_element_of_an_empty_table_is_null() {
        const FULL: &str =
            "(module (table 3 funcref) (elem (i32.const 0) func $f $f $f) (func $f))";
        for empty in [
            "(module (table 0 funcref))",
            "(module (table 0 5 funcref) (func (export \"grow\") (drop (table.grow (ref.null func) (i32.const 1)))))",
        ] {
            for reset in Reset::ALL {
                let region = Region::builder().slots(1).reset(reset).build();
                let Ok(region) = region else { continue };
                let first = |instance: &Instance<()>| {
                    let member = &instance.member;
                    let element = member.slot.table(&member.inner.region, 0);
                    // SAFETY: the region has room for at least one element of each table.
                    unsafe { element.read() }
                };
                for _ in 0..2 {
                    let full = instance(&region, FULL);
                    assert_ne!(first(&full), 0, "{reset:?}");
                    drop(full);
                    assert_eq!(first(&instance(&region, empty)), 0, "{empty} {reset:?}");
                }
            }
        }
    }

    /// A region whose tables may not have elements.
    #[test]
    fn tables_without_room_are_empty() {
        let region = Region::builder().slots(1).table_elements(0).build();
        let region = region.expect("a region");
        let mut guest = instance(
            &region,
            "(module (table 0 funcref) (func (export \"size\") (result i32) (table.size 0)))",
        );
        let size = guest.call_values("size", &[]).expect("it runs");
        assert_eq!(format!("{size:?}"), "[I32(0)]");
    }
}
