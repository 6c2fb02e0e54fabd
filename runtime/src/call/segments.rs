//! The writes of segments to memories and tables.
//!
//! # Safety
//!
//! This file owns one fact. The file checks the bounds of a memory or a table before it makes a
//! [`Bulk`] for a range of the memory or table.
#![allow(unsafe_code)]

use crate::store::bulk::Bulk;
use crate::store::descriptors::{faults, memory, memory_range, table, table_range};
use crate::store::member::Member;
use pirn_format::exit::TrapCode;

/// The write of a data segment's bytes to address `to` of a memory.
pub(super) fn write_data<T>(
    member: &Member<T>,
    memory_index: u32,
    bytes: &[u8],
    to: u64,
) -> Result<Bulk, TrapCode> {
    let to = memory_range(memory(member, memory_index), to, bytes.len() as u64)?;
    // SAFETY: `memory_range` checked that the range lies in the memory. The member keeps the memory
    // and the module alive.
    let bulk = unsafe { Bulk::copy(to, bytes.as_ptr(), bytes.len()) };
    Ok(bulk.populating(faults(member, memory_index), false))
}

/// The write of `len` references of an element segment, from `from` on, to index `to` of a table.
/// The segment must have `len` references from `from` on, and may have been dropped.
pub(super) fn write_elements<T>(
    member: &Member<T>,
    table_index: u32,
    segment: u32,
    to: u64,
    from: u64,
    len: u64,
) -> Result<Bulk, TrapCode> {
    let to = table_range(table(member, table_index), to, len)?;
    // SAFETY: `table_range` checked that the range lies in the table, which the members keep alive.
    Ok(unsafe { Bulk::elements(to, segment, from, len) })
}
