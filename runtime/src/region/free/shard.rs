//! [`Shard`]: the free slots that one thread looks at first.

use super::front::Front;
use super::sync::Mutex;
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

/// Identifies a module. No two modules of a process have equal ids.
pub(crate) type ModuleId = u64;

/// A part of the list.
#[derive(Debug)]
pub(super) struct Shard<S> {
    pub(super) front: Front<FreeSlot<S>>,
    pub(super) stacks: Mutex<Stacks<S>>,
}

/// A slot, and the module for which it is clean.
#[derive(Debug)]
pub(super) struct FreeSlot<S> {
    pub(super) module: Option<ModuleId>,
    pub(super) slot: S,
}

/// A slot that was taken from the list. Its owner returns it with
/// [`FreeList::put`](super::FreeList::put).
#[derive(Debug)]
pub(crate) struct Taken<S>(pub(super) Box<FreeSlot<S>>);

impl<S> Deref for Taken<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        &self.0.slot
    }
}

impl<S> DerefMut for Taken<S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        &mut self.0.slot
    }
}

#[derive(Debug)]
pub(super) struct Stacks<S> {
    /// Slots that hold no module.
    pub(super) cold: Vec<Box<FreeSlot<S>>>,
    /// Slots that are clean for a module. No user chooses the ids, so one multiplication hashes the
    /// ids well enough.
    pub(super) warm: HashMap<ModuleId, Vec<Box<FreeSlot<S>>>, FxBuildHasher>,
}

/// A shard with this number of stacks first removes its empty stacks before it adds a stack.
pub(super) const LISTS_KEPT: usize = 64;

impl<S> Stacks<S> {
    pub(super) fn len(&self) -> usize {
        self.cold.len() + self.warm.values().map(Vec::len).sum::<usize>()
    }

    /// Takes a slot that is warm for the module, else a cold slot.
    pub(super) fn good(&mut self, module: ModuleId) -> Option<Box<FreeSlot<S>>> {
        let own = self.warm.get_mut(&module).and_then(Vec::pop);
        own.or_else(|| self.cold.pop())
    }

    /// Takes a cold slot, else the last slot on the longest stack of a module.
    pub(super) fn any(&mut self) -> Option<Box<FreeSlot<S>>> {
        self.cold.pop().or_else(|| {
            let most = self.warm.values_mut().max_by_key(|slots| slots.len())?;
            most.pop()
        })
    }

    pub(super) fn put(&mut self, entry: Box<FreeSlot<S>>) {
        let Some(module) = entry.module else {
            self.cold.push(entry);
            return;
        };
        if self.warm.len() >= LISTS_KEPT && !self.warm.contains_key(&module) {
            self.warm.retain(|_, slots| !slots.is_empty());
        }
        self.warm.entry(module).or_default().push(entry);
    }
}
