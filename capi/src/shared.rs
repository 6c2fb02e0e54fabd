//! [`pirn_shared_memory_t`]: a memory that several instances use at once, each instance on its own
//! thread.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles and lists of its callers, by the rules of
//! `entry.rs`.
#![allow(unsafe_code)]

use crate::entry::{self, guard, list, list_mut, out, out_or_null, shared, text, unique};
use crate::error::{PIRN_ERROR_LINK, argument, pirn_error_t};
use crate::linker::pirn_linker_t;
use crate::module::pirn_module_t;
use crate::prepared::{derive, pirn_prepared_t};
use core::ffi::{c_char, c_void};
use pirn_runtime::{ExternType, SharedMemory};

/// A memory that several instances use at once, each instance on its own thread. The memory lives
/// as long as a handle, a linker, a preparation or an instance has it. Any threads may use a handle
/// at the same time.
pub struct pirn_shared_memory_t {
    memory: SharedMemory,
}

/// Makes a memory of the type that `module` imports by the names `import_module` and `import_name`.
/// All bytes are zero. The memory reserves 4 GiB of address space. PIRN_ERROR_LINK if there is no
/// such import, PIRN_ERROR_ARGUMENT if the import is no shared memory.
///
/// # Safety
///
/// `module` is a live handle, `import_module` and `import_name` are C strings, `memory` is
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_shared_memory_new(
    module: *const pirn_module_t,
    import_module: *const c_char,
    import_name: *const c_char,
    memory: *mut *mut pirn_shared_memory_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `module`, C strings
    // `import_module` and `import_name`, and a writable `memory`, valid during this call.
    guard(|| unsafe {
        let to = out(memory, "memory")?;
        let module = &shared(module, "module")?.module;
        let names = (
            text(import_module, "import_module")?,
            text(import_name, "import_name")?,
        );
        let mut imports = module.imports();
        let found = imports.find(|(module, name, _)| (*module, *name) == names);
        let (module, name) = names;
        let (_, _, ty) = found.ok_or_else(|| {
            pirn_error_t::text(
                PIRN_ERROR_LINK,
                format!("module has no import {module:?} {name:?}; name a memory that it imports"),
            )
        })?;
        let ExternType::Memory(ty) = ty else {
            return Err(argument(format!(
                "import {module:?} {name:?} is {ty}, and a shared memory is needed; name a memory"
            )));
        };
        let memory = SharedMemory::new(&ty)?;
        to.give(pirn_shared_memory_t { memory });
        Ok(())
    })
}

/// Adds a shared memory, for all instances of modules that are prepared with this linker.
///
/// # Safety
///
/// `linker` and `memory` are live handles, `module` and `name` are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_linker_memory(
    linker: *mut pirn_linker_t,
    module: *const c_char,
    name: *const c_char,
    memory: *const pirn_shared_memory_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `linker` and `memory`, and C
    // strings `module` and `name`, valid during this call.
    guard(|| unsafe {
        let linker = &mut unique(linker, "linker")?.linker;
        let (module, name) = (text(module, "module")?, text(name, "name")?);
        let memory = &shared(memory, "memory")?.memory;
        linker.change(|linker| linker.memory(module, name, memory).map(drop))
    })
}

/// A preparation whose instances import `memory` in place of the shared memory that the linker has
/// for `module` and `name`. So the instances of one request can share a memory.
///
/// # Safety
///
/// `prepared` and `memory` are live handles, `module` and `name` are C strings, `changed` is
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_prepared_with_memory(
    prepared: *const pirn_prepared_t,
    module: *const c_char,
    name: *const c_char,
    memory: *const pirn_shared_memory_t,
    changed: *mut *mut pirn_prepared_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `prepared` and `memory`, C strings
    // `module` and `name`, and a writable `changed`. All are valid during this call.
    unsafe {
        derive(prepared, changed, |prepared| {
            let (module, name) = (text(module, "module")?, text(name, "name")?);
            let memory = &shared(memory, "memory")?.memory;
            Ok(prepared.with_memory(module, name, memory)?)
        })
    }
}

/// The size in bytes; 0 for NULL. A guest may grow the memory during this call. Memories never
/// shrink.
///
/// # Safety
///
/// `memory` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_shared_memory_size(memory: *const pirn_shared_memory_t) -> u64 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `memory`, valid during
    // this call.
    unsafe { entry::read(memory, 0, |memory| memory.memory.len() as u64) }
}

/// Grows the memory by `pages` pages of its type. Writes the previous number of pages to `before`
/// unless `before` is NULL. PIRN_ERROR_ARGUMENT past the maximum of the memory's type.
///
/// # Safety
///
/// `memory` is a live handle, `before` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_shared_memory_grow(
    memory: *const pirn_shared_memory_t,
    pages: u64,
    before: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `memory` and a writable or NULL
    // `before`, valid during this call.
    guard(|| unsafe {
        let to = out_or_null(before, "before")?;
        let found = shared(memory, "memory")?.memory.grow(pages)?;
        if let Some(to) = to {
            to.set(found);
        }
        Ok(())
    })
}

/// Copies `len` bytes at `address` to `bytes`. Guests may write during the copy, so the bytes may
/// be from different times. PIRN_ERROR_TRAP past the end.
///
/// # Safety
///
/// `memory` is a live handle, `bytes` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_shared_memory_read(
    memory: *const pirn_shared_memory_t,
    address: u64,
    bytes: *mut c_void,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `memory` and room for `len`
    // bytes at `bytes`, valid during this call.
    guard(|| unsafe {
        let memory = &shared(memory, "memory")?.memory;
        let into = list_mut(bytes.cast::<u8>(), len, "bytes")?;
        Ok(memory.read(address, into)?)
    })
}

/// Copies `len` bytes to `address`, in any order. PIRN_ERROR_TRAP past the end; then no byte is
/// written.
///
/// # Safety
///
/// `memory` is a live handle, `bytes` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_shared_memory_write(
    memory: *const pirn_shared_memory_t,
    address: u64,
    bytes: *const c_void,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `memory` and `len` bytes at
    // `bytes`, valid during this call.
    guard(|| unsafe {
        let memory = &shared(memory, "memory")?.memory;
        Ok(memory.write(address, list(bytes.cast::<u8>(), len, "bytes")?)?)
    })
}

/// Wakes at most `count` guests that wait at an address by `memory.atomic.wait`. Writes the number
/// of woken guests to `woken` unless `woken` is NULL. PIRN_ERROR_TRAP if the address is no multiple
/// of 4, or past the end.
///
/// # Safety
///
/// `memory` is a live handle, `woken` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_shared_memory_notify(
    memory: *const pirn_shared_memory_t,
    address: u64,
    count: u32,
    woken: *mut u32,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `memory` and a writable or NULL
    // `woken`, valid during this call.
    guard(|| unsafe {
        let to = out_or_null(woken, "woken")?;
        let found = shared(memory, "memory")?.memory.notify(address, count)?;
        if let Some(to) = to {
            to.set(found);
        }
        Ok(())
    })
}

/// Another handle to the memory, which the caller deletes separately. NULL for NULL.
///
/// # Safety
///
/// `memory` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_shared_memory_clone(
    memory: *const pirn_shared_memory_t,
) -> *mut pirn_shared_memory_t {
    let another = |memory: &pirn_shared_memory_t| pirn_shared_memory_t {
        memory: memory.memory.clone(),
    };
    // SAFETY: by the header's contract, the C caller passes a live or NULL `memory`, valid during
    // this call.
    unsafe { entry::another(memory, another) }
}

/// Frees a handle. The memory stays as long as another handle, a linker, a preparation or an
/// instance has it.
///
/// # Safety
///
/// `memory` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_shared_memory_delete(memory: *mut pirn_shared_memory_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `memory`, and does not
    // use it again.
    unsafe { entry::delete(memory) };
}
