//! The host's access to the state of an instance while the guest does not run.
//!
//! # Safety
//!
//! This file owns one fact. A view or a value of an instance is made only of descriptors and cells
//! of an initialised instance, whose guest does not run while the view lives.
#![allow(unsafe_code)]

use super::descriptors;
use super::member::Member;
use crate::memory::{Memory, MemoryMut, view};
use crate::switch::Record;
use crate::value::{Cell, InstanceId, Value};
use core::slice;
use pirn_format::layout::{FuncRef, MemoryDesc};
use pirn_format::metadata::ExportItem;

/// Access for the host while the guest does not run.
impl<T> Member<T> {
    /// The instance id that function references carry. If the id is `needed` and does not exist, it
    /// is created now.
    pub(crate) fn instance_id(&self, needed: bool) -> InstanceId {
        if !needed {
            return InstanceId(0);
        }
        // SAFETY: `vmctx` is an initialised context, and its guest does not run.
        unsafe { Record::instance_id(self.vmctx()) }
    }

    /// The type number of the object that `reference` refers to. `None` if that object has no type,
    /// or if it belongs to another instance or group.
    pub(crate) fn type_of(&self, reference: Value) -> Option<u32> {
        let instance_id = self.instance_id(true);
        let cell = Cell::from_value(reference, instance_id).ok()?;
        match reference {
            // SAFETY: `from_value` checked the id: this instance or another instance of its group
            // made the reference. The reference's target was written before, and lives as long as
            // these instances.
            Value::FuncRef(Some(_)) => Some(unsafe { (*(cell.u64() as *const FuncRef)).type_id }),
            Value::AnyRef(Some(any)) => {
                let header = any.header()?;
                // SAFETY: `from_value` checked that the reference belongs to this instance or its
                // group. An object header begins with the type id.
                Some(unsafe { *(header as *const u32) })
            }
            _ => None,
        }
    }

    /// The value of global `index`.
    pub(crate) fn global(&self, index: u32) -> Value {
        let ty = self.inner.module.metadata().globals[index as usize].content;
        let instance_id = self.instance_id(true);
        // SAFETY: the cell belongs to a global of an initialised instance, and the guest does not
        // run. Every change of the global borrows the instance or the group mutably.
        unsafe { *self.global_cell(index) }.value(ty, instance_id)
    }

    /// The elements of table `index`.
    pub(crate) fn elements(&self, index: u32) -> &[u64] {
        let desc = descriptors::table(self, index);
        // SAFETY: the descriptor belongs to a table of an initialised instance, or to the table's
        // owner. All elements were written when that instance started. The guest does not run, and
        // every change of the table borrows the instance or the group mutably.
        unsafe { slice::from_raw_parts((*desc).base as *const u64, (*desc).elements as usize) }
    }

    /// Memory 0. The view is empty if there is no memory 0.
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
    pub(crate) fn memory_export(&self, name: &str) -> Option<*const MemoryDesc> {
        match self.inner.module.export(name)? {
            // A shared memory of the host has no view, because other instances write to it.
            ExportItem::Memory(index) if self.shared(index).is_some() => None,
            ExportItem::Memory(index) => Some(descriptors::memory(self, index)),
            _ => None,
        }
    }
}
