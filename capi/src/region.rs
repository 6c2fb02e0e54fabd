//! [`pirn_region_t`]: a set of slots in which instances run.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::bytes::pirn_bytes_t;
use crate::entry::{self, guard, list, out, shared};
use crate::error::{Fallible, argument, pirn_error_t};
use pirn_runtime::{Region, RegionBuilder, Reset};

/// A set of preallocated slots. Any threads may use it at the same time.
pub struct pirn_region_t {
    pub(crate) region: Region,
}

/// Number of slots: the most instances that exist at one time. 16 by default.
pub const PIRN_REGION_SLOTS: u32 = 1;
/// Most memories that a module defines. 1 by default.
pub const PIRN_REGION_MEMORIES: u32 = 2;
/// Largest size of a memory in bytes. 64 MiB by default.
pub const PIRN_REGION_MEMORY_BYTES_MAX: u32 = 3;
/// Most tables that a module defines. 4 by default.
pub const PIRN_REGION_TABLES: u32 = 4;
/// Most elements of a table. 65,536 by default.
pub const PIRN_REGION_TABLE_ELEMENTS: u32 = 5;
/// Size of an instance's stack in bytes. 1 MiB by default.
pub const PIRN_REGION_STACK_BYTES: u32 = 6;
/// Size of an instance's globals, imports and function references in bytes. 512 KiB by default.
pub const PIRN_REGION_INSTANCE_BYTES: u32 = 7;
/// Most bytes of the host's memory that are held for an instance. 1 MiB by default.
pub const PIRN_REGION_HOST_BYTES_MAX: u32 = 8;
/// Most nested calls (pirn_caller_call) of an instance that run at one time. 32 by default.
pub const PIRN_REGION_NESTED_CALLS_MAX: u32 = 9;
/// The strategy that resets slots: one of PIRN_RESET_AUTO to PIRN_RESET_SCANNED.
pub const PIRN_REGION_RESET: u32 = 10;

/// The fastest strategy that works on this machine. The default.
pub const PIRN_RESET_AUTO: u64 = 0;
/// At each reset, returns all pages to the system.
pub const PIRN_RESET_DECOMMITTED: u64 = 1;
/// At each reset, writes all pages again.
pub const PIRN_RESET_REWRITTEN: u64 = 2;
/// At each reset, writes the pages again that userfaultfd reported as written.
pub const PIRN_RESET_TRACKED: u64 = 3;
/// At each reset, writes the pages again that the kernel lists as written.
pub const PIRN_RESET_SCANNED: u64 = 4;

/// A setting of a region.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_region_option_t {
    /// One of PIRN_REGION_SLOTS to PIRN_REGION_RESET.
    pub option: u32,
    /// The value.
    pub value: u64,
}

/// Reserves the slots of a region.
///
/// The first region of a process installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGURG.
/// A signal that belongs to no guest goes to the handler that was installed before. A later option
/// replaces an earlier option of the same number.
///
/// # Safety
///
/// `options` points to `count` options, `region` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_region_new(
    options: *const pirn_region_option_t,
    count: usize,
    region: *mut *mut pirn_region_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes `count` options at `options` and a
    // writable `region`, valid during this call.
    guard(|| unsafe {
        let to = out(region, "region")?;
        let options = list(options, count, "options")?;
        let mut builder = Region::builder();
        for option in options {
            builder = set(builder, *option)?;
        }
        let region = builder.build()?;
        to.give(pirn_region_t { region });
        Ok(())
    })
}

fn set(builder: RegionBuilder, option: pirn_region_option_t) -> Fallible<RegionBuilder> {
    let value = option.value;
    let narrow = || {
        u32::try_from(value).map_err(|_| {
            argument(format!(
                "region option {} is {value}, at most {} is possible; pass a smaller number",
                option.option,
                u32::MAX
            ))
        })
    };
    // The runtime checks the range of each setting. All targets have 64-bit sizes.
    let wide = value as usize;
    Ok(match option.option {
        PIRN_REGION_SLOTS => builder.slots(narrow()?),
        PIRN_REGION_MEMORIES => builder.memories(narrow()?),
        PIRN_REGION_MEMORY_BYTES_MAX => builder.memory_bytes_max(wide),
        PIRN_REGION_TABLES => builder.tables(narrow()?),
        PIRN_REGION_TABLE_ELEMENTS => builder.table_elements(narrow()?),
        PIRN_REGION_STACK_BYTES => builder.stack_bytes(wide),
        PIRN_REGION_INSTANCE_BYTES => builder.instance_bytes(wide),
        PIRN_REGION_HOST_BYTES_MAX => builder.host_bytes_max(wide),
        PIRN_REGION_NESTED_CALLS_MAX => builder.nested_calls_max(narrow()?),
        PIRN_REGION_RESET => builder.reset(reset(value)?),
        other => {
            return Err(argument(format!(
                "region option is {other}, the options are {PIRN_REGION_SLOTS} to \
                 {PIRN_REGION_RESET}; pass one of them"
            )));
        }
    })
}

fn reset(value: u64) -> Fallible<Reset> {
    Ok(match value {
        PIRN_RESET_AUTO => Reset::Auto,
        PIRN_RESET_DECOMMITTED => Reset::Decommitted,
        PIRN_RESET_REWRITTEN => Reset::Rewritten,
        PIRN_RESET_TRACKED => Reset::Tracked,
        PIRN_RESET_SCANNED => Reset::Scanned,
        other => {
            return Err(argument(format!(
                "reset strategy is {other}, the largest is {PIRN_RESET_SCANNED}; pass one of \
                 `PIRN_RESET_AUTO` to `PIRN_RESET_SCANNED`"
            )));
        }
    })
}

/// Another handle to the region, which the caller deletes separately. NULL for NULL.
///
/// # Safety
///
/// `region` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_region_clone(region: *const pirn_region_t) -> *mut pirn_region_t {
    let another = |region: &pirn_region_t| pirn_region_t {
        region: region.region.clone(),
    };
    // SAFETY: by the header's contract, the C caller passes a live or NULL `region`, valid during
    // this call.
    unsafe { entry::another(region, another) }
}

/// The number of slots that are free at this moment; 0 for NULL.
///
/// # Safety
///
/// `region` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_region_slots_free(region: *const pirn_region_t) -> usize {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `region`, valid during
    // this call.
    unsafe { entry::read(region, 0, |region| region.region.slots_free()) }
}

/// The settings, the state and the reset strategy of the region in one line of text. The caller
/// owns the bytes.
///
/// # Safety
///
/// `region` is a live handle, `text` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_region_describe(
    region: *const pirn_region_t,
    text: *mut *mut pirn_bytes_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `region` and a writable `text`,
    // valid during this call.
    guard(|| unsafe {
        let to = out(text, "text")?;
        let region = shared(region, "region")?;
        let text = region.region.describe().to_string();
        to.give(pirn_bytes_t::new(text.into_bytes()));
        Ok(())
    })
}

/// Frees a handle. The slots stay as long as another handle, a preparation or an instance uses the
/// region.
///
/// # Safety
///
/// `region` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_region_delete(region: *mut pirn_region_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `region`, and does not
    // use it again.
    unsafe { entry::delete(region) };
}
