//! The tables of an instance.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::entry::{guard, out, out_or_null, text};
use crate::error::{PIRN_ERROR_LINK, argument, pirn_error_t};
use crate::instance::{pirn_instance_t, with_instance};
use crate::value::pirn_val_t;
use core::ffi::c_char;

#[cold]
pub(crate) fn no_table(name: &str) -> Box<pirn_error_t> {
    pirn_error_t::text(
        PIRN_ERROR_LINK,
        format!("module exports no table {name:?}; name one that it exports"),
    )
}

#[cold]
pub(crate) fn past_end(elements: u64, index: u64) -> Box<pirn_error_t> {
    argument(format!(
        "table has {elements} elements, element {index} was asked for; pass a smaller index"
    ))
}

/// Writes the number of elements of the exported table `name` to `elements`.
///
/// # Safety
///
/// `instance` is a live handle, `name` is a C string, `elements` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_table_size(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    elements: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, a C string `name`
    // and a writable `elements`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(elements, "elements")?, text(name, "name")?);
        let found = with_instance!(instance, |guest| {
            let table = guest.table(name).ok_or_else(|| no_table(name))?;
            Ok(table.len())
        })?;
        to.set(found);
        Ok(())
    })
}

/// Reads an element of the exported table `name`. PIRN_ERROR_ARGUMENT past the end of the table.
///
/// # Safety
///
/// `instance` is a live handle, `name` is a C string, `value` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_table_get(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    index: u64,
    value: *mut pirn_val_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, a C string `name`
    // and a writable `value`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(value, "value")?, text(name, "name")?);
        let found = with_instance!(instance, |guest| {
            let table = guest.table(name).ok_or_else(|| no_table(name))?;
            let found = table.get(index);
            let found = found.ok_or_else(|| past_end(table.len(), index))?;
            pirn_val_t::of(found, &mut guest.data_mut().references)
        })?;
        to.set(found);
        Ok(())
    })
}

/// Sets `count` elements of the exported table `name`, from `index` on. PIRN_ERROR_ARGUMENT past
/// the end of the table, and for a value that the table cannot hold. After an error no element has
/// changed. Other instances of the group that import the table see the changes.
///
/// # Safety
///
/// `instance` is a live handle, `name` is a C string. The field of `value` that its kind names was
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_table_fill(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    index: u64,
    value: pirn_val_t,
    count: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a C string
    // `name`, valid during this call. The field of `value` that its kind names is written.
    guard(|| unsafe {
        let name = text(name, "name")?;
        with_instance!(instance, |guest| {
            let value = value.value(&guest.data().references)?;
            Ok(guest.table_mut(name)?.fill(index, value, count)?)
        })
    })
}

/// Adds `delta` elements with this value to the exported table `name`. Writes the previous number
/// of elements to `before` unless `before` is NULL. PIRN_ERROR_ARGUMENT past the maximum of the
/// table's type or of the region, or for a value that the table cannot hold. After an error the
/// table has not grown.
///
/// # Safety
///
/// `instance` is a live handle, `name` is a C string, `before` is writable or NULL. The field of
/// `value` that its kind names was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_table_grow(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    delta: u64,
    value: pirn_val_t,
    before: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, a C string `name`
    // and a writable or NULL `before`. All are valid during this call. The field of `value` that
    // its kind names is written.
    guard(|| unsafe {
        let name = text(name, "name")?;
        let to = out_or_null(before, "before")?;
        let found = with_instance!(instance, |guest| {
            let value = value.value(&guest.data().references)?;
            Ok(guest.table_mut(name)?.grow(delta, value)?)
        })?;
        if let Some(to) = to {
            to.set(found);
        }
        Ok(())
    })
}
