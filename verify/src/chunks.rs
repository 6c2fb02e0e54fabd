//! [`Chunks`] and [`Shared`]: copy-on-write data.
//!
//! The verifier copies the state of a function at each branch. Most branches leave most words of
//! the frame as they are. So a copy shares chunks of words, and a change copies one chunk.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Items of a chunk.
const ITEMS: usize = 8;

/// A copy-on-write value.
#[derive(Debug, Default, Eq)]
pub(crate) struct Shared<T>(Rc<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Rc::new(value))
    }
}

impl<T> Shared<T> {
    /// Whether both share one allocation.
    pub(crate) fn is_shared(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Rc::make_mut(&mut self.0)
    }
}

/// A copy-on-write vector. Items of the last chunk after `len` have no meaning.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    chunks: Vec<Rc<[T; ITEMS]>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self {
            chunks: vec![],
            len: 0,
        }
    }
}

impl<T> Clone for Chunks<T> {
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            len: self.len,
        }
    }

    fn clone_from(&mut self, other: &Self) {
        self.chunks.clone_from(&other.chunks);
        self.len = other.len;
    }
}

impl<T: Copy> Chunks<T> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: vec![],
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        let chunk = self.chunks.get(at / ITEMS).filter(|_| at < self.len)?;
        Some(&chunk[at % ITEMS])
    }

    /// Mutable access to an item. Copies the item's chunk if it is shared.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(at / ITEMS).filter(|_| at < self.len)?;
        Some(&mut Rc::make_mut(chunk)[at % ITEMS])
    }

    /// Appends copies of `item` until the vector has `len` items.
    pub(crate) fn grow(&mut self, len: usize, item: T) {
        let used = self.len % ITEMS;
        if used != 0 && len > self.len {
            // Overwrites items that `truncate` has left in the last chunk.
            if let Some(last) = self.chunks.last_mut() {
                Rc::make_mut(last)[used..].fill(item);
            }
        }
        let count = len.div_ceil(ITEMS);
        if count > self.chunks.len() {
            // All new chunks share one allocation until they change.
            self.chunks.resize(count, Rc::new([item; ITEMS]));
        }
        self.len = self.len.max(len);
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.chunks.truncate(len.div_ceil(ITEMS));
            self.len = len;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| &**chunk).take(self.len)
    }

    /// Changes all items for which `is_wanted` returns true.
    pub(crate) fn update(
        &mut self,
        is_wanted: impl Fn(&T) -> bool,
        mut change: impl FnMut(&mut T),
    ) {
        let mut left = self.len;
        for chunk in &mut self.chunks {
            let len = left.min(ITEMS);
            left -= len;
            if chunk[..len].iter().any(&is_wanted) {
                let items = Rc::make_mut(chunk)[..len].iter_mut();
                items.filter(|item| is_wanted(item)).for_each(&mut change);
            }
        }
    }

    /// Number of items in a chunk.
    fn used(&self, chunk: usize) -> usize {
        self.len.saturating_sub(Self::start(chunk)).min(ITEMS)
    }

    /// The items of a chunk.
    pub(crate) fn items(&self, chunk: usize) -> &[T] {
        &self.chunks[chunk][..self.used(chunk)]
    }

    /// Mutable access to the items of a chunk. Copies the chunk if it is shared.
    pub(crate) fn items_mut(&mut self, chunk: usize) -> &mut [T] {
        let used = self.used(chunk);
        &mut Rc::make_mut(&mut self.chunks[chunk])[..used]
    }

    /// The position of a chunk's first item.
    pub(crate) fn start(chunk: usize) -> usize {
        chunk * ITEMS
    }

    /// Number of chunks of `len` items.
    pub(crate) fn count(len: usize) -> usize {
        len.div_ceil(ITEMS)
    }

    /// Whether both vectors share a chunk, so that its items are equal.
    pub(crate) fn is_shared(&self, other: &Self, chunk: usize) -> bool {
        match (self.chunks.get(chunk), other.chunks.get(chunk)) {
            (Some(one), Some(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl<T: PartialEq + Copy> PartialEq for Chunks<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: Eq + Copy> Eq for Chunks<T> {}
