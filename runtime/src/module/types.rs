//! Numbers that are unique in the process: of types, so that a call through a table compares one number whatever modules
//! are involved, and of modules.
//!
//! Generated code that asks whether one type is a subtype of another reads the *table of types*, which all instances
//! share: a reservation that never moves, of rows and chains that are written once, before anything has the type.
//!
//! ```text
//! │ row of id 0 │ row of id 1 │ ...               │ chain │ chain │ ...
//!   count, where its chain lies                     ids of the types above, the root first
//! ```
//!
//! # Safety
//!
//! Owns that table: rows and chains are written under the lock, and read by those who know an id, which they were given
//! after that.
#![allow(unsafe_code)]

use crate::sys::memory::{Access, Reservation};
use crate::{locks, sys};
use core::ops::Range;
use pirn_format::layout::TYPE_ROW_BYTES;
use pirn_format::metadata::Metadata;
use pirn_format::types::{SubType, number_types};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The types that have one.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Where the table of types begins; 0 as long as there is none.
static ROWS: AtomicU64 = AtomicU64::new(0);

/// Most types of a process, once one of them has subtypes: 128 MiB of rows.
const TYPES_MAX: usize = 1 << 24;

/// Bytes of rows, of which as many are accessible as there are types.
const ROWS_BYTES: usize = TYPES_MAX * TYPE_ROW_BYTES as usize;

/// Most bytes of chains.
const CHAINS_BYTES: usize = 1 << 30;

/// What is made accessible at a time.
const STEP_BYTES: usize = 1 << 20;

/// The types that are known.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The number of the first type of each group.
    groups: HashMap<Box<[SubType]>, u32>,
    /// How many types there are.
    count: usize,
    table: Option<Table>,
}

/// The table of types.
#[derive(Debug)]
struct Table {
    reservation: Reservation,
    /// Bytes of rows that are accessible.
    rows: usize,
    /// Bytes of chains that are written, and that are accessible.
    chains: [usize; 2],
    /// Where the chain lies that ends with a type.
    ending: HashMap<u32, u32>,
}

/// The lock of this module.
pub(super) type Lock = MutexGuard<'static, Option<Known>>;

/// Takes it.
pub(super) fn lock() -> Lock {
    sys::lock(&KNOWN)
}

/// The numbers of a module's types: equal types have equal numbers.
///
/// Numbers are never given back: a process holds each distinct type that it ever met once.
///
/// # Errors
///
/// What the system gives if it has no memory for the table of types; and if that is full.
pub(super) fn ids(metadata: &Metadata) -> io::Result<Vec<u32>> {
    let mut known = locks::take(&KNOWN);
    let known = known.get_or_insert_default();
    let mut result = Ok(());
    let ids = number_types(&metadata.types, &metadata.groups, |group| {
        if let Some(first) = known.groups.get(&*group) {
            return *first;
        }
        if result.is_ok() {
            result = known.add(&group);
            if let Some(table) = &known.table {
                let rows = table.reservation.range().start as u64;
                ROWS.store(rows, Ordering::Release);
            }
        }
        if result.is_err() {
            return 0;
        }
        // Fewer than 2^31, see `add`.
        let first = (known.count - group.len()) as u32;
        known.groups.insert(group.into_owned().into(), first);
        first
    });
    result.map(|()| ids)
}

/// Where the table of types begins; 0 as long as no type has subtypes.
pub(crate) fn rows() -> u64 {
    ROWS.load(Ordering::Acquire)
}

/// Whether a type is another, or is declared as a subtype of it.
pub(crate) fn is_subtype(found: u32, wanted: u32) -> bool {
    found == wanted || {
        let known = locks::take(&KNOWN);
        let table = known.as_ref().and_then(|known| known.table.as_ref());
        table.is_some_and(|table| table.chain(found).any(|above| above == wanted))
    }
}

impl Known {
    /// Numbers the types of a group, which name others by their numbers.
    fn add(&mut self, group: &[SubType]) -> io::Result<()> {
        /// Numbers of the group itself begin here: see `number_types`.
        const WITHIN: u32 = 1 << 31;
        let first = self.count;
        let count = first + group.len();
        // A type takes more than a byte of memory, so without the table there are never 2^31 of them.
        let is_table = self.table.is_some() || group.iter().any(|ty| !ty.is_final);
        if is_table {
            if count > TYPES_MAX {
                return Err(full("types with supertypes", count, TYPES_MAX));
            }
            let table = match &mut self.table {
                Some(table) => table,
                none => none.insert(Table::new()?),
            };
            table.reach(count)?;
            let mut rows = (first as u32..).zip(group);
            let written = rows.try_for_each(|(id, ty)| {
                let above = ty.supertype.map(|above| match above.checked_sub(WITHIN) {
                    Some(within) => first as u32 + within,
                    None => above,
                });
                above.map_or(Ok(()), |above| table.write(id, above))
            });
            if let Err(error) = written {
                table.forget(first as u32..count as u32);
                return Err(error);
            }
        }
        assert!(count < WITHIN as usize, "2^31 types in one process");
        self.count = count;
        Ok(())
    }
}

impl Table {
    fn new() -> io::Result<Self> {
        Ok(Self {
            reservation: Reservation::new(ROWS_BYTES + CHAINS_BYTES)?,
            rows: 0,
            chains: [0; 2],
            ending: HashMap::new(),
        })
    }

    /// Makes accessible what lies from a distance on, up to another.
    fn open(&self, from: usize, to: usize) -> io::Result<()> {
        let start = self.reservation.range().start;
        // SAFETY: nobody uses what is not accessible yet.
        unsafe {
            self.reservation
                .protect(start + from..start + to, Access::ReadWrite)
        }
    }

    /// Has rows for so many types.
    fn reach(&mut self, count: usize) -> io::Result<()> {
        let bytes = (count * TYPE_ROW_BYTES as usize).next_multiple_of(STEP_BYTES);
        if bytes > self.rows {
            self.open(self.rows, bytes)?;
            self.rows = bytes;
        }
        Ok(())
    }

    /// Takes back what was written of types that get no numbers: others get these, which may have nothing above them.
    fn forget(&mut self, ids: Range<u32>) {
        for id in ids {
            // SAFETY: the row is accessible, see `reach`, and nobody knows the id.
            unsafe { *self.row(id) = [0; 2] };
            self.ending.remove(&id);
        }
    }

    /// The row of a type.
    fn row(&self, id: u32) -> *mut [u32; 2] {
        let rows = self.reservation.range().start as *mut [u32; 2];
        rows.wrapping_add(id as usize)
    }

    /// The types above one, the root first.
    fn chain(&self, id: u32) -> impl Iterator<Item = u32> {
        let is_there = (id as usize) < self.rows / TYPE_ROW_BYTES as usize;
        let [count, offset] = match is_there {
            // SAFETY: rows up to there are accessible, and written under the lock, which the caller has.
            true => unsafe { *self.row(id) },
            false => [0; 2],
        };
        let first = (self.reservation.range().start + offset as usize) as *const u32;
        // SAFETY: a row names a chain of as many ids.
        (0..count as usize).map(move |at| unsafe { *first.add(at) })
    }

    /// Writes the row of a type below another.
    fn write(&mut self, id: u32, above: u32) -> io::Result<()> {
        let mut chain: Vec<u32> = self.chain(above).collect();
        chain.push(above);
        let count = chain.len() as u32;
        let offset = match self.ending.get(&above) {
            Some(offset) => *offset,
            None => {
                let offset = self.append(above, &chain)?;
                self.ending.insert(above, offset);
                offset
            }
        };
        // SAFETY: the row is accessible, see `reach`, and nobody knows the id yet.
        unsafe { *self.row(id) = [count, offset] };
        Ok(())
    }

    /// Writes a chain, or as much of it as is not there; where it lies.
    fn append(&mut self, last: u32, chain: &[u32]) -> io::Result<u32> {
        let [written, open] = self.chains;
        let before = &chain[..chain.len() - 1];
        // SAFETY: as in `write`; `last` has a row.
        let [count, offset] = unsafe { *self.row(last) };
        let end = offset as usize + count as usize * 4;
        // What it begins with may end where the next would be written: then it is made longer.
        let is_longer = !before.is_empty() && end == ROWS_BYTES + written;
        let (start, new) = match is_longer {
            true => (offset as usize, &chain[before.len()..]),
            false => (ROWS_BYTES + written, chain),
        };
        let wanted = written + new.len() * 4;
        if wanted > CHAINS_BYTES {
            return Err(full("bytes of chains of supertypes", wanted, CHAINS_BYTES));
        }
        if wanted > open {
            let then = wanted.next_multiple_of(STEP_BYTES);
            self.open(ROWS_BYTES + open, ROWS_BYTES + then)?;
            self.chains[1] = then;
        }
        let to = (self.reservation.range().start + ROWS_BYTES + written) as *mut u32;
        for (at, id) in new.iter().enumerate() {
            // SAFETY: it is accessible, and no row names it yet.
            unsafe { to.add(at).write(*id) };
        }
        self.chains[0] = wanted;
        // Less than 2^32: both parts together have fewer bytes.
        Ok(start as u32)
    }
}

fn full(what: &str, found: usize, limit: usize) -> io::Error {
    let message = format!("process has {found} {what}, the limit is {limit}");
    io::Error::other(message)
}

const _: () = assert!(ROWS_BYTES + CHAINS_BYTES < 1 << 32);

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
    use pirn_format::types::{CompositeType, FuncType, ValType};

    fn of(types: Vec<SubType>) -> Vec<u32> {
        let metadata = Metadata {
            types,
            ..Metadata::default()
        };
        ids(&metadata).expect("there is memory")
    }

    fn func(params: &[ValType], results: &[ValType]) -> SubType {
        SubType::alone(CompositeType::Func(FuncType {
            params: params.to_vec(),
            results: results.to_vec(),
        }))
    }

    /// What a group that did not get its numbers has written is not there for those who get them next.
    #[test]
    fn a_group_that_is_refused_leaves_nothing() {
        let below = |above: Option<u32>, params: &[ValType]| SubType {
            is_final: false,
            supertype: above,
            ..func(params, &[])
        };
        let within = |at: u32| Some(1 << 31 | at);
        let mut known = Known::default();
        known.add(&[below(None, &[])]).expect("there is memory");
        known.add(&[below(Some(0), &[])]).expect("there is memory");
        let chain = |known: &Known, id: u32| -> Vec<u32> {
            let table = known.table.as_ref().expect("there are subtypes");
            table.chain(id).collect()
        };
        let leave = |known: &mut Known, bytes: usize| {
            let table = known.table.as_mut().expect("there are subtypes");
            table.chains = [CHAINS_BYTES - bytes, CHAINS_BYTES - STEP_BYTES];
        };
        // There is room for the chain of the second, and none for that of the third.
        leave(&mut known, 8);
        let group = [
            below(Some(0), &[I32]),
            below(within(0), &[I32]),
            below(within(1), &[I32]),
        ];
        let error = known.add(&group).expect_err("there is no room");
        assert!(error.to_string().contains("the limit is"), "{error}");
        assert_eq!(known.count, 2);
        // These have the same numbers now, and nothing above them.
        known.add(&[below(None, &[I64])]).expect("a type alone");
        assert_eq!(chain(&known, 2), []);
        leave(&mut known, 64);
        known.add(&[below(Some(2), &[I64])]).expect("there is room");
        assert_eq!(chain(&known, 3), [2]);
        known.add(&[below(Some(3), &[I64])]).expect("there is room");
        assert_eq!(chain(&known, 4), [2, 3]);
    }

    #[test]
    fn equal_types_have_equal_numbers() {
        let id = |params: &[_], results: &[_]| of(vec![func(params, results)])[0];
        assert_eq!(id(&[I32], &[I64]), id(&[I32], &[I64]));
        assert_ne!(id(&[I32], &[I64]), id(&[I64], &[I32]));
        assert_ne!(id(&[I32], &[]), id(&[], &[I32]));
        assert_ne!(fresh_module(), fresh_module());
    }

    /// A tree of types, one of whose chains is made longer, and others not.
    #[test]
    fn all_types_above_one_are_found() {
        let above = [
            None,
            Some(0),
            Some(1),
            Some(1),
            Some(2),
            Some(0),
            Some(5),
            Some(4),
        ];
        let types = above.iter().map(|above| SubType {
            is_final: false,
            supertype: *above,
            ..func(&[ValType::V128], &[ValType::V128])
        });
        let ids = of(types.collect());
        // Two of them are equal: both are a type below the second.
        assert_eq!(ids[2], ids[3]);
        assert_eq!(ids[1], ids[5]);
        for (at, _) in above.iter().enumerate() {
            let mut all = vec![ids[at]];
            let mut next = above[at];
            while let Some(at) = next {
                all.push(ids[at as usize]);
                next = above[at as usize];
            }
            for wanted in &ids {
                assert_eq!(is_subtype(ids[at], *wanted), all.contains(wanted));
            }
        }
    }
}
