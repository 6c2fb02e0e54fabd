//! [`pirn_instance_t`]: a module in its own slot.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs` and
//! `exclusive.rs`.
#![allow(unsafe_code)]

use crate::data::{Data, Inst};
use crate::entry::{guard, guard_or, list, out, shared, taken, text};
use crate::error::{Fallible, not_counted, pirn_error_t};
use crate::exclusive::{Exclusive, Place, take, with};
use crate::module::pirn_module_t;
use crate::prepared::pirn_prepared_t;
use crate::wasi::pirn_wasi_t;
use core::ffi::{c_char, c_void};
use core::ptr;
use core::time::Duration;

/// An instance of a module, in its own slot. One thread at a time may use the handle, and the
/// handle may move between threads. A function that finds the handle in use returns
/// PIRN_ERROR_BUSY.
pub struct pirn_instance_t {
    place: Place<Inst>,
}

impl Exclusive for pirn_instance_t {
    type Inner = Inst;

    fn place(&self) -> &Place<Inst> {
        &self.place
    }
}

/// Makes an instance: takes a slot, and runs the module's start.
///
/// `data` is any pointer of the embedder's, which host functions get by pirn_caller_data. The
/// library never reads `data`. Keep `data` valid until the instance has ended. An instance that is
/// deleted in its own host function ends when the running call returns.
///
/// `wasi` is the guest's context of WASI, or NULL for an empty one. The library takes `wasi` over
/// in every case. If all slots are taken, the thread waits for `wait_ns` nanoseconds: not at all
/// for 0, without limit for UINT64_MAX.
///
/// # Safety
///
/// `prepared` is a live handle, `wasi` is a live handle, which ends, or NULL. `instance` is
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_new(
    prepared: *const pirn_prepared_t,
    data: *mut c_void,
    wasi: *mut pirn_wasi_t,
    wait_ns: u64,
    instance: *mut *mut pirn_instance_t,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `wasi`, and gives it
        // away.
        let wasi = unsafe { taken(wasi) };
        let wasi = wasi.map(|wasi| wasi.build()).transpose()?;
        let to = out(instance, "instance")?;
        // SAFETY: by the header's contract, the C caller passes a live `prepared`, valid during
        // this call.
        let prepared = &unsafe { shared(prepared, "prepared")? }.prepared;
        let data = Data::new(data, wasi);
        let made = match wait_ns {
            0 => prepared.try_instantiate(data),
            u64::MAX => prepared.instantiate(data),
            limit => prepared.instantiate_timeout(data, Duration::from_nanos(limit)),
        };
        let place = Place::new(made?);
        // SAFETY: by the header's contract, the C caller passes a writable `instance`. `out`
        // checked the alignment.
        unsafe { to.give(pirn_instance_t { place }) };
        Ok(())
    })
}

/// The `data` of pirn_instance_new; NULL for NULL, and while another function uses the instance.
///
/// # Safety
///
/// `instance` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_data(instance: *mut pirn_instance_t) -> *mut c_void {
    guard_or(ptr::null_mut(), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `instance`, valid
        // during this call.
        let data = unsafe { with(instance, |instance| Ok(instance.data().host.get())) };
        data.unwrap_or(ptr::null_mut())
    })
}

/// The remaining fuel. PIRN_ERROR_ARGUMENT if the module was compiled without `aotc --fuel`.
///
/// # Safety
///
/// `instance` is a live handle, `fuel` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_fuel(
    instance: *mut pirn_instance_t,
    fuel: *mut u64,
) -> *mut pirn_error_t {
    guard(|| {
        let to = out(fuel, "fuel")?;
        // SAFETY: by the header's contract, the C caller passes a live `instance` and a writable
        // `fuel`, valid during this call.
        let left = unsafe { with(instance, |instance| Ok(instance.fuel()))? };
        let left = left.ok_or_else(not_counted)?;
        // SAFETY: by the header's contract, the C caller passes a writable `fuel`. `out` checked
        // the alignment.
        unsafe { to.set(left) };
        Ok(())
    })
}

/// Sets the remaining fuel. Without fuel the guest traps with PIRN_TRAP_OUT_OF_FUEL.
///
/// # Safety
///
/// `instance` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_set_fuel(
    instance: *mut pirn_instance_t,
    fuel: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, valid during this
    // call.
    guard(|| unsafe { with(instance, |instance| Ok(instance.set_fuel(fuel)?)) })
}

/// Ends the instance, and makes a module whose instances begin with the state of this instance.
///
/// The library takes the instance over in every case. The `exports_count` functions named by
/// `exports` made the state and must not run again, so the snapshot does not export them. A
/// snapshot contains all that the guest has read from the host, such as random seeds: see
/// pirn_prepared_call_first.
///
/// # Safety
///
/// `instance` is a live handle, which ends. `exports` points to `exports_count` C strings. `module`
/// is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_snapshot(
    instance: *mut pirn_instance_t,
    exports: *const *const c_char,
    exports_count: usize,
    module: *mut *mut pirn_module_t,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: by the header's contract, the C caller passes a live `instance`, and gives it
        // away.
        let instance = unsafe { take(instance)? };
        let to = out(module, "module")?;
        // SAFETY: by the header's contract, the C caller passes `exports_count` pointers at
        // `exports`, valid during this call.
        let names = unsafe { list(exports, exports_count, "exports")? };
        let names = names.iter();
        // SAFETY: by the header's contract, each of the `exports_count` elements is a C string,
        // valid during this call.
        let names = names.map(|name| unsafe { text(*name, "exports") });
        let names = names.collect::<Fallible<Vec<_>>>()?;
        let made = instance.place.into_inner().snapshot_after(&names)?;
        // SAFETY: by the header's contract, the C caller passes a writable `module`. `out` checked
        // the alignment.
        unsafe { to.give(pirn_module_t::new(made)) };
        Ok(())
    })
}

/// Ends the instance. The slot is reset for the next instance. While a function uses the instance,
/// such as the call in which a host function runs, the instance ends when that function returns.
///
/// # Safety
///
/// `instance` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_delete(instance: *mut pirn_instance_t) {
    guard_or((), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `instance`, and does
        // not use it again.
        drop(unsafe { take(instance) });
    });
}
