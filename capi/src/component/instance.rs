//! [`pirn_component_instance_t`]: a component in its own slot, and its calls.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs` and
//! `exclusive.rs`.
#![allow(unsafe_code)]

use super::data::{Data, Inst, Prep};
use super::driver::Driver;
use super::owned::pirn_component_owned_t;
use super::prepared::{pirn_component_func_t, pirn_component_prepared_t};
use super::value::{pirn_component_resource_t, pirn_component_value_t, values};
use super::wasi2::pirn_wasi2_t;
use crate::calls::limit;
use crate::entry::{guard, guard_or, list, out, out_or_null, shared, taken, text};
use crate::error::{Fallible, not_counted, pirn_error_t};
use crate::exclusive::{Exclusive, Place, take, with};
use crate::kill::pirn_kill_switch_t;
use core::ffi::{c_char, c_void};
use core::ptr;
use core::time::Duration;
use pirn_component::{CallError, Func, Limits, TypedFunc, Value};
use pirn_wasi2::{Exit, RUN};
use std::sync::Arc;

/// An instance of a component, in its own slot. One thread at a time may use the handle, and the
/// handle may move between threads. A function that finds the handle in use returns
/// PIRN_ERROR_BUSY.
pub struct pirn_component_instance_t {
    place: Place<Inner>,
}

/// The instance, with its preparation and the driver of its calls. Rust drops the fields in this
/// order: the sockets of the instance end before the driver.
pub(crate) struct Inner {
    instance: Inst,
    prepared: Prep,
    driver: Option<Arc<Driver>>,
}

impl Exclusive for pirn_component_instance_t {
    type Inner = Inner;

    fn place(&self) -> Fallible<&Place<Inner>> {
        Ok(&self.place)
    }
}

impl Inner {
    fn call(
        &mut self,
        limits: Limits,
        func: &Func,
        params: &[Value],
    ) -> Result<Option<Value>, CallError> {
        let instance = &mut self.instance;
        match &self.driver {
            None => instance.call_within(limits, func, params),
            Some(driver) => driver.block_on(instance.call_async_within(limits, func, params)),
        }
    }

    /// Runs a command. Returns its exit code.
    fn run(&mut self, limits: Limits) -> Fallible<u32> {
        let run: TypedFunc<(), Result<(), ()>> = self.prepared.typed(RUN)?;
        let instance = &mut self.instance;
        let ended = match &self.driver {
            None => instance.call_typed_within(limits, &run, ()),
            Some(driver) => driver.block_on(instance.call_typed_async(limits, &run, ())),
        };
        match ended {
            Ok(ended) => Ok(ended.is_err().into()),
            Err(error) => match Exit::of(&error) {
                Some(exit) => Ok(exit.code),
                None => Err(error.into()),
            },
        }
    }
}

fn limits(deadline_ns: u64) -> Limits {
    Limits {
        deadline: limit(deadline_ns),
        timeslice: None,
    }
}

/// Makes an instance of a component: takes a slot, and runs the start of its core modules.
///
/// `data` is any pointer of the embedder's, which host functions get by pirn_component_caller_data.
/// The library never reads `data`. Keep `data` valid until the instance has ended.
///
/// `wasi` is the guest's context of WASI 0.2, or NULL for an empty one. The library takes `wasi`
/// over in every case. If all slots are taken, the thread waits for `wait_ns` nanoseconds: not at
/// all for 0, without limit for UINT64_MAX.
///
/// # Safety
///
/// `prepared` is a live handle, `wasi` is a live handle, which ends, or NULL. `instance` is
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_new(
    prepared: *const pirn_component_prepared_t,
    data: *mut c_void,
    wasi: *mut pirn_wasi2_t,
    wait_ns: u64,
    instance: *mut *mut pirn_component_instance_t,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `wasi`, and gives it
        // away.
        let wasi = unsafe { taken(wasi) };
        let wasi = wasi.map(|wasi| wasi.build()).transpose()?;
        let to = out(instance, "instance")?;
        // SAFETY: by the header's contract, the C caller passes a live `prepared`, valid during
        // this call.
        let from = unsafe { shared(prepared, "prepared")? };
        let (prepared, data) = (&from.prepared, Data::new(data, wasi));
        let made = match wait_ns {
            0 => prepared.try_instantiate(data),
            u64::MAX => prepared.instantiate(data),
            limit => prepared.instantiate_timeout(data, Duration::from_nanos(limit)),
        };
        let place = Place::new(Inner {
            instance: made?,
            prepared: prepared.clone(),
            driver: from.driver.clone(),
        });
        // SAFETY: by the header's contract, the C caller passes a writable `instance`. `out`
        // checked the alignment.
        unsafe { to.give(pirn_component_instance_t { place }) };
        Ok(())
    })
}

/// Calls the function that `find` finds.
///
/// # Safety
///
/// `instance` must be a live handle or null. `args.0` must point to `args.1` values as
/// pirn_component_value_t describes. `result` must be writable or null.
unsafe fn call(
    instance: *mut pirn_component_instance_t,
    deadline_ns: u64,
    args: (*const pirn_component_value_t, usize),
    result: *mut *mut pirn_component_owned_t,
    find: impl FnOnce(&Prep) -> Fallible<Func>,
) -> Fallible<()> {
    // SAFETY: the caller ensures that `instance` is live or null, that `args.0` points to `args.1`
    // values, and that `result` is writable or null.
    unsafe {
        let params = values(list(args.0, args.1, "args")?)?;
        let to = out_or_null(result, "result")?;
        let found = with(instance, |inner| {
            let func = find(&inner.prepared)?;
            Ok(inner.call(limits(deadline_ns), &func, &params)?)
        })?;
        match (to, found) {
            (None, _) => {}
            (Some(to), None) => to.set(ptr::null_mut()),
            (Some(to), Some(found)) => to.give(pirn_component_owned_t::new(found)),
        }
        Ok(())
    }
}

/// Calls a function with `args_count` values. Writes the result to `result`, or NULL if the
/// function has no result. The caller owns the result. `result` may be NULL to drop the result.
///
/// After `deadline_ns` nanoseconds of wall time the call ends with PIRN_ERROR_DEADLINE; 0 is no
/// limit. With WASI, the thread sleeps while the guest waits for time, a pipe or a socket.
///
/// Values of other types, or another number of values, are PIRN_ERROR_ARGUMENT, and the instance
/// stays as it was. After any other error the instance cannot be called again: PIRN_ERROR_STATE.
///
/// # Safety
///
/// `instance` and `func` are live handles. `args` points to `args_count` values that are as
/// pirn_component_value_t says. `result` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_call(
    instance: *mut pirn_component_instance_t,
    func: *const pirn_component_func_t,
    deadline_ns: u64,
    args: *const pirn_component_value_t,
    args_count: usize,
    result: *mut *mut pirn_component_owned_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `instance` and `func`, and
    // `args_count` values at `args`, valid during this call. It also passes a writable or NULL
    // `result`.
    guard(|| unsafe {
        // A host function may delete the handle of the function.
        let func = shared(func, "func")?.func.clone();
        call(instance, deadline_ns, (args, args_count), result, |_| {
            Ok(func)
        })
    })
}

/// As pirn_component_instance_call, for the exported function `name`, which is looked up at each
/// call.
///
/// # Safety
///
/// As pirn_component_instance_call, and `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_call_name(
    instance: *mut pirn_component_instance_t,
    name: *const c_char,
    deadline_ns: u64,
    args: *const pirn_component_value_t,
    args_count: usize,
    result: *mut *mut pirn_component_owned_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a C string
    // `name`, valid during this call. It also passes `args_count` values at `args` and a writable
    // or NULL `result`.
    guard(|| unsafe {
        let name = text(name, "name")?;
        call(
            instance,
            deadline_ns,
            (args, args_count),
            result,
            |prepared| Ok(prepared.func(name)?),
        )
    })
}

/// Runs a command: calls `wasi:cli/run`, and writes its exit code to `code`. The code is 0 if the
/// command succeeded, 1 if it failed, or the number that it gave to `exit`. pirn_wasi2_arg sets the
/// arguments of the command. The instance of a command that called `exit` cannot be called again.
/// PIRN_ERROR_LINK if the component is no command.
///
/// # Safety
///
/// `instance` is a live handle, `code` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_run(
    instance: *mut pirn_component_instance_t,
    deadline_ns: u64,
    code: *mut u32,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a writable
    // `code`, valid during this call.
    guard(|| unsafe {
        let to = out(code, "code")?;
        let code = with(instance, |inner| inner.run(limits(deadline_ns)))?;
        to.set(code);
        Ok(())
    })
}

/// Drops a resource that the component defines, and that the embedder got as PIRN_COMPONENT_OWN:
/// calls the resource's destructor in the guest, if there is one. Nothing happens for another
/// resource, or for a resource that the embedder no longer owns.
///
/// # Safety
///
/// `instance` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_drop_resource(
    instance: *mut pirn_component_instance_t,
    deadline_ns: u64,
    resource: pirn_component_resource_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, valid during this
    // call.
    guard(|| unsafe {
        with(instance, |inner| {
            let (limits, resource) = (limits(deadline_ns), resource.resource());
            Ok(inner.instance.drop_resource_within(limits, resource)?)
        })
    })
}

/// Makes a switch that ends the component's calls from any thread, until the instance is deleted:
/// see pirn_instance_kill_switch.
///
/// # Safety
///
/// `instance` is a live handle, `kill_switch` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_kill_switch(
    instance: *mut pirn_component_instance_t,
    kill_switch: *mut *mut pirn_kill_switch_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a writable
    // `kill_switch`, valid during this call.
    guard(|| unsafe {
        let to = out(kill_switch, "kill_switch")?;
        let switch = with(instance, |inner| Ok(inner.instance.kill_switch()))?;
        to.give(pirn_kill_switch_t::new(switch));
        Ok(())
    })
}

/// The remaining fuel. PIRN_ERROR_ARGUMENT if the component was compiled without `aotc --fuel`.
///
/// # Safety
///
/// `instance` is a live handle, `fuel` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_fuel(
    instance: *mut pirn_component_instance_t,
    fuel: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a writable
    // `fuel`, valid during this call.
    guard(|| unsafe {
        let to = out(fuel, "fuel")?;
        let left = with(instance, |inner| Ok(inner.instance.core().fuel()))?;
        to.set(left.ok_or_else(not_counted)?);
        Ok(())
    })
}

/// The `data` of pirn_component_instance_new; NULL for NULL, and while another function uses the
/// instance.
///
/// # Safety
///
/// `instance` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_data(
    instance: *mut pirn_component_instance_t,
) -> *mut c_void {
    guard_or(ptr::null_mut(), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `instance`, valid
        // during this call.
        let data = unsafe { with(instance, |inner| Ok(inner.instance.data().caller.host())) };
        data.unwrap_or(ptr::null_mut())
    })
}

/// Ends the instance, with its resources. Its slot is reset for the next instance. While a function
/// uses the instance, the instance ends when that function returns.
///
/// # Safety
///
/// `instance` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_instance_delete(instance: *mut pirn_component_instance_t) {
    guard_or((), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `instance`, and does
        // not use it again.
        drop(unsafe { take(instance) });
    });
}
