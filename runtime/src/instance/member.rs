//! [`Member`]: one instance in its slot, without the host's data: made, and called into.
//!
//! # Safety
//!
//! Owns the contents of the instance area of a taken slot: every cell is written here before the
//! guest runs, at the offsets of [`pirn_format::layout`], with addresses of things that live at least
//! as long as the instance.
#![allow(unsafe_code)]

use super::bulk::{Bulk, Halt, look};
use super::constant::Constant;
use super::exception::Exceptions;
use super::heap::{self, Made};
use super::imports::{Hosts, Imports, LinkedFunc};
use super::memory::{self, Memory, MemoryMut};
use super::plan::Plan;
use super::{builtin, exit, fuel};
use crate::account::{Account, Clocks};
use crate::error::{CallError, LinkError};
use crate::host::Store;
use crate::host::limiter::Limiter;
use crate::host::linker::Linker;
use crate::module::{Module, types};
use crate::region::{Region, Slot};
use crate::shared::wait::{Patience, Waiting};
use crate::shared::{SharedImports, SharedMemory};
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

/// A module made ready for a region: everything that its instances have in common.
#[derive(Debug)]
pub(crate) struct Inner<T> {
    /// Names this preparation: no other of the process has it.
    pub(crate) id: Stamp,
    pub(crate) module: Module,
    pub(crate) region: Region,
    pub(crate) hosts: Hosts<T>,
    pub(crate) limiter: Limiter<T>,
    pub(crate) imports: Imports,
    pub(crate) plan: Plan,
}

impl<T, Q, A> Inner<Store<T, Q, A>> {
    /// Prepares a module whose imports the linker has.
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
    /// Whether making an instance runs, or writes, anything that a call's limits are of.
    #[inline]
    pub(crate) fn starts(&self) -> bool {
        self.plan.prepares || self.module.metadata().start.is_some()
    }

    /// Prepares a module whose imports are resolved.
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

/// A share in a preparation, of which each thread has its own as long as there are no more threads than
/// processors: instances count themselves in and out there, and threads that make instances of one
/// preparation do not write to the same cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Share<T>(Arc<Inner<T>>);

impl<T> Share<T> {
    /// Some shares in a preparation, by the numbers of threads modulo their number.
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
    /// Whether and by what it may be stopped.
    pub(crate) watch: Option<Watch>,
    /// The exceptions of its store, if there were any: of a group the first member has them.
    pub(crate) exceptions: Option<Box<Exceptions>>,
    /// What it starts with that only it has.
    pub(crate) made: Made,
    /// Its shared memories of the host's, if they are not those that its preparation was linked to.
    memories: Option<Arc<SharedImports>>,
    /// Which clocks are read for its calls.
    pub(crate) clocks: Clocks,
    /// How long its guest may keep the thread by waiting.
    pub(crate) patience: Patience,
    // The next two are on the heap: an instance rarely has either, and is moved when it is made. To
    // move one of more than 256 bytes takes 10 ns longer (bench `cycle`, null).
    /// What its guest waits for that was left so.
    pub(crate) waiting: Option<Box<Waiting>>,
    /// What a builtin of its suspended call still has to write.
    pub(crate) bulk: Option<Box<Bulk>>,
}

/// Memory 0 where it is one that no view is of: a shared memory of the host's.
static NOTHING: MemoryDesc = MemoryDesc { base: 0, bytes: 0 };

impl<T> Drop for Member<T> {
    fn drop(&mut self) {
        self.waiting = None;
        // Whoever has the slot next has its control.
        self.watch = None;
        // SAFETY: nothing uses a member's slot after its drop.
        unsafe { self.slot.give_back(&self.inner.region, &self.inner.module) };
    }
}

/// What to call: a function's code, the entry trampoline of its type, and its context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) code: usize,
    pub(crate) entry: usize,
    pub(crate) vmctx: *mut u8,
}

impl<T> Member<T> {
    /// An instance that is to be initialised, with shared memories in place of those that its preparation has, if given.
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

    /// Its shared memories of the host's.
    fn shared_imports(&self) -> &SharedImports {
        let linked = &self.inner.imports.shared;
        self.memories.as_deref().unwrap_or(linked)
    }

    /// The memory of an index, if it is a shared one of the host's.
    pub(crate) fn shared(&self, index: u32) -> Option<&SharedMemory> {
        self.shared_imports().get(index)
    }

    /// The exported memory of a name, if it is a shared one of the host's.
    pub(crate) fn exported_shared(&self, name: &str) -> Option<&SharedMemory> {
        match self.inner.module.metadata().export(name)? {
            ExportItem::Memory(index) => self.shared(index),
            _ => None,
        }
    }

    /// By what it is stopped from now on.
    pub(crate) fn watch(&mut self) -> &mut Watch {
        let slot = &mut self.slot;
        self.watch.get_or_insert_with(|| Watch::new(slot.control()))
    }

    /// The context.
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.slot.vmctx()
    }

    /// The account of the instance, or of its group, opened.
    pub(crate) fn account(&self) -> &Account {
        // SAFETY: an initialised context, whose guest does not run; the member keeps its region.
        unsafe { Record::account(self.vmctx()) }
    }

    /// Bytes of host memory that are held for the instance or its group.
    pub(crate) fn host_bytes(&self) -> usize {
        // SAFETY: as in `account`.
        let account = unsafe { Record::open_account(self.vmctx()) };
        account.map_or(0, Account::host_bytes)
    }

    /// Address of the cell at an offset from the context.
    pub(crate) fn cell<C>(&self, offset: i32) -> *mut C {
        self.vmctx().wrapping_offset(offset as isize).cast()
    }

    /// Writes the whole instance area as it is before any segment was written dynamically.
    pub(crate) fn initialise(&mut self, member: usize) {
        // It begins to run here, as a rule.
        floats::look();
        // What is written now is not to be believed if anything below is left half done.
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

    /// The part that stays while the slot keeps the module.
    fn write_constants(&self, member: usize) {
        let (module, vmctx) = (&self.inner.module, self.vmctx());
        let (metadata, layout) = (module.metadata(), module.layout());
        for index in 0..self.inner.imports.funcs.len() as u32 {
            let import = self.import(index);
            // SAFETY: the offsets are the layout's, whose area the slot holds, see `check_limits`;
            // the slot is ours alone and its guest does not run.
            unsafe { self.cell::<FuncImport>(layout.import(index)).write(import) };
        }
        for (index, id) in module.type_ids().iter().enumerate() {
            // SAFETY: as above.
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
            // SAFETY: as above.
            unsafe {
                self.cell::<FuncRef>(layout.funcref(position as u32))
                    .write(reference);
            };
        }
        for index in 0..metadata.tags.len() as u32 {
            let cell = self.cell::<u64>(layout.tag(index));
            let imported = self.inner.imports.tags.get(index as usize).copied();
            // SAFETY: as above.
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
        // SAFETY: the context lies in the instance area, and the record in the context.
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

    /// What generated code must know of the imported function of an index.
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

    /// Address of the descriptor of a memory, which may be another instance's; of no memory if it
    /// is the host's, and shared.
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

    /// What the signal handler must know.
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

    /// The part that guests change: globals, descriptors, segments.
    fn write_state(&self) {
        let (plan, vmctx) = (&self.inner.plan, self.vmctx());
        let (layout, slot) = (self.inner.module.layout(), &self.slot);
        let state = self.cell::<u8>(layout.state());
        // SAFETY: (all writes here) as in `write_constants`.
        unsafe { ptr::copy_nonoverlapping(plan.state.as_ptr(), state, plan.state.len()) };
        for (at, delta) in &plan.relative {
            let cell = Constant::Relative(*delta).at(vmctx);
            // SAFETY: `at` is an offset in the state, of a whole cell.
            unsafe { state.add(*at).cast::<Cell>().write(cell) };
        }
        for (n, (cell, elements)) in (0..).zip(&plan.table_cells) {
            let desc = TableDesc {
                base: slot.table(&self.inner.region, n) as u64,
                elements: *elements,
            };
            // SAFETY: as above.
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
            // SAFETY: as above.
            unsafe { self.cell::<MemoryDesc>(*cell).write(memory(number, *bytes)) };
        }
        let nothing = MemoryDesc { base: 0, bytes: 0 };
        let first = plan.memory_bytes.map_or(nothing, |bytes| memory(0, bytes));
        // SAFETY: as above; the record was written when the slot got the module.
        unsafe {
            self.cell::<MemoryDesc>(CONTEXT_MEMORY).write(first);
            let record = &mut *Record::of(vmctx);
            record.stamp = 0;
            record.account_state = AccountState::Stale;
            self.cell::<[u64; 2]>(CONTEXT_EXCEPTION_TAG).write([0; 2]);
            // Nothing is accessible there yet.
            let heap = plan
                .heap
                .map(|number| slot.memory(&self.inner.region, number));
            let heap = heap.map_or(0, |heap| heap as u64);
            self.cell::<[u64; 2]>(CONTEXT_HEAP_NEXT).write([heap; 2]);
            // Slots are warm for a module, which may have been prepared with another linker.
            record.hosts = self.inner.hosts.entries();
            fuel::start(vmctx, plan.counts_fuel);
        }
    }

    /// Which shared memories of the host's it imports: slots are warm for a module, whichever it had.
    fn write_shared(&self, layout: &InstanceLayout) {
        let shared = self.shared_imports();
        for (index, memory) in shared.iter() {
            let cell = self.cell::<u64>(layout.memory(index));
            // SAFETY: as in `write_constants`.
            unsafe { cell.write(memory.desc() as u64) };
        }
        // SAFETY: as in `write_state`.
        unsafe { (*Record::of(self.vmctx())).guest.shared = shared };
    }

    /// All elements of the tables that the module defines, and of each that has none the first:
    /// that is what generated code reads where it takes an index past the end for one before it (`translate/table.rs`).
    fn write_tables(&self) {
        let plan = &self.inner.plan;
        for (n, ((_, min), elements)) in (0..).zip(plan.table_cells.iter().zip(&plan.tables)) {
            // SAFETY: the slot's tables hold `min` elements each, see `check_limits`, and one in any case; they are ours.
            let table = unsafe {
                let first = self.slot.table(&self.inner.region, n);
                slice::from_raw_parts_mut(first, (*min).max(1) as usize)
            };
            let (first, rest) = table.split_at_mut(elements.first.len());
            for (to, element) in first.iter_mut().zip(&elements.first) {
                *to = element.at(self.vmctx()).u64();
            }
            let is_made = *min > 0 && plan.made_tables.contains(&n);
            // `heap::make` writes all that is left out here.
            if !is_made && !plan.filled_tables.contains(&n) {
                rest.fill(elements.rest.at(self.vmctx()).u64());
            }
        }
    }

    /// Cells at the top of the stack for a call with as many of them.
    ///
    /// The slice is dead once the guest runs: take it again for the results.
    pub(crate) fn cells(&mut self, count: usize) -> &mut [Cell] {
        let cells = self.cells_address(count) as *mut Cell;
        // SAFETY: the stack is ours and nothing runs on it; `check_limits` saw that the cells of any
        // function of the module fit; any bytes are a valid cell.
        unsafe { slice::from_raw_parts_mut(cells, count) }
    }

    /// Where those cells lie: also the end of the stack that is left for the guest.
    pub(crate) fn cells_address(&self, count: usize) -> usize {
        (self.slot.stack_end() - count * size_of::<Cell>()) & !15
    }

    /// What calling function `index` of this instance takes, if it can be called from outside.
    pub(crate) fn target(&self, index: u32) -> Option<Target> {
        let module = &self.inner.module;
        let metadata = module.metadata();
        let position = metadata.escaped_position(index)?;
        let ty = metadata.funcs[index as usize];
        // SAFETY: the function references were written when the slot got the module.
        let reference = unsafe { *self.cell::<FuncRef>(module.layout().funcref(position)) };
        Some(Target {
            code: reference.code as usize,
            entry: module.code(metadata.entries[ty as usize]?),
            vmctx: reference.vmctx as *mut u8,
        })
    }

    /// What calling function `index` takes, and the id of its type, which may be a subtype of what this instance imports.
    pub(crate) fn linked(&self, index: u32) -> Option<(Target, u32)> {
        let module = &self.inner.module;
        let position = module.metadata().escaped_position(index)?;
        // SAFETY: the function references were written when the slot got the module.
        let reference = unsafe { *self.cell::<FuncRef>(module.layout().funcref(position)) };
        Some((self.target(index)?, reference.type_id))
    }

    /// The exported function of a name: its index.
    pub(crate) fn exported_func(&self, name: &str) -> Option<u32> {
        match self.inner.module.metadata().export(name)? {
            ExportItem::Func(index) => Some(index),
            _ => None,
        }
    }

    /// Address of the cell with the value of global `index`.
    pub(crate) fn global_cell(&self, index: u32) -> *mut Cell {
        let (metadata, layout) = (self.inner.module.metadata(), self.inner.module.layout());
        let cell = self.cell::<Cell>(layout.global(index));
        let elsewhere = index < self.inner.module.imported().globals
            && metadata.globals[index as usize].mutable;
        if !elsewhere {
            return cell;
        }
        // SAFETY: the cell of an imported mutable global holds the address of the owner's.
        unsafe { *cell.cast::<*mut Cell>() }
    }
}

/// Runs what is left of the start of member `at`: dynamic segments, then the start function (spec
/// 4.5.4, steps 14 to 17).
///
/// # Errors
///
/// The trap of a segment that does not fit, or what ended the start function.
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
        // The start function is in the list of functions that can be referred to.
        Ok(start.map(|start| members[at].target(start)))
    })
}

/// Writes the segments that only this instance's imports and sizes decide.
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

/// What the host sees while the guest does not run.
impl<T> Member<T> {
    /// The stamp of its function references, made now if it is `needed` and there is none.
    pub(crate) fn stamp(&mut self, needed: bool) -> Stamp {
        if !needed {
            return Stamp(0);
        }
        // SAFETY: an initialised context; the guest does not run.
        unsafe { memory::stamp_of(self.vmctx()) }
    }

    /// The number of the type of what a reference is to; `None` if that has none, or it is not of this instance or its group.
    pub(crate) fn type_of(&mut self, reference: Value) -> Option<u32> {
        let stamp = self.stamp(true);
        let cell = Cell::from_value(reference, stamp).ok()?;
        match reference {
            // SAFETY: the stamp says that this instance, or another one of its group, gave the reference; what it is to
            // was written before, and stays as long as they do.
            Value::FuncRef(Some(_)) => Some(unsafe { (*(cell.u64() as *const FuncRef)).type_id }),
            Value::AnyRef(Some(any)) => {
                let header = any.header()?;
                // SAFETY: as above; a header begins with the id.
                Some(unsafe { *(header as *const u32) })
            }
            _ => None,
        }
    }

    /// The value of global `index`.
    pub(crate) fn global(&mut self, index: u32) -> Value {
        let ty = self.inner.module.metadata().globals[index as usize].content;
        let stamp = self.stamp(true);
        // SAFETY: the cell of a global of an initialised instance; the guest does not run.
        unsafe { *self.global_cell(index) }.value(ty, stamp)
    }

    /// Memory 0; of no byte if there is none.
    pub(crate) fn memory(&self) -> Memory<'_> {
        // SAFETY: an initialised context; the guest does not run, and views that change the memory
        // borrow the instance or the group mutably.
        unsafe { memory::view(self.vmctx()) }
    }

    /// Memory 0, to be changed.
    pub(crate) fn memory_mut(&mut self) -> MemoryMut<'_> {
        // SAFETY: as in `memory`.
        unsafe { memory::view_mut(self.vmctx()) }
    }

    /// The exported memory of a name.
    pub(crate) fn exported_memory(&self, name: &str) -> Option<Memory<'_>> {
        let desc = self.memory_export(name)?;
        // SAFETY: as in `memory`; a descriptor of this instance's.
        Some(unsafe { memory::view_of(desc) })
    }

    /// The exported memory of a name, to be changed.
    pub(crate) fn exported_memory_mut(&mut self, name: &str) -> Option<MemoryMut<'_>> {
        let desc = self.memory_export(name)?;
        // SAFETY: as in `memory`; a descriptor of this instance's.
        Some(unsafe { memory::view_mut_of(desc) })
    }

    /// The descriptor of the exported memory of a name.
    fn memory_export(&self, name: &str) -> Option<*const MemoryDesc> {
        match self.inner.module.metadata().export(name)? {
            // Of a shared one of the host's there is no view: others write to it.
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

    /// Masked indices read it under a wrong prediction, whatever the table has.
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
                    // SAFETY: the region has room for elements of each table.
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

    /// Where no table may have an element.
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
