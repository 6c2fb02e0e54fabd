//! [`pirn_component_t`]: a compiled component.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

mod value;
mod owned;
mod driver;
mod caller;
mod data;
mod wasi2;
mod linker;
mod prepared;
mod instance;

use crate::entry::{self, guard, out, shared};
use crate::error::pirn_error_t;
use crate::module::pirn_module_t;
use crate::texts::c_text;
pub use caller::*;
use core::ffi::c_char;
pub use instance::*;
pub use linker::*;
pub use owned::*;
use pirn_component::{Component, FuncType};
pub use prepared::*;
use std::ffi::CString;
use std::sync::OnceLock;
pub use value::*;
pub use wasi2::*;

/// A compiled component: the types of its functions. Immutable; any threads may use it at the same
/// time.
pub struct pirn_component_t {
    component: Component,
    imports: OnceLock<Vec<Described>>,
    exports: OnceLock<Vec<Described>>,
}

/// The texts that describe a function.
struct Described {
    name: CString,
    ty: CString,
}

/// A function that a component imports or exports. Its texts are valid as long as the handle of the
/// component.
#[repr(C)]
pub struct pirn_component_extern_t {
    /// The name: `add`, or `wasi:cli/run@0.2.0#run` for a function of an interface.
    pub name: *const c_char,
    /// The type in words, such as `func(a: u32) -> string`.
    pub type_text: *const c_char,
}

impl pirn_component_t {
    pub(crate) fn get(&self) -> &Component {
        &self.component
    }

    fn imports(&self) -> &[Described] {
        let described = || self.describe(self.component.imports());
        self.imports.get_or_init(described)
    }

    fn exports(&self) -> &[Described] {
        let described = || self.describe(self.component.exports());
        self.exports.get_or_init(described)
    }

    fn describe<'a>(
        &'a self,
        funcs: impl Iterator<Item = (String, &'a FuncType)>,
    ) -> Vec<Described> {
        let described = funcs.map(|(name, ty)| Described {
            name: c_text(&name),
            ty: c_text(&self.component.describe(ty)),
        });
        described.collect()
    }
}

impl Described {
    fn pointers(&self) -> pirn_component_extern_t {
        pirn_component_extern_t {
            name: self.name.as_ptr(),
            type_text: self.ty.as_ptr(),
        }
    }
}

/// The component that a module was compiled from. PIRN_ERROR_LINK if it was compiled from a core
/// module. The component copies what it needs from the module, so the module may be deleted.
///
/// # Safety
///
/// `module` is a live handle, `component` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_new(
    module: *const pirn_module_t,
    component: *mut *mut pirn_component_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `module` and a writable
    // `component`, valid during this call.
    guard(|| unsafe {
        let to = out(component, "component")?;
        let module = &shared(module, "module")?.module;
        let made = pirn_component_t {
            component: Component::new(module)?,
            imports: OnceLock::new(),
            exports: OnceLock::new(),
        };
        to.give(made);
        Ok(())
    })
}

/// Writes imported function `index` of the component to `import`. Returns 1, or 0 without a write
/// if there is no such function or if a pointer is NULL.
///
/// # Safety
///
/// `component` is a live handle or NULL, `import` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_import(
    component: *const pirn_component_t,
    index: usize,
    import: *mut pirn_component_extern_t,
) -> i32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `component` and a
    // writable or NULL `import`, valid during this call.
    unsafe {
        entry::read(component, 0, |component| {
            entry::item(component.imports(), index, import, Described::pointers)
        })
    }
}

/// Writes exported function `index` of the component to `exported`. Returns 1, or 0 without a write
/// if there is no such function or if a pointer is NULL.
///
/// # Safety
///
/// `component` is a live handle or NULL, `exported` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_export(
    component: *const pirn_component_t,
    index: usize,
    exported: *mut pirn_component_extern_t,
) -> i32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `component` and a
    // writable or NULL `exported`, valid during this call.
    unsafe {
        entry::read(component, 0, |component| {
            entry::item(component.exports(), index, exported, Described::pointers)
        })
    }
}

/// Frees a handle. Preparations keep what they need.
///
/// # Safety
///
/// `component` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_delete(component: *mut pirn_component_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `component`, and does
    // not use it again.
    unsafe { entry::delete(component) };
}
