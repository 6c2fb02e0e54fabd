//! [`pirn_instance_t`]: a module in its own slot.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs` and
//! `exclusive.rs`.
#![allow(unsafe_code)]

use crate::data::{Data, Guest, Inst, Owning};
use crate::entry::{guard, guard_or, list, out, shared, taken, text};
use crate::error::{Fallible, argument, not_counted, pirn_error_t};
use crate::exclusive::{Exclusive, Place, take};
use crate::kinds::{func_type, pirn_kind_t};
use crate::member::Member;
use crate::module::pirn_module_t;
use crate::prepared::{pirn_func_t, pirn_prepared_t};
use crate::wasi::pirn_wasi_t;
use core::ffi::{c_char, c_void};
use core::ptr;
use core::time::Duration;

/// An instance of a module, in its own slot: alone, or an instance of a group (pirn_group_member).
/// One thread at a time may use the handle, and the handle may move between threads. A function
/// that finds the instance or its group in use returns PIRN_ERROR_BUSY.
pub struct pirn_instance_t {
    kind: Kind,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a box would be one more allocation for each instance alone"
)]
enum Kind {
    Alone(Place<Inst>),
    Member(Member),
}

impl Exclusive for pirn_instance_t {
    type Inner = Inst;

    #[inline]
    fn place(&self) -> Fallible<&Place<Inst>> {
        match &self.kind {
            Kind::Alone(place) => Ok(place),
            Kind::Member(_) => Err(in_group()),
        }
    }
}

impl pirn_instance_t {
    /// A handle of an instance of a group.
    pub(crate) fn of(member: Member) -> Self {
        let kind = Kind::Member(member);
        Self { kind }
    }
}

#[cold]
fn in_group() -> Box<pirn_error_t> {
    argument("instance is of a group; pass an instance of `pirn_instance_new`")
}

/// The instance of a group that a handle leads to; `None` if the instance is alone. A share of the
/// group: a host function may delete the handle.
///
/// # Errors
///
/// If the handle is null.
///
/// # Safety
///
/// `instance` must be a live handle or null.
#[inline]
pub(crate) unsafe fn member_of(instance: *mut pirn_instance_t) -> Fallible<Option<Member>> {
    // SAFETY: the caller ensures that `instance` is live or null.
    Ok(match &unsafe { shared(instance, "instance")? }.kind {
        Kind::Alone(_) => None,
        Kind::Member(member) => Some(member.clone()),
    })
}

/// Runs a body with the instance of a handle, whose type depends on the kind of the instance. The
/// handle must be live or null.
macro_rules! with_instance {
    ($handle:expr, |$guest:ident| $body:expr) => {
        match $crate::instance::member_of($handle)? {
            None => $crate::exclusive::with($handle, |$guest| $body),
            Some(member) => member.with(|$guest| $body),
        }
    };
}

pub(crate) use with_instance;

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
        let kind = Kind::Alone(Place::new(made?));
        // SAFETY: by the header's contract, the C caller passes a writable `instance`. `out`
        // checked the alignment.
        unsafe { to.give(pirn_instance_t { kind }) };
        Ok(())
    })
}

/// The `data` of pirn_instance_new or pirn_group_new; NULL for NULL, while another function uses
/// the instance or its group, and after the end of the group.
///
/// # Safety
///
/// `instance` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_data(instance: *mut pirn_instance_t) -> *mut c_void {
    guard_or(ptr::null_mut(), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `instance`, valid
        // during this call.
        let data = || unsafe { with_instance!(instance, |guest| Ok(guest.data().host.get())) };
        data().unwrap_or(ptr::null_mut())
    })
}

impl pirn_func_t {
    /// The exported function `name` of an instance.
    fn of<O: Owning>(guest: &Guest<O>, name: &str) -> Fallible<Self> {
        Self::found(guest.func_values(name)?, guest.func_flat(name))
    }
}

/// Looks up the exported function `name` of an instance, of any type. The function is for all
/// instances of the same preparation, or for this instance of a group.
///
/// # Safety
///
/// `instance` is a live handle, `name` is a C string, `func` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_func(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    func: *mut *mut pirn_func_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, a C string `name`
    // and a writable `func`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(func, "func")?, text(name, "name")?);
        to.give(with_instance!(instance, |guest| pirn_func_t::of(
            guest, name
        ))?);
        Ok(())
    })
}

/// As pirn_instance_func, and checks the function's type, as pirn_prepared_typed does.
///
/// # Safety
///
/// `instance` is a live handle, `name` is a C string, `func` is writable. `params` has
/// `params_count` kinds, and `results` has `results_count` kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_typed(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    params: *const pirn_kind_t,
    params_count: usize,
    results: *const pirn_kind_t,
    results_count: usize,
    func: *mut *mut pirn_func_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, a C string `name`
    // and `params_count` kinds at `params`, valid during this call. It also passes `results_count`
    // kinds at `results` and a writable `func`.
    guard(|| unsafe {
        let (to, name) = (out(func, "func")?, text(name, "name")?);
        let wanted = func_type((params, params_count), (results, results_count))?;
        let found = with_instance!(instance, |guest| pirn_func_t::of(guest, name))?;
        to.give(found.of_type(name, &wanted)?);
        Ok(())
    })
}

/// The remaining fuel. Only the functions of the instance's own module use it up.
/// PIRN_ERROR_ARGUMENT if the module was compiled without `aotc --fuel`.
///
/// # Safety
///
/// `instance` is a live handle, `fuel` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_fuel(
    instance: *mut pirn_instance_t,
    fuel: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a writable
    // `fuel`, valid during this call.
    guard(|| unsafe {
        let to = out(fuel, "fuel")?;
        let left = with_instance!(instance, |guest| Ok(guest.fuel()))?;
        let left = left.ok_or_else(not_counted)?;
        to.set(left);
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
    guard(|| unsafe { with_instance!(instance, |guest| Ok(guest.set_fuel(fuel)?)) })
}

/// Ends the instance, and makes a module whose instances begin with the state of this instance.
///
/// The library takes the instance over in every case. The `exports_count` functions named by
/// `exports` made the state and must not run again, so the snapshot does not export them. A
/// snapshot contains all that the guest has read from the host, such as random seeds: see
/// pirn_prepared_call_first. An instance of a group gives no snapshot: PIRN_ERROR_ARGUMENT.
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
        let Kind::Alone(place) = instance.kind else {
            return Err(in_group());
        };
        let made = place.into_inner().snapshot_after(&names)?;
        // SAFETY: by the header's contract, the C caller passes a writable `module`. `out` checked
        // the alignment.
        unsafe { to.give(pirn_module_t::new(made)) };
        Ok(())
    })
}

/// Ends the instance. The slot is reset for the next instance. While a function uses the instance,
/// such as the call in which a host function runs, the instance ends when that function returns. A
/// handle of an instance of a group is freed, and the instance lives as long as its group.
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
