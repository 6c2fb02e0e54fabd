//! [`pirn_linker_t`]: the functions and globals that guests import from the host.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::data::{Answer, Data, Link, Question};
use crate::entry::{self, guard, guard_or, shared, text, unique};
use crate::error::{Fallible, argument, pirn_error_t};
use crate::host::{
    self, Env, by_values, by_words, narrow, pirn_env_delete_t, pirn_host_func_t, pirn_host_words_t,
    pirn_limiter_t,
};
use crate::kinds::{func_type, is_word, pirn_kind_t};
use crate::poison::Linking;
use crate::references::References;
use crate::value::pirn_val_t;
use core::ffi::{c_char, c_void};
use core::ptr;
use pirn_runtime::{Caller, FlatParams, FlatResult, FuncType, HostError};

/// Functions and globals that guests can import, by module and name. One thread at a time may use a
/// linker. Preparations copy what they need, so the linker may be changed or deleted after
/// pirn_region_prepare.
pub struct pirn_linker_t {
    pub(crate) linker: Linking<Link>,
}

/// The names and the type of a function.
struct Named<'a> {
    module: &'a str,
    name: &'a str,
    ty: FuncType,
}

impl<'a> Named<'a> {
    /// # Safety
    ///
    /// `module` and `name` must be C strings or null. `params.0` must point to `params.1` kinds,
    /// and `results.0` to `results.1` kinds. All must be valid during `'a`.
    unsafe fn new(
        module: *const c_char,
        name: *const c_char,
        params: (*const pirn_kind_t, usize),
        results: (*const pirn_kind_t, usize),
    ) -> Fallible<Self> {
        // SAFETY: the caller ensures that `module` and `name` are C strings or null, and that
        // `params.0` and `results.0` point to `params.1` and `results.1` kinds.
        unsafe {
            Ok(Self {
                module: text(module, "module")?,
                name: text(name, "name")?,
                ty: func_type(params, results)?,
            })
        }
    }

    /// Checks that the values of the function fit into words.
    fn check_words(&self) -> Fallible<()> {
        let FuncType { params, results } = &self.ty;
        let fits = params.len() <= host::WORDS_MAX && results.len() <= 1;
        match fits && self.ty.values().all(is_word) {
            true => Ok(()),
            false => Err(argument(format!(
                "host function {}.{} has type {}, words hold up to {} numbers and one result; use \
                 `pirn_linker_func`",
                self.module,
                self.name,
                self.ty,
                host::WORDS_MAX
            ))),
        }
    }
}

/// Makes an empty linker. NULL only if the library panics.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_linker_new() -> *mut pirn_linker_t {
    guard_or(ptr::null_mut(), || {
        let linker = Linking::new(Link::asking());
        Box::into_raw(Box::new(pirn_linker_t { linker }))
    })
}

/// Adds a host function by values.
///
/// `params` and `results` list the kinds of the function's type. `func` gets `env` at each call.
/// The library takes `env` over in every case. It calls `env_delete` (unless NULL) with `env` once,
/// when nothing can call `func` any more. After an error it does so before this function returns.
/// If `env_delete` is NULL, keep `env` valid until the linker, its clones, and all preparations,
/// instances and groups made with them have ended. A handle of an instance of a group ends nothing.
///
/// # Safety
///
/// `linker` is a live handle. `module` and `name` are C strings. `params` has `params_count` kinds,
/// and `results` has `results_count` kinds. `func` and `env_delete` can be called with `env` as
/// their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_func(
    linker: *mut pirn_linker_t,
    module: *const c_char,
    name: *const c_char,
    params: *const pirn_kind_t,
    params_count: usize,
    results: *const pirn_kind_t,
    results_count: usize,
    func: pirn_host_func_t,
    env: *mut c_void,
    env_delete: pirn_env_delete_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, C strings `module` and
    // `name`, and `params_count` kinds at `params`. All are valid during this call. It also passes
    // `results_count` kinds at `results`, and functions `func` and `env_delete` that accept `env`.
    guard(|| unsafe {
        let env = Env::new(env, env_delete);
        let linker = &mut unique(linker, "linker")?.linker;
        let (params, results) = ((params, params_count), (results, results_count));
        let named = Named::new(module, name, params, results)?;
        let code = by_values(func, env, &named.ty)?;
        let Named { module, name, ty } = named;
        linker.change(|linker| linker.func_values(module, name, ty, code).map(drop))
    })
}

/// Adds a host function by words: the faster form, for functions over numbers with up to 17
/// parameters and one result. The parameters of pirn_linker_words are the parameters of
/// pirn_linker_func.
///
/// # Safety
///
/// As pirn_linker_func.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_words(
    linker: *mut pirn_linker_t,
    module: *const c_char,
    name: *const c_char,
    params: *const pirn_kind_t,
    params_count: usize,
    results: *const pirn_kind_t,
    results_count: usize,
    func: pirn_host_words_t,
    env: *mut c_void,
    env_delete: pirn_env_delete_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, C strings `module` and
    // `name`, and `params_count` kinds at `params`. All are valid during this call. It also passes
    // `results_count` kinds at `results`, and functions `func` and `env_delete` that accept `env`.
    guard(|| unsafe {
        let env = Env::new(env, env_delete);
        let linker = &mut unique(linker, "linker")?.linker;
        let (params, results) = ((params, params_count), (results, results_count));
        let named = Named::new(module, name, params, results)?;
        named.check_words()?;
        let code = by_words(func, env, &named.ty)?;
        let Named { module, name, ty } = named;
        linker.change(|linker| linker.func_flat(module, name, ty, code).map(drop))
    })
}

/// Adds a host function that asks the embedder: the guest that calls it is suspended, and
/// pirn_instance_start or pirn_instance_resume returns PIRN_STEP_ASKED with `tag` and the
/// arguments. pirn_instance_answer resumes the guest. The function must fit into words, as for
/// pirn_linker_words.
///
/// A guest that calls the function in a plain call, or in a nested call, ends with
/// PIRN_ERROR_STATE.
///
/// # Safety
///
/// `linker` is a live handle. `module` and `name` are C strings. `params` has `params_count` kinds,
/// and `results` has `results_count` kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_ask(
    linker: *mut pirn_linker_t,
    module: *const c_char,
    name: *const c_char,
    params: *const pirn_kind_t,
    params_count: usize,
    results: *const pirn_kind_t,
    results_count: usize,
    tag: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, and C strings `module`
    // and `name`, valid during this call. It also passes `params_count` kinds at `params` and
    // `results_count` kinds at `results`.
    guard(|| unsafe {
        let linker = &mut unique(linker, "linker")?.linker;
        let (params, results) = ((params, params_count), (results, results_count));
        let named = Named::new(module, name, params, results)?;
        named.check_words()?;
        let Named { module, name, ty } = named;
        let (narrow, count) = (narrow(&ty.params), ty.params.len());
        let ask = move |_: Caller<'_, Data>, params: FlatParams| {
            let words = &params.words()[..count.min(params.words().len())];
            let params = FlatParams::new(words).unwrap_or(params);
            Ok::<_, HostError>(Question {
                tag,
                params,
                narrow,
            })
        };
        let reply = |_: Caller<'_, Data>, _, answer| match answer {
            Answer::Word(word) => Ok(FlatResult(word)),
            Answer::Error(error) => Err(error.into_host_error()),
        };
        linker.change(|linker| linker.func_flat_ask(module, name, ty, ask, reply).map(drop))
    })
}

/// Adds an immutable global. A reference must be a PIRN_EXTERNREF, or null.
///
/// # Safety
///
/// `linker` is a live handle. `module` and `name` are C strings. The field of `value` that its kind
/// names was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_global(
    linker: *mut pirn_linker_t,
    module: *const c_char,
    name: *const c_char,
    value: pirn_val_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, and C strings `module`
    // and `name`, valid during this call. The field of `value` that its kind names is written.
    guard(|| unsafe {
        let linker = &mut unique(linker, "linker")?.linker;
        let (module, name) = (text(module, "module")?, text(name, "name")?);
        // An empty list: `value` fails for a reference of an instance, unless the reference is
        // null.
        let value = value.value(&References::new())?;
        linker.change(|linker| linker.global(module, name, value).map(drop))
    })
}

/// Adds the functions of WASI preview 1. Each instance has the context that pirn_instance_new got,
/// or an empty one.
///
/// # Safety
///
/// `linker` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_wasi(linker: *mut pirn_linker_t) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, valid during this
    // call.
    guard(|| unsafe {
        let linker = &mut unique(linker, "linker")?.linker;
        linker.change(|linker| pirn_wasi::link(linker, Data::wasi))
    })
}

/// Sets the function that decides whether a memory may grow, within the limits of its type and of
/// the region. The function replaces an earlier limiter. The library takes `env` over as
/// pirn_linker_func does.
///
/// # Safety
///
/// `linker` is a live handle. `allows` and `env_delete` can be called with `env` as their types
/// say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_memory_limiter(
    linker: *mut pirn_linker_t,
    allows: pirn_limiter_t,
    env: *mut c_void,
    env_delete: pirn_env_delete_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, and functions `allows`
    // and `env_delete` that accept `env`, valid during this call.
    guard(|| unsafe {
        let env = Env::new(env, env_delete);
        let linker = &mut unique(linker, "linker")?.linker;
        let limiter = host::limiter(allows, env)?;
        linker.change(|linker| {
            linker.memory_limiter(limiter);
            Fallible::Ok(())
        })
    })
}

/// A copy of a linker with its items. Later changes of one linker do not affect the other. NULL for
/// NULL, and for a linker that can only be deleted.
///
/// # Safety
///
/// `linker` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_clone(linker: *const pirn_linker_t) -> *mut pirn_linker_t {
    guard_or(ptr::null_mut(), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `linker`, valid
        // during this call.
        let linker = unsafe { shared(linker, "linker") };
        let items = linker.and_then(|linker| linker.linker.get());
        items.map_or(ptr::null_mut(), |items| {
            let linker = Linking::new(items.clone());
            Box::into_raw(Box::new(pirn_linker_t { linker }))
        })
    })
}

/// Frees a linker. Preparations keep the functions that they need.
///
/// # Safety
///
/// `linker` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_delete(linker: *mut pirn_linker_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `linker`, and does not
    // use it again.
    unsafe { entry::delete(linker) };
}
