//! Fuel: the remaining fuel of instances whose modules count fuel, see
//! [`Instance::set_fuel`](crate::Instance::set_fuel).
//!
//! The context holds the fuel as a signed number. Generated code subtracts from that number and
//! stops at 0. Fuel beyond the range of that number lies in the [`Record`], where generated code
//! does not use it. A guest would run for centuries before it needs that part.
//!
//! # Safety
//!
//! This file owns the fuel field of the context. Only this file and generated code that counts fuel
//! write the field.
#![allow(unsafe_code)]

use crate::error::FuelError;
use crate::switch::Record;
use pirn_format::layout::CONTEXT_FUEL;

/// The fuel of an instance without set fuel: more than the instance can use.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// The maximum value of the context's field.
const HELD_MAX: u64 = i64::MAX.cast_unsigned();

/// Address of the field from which generated code subtracts.
fn field(vmctx: *mut u8) -> *mut i64 {
    vmctx.wrapping_offset(CONTEXT_FUEL as isize).cast()
}

/// Sets the initial fuel of an instance, if its module `counts`.
///
/// # Safety
///
/// `vmctx` must be the context of a slot in use. Its record must be written, and its guest must not
/// run.
pub(crate) unsafe fn start(vmctx: *mut u8, counts: bool) {
    let above = counts.then_some(UNLIMITED - HELD_MAX);
    // SAFETY: the caller ensures that the context is valid and its guest does not run.
    unsafe {
        (*Record::of(vmctx)).fuel_above = above;
        field(vmctx).write(HELD_MAX.cast_signed());
    }
}

/// The remaining fuel, as [`Instance::fuel`](crate::Instance::fuel) says.
///
/// # Safety
///
/// `vmctx` must be an initialised context, whose guest does not run.
pub(crate) unsafe fn left(vmctx: *mut u8) -> Option<u64> {
    // SAFETY: the caller ensures that the context is initialised and its guest does not run.
    let (above, held) = unsafe { ((*Record::of(vmctx)).fuel_above?, *field(vmctx)) };
    // The field may be negative: code may have used a little more fuel than was left.
    Some(above + held.max(0).cast_unsigned())
}

/// Sets the remaining fuel, as [`Instance::set_fuel`](crate::Instance::set_fuel) says.
///
/// # Errors
///
/// [`FuelError::NotCounted`] if the module does not count fuel.
///
/// # Safety
///
/// As [`left`].
pub(crate) unsafe fn set(vmctx: *mut u8, fuel: u64) -> Result<(), FuelError> {
    let held = fuel.min(HELD_MAX);
    // SAFETY: the caller ensures that the context is initialised and its guest does not run.
    unsafe {
        let before = left(vmctx);
        let account = Record::open_account(vmctx).filter(|account| account.is_measured());
        if let (Some(account), Some(before)) = (account, before) {
            account.fuel_given.add(fuel.wrapping_sub(before));
        }
        let record = &mut *Record::of(vmctx);
        match &mut record.fuel_above {
            Some(above) => *above = fuel - held,
            None => return Err(FuelError::NotCounted),
        }
        field(vmctx).write(held.cast_signed());
    }
    Ok(())
}
