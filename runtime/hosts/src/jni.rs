//! The interface to Java: the parts of the Java Native Interface that the tests need.
//!
//! Source: Java Native Interface Specification, chapter 4, which numbers the functions of the
//! table.
//!
//! # Safety
//!
//! This file owns the numbers and types of those functions.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_void};
use core::mem;

/// A thread's handle of the virtual machine: a pointer to a table of functions.
type Env = *const *const *const c_void;
type GetStaticMethod =
    unsafe extern "C" fn(Env, *mut c_void, *const c_char, *const c_char) -> *mut c_void;
type CallStaticInt = unsafe extern "C" fn(Env, *mut c_void, *mut c_void, *const i64) -> i32;

const GET_STATIC_METHOD: usize = 113;
const CALL_STATIC_INT: usize = 131;

/// The Java method that a guest's host call reaches.
struct Method {
    env: Env,
    class: *mut c_void,
    method: *mut c_void,
}

/// `Hosts.run`: [`pirn_hosts_run`](crate::pirn_hosts_run), with `Hosts.back` as the host function.
///
/// # Safety
///
/// Only the Java virtual machine may call this, with a valid `env` of this thread and a valid
/// `class`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Java_Hosts_run(env: Env, class: *mut c_void, what: i32) -> i32 {
    const NAME: &CStr = c"back";
    const TYPE: &CStr = c"(I)I";
    // SAFETY: `env` belongs to this thread, and its table has these functions at these indices. The
    // passed pointers live as long as the call.
    unsafe {
        let find: GetStaticMethod = mem::transmute(*(*env).add(GET_STATIC_METHOD));
        let method = find(env, class, NAME.as_ptr(), TYPE.as_ptr());
        assert!(!method.is_null(), "Hosts has no method `back`");
        let mut back = Method { env, class, method };
        crate::pirn_hosts_run(what, call_back, (&raw mut back).cast())
    }
}

/// Calls the Java method of a running [`Java_Hosts_run`].
unsafe extern "C" fn call_back(with: *mut c_void, n: i32) -> i32 {
    // SAFETY: `with` points to the `Method` of a running call on this thread. The arguments are an
    // array of eight-byte unions.
    unsafe {
        let back = &*with.cast::<Method>();
        let call: CallStaticInt = mem::transmute(*(*back.env).add(CALL_STATIC_INT));
        call(back.env, back.class, back.method, &i64::from(n))
    }
}

/// `Hosts.count`: the number of actions.
#[unsafe(no_mangle)]
pub extern "C" fn Java_Hosts_count(_: Env, _: *mut c_void) -> i32 {
    crate::pirn_hosts_count()
}

/// `Hosts.open`: [`pirn_hosts_open`](crate::pirn_hosts_open).
#[unsafe(no_mangle)]
pub extern "C" fn Java_Hosts_open(_: Env, _: *mut c_void) {
    crate::pirn_hosts_open();
}

/// `Hosts.fault`: a fault of the host itself.
#[unsafe(no_mangle)]
pub extern "C" fn Java_Hosts_fault(_: Env, _: *mut c_void) {
    crate::pirn_hosts_fault();
}
