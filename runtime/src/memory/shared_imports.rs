//! [`SharedImports`]: the shared memories of the host that an instance imports.
//!
//! # Safety
//!
//! Owns the type of [`Record::shared_memories`]: the field is null, or the address of a
//! [`SharedImports`].
#![allow(unsafe_code)]

use super::shared::SharedMemory;
use crate::switch::Record;

/// The shared host memories that an instance imports, by index. `None` if another instance defines
/// the memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedImports {
    memories: Vec<Option<SharedMemory>>,
    /// The address ranges of the host's memories, for the signal handler.
    ranges: Vec<[usize; 2]>,
}

impl SharedImports {
    /// Adds the next imported memory, or `None` for a memory of another instance.
    pub(crate) fn push(&mut self, memory: Option<&SharedMemory>) {
        self.memories.push(memory.cloned());
        self.set_ranges();
    }

    /// Replaces the memory at an index.
    pub(crate) fn replace(&mut self, index: usize, memory: &SharedMemory) {
        self.memories[index] = Some(memory.clone());
        self.set_ranges();
    }

    fn set_ranges(&mut self) {
        let ranges = self.iter().map(|(_, memory)| memory.reach()).collect();
        self.ranges = ranges;
    }

    /// The memory at an index, if the host shares that memory.
    pub(crate) fn get(&self, index: u32) -> Option<&SharedMemory> {
        self.memories.get(index as usize)?.as_ref()
    }

    /// The host's memories, with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &SharedMemory)> {
        let all = (0..).zip(&self.memories);
        all.filter_map(|(index, memory)| Some((index, memory.as_ref()?)))
    }

    /// Enters the memories into the record of an instance.
    ///
    /// # Safety
    ///
    /// The record must belong to an instance whose guest does not run. `self` must stay in place
    /// and unchanged as long as the instance lives.
    pub(crate) unsafe fn enter(&self, record: *mut Record) {
        // SAFETY: the caller ensures that the record is valid and that no guest uses it.
        unsafe {
            (*record).guest.shared = &raw const self.ranges;
            (*record).shared_memories = core::ptr::from_ref(self).cast();
        }
    }

    /// The shared memories of the host that the instance with this context imports.
    ///
    /// # Safety
    ///
    /// `vmctx` must be the context of an initialised instance that lives for `'a`.
    pub(crate) unsafe fn of<'a>(vmctx: *mut u8) -> Option<&'a Self> {
        // SAFETY: only `enter` writes the field, and its caller ensured that the value lives as
        // long as the instance. Otherwise the field is null.
        unsafe { (*Record::of(vmctx)).shared_memories.cast::<Self>().as_ref() }
    }
}
