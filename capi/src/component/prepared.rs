//! [`pirn_component_prepared_t`]: a component that is linked and checked, and
//! [`pirn_component_func_t`]: its functions.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use super::data::Prep;
use super::driver::Driver;
use super::linker::pirn_component_linker_t;
use super::pirn_component_t;
use crate::entry::{self, guard, out, shared, text};
use crate::error::{Fallible, pirn_error_t};
use crate::region::pirn_region_t;
use crate::texts::c_text;
use core::ffi::c_char;
use core::time::Duration;
use pirn_component::{Component, Func};
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

/// A component that is linked to the host and checked against a region. Immutable; any threads may
/// use it at the same time.
pub struct pirn_component_prepared_t {
    pub(crate) prepared: Prep,
    component: Component,
    pub(crate) driver: Option<Arc<Driver>>,
}

/// A function that a component exports, looked up once for all instances of its preparation. It may
/// outlive the preparation. Immutable; any threads may use it at the same time.
pub struct pirn_component_func_t {
    pub(crate) func: Func,
    component: Component,
    type_text: OnceLock<CString>,
}

/// Links a component to the host, and checks that it fits into a slot. The preparation copies what
/// it needs, so the other handles may be deleted. A component of several core modules needs a
/// region with several memories: see PIRN_REGION_MEMORIES.
///
/// # Safety
///
/// `region`, `component` and `linker` are live handles, `prepared` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_region_prepare_component(
    region: *const pirn_region_t,
    component: *const pirn_component_t,
    linker: *const pirn_component_linker_t,
    prepared: *mut *mut pirn_component_prepared_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `region`, `component` and
    // `linker`, and a writable `prepared`, valid during this call.
    guard(|| unsafe {
        let to = out(prepared, "prepared")?;
        let region = &shared(region, "region")?.region;
        let component = shared(component, "component")?.get();
        let items = shared(linker, "linker")?.linker.get()?;
        to.give(pirn_component_prepared_t {
            prepared: items.link.prepare(region, component)?,
            component: component.clone(),
            driver: items.driver.clone(),
        });
        Ok(())
    })
}

/// Makes a preparation that differs from another one.
///
/// # Safety
///
/// `prepared` must be a live handle or null, and `changed` writable or null, during the call.
unsafe fn derive(
    prepared: *const pirn_component_prepared_t,
    changed: *mut *mut pirn_component_prepared_t,
    change: impl FnOnce(&Prep) -> Fallible<Prep>,
) -> *mut pirn_error_t {
    // SAFETY: the caller ensures that `prepared` is live or null, and that `changed` is writable.
    guard(|| unsafe {
        let to = out(changed, "changed")?;
        let from = shared(prepared, "prepared")?;
        to.give(pirn_component_prepared_t {
            prepared: change(&from.prepared)?,
            component: from.component.clone(),
            driver: from.driver.clone(),
        });
        Ok(())
    })
}

/// A preparation whose instances may take at most `limit_ns` nanoseconds of wall time for their
/// start.
///
/// # Safety
///
/// `prepared` is a live handle, `changed` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_prepared_start_deadline(
    prepared: *const pirn_component_prepared_t,
    limit_ns: u64,
    changed: *mut *mut pirn_component_prepared_t,
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

/// A preparation whose instances begin with `fuel` units of fuel. PIRN_ERROR_ARGUMENT if the
/// component was compiled without `aotc --fuel`.
///
/// # Safety
///
/// `prepared` is a live handle, `changed` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_prepared_start_fuel(
    prepared: *const pirn_component_prepared_t,
    fuel: u64,
    changed: *mut *mut pirn_component_prepared_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `prepared` and a writable
    // `changed`, valid during this call.
    unsafe { derive(prepared, changed, |prepared| Ok(prepared.start_fuel(fuel)?)) }
}

/// Looks up the exported function `name`, such as `add`, or `wasi:cli/run@0.2.0#run` for a function
/// of an interface. If the component exports a compatible version of the interface instead, finds
/// the function of that version.
///
/// # Safety
///
/// `prepared` is a live handle, `name` is a C string, `func` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_prepared_func(
    prepared: *const pirn_component_prepared_t,
    name: *const c_char,
    func: *mut *mut pirn_component_func_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `prepared`, a C string `name`
    // and a writable `func`, valid during this call.
    guard(|| unsafe {
        let to = out(func, "func")?;
        let prepared = shared(prepared, "prepared")?;
        to.give(pirn_component_func_t {
            func: prepared.prepared.func(text(name, "name")?)?,
            component: prepared.component.clone(),
            type_text: OnceLock::new(),
        });
        Ok(())
    })
}

/// The type of a function in words, such as `func(a: u32) -> string`. Valid as long as `func`. An
/// empty text for NULL.
///
/// # Safety
///
/// `func` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_func_type(
    func: *const pirn_component_func_t,
) -> *const c_char {
    let text = |func: &pirn_component_func_t| {
        let text = || c_text(&func.component.describe(func.func.ty()));
        func.type_text.get_or_init(text).as_ptr()
    };
    // SAFETY: by the header's contract, the C caller passes a live or NULL `func`, valid during
    // this call.
    unsafe { entry::read(func, c"".as_ptr(), text) }
}

/// Frees a function.
///
/// # Safety
///
/// `func` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_func_delete(func: *mut pirn_component_func_t) {
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
pub unsafe extern "C" fn pirn_component_prepared_clone(
    prepared: *const pirn_component_prepared_t,
) -> *mut pirn_component_prepared_t {
    let another = |prepared: &pirn_component_prepared_t| pirn_component_prepared_t {
        prepared: prepared.prepared.clone(),
        component: prepared.component.clone(),
        driver: prepared.driver.clone(),
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
pub unsafe extern "C" fn pirn_component_prepared_delete(prepared: *mut pirn_component_prepared_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `prepared`, and does not
    // use it again.
    unsafe { entry::delete(prepared) };
}
