//! Calls of guests that run until they return.
//!
//! # Safety
//!
//! This file owns no invariants. It reads lists of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::data::{Data, Guest, Owning};
use crate::entry::{guard, list, list_mut, shared, text};
use crate::error::{Fallible, argument, pirn_error_t};
use crate::instance::{pirn_instance_t, with_instance};
use crate::prepared::{params, pirn_func_t};
use crate::value::{func_of, pirn_val_t, values};
use core::ffi::c_char;
use core::time::Duration;
use pirn_runtime::{CallError, Caller, Func, FuncRef, LimitedCall, Value};

/// The limits of one call, or of one step of a call. A field of 0 is no limit. The guest is
/// interrupted at any instruction. A host function runs to its end first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_limits_t {
    /// Nanoseconds of wall time. After that the call ends with PIRN_ERROR_DEADLINE.
    pub deadline_ns: u64,
    /// Nanoseconds of the thread's processor time. After that the call ends with
    /// PIRN_ERROR_CPU_BUDGET.
    pub cpu_ns: u64,
    /// Nanoseconds after which the guest is suspended, to be resumed by pirn_instance_resume. Only
    /// for pirn_instance_start and the functions that resume.
    pub slice_ns: u64,
}

impl pirn_limits_t {
    /// The call with its limits; the callee itself if there are no limits.
    #[inline]
    pub(crate) fn of<'a, O: Owning>(
        limits: Option<&Self>,
        callee: &'a mut Guest<O>,
    ) -> Result<LimitedCall<&'a mut Guest<O>>, &'a mut Guest<O>> {
        let Some(limits) = limits else {
            return Err(callee);
        };
        let [wall, cpu, slice] = [limits.deadline_ns, limits.cpu_ns, limits.slice_ns].map(limit);
        let (call, cpu, slice) = match (wall, cpu, slice) {
            (Some(wall), cpu, slice) => (callee.deadline(wall), cpu, slice),
            (None, Some(cpu), slice) => (callee.cpu_budget(cpu), None, slice),
            (None, None, Some(slice)) => (callee.timeslice(slice), None, None),
            (None, None, None) => return Err(callee),
        };
        let call = match cpu {
            Some(cpu) => call.cpu_budget(cpu),
            None => call,
        };
        Ok(match slice {
            Some(slice) => call.timeslice(slice),
            None => call,
        })
    }
}

/// A limit in nanoseconds. 0 means no limit.
#[inline]
pub(crate) fn limit(ns: u64) -> Option<Duration> {
    (ns != 0).then(|| Duration::from_nanos(ns))
}

/// The limits at a pointer; `None` for NULL.
///
/// # Safety
///
/// `limits` must be null or readable, and nothing may change the limits during `'a`.
#[inline]
pub(crate) unsafe fn limits<'a>(
    limits: *const pirn_limits_t,
) -> Fallible<Option<&'a pirn_limits_t>> {
    match limits.is_null() {
        true => Ok(None),
        // SAFETY: the caller ensures that `limits` is readable and unchanged during `'a`. It is not
        // null.
        false => unsafe { shared(limits, "limits") }.map(Some),
    }
}

/// The arguments of a call, and the place of its results. The two lists may overlap.
pub(crate) struct Lists {
    args: (*const pirn_val_t, usize),
    results: (*mut pirn_val_t, usize),
}

impl Lists {
    /// # Errors
    ///
    /// If a list is null and not empty, or misaligned.
    ///
    /// # Safety
    ///
    /// Until the call has ended, `args.0` must point to `args.1` values, and `results.0` to room
    /// for `results.1` values.
    pub(crate) unsafe fn new(
        args: (*const pirn_val_t, usize),
        results: (*mut pirn_val_t, usize),
    ) -> Fallible<Self> {
        // SAFETY: the caller ensures that `args` and `results` have their lengths. The two
        // references end at once.
        unsafe {
            list(args.0, args.1, "args")?;
            list(results.0.cast_const(), results.1, "results")?;
        }
        Ok(Self { args, results })
    }

    pub(crate) fn args(&self, data: &Data) -> Fallible<smallvec::SmallVec<[Value; 8]>> {
        // SAFETY: the caller of `new` ensured the length of `args`. The reference ends before
        // `store` writes the results.
        unsafe { values(list(self.args.0, self.args.1, "args")?, &data.references) }
    }

    /// Checks the number of results.
    pub(crate) fn check(&self, wanted: usize) -> Fallible<()> {
        match self.results.1 == wanted {
            true => Ok(()),
            false => Err(argument(format!(
                "function returns {wanted} values, `results_count` is {}; pass the number of its \
                 results",
                self.results.1
            ))),
        }
    }

    /// Writes the results.
    pub(crate) fn store(&self, results: &[Value], data: &mut Data) -> Fallible<()> {
        self.check(results.len())?;
        let made = results.iter();
        let made = made.map(|result| pirn_val_t::of(*result, &mut data.references));
        let made = made.collect::<Fallible<smallvec::SmallVec<[_; 4]>>>()?;
        // SAFETY: the caller of `new` ensured the length of `results`, and no other reference to a
        // list exists.
        let places = unsafe { list_mut(self.results.0, self.results.1, "results")? };
        places.copy_from_slice(&made);
        Ok(())
    }
}

/// The function of a call, as the embedder names it.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    Func(&'a Func),
    Name(&'a str),
    Reference(FuncRef),
}

/// A nested call of the guest that waits for a host function.
pub(crate) fn nested(
    caller: &mut Caller<'_, Data>,
    wanted: Wanted<'_>,
    lists: &Lists,
) -> Fallible<()> {
    let args = lists.args(caller.data())?;
    let results = match wanted {
        Wanted::Func(func) => {
            lists.check(func.ty().results.len())?;
            // A host function may delete the handle of the function.
            caller.call_func(&func.clone(), &args)?
        }
        Wanted::Name(name) => caller.call_values(name, &args)?,
        Wanted::Reference(reference) => caller.call_ref(reference, &args)?,
    };
    lists.store(&results, caller.data_mut())
}

/// A call of an instance.
fn call<O: Owning>(
    instance: &mut Guest<O>,
    wanted: Wanted<'_>,
    limits: Option<&pirn_limits_t>,
    lists: &Lists,
) -> Fallible<()> {
    let args = lists.args(instance.data())?;
    let func = match wanted {
        Wanted::Func(func) => func.clone(),
        Wanted::Name(name) => instance.func_values(name)?,
        Wanted::Reference(reference) => instance.func_of(reference)?,
    };
    lists.check(func.ty().results.len())?;
    let results = match pirn_limits_t::of(limits, &mut *instance) {
        Ok(limited) => limited.call_func(&func, &args),
        Err(instance) => instance.call_func(&func, &args),
    }?;
    lists.store(&results, instance.data_mut())
}

/// Calls a function by values.
///
/// The function must be of the preparation that made the instance, or of an instance of the same
/// group: then it is called in the instance in which it was looked up, and the limits apply to the
/// whole call, in all instances that the call enters. `args` has `args_count` values
/// of its parameter types. The results are written to `results`. `results_count` must be the number
/// of the function's results, and `results` must have room for this number of values. `results` may
/// be the list of the arguments. `limits` may be NULL for no limits.
///
/// After an error the instance can be called again, unless it was killed. The changes that the
/// guest has made until then stay.
///
/// # Safety
///
/// `instance` and `func` are live handles. `args` has `args_count` values, `results` has room for
/// `results_count` values, and `limits` is readable or NULL. The field of each argument that its
/// kind names was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_call(
    instance: *mut pirn_instance_t,
    func: *const pirn_func_t,
    limits: *const pirn_limits_t,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `instance` and `func`, and a
    // readable or NULL `limits`, valid during this call. It also passes `args_count` values at
    // `args` and room for `results_count` values at `results`. A callback may delete `func`: the
    // call uses a copy.
    guard(|| unsafe {
        let func = shared(func, "func")?;
        let bounds = self::limits(limits)?;
        let lists = Lists::new((args, args_count), (results, results_count))?;
        with_instance!(instance, |guest| {
            call(guest, Wanted::Func(&func.func), bounds, &lists)
        })
    })
}

/// As pirn_instance_call, for the exported function `name`.
///
/// # Safety
///
/// As pirn_instance_call, and `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_call_name(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    limits: *const pirn_limits_t,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, a C string `name`
    // and a readable or NULL `limits`. All are valid during this call. It also passes `args_count`
    // values at `args` and room for `results_count` values at `results`.
    guard(|| unsafe {
        let name = text(name, "name")?;
        let bounds = self::limits(limits)?;
        let lists = Lists::new((args, args_count), (results, results_count))?;
        with_instance!(instance, |guest| {
            call(guest, Wanted::Name(name), bounds, &lists)
        })
    })
}

/// As pirn_instance_call, for the function that the PIRN_FUNCREF `reference` refers to, in any
/// instance of the group.
///
/// # Safety
///
/// As pirn_instance_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_call_ref(
    instance: *mut pirn_instance_t,
    reference: pirn_val_t,
    limits: *const pirn_limits_t,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a readable or
    // NULL `limits`, valid during this call. It also passes `args_count` values at `args` and room
    // for `results_count` values at `results`. The field of `reference` that its kind names is
    // written.
    guard(|| unsafe {
        let bounds = self::limits(limits)?;
        let lists = Lists::new((args, args_count), (results, results_count))?;
        with_instance!(instance, |guest| {
            let func = func_of(reference.value(&guest.data().references)?)?;
            call(guest, Wanted::Reference(func), bounds, &lists)
        })
    })
}

/// Calls a function by words: the fast form, for functions over numbers with up to 17 parameters
/// and one result. A call checks only the handles.
///
/// `args` has a word for each parameter. A 32-bit number is the lower half of its word; the upper
/// half is ignored. A float is passed by its bits. `result` is written if the function has a
/// result; the upper half of a 32-bit number is zero. `result` may be a word of `args`. `limits`
/// may be NULL for no limits. PIRN_ERROR_ARGUMENT if the function has values that are no numbers:
/// use pirn_instance_call. The function must be of this instance of a group.
///
/// # Safety
///
/// `instance` and `func` are live handles. `args` has a word for each parameter of the function,
/// and `result` is writable if the function has a result. Look the function up by
/// pirn_prepared_typed or pirn_instance_typed. `limits` is readable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_call_words(
    instance: *mut pirn_instance_t,
    func: *const pirn_func_t,
    limits: *const pirn_limits_t,
    args: *const u64,
    result: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `instance` and `func`, and a
    // readable or NULL `limits`, valid during this call. It also passes a word for each parameter
    // at `args` and room for a result at `result`. A callback may delete `func`: the call uses a
    // copy.
    guard(|| unsafe {
        let words = shared(func, "func")?.words()?;
        let bounds = self::limits(limits)?;
        let args = words.words(args)?;
        let place = words.place(result)?;
        let found = with_instance!(instance, |guest| {
            let called = match pirn_limits_t::of(bounds, guest) {
                Ok(limited) => limited.call(&words.func, params(args)),
                Err(guest) => guest.call(&words.func, params(args)),
            };
            called.map_err(|error: CallError| error.into())
        })?;
        words.store(place, found);
        Ok(())
    })
}
