//! [`Region`]: one set of slots, reserved at once.

pub(crate) mod free;
pub(crate) mod layout;
pub(crate) mod reset;
mod slot;

pub(crate) use free::Wait;
pub(crate) use layout::Limits;
pub use reset::Reset;
use reset::Strategy;
pub(crate) use reset::{Lock, lock};
pub(crate) use slot::Slot;

use crate::account::Account;
use crate::module::Module;
use crate::sys::memory::Reservation;
use crate::sys::page_bytes;
use crate::trap::handler;
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

/// Slots, reserved at once, each of which holds one instance at a time.
///
/// A clone is the same region. The address space is given back when the last clone and the last
/// instance are gone.
#[derive(Debug, Clone)]
pub struct Region(Arc<Shared>);

/// What all handles of a region share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) layout: Layout,
    reset: Strategy,
    /// Better ways to reset that do not work here, with the reason.
    refused: Vec<(Reset, String)>,
    pub(crate) free: FreeList<Kept>,
    /// What is counted for the instances of each slot.
    pub(crate) accounts: Box<[Account]>,
    /// Slots that are never used again. Relaxed, as the next: a count, and nothing is found by it.
    lost: AtomicU32,
    /// Resets that the kernel failed.
    failed: AtomicU32,
    /// Each holds `chunk_slots` slots; the last may hold fewer.
    chunks: Vec<Reservation>,
    chunk_slots: u32,
}

/// Memories of one reservation: 4 TiB. No hole in the address space holds all slots of a large region.
const CHUNK_MEMORIES: u32 = 1024;

/// Why there is no region.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// A setting that cannot be kept.
    #[error("`{setting}` is {found}, it can be {least} to {most}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it is.
        found: u64,
        /// The least that it can be.
        least: u64,
        /// The most that it can be.
        most: u64,
    },
    /// Address space was refused.
    #[error(
        "{gib} GiB of address space for {slots} slots are refused: {error}; lower `slots`, or raise \
         `ulimit -v`"
    )]
    AddressSpace {
        /// GiB asked for.
        gib: u64,
        /// Number of slots.
        slots: u32,
        /// What mmap(2) gave.
        error: io::Error,
    },
    /// The kernel's pages are larger than the slots are aligned to.
    #[error("kernel has pages of {found} bytes, slots are aligned to {expected}")]
    Pages {
        /// Bytes of a page.
        found: usize,
        /// Bytes that slots are aligned to.
        expected: usize,
    },
    /// The reset that was asked for does not work here.
    #[error("reset {reset} does not work on this machine: {error}; use `Reset::Auto`")]
    Reset {
        /// Which.
        reset: Reset,
        /// Why not.
        error: io::Error,
    },
    /// The signal handler was refused.
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

/// Settings of a region. All sizes are rounded up to whole pages of 64 KiB.
#[derive(Debug, Clone)]
#[must_use]
pub struct RegionBuilder {
    limits: Limits,
    reset: Reset,
    host_bytes_max: usize,
}

/// Bytes of host memory that are held for an instance, if the region says nothing else: a 64th of the
/// memory that it may have by default, and some 4,000 kept exceptions.
const HOST_BYTES_MAX: usize = 1 << 20;

impl Region {
    /// Settings of a region to be: 16 slots, each with one memory of up to 64 MiB, 4 tables of 65,536
    /// elements, a stack of 1 MiB, 512 KiB for globals, imports and function references, and 1 MiB of
    /// host memory.
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

    /// Slots that nobody has at this moment.
    #[must_use]
    pub fn slots_free(&self) -> usize {
        self.0.free.len()
    }

    /// What the region is and how it works.
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

    /// Bytes that an instance of a module can write to when it starts.
    pub(crate) fn writable_bytes(&self, module: &Module) -> u64 {
        let memories = module.own_memories().iter();
        let bytes: u64 = memories.filter_map(MemoryType::accessible_bytes).sum();
        self.0.layout.fixed().len() as u64 + bytes
    }

    /// Takes a slot whose memory is exactly the initial memory of the module.
    pub(crate) fn take(&self, module: &Module, wait: Wait) -> Result<Slot, TakeError> {
        let kept = self.0.free.take(module.id(), wait);
        self.taken(kept.ok_or_else(|| self.nothing_free())?, module)
    }

    /// Why there is no slot to be had.
    #[cold]
    fn nothing_free(&self) -> TakeError {
        if self.0.lost.load(Ordering::Relaxed) < self.0.limits.slots {
            TakeError::Full
        } else {
            TakeError::Lost
        }
    }

    /// Makes a slot that was taken hold the module.
    fn taken(&self, kept: Taken<Kept>, module: &Module) -> Result<Slot, TakeError> {
        Slot::prepare(&self.0, kept, module).map_err(TakeError::System)
    }

    /// As [`take`](Self::take), waiting in turn on no thread.
    pub(crate) fn take_async<'a>(&'a self, module: &'a Module) -> TakeAsync<'a> {
        let (region, place) = (self, None);
        TakeAsync {
            region,
            module,
            place,
        }
    }
}

/// Waits in turn for a slot.
#[derive(Debug)]
pub(crate) struct TakeAsync<'a> {
    region: &'a Region,
    module: &'a Module,
    /// In the queue, once it waits.
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

/// Why no slot was taken.
#[derive(Debug)]
pub(crate) enum TakeError {
    /// All are taken.
    Full,
    /// None will be free any more.
    Lost,
    /// The system refused memory.
    System(io::Error),
}

impl Shared {
    /// Address of the first byte of a slot, and the reservation that it lies in.
    pub(crate) fn place(&self, index: u32) -> (&Reservation, usize) {
        let chunk = &self.chunks[(index / self.chunk_slots) as usize];
        let position = (index % self.chunk_slots) as usize;
        (chunk, chunk.range().start + position * self.layout.bytes())
    }

    /// Counts a slot that is never used again. With the last one, nobody waits for a slot any more.
    #[cold]
    pub(crate) fn lose(&self) {
        let before = self.lost.fetch_add(1, Ordering::Relaxed);
        if before + 1 == self.limits.slots {
            self.free.close();
        }
    }
}

impl RegionBuilder {
    /// Number of slots: instances that can exist at a time (1 to 32,500, divided by [`memories`](Self::memories)).
    pub fn slots(mut self, slots: u32) -> Self {
        self.limits.slots = slots;
        self
    }

    /// Most memories that a module defines (1 to 100). Each takes 4 GiB of the addresses of every slot, and what a guest has
    /// of those behind the first is given back to the system at each reset.
    pub fn memories(mut self, memories: u32) -> Self {
        self.limits.memories = memories;
        self
    }

    /// Most bytes of a memory (at most 4 GiB, of which a memory has all but the last 64 KiB).
    pub fn memory_max(mut self, bytes: usize) -> Self {
        self.limits.memory_bytes_max = bytes;
        self
    }

    /// Most tables that a module defines (at most 1,000).
    pub fn tables(mut self, tables: u32) -> Self {
        self.limits.tables = tables;
        self
    }

    /// Most elements of a table (at most 2^27).
    pub fn table_elements(mut self, elements: u32) -> Self {
        self.limits.table_elements = elements;
        self
    }

    /// Bytes of an instance's stack (16 KiB to 1 GiB). A guest that needs more traps.
    pub fn stack(mut self, bytes: usize) -> Self {
        self.limits.stack_bytes = bytes;
        self
    }

    /// Bytes of an instance's globals (16 each), imports, tables, types and function references
    /// (512 bytes to 1 GiB).
    pub fn instance_bytes(mut self, bytes: usize) -> Self {
        self.limits.instance_bytes = bytes;
        self
    }

    /// Most bytes of the host's own memory that are held for an instance, or for the instances of a
    /// group together: exceptions that the guest keeps, references that its element segments are made
    /// of, and what host functions count by
    /// [`Caller::hold_host_bytes`](crate::Caller::hold_host_bytes). A guest that needs more traps.
    pub fn host_bytes_max(mut self, bytes: usize) -> Self {
        self.host_bytes_max = bytes;
        self
    }

    /// How a slot is made clean for the next instance.
    pub fn reset(mut self, reset: Reset) -> Self {
        self.reset = reset;
        self
    }

    /// Reserves the slots, and installs the process's handler for guests' faults.
    ///
    /// # Errors
    ///
    /// [`RegionError`], naming the setting or what the system refused.
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
        handler::install().map_err(RegionError::Signals)?;
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

/// What a region is and how it works, for people: see its `Display`.
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
    /// How slots are made clean.
    #[must_use]
    pub fn reset(&self) -> Reset {
        self.reset
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.limits.slots
    }

    /// Slots that are never used again, because the kernel failed in the middle of a mapping.
    #[must_use]
    pub fn slots_lost(&self) -> u32 {
        self.slots_lost
    }

    /// Resets that the kernel failed. Such a slot is made clean from nothing before anybody gets it.
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
