//! The heap of structs and arrays: allocation and growth.
//!
//! The objects lie one after another in the address range of one more memory of the slot. At first
//! no byte of that range is accessible. Each reset gives the whole range back. All bytes from
//! [`Context::heap_next`](pirn_format::layout::Context::heap_next) on are zero.
//!
//! # Safety
//!
//! This file owns the contents of the heap, together with generated code. The file writes an object
//! only after the object's bytes were allocated and made accessible.
#![allow(unsafe_code)]

use crate::stop::{Halt, Watched};
use crate::store::bulk::Bulk;
use crate::store::descriptors;
use crate::store::growth::{Bound, Growing, Growth, GrowthError};
use crate::store::heap::next;
use crate::store::member::Member;
use crate::value::Cell;
use core::ptr;
use pirn_format::exit::TrapCode;
use pirn_format::layout::{
    ARRAY_LEN, CONTEXT_HEAP_END, CONTEXT_HEAP_NEXT, EXTERNAL_PREFIX, EXTERNAL_SHIFT, HOST_SHIFT,
    OBJECT_ALIGN, OBJECT_HEADER_BYTES, OBJECT_TYPE, TAG_ARRAY, TAG_BOXED, TAG_HOST,
    WASM_PAGE_BYTES,
};
use pirn_format::types::StorageType;

/// The type id of a box. No type gets this id, because no process has 2^32 types.
const BOX_TYPE: u32 = u32::MAX;

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
        setting: "memory_bytes_max",
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
pub(super) fn allocate<T>(
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
pub(super) fn id<T>(member: &Member<T>, ty: u32) -> u32 {
    member.inner.module.type_ids()[ty as usize]
}

/// The storage type of the elements of a member's array type.
pub(super) fn element<T>(member: &Member<T>, ty: u32) -> Result<StorageType, TrapCode> {
    let element = member.inner.module.metadata().array_element(ty);
    // A validated module has the element type of each of its array types.
    element
        .map(|element| element.storage)
        .ok_or(TrapCode::Unreachable)
}

/// Allocates an array of `len` zero or null elements, and returns its address.
pub(super) fn array<T>(
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
pub(super) fn elements(array: u64) -> u64 {
    array + u64::from(OBJECT_HEADER_BYTES)
}

/// Writes the value of a field or an element.
///
/// # Safety
///
/// `address` must be the address of a field or an element with this storage type.
pub(super) unsafe fn store(address: u64, storage: StorageType, value: Cell) {
    let bytes = storage.bytes() as usize;
    // SAFETY: the caller ensures that a value of this type lies at the address. A cell has 16
    // bytes, and no storage type is larger.
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
pub(super) unsafe fn fill<T>(
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
    // SAFETY: the caller ensures that `len` elements of an array lie at the address.
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
    let source = descriptors::data_left(&members[at], segment);
    let source = descriptors::data_part(source, from, bytes)?.as_ptr();
    // A length is an i32, so the conversion is exact.
    let array = array(members, at, ty, len as u32, data)?;
    // SAFETY: the array has `bytes` bytes and does not move. `data_part` checked the source.
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
    descriptors::check_elements(&members[at], segment, from, len)?;
    let array = array(members, at, ty, len as u32, data)?;
    // SAFETY: the array has `len` elements and does not move.
    let bulk = unsafe { Bulk::elements(elements(array) as *mut u64, segment, from, len) };
    Ok((array | TAG_ARRAY, bulk))
}

/// Converts an external reference of the host to an internal reference. Allocates a box for a
/// number that does not fit into a reference.
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
