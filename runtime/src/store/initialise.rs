//! The instance area of a new instance, as it is written before the guest runs.
//!
//! # Safety
//!
//! This file owns the contents of the instance area of a slot in use. The file writes every cell
//! before the guest runs, at the offsets of [`pirn_format::layout`]. Every address that the file
//! writes belongs to an object that lives at least as long as the instance.
#![allow(unsafe_code)]

use super::constant::Constant;
use super::fuel;
use super::imports::LinkedFunc;
use super::member::Member;
use crate::module::types;
use crate::switch::activation::LAST;
use crate::switch::{
    AccountState, Guest, HostEntry, Record, copy_routine, exit_routine, fill_routine, floats,
    host_call_routine,
};
use crate::value::Cell;
use core::{ptr, slice};
use pirn_format::layout::InstanceLayout;
use pirn_format::layout::{
    CONTEXT_ACTIVATION, CONTEXT_COPY, CONTEXT_EXCEPTION_TAG, CONTEXT_EXIT, CONTEXT_FILL,
    CONTEXT_HEAP_NEXT, CONTEXT_HOST_CALL, CONTEXT_MEMORY, CONTEXT_TYPE_ROWS, FuncImport, FuncRef,
    MemoryDesc, TableDesc,
};

/// Descriptor of memory 0 if memory 0 is a shared memory of the host, which has no views.
static NOTHING: MemoryDesc = MemoryDesc { base: 0, bytes: 0 };

impl<T> Member<T> {
    /// Writes the whole instance area, in the state before any segment is written dynamically.
    pub(crate) fn initialise(&mut self, member: usize) {
        // As a rule, the instance first runs on this thread, so inspect the thread's float control
        // now.
        floats::look();
        // The slot is not warm while the area is written, because a failure below leaves the area
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
        self.write_references();
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
            self.cell::<u64>(CONTEXT_COPY).write(copy_routine());
            self.cell::<u64>(CONTEXT_FILL).write(fill_routine());
            self.cell::<u64>(CONTEXT_TYPE_ROWS).write(types::rows());
        }
    }

    /// Writes the function references of the functions to which guests may have references.
    fn write_references(&self) {
        let (module, vmctx) = (&self.inner.module, self.vmctx());
        let (metadata, layout) = (module.metadata(), module.layout());
        for (position, func) in metadata.address_taken.iter().enumerate() {
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
    /// memory of the host, this is the address of an empty descriptor.
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
            *record.instance_id.get_mut() = 0;
            record.account_state = AccountState::Stale;
            record.has_failed = false;
            self.cell::<[u64; 2]>(CONTEXT_EXCEPTION_TAG).write([0; 2]);
            // The heap starts empty: no address of the heap is accessible yet.
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

    /// Writes the addresses of the imported shared memories. A warm slot may hold the addresses
    /// that another instance of the module imported.
    fn write_shared(&self, layout: &InstanceLayout) {
        let shared = self.shared_imports();
        for (index, memory) in shared.iter() {
            let cell = self.cell::<u64>(layout.memory(index));
            // SAFETY: the cell is in the layout's area, which the slot holds, see `check_limits`.
            // The slot is exclusively ours, and its guest does not run.
            unsafe { cell.write(memory.desc() as u64) };
            if index == 0 {
                // SAFETY: `write_constants` wrote the record when the slot got the module, and the
                // guest does not run. The record keeps the shared memories alive, see `enter`.
                unsafe { (*Record::of(self.vmctx())).bulk_memory = memory.desc() as u64 };
            }
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
            // always for one element. The slot is exclusively ours.
            let table = unsafe {
                let first = self.slot.table(&self.inner.region, n);
                slice::from_raw_parts_mut(first, (*min).max(1) as usize)
            };
            let (first, rest) = table.split_at_mut(elements.first.len());
            for (to, element) in first.iter_mut().zip(&elements.first) {
                *to = element.at(self.vmctx()).u64();
            }
            let is_made = *min > 0 && plan.made_tables.contains(&n);
            // `call::make` writes every element that this function leaves out.
            if !is_made && !plan.filled_tables.contains(&n) {
                rest.fill(elements.rest.at(self.vmctx()).u64());
            }
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

    /// Masked indices read the first element after a branch misprediction, whatever the table
    /// contains.
    #[test]
    fn the_first_element_of_an_empty_table_is_null() {
        const FULL: &str =
            "(module (table 3 funcref) (elem (i32.const 0) func $f $f $f) (func $f))";
        for empty in [
            "(module (table 0 funcref))",
            "(module (table 0 5 funcref)
               (func (export \"grow\") (drop (table.grow (ref.null func) (i32.const 1)))))",
        ] {
            for reset in Reset::ALL {
                let region = Region::builder().slots(1).reset(reset).build();
                let Ok(region) = region else { continue };
                let first = |instance: &Instance<()>| {
                    let member = &instance.owner.member;
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
