//! The globals and tables of a group's instances.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use super::{pirn_group_t, pirn_member_t};
use crate::entry::{guard, out, out_or_null, text};
use crate::error::{Fallible, pirn_error_t};
use crate::exclusive::with;
use crate::memory::no_global;
use crate::table::{no_table, past_end};
use crate::value::pirn_val_t;
use core::ffi::c_char;

/// As pirn_instance_global, for an instance of a group.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string, `value` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_global(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    value: *mut pirn_val_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, a C string `name` and a
    // writable `value`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(value, "value")?, text(name, "name")?);
        let found = with(group, |members| {
            let mut lent = members.lend(member)?;
            let found = lent.global(name).ok_or_else(|| no_global(name))?;
            pirn_val_t::of(found, &mut lent.data_mut().references)
        })?;
        to.set(found);
        Ok(())
    })
}

/// As pirn_instance_set_global, for an instance of a group. Other instances that import the global
/// see the new value.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string. The field of `value` that its kind names was
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_set_global(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    value: pirn_val_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a C string `name`,
    // valid during this call. The field of `value` that its kind names is written.
    guard(|| unsafe {
        let name = text(name, "name")?;
        with(group, |members| {
            let mut lent = members.lend(member)?;
            let value = value.value(&lent.data().references)?;
            Ok(lent.set_global(name, value)?)
        })
    })
}

/// As pirn_instance_table_size, for an instance of a group.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string, `elements` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_table_size(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    elements: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, a C string `name` and a
    // writable `elements`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(elements, "elements")?, text(name, "name")?);
        let found = with(group, |members| {
            let lent = members.lend(member)?;
            let table = lent.table(name);
            Ok(table.ok_or_else(|| no_table(name))?.len())
        })?;
        to.set(found);
        Ok(())
    })
}

/// As pirn_instance_table_get, for an instance of a group.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string, `value` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_table_get(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    index: u64,
    value: *mut pirn_val_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, a C string `name` and a
    // writable `value`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(value, "value")?, text(name, "name")?);
        let found = with(group, |members| {
            let mut lent = members.lend(member)?;
            let table = lent.table(name);
            let table = table.ok_or_else(|| no_table(name))?;
            let found = table.get(index);
            let found = found.ok_or_else(|| past_end(table.len(), index))?;
            pirn_val_t::of(found, &mut lent.data_mut().references)
        })?;
        to.set(found);
        Ok(())
    })
}

/// As pirn_instance_table_fill, for an instance of a group. Other instances that import the table
/// see the changes.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string. The field of `value` that its kind names was
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_table_fill(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    index: u64,
    value: pirn_val_t,
    count: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a C string `name`,
    // valid during this call. The field of `value` that its kind names is written.
    guard(|| unsafe {
        let name = text(name, "name")?;
        with(group, |members| {
            let mut lent = members.lend(member)?;
            let value = value.value(&lent.data().references)?;
            let mut table = lent.table_mut(name)?;
            Ok(table.fill(index, value, count)?)
        })
    })
}

/// As pirn_instance_table_grow, for an instance of a group.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string, `before` is writable or NULL. The field of
/// `value` that its kind names was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_table_grow(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    delta: u64,
    value: pirn_val_t,
    before: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, a C string `name` and a
    // writable or NULL `before`. All are valid during this call. The field of `value` that its kind
    // names is written.
    guard(|| unsafe {
        let name = text(name, "name")?;
        let to = out_or_null(before, "before")?;
        let found = with(group, |members| -> Fallible<u64> {
            let mut lent = members.lend(member)?;
            let value = value.value(&lent.data().references)?;
            Ok(lent.table_mut(name)?.grow(delta, value)?)
        })?;
        if let Some(to) = to {
            to.set(found);
        }
        Ok(())
    })
}
