//! Tables that the host changes.
//!
//! The compiler relies on the elements of a table only if the module neither imports nor exports a
//! table. So the host may change every table that a module exports.
//!
//! # Safety
//!
//! This file owns one fact. The host writes only values of the element type, within the bounds of
//! the table, while no guest of the instance or its group runs or is suspended.
#![allow(unsafe_code)]

use super::given;
use super::grow::{NotGrown, grow_table};
use crate::error::{TableError, ValueError};
use crate::store::descriptors::{table, table_range};
use crate::store::member::Member;
use crate::value::{TableType, Value};
use core::slice;
use pirn_format::metadata::ExportItem;

/// The index of the exported table `name` of a member.
pub(crate) fn exported<T>(member: &Member<T>, name: &str) -> Option<u32> {
    let metadata = member.inner.module.metadata();
    match metadata.export(name)? {
        ExportItem::Table(index) => {
            debug_assert!(metadata.tables_change, "checked when the file was opened");
            Some(index)
        }
        _ => None,
    }
}

/// The type of table `index` of a member, as its module declares it.
pub(crate) fn type_of<T>(member: &Member<T>, index: u32) -> TableType {
    member.inner.module.metadata().tables[index as usize]
}

/// Fills `len` elements of table `index` of member `at`, from element `start` on. No call of the
/// members may be suspended.
///
/// # Errors
///
/// [`TableError::Value`] and [`TableError::OutOfBounds`]. Nothing has changed then.
pub(crate) fn fill<T>(
    members: &mut [Member<T>],
    at: usize,
    index: u32,
    (start, len): (u64, u64),
    value: Value,
) -> Result<(), TableError> {
    let word = word(members, at, index, value)?;
    let member = &members[at];
    let desc = table(member, index);
    let first = table_range(desc, start, len).map_err(|_| TableError::OutOfBounds {
        index: start,
        len,
        elements: member.elements(index).len() as u64,
    })?;
    // SAFETY: `table_range` checked that the range lies in the table, which the members keep alive.
    // `word` checked the type. The members are borrowed mutably, so no guest runs and nothing else
    // reads the table.
    unsafe { slice::from_raw_parts_mut(first, len as usize) }.fill(word);
    Ok(())
}

/// Grows table `index` of member `at` by `delta` elements with the value `value`. Returns the
/// previous number of elements. No call of the members may be suspended.
///
/// # Errors
///
/// [`TableError::Value`], [`TableError::Limit`] and [`TableError::Refused`]. Nothing has changed
/// then.
pub(crate) fn grow<T>(
    members: &mut [Member<T>],
    at: usize,
    index: u32,
    delta: u64,
    value: Value,
    data: &mut T,
) -> Result<u64, TableError> {
    let word = word(members, at, index, value)?;
    let elements = members[at].elements(index).len() as u64;
    let desired = elements.saturating_add(delta);
    let refused = TableError::Refused { elements, desired };
    let (previous, bulk) = match grow_table(members, index, at, word, delta, data) {
        Ok(grown) => grown,
        Err(NotGrown::Limit(limit)) => return Err(TableError::Limit { desired, limit }),
        Err(NotGrown::Refused) => return Err(refused),
    };
    if let Some(mut bulk) = bulk {
        // No limit of a call applies, so nothing stops the write.
        bulk.run(&members[at], None).map_err(|_| refused)?;
    }
    Ok(previous)
}

/// The word by which table `index` of member `at` holds a value.
fn word<T>(members: &[Member<T>], at: usize, index: u32, value: Value) -> Result<u64, ValueError> {
    let ty = type_of(&members[at], index);
    given::cell(members, at, value, ty.element).map(|cell| cell.u64())
}
