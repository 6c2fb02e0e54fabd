//! [`pirn_component_linker_t`]: the functions and resource types that components import from the
//! host.
//!
//! # Safety
//!
//! This file owns one fact. The library calls a function of the embedder only with the `env` that
//! came with the function. `env` lives as long as the function.
#![allow(unsafe_code)]

use super::caller::pirn_component_caller_t;
use super::data::{Data, Link};
use super::driver::Driver;
use super::owned::Lists;
use super::value::pirn_component_value_t;
use crate::entry::{self, guard, guard_or, text, unique};
use crate::error::{Fallible, argument, pirn_error_t};
use crate::host::{Env, ended, pirn_env_delete_t};
use crate::poison::Linking;
use core::ffi::{c_char, c_void};
use core::ptr;
use pirn_component::{Resource, State, Value};
use std::sync::Arc;

/// Functions and resource types that components can import, by interface and name. One thread at a
/// time may use a linker. Preparations copy what they need, so the linker may be changed or deleted
/// after pirn_region_prepare_component.
pub struct pirn_component_linker_t {
    pub(crate) linker: Linking<Items>,
}

/// The content of a linker.
pub(crate) struct Items {
    pub(crate) link: Link,
    /// Runs the asynchronous functions of WASI; `None` if the linker has no WASI.
    pub(crate) driver: Option<Arc<Driver>>,
}

/// A host function of a component. `args` has `args_count` values, as many as the function has
/// parameters. They are valid until the function returns. If the function has a result, it calls
/// pirn_component_caller_return.
///
/// The function returns NULL, or an error that it owns and gives to the library: the guest's call
/// then ends with that error. It runs on the thread that called the component, and on several
/// threads at the same time if several threads call components. It must not leave by longjmp(3). A
/// C++ exception that leaves the function ends the process.
pub type pirn_component_host_t = Option<
    unsafe extern "C-unwind" fn(
        env: *mut c_void,
        caller: *mut pirn_component_caller_t,
        args: *const pirn_component_value_t,
        args_count: usize,
    ) -> *mut pirn_error_t,
>;

/// Ends a resource of a type that the embedder defines: a component has dropped the owned handle.
/// `rep` is the embedder's number for the resource. Return value, threads and exceptions are as for
/// pirn_component_host_t.
pub type pirn_component_drop_t = Option<
    unsafe extern "C-unwind" fn(
        env: *mut c_void,
        caller: *mut pirn_component_caller_t,
        rep: u32,
    ) -> *mut pirn_error_t,
>;

/// Makes an empty linker for components. NULL only if the library panics.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_component_linker_new() -> *mut pirn_component_linker_t {
    guard_or(ptr::null_mut(), || {
        let linker = Linking::new(Items {
            link: Link::new(),
            driver: None,
        });
        Box::into_raw(Box::new(pirn_component_linker_t { linker }))
    })
}

/// Adds a host function. Interface and function have their names in WIT: `wasi:io/streams@0.2.0`
/// and `[method]output-stream.write`. An empty `interface` is for functions that a component
/// imports outside an interface. A definition also matches an import of a compatible version. A
/// definition matches any function type; each call compares the result with the type of the import.
///
/// `func` gets `env` at each call. The library takes `env` over as pirn_linker_func does.
///
/// # Safety
///
/// `linker` is a live handle. `interface` and `name` are C strings. `func` and `env_delete` can be
/// called with `env` as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_linker_func(
    linker: *mut pirn_component_linker_t,
    interface: *const c_char,
    name: *const c_char,
    func: pirn_component_host_t,
    env: *mut c_void,
    env_delete: pirn_env_delete_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, and C strings
    // `interface` and `name`, valid during this call. It also passes functions `func` and
    // `env_delete` that accept `env`.
    guard(|| unsafe {
        let env = Env::new(env, env_delete);
        let linker = &mut unique(linker, "linker")?.linker;
        let (interface, name) = (text(interface, "interface")?, text(name, "name")?);
        let func = func.ok_or_else(|| argument("`func` is NULL; pass a function"))?;
        let code = move |state: &mut State<Data>, params: Vec<Value>| {
            let mut lists = Lists::default();
            let args = lists.list(params);
            let (error, result) = state.data().caller.lend(|caller| {
                // SAFETY: the header requires that `func` accepts `env`. `args.values` points to
                // `args.count` values, which `lists` owns during the call.
                func(env.pointer(), caller, args.values, args.count)
            });
            // SAFETY: the header requires that the function owned `error` and gives it to the
            // library.
            ended(error)?;
            Ok(result)
        };
        linker.change(|items| items.link.func_values(interface, name, code).map(drop))
    })
}

/// Adds a resource type. `dropped` runs when a component drops an owned handle of this type; it may
/// be NULL. The library takes `env` over as pirn_linker_func does.
///
/// # Safety
///
/// `linker` is a live handle. `interface` and `name` are C strings. `dropped` and `env_delete` can
/// be called with `env` as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_linker_resource(
    linker: *mut pirn_component_linker_t,
    interface: *const c_char,
    name: *const c_char,
    dropped: pirn_component_drop_t,
    env: *mut c_void,
    env_delete: pirn_env_delete_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, and C strings
    // `interface` and `name`, valid during this call. It also passes functions `dropped` and
    // `env_delete` that accept `env`.
    guard(|| unsafe {
        let env = Env::new(env, env_delete);
        let linker = &mut unique(linker, "linker")?.linker;
        let (interface, name) = (text(interface, "interface")?, text(name, "name")?);
        let code = move |state: &mut State<Data>, resource: Resource| {
            let Some(dropped) = dropped else {
                return Ok(());
            };
            let (error, _) = state.data().caller.lend(|caller| {
                // SAFETY: the header requires that `dropped` accepts `env`.
                dropped(env.pointer(), caller, resource.rep())
            });
            // SAFETY: the header requires that the function owned `error` and gives it to the
            // library.
            ended(error)
        };
        linker.change(|items| items.link.resource(interface, name, code).map(drop))
    })
}

/// Adds the interfaces of WASI 0.2 for commands: `wasi:cli`, `wasi:io`, `wasi:clocks`,
/// `wasi:random`, `wasi:filesystem` and `wasi:sockets`. Each instance has the context that
/// pirn_component_instance_new got, or an empty one.
///
/// A thread of the library waits for timers, pipes and sockets of these instances, as long as the
/// linker, its preparations or their instances exist. In a child of fork(2) that thread is missing:
/// make a new linker there.
///
/// # Safety
///
/// `linker` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_linker_wasi(
    linker: *mut pirn_component_linker_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, valid during this
    // call.
    guard(|| unsafe {
        let linker = &mut unique(linker, "linker")?.linker;
        linker.change(|items| {
            let driver = Arc::new(Driver::new()?);
            pirn_wasi2::link(&mut items.link)?;
            items.driver = Some(driver);
            Fallible::Ok(())
        })
    })
}

/// Limits the memory that the host keeps for one instance of a component: 128 MiB by default. A
/// value counts while the library reads or writes it: 32 bytes, and the bytes of its text. Handles
/// and the resources of WASI count, too.
///
/// # Safety
///
/// `linker` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_linker_host_bytes_max(
    linker: *mut pirn_component_linker_t,
    bytes: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `linker`, valid during this
    // call.
    guard(|| unsafe {
        let linker = &mut unique(linker, "linker")?.linker;
        linker.change(|items| {
            items.link.host_bytes_max(bytes);
            Fallible::Ok(())
        })
    })
}

/// Frees a linker. Preparations keep the functions that they need.
///
/// # Safety
///
/// `linker` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_linker_delete(linker: *mut pirn_component_linker_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `linker`, and does not
    // use it again.
    unsafe { entry::delete(linker) };
}
