//! [`Slot`]: one instance's part of a region, from its preparation to its return.
//!
//! ```text
//!            prepare              give_back
//!  Fresh ───(pave)──▶ taken, holds ───────▶ Of(module): memory is the module's initial memory
//!  Unknown ─(pave)──▶   a module   ───────▶ Unknown: a system call failed during the reset
//!     └─────────────▶ Lost: a mapping failed, or the kernel refused to change access rights and
//!                     then to restore the old ones; the slot is never used again
//! ```
//!
//! `Kept::pave` in `rebuild.rs` rebuilds the memory of a slot for a module, whatever the slot
//! holds. A slot that is `Of` the module that takes it needs no such work, unless the reset
//! strategy of the module has changed.
//!
//! # Safety
//!
//! Owns the whole address range of a slot from [`Slot::prepare`] to [`Slot::give_back`]. The index
//! and the state of the slot move out of the free list, so each index has at most one `Slot`. A
//! slot is on the list as `Of(module)` only if its accessible memory equals that module's initial
//! memory, in size and in every byte.
#![allow(unsafe_code)]

use super::free::Taken;
use super::kept::{Contents, Kept};
use super::pool::{Pool, Region};
use super::reset::MemoryBacking;
use crate::account::Account;
use crate::module::Module;
use crate::stop::Owned;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::sync::atomic::{self, AtomicU8};
use pirn_format::layout::ELEMENT_BYTES;
use std::io;

/// One instance's part of a region. Its owner returns it with [`give_back`](Self::give_back).
///
/// A `Slot` holds the addresses that every call needs, but neither the region nor the module. The
/// instance holds the region and the module, and passes them to the methods that need them.
#[derive(Debug)]
pub(crate) struct Slot {
    kept: ManuallyDrop<Taken<Kept>>,
    vmctx: usize,
    stack_end: usize,
}

impl Slot {
    /// Prepares a slot for a module: its memory becomes exactly the module's initial memory.
    ///
    /// # Errors
    ///
    /// The error of the system call that failed. The slot is then free again with unknown contents,
    /// or lost.
    pub(super) fn prepare(pool: &Pool, mut kept: Taken<Kept>, module: &Module) -> io::Result<Self> {
        let stale = kept.contents != Contents::Of(module.id())
            || pool.reset.has_changed(kept.backing, module);
        if stale && let Err(error) = kept.pave(pool, module) {
            if kept.contents == Contents::Lost {
                pool.lose();
            } else {
                pool.free.put(kept, None);
            }
            return Err(error);
        }
        let parts = pool.parts(kept.index);
        Ok(Self {
            vmctx: parts.vmctx(),
            stack_end: parts.absolute(pool.layout.stack(kept.index)).end,
            kept: ManuallyDrop::new(kept),
        })
    }

    /// Cleans the slot for the next instance of its module, and returns it to the free list.
    ///
    /// If the kernel refuses a system call, the slot is free with unknown contents, or lost.
    ///
    /// # Safety
    ///
    /// `self` must not be used afterwards.
    pub(crate) unsafe fn give_back(&mut self, region: &Region, module: &Module) {
        let pool = &*region.0;
        // SAFETY: the caller promises not to use `self` afterwards, so `kept` is taken once.
        let mut kept = unsafe { ManuallyDrop::take(&mut self.kept) };
        if kept.contents != Contents::Lost {
            // If cleaning stops half-way, the contents are unknown.
            kept.contents = Contents::Unknown;
            if kept.clean(pool, module).is_ok() {
                kept.contents = Contents::Of(module.id());
                pool.free.put(kept, Some(module.id()));
                return;
            }
            pool.failed.fetch_add(1, atomic::Ordering::Relaxed);
        }
        if kept.contents == Contents::Lost {
            pool.lose();
        } else {
            pool.free.put(kept, None);
        }
    }

    /// The context pointer: the base of memory 0 and the end of the instance area.
    #[inline]
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.vmctx as *mut u8
    }

    /// End of the stack that the slot's guest uses.
    #[inline]
    pub(crate) fn stack_end(&self) -> usize {
        self.stack_end
    }

    /// A byte that is 1 while the slot's memory holds the data of its instance. In a fork, tracked
    /// memory is zero except for a mapped image, and the byte is zero.
    pub(crate) fn mark(&self, region: &Region) -> *const AtomicU8 {
        /// The byte for memory that a fork inherits.
        static ALWAYS: AtomicU8 = AtomicU8::new(1);
        match (self.kept.backing, region.0.reset.tracker()) {
            (MemoryBacking::Tracked(_), Some(tracker)) => tracker.mark(),
            _ => &raw const ALWAYS,
        }
    }

    /// The counters of the slot's instances. The counters live as long as the region.
    pub(crate) fn account(&self, region: &Region) -> *const Account {
        &raw const *region.0.accounts[self.kept.index as usize]
    }

    /// Number of pages of memory 0 that differ from the module's initial memory. `None` if the slot
    /// is not tracked.
    pub(crate) fn pages_changed(&self, region: &Region, module: &Module) -> Option<u64> {
        let pool = &*region.0;
        if self.kept.accessible == 0 {
            return Some(0);
        }
        match (self.kept.backing, pool.reset.tracker()) {
            (MemoryBacking::Tracked(_), Some(tracker)) => {
                // SAFETY: this `Slot` owns the slot, which is prepared for `module`. No guest runs
                // in the slot while the caller borrows its instance.
                unsafe { tracker.changed(self.kept.index, self.vmctx, module) }
            }
            _ => None,
        }
    }

    /// Whether a page of memory 0 certainly has its initial contents. `false` if the slot is not
    /// tracked, or if the page is present and writable.
    pub(crate) fn is_initial(&self, region: &Region, offset: usize) -> bool {
        match (self.kept.backing, region.0.reset.tracker()) {
            (MemoryBacking::Tracked(_), Some(tracker)) => {
                tracker.is_unwritten(self.kept.index, offset)
            }
            _ => false,
        }
    }

    /// The address ranges by which the signal handler recognises the slot.
    pub(crate) fn ranges(&self, region: &Region) -> Ranges {
        let layout = &region.0.layout;
        let parts = region.0.parts(self.kept.index);
        Ranges {
            stack: parts.absolute(layout.stack(self.kept.index)),
            stack_guard: parts.absolute(layout.stack_guard()),
            memory: parts.absolute(layout.vmctx()..layout.bytes()),
        }
    }

    /// Start of the elements of table `index`, counted among the tables that the module defines.
    #[inline]
    pub(crate) fn table(&self, region: &Region, index: u32) -> *mut u64 {
        let layout = &region.0.layout;
        (self.vmctx - layout.vmctx() + layout.table(index)) as *mut u64
    }

    /// Whether the part of the instance area that instances do not change already holds the
    /// module's data.
    #[inline]
    pub(crate) fn is_warm(&self) -> bool {
        self.kept.warm
    }

    /// Records whether the slot is warm, see [`is_warm`](Self::is_warm).
    #[inline]
    pub(crate) fn set_warm(&mut self, warm: bool) {
        self.kept.warm = warm;
    }

    /// Control that stops the slot's instances.
    pub(crate) fn control(&mut self) -> &Owned {
        self.kept.control.get_or_insert_with(Owned::new)
    }

    /// Base of memory `number`, counted among the memories that the module defines.
    #[inline]
    pub(crate) fn memory(&self, region: &Region, number: u32) -> *mut u8 {
        let layout = &region.0.layout;
        (self.vmctx - layout.vmctx() + layout.memory(number)) as *mut u8
    }

    /// Grows memory `number` to `bytes` bytes. The new bytes are zero.
    ///
    /// # Errors
    ///
    /// The error of mprotect(2), or of a system call that starts to track the new bytes. The memory
    /// then keeps its size. If the kernel also refused to restore the old access rights, the guest
    /// may reach zeros past the end of the memory. Then the slot is lost when its instance ends.
    pub(crate) fn grow_memory(
        &mut self,
        region: &Region,
        number: u32,
        bytes: u64,
    ) -> io::Result<()> {
        let bytes = bytes as usize;
        debug_assert!(bytes <= region.0.limits.memory_bytes_max);
        match number {
            0 => self.kept.resize(&region.0, bytes),
            _ => self.kept.resize_further(&region.0, number, bytes),
        }
    }

    /// Records that a table that the module defines now has `elements` elements.
    pub(crate) fn note_table(&mut self, elements: u64) {
        let bytes = elements as usize * ELEMENT_BYTES as usize;
        self.kept.table_bytes = self.kept.table_bytes.max(bytes);
    }
}

/// Address ranges of a slot.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// The stack that the slot's guest uses.
    pub(crate) stack: Range<usize>,
    /// The guard below the stack.
    pub(crate) stack_guard: Range<usize>,
    /// All addresses that a guest's memory accesses can reach: each memory and the guard after it.
    pub(crate) memory: Range<usize>,
}
