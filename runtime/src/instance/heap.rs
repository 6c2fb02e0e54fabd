//! The heap of structs and arrays: allocation, growth, and the objects that an instance makes
//! before any of its code runs.
//!
//! The objects lie one after another in the address range of one more memory of the slot. At first
//! no byte of that range is accessible. Each reset gives the whole range back. All bytes from
//! [`Context::heap_next`](pirn_format::layout::Context::heap_next) on are zero.
//!
//! # Safety
//!
//! This file owns the contents of the heap, together with generated code. It writes an object only
//! after its bytes were allocated and made accessible.
#![allow(unsafe_code)]

use super::builtin;
use super::bulk::{Bulk, Halt, NotStarted, look};
use super::constant;
use super::member::{Member, Share};
use super::plan;
use crate::host::limiter::{Bound, Growing, Growth, GrowthError};
use crate::stop::Watched;
use crate::value::Cell;
use core::{ptr, slice};
use pirn_format::exit::TrapCode;
use pirn_format::layout::{
    ARRAY_LEN, CONTEXT_HEAP_END, CONTEXT_HEAP_NEXT, EXTERNAL_PREFIX, EXTERNAL_SHIFT, HOST_SHIFT,
    OBJECT_ALIGN, OBJECT_HEADER_BYTES, OBJECT_TYPE, TAG_ARRAY, TAG_BITS, TAG_BOXED, TAG_HOST,
    WASM_PAGE_BYTES,
};
use pirn_format::metadata::{ConstExpr, ConstOp, ElementItems};
use pirn_format::types::StorageType;
use std::sync::Arc;

/// References of element segments that an instance has made, by segment. The list is empty for
/// other segments and for dropped segments.
pub(crate) type Made = Vec<Vec<u64>>;

/// The type id of a box: no process has so many types.
const BOX_TYPE: u32 = u32::MAX;

/// Address of the next object of a member.
fn next<T>(member: &Member<T>) -> u64 {
    // SAFETY: the context belongs to an initialised instance, whose guest does not run.
    unsafe { *member.cell::<u64>(CONTEXT_HEAP_NEXT) }
}

/// All words of the objects of a member.
pub(super) fn words<T>(member: &Member<T>) -> &[u64] {
    let Some(number) = member.inner.plan.heap else {
        return &[];
    };
    let base = member.slot.memory(&member.inner.region, number);
    let bytes = next(member) - base as u64;
    // SAFETY: the range up to the next object is accessible and aligned. The guest does not run.
    unsafe { slice::from_raw_parts(base.cast(), bytes as usize / 8) }
}

/// Makes `bytes` bytes accessible after the last object of member `at`.
///
/// # Errors
///
/// [`TrapCode::HeapExhausted`] if the region, the embedder or the system does not allow it.
pub(super) fn grow<T>(
    members: &mut [Member<T>],
    at: usize,
    bytes: u64,
    data: &mut T,
) -> Result<(), TrapCode> {
    let member = &mut members[at];
    let next = next(member);
    // SAFETY: the context belongs to an initialised instance, whose guest does not run.
    let end = unsafe { *member.cell::<u64>(CONTEXT_HEAP_END) };
    // The sum cannot overflow: an array has fewer than 2^37 bytes.
    if next + bytes <= end {
        return Ok(());
    }
    let Some(number) = member.inner.plan.heap else {
        return Err(TrapCode::HeapExhausted);
    };
    let (region, limiter) = (&member.inner.region, &member.inner.limiter);
    let base = member.slot.memory(region, number) as u64;
    let (current, used) = (end - base, next + bytes - base);
    let limit = region.limits().memory_bytes_max as u64;
    let growth = |desired: u64| Growth {
        what: Growing::Objects,
        current,
        desired,
        maximum: None,
    };
    let bound = Bound {
        what: "place for structs and arrays",
        limit,
        unit: "bytes",
        setting: "memory_max",
    };
    if !limiter.is_within(data, growth(used), bound) {
        return Err(TrapCode::HeapExhausted);
    }
    let least = used.next_multiple_of(WASM_PAGE_BYTES);
    let desired = (2 * current).clamp(least, limit.max(least));
    let allowed = [desired, least].into_iter();
    let mut allowed = allowed.filter(|bytes| *bytes <= limit);
    let allowed = allowed.find(|bytes| limiter.allows_memory(data, growth(*bytes)));
    let Some(bytes) = allowed else {
        return Err(TrapCode::HeapExhausted);
    };
    if let Err(error) = member.slot.grow_memory(region, number, bytes) {
        limiter.failed(data, growth(bytes), GrowthError::System(error));
        return Err(TrapCode::HeapExhausted);
    }
    // SAFETY: the context belongs to an initialised instance, whose guest does not run.
    unsafe { member.cell::<u64>(CONTEXT_HEAP_END).write(base + bytes) };
    Ok(())
}

/// Allocates an object of `bytes` bytes and returns its address. Its header has the type `id`, and
/// all other bytes are zero.
fn allocate<T>(
    members: &mut [Member<T>],
    at: usize,
    id: u32,
    bytes: u64,
    data: &mut T,
) -> Result<u64, TrapCode> {
    let bytes = bytes.next_multiple_of(u64::from(OBJECT_ALIGN));
    grow(members, at, bytes, data)?;
    let start = next(&members[at]);
    // SAFETY: the context belongs to an initialised instance, whose guest does not run. `grow` made
    // the bytes accessible.
    unsafe {
        members[at]
            .cell::<u64>(CONTEXT_HEAP_NEXT)
            .write(start + bytes);
        ((start as i64 + i64::from(OBJECT_TYPE)) as *mut u32).write(id);
    }
    Ok(start)
}

/// The process-wide id of a member's type.
fn id<T>(member: &Member<T>, ty: u32) -> u32 {
    member.inner.module.type_ids()[ty as usize]
}

/// The storage type of the elements of a member's array type.
fn element<T>(member: &Member<T>, ty: u32) -> Result<StorageType, TrapCode> {
    let element = member.inner.module.metadata().array_element(ty);
    // It is always present in a validated module.
    element
        .map(|element| element.storage)
        .ok_or(TrapCode::Unreachable)
}

/// Allocates an array of `len` zero or null elements, and returns its address.
fn array<T>(
    members: &mut [Member<T>],
    at: usize,
    ty: u32,
    len: u32,
    data: &mut T,
) -> Result<u64, TrapCode> {
    let log2 = element(&members[at], ty)?.log2();
    let bytes = u64::from(OBJECT_HEADER_BYTES) + (u64::from(len) << log2);
    let id = id(&members[at], ty);
    let start = allocate(members, at, id, bytes, data)?;
    // SAFETY: `allocate` has just made the array and its header.
    unsafe { ((start as i64 + i64::from(ARRAY_LEN)) as *mut u32).write(len) };
    Ok(start)
}

/// Address of the first element of an array.
fn elements(array: u64) -> u64 {
    array + u64::from(OBJECT_HEADER_BYTES)
}

/// Writes the value of a field or an element.
///
/// # Safety
///
/// `address` must be the address of a field or an element with this storage type.
unsafe fn store(address: u64, storage: StorageType, value: Cell) {
    let bytes = storage.bytes() as usize;
    // SAFETY: the caller ensures that a value of this type lies there. A cell has 16 bytes, and no
    // storage type is larger.
    unsafe { ptr::copy_nonoverlapping(value.0.as_ptr(), address as *mut u8, bytes) };
}

/// Writes a value to `len` elements, which are zero.
///
/// # Errors
///
/// The call was stopped during the write.
///
/// # Safety
///
/// The elements must belong to an array of the member.
unsafe fn fill<T>(
    member: &Member<T>,
    address: u64,
    len: u64,
    (storage, value): (StorageType, Cell),
    watched: Option<&Watched>,
) -> Result<(), Halt> {
    let one = storage.bytes() as usize;
    if len == 0 || value.0[..one].iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    // SAFETY: the caller ensures that `len` elements of an array lie there.
    let mut bulk = unsafe {
        store(address, storage, value);
        Bulk::repeat(address as *mut u8, one, one * len as usize)
    };
    bulk.run(member, watched)
}

/// Allocates an array for a part of a data segment: `array.new_data`. The caller must run the
/// returned write of its elements.
pub(super) fn array_of_data<T>(
    members: &mut [Member<T>],
    at: usize,
    [ty, segment]: [u32; 2],
    [from, len]: [u64; 2],
    data: &mut T,
) -> Result<(u64, Bulk), TrapCode> {
    let bytes = len << element(&members[at], ty)?.log2();
    let source = builtin::data_left(&members[at], segment);
    let source = builtin::data_part(source, from, bytes)?.as_ptr();
    // A length is an i32, so the conversion is exact.
    let array = array(members, at, ty, len as u32, data)?;
    // SAFETY: the array has so many bytes and does not move. `data_part` checked the source.
    let bulk = unsafe { Bulk::copy(elements(array) as *mut u8, source, bytes as usize) };
    Ok((array | TAG_ARRAY, bulk))
}

/// Allocates an array for references of an element segment: `array.new_elem`. The caller must run
/// the returned write of its elements.
pub(super) fn array_of_elements<T>(
    members: &mut [Member<T>],
    at: usize,
    [ty, segment]: [u32; 2],
    [from, len]: [u64; 2],
    data: &mut T,
) -> Result<(u64, Bulk), TrapCode> {
    builtin::check_elements(&members[at], segment, from, len)?;
    let array = array(members, at, ty, len as u32, data)?;
    // SAFETY: the array has so many elements and does not move.
    let bulk = unsafe { Bulk::elements(elements(array) as *mut u64, segment, from, len) };
    Ok((array | TAG_ARRAY, bulk))
}

/// Converts an external reference of the host to an internal one. Allocates a box if the number
/// does not fit otherwise.
pub(super) fn internalized<T>(
    members: &mut [Member<T>],
    at: usize,
    number: u64,
    data: &mut T,
) -> Result<u64, TrapCode> {
    if number == 0 {
        return Ok(0);
    }
    if number >> EXTERNAL_SHIFT == EXTERNAL_PREFIX {
        return Ok(number & ((1 << EXTERNAL_SHIFT) - 1));
    }
    let word = number << HOST_SHIFT | TAG_HOST;
    if word >> HOST_SHIFT == number {
        return Ok(word);
    }
    let bytes = u64::from(OBJECT_HEADER_BYTES) + 8;
    let start = allocate(members, at, BOX_TYPE, bytes, data)?;
    // SAFETY: the box has room for one word after its header.
    unsafe { (elements(start) as *mut u64).write(number) };
    Ok(start | TAG_BOXED)
}

/// Makes the initial values that differ from instance to instance, in the order of the module (spec
/// 3.0, 4.7.3): those of globals, tables and element segments. Fills large tables first.
///
/// # Errors
///
/// The slot or the host has no room, or the start was stopped.
pub(super) fn make<T>(
    members: &mut [Member<T>],
    at: usize,
    data: &mut T,
    watched: Option<&Watched>,
) -> Result<(), NotStarted> {
    let inner = Arc::clone(&members[at].inner);
    let (metadata, plan) = (inner.module.metadata(), &inner.plan);
    let imported = inner.module.imported();
    let table = |member: &Member<T>, position: u32| {
        let (_, elements) = plan.table_cells[position as usize];
        (
            member.slot.table(&inner.region, position),
            elements as usize,
        )
    };
    for position in &plan.filled_tables {
        let initial = &plan.tables[*position as usize];
        let word = initial.rest.at(members[at].vmctx()).u64();
        let (start, elements) = table(&members[at], *position);
        let written = initial.first.len();
        // SAFETY: the table has room for `elements` elements, see `check_limits`. The first
        // `written` ones are skipped.
        let mut bulk = unsafe { Bulk::words(start.add(written), word, elements - written) };
        bulk.run(&members[at], watched)?;
    }
    for index in &plan.made_globals {
        let init = &metadata.global_inits[(index - imported.globals) as usize];
        let value = value(members, at, &inner, init, data, watched)?;
        // SAFETY: the cell belongs to a global that the instance defines.
        unsafe { members[at].global_cell(*index).write(value) };
    }
    for position in &plan.made_tables {
        let Some(init) = &metadata.table_inits[*position as usize] else {
            continue;
        };
        let value = value(members, at, &inner, init, data, watched)?.u64();
        let (start, elements) = table(&members[at], *position);
        // SAFETY: the table has room for `elements` elements, see `check_limits`.
        let mut bulk = unsafe { Bulk::words(start, value, elements) };
        bulk.run(&members[at], watched)?;
    }
    let mut made: Made = vec![];
    for (segment, element) in metadata.elements.iter().enumerate() {
        if let ElementItems::Exprs(exprs) = &element.items
            && plan::allocates(&element.items)
        {
            let lists = segment + 1 - made.len();
            let bytes = lists * size_of::<Vec<u64>>() + exprs.len() * size_of::<u64>();
            members[at].account().hold(bytes)?;
            made.reserve_exact(lists);
            made.resize_with(segment + 1, Vec::new);
            made[segment].reserve_exact(exprs.len());
            for expr in exprs {
                let value = value(members, at, &inner, expr, data, watched)?;
                made[segment].push(value.u64());
            }
        }
    }
    members[at].made = made;
    Ok(())
}

/// The value of a constant expression of a member. The globals that it uses have their values.
fn value<T>(
    members: &mut [Member<T>],
    at: usize,
    inner: &Share<T>,
    expr: &ConstExpr,
    data: &mut T,
    watched: Option<&Watched>,
) -> Result<Cell, Halt> {
    let (metadata, structs) = (inner.module.metadata(), inner.module.structs());
    // Validation refuses expressions without a value.
    const NONE: Halt = Halt::Trap(TrapCode::Unreachable);
    let mut stack: Vec<Cell> = vec![];
    for op in &expr.0 {
        look(watched)?;
        let value = match *op {
            ConstOp::GlobalGet(index) => builtin::global(&members[at], index),
            ConstOp::RefFunc(index) => {
                let func = plan::func(index, metadata, inner.module.layout()).ok_or(NONE)?;
                func.at(members[at].vmctx())
            }
            ConstOp::StructNew(ty) | ConstOp::StructNewDefault(ty) => {
                let fields = metadata.struct_fields(ty);
                let places = structs.fields(ty);
                let id = id(&members[at], ty);
                let start = allocate(members, at, id, u64::from(places.bytes), data)?;
                if matches!(op, ConstOp::StructNew(_)) {
                    let first = stack.len().checked_sub(fields.len()).ok_or(NONE)?;
                    let values = stack.split_off(first);
                    for ((field, offset), value) in fields.iter().zip(places.offsets).zip(values) {
                        // SAFETY: the struct has the field at this offset.
                        unsafe { store(start + u64::from(*offset), field.storage, value) };
                    }
                }
                Cell::from_u64(start)
            }
            ConstOp::ArrayNew(ty) | ConstOp::ArrayNewDefault(ty) => {
                let len = stack.pop().ok_or(NONE)?.u32();
                let storage = element(&members[at], ty)?;
                let array = array(members, at, ty, len, data)?;
                if matches!(op, ConstOp::ArrayNew(_)) {
                    let value = stack.pop().ok_or(NONE)?;
                    let (first, what) = (elements(array), (storage, value));
                    // SAFETY: the array has `len` elements, which are zero.
                    unsafe { fill(&members[at], first, u64::from(len), what, watched)? };
                }
                Cell::from_u64(array | TAG_ARRAY)
            }
            ConstOp::ArrayNewFixed(ty, len) => {
                let first = stack.len().checked_sub(len as usize).ok_or(NONE)?;
                let values = stack.split_off(first);
                let storage = element(&members[at], ty)?;
                let array = array(members, at, ty, len, data)?;
                for (n, value) in (0..).zip(values) {
                    // SAFETY: the array has `len` elements, and `n` is less than `len`.
                    unsafe { store(elements(array) + (n << storage.log2()), storage, value) };
                }
                Cell::from_u64(array | TAG_ARRAY)
            }
            ConstOp::AnyConvertExtern => {
                let number = stack.pop().ok_or(NONE)?.u64();
                Cell::from_u64(internalized(members, at, number, data)?)
            }
            ConstOp::ExternConvertAny => {
                let any = stack.pop().ok_or(NONE)?.u64();
                Cell::from_u64(match any & TAG_BITS {
                    // SAFETY: the tag says that it is a box, made by this instance or its group.
                    TAG_BOXED => unsafe { *(elements(any & !TAG_BITS) as *const u64) },
                    _ => constant::externalized(any),
                })
            }
            _ => constant::step(op, &mut stack).ok_or(NONE)?,
        };
        stack.push(value);
    }
    stack.pop().ok_or(NONE)
}
