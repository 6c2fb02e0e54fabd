//! The memories of a group's instances.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles and lists of its callers, by the rules of
//! `entry.rs`.
#![allow(unsafe_code)]

use super::{Members, pirn_group_t, pirn_member_t};
use crate::entry::{guard, out};
use crate::error::{Fallible, pirn_error_t};
use crate::exclusive::with;
use crate::memory::{named, no_memory, read, slice, write};
use core::ffi::{c_char, c_void};
use pirn_runtime::MemoryMut;

impl Members {
    /// Runs `body` with the exported memory `name` of an instance; memory 0 for `None`.
    fn memory<R>(
        &mut self,
        member: pirn_member_t,
        name: Option<&str>,
        body: impl FnOnce(&mut MemoryMut<'_>) -> Fallible<R>,
    ) -> Fallible<R> {
        let mut lent = self.lend(member)?;
        let found = match name {
            None => Some(lent.memory_mut()),
            Some(name) => lent.exported_memory_mut(name),
        };
        body(&mut found.ok_or_else(|| no_memory(name.unwrap_or_default()))?)
    }
}

/// As pirn_instance_memory_size, for an instance of a group. Memory 0 may be imported from another
/// instance.
///
/// # Safety
///
/// `group` is a live handle, `memory` is a C string or NULL, `bytes` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_memory_size(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    memory: *const c_char,
    bytes: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a C string or NULL
    // as `memory`, valid during this call. It also passes a writable `bytes`.
    guard(|| unsafe {
        let (to, name) = (out(bytes, "bytes")?, named(memory)?);
        let size = with(group, |members| {
            members.memory(member, name, |memory| Ok(memory.len()))
        })?;
        to.set(size as u64);
        Ok(())
    })
}

/// As pirn_instance_memory_read, for an instance of a group.
///
/// # Safety
///
/// `group` is a live handle, `memory` is a C string or NULL, `to` has room for `len` bytes that
/// belong to no guest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_memory_read(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    memory: *const c_char,
    address: u64,
    to: *mut c_void,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a C string or NULL
    // as `memory`, valid during this call. It also passes room for `len` bytes at `to`, outside
    // every guest.
    guard(|| unsafe {
        let name = named(memory)?;
        with(group, |members| {
            members.memory(member, name, |memory| read(memory, address, to, len))
        })
    })
}

/// As pirn_instance_memory_write, for an instance of a group.
///
/// # Safety
///
/// `group` is a live handle, `memory` is a C string or NULL, `from` has `len` bytes that belong to
/// no guest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_memory_write(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    memory: *const c_char,
    address: u64,
    from: *const c_void,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a C string or NULL
    // as `memory`, valid during this call. It also passes `len` bytes at `from`, outside every
    // guest.
    guard(|| unsafe {
        let name = named(memory)?;
        with(group, |members| {
            members.memory(member, name, |memory| write(memory, address, from, len))
        })
    })
}

/// As pirn_instance_memory_slice, for an instance of a group.
///
/// # Safety
///
/// `group` is a live handle, `memory` is a C string or NULL, `bytes` is writable. The pointer to
/// the bytes is valid until the next call of the group, the next pirn_group_add, or the end of the
/// group, on threads that have called a guest. Do not pass the pointer to a function of this
/// library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_memory_slice(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    memory: *const c_char,
    address: u64,
    len: u64,
    bytes: *mut *mut u8,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a C string or NULL
    // as `memory`, valid during this call. It also passes a writable `bytes`.
    guard(|| unsafe {
        let (to, name) = (out(bytes, "bytes")?, named(memory)?);
        let place = with(group, |members| {
            members.memory(member, name, |memory| slice(memory, address, len))
        })?;
        to.set(place);
        Ok(())
    })
}
