//! Builtins: WebAssembly instructions that the runtime executes (spec 4.4.6 and 4.4.7). They grow
//! memories and tables, write in bulk, and drop segments.
//!
//! Every bound is checked here before the first byte is written. The checks use 64-bit arithmetic
//! on values that the guest cannot change during the check.
//!
//! # Safety
//!
//! This file owns one fact. A descriptor that an instance can reach names mapped bytes. These
//! belong to the instance or to another member of the same group, which lives as long.
#![allow(unsafe_code)]

use super::bulk::Bulk;
use super::constant::{Constant, evaluate};
use super::heap;
use super::member::Member;
use super::plan;
use crate::host::limiter::{Bound, Growing, Growth, GrowthError, Limiter};
use crate::memory::SharedMemory;
use crate::memory::populate;
use crate::memory::wait::{Expected, Wait};
use crate::value::Cell;
use core::cmp::Ordering;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use pirn_format::exit::{Builtin, TrapCode};
use pirn_format::layout::{
    CONSTANT_OPERATORS_MAX, CONTEXT_MEMORY, MEMORY_BYTES_MAX, MemoryDesc, TableDesc,
    WASM_PAGE_BYTES,
};
use pirn_format::metadata::{ConstExpr, ElementItems};
use pirn_format::types::AddrType;

/// The result of an instruction that could not grow.
const NOT_GROWN: u64 = u64::MAX;

/// Runs a builtin for member `at`. `cells` holds the parameters, and the first cell receives a
/// result.
///
/// The builtin checks the bounds of a bulk write and returns the write. The caller must run it.
///
/// # Errors
///
/// The trap of the instruction.
pub(crate) fn run<T>(
    members: &mut [Member<T>],
    at: usize,
    builtin: Builtin,
    cells: &mut [Cell],
    data: &mut T,
) -> Result<Option<Bulk>, TrapCode> {
    let word = |i: usize| cells[i].u64();
    // Indices are 32-bit constants of the generated code.
    let index = |i: usize| cells[i].u32();
    let member = &members[at];
    match builtin {
        Builtin::MemoryGrow => {
            let previous = grow_memory(members, index(0), at, word(1), data);
            cells[0] = Cell::from_u64(previous);
        }
        Builtin::MemoryCopy => {
            let (to, from) = (memory(member, index(0)), memory(member, index(1)));
            let (dst, src, len) = (word(2), word(3), word(4));
            let from = memory_range(from, src, len)?;
            let to = memory_range(to, dst, len)?;
            // SAFETY: `memory_range` checked that both ranges lie in their memories, which the
            // members keep alive.
            let bulk = unsafe { Bulk::copy(to, from, len as usize) };
            let [to, from] = [index(0), index(1)].map(|index| faults(member, index));
            return Ok(Some(bulk.populating(to, from)));
        }
        Builtin::MemoryFill => {
            let to = memory_range(memory(member, index(0)), word(1), word(3))?;
            // SAFETY: `memory_range` checked that the range lies in the memory, which the members
            // keep alive.
            let bulk = unsafe { Bulk::fill(to, word(2) as u8, word(3) as usize) };
            return Ok(Some(bulk.populating(faults(member, index(0)), false)));
        }
        Builtin::MemoryInit => {
            let bytes = data_part(data_left(member, index(1)), word(3), word(4))?;
            return write_data(member, index(0), bytes, word(2)).map(Some);
        }
        Builtin::DataDrop => drop_segment(member, index(0)),
        Builtin::TableGrow => {
            let (previous, bulk) = grow_table(members, index(0), at, word(1), word(2), data);
            cells[0] = Cell::from_u64(previous);
            return Ok(bulk);
        }
        Builtin::TableCopy => {
            let (to, from) = (table(member, index(0)), table(member, index(1)));
            let (dst, src, len) = (word(2), word(3), word(4));
            let from = table_range(from, src, len)?;
            let to = table_range(to, dst, len)?;
            // SAFETY: `table_range` checked that both ranges lie in their tables, which the members
            // keep alive.
            return Ok(Some(unsafe {
                Bulk::copy(to.cast(), from.cast(), len as usize * size_of::<u64>())
            }));
        }
        Builtin::TableFill => {
            let to = table_range(table(member, index(0)), word(1), word(3))?;
            // SAFETY: `table_range` checked that the range lies in the table, which the members
            // keep alive.
            return Ok(Some(unsafe { Bulk::words(to, word(2), word(3) as usize) }));
        }
        Builtin::TableInit => {
            let (segment, from, len) = (index(1), word(3), word(4));
            check_elements(member, segment, from, len)?;
            return write_elements(member, index(0), segment, word(2), from, len).map(Some);
        }
        Builtin::ElemDrop => drop_segment(member, element_position(member, index(0))),
        Builtin::MemoryNotify => {
            let woken = notify(member, index(0), word(1), index(2))?;
            cells[0] = Cell::from_u64(woken.into());
        }
        Builtin::HeapGrow => heap::grow(members, at, word(0), data)?,
        Builtin::ArrayNewData => {
            let (what, range) = ([index(0), index(1)], [word(2), word(3)]);
            let (array, bulk) = heap::array_of_data(members, at, what, range, data)?;
            cells[0] = Cell::from_u64(array);
            return Ok(Some(bulk));
        }
        Builtin::ArrayNewElem => {
            let (what, range) = ([index(0), index(1)], [word(2), word(3)]);
            let (array, bulk) = heap::array_of_elements(members, at, what, range, data)?;
            cells[0] = Cell::from_u64(array);
            return Ok(Some(bulk));
        }
        Builtin::ArrayInitData => {
            let bytes = data_part(data_left(member, index(0)), word(2), word(3))?;
            // SAFETY: generated code has checked that the array has so many bytes there. Objects do
            // not move.
            return Ok(Some(unsafe {
                Bulk::copy(word(1) as *mut u8, bytes.as_ptr(), bytes.len())
            }));
        }
        Builtin::ArrayInitElem => {
            check_elements(member, index(0), word(2), word(3))?;
            // SAFETY: generated code has checked that the array has so many elements there. Objects
            // do not move.
            return Ok(Some(unsafe {
                Bulk::elements(word(1) as *mut u64, index(0), word(2), word(3))
            }));
        }
        Builtin::ArrayCopy => {
            let (to, from) = (word(0) as *mut u8, word(1) as *const u8);
            // SAFETY: generated code has checked that both arrays have so many bytes there. Objects
            // do not move.
            return Ok(Some(unsafe { Bulk::copy(to, from, word(2) as usize) }));
        }
        Builtin::HostBox => {
            cells[0] = Cell::from_u64(heap::internalized(members, at, word(0), data)?);
        }
        Builtin::Throw
        | Builtin::ThrowRef
        | Builtin::Rethrow
        | Builtin::Keep
        | Builtin::MemoryWait32
        | Builtin::MemoryWait64 => {
            // These builtins may leave the guest or scan its stack, so `exit` handles them.
            return Err(TrapCode::Unreachable);
        }
    }
    Ok(None)
}

/// Whether an access to a page of this memory may fail. A shared memory of the host always has its
/// pages, and other threads use it.
fn faults<T>(member: &Member<T>, index: u32) -> bool {
    member.shared(index).is_none()
}

/// The descriptor of memory `index` of a member, which may belong to another member.
pub(super) fn memory<T>(member: &Member<T>, index: u32) -> *mut MemoryDesc {
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
pub(super) unsafe fn bytes_of(desc: *mut MemoryDesc) -> u64 {
    // SAFETY: the caller ensures that `desc` is valid. Other threads write the size atomically.
    unsafe { AtomicU64::from_ptr(&raw mut (*desc).bytes).load(SeqCst) }
}

/// Address of `start` in a memory, checked for an access of `len` bytes.
pub(super) fn memory_range(
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

/// Grows memory `index` of member `at` by `delta` pages. Returns the old number of pages, or
/// [`NOT_GROWN`].
///
/// The type of the memory, the region, the embedder and the system must all allow the growth. They
/// are asked in this order.
fn grow_memory<T>(
    members: &mut [Member<T>],
    index: u32,
    at: usize,
    delta: u64,
    data: &mut T,
) -> u64 {
    if let Some(shared) = members[at].shared(index) {
        return grow_shared(shared, index, &members[at].inner.limiter, delta, data);
    }
    let desc = memory(&members[at], index);
    let Some(owner) = owner(members, desc as u64) else {
        return NOT_GROWN;
    };
    let module = &owner.inner.module;
    let own = module.own_memories();
    let mut all = (0..).zip(module.imported().memories..).zip(own);
    let Some(((number, own_index), ty)) = all.find(|((_, index), _)| memory(owner, *index) == desc)
    else {
        return NOT_GROWN;
    };
    let (maximum, page) = (ty.max, ty.page.bytes());
    let most = maximum.unwrap_or(u64::MAX).min(MEMORY_BYTES_MAX / page);
    // SAFETY: `desc` names a memory of an initialised member, see the module's doc.
    let previous = unsafe { (*desc).bytes } / page;
    let pages = previous.saturating_add(delta);
    let room = owner.inner.region.limits().memory_bytes_max as u64 / page;
    if delta == 0 {
        return previous;
    }
    let growth = Growth {
        what: Growing::Memory(own_index),
        current: previous * page,
        desired: pages.saturating_mul(page),
        maximum: maximum.map(|pages| pages.saturating_mul(page)),
    };
    let limiter = &owner.inner.limiter;
    let bound = Bound {
        what: "memory",
        limit: most.min(room) * page,
        unit: "bytes",
        setting: "memory_max",
    };
    if !limiter.is_within(data, growth, bound) || !limiter.allows_memory(data, growth) {
        return NOT_GROWN;
    }
    let region = &owner.inner.region;
    let accessible = growth.desired.next_multiple_of(WASM_PAGE_BYTES);
    if let Err(error) = owner.slot.grow_memory(region, number, accessible) {
        limiter.failed(data, growth, GrowthError::System(error));
        return NOT_GROWN;
    }
    // SAFETY: `desc` is the owner's descriptor, and the bytes are accessible now.
    unsafe { (*desc).bytes = growth.desired };
    previous
}

/// Grows a shared memory of the host, which an instance imports with this index.
///
/// The type of the memory, the embedder and the system must all allow the growth. They are asked in
/// this order.
fn grow_shared<T>(
    shared: &SharedMemory,
    index: u32,
    limiter: &Limiter<T>,
    delta: u64,
    data: &mut T,
) -> u64 {
    let most = shared.bytes_max();
    let bound = Bound {
        what: "memory",
        limit: most,
        unit: "bytes",
        setting: "max",
    };
    let mut growth = Growth {
        what: Growing::SharedMemory(index),
        current: 0,
        desired: 0,
        maximum: Some(most),
    };
    let grown = shared.grow_where(delta, |current, desired| {
        (growth.current, growth.desired) = (current, desired);
        limiter.is_within(data, growth, bound) && limiter.allows_memory(data, growth)
    });
    match grown {
        Ok(previous) => previous.unwrap_or(NOT_GROWN),
        Err(error) => {
            limiter.failed(data, growth, GrowthError::System(error));
            NOT_GROWN
        }
    }
}

/// The host address of an atomic access of `bytes` bytes at `address` of memory `index`.
///
/// # Errors
///
/// The trap of an access that is unaligned or out of bounds.
fn atomic_place<T>(
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

/// Wakes up to `count` waiters at an address of memory `index`, and returns how many it woke.
///
/// # Errors
///
/// The trap of the instruction.
fn notify<T>(member: &Member<T>, index: u32, address: u64, count: u32) -> Result<u32, TrapCode> {
    atomic_place(member, index, address, 4)?;
    // Nothing else can wait in a memory of the slot.
    let shared = member.shared(index);
    Ok(shared.map_or(0, |memory| memory.wake(address, count)))
}

/// Begins to wait at an address of memory `index`, if the expected value is there. Otherwise
/// returns `None`.
///
/// # Errors
///
/// The trap of the instruction.
pub(super) fn begin_wait<T>(
    member: &Member<T>,
    index: u32,
    address: u64,
    expected: Expected,
    timeout_ns: i64,
) -> Result<Option<Wait>, TrapCode> {
    let place = atomic_place(member, index, address, expected.bytes())?;
    if !member.inner.module.metadata().memories[index as usize].shared {
        return Err(TrapCode::ExpectedSharedMemory);
    }
    let shared = member.shared(index);
    // SAFETY: `atomic_place` checked that the place lies in the memory. It is aligned, because the
    // memory's base is page-aligned.
    unsafe {
        if shared.is_none() {
            // This is a memory of the slot, whose page may be missing.
            populate::readable(place, expected.bytes() as usize)?;
        }
        Ok(Wait::begin(shared, address, place, expected, timeout_ns))
    }
}

/// The bytes of a data segment, whether or not it was dropped.
pub(super) fn data<T>(member: &Member<T>, segment: u32) -> &[u8] {
    let module = &member.inner.module;
    let segment = &module.metadata().data[segment as usize];
    let start = segment.start as usize;
    // `open` has checked that the segment lies in the data section.
    &module.data()[start..start + segment.len as usize]
}

/// The bytes of a data segment; none if it was dropped (spec 4.4.7, data.drop).
pub(super) fn data_left<T>(member: &Member<T>, segment: u32) -> &[u8] {
    match is_dropped(member, segment) {
        true => &[],
        false => data(member, segment),
    }
}

/// `len` bytes of a segment, beginning at `from`.
pub(super) fn data_part(bytes: &[u8], from: u64, len: u64) -> Result<&[u8], TrapCode> {
    from.checked_add(len)
        .and_then(|end| bytes.get(from as usize..usize::try_from(end).ok()?))
        .ok_or(TrapCode::MemoryOutOfBounds)
}

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

/// The member whose instance area contains a descriptor.
fn owner<T>(members: &mut [Member<T>], desc: u64) -> Option<&mut Member<T>> {
    members.iter_mut().find(|member| {
        let area = u64::from(member.inner.module.layout().bytes());
        let end = member.vmctx() as u64;
        (end - area..end).contains(&desc)
    })
}

/// The descriptor of table `index` of a member, which may belong to another member.
pub(super) fn table<T>(member: &Member<T>, index: u32) -> *mut TableDesc {
    let module = &member.inner.module;
    let cell = member.cell::<TableDesc>(module.layout().table(index));
    if index >= module.imported().tables {
        return cell;
    }
    // SAFETY: the cell of an imported table holds the address of the owner's descriptor.
    unsafe { *cell.cast::<*mut TableDesc>() }
}

/// Address of element `start` of a table, checked for an access of `len` elements.
fn table_range(desc: *mut TableDesc, start: u64, len: u64) -> Result<*mut u64, TrapCode> {
    // SAFETY: `desc` names a table of an initialised member, see the module's doc.
    let desc = unsafe { *desc };
    match start.checked_add(len) {
        Some(end) if end <= desc.elements => {
            Ok((desc.base as *mut u64).wrapping_add(start as usize))
        }
        _ => Err(TrapCode::TableOutOfBounds),
    }
}

/// Grows table `index` of member `at` by `delta` elements. Returns the old number of elements, or
/// [`NOT_GROWN`], and the write that fills the new elements with `reference`.
///
/// The table gets its new size only when that write is complete. So a call that is stopped earlier
/// leaves no element that the table's type forbids. The type, the region and the embedder are
/// asked, as in [`grow_memory`].
fn grow_table<T>(
    members: &mut [Member<T>],
    index: u32,
    at: usize,
    reference: u64,
    delta: u64,
    data: &mut T,
) -> (u64, Option<Bulk>) {
    let desc = table(&members[at], index);
    let Some(owner) = owner(members, desc as u64) else {
        return (NOT_GROWN, None);
    };
    let metadata = owner.inner.module.metadata();
    let position = (0..metadata.tables.len() as u32).find(|i| table(owner, *i) == desc);
    let Some(position) = position else {
        return (NOT_GROWN, None);
    };
    let ty = metadata.tables[position as usize];
    let room = u64::from(owner.inner.region.limits().table_elements);
    let most = ty.max.unwrap_or(u64::MAX).min(room);
    // SAFETY: `desc` names a table of an initialised member, see the module's doc.
    let previous = unsafe { (*desc).elements };
    let elements = previous.saturating_add(delta);
    if delta == 0 {
        return (previous, None);
    }
    let growth = Growth {
        what: Growing::Table(position),
        current: previous,
        desired: elements,
        maximum: ty.max,
    };
    let limiter = &owner.inner.limiter;
    let bound = Bound {
        what: "table",
        limit: most,
        unit: "elements",
        setting: "table_elements",
    };
    if !limiter.is_within(data, growth, bound) || !limiter.allows_table(data, growth) {
        return (NOT_GROWN, None);
    }
    owner.slot.note_table(elements);
    // SAFETY: the slot's table has room for `table_elements` elements, and the new ones are among
    // them.
    let bulk = unsafe {
        let new = ((*desc).base as *mut u64).add(previous as usize);
        Bulk::words(new, reference, delta as usize).growing(desc, elements)
    };
    (previous, Some(bulk))
}

/// Checks that an element segment has `len` references from `from` on. A dropped segment has none
/// (spec 4.4.6, elem.drop).
pub(super) fn check_elements<T>(
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

/// The write of `len` references of an element segment, from `from` on, to index `to` of a table.
/// The segment must have so many, and may have been dropped.
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

/// How many elements of a segment, at most `most`, are written between two checks of the interrupt
/// flag.
///
/// Their constant expressions have at most [`CONSTANT_OPERATORS_MAX`] operators together. At least
/// one element is written.
pub(super) fn elements_at_once<T>(member: &Member<T>, segment: u32, from: u64, most: u64) -> u64 {
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

/// Writes `len` references of an element segment, from `from` on, to `to`. The segment must have so
/// many, and may have been dropped.
///
/// # Safety
///
/// `to` must point to `len` words of a table or an array.
pub(super) unsafe fn copy_elements<T>(
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
    for i in 0..len as usize {
        let at = from as usize + i;
        let value = match made {
            Some(made) => made[at],
            None => {
                let value = plan::element(items, at, global, metadata, layout);
                value.at(member.vmctx()).u64()
            }
        };
        // SAFETY: the caller ensures that `to` points to `len` words.
        unsafe { to.add(i).write(value) };
    }
}

/// The value of global `index` of a member.
pub(super) fn global<T>(member: &Member<T>, index: u32) -> Cell {
    // SAFETY: the cell belongs to a global of an initialised instance, or to the global's owner.
    unsafe { *member.global_cell(index) }
}

/// The offset of an active segment, evaluated with this instance's globals. `address` is its type.
pub(super) fn offset<T>(member: &Member<T>, expr: &ConstExpr, address: AddrType) -> u64 {
    let value = evaluate(
        expr,
        |index| Some(Constant::Absolute(global(member, index))),
        |_| None,
    );
    match value {
        Some(Constant::Absolute(cell)) => address.address(cell.u64()),
        // No offset is a reference. No memory or table has this size, so the bounds check fails.
        _ => u64::MAX,
    }
}

/// Position of an element segment in the bit set of dropped segments, after all data segments.
fn element_position<T>(member: &Member<T>, segment: u32) -> u32 {
    member.inner.module.metadata().data.len() as u32 + segment
}

/// The word that holds the bit of a segment, and that bit.
fn segment_bit<T>(member: &Member<T>, position: u32) -> (*mut u64, u64) {
    let (word, bit) = member.inner.module.layout().segment(position);
    (member.cell(word), 1 << bit)
}

fn is_dropped<T>(member: &Member<T>, position: u32) -> bool {
    let (word, bit) = segment_bit(member, position);
    // SAFETY: the word lies in the initialised instance area.
    unsafe { *word & bit != 0 }
}

fn drop_segment<T>(member: &Member<T>, position: u32) {
    let (word, bit) = segment_bit(member, position);
    // SAFETY: the word lies in the initialised instance area.
    unsafe { *word |= bit };
}
