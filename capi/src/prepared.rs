//! [`pirn_prepared_t`]: a module that is linked and checked, and [`pirn_func_t`]: its functions.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::data::Prep;
use crate::entry::{self, Out, guard, list, out, out_or_null, shared, text};
use crate::error::{Fallible, PIRN_ERROR_LINK, argument, pirn_error_t};
use crate::host::place_if;
use crate::kinds::{func_type, is_narrow, kind_of, normal, pirn_kind_t};
use crate::linker::pirn_linker_t;
use crate::module::pirn_module_t;
use crate::region::pirn_region_t;
use core::ffi::c_char;
use core::time::Duration;
use pirn_runtime::{FlatParams, FlatResult, Func, FuncType, LinkError, TypedFunc};

/// The parameters of a call by words. `words` has at most 17 elements, because [`Words`] exists
/// only for such functions. Always inlined: a copy of the 17 words costs more than making them.
#[inline(always)]
pub(crate) fn params(words: &[u64]) -> FlatParams {
    FlatParams::new(words).unwrap_or_else(|_| FlatParams::none())
}

/// A module that is linked to the host and checked against a region. Immutable; any threads may use
/// it at the same time.
pub struct pirn_prepared_t {
    pub(crate) prepared: Prep,
}

/// A function of a module, looked up and checked once, for all instances of its preparation, or for
/// one instance of a group. The handle may outlive the preparation and the group. Immutable; any
/// threads may use it at the same time.
pub struct pirn_func_t {
    pub(crate) func: Func,
    /// The fast form, if the values of the function fit into words.
    words: Option<Words>,
}

/// A function by words. A call copies it: a host function may delete the handle of the function.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) func: TypedFunc<FlatParams, FlatResult>,
    params: usize,
    /// Whether the result has 32 bits; `None` if there is no result.
    narrow: Option<bool>,
}

impl Words {
    /// The words of a call's parameters.
    ///
    /// # Safety
    ///
    /// `args` must point to `self.params` words, which nothing changes during `'a`.
    #[inline]
    pub(crate) unsafe fn words<'a>(&self, args: *const u64) -> Fallible<&'a [u64]> {
        // SAFETY: the caller ensures that `args` points to `self.params` words, which nothing
        // changes during `'a`.
        unsafe { list(args, self.params, "args") }
    }

    /// The place of the result, if the function has one.
    #[inline]
    pub(crate) fn place(&self, result: *mut u64) -> Fallible<Option<Out<u64>>> {
        place_if(self.narrow.is_some(), result)
    }

    /// The number that a call has returned; 0 if the function has no result.
    #[inline]
    pub(crate) fn result(&self, result: FlatResult) -> u64 {
        self.narrow.map_or(0, |narrow| normal(result.0, narrow))
    }

    /// Writes the result.
    ///
    /// # Safety
    ///
    /// The pointer in `place` must be valid for a write of a word.
    #[inline]
    pub(crate) unsafe fn store(&self, place: Option<Out<u64>>, result: FlatResult) {
        if let Some(place) = place {
            // SAFETY: the caller ensures that the pointer in `place` is valid for a write of a
            // word.
            unsafe { place.set(self.result(result)) };
        }
    }
}

impl pirn_func_t {
    fn find(prepared: &Prep, name: &str) -> Fallible<Self> {
        Self::found(prepared.func_values(name)?, prepared.func_flat(name))
    }

    /// A function, with its fast form if it is a function over numbers.
    pub(crate) fn found(
        func: Func,
        flat: Result<TypedFunc<FlatParams, FlatResult>, LinkError>,
    ) -> Fallible<Self> {
        let ty = func.ty();
        let words = flat.ok().map(|flat| Words {
            func: flat,
            params: ty.params.len(),
            narrow: ty.results.first().map(|ty| is_narrow(*ty)),
        });
        Ok(Self { func, words })
    }

    /// This function, if it has the type `wanted`. `name` is for the error.
    ///
    /// # Errors
    ///
    /// If the function has another type.
    pub(crate) fn of_type(self, name: &str, wanted: &FuncType) -> Fallible<Self> {
        let ty = self.func.ty();
        let kinds = |ty: &FuncType| -> (usize, Vec<_>) {
            (ty.params.len(), ty.values().map(kind_of).collect())
        };
        match kinds(ty) == kinds(wanted) {
            true => Ok(self),
            false => Err(pirn_error_t::text(
                PIRN_ERROR_LINK,
                format!(
                    "function {name:?} has type {ty}, the caller wants {wanted}; ask for the type \
                     that it has"
                ),
            )),
        }
    }

    /// The fast form.
    ///
    /// # Errors
    ///
    /// If the function has values that do not fit into words.
    #[inline]
    pub(crate) fn words(&self) -> Fallible<Words> {
        self.words.ok_or_else(|| {
            argument(format!(
                "function has type {}, words hold up to 17 numbers and one result; call it by \
                 values",
                self.func.ty()
            ))
        })
    }
}

/// Links a module to the host, and checks that it fits into a slot. The preparation copies what it
/// needs, so the other handles may be deleted.
///
/// # Safety
///
/// `region`, `module` and `linker` are live handles, `prepared` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_region_prepare(
    region: *const pirn_region_t,
    module: *const pirn_module_t,
    linker: *const pirn_linker_t,
    prepared: *mut *mut pirn_prepared_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `region`, `module` and `linker`,
    // and a writable `prepared`, valid during this call.
    guard(|| unsafe {
        let to = out(prepared, "prepared")?;
        let (region, module, linker) = (
            shared(region, "region")?,
            shared(module, "module")?,
            shared(linker, "linker")?,
        );
        let prepared = region
            .region
            .prepare(&module.module, linker.linker.get()?)?;
        to.give(pirn_prepared_t { prepared });
        Ok(())
    })
}

/// Makes a preparation that differs from another one.
///
/// # Safety
///
/// `prepared` must be a live handle or null, and `changed` writable or null, during the call.
pub(crate) unsafe fn derive(
    prepared: *const pirn_prepared_t,
    changed: *mut *mut pirn_prepared_t,
    change: impl FnOnce(&Prep) -> Fallible<Prep>,
) -> *mut pirn_error_t {
    // SAFETY: the caller ensures that `prepared` is live or null, and that `changed` is writable.
    guard(|| unsafe {
        let to = out(changed, "changed")?;
        let prepared = change(&shared(prepared, "prepared")?.prepared)?;
        to.give(pirn_prepared_t { prepared });
        Ok(())
    })
}

/// A preparation whose instances may take at most `limit_ns` nanoseconds of wall time for their
/// start: the limit applies to the start function, and again to the function of
/// pirn_prepared_call_first.
///
/// # Safety
///
/// `prepared` is a live handle, `changed` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_prepared_start_deadline(
    prepared: *const pirn_prepared_t,
    limit_ns: u64,
    changed: *mut *mut pirn_prepared_t,
) -> *mut pirn_error_t {
    let limit = Duration::from_nanos(limit_ns);
    // SAFETY: by the header's contract, the C caller passes a live `prepared` and a writable
    // `changed`, valid during this call.
    unsafe {
        derive(prepared, changed, |prepared| {
            Ok(prepared.start_deadline(limit))
        })
    }
}

/// A preparation whose instances begin with `fuel` units of fuel. PIRN_ERROR_ARGUMENT if the module
/// was compiled without `aotc --fuel`.
///
/// # Safety
///
/// `prepared` is a live handle, `changed` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_prepared_start_fuel(
    prepared: *const pirn_prepared_t,
    fuel: u64,
    changed: *mut *mut pirn_prepared_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `prepared` and a writable
    // `changed`, valid during this call.
    unsafe { derive(prepared, changed, |prepared| Ok(prepared.start_fuel(fuel)?)) }
}

/// A preparation whose instances call the exported function `name`, which has no parameters and
/// results, at the end of their start. Use it for work that each instance of a snapshot must
/// repeat, such as to draw a new seed of random numbers.
///
/// # Safety
///
/// `prepared` is a live handle, `name` is a C string, `changed` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_prepared_call_first(
    prepared: *const pirn_prepared_t,
    name: *const c_char,
    changed: *mut *mut pirn_prepared_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `prepared`, a C string `name`
    // and a writable `changed`, valid during this call.
    unsafe {
        derive(prepared, changed, |prepared| {
            Ok(prepared.call_first(text(name, "name")?)?)
        })
    }
}

/// Looks up the exported function `name`, of any type.
///
/// # Safety
///
/// `prepared` is a live handle, `name` is a C string, `func` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_prepared_func(
    prepared: *const pirn_prepared_t,
    name: *const c_char,
    func: *mut *mut pirn_func_t,
) -> *mut pirn_error_t {
    guard(|| {
        let to = out(func, "func")?;
        // SAFETY: by the header's contract, the C caller passes a live `prepared` and a C string
        // `name`, valid during this call.
        unsafe {
            let prepared = shared(prepared, "prepared")?;
            to.give(pirn_func_t::find(&prepared.prepared, text(name, "name")?)?);
        }
        Ok(())
    })
}

/// Looks up the exported function `name`, and checks that its type has the kinds `params` and
/// `results`. A reference type that a module defines has the kind of its abstract type.
///
/// # Safety
///
/// `prepared` is a live handle, `name` is a C string, `func` is writable. `params` has
/// `params_count` kinds, and `results` has `results_count` kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_prepared_typed(
    prepared: *const pirn_prepared_t,
    name: *const c_char,
    params: *const pirn_kind_t,
    params_count: usize,
    results: *const pirn_kind_t,
    results_count: usize,
    func: *mut *mut pirn_func_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `prepared`, a C string `name`
    // and `params_count` kinds at `params`, valid during this call. It also passes `results_count`
    // kinds at `results` and a writable `func`.
    guard(|| unsafe {
        let to = out(func, "func")?;
        let prepared = shared(prepared, "prepared")?;
        let name = text(name, "name")?;
        let wanted = func_type((params, params_count), (results, results_count))?;
        let found = pirn_func_t::find(&prepared.prepared, name)?;
        to.give(found.of_type(name, &wanted)?);
        Ok(())
    })
}

/// Writes the number of parameters to `params_count` and the number of results to `results_count`,
/// unless the pointer is NULL. Writes the kinds of the parameters, then the kinds of the results to
/// `kinds`, at most `capacity` kinds.
///
/// # Safety
///
/// `func` is a live handle. `kinds` has room for `capacity` kinds. `params_count` and
/// `results_count` are writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_func_type(
    func: *const pirn_func_t,
    kinds: *mut pirn_kind_t,
    capacity: usize,
    params_count: *mut usize,
    results_count: *mut usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `func` and room for `capacity`
    // kinds at `kinds`, valid during this call. It also passes writable or NULL `params_count` and
    // `results_count`.
    guard(|| unsafe {
        let ty = shared(func, "func")?.func.ty();
        let kinds = entry::list_mut(kinds, capacity, "kinds")?;
        let counts = [
            (out_or_null(params_count, "count")?, ty.params.len()),
            (out_or_null(results_count, "count")?, ty.results.len()),
        ];
        for (kind, ty) in kinds.iter_mut().zip(ty.values()) {
            *kind = kind_of(ty);
        }
        for (place, count) in counts {
            if let Some(place) = place {
                place.set(count);
            }
        }
        Ok(())
    })
}

/// Frees a function.
///
/// # Safety
///
/// `func` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_func_delete(func: *mut pirn_func_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `func`, and does not use
    // it again.
    unsafe { entry::delete(func) };
}

/// Another handle to the preparation, which the caller deletes separately. NULL for NULL.
///
/// # Safety
///
/// `prepared` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_prepared_clone(
    prepared: *const pirn_prepared_t,
) -> *mut pirn_prepared_t {
    let another = |prepared: &pirn_prepared_t| pirn_prepared_t {
        prepared: prepared.prepared.clone(),
    };
    // SAFETY: by the header's contract, the C caller passes a live or NULL `prepared`, valid during
    // this call.
    unsafe { entry::another(prepared, another) }
}

/// Frees a handle. Instances keep what they need.
///
/// # Safety
///
/// `prepared` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_prepared_delete(prepared: *mut pirn_prepared_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `prepared`, and does not
    // use it again.
    unsafe { entry::delete(prepared) };
}
