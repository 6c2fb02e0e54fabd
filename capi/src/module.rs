//! [`pirn_module_t`]: a compiled module.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::bytes::pirn_bytes_t;
use crate::entry::{self, guard, list, out, raw_text, shared};
use crate::error::pirn_error_t;
use crate::texts::{c_pointer, c_text};
use core::ffi::c_char;
use pirn_runtime::{ExternType, Module};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// A compiled module, checked and mapped. Immutable; any threads may use it at the same time.
pub struct pirn_module_t {
    pub(crate) module: Module,
    imports: OnceLock<Vec<Described>>,
    exports: OnceLock<Vec<Described>>,
}

/// The texts that describe an import or an export.
struct Described {
    module: Option<CString>,
    name: CString,
    ty: CString,
    kind: u32,
}

/// A function.
pub const PIRN_EXTERN_FUNC: u32 = 0;
/// A table.
pub const PIRN_EXTERN_TABLE: u32 = 1;
/// A memory.
pub const PIRN_EXTERN_MEMORY: u32 = 2;
/// A global.
pub const PIRN_EXTERN_GLOBAL: u32 = 3;
/// A tag.
pub const PIRN_EXTERN_TAG: u32 = 4;

/// An import or an export. Its texts are valid as long as the handle of the module. A zero byte in
/// a name is shown as U+FFFD.
#[repr(C)]
pub struct pirn_extern_t {
    /// One of PIRN_EXTERN_FUNC to PIRN_EXTERN_TAG.
    pub kind: u32,
    /// The module of an import; NULL for an export.
    pub module: *const c_char,
    /// The name.
    pub name: *const c_char,
    /// The type in words, such as `func (i32) -> i64`.
    pub type_text: *const c_char,
}

impl pirn_module_t {
    pub(crate) fn new(module: Module) -> Self {
        Self {
            module,
            imports: OnceLock::new(),
            exports: OnceLock::new(),
        }
    }

    fn imports(&self) -> &[Described] {
        self.imports.get_or_init(|| {
            let imports = self.module.imports();
            let described =
                imports.map(|(module, name, ty)| Described::of(Some(module), name, &ty));
            described.collect()
        })
    }

    fn exports(&self) -> &[Described] {
        self.exports.get_or_init(|| {
            let exports = self.module.exports();
            let described = exports.map(|(name, ty)| Described::of(None, name, &ty));
            described.collect()
        })
    }
}

impl Described {
    fn of(module: Option<&str>, name: &str, ty: &ExternType) -> Self {
        Self {
            module: module.map(c_text),
            name: c_text(name),
            ty: c_text(&ty.to_string()),
            kind: match ty {
                ExternType::Func(_) => PIRN_EXTERN_FUNC,
                ExternType::Table(_) => PIRN_EXTERN_TABLE,
                ExternType::Memory(_) => PIRN_EXTERN_MEMORY,
                ExternType::Global(_) => PIRN_EXTERN_GLOBAL,
                ExternType::Tag(_) => PIRN_EXTERN_TAG,
            },
        }
    }

    fn pointers(&self) -> pirn_extern_t {
        pirn_extern_t {
            kind: self.kind,
            module: c_pointer(self.module.as_deref()),
            name: self.name.as_ptr(),
            type_text: self.ty.as_ptr(),
        }
    }
}

/// Opens a file that `aotc` wrote: checks it, and maps it.
///
/// The file is trusted like a program: the checks find damage and mistakes, but no malicious code.
///
/// # Safety
///
/// `path` is a C string, `module` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_module_open(
    path: *const c_char,
    module: *mut *mut pirn_module_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a C string `path` and a writable
    // `module`, valid during this call.
    guard(|| unsafe {
        let to = out(module, "module")?;
        let path = raw_text(path, "path")?;
        let opened = Module::open(Path::new(OsStr::from_bytes(path)))?;
        to.give(pirn_module_t::new(opened));
        Ok(())
    })
}

/// Opens a module whose file is in memory. The bytes are copied, and trusted like a program.
///
/// # Safety
///
/// `bytes` points to `len` readable bytes, `module` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_module_from_bytes(
    bytes: *const u8,
    len: usize,
    module: *mut *mut pirn_module_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes `len` bytes at `bytes` and a writable
    // `module`, valid during this call.
    guard(|| unsafe {
        let to = out(module, "module")?;
        let opened = Module::from_bytes(list(bytes, len, "bytes")?)?;
        to.give(pirn_module_t::new(opened));
        Ok(())
    })
}

/// The file of the module, for pirn_module_from_bytes or for a file that pirn_module_open opens.
/// Save a snapshot with this function. The caller owns the bytes.
///
/// # Safety
///
/// `module` is a live handle, `bytes` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_module_to_bytes(
    module: *const pirn_module_t,
    bytes: *mut *mut pirn_bytes_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `module` and a writable `bytes`,
    // valid during this call.
    guard(|| unsafe {
        let to = out(bytes, "bytes")?;
        let file = shared(module, "module")?.module.to_bytes()?;
        to.give(pirn_bytes_t::new(file));
        Ok(())
    })
}

/// Another handle to the module, which the caller deletes separately. NULL for NULL.
///
/// # Safety
///
/// `module` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_module_clone(module: *const pirn_module_t) -> *mut pirn_module_t {
    let another = |module: &pirn_module_t| pirn_module_t::new(module.module.clone());
    // SAFETY: by the header's contract, the C caller passes a live or NULL `module`, valid during
    // this call.
    unsafe { entry::another(module, another) }
}

/// 1 if pirn_instance_snapshot made the module, in this process or in the process that saved the
/// module. Otherwise 0; 0 for NULL.
///
/// # Safety
///
/// `module` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_module_is_snapshot(module: *const pirn_module_t) -> i32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `module`, valid during
    // this call.
    unsafe { entry::read(module, 0, |module| module.module.is_snapshot().into()) }
}

/// Writes import `index` of the module to `import`, in the module's order. Returns 1, or 0 without
/// a write if there is no such import or if a pointer is NULL.
///
/// # Safety
///
/// `module` is a live handle or NULL, `import` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_module_import(
    module: *const pirn_module_t,
    index: usize,
    import: *mut pirn_extern_t,
) -> i32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `module` and a writable
    // or NULL `import`, valid during this call.
    unsafe {
        entry::read(module, 0, |module| {
            entry::item(module.imports(), index, import, Described::pointers)
        })
    }
}

/// Writes export `index` of the module to `exported`, in the module's order. Returns 1, or 0
/// without a write if there is no such export or if a pointer is NULL.
///
/// # Safety
///
/// `module` is a live handle or NULL, `exported` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_module_export(
    module: *const pirn_module_t,
    index: usize,
    exported: *mut pirn_extern_t,
) -> i32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `module` and a writable
    // or NULL `exported`, valid during this call.
    unsafe {
        entry::read(module, 0, |module| {
            entry::item(module.exports(), index, exported, Described::pointers)
        })
    }
}

/// Frees a handle. The module stays as long as another handle, a preparation or an instance uses
/// it.
///
/// # Safety
///
/// `module` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_module_delete(module: *mut pirn_module_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `module`, and does not
    // use it again.
    unsafe { entry::delete(module) };
}
