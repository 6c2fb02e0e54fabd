//! `memory.grow` and `table.grow`.
//!
//! # Safety
//!
//! This file owns one fact. A descriptor gets a new size only after the slot has made the bytes
//! accessible.
#![allow(unsafe_code)]

use crate::memory::SharedMemory;
use crate::store::bulk::Bulk;
use crate::store::descriptors::{memory, table};
use crate::store::growth::{Bound, Growing, Growth, GrowthError, Limiter};
use crate::store::member::Member;
use pirn_format::layout::{MEMORY_BYTES_MAX, WASM_PAGE_BYTES};

/// Why a table did not grow.
#[derive(Debug, Clone, Copy)]
pub(super) enum NotGrown {
    /// The table's type, or the region, allows only this many elements.
    Limit(u64),
    /// The embedder's limiter refused.
    Refused,
}

/// The result of an instruction that could not grow.
pub(super) const NOT_GROWN: u64 = u64::MAX;

/// Grows memory `index` of member `at` by `delta` pages. Returns the old number of pages, or
/// [`NOT_GROWN`].
///
/// The type of the memory, the region, the embedder and the system must all allow the growth, and
/// are asked in this order.
pub(super) fn grow_memory<T>(
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
    // SAFETY: `desc` names a memory of an initialised member, see `store::descriptors`.
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
        setting: "memory_bytes_max",
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
/// The type of the memory, the embedder and the system must all allow the growth, and are asked in
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

/// The member whose instance area contains a descriptor.
fn owner<T>(members: &mut [Member<T>], desc: u64) -> Option<&mut Member<T>> {
    members.iter_mut().find(|member| {
        let area = u64::from(member.inner.module.layout().bytes());
        let end = member.vmctx() as u64;
        (end - area..end).contains(&desc)
    })
}

/// Grows table `index` of member `at` by `delta` elements. Returns the old number of elements, and
/// the write that fills the new elements with `reference`. The caller must have checked the type of
/// `reference`.
///
/// The table gets its new size only when that write is complete. So a call that is stopped earlier
/// leaves no element that the table's type forbids. The table's type, the region and the embedder
/// must all allow the growth, as in [`grow_memory`].
///
/// # Errors
///
/// The reason why the table cannot grow.
pub(super) fn grow_table<T>(
    members: &mut [Member<T>],
    index: u32,
    at: usize,
    reference: u64,
    delta: u64,
    data: &mut T,
) -> Result<(u64, Option<Bulk>), NotGrown> {
    let desc = table(&members[at], index);
    // Each table belongs to a member, so `owner` finds that member.
    let owner = owner(members, desc as u64).ok_or(NotGrown::Refused)?;
    let metadata = owner.inner.module.metadata();
    let position = (0..metadata.tables.len() as u32).find(|i| table(owner, *i) == desc);
    let position = position.ok_or(NotGrown::Refused)?;
    let ty = metadata.tables[position as usize];
    let room = u64::from(owner.inner.region.limits().table_elements);
    let most = ty.max.unwrap_or(u64::MAX).min(room);
    // SAFETY: `desc` names a table of an initialised member, see `store::descriptors`.
    let previous = unsafe { (*desc).elements };
    let elements = previous.saturating_add(delta);
    if delta == 0 {
        return Ok((previous, None));
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
    if !limiter.is_within(data, growth, bound) {
        return Err(NotGrown::Limit(most));
    }
    if !limiter.allows_table(data, growth) {
        return Err(NotGrown::Refused);
    }
    owner.slot.note_table(elements);
    // SAFETY: the slot's table has room for `table_elements` elements, and the new elements are
    // among them.
    let bulk = unsafe {
        let new = ((*desc).base as *mut u64).add(previous as usize);
        Bulk::words(new, reference, delta as usize).growing(desc, elements)
    };
    Ok((previous, Some(bulk)))
}
