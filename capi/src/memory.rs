//! The memories and globals of instances.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles and lists of its callers, by the rules of
//! `entry.rs`.
#![allow(unsafe_code)]

use crate::caller::pirn_caller_t;
use crate::data::{Data, Guest, Owning};
use crate::entry::{guard, list, list_mut, out, text};
use crate::error::{Fallible, PIRN_ERROR_LINK, pirn_error_t};
use crate::instance::{pirn_instance_t, with_instance};
use crate::lend::lent;
use crate::value::pirn_val_t;
use core::ffi::{c_char, c_void};
use pirn_runtime::{Caller, MemoryMut};

/// The exported memory `name` of an instance; memory 0 for `None`.
fn of_instance<'a, O: Owning>(
    instance: &'a mut Guest<O>,
    name: Option<&str>,
) -> Fallible<MemoryMut<'a>> {
    match name {
        None => Ok(instance.memory_mut()),
        Some(name) => instance
            .exported_memory_mut(name)
            .ok_or_else(|| no_memory(name)),
    }
}

/// The exported memory `name` of the calling instance; memory 0 for `None`.
fn of_caller<'a>(caller: &'a mut Caller<'_, Data>, name: Option<&str>) -> Fallible<MemoryMut<'a>> {
    match name {
        None => Ok(caller.memory_mut()),
        Some(name) => match caller.exported_split(name) {
            Some((memory, _)) => Ok(memory),
            None => Err(no_memory(name)),
        },
    }
}

#[cold]
pub(crate) fn no_memory(name: &str) -> Box<pirn_error_t> {
    pirn_error_t::text(
        PIRN_ERROR_LINK,
        format!("module exports no memory {name:?} of its own; name one that it exports"),
    )
}

#[cold]
pub(crate) fn no_global(name: &str) -> Box<pirn_error_t> {
    pirn_error_t::text(
        PIRN_ERROR_LINK,
        format!("module exports no global {name:?}; name one that it exports"),
    )
}

/// The name at a pointer; `None` for NULL.
///
/// # Safety
///
/// `name` must be null, or a C string that nothing changes during `'a`.
pub(crate) unsafe fn named<'a>(name: *const c_char) -> Fallible<Option<&'a str>> {
    match name.is_null() {
        true => Ok(None),
        // SAFETY: `name` is not null, so the caller ensures that it is a C string that nothing
        // changes during `'a`.
        false => unsafe { text(name, "memory") }.map(Some),
    }
}

/// Copies bytes out of a memory.
///
/// # Safety
///
/// `to` must be null, or have room for `len` bytes that no memory of a guest contains.
pub(crate) unsafe fn read(
    memory: &MemoryMut<'_>,
    address: u64,
    to: *mut c_void,
    len: usize,
) -> Fallible<()> {
    // SAFETY: the caller ensures that `to` has room for `len` bytes, and that no guest uses them
    // during the call.
    let to = unsafe { list_mut(to.cast::<u8>(), len, "to")? };
    Ok(memory.read(memory.address(address)?, to)?)
}

/// Copies bytes into a memory.
///
/// # Safety
///
/// `from` must be null, or have `len` bytes that no memory of a guest contains.
pub(crate) unsafe fn write(
    memory: &mut MemoryMut<'_>,
    address: u64,
    from: *const c_void,
    len: usize,
) -> Fallible<()> {
    // SAFETY: the caller ensures that `from` has `len` bytes, and that no guest changes them during
    // the call.
    let from = unsafe { list(from.cast::<u8>(), len, "from")? };
    Ok(memory.write(memory.address(address)?, from)?)
}

/// A pointer to bytes of a memory. `slice_mut` populates the pages of these bytes.
pub(crate) fn slice(memory: &mut MemoryMut<'_>, address: u64, len: u64) -> Fallible<*mut u8> {
    let (address, len) = (memory.address(address)?, memory.address(len)?);
    Ok(memory.slice_mut(address, len)?.as_mut_ptr())
}

/// The size of a memory in bytes. `memory` is the name of an exported memory, or NULL for memory 0.
/// The size is 0 if there is no memory 0, or if memory 0 is shared. An instance of a group may
/// import memory 0 from another instance.
///
/// # Safety
///
/// `instance` is a live handle, `memory` is a C string or NULL, `bytes` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_memory_size(
    instance: *mut pirn_instance_t,
    memory: *const c_char,
    bytes: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a C string or
    // NULL as `memory`, valid during this call. It also passes a writable `bytes`.
    guard(|| unsafe {
        let (to, name) = (out(bytes, "bytes")?, named(memory)?);
        let size = with_instance!(instance, |guest| Ok(of_instance(guest, name)?.len()))?;
        to.set(size as u64);
        Ok(())
    })
}

/// Copies `len` bytes at `address` of a memory to `to`. `memory` is as for
/// pirn_instance_memory_size. PIRN_ERROR_TRAP with PIRN_TRAP_MEMORY_OUT_OF_BOUNDS if not all bytes
/// lie in the memory; then nothing is copied.
///
/// # Safety
///
/// `instance` is a live handle, `memory` is a C string or NULL, `to` has room for `len` bytes that
/// belong to no guest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_memory_read(
    instance: *mut pirn_instance_t,
    memory: *const c_char,
    address: u64,
    to: *mut c_void,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a C string or
    // NULL as `memory`, valid during this call. It also passes room for `len` bytes at `to`,
    // outside every guest.
    guard(|| unsafe {
        let name = named(memory)?;
        with_instance!(instance, |guest| {
            read(&of_instance(guest, name)?, address, to, len)
        })
    })
}

/// Copies `len` bytes from `from` to `address` of a memory. `memory` and the errors are as for
/// pirn_instance_memory_read.
///
/// # Safety
///
/// `instance` is a live handle, `memory` is a C string or NULL, `from` has `len` bytes that belong
/// to no guest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_memory_write(
    instance: *mut pirn_instance_t,
    memory: *const c_char,
    address: u64,
    from: *const c_void,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a C string or
    // NULL as `memory`, valid during this call. It also passes `len` bytes at `from`, outside every
    // guest.
    guard(|| unsafe {
        let name = named(memory)?;
        with_instance!(instance, |guest| {
            write(&mut of_instance(guest, name)?, address, from, len)
        })
    })
}

/// Writes a pointer to `len` bytes at `address` of a memory to `bytes`, to read and write them in
/// place. `memory` and the errors are as for pirn_instance_memory_read.
///
/// # Safety
///
/// `instance` is a live handle, `memory` is a C string or NULL, `bytes` is writable. The pointer to
/// the bytes is valid until the next call, step, snapshot or end of the instance, on threads that
/// have called a guest; for an instance of a group, until a call, step or end of the group, or the
/// next pirn_group_add. Do not pass the pointer to a function of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_memory_slice(
    instance: *mut pirn_instance_t,
    memory: *const c_char,
    address: u64,
    len: u64,
    bytes: *mut *mut u8,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a C string or
    // NULL as `memory`, valid during this call. It also passes a writable `bytes`.
    guard(|| unsafe {
        let (to, name) = (out(bytes, "bytes")?, named(memory)?);
        let place = with_instance!(instance, |guest| {
            slice(&mut of_instance(guest, name)?, address, len)
        })?;
        to.set(place);
        Ok(())
    })
}

/// As pirn_instance_memory_size, in a host function.
///
/// # Safety
///
/// As pirn_instance_memory_size, and `caller` is the handle that this host function got.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_memory_size(
    caller: *mut pirn_caller_t,
    memory: *const c_char,
    bytes: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
    // function, valid during this call. It also passes a C string or NULL as `memory` and a
    // writable `bytes`.
    guard(|| unsafe {
        let (to, name) = (out(bytes, "bytes")?, named(memory)?);
        let size = lent(caller, |caller| Ok(of_caller(caller, name)?.len()))?;
        to.set(size as u64);
        Ok(())
    })
}

/// As pirn_instance_memory_read, in a host function. A host function that returns the error makes
/// the guest trap.
///
/// # Safety
///
/// As pirn_instance_memory_read, and `caller` is the handle that this host function got.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_memory_read(
    caller: *mut pirn_caller_t,
    memory: *const c_char,
    address: u64,
    to: *mut c_void,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
    // function, valid during this call. It also passes a C string or NULL as `memory` and room for
    // `len` bytes at `to`, outside every guest.
    guard(|| unsafe {
        let name = named(memory)?;
        lent(caller, |caller| {
            read(&of_caller(caller, name)?, address, to, len)
        })
    })
}

/// As pirn_instance_memory_write, in a host function. A host function that returns the error makes
/// the guest trap.
///
/// # Safety
///
/// As pirn_instance_memory_write, and `caller` is the handle that this host function got.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_memory_write(
    caller: *mut pirn_caller_t,
    memory: *const c_char,
    address: u64,
    from: *const c_void,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
    // function, valid during this call. It also passes a C string or NULL as `memory` and `len`
    // bytes at `from`, outside every guest.
    guard(|| unsafe {
        let name = named(memory)?;
        lent(caller, |caller| {
            write(&mut of_caller(caller, name)?, address, from, len)
        })
    })
}

/// As pirn_instance_memory_slice, in a host function. A host function that returns the error makes
/// the guest trap.
///
/// # Safety
///
/// As pirn_instance_memory_slice, and `caller` is the handle that this host function got. The
/// pointer to the bytes is valid until the next nested call, or until the host function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_memory_slice(
    caller: *mut pirn_caller_t,
    memory: *const c_char,
    address: u64,
    len: u64,
    bytes: *mut *mut u8,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
    // function, valid during this call. It also passes a C string or NULL as `memory` and a
    // writable `bytes`.
    guard(|| unsafe {
        let (to, name) = (out(bytes, "bytes")?, named(memory)?);
        let place = lent(caller, |caller| {
            slice(&mut of_caller(caller, name)?, address, len)
        })?;
        to.set(place);
        Ok(())
    })
}

/// Reads the exported global `name`.
///
/// # Safety
///
/// `instance` is a live handle, `name` is a C string, `value` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_global(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    value: *mut pirn_val_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, a C string `name`
    // and a writable `value`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(value, "value")?, text(name, "name")?);
        let found = with_instance!(instance, |guest| {
            let found = guest.global(name).ok_or_else(|| no_global(name))?;
            pirn_val_t::of(found, &mut guest.data_mut().references)
        })?;
        to.set(found);
        Ok(())
    })
}

/// Sets the exported global `name`, which must be mutable. Other instances of the group that import
/// the global see the new value.
///
/// # Safety
///
/// `instance` is a live handle, `name` is a C string. The field of `value` that its kind names was
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_set_global(
    instance: *mut pirn_instance_t,
    name: *const c_char,
    value: pirn_val_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance` and a C string
    // `name`, valid during this call. The field of `value` that its kind names is written.
    guard(|| unsafe {
        let name = text(name, "name")?;
        with_instance!(instance, |guest| {
            let value = value.value(&guest.data().references)?;
            Ok(guest.set_global(name, value)?)
        })
    })
}
