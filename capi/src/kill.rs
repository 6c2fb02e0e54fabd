//! [`pirn_kill_switch_t`]: stops a guest from any thread.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::entry::{self, guard, out, out_or_null, shared};
use crate::error::pirn_error_t;
use crate::instance::{pirn_instance_t, with_instance};
use pirn_runtime::{KillOutcome, KillSwitch};

/// Stops a guest from any thread, in any state of the guest. Any threads may use a switch at the
/// same time. A switch may outlive its instance or group.
pub struct pirn_kill_switch_t {
    switch: KillSwitch,
}

impl pirn_kill_switch_t {
    pub(crate) fn new(switch: KillSwitch) -> Self {
        Self { switch }
    }
}

/// The instance was not running. Every later call fails.
pub const PIRN_KILL_IDLE: u32 = 0;
/// A call was suspended. The call cannot be resumed.
pub const PIRN_KILL_SUSPENDED: u32 = 1;
/// Guest code was running. The guest is interrupted at its current instruction.
pub const PIRN_KILL_GUEST: u32 = 2;
/// A host function was running. The guest ends when the function returns.
pub const PIRN_KILL_HOST: u32 = 3;

/// Makes a switch that ends the guest's calls from any thread, until the instance is deleted. For
/// an instance of a group, the function makes the same switch as pirn_group_kill_switch. That
/// switch ends the calls of all instances of the group, until the group is deleted. Make the switch
/// before the call: while a function uses the instance, pirn_instance_kill_switch returns
/// PIRN_ERROR_BUSY. No switch reaches the module's start in pirn_instance_new;
/// pirn_prepared_start_deadline limits the start.
///
/// # Safety
///
/// `instance` is a live handle, `kill_switch` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_kill_switch(
    instance: *mut pirn_instance_t,
    kill_switch: *mut *mut pirn_kill_switch_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a writable
    // `kill_switch`, valid during this call.
    guard(|| unsafe {
        let to = out(kill_switch, "kill_switch")?;
        let switch = with_instance!(instance, |guest| Ok(guest.kill_switch()))?;
        to.give(pirn_kill_switch_t::new(switch));
        Ok(())
    })
}

/// Ends the guest and every later call of its instance with PIRN_ERROR_KILLED. Does not wait for
/// the guest to end. Unless `outcome` is NULL, writes the previous state of the instance to it: one
/// of PIRN_KILL_IDLE to PIRN_KILL_HOST. PIRN_ERROR_STATE if the instance was deleted or killed
/// before.
///
/// # Safety
///
/// `kill_switch` is a live handle, `outcome` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_kill_switch_kill(
    kill_switch: *const pirn_kill_switch_t,
    outcome: *mut u32,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `kill_switch` and a writable or
    // NULL `outcome`, valid during this call.
    guard(|| unsafe {
        let switch = &shared(kill_switch, "kill_switch")?.switch;
        let to = out_or_null(outcome, "outcome")?;
        let met = switch.kill()?;
        if let Some(to) = to {
            to.set(match met {
                KillOutcome::Idle => PIRN_KILL_IDLE,
                KillOutcome::Suspended => PIRN_KILL_SUSPENDED,
                KillOutcome::Host => PIRN_KILL_HOST,
                _ => PIRN_KILL_GUEST,
            });
        }
        Ok(())
    })
}

/// Ends the time slice of the running call: the call is suspended at its current instruction.
/// Returns 1 if a call with a time slice was running, otherwise 0. Does not wait for the
/// suspension.
///
/// # Safety
///
/// `kill_switch` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_kill_switch_preempt(kill_switch: *const pirn_kill_switch_t) -> i32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `kill_switch`, valid
    // during this call.
    unsafe { entry::read(kill_switch, 0, |switch| switch.switch.preempt().into()) }
}

/// Whether a call of the instance is running: 1 or 0. 0 for NULL.
///
/// # Safety
///
/// `kill_switch` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_kill_switch_is_running(
    kill_switch: *const pirn_kill_switch_t,
) -> i32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `kill_switch`, valid
    // during this call.
    unsafe { entry::read(kill_switch, 0, |switch| switch.switch.is_running().into()) }
}

/// Another handle to the switch, which the caller deletes separately. NULL for NULL.
///
/// # Safety
///
/// `kill_switch` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_kill_switch_clone(
    kill_switch: *const pirn_kill_switch_t,
) -> *mut pirn_kill_switch_t {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `kill_switch`, valid
    // during this call.
    unsafe {
        entry::another(kill_switch, |handle| {
            pirn_kill_switch_t::new(handle.switch.clone())
        })
    }
}

/// Frees a handle. The instance stays as it is.
///
/// # Safety
///
/// `kill_switch` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_kill_switch_delete(kill_switch: *mut pirn_kill_switch_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `kill_switch`, and does
    // not use it again.
    unsafe { entry::delete(kill_switch) };
}
