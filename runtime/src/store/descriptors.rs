//! Memories, tables, globals and segments of an instance, by index.
//!
//! # Safety
//!
//! This file owns one fact. A descriptor that an instance can reach names mapped bytes. These bytes
//! belong to the instance or to another member of the same group, which lives as long as the
//! instance.
#![allow(unsafe_code)]

use super::constant::{Constant, evaluate};
use super::member::Member;
use super::{heap, plan};
use crate::value::Cell;
use core::cmp::Ordering;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use pirn_format::exit::TrapCode;
use pirn_format::layout::{CONSTANT_OPERATORS_MAX, CONTEXT_MEMORY, MemoryDesc, TableDesc};
use pirn_format::metadata::{ConstExpr, ElementItems};
use pirn_format::types::AddrType;

/// Whether an access to a page of this memory may fail, so that the page must be populated first. A
/// shared memory of the host always has its pages. Populating its pages would also race with other
/// threads.
pub(crate) fn faults<T>(member: &Member<T>, index: u32) -> bool {
    member.shared(index).is_none()
}

/// The descriptor of memory `index` of a member, which may belong to another member.
pub(crate) fn memory<T>(member: &Member<T>, index: u32) -> *mut MemoryDesc {
    let (imported, layout) = (
        member.inner.module.imported().memories,
        member.inner.module.layout(),
    );
    match index.cmp(&imported) {
        // SAFETY: the cell of an imported memory holds the address of the owner's descriptor.
        Ordering::Less => unsafe { *member.cell::<*mut MemoryDesc>(layout.memory(index)) },
        Ordering::Equal => member.cell(CONTEXT_MEMORY),
        Ordering::Greater => member.cell(layout.memory(index)),
    }
}

/// Current size of a memory in bytes. Other threads may change the size of a shared memory.
///
/// # Safety
///
/// `desc` must be the descriptor of a memory that an initialised instance defines or imports.
pub(crate) unsafe fn bytes_of(desc: *mut MemoryDesc) -> u64 {
    // SAFETY: the caller ensures that `desc` is valid. Other threads write the size atomically.
    unsafe { AtomicU64::from_ptr(&raw mut (*desc).bytes).load(SeqCst) }
}

/// Address of `start` in a memory, checked for an access of `len` bytes.
pub(crate) fn memory_range(
    desc: *mut MemoryDesc,
    start: u64,
    len: u64,
) -> Result<*mut u8, TrapCode> {
    // SAFETY: `desc` names a mapped memory, see the module's doc. Its base never changes.
    let (base, bytes) = unsafe { ((*desc).base, bytes_of(desc)) };
    match start.checked_add(len) {
        Some(end) if end <= bytes => Ok((base as *mut u8).wrapping_add(start as usize)),
        _ => Err(TrapCode::MemoryOutOfBounds),
    }
}

/// The host address of an atomic access of `bytes` bytes at `address` of memory `index`.
///
/// # Errors
///
/// The trap of an access that is unaligned or out of bounds.
pub(crate) fn atomic_place<T>(
    member: &Member<T>,
    index: u32,
    address: u64,
    bytes: u64,
) -> Result<*mut u8, TrapCode> {
    if !address.is_multiple_of(bytes) {
        return Err(TrapCode::UnalignedAtomic);
    }
    memory_range(memory(member, index), address, bytes)
}

/// The bytes of a data segment, whether or not it was dropped.
pub(crate) fn data<T>(member: &Member<T>, segment: u32) -> &[u8] {
    let module = &member.inner.module;
    let segment = &module.metadata().data[segment as usize];
    let start = segment.start as usize;
    // `open` has checked that the segment lies in the data section.
    &module.data()[start..start + segment.len as usize]
}

/// The bytes of a data segment. A dropped segment has no bytes (spec 4.4.7, data.drop).
pub(crate) fn data_left<T>(member: &Member<T>, segment: u32) -> &[u8] {
    match is_dropped(member, segment) {
        true => &[],
        false => data(member, segment),
    }
}

/// `len` bytes of a segment, beginning at `from`.
pub(crate) fn data_part(bytes: &[u8], from: u64, len: u64) -> Result<&[u8], TrapCode> {
    from.checked_add(len)
        .and_then(|end| bytes.get(from as usize..usize::try_from(end).ok()?))
        .ok_or(TrapCode::MemoryOutOfBounds)
}

/// The descriptor of table `index` of a member, which may belong to another member.
pub(crate) fn table<T>(member: &Member<T>, index: u32) -> *mut TableDesc {
    let module = &member.inner.module;
    let cell = member.cell::<TableDesc>(module.layout().table(index));
    if index >= module.imported().tables {
        return cell;
    }
    // SAFETY: the cell of an imported table holds the address of the owner's descriptor.
    unsafe { *cell.cast::<*mut TableDesc>() }
}

/// Address of element `start` of a table, checked for an access of `len` elements.
pub(crate) fn table_range(
    desc: *mut TableDesc,
    start: u64,
    len: u64,
) -> Result<*mut u64, TrapCode> {
    // SAFETY: `desc` names a table of an initialised member, see the module's doc.
    let desc = unsafe { *desc };
    match start.checked_add(len) {
        Some(end) if end <= desc.elements => {
            Ok((desc.base as *mut u64).wrapping_add(start as usize))
        }
        _ => Err(TrapCode::TableOutOfBounds),
    }
}

/// Checks that an element segment has `len` references from `from` on. A dropped segment has no
/// references (spec 4.4.6, elem.drop).
pub(crate) fn check_elements<T>(
    member: &Member<T>,
    segment: u32,
    from: u64,
    len: u64,
) -> Result<(), TrapCode> {
    let items = &member.inner.module.metadata().elements[segment as usize].items;
    let all = match is_dropped(member, element_position(member, segment)) {
        true => 0,
        false => items.len() as u64,
    };
    match from.checked_add(len) {
        Some(end) if end <= all => Ok(()),
        _ => Err(TrapCode::TableOutOfBounds),
    }
}

/// The number of elements of a segment, at most `most`, to write between two checks of the
/// interrupt flag.
///
/// The constant expressions of these elements have at most [`CONSTANT_OPERATORS_MAX`] operators
/// together. The number is at least 1.
pub(crate) fn elements_at_once<T>(member: &Member<T>, segment: u32, from: u64, most: u64) -> u64 {
    let items = &member.inner.module.metadata().elements[segment as usize].items;
    let is_made = || {
        let made = member.made.get(segment as usize);
        made.is_some_and(|made| !made.is_empty())
    };
    let exprs = match items {
        ElementItems::Exprs(exprs) if !is_made() => &exprs[from as usize..][..most as usize],
        _ => return most,
    };
    let mut operators = 0;
    let is_over = |expr: &ConstExpr| {
        operators += expr.0.len() as u64;
        operators > CONSTANT_OPERATORS_MAX
    };
    let fitting = exprs.iter().position(is_over);
    fitting.map_or(most, |fitting| fitting.max(1) as u64)
}

/// Writes `len` references of an element segment, from `from` on, to `to`. The segment must have
/// these references, and may have been dropped.
///
/// # Safety
///
/// `to` must point to `len` words of a table or an array.
pub(crate) unsafe fn copy_elements<T>(
    member: &Member<T>,
    segment: u32,
    to: *mut u64,
    from: u64,
    len: u64,
) {
    let (metadata, layout) = (member.inner.module.metadata(), member.inner.module.layout());
    let items = &metadata.elements[segment as usize].items;
    let made = member
        .made
        .get(segment as usize)
        .filter(|made| !made.is_empty());
    let global = |index: u32| Some(Constant::Absolute(global(member, index)));
    // SAFETY: the reference comes from a global of the member. So the box belongs to the member or
    // to another member of the same group, which lives as long as the member.
    let boxed = |any| Some(unsafe { heap::number_in_box(any) });
    for i in 0..len as usize {
        let at = from as usize + i;
        let value = match made {
            Some(made) => made[at],
            None => {
                let value = plan::element(items, at, global, boxed, metadata, layout);
                value.at(member.vmctx()).u64()
            }
        };
        // SAFETY: the caller ensures that `to` points to `len` words.
        unsafe { to.add(i).write(value) };
    }
}

/// The value of global `index` of a member.
pub(crate) fn global<T>(member: &Member<T>, index: u32) -> Cell {
    // SAFETY: the cell belongs to a global of an initialised instance, or to the global's owner.
    unsafe { *member.global_cell(index) }
}

/// The offset of an active segment, evaluated with this instance's globals. `address` is the type
/// of the offset.
pub(crate) fn offset<T>(member: &Member<T>, expr: &ConstExpr, address: AddrType) -> u64 {
    let value = evaluate(
        expr,
        |index| Some(Constant::Absolute(global(member, index))),
        |_| None,
        |_| None,
    );
    match value {
        Some(Constant::Absolute(cell)) => address.address(cell.u64()),
        // No offset is a reference. No memory or table has this size, so the bounds check fails.
        _ => u64::MAX,
    }
}

/// Position of an element segment in the bit set of dropped segments, after all data segments.
pub(crate) fn element_position<T>(member: &Member<T>, segment: u32) -> u32 {
    member.inner.module.metadata().data.len() as u32 + segment
}

/// The word that holds the bit of a segment, and that bit.
pub(crate) fn segment_bit<T>(member: &Member<T>, position: u32) -> (*mut u64, u64) {
    let (word, bit) = member.inner.module.layout().segment(position);
    (member.cell(word), 1 << bit)
}

pub(crate) fn is_dropped<T>(member: &Member<T>, position: u32) -> bool {
    let (word, bit) = segment_bit(member, position);
    // SAFETY: the word lies in the initialised instance area.
    unsafe { *word & bit != 0 }
}

pub(crate) fn drop_segment<T>(member: &Member<T>, position: u32) {
    let (word, bit) = segment_bit(member, position);
    // SAFETY: the word lies in the initialised instance area.
    unsafe { *word |= bit };
}
