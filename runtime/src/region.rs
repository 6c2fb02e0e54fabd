//! [`Region`]: one set of slots, reserved at once.

pub(crate) mod free;
pub(crate) mod layout;
pub(crate) mod reset;
mod slot;

pub(crate) use free::Wait;
pub(crate) use layout::Limits;
pub use reset::Reset;
use reset::Strategy;
pub(crate) use slot::Slot;

use crate::account::Account;
use crate::module::Module;
use crate::signals;
use crate::sys::memory::Reservation;
use crate::sys::page_bytes;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll};
use free::{FreeList, Place, Taken};
use layout::{Layout, OutOfRange, PART_ALIGN};
use pirn_format::types::MemoryType;
use slot::Kept;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// A set of slots. Each slot holds one instance at a time.
///
/// The address space of all slots is reserved at once. A clone is a handle to the same region. The
/// address space returns to the system when the last handle and the last instance are dropped.
#[derive(Debug, Clone)]
pub struct Region(Arc<Shared>);

/// The data that all handles of a region share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) layout: Layout,
    reset: Strategy,
    /// Better reset strategies that do not work on this machine, each with the reason.
    refused: Vec<(Reset, String)>,
    pub(crate) free: FreeList<Kept>,
    /// The counters of each slot's instances.
    pub(crate) accounts: Box<[Account]>,
    /// Number of slots that are never used again. Accesses of this counter and the next are
    /// relaxed: no other data depends on their order.
    lost: AtomicU32,
    /// Number of resets that failed because the kernel refused a system call.
    failed: AtomicU32,
    /// Reservations of `chunk_slots` slots each. The last may hold fewer.
    chunks: Vec<Reservation>,
    chunk_slots: u32,
}

/// Maximum number of memories in one reservation: 4 TiB. No gap in the address space holds all
/// slots of a large region.
const CHUNK_MEMORIES: u32 = 1024;

/// Reason why a region cannot be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// A setting is out of range.
    #[error("`{setting}` is {found}, it can be {least} to {most}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        found: u64,
        /// Its minimum.
        least: u64,
        /// Its maximum.
        most: u64,
    },
    /// The system refused the address space.
    #[error(
        "{gib} GiB of address space for {slots} slots are refused: {error}; lower `slots`, or raise \
         `ulimit -v`"
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
    #[error("kernel has pages of {found} bytes, slots are aligned to {expected}")]
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
        /// Reason why it does not work.
        error: io::Error,
    },
    /// The system refused to install the signal handler.
    #[error("the system refuses a signal handler: {0}")]
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
}

/// Default limit of the host memory that is held for an instance, in bytes: 1/64 of the default
/// limit of its memory. Some 4,000 kept exceptions fit.
const HOST_BYTES_MAX: usize = 1 << 20;

impl Region {
    /// Returns the default settings of a region.
    ///
    /// The region has 16 slots. Each has one memory of up to 64 MiB, 4 tables of 65,536 elements,
    /// and a stack of 1 MiB. Each also has 512 KiB for globals, imports and function references,
    /// and 1 MiB of host memory.
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
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Number of slots that are free at this moment.
    #[must_use]
    pub fn slots_free(&self) -> usize {
        self.0.free.len()
    }

    /// Returns the limits, the current state and the reset strategy of the region.
    #[must_use]
    pub fn describe(&self) -> Description {
        Description {
            limits: self.0.limits,
            slots_free: self.slots_free(),
            slots_lost: self.0.lost.load(Ordering::Relaxed),
            resets_failed: self.0.failed.load(Ordering::Relaxed),
            reset: self.0.reset.name(),
            refused: self.0.refused.clone(),
            slot_bytes: self.0.layout.bytes(),
        }
    }

    /// Number of bytes that an instance of `module` can write to when it starts.
    pub(crate) fn writable_bytes(&self, module: &Module) -> u64 {
        let memories = module.own_memories().iter();
        let bytes: u64 = memories.filter_map(MemoryType::accessible_bytes).sum();
        self.0.layout.fixed().len() as u64 + bytes
    }

    /// Takes a free slot, and makes its memory exactly the module's initial memory.
    ///
    /// # Errors
    ///
    /// [`TakeError`], if no slot is free for as long as `wait` allows, or if the system refuses
    /// memory.
    pub(crate) fn take(&self, module: &Module, wait: Wait) -> Result<Slot, TakeError> {
        let kept = self.0.free.take(module.id(), wait);
        self.taken(kept.ok_or_else(|| self.nothing_free())?, module)
    }

    /// Error for a missing slot: whether a slot can still become free.
    #[cold]
    fn nothing_free(&self) -> TakeError {
        if self.0.lost.load(Ordering::Relaxed) < self.0.limits.slots {
            TakeError::Full
        } else {
            TakeError::Lost
        }
    }

    /// Prepares a slot from the free list for the module.
    fn taken(&self, kept: Taken<Kept>, module: &Module) -> Result<Slot, TakeError> {
        Slot::prepare(&self.0, kept, module).map_err(TakeError::System)
    }

    /// Takes a slot as [`take`](Self::take) does, but waits in the queue without blocking a thread.
    pub(crate) fn take_async<'a>(&'a self, module: &'a Module) -> TakeAsync<'a> {
        let (region, place) = (self, None);
        TakeAsync {
            region,
            module,
            place,
        }
    }
}

/// Future that waits in the queue for a slot.
#[derive(Debug)]
pub(crate) struct TakeAsync<'a> {
    region: &'a Region,
    module: &'a Module,
    /// Place in the queue, once the future waits.
    place: Option<Place<Kept>>,
}

impl Future for TakeAsync<'_> {
    type Output = Result<Slot, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (region, module) = (self.region, self.module);
        let free = &region.0.free;
        if self.place.is_none()
            && let Some(kept) = free.take(module.id(), Wait::No)
        {
            return Poll::Ready(region.taken(kept, module));
        }
        let place = self.place.get_or_insert_with(|| free.queue());
        let Poll::Ready(kept) = free.given(place, context.waker()) else {
            return Poll::Pending;
        };
        self.leave();
        let kept = kept.ok_or_else(|| region.nothing_free());
        Poll::Ready(kept.and_then(|kept| region.taken(kept, module)))
    }
}

impl TakeAsync<'_> {
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.region.0.free.leave(&place);
        }
    }
}

impl Drop for TakeAsync<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Reason why no slot was taken.
#[derive(Debug)]
pub(crate) enum TakeError {
    /// All slots are in use.
    Full,
    /// All slots are lost: none becomes free again.
    Lost,
    /// The system refused memory.
    System(io::Error),
}

impl Shared {
    /// The reservation that holds slot `index`, and the address of the slot's first byte.
    pub(crate) fn place(&self, index: u32) -> (&Reservation, usize) {
        let chunk = &self.chunks[(index / self.chunk_slots) as usize];
        let position = (index % self.chunk_slots) as usize;
        (chunk, chunk.range().start + position * self.layout.bytes())
    }

    /// Counts a slot that is never used again. After the last slot, waiting for a slot fails at
    /// once.
    #[cold]
    pub(crate) fn lose(&self) {
        let before = self.lost.fetch_add(1, Ordering::Relaxed);
        if before + 1 == self.limits.slots {
            self.free.close();
        }
    }
}

impl RegionBuilder {
    /// Sets the number of slots: the maximum number of instances that exist at one time.
    ///
    /// From 1 to 32,500 divided by [`memories`](Self::memories).
    pub fn slots(mut self, slots: u32) -> Self {
        self.limits.slots = slots;
        self
    }

    /// Sets the maximum number of memories that a module defines (1 to 100).
    ///
    /// Each takes 4 GiB of address space in every slot. Each reset returns the pages of all
    /// memories but the first to the system.
    pub fn memories(mut self, memories: u32) -> Self {
        self.limits.memories = memories;
        self
    }

    /// Sets the maximum size of a memory in bytes (at most 4 GiB).
    ///
    /// A memory of 4 GiB does not have its last 64 KiB.
    pub fn memory_max(mut self, bytes: usize) -> Self {
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
    /// A guest that needs more traps.
    pub fn stack(mut self, bytes: usize) -> Self {
        self.limits.stack_bytes = bytes;
        self
    }

    /// Sets the size of an instance's data in bytes (512 bytes to 1 GiB).
    ///
    /// The data are its globals (16 bytes each), imports, tables, types and function references.
    pub fn instance_bytes(mut self, bytes: usize) -> Self {
        self.limits.instance_bytes = bytes;
        self
    }

    /// Sets the maximum size of the host memory that is held for an instance, in bytes.
    ///
    /// The instances of a group share one limit. Three things count: exceptions that the guest
    /// keeps, references of its element segments, and bytes that host functions count with
    /// [`Caller::hold_host_bytes`](crate::Caller::hold_host_bytes). A guest that needs more traps.
    pub fn host_bytes_max(mut self, bytes: usize) -> Self {
        self.host_bytes_max = bytes;
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
        let chosen = Strategy::choose(reset, &chunks, chunk_slots, &layout, &limits)
            .map_err(|error| RegionError::Reset { reset, error })?;
        Ok(Region(Arc::new(Shared {
            limits,
            layout,
            reset: chosen.strategy,
            refused: chosen.refused,
            free: FreeList::new(slots),
            accounts: (0..limits.slots)
                .map(|_| Account::new(host_bytes_max))
                .collect(),
            lost: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            chunks,
            chunk_slots,
        })))
    }
}

/// A readable description of a region: see its `Display`.
#[derive(Debug, Clone)]
pub struct Description {
    limits: Limits,
    slots_free: usize,
    slots_lost: u32,
    resets_failed: u32,
    reset: Reset,
    refused: Vec<(Reset, String)>,
    slot_bytes: usize,
}

impl Description {
    /// The strategy that resets slots.
    #[must_use]
    pub fn reset(&self) -> Reset {
        self.reset
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.limits.slots
    }

    /// Number of slots that are never used again.
    ///
    /// A slot is lost if the kernel fails while it changes the slot's mappings. It is also lost if
    /// the kernel refuses to change access rights and then to restore the old ones.
    #[must_use]
    pub fn slots_lost(&self) -> u32 {
        self.slots_lost
    }

    /// Number of resets that failed because the kernel refused a system call.
    ///
    /// The next instance gets such a slot only after the slot's memory is rebuilt from scratch.
    #[must_use]
    pub fn resets_failed(&self) -> u32 {
        self.resets_failed
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits {
            slots,
            memories,
            memory_bytes_max,
            tables,
            table_elements,
            stack_bytes,
            instance_bytes,
        } = self.limits;
        let kib = |bytes: usize| bytes >> 10;
        let memory = match memories {
            1 => "memory".to_owned(),
            many => format!("{many} memories"),
        };
        write!(
            f,
            "{slots} slots ({} free) of {} MiB of address space: {memory} up to {} KiB, {tables} tables \
             of {table_elements} elements, stack {} KiB, instance data {} KiB; reset {}",
            self.slots_free,
            self.slot_bytes >> 20,
            kib(memory_bytes_max),
            kib(stack_bytes),
            kib(instance_bytes),
            self.reset,
        )?;
        for (reset, why) in &self.refused {
            write!(f, "; {reset} does not work: {why}")?;
        }
        for (count, what) in [
            (self.resets_failed, "resets failed"),
            (self.slots_lost, "slots lost"),
        ] {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        Ok(())
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
        assert_eq!(error, "`slots` is 0, it can be 1 to 32500");
        let error = Region::builder()
            .memory_max((4 << 30) + 1)
            .build()
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("`memory_max` is 4294967297"), "{error}");
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
