//! Panics: no panic leaves a function of the library, and a handle that a panicking function was
//! changing can only be deleted.
//!
//! # Safety
//!
//! These tests call the functions as the header says, with live handles.
#![allow(unsafe_code)]

use super::injected::panic_next;
use crate::*;
use core::ffi::{CStr, c_char, c_void};
use core::ptr;

/// Frees an error, and returns its kind and its message.
fn ended(error: *mut pirn_error_t) -> (pirn_error_kind_t, String) {
    // SAFETY: `error` is live or null, and nothing uses it after this function.
    unsafe {
        let kind = pirn_error_kind(error);
        let message = CStr::from_ptr(pirn_error_message(error));
        let message = message.to_string_lossy().into_owned();
        pirn_error_delete(error);
        (kind, message)
    }
}

fn ok(error: *mut pirn_error_t) {
    assert_eq!(ended(error), (PIRN_OK, String::new()));
}

const GUEST: &str = r#"(module
  (import "h" "f" (func $f (param i32) (result i32)))
  (func (export "calls") (param i32) (result i32) (call $f (local.get 0)))
  (func (export "identity") (param i32) (result i32) (local.get 0)))"#;

/// A host function that panics if its argument is not 0.
unsafe extern "C-unwind" fn panics(
    _: *mut c_void,
    _: *mut pirn_caller_t,
    args: *const u64,
    result: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: `args` has a word for the parameter, and `result` has room for a word.
    unsafe {
        assert!(args.read() == 0, "of the host");
        result.write(7);
    }
    ptr::null_mut()
}

/// An instance, and a function of it.
struct Made {
    instance: *mut pirn_instance_t,
    func: *mut pirn_func_t,
}

impl Made {
    fn new(name: &CStr) -> Self {
        let wasm = pirn_compiler::parse_text(GUEST.as_bytes()).expect("a module");
        let options = pirn_compiler::Options::default();
        let file = pirn_compiler::compile(&wasm, &options).expect("it compiles");
        let (mut module, mut region) = (ptr::null_mut(), ptr::null_mut());
        let (mut prepared, mut func) = (ptr::null_mut(), ptr::null_mut());
        let mut instance = ptr::null_mut();
        let slots = pirn_region_option_t {
            option: PIRN_REGION_SLOTS,
            value: 1,
        };
        let (i32s, h) = ([PIRN_I32], c"h".as_ptr());
        let linker = pirn_linker_new();
        // SAFETY: all handles are live, and all lists have the stated lengths.
        unsafe {
            ok(pirn_module_from_bytes(
                file.as_ptr(),
                file.len(),
                &raw mut module,
            ));
            ok(pirn_region_new(&raw const slots, 1, &raw mut region));
            let (func_name, env) = (c"f".as_ptr(), ptr::null_mut());
            ok(pirn_linker_words(
                linker,
                h,
                func_name,
                i32s.as_ptr(),
                1,
                i32s.as_ptr(),
                1,
                Some(panics),
                env,
                None,
            ));
            ok(pirn_region_prepare(
                region,
                module,
                linker,
                &raw mut prepared,
            ));
            ok(pirn_prepared_func(prepared, name.as_ptr(), &raw mut func));
            ok(pirn_instance_new(
                prepared,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
                &raw mut instance,
            ));
            pirn_module_delete(module);
            pirn_region_delete(region);
            pirn_linker_delete(linker);
            pirn_prepared_delete(prepared);
        }
        Self { instance, func }
    }

    fn call(&self, argument: u64) -> (pirn_error_kind_t, String, u64) {
        let mut result = 99;
        // SAFETY: the handles are live, and the function takes and returns one word.
        let (kind, message) = ended(unsafe {
            pirn_instance_call_words(
                self.instance,
                self.func,
                ptr::null(),
                &raw const argument,
                &raw mut result,
            )
        });
        (kind, message, result)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: the handles are live, and end here.
        unsafe {
            pirn_func_delete(self.func);
            pirn_instance_delete(self.instance);
        }
    }
}

#[test]
fn a_panic_becomes_an_error_with_its_message() {
    let mut region = ptr::null_mut();
    panic_next();
    // SAFETY: the place is writable.
    let (kind, message) = ended(unsafe { pirn_region_new(ptr::null(), 0, &raw mut region) });
    assert_eq!(kind, PIRN_ERROR_PANIC);
    assert!(message.contains("injected"), "{message}");
    assert!(region.is_null(), "nothing is written");
}

#[test]
fn functions_without_errors_return_their_neutral_value() {
    panic_next();
    assert!(pirn_linker_new().is_null());
    panic_next();
    assert!(pirn_wasi_new().is_null());
    panic_next();
    assert!(pirn_component_linker_new().is_null());
    panic_next();
    assert!(pirn_wasi2_new().is_null());
    panic_next();
    // SAFETY: NULL is allowed.
    assert!(unsafe { pirn_component_owned_value(ptr::null()) }.is_null());
    panic_next();
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { pirn_instance_is_suspended(ptr::null_mut()) }, 0);
    panic_next();
    // SAFETY: the text is a C string.
    let error = unsafe { pirn_error_new(c"text".as_ptr(), 3) };
    assert_eq!(ended(error).0, PIRN_ERROR_HOST, "an error is never NULL");
}

/// The panic of a host function ends the guest's call, and the instance can be called again.
#[test]
fn a_panic_of_a_host_function_ends_the_call() {
    let made = Made::new(c"calls");
    let (kind, message, result) = made.call(1);
    assert_eq!((kind, result), (PIRN_ERROR_PANIC, 99));
    assert!(message.contains("of the host"), "{message}");
    assert_eq!(made.call(0), (PIRN_OK, String::new(), 7));
}

#[test]
fn an_instance_is_poisoned_by_a_panic_while_it_is_changed() {
    let made = Made::new(c"identity");
    assert_eq!(made.call(5), (PIRN_OK, String::new(), 5));
    // SAFETY: the handle is live.
    let error = entry::guard(|| unsafe {
        exclusive::with(made.instance, |_| -> error::Fallible<()> {
            panic!("in the middle of a change")
        })
    });
    assert_eq!(ended(error).0, PIRN_ERROR_PANIC);
    assert_eq!(made.call(5).0, PIRN_ERROR_POISONED);
    let mut fuel = 0;
    // SAFETY: the handle is live, and the place is writable.
    let fuel = unsafe { pirn_instance_fuel(made.instance, &raw mut fuel) };
    assert_eq!(ended(fuel).0, PIRN_ERROR_POISONED);
}

#[test]
fn a_poisoned_instance_gives_no_snapshot_and_ends() {
    let mut made = Made::new(c"identity");
    // SAFETY: the handle is live.
    let error = entry::guard(|| unsafe {
        exclusive::with(made.instance, |_| -> error::Fallible<()> { panic!() })
    });
    assert_eq!(ended(error).0, PIRN_ERROR_PANIC);
    let mut module = ptr::null_mut();
    // SAFETY: the handle is live, and ends.
    let refused = unsafe { pirn_instance_snapshot(made.instance, ptr::null(), 0, &raw mut module) };
    made.instance = ptr::null_mut();
    assert_eq!(ended(refused).0, PIRN_ERROR_POISONED);
    assert!(module.is_null());
}

/// `WORDS_MAX` is the most words that the runtime accepts.
#[test]
fn the_largest_list_of_words_is_that_of_the_runtime() {
    let words = [0; host::WORDS_MAX];
    pirn_runtime::FlatParams::new(&words).expect("they fit");
    pirn_runtime::FlatParams::new(&[0; host::WORDS_MAX + 1]).expect_err("one more");
}

/// Bindings in other languages state these sizes and offsets of the header's structs.
#[test]
fn layouts_are_those_of_the_header() {
    assert_eq!(size_of::<pirn_val_t>(), 24);
    assert_eq!(core::mem::offset_of!(pirn_val_t, of), 8);
    assert_eq!(size_of::<pirn_step_t>(), 24 + 8 + 17 * 8 - 8);
    assert_eq!(size_of::<pirn_limits_t>(), 24);
    assert_eq!(size_of::<pirn_region_option_t>(), 16);
    assert_eq!(size_of::<pirn_component_value_t>(), 24);
    assert_eq!(core::mem::offset_of!(pirn_component_value_t, of), 8);
    assert_eq!(size_of::<pirn_component_field_t>(), 32);
    assert_eq!(size_of::<pirn_component_resource_t>(), 16);
    assert_eq!(
        size_of::<pirn_frame_t>(),
        16 + 2 * size_of::<*const c_char>()
    );
}
