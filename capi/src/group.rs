//! [`pirn_group_t`]: instances that import from each other.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs` and
//! `exclusive.rs`.
#![allow(unsafe_code)]

mod calls;
mod items;
mod memory;

use crate::data::{Data, Grp, Guest};
use crate::entry::{guard, guard_or, out, shared, taken, text};
use crate::error::{Fallible, PIRN_ERROR_LINK, argument, not_counted, pirn_error_t};
use crate::exclusive::{Exclusive, Place, take, with};
use crate::kill::pirn_kill_switch_t;
use crate::linker::pirn_linker_t;
use crate::module::pirn_module_t;
use crate::region::pirn_region_t;
use crate::wasi::pirn_wasi_t;
pub use calls::*;
use core::ffi::{c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
pub use items::*;
pub use memory::*;
use pirn_runtime::MemberId;

/// Instances that import from each other, each in its own slot. The instances share the `data` and
/// the context of WASI of pirn_group_new, and end with the group. One thread at a time may use a
/// group, and the group may move between threads. A function that finds the group in use returns
/// PIRN_ERROR_BUSY.
pub struct pirn_group_t {
    place: Place<Members>,
}

/// Identifies an instance of a group. 0 identifies no instance. Numbers of one group are invalid in
/// other groups.
pub type pirn_member_t = u64;

/// A group, and the ids of its instances.
pub(crate) struct Members {
    pub(super) group: Grp,
    /// Distinguishes the numbers of this group from the numbers of other groups. After 2^32 groups,
    /// a serial repeats; then a number of another group may identify an instance of this group.
    serial: u32,
    /// The lowest 32 bits of a [`pirn_member_t`] are an index of this list, plus 1.
    ids: Vec<MemberId>,
}

impl Exclusive for pirn_group_t {
    type Inner = Members;
    const NAME: &'static str = "group";

    fn place(&self) -> &Place<Members> {
        &self.place
    }
}

impl Members {
    fn new(group: Grp) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self {
            group,
            serial: NEXT.fetch_add(1, Relaxed),
            ids: vec![],
        }
    }

    /// The number of the instance at an index of the list.
    fn number(&self, at: usize) -> pirn_member_t {
        // A region has fewer slots than a number has room for.
        (u64::from(self.serial) << 32) | (at as u64 + 1)
    }

    /// Lends the instance with a number.
    ///
    /// # Errors
    ///
    /// As [`member`](Self::member).
    fn lend(&mut self, number: pirn_member_t) -> Fallible<Guest<'_>> {
        let id = self.member(number)?;
        // `member` found the id in the list of this group.
        let lent = self.group.member_mut(id);
        lent.map_err(|error| argument(error.to_string()))
    }

    /// The instance with a number.
    ///
    /// # Errors
    ///
    /// If the group has no instance with this number.
    fn member(&self, number: pirn_member_t) -> Fallible<MemberId> {
        let (serial, at) = ((number >> 32) as u32, (number as u32).wrapping_sub(1));
        let found = self.ids.get(at as usize).copied();
        let own = found.filter(|_| serial == self.serial);
        own.ok_or_else(|| {
            argument(format!(
                "`member` is {number:#x}, which is no instance of this group; pass a number that \
                 `pirn_group_add` wrote for it"
            ))
        })
    }
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
        let made = Members::new(Grp::asking(region, Data::new(data, wasi)));
        let place = Place::new(made);
        // SAFETY: by the header's contract, the C caller passes a writable `group`. `out` checked
        // the alignment.
        unsafe { to.give(pirn_group_t { place }) };
        Ok(())
    })
}

/// Adds an instance: takes a slot, and runs the module's start. Writes the instance's number to
/// `member`.
///
/// Each import is looked up by its module name among the instances with a name (pirn_group_name),
/// and then in the linker. So a module can import functions, memories, tables, globals and tags of
/// earlier instances. PIRN_ERROR_FULL if all slots are taken. A host function of pirn_linker_ask
/// ends the call with PIRN_ERROR_STATE: nothing suspends a group.
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
            members.ids.push(id);
            Ok(members.number(members.ids.len() - 1))
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
            let id = members.group.named(name);
            let at = id.and_then(|id| members.ids.iter().position(|found| *found == id));
            let at = at.ok_or_else(|| {
                pirn_error_t::text(
                    PIRN_ERROR_LINK,
                    format!("no instance has the name {name:?}; give it by `pirn_group_name`"),
                )
            })?;
            Ok(members.number(at))
        })?;
        to.set(number);
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

/// The remaining fuel of an instance. Only the functions of the instance's own module use it up.
/// PIRN_ERROR_ARGUMENT if the module was compiled without `aotc --fuel`.
///
/// # Safety
///
/// `group` is a live handle, `fuel` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_fuel(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    fuel: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group` and a writable `fuel`,
    // valid during this call.
    guard(|| unsafe {
        let to = out(fuel, "fuel")?;
        let left = with(group, |members| {
            members.lend(member)?.fuel().ok_or_else(not_counted)
        })?;
        to.set(left);
        Ok(())
    })
}

/// Sets the remaining fuel of an instance.
///
/// # Safety
///
/// `group` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_set_fuel(
    group: *mut pirn_group_t,
    member: pirn_member_t,
    fuel: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `group`, valid during this call.
    guard(|| unsafe { with(group, |members| Ok(members.lend(member)?.set_fuel(fuel)?)) })
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
/// returns.
///
/// # Safety
///
/// `group` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_group_delete(group: *mut pirn_group_t) {
    guard_or((), || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `group`, and does
        // not use it again.
        drop(unsafe { take(group) });
    });
}
