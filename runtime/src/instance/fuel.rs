//! Fuel: what instances of modules that count it have left, see [`Instance::set_fuel`].
//!
//! The count lies in the context, as a signed number that code takes from and stops at 0. What an
//! instance was given beyond what that can hold lies in the [`Record`], out of the code's reach: it
//! would take centuries to be missed.
//!
//! # Safety
//!
//! Owns the context's field for fuel: only code that counts and this file write it.
#![allow(unsafe_code)]

use super::Instance;
use super::member::Member;
use crate::error::{FuelError, Operation};
use crate::switch::Record;
use pirn_format::layout::CONTEXT_FUEL;

/// The fuel of an instance that was given none: more than it can use.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// The most that the context's field holds.
const HELD_MAX: u64 = i64::MAX.cast_unsigned();

/// Address of what the code takes from.
fn field(vmctx: *mut u8) -> *mut i64 {
    vmctx.wrapping_offset(CONTEXT_FUEL as isize).cast()
}

/// Gives an instance its first fuel, if its module `counts`.
///
/// # Safety
///
/// `vmctx` must be the context of a taken slot with a written record, whose guest does not run.
pub(crate) unsafe fn start(vmctx: *mut u8, counts: bool) {
    let above = counts.then_some(UNLIMITED - HELD_MAX);
    // SAFETY: by the caller.
    unsafe {
        (*Record::of(vmctx)).fuel_above = above;
        field(vmctx).write(HELD_MAX.cast_signed());
    }
}

/// What is left, as [`Instance::fuel`] says.
///
/// # Safety
///
/// `vmctx` must be an initialised context, whose guest does not run.
pub(crate) unsafe fn left(vmctx: *mut u8) -> Option<u64> {
    // SAFETY: by the caller.
    let (above, held) = unsafe { ((*Record::of(vmctx)).fuel_above?, *field(vmctx)) };
    // Code may have used a little more than there was.
    Some(above + held.max(0).cast_unsigned())
}

/// Has an instance have so much fuel, as [`Instance::set_fuel`] says.
///
/// # Errors
///
/// [`FuelError::NotCounted`].
///
/// # Safety
///
/// As [`left`].
pub(crate) unsafe fn set(vmctx: *mut u8, fuel: u64) -> Result<(), FuelError> {
    let held = fuel.min(HELD_MAX);
    // SAFETY: by the caller.
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

impl<T> Member<T> {
    /// As [`Instance::fuel`].
    pub(crate) fn fuel(&self) -> Option<u64> {
        // SAFETY: an initialised context; the guest does not run.
        unsafe { left(self.vmctx()) }
    }

    /// As [`Instance::set_fuel`].
    pub(crate) fn set_fuel(&mut self, fuel: u64) -> Result<(), FuelError> {
        // SAFETY: as in `fuel`.
        unsafe { set(self.vmctx(), fuel) }
    }
}

impl<T, Q, A> Instance<T, Q, A> {
    /// The fuel that is left; `None` if the module was compiled without `aotc --fuel`.
    ///
    /// It is exact, but where a signal ended the guest: at a memory access out of bounds, a stack overflow,
    /// a kill, a deadline. There the operators since the last loop's start, call or function's start are
    /// not counted. Nor are they, until it goes on, where a guest was preempted.
    #[must_use]
    pub fn fuel(&self) -> Option<u64> {
        self.member.fuel()
    }

    /// Has the instance have so much fuel, whatever it had. Each WebAssembly operator that a guest
    /// executes uses up 1 (docs/CLI.md says which use more, or none). Without any left, no function is
    /// entered and no further pass of a loop begun: the call ends with
    /// [`TrapCode::OutOfFuel`](crate::TrapCode::OutOfFuel), and the instance can be called again once it
    /// has fuel. A new instance has `u64::MAX`, or what [`Prepared::start_fuel`](crate::Prepared::start_fuel) says.
    ///
    /// # Errors
    ///
    /// [`FuelError::NotCounted`] if the module was compiled without `aotc --fuel`; [`FuelError::State`] while
    /// a call is suspended: one that was preempted has its count in a register. A host function that it waits
    /// for can set it, by its [`Caller`](crate::Caller).
    pub fn set_fuel(&mut self, fuel: u64) -> Result<(), FuelError> {
        if let Some(call) = &self.suspended {
            return Err(call.refuses(Operation::SetFuel).into());
        }
        self.member.set_fuel(fuel)
    }
}
