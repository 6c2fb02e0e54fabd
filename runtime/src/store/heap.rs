//! The words of the structs and arrays of an instance.
//!
//! # Safety
//!
//! This file owns two facts. The bytes from the base of the heap up to the next object are
//! accessible. A box has a number of the host after its header.
#![allow(unsafe_code)]

use super::member::Member;
use core::slice;
use pirn_format::layout::{CONTEXT_HEAP_NEXT, OBJECT_HEADER_BYTES, TAG_BITS};

/// Address of the next object of a member.
pub(crate) fn next<T>(member: &Member<T>) -> u64 {
    // SAFETY: the context belongs to an initialised instance, whose guest does not run.
    unsafe { *member.cell::<u64>(CONTEXT_HEAP_NEXT) }
}

/// All words of the objects of a member.
pub(crate) fn words<T>(member: &Member<T>) -> &[u64] {
    let Some(number) = member.inner.plan.heap else {
        return &[];
    };
    let base = member.slot.memory(&member.inner.region, number);
    let bytes = next(member) - base as u64;
    // SAFETY: the range up to the next object is accessible and aligned. The guest does not run.
    unsafe { slice::from_raw_parts(base.cast(), bytes as usize / 8) }
}

/// The host's number in a box.
///
/// # Safety
///
/// `any` must be a reference with the tag of a box, made by an instance that still lives.
pub(crate) unsafe fn number_in_box(any: u64) -> u64 {
    let number = (any & !TAG_BITS) + u64::from(OBJECT_HEADER_BYTES);
    // SAFETY: the caller ensures that `any` refers to a box. A box has an aligned word after its
    // header.
    unsafe { *(number as *const u64) }
}
