//! Functions of a group's instances, and their calls.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles and lists of its callers, by the rules of
//! `entry.rs`.
#![allow(unsafe_code)]

use super::{Members, pirn_group_t, pirn_member_t};
use crate::calls::{Lists, limits, pirn_limits_t};
use crate::data::Guest;
use crate::entry::{guard, out, shared, text};
use crate::error::{Fallible, argument, pirn_error_t};
use crate::exclusive::with;
use crate::kinds::{func_type, pirn_kind_t};
use crate::prepared::{params as flat_params, pirn_func_t};
use crate::value::{func_of, pirn_val_t};
use core::ffi::c_char;
use pirn_runtime::{CallError, Func};

impl Members {
    /// Lends any instance of the group: each calls the functions of all.
    fn any(&mut self) -> Fallible<Guest<'_>> {
        self.lend(self.number(0))
    }

    /// The exported function `name` of an instance.
    fn func(&mut self, member: pirn_member_t, name: &str) -> Fallible<pirn_func_t> {
        let id = self.member(member)?;
        let member = self.lend(member)?;
        let found = member.func_values(name)?;
        // The look-up succeeds only for functions over numbers.
        let flat = member.func_flat(name).ok();
        Ok(pirn_func_t::new(found, flat, Some(id)))
    }

    /// Calls a function by values, in the instance in which it was looked up.
    fn call(&mut self, func: &Func, limits: Option<&pirn_limits_t>, lists: &Lists) -> Fallible<()> {
        let args = lists.args(self.group.data())?;
        lists.check(func.ty().results.len())?;
        let mut lent = self.any()?;
        let results = match pirn_limits_t::of(limits, &mut lent) {
            Ok(limited) => limited.call_func(func, &args),
            Err(lent) => lent.call_func(func, &args),
        }?;
        lists.store(&results, self.group.data_mut())
    }
}

/// Looks up the exported function `name` of an instance, of any type. The function is for calls of
/// this group only.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string, `func` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_func(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    func: *mut *mut pirn_func_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, a C string `name` and a
    // writable `func`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(func, "func")?, text(name, "name")?);
        to.give(with(group, |members| members.func(member, name))?);
        Ok(())
    })
}

/// As pirn_group_func, and checks the function's type, as pirn_prepared_typed does.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string, `func` is writable. `params` has `params_count`
/// kinds, and `results` has `results_count` kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_typed(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    params: *const pirn_kind_t,
    params_count: usize,
    results: *const pirn_kind_t,
    results_count: usize,
    func: *mut *mut pirn_func_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, a C string `name` and
    // `params_count` kinds at `params`, valid during this call. It also passes `results_count`
    // kinds at `results` and a writable `func`.
    guard(|| unsafe {
        let (to, name) = (out(func, "func")?, text(name, "name")?);
        let wanted = func_type((params, params_count), (results, results_count))?;
        let found = with(group, |members| members.func(member, name))?;
        to.give(found.of_type(name, &wanted)?);
        Ok(())
    })
}

/// Calls a function by values, in the instance in which pirn_group_func found it. The parameters
/// are as for pirn_instance_call. The limits apply to the whole call, in all instances that the
/// call enters. A time slice is PIRN_ERROR_STATE.
///
/// # Safety
///
/// As pirn_instance_call, and `group` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_call(
    group: *mut pirn_group_t,
    func: *const pirn_func_t,
    limits: *const pirn_limits_t,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `group` and `func`, and a readable
    // or NULL `limits`, valid during this call. It also passes `args_count` values at `args` and
    // room for `results_count` values at `results`. A callback may delete `func`: the call uses a
    // copy.
    guard(|| unsafe {
        // A copy: a host function may delete the handle of the function.
        let func = shared(func, "func")?.func.clone();
        let bounds = self::limits(limits)?;
        let lists = Lists::new((args, args_count), (results, results_count))?;
        with(group, |members| members.call(&func, bounds, &lists))
    })
}

/// As pirn_group_call, for the exported function `name` of an instance.
///
/// # Safety
///
/// As pirn_group_call, and `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_call_name(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    name: *const c_char,
    limits: *const pirn_limits_t,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, a C string `name` and a
    // readable or NULL `limits`. All are valid during this call. It also passes `args_count` values
    // at `args` and room for `results_count` values at `results`.
    guard(|| unsafe {
        let name = text(name, "name")?;
        let bounds = self::limits(limits)?;
        let lists = Lists::new((args, args_count), (results, results_count))?;
        with(group, |members| {
            let func = members.lend(member)?.func_values(name)?;
            members.call(&func, bounds, &lists)
        })
    })
}

/// As pirn_group_call, for the function that the PIRN_FUNCREF `reference` refers to, in any
/// instance of the group.
///
/// # Safety
///
/// As pirn_group_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_call_ref(
    group: *mut pirn_group_t,
    reference: pirn_val_t,
    limits: *const pirn_limits_t,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a readable or NULL
    // `limits`, valid during this call. It also passes `args_count` values at `args` and room for
    // `results_count` values at `results`. The field of `reference` that its kind names is written.
    guard(|| unsafe {
        let bounds = self::limits(limits)?;
        let lists = Lists::new((args, args_count), (results, results_count))?;
        with(group, |members| {
            let wanted = func_of(reference.value(&members.group.data().references)?)?;
            let func = members.any()?.func_of(wanted)?;
            members.call(&func, bounds, &lists)
        })
    })
}

/// As pirn_group_call, by words as in pirn_instance_call_words. Look the function up by
/// pirn_group_typed.
///
/// # Safety
///
/// As pirn_instance_call_words, and `group` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_call_words(
    group: *mut pirn_group_t,
    func: *const pirn_func_t,
    limits: *const pirn_limits_t,
    args: *const u64,
    result: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `group` and `func`, and a readable
    // or NULL `limits`, valid during this call. It also passes a word for each parameter at `args`
    // and room for a result at `result`. A callback may delete `func`: the call uses a copy.
    guard(|| unsafe {
        let func = shared(func, "func")?;
        let words = func.words()?;
        let id = func.member.ok_or_else(|| {
            argument("function is of a preparation; look it up by `pirn_group_func`")
        })?;
        let bounds = self::limits(limits)?;
        let args = words.words(args)?;
        let place = words.place(result)?;
        let found = with(group, |members| {
            let mut lent = members.group.member_mut(id).map_err(CallError::from)?;
            let called = match pirn_limits_t::of(bounds, &mut lent) {
                Ok(limited) => limited.call(&words.func, flat_params(args)),
                Err(lent) => lent.call(&words.func, flat_params(args)),
            };
            called.map_err(|error: CallError| error.into())
        })?;
        words.store(place, found);
        Ok(())
    })
}
