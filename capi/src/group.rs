//! [`pirn_group_t`]: instances that import from each other.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs` and
//! `exclusive.rs`.
#![allow(unsafe_code)]

use crate::data::{Data, Grp};
use crate::entry::{guard, guard_or, out, shared, taken, text};
use crate::error::{Fallible, PIRN_ERROR_LINK, pirn_error_t};
use crate::instance::pirn_instance_t;
use crate::kill::pirn_kill_switch_t;
use crate::linker::pirn_linker_t;
use crate::member::{Member, Members, SharedGroup, pirn_member_t};
use crate::module::pirn_module_t;
use crate::region::pirn_region_t;
use crate::wasi::pirn_wasi_t;
use core::ffi::{c_char, c_void};
use core::ptr;
use std::sync::Arc;

/// Instances that import from each other, each in its own slot. The instances share the `data` and
/// the context of WASI of pirn_group_new, and end with the group. One thread at a time may use a
/// group with its instances, and the group may move between threads. A function that finds the
/// group in use returns PIRN_ERROR_BUSY.
pub struct pirn_group_t {
    shared: Arc<SharedGroup>,
}

/// Runs `body` with a group.
///
/// # Errors
///
/// If the handle is null, the group is in use or poisoned, and the errors of `body`.
///
/// # Safety
///
/// `group` must be a live handle or null.
unsafe fn with<R>(
    group: *mut pirn_group_t,
    body: impl FnOnce(&mut Members) -> Fallible<R>,
) -> Fallible<R> {
    // SAFETY: the caller ensures that `group` is live or null. The share keeps the group for this
    // function: a host function may delete the handle.
    let shared = Arc::clone(&unsafe { shared(group, "group")? }.shared);
    shared.with(body)
}

/// Makes a group without instances, which will take slots of `region`.
///
/// `data` and `wasi` are as for pirn_instance_new, and all instances of the group share both. The
/// library takes `wasi` over in every case. Keep `data` valid until the group has ended.
///
/// # Safety
///
/// `region` is a live handle, `wasi` is a live handle, which ends, or NULL. `group` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_new(
    region: *const pirn_region_t,
    data: *mut c_void,
    wasi: *mut pirn_wasi_t,
    group: *mut *mut pirn_group_t,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `wasi`, and gives it
        // away.
        let wasi = unsafe { taken(wasi) };
        let wasi = wasi.map(|wasi| wasi.build()).transpose()?;
        let to = out(group, "group")?;
        // SAFETY: by the header's contract, the C caller passes a live `region`, valid during this
        // call.
        let region = &unsafe { shared(region, "region")? }.region;
        let shared = SharedGroup::new(Grp::asking(region, Data::new(data, wasi)));
        // SAFETY: by the header's contract, the C caller passes a writable `group`. `out` checked
        // the alignment.
        unsafe { to.give(pirn_group_t { shared }) };
        Ok(())
    })
}

/// Adds an instance: takes a slot, and runs the module's start. Writes the instance's number to
/// `member`.
///
/// Each import is looked up by its module name among the instances with a name (pirn_group_name),
/// and then in the linker. So a module can import functions, memories, tables, globals and tags of
/// earlier instances. PIRN_ERROR_FULL if all slots are taken.
///
/// If the start of the instance fails, the instance keeps its slot until the group ends, because
/// other instances may already refer to it.
///
/// # Safety
///
/// `group`, `module` and `linker` are live handles, `member` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_add(
    group: *mut pirn_group_t,
    module: *const pirn_module_t,
    linker: *const pirn_linker_t,
    member: *mut pirn_member_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `group`, `module` and `linker`,
    // and a writable `member`, valid during this call.
    guard(|| unsafe {
        let to = out(member, "member")?;
        let module = &shared(module, "module")?.module;
        let linker = shared(linker, "linker")?.linker.get()?;
        // Copies: a host function that runs in the start may delete both handles.
        let (module, linker) = (module.clone(), linker.clone());
        let number = with(group, |members| {
            let id = members.group.instantiate(&module, &linker)?;
            Ok(members.add(id))
        })?;
        to.set(number);
        Ok(())
    })
}

/// Makes the exports of an instance importable under the module name `name`, for instances that are
/// added later. It replaces an earlier instance of that name.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_name(
    group: *mut pirn_group_t,
    name: *const c_char,
    member: pirn_member_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a C string `name`,
    // valid during this call.
    guard(|| unsafe {
        let name = text(name, "name")?;
        with(group, |members| {
            let id = members.member(member)?;
            members.group.name(name, id);
            Ok(())
        })
    })
}

/// Writes the number of the instance with the module name `name` to `member`. PIRN_ERROR_LINK if
/// there is no such instance.
///
/// # Safety
///
/// `group` is a live handle, `name` is a C string, `member` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_named(
    group: *mut pirn_group_t,
    name: *const c_char,
    member: *mut pirn_member_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, a C string `name` and a
    // writable `member`, valid during this call.
    guard(|| unsafe {
        let (to, name) = (out(member, "member")?, text(name, "name")?);
        let number = with(group, |members| {
            members.named(name).ok_or_else(|| {
                pirn_error_t::text(
                    PIRN_ERROR_LINK,
                    format!("no instance has the name {name:?}; give it by `pirn_group_name`"),
                )
            })
        })?;
        to.set(number);
        Ok(())
    })
}

/// Makes a handle of an instance of the group, for the functions whose names begin with
/// pirn_instance. The caller deletes the handle by pirn_instance_delete, which ends no instance.
///
/// The instances share the exclusive use of the group: while a function uses one of them, the
/// functions of all return PIRN_ERROR_BUSY. They also share data, limits, kill switches and the
/// suspended call. The handle may outlive the group: after pirn_group_delete its functions return
/// PIRN_ERROR_STATE.
///
/// # Safety
///
/// `group` is a live handle, `instance` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_member(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    instance: *mut *mut pirn_instance_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a writable
    // `instance`, valid during this call.
    guard(|| unsafe {
        let to = out(instance, "instance")?;
        let id = with(group, |members| members.member(member))?;
        let group = Arc::clone(&shared(group, "group")?.shared);
        to.give(pirn_instance_t::of(Member { group, id }));
        Ok(())
    })
}

/// The `data` of pirn_group_new; NULL for NULL, and while another function uses the group.
///
/// # Safety
///
/// `group` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_data(group: *mut pirn_group_t) -> *mut c_void {
    guard_or(ptr::null_mut(), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `group`, valid
        // during this call.
        let data = unsafe { with(group, |members| Ok(members.group.data().host.get())) };
        data.unwrap_or(ptr::null_mut())
    })
}

/// Sets the fuel with which instances begin that are added from now on, if their modules count
/// fuel. Without this function, instances begin with UINT64_MAX.
///
/// # Safety
///
/// `group` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_start_fuel(
    group: *mut pirn_group_t,
    fuel: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, valid during this call.
    guard(|| unsafe {
        with(group, |members| {
            members.group.start_fuel(fuel);
            Ok(())
        })
    })
}

/// Makes a switch that ends the calls of all instances of the group from any thread, and the starts
/// of instances that are added later. PIRN_ERROR_BUSY is as for pirn_instance_kill_switch.
///
/// # Safety
///
/// `group` is a live handle, `kill_switch` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_kill_switch(
    group: *mut pirn_group_t,
    kill_switch: *mut *mut pirn_kill_switch_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a writable
    // `kill_switch`, valid during this call.
    guard(|| unsafe {
        let to = out(kill_switch, "kill_switch")?;
        let switch = with(group, |members| Ok(members.group.kill_switch()))?;
        to.give(pirn_kill_switch_t::new(switch));
        Ok(())
    })
}

/// Ends the group and all its instances. Their slots are reset for others. While a function uses
/// the group, such as the call in which a host function runs, the group ends when that function
/// returns. Handles of the instances stay, to be deleted.
///
/// # Safety
///
/// `group` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_delete(group: *mut pirn_group_t) {
    guard_or((), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `group`, and does
        // not use it again.
        if let Some(group) = unsafe { taken(group) } {
            group.shared.delete();
        }
    });
}
