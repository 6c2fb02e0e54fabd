//! [`HostFunc`] and [`Hosts`]: the host functions that a module imports, with their types erased.
//!
//! # Safety
//!
//! This file owns three facts. The entry of a [`HostFunc`] points to the function that the
//! [`HostFunc`] holds. [`Hosts`] has an entry for each imported function, which points to a
//! function that [`Hosts`] keeps alive. An entry that counts calls points to the entry of the same
//! import.
#![allow(unsafe_code)]

use crate::switch::{Activation, HostEntry, Record};
use crate::value::{Cell, FuncType};
use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use std::sync::{Arc, OnceLock};

/// A host function, ready to be called from a guest of an instance with data `T`.
pub struct HostFunc<T> {
    /// The type of the function.
    pub(crate) ty: FuncType,
    entry: HostEntry,
    /// The function that the entry points to. A `Box` would claim unique access and would be moved
    /// with this value, so the field is an `Arc`.
    _func: Arc<dyn Any + Send + Sync>,
    data: PhantomData<fn(&mut T)>,
}

// SAFETY: the entry points to `_func`, which is `Send` and `Sync`, and to code.
unsafe impl<T> Send for HostFunc<T> {}

// SAFETY: the entry points to `_func`, which is `Send` and `Sync`, and to code.
unsafe impl<T> Sync for HostFunc<T> {}

impl<T> HostFunc<T> {
    /// A function of this type.
    ///
    /// # Safety
    ///
    /// The entry must point to `func`, and must call `func` with its real type, for an instance
    /// with data `T`.
    pub(crate) unsafe fn new(
        ty: FuncType,
        entry: HostEntry,
        func: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            ty,
            entry,
            _func: func,
            data: PhantomData,
        }
    }

    /// The entry by which guests call the function. The entry is valid as long as this value lives.
    pub(crate) fn entry(&self) -> HostEntry {
        self.entry
    }
}

impl<T> fmt::Debug for HostFunc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostFunc({})", self.ty)
    }
}

/// The host functions that a module imports.
#[derive(Debug)]
pub(crate) struct Hosts<T> {
    /// Entries by the index of the imported function. An entry reports an error if the function
    /// comes from another instance.
    entries: Vec<HostEntry>,
    /// The functions that the entries point to.
    funcs: Vec<Arc<HostFunc<T>>>,
    /// Entries that count each call and point to `entries`. These entries exist once an instance is
    /// measured.
    counting: OnceLock<Box<[HostEntry]>>,
}

// SAFETY: each entry points to a function in `funcs`, or contains only a pointer to code.
unsafe impl<T> Send for Hosts<T> {}

// SAFETY: each entry points to a function in `funcs`, or contains only a pointer to code.
unsafe impl<T> Sync for Hosts<T> {}

impl<T> Hosts<T> {
    /// The host functions of a module before any import is resolved.
    pub(crate) fn new() -> Self {
        Self {
            entries: vec![],
            funcs: vec![],
            counting: OnceLock::new(),
        }
    }

    /// Adds a function of the host as the next import.
    pub(crate) fn push(&mut self, func: &Arc<HostFunc<T>>) {
        self.entries.push(func.entry());
        self.funcs.push(Arc::clone(func));
    }

    /// Adds a function of another instance as the next import. `entry` reports an error.
    ///
    /// # Safety
    ///
    /// The code of `entry` must take the host's data of type `T`. The function of `entry` must live
    /// as long as `self`, unless the code does not read the function.
    pub(crate) unsafe fn skip(&mut self, entry: HostEntry) {
        self.entries.push(entry);
    }

    /// Entries that count each call. The entries are valid as long as `self`. All imports must have
    /// been added.
    pub(crate) fn counting_entries(&self) -> *const HostEntry {
        let counting = self.counting.get_or_init(|| {
            let entries = self.entries.iter();
            entries.map(counting).collect()
        });
        counting.as_ptr()
    }

    /// The entries, which are valid as long as `self`.
    pub(crate) fn entries(&self) -> *const HostEntry {
        self.entries.as_ptr()
    }
}

/// An entry that counts each call of an import, and then calls `entry`. `entry` must live as long
/// as the new entry.
fn counting(entry: &HostEntry) -> HostEntry {
    /// # Safety
    ///
    /// As a [`HostAnswer`](crate::switch::activation::HostAnswer), for an entry that [`counting`]
    /// made.
    unsafe extern "C" fn answer(
        vmctx: *mut u8,
        entry: *const HostEntry,
        cells: *mut Cell,
        call: *mut (),
    ) -> *mut Activation {
        // SAFETY: `counting` made the entry, so `func` points to the counted entry. The context
        // belongs to a waiting instance. The instance has an account because it is measured.
        unsafe {
            let counted = (*entry).func.cast::<HostEntry>();
            Record::account(vmctx).host_calls.add(1);
            ((*counted).answer)(vmctx, counted, cells, call)
        }
    }
    HostEntry {
        answer,
        func: core::ptr::from_ref(entry).cast(),
    }
}
