//! Numbers that are unique in the process: of function types, so that a call through a table compares
//! one number whatever modules are involved, and of modules.

use crate::{locks, sys};
use pirn_format::types::{FuncType, number_types};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The types that have one.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

type Known = HashMap<FuncType, u32>;

/// The lock of this module.
pub(super) type Lock = MutexGuard<'static, Option<Known>>;

/// Takes it.
pub(super) fn lock() -> Lock {
    sys::lock(&KNOWN)
}

/// The numbers of a module's types: equal types have equal numbers.
pub(super) fn ids(types: &[FuncType]) -> Vec<u32> {
    number_types(types, id)
}

/// The number of a function type, in which numbers are in place of indices.
///
/// Numbers are never given back: a process holds each distinct type that it ever met once.
fn id(ty: Cow<'_, FuncType>) -> u32 {
    let mut known = locks::take(&KNOWN);
    let known = known.get_or_insert_default();
    if let Some(id) = known.get(&*ty) {
        return *id;
    }
    // A type takes more than a byte of memory: there are never 2^32 of them.
    let id = u32::try_from(known.len()).unwrap_or(u32::MAX);
    assert!(id < u32::MAX, "2^32 function types in one process");
    known.insert(ty.into_owned(), id);
    id
}

/// A number for a module that was opened just now.
pub(super) fn fresh_module() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only its being unique matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_format::types::ValType::{I32, I64};

    #[test]
    fn equal_types_have_equal_numbers() {
        let ty = |params: &[_], results: &[_]| FuncType {
            params: params.to_vec(),
            results: results.to_vec(),
        };
        let id = |ty| id(Cow::Owned(ty));
        assert_eq!(id(ty(&[I32], &[I64])), id(ty(&[I32], &[I64])));
        assert_ne!(id(ty(&[I32], &[I64])), id(ty(&[I64], &[I32])));
        assert_ne!(id(ty(&[I32], &[])), id(ty(&[], &[I32])));
        assert_ne!(fresh_module(), fresh_module());
    }
}
