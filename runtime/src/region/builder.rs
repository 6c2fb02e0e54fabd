//! [`RegionBuilder`]: the settings of a region, and how it is built.

use super::free::FreeList;
use super::kept::Kept;
use super::layout::{Layout, Limits, OutOfRange, PART_ALIGN};
use super::pool::{Pool, Region};
use super::reset::{Reset, Site, Strategy};
use crate::account::Account;
use crate::signals;
use crate::sys::memory::Reservation;
use crate::sys::page_bytes;
use core::sync::atomic::AtomicU32;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Maximum number of memories in one reservation: 4 TiB. No gap in the address space holds all
/// slots of a large region.
const CHUNK_MEMORIES: u32 = 1024;

/// Reason why a region cannot be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// A setting is out of range.
    #[error("`{setting}` is {found}, the allowed range is {least} to {most}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// The value that the caller set.
        found: u64,
        /// The minimum of the setting.
        least: u64,
        /// The maximum of the setting.
        most: u64,
    },
    /// The system refused the address space.
    #[error(
        "the system refuses {gib} GiB of address space for {slots} slots: {error}; lower `slots`, \
         or raise `ulimit -v`"
    )]
    AddressSpace {
        /// Size of the address space for all slots, in GiB.
        gib: u64,
        /// Number of slots.
        slots: u32,
        /// The error of mmap(2).
        error: io::Error,
    },
    /// The alignment of slots is not a multiple of the kernel's page size.
    #[error(
        "kernel has pages of {found} bytes, slots are aligned to {expected} bytes; use a kernel \
         with smaller pages"
    )]
    Pages {
        /// Size of a page of the kernel, in bytes.
        found: usize,
        /// Alignment of slots, in bytes.
        expected: usize,
    },
    /// The reset strategy that the caller named does not work on this machine.
    #[error("reset {reset} does not work on this machine: {error}; use `Reset::Auto`")]
    Reset {
        /// The strategy.
        reset: Reset,
        /// Reason why the strategy does not work.
        error: io::Error,
    },
    /// The system refused to install the signal handler.
    #[error("the system refuses a signal handler: {0}; allow sigaction(2)")]
    Signals(io::Error),
}

impl From<OutOfRange> for RegionError {
    fn from(error: OutOfRange) -> Self {
        let OutOfRange {
            setting,
            found,
            allowed,
        } = error;
        let (least, most) = allowed.into_inner();
        Self::Setting {
            setting,
            found,
            least,
            most,
        }
    }
}

/// Settings of a region. The region rounds the sizes of memories, stacks and instance data up to
/// multiples of 64 KiB.
#[derive(Debug, Clone)]
#[must_use]
pub struct RegionBuilder {
    limits: Limits,
    reset: Reset,
    host_bytes_max: usize,
    nested_calls_max: u32,
}

/// Default limit of the host memory that is held for an instance, in bytes: 1/64 of the default
/// limit of the instance's memory. This limit has room for some 4,000 kept exceptions.
const HOST_BYTES_MAX: usize = 1 << 20;

/// Default limit of nested calls. Nested calls use the stack of the host's thread. The stack of a
/// Rust thread has 2 MiB by default.
const NESTED_CALLS_MAX: u32 = 32;

impl Region {
    /// Returns the default settings of a region.
    ///
    /// The region has 16 slots. Each slot has one memory of up to 64 MiB, 4 tables of 65,536
    /// elements, and a stack of 1 MiB. Each slot also has 512 KiB for globals, imports and function
    /// references, and 1 MiB of host memory.
    pub fn builder() -> RegionBuilder {
        RegionBuilder {
            limits: Limits {
                slots: 16,
                memories: 1,
                memory_bytes_max: 64 << 20,
                tables: 4,
                table_elements: 1 << 16,
                stack_bytes: 1 << 20,
                instance_bytes: 512 << 10,
            },
            reset: Reset::Auto,
            host_bytes_max: HOST_BYTES_MAX,
            nested_calls_max: NESTED_CALLS_MAX,
        }
    }
}

impl RegionBuilder {
    /// Sets the number of slots: the maximum number of instances that exist at one time.
    ///
    /// The number ranges from 1 to 32,500 divided by [`memories`](Self::memories).
    pub fn slots(mut self, slots: u32) -> Self {
        self.limits.slots = slots;
        self
    }

    /// Sets the maximum number of memories that a module defines (1 to 100).
    ///
    /// Each memory takes 4 GiB of address space in every slot. Each reset returns the pages of all
    /// memories but the first memory to the system.
    pub fn memories(mut self, memories: u32) -> Self {
        self.limits.memories = memories;
        self
    }

    /// Sets the maximum size of a memory in bytes (at most 4 GiB).
    ///
    /// A memory of 4 GiB does not have its last 64 KiB.
    pub fn memory_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.memory_bytes_max = bytes;
        self
    }

    /// Sets the maximum number of tables that a module defines (at most 1,000).
    pub fn tables(mut self, tables: u32) -> Self {
        self.limits.tables = tables;
        self
    }

    /// Sets the maximum number of elements of a table (at most 2^27).
    pub fn table_elements(mut self, elements: u32) -> Self {
        self.limits.table_elements = elements;
        self
    }

    /// Sets the size of an instance's stack in bytes (16 KiB to 1 GiB).
    ///
    /// A guest that overflows its stack traps.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.limits.stack_bytes = bytes;
        self
    }

    /// Sets the size of an instance's data in bytes (512 bytes to 1 GiB).
    ///
    /// The data are the instance's globals (16 bytes each), imports, tables, types and function
    /// references.
    pub fn instance_bytes(mut self, bytes: usize) -> Self {
        self.limits.instance_bytes = bytes;
        self
    }

    /// Sets the maximum size of the host memory that is held for an instance, in bytes.
    ///
    /// The instances of a group share one limit. Three things count: exceptions that the guest
    /// keeps, references of its element segments, and bytes that host functions count with
    /// [`Caller::hold_host_bytes`](crate::Caller::hold_host_bytes). A guest that exceeds the limit
    /// traps.
    pub fn host_bytes_max(mut self, bytes: usize) -> Self {
        self.host_bytes_max = bytes;
        self
    }

    /// Sets the maximum number of nested calls of an instance or group that run at one time (32 by
    /// default). A host function makes nested calls by [`Caller::call`](crate::Caller::call).
    ///
    /// Each nested call uses the stack of the host's thread: the frames of the host function, and
    /// up to 5 KiB for the runtime. 0 refuses all nested calls. Past the maximum,
    /// [`Caller::call`](crate::Caller::call) returns
    /// [`InvalidCall::NestedCalls`](crate::InvalidCall::NestedCalls).
    pub fn nested_calls_max(mut self, calls: u32) -> Self {
        self.nested_calls_max = calls;
        self
    }

    /// Sets the strategy that resets a slot for the next instance.
    pub fn reset(mut self, reset: Reset) -> Self {
        self.reset = reset;
        self
    }

    /// Reserves the slots, and installs the process's signal handler for faults of guests.
    ///
    /// # Errors
    ///
    /// [`RegionError`], which names the setting that is out of range, or the request that the
    /// system refused.
    pub fn build(self) -> Result<Region, RegionError> {
        let Self {
            mut limits,
            reset,
            host_bytes_max,
            nested_calls_max,
        } = self;
        let layout = Layout::new(&mut limits)?;
        let page = page_bytes();
        if !PART_ALIGN.is_multiple_of(page) {
            return Err(RegionError::Pages {
                found: page,
                expected: PART_ALIGN,
            });
        }
        signals::install().map_err(RegionError::Signals)?;
        let mut chunks = vec![];
        let chunk_slots = CHUNK_MEMORIES / limits.memories;
        for first in (0..limits.slots).step_by(chunk_slots as usize) {
            let slots = (limits.slots - first).min(chunk_slots) as usize;
            let chunk = Reservation::new(slots * layout.bytes()).map_err(|error| {
                RegionError::AddressSpace {
                    gib: (layout.bytes() as u64 * u64::from(limits.slots)) >> 30,
                    slots: limits.slots,
                    error,
                }
            })?;
            chunks.push(chunk);
        }
        let slots = (0..limits.slots).map(|index| Kept::fresh(index, limits.memories));
        let slots = slots.collect();
        let site = Site {
            chunks: &chunks,
            chunk_slots,
            layout: &layout,
            limits: &limits,
        };
        let chosen =
            Strategy::choose(reset, site).map_err(|error| RegionError::Reset { reset, error })?;
        Ok(Region(Arc::new(Pool {
            limits,
            nested_calls_max,
            layout,
            reset: chosen.strategy,
            refused: chosen.refused,
            free: FreeList::new(slots),
            accounts: (0..limits.slots)
                .map(|_| CachePadded::new(Account::new(host_bytes_max)))
                .collect(),
            lost: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            chunks,
            chunk_slots,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap_across_reservations() {
        let region = Region::builder().slots(CHUNK_MEMORIES + 2).build().unwrap();
        let shared = &region.0;
        let bytes = shared.layout.bytes();
        let mut starts: Vec<_> = (0..CHUNK_MEMORIES + 2)
            .map(|slot| shared.place(slot).1)
            .collect();
        for (slot, start) in (0..).zip(&starts) {
            let own = shared.place(slot).0.range();
            assert!(
                own.start <= *start && start + bytes <= own.end,
                "slot {slot}"
            );
        }
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= bytes));
    }

    #[test]
    fn settings_that_cannot_be_kept_are_named() {
        let error = Region::builder().slots(0).build().unwrap_err().to_string();
        assert_eq!(error, "`slots` is 0, the allowed range is 1 to 32500");
        let error = Region::builder()
            .memory_bytes_max((4 << 30) + 1)
            .build()
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("`memory_bytes_max` is 4294967297"),
            "{error}"
        );
    }

    #[test]
    fn a_region_describes_itself() {
        let region = Region::builder()
            .slots(2)
            .reset(Reset::Decommitted)
            .build()
            .unwrap();
        let text = region.describe().to_string();
        assert!(
            text.starts_with("2 slots (2 free)") && text.ends_with("reset decommitted"),
            "{text}"
        );
    }
}
