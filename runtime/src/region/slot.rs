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
//! `Kept::pave` rebuilds the memory of a slot for a module, whatever the slot holds. A slot that is
//! `Of` the module that takes it needs no such work, unless the reset strategy of the module has
//! changed.
//!
//! # Safety
//!
//! Owns the whole address range of a slot from [`Slot::prepare`] to [`Slot::give_back`]. The index
//! and the state of the slot move out of the free list, so each index has at most one `Slot`. A
//! slot is on the list as `Of(module)` only if its accessible memory equals that module's initial
//! memory, in size and in every byte.
#![allow(unsafe_code)]

use super::free::{ModuleId, Taken};
use super::layout::Layout;
use super::reset::{Keeping, Memory0, Reach};
use super::{Region, Shared, reset};
use crate::account::Account;
use crate::module::Module;
use crate::stop::Owned;
use crate::sys::memory::{Access, NotProtected, Reservation};
use core::cmp::Ordering;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::slice;
use core::sync::atomic::{self, AtomicU8};
use pirn_format::layout::ELEMENT_BYTES;
use pirn_format::types::MemoryType;
use std::io;
use std::os::fd::AsFd;

/// The index and the state of a slot. It is either in the free list or in a [`Slot`].
///
/// If a slot on the list is `Of` a module, no byte of its memory beyond the module's initial memory
/// is accessible.
#[derive(Debug)]
pub(crate) struct Kept {
    index: u32,
    contents: Contents,
    /// Size of the accessible part of memory 0, in bytes.
    accessible: usize,
    /// Size of the accessible part of each further memory that the slot has room for, in bytes.
    /// Bytes beyond it are zero when they become accessible.
    further: Box<[usize]>,
    /// Backing of memory 0.
    keeping: Keeping,
    /// Tracked part of memory 0.
    reach: Reach,
    /// Number of resets in a row that found many more resident pages than changed pages.
    idle: u8,
    /// Whether the instance area holds the module's data, except for the parts that instances
    /// change.
    warm: bool,
    /// Size in bytes of the largest table since the tables last returned to the kernel.
    table_bytes: usize,
    /// Control that stops the slot's instances. Created on first use.
    control: Option<Owned>,
}

/// Contents of a slot's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// None: the slot was never used, and no byte of it is accessible.
    Fresh,
    /// The initial memory of this module.
    Of(ModuleId),
    /// Data that the last instance left, of any module.
    Unknown,
    /// The slot's addresses may be unmapped or have unknown access rights. The slot is never used
    /// again.
    Lost,
}

impl Kept {
    pub(super) fn fresh(index: u32, memories: u32) -> Self {
        Self {
            index,
            contents: Contents::Fresh,
            accessible: 0,
            further: vec![0; memories.saturating_sub(1) as usize].into(),
            keeping: Keeping::Plain,
            reach: Reach::default(),
            idle: 0,
            warm: false,
            table_bytes: 0,
            control: None,
        }
    }
}

/// Addresses of the parts of one slot.
pub(super) struct Parts<'a> {
    pub(super) reservation: &'a Reservation,
    start: usize,
    layout: &'a Layout,
}

impl<'a> Parts<'a> {
    pub(super) fn new(reservation: &'a Reservation, start: usize, layout: &'a Layout) -> Self {
        Self {
            reservation,
            start,
            layout,
        }
    }

    fn of(shared: &'a Shared, index: u32) -> Self {
        let (reservation, start) = shared.place(index);
        Self::new(reservation, start, &shared.layout)
    }

    /// Base of memory 0.
    pub(super) fn vmctx(&self) -> usize {
        self.start + self.layout.vmctx()
    }

    /// Base of memory `number`.
    fn memory(&self, number: u32) -> usize {
        self.start + self.layout.memory(number)
    }

    fn absolute(&self, part: Range<usize>) -> Range<usize> {
        self.start + part.start..self.start + part.end
    }
}

/// One instance's part of a region. Its owner returns it with [`give_back`](Self::give_back).
///
/// A `Slot` holds the addresses that every call needs, but neither the region nor the module. The
/// instance holds those two and passes them to the methods that need them.
#[derive(Debug)]
pub(crate) struct Slot {
    kept: ManuallyDrop<Taken<Kept>>,
    vmctx: usize,
    stack_end: usize,
}

/// Part of the stack that stays resident, in bytes. The tables stay resident if none is larger than
/// this.
const RESIDENT_BYTES: usize = 64 << 10;

impl Slot {
    /// Prepares a slot for a module: its memory becomes exactly the module's initial memory.
    ///
    /// # Errors
    ///
    /// The error of the system call that failed. The slot is then free again with unknown contents,
    /// or lost.
    pub(super) fn prepare(
        shared: &Shared,
        mut kept: Taken<Kept>,
        module: &Module,
    ) -> io::Result<Self> {
        let stale = kept.contents != Contents::Of(module.id())
            || shared.reset.has_changed(kept.keeping, module);
        if stale && let Err(error) = kept.pave(shared, module) {
            if kept.contents == Contents::Lost {
                shared.lose();
            } else {
                shared.free.put(kept, None);
            }
            return Err(error);
        }
        let parts = Parts::of(shared, kept.index);
        Ok(Self {
            vmctx: parts.vmctx(),
            stack_end: parts.absolute(shared.layout.stack(kept.index)).end,
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
        let shared = &*region.0;
        // SAFETY: the caller promises not to use `self` afterwards, so `kept` is taken once.
        let mut kept = unsafe { ManuallyDrop::take(&mut self.kept) };
        if kept.contents != Contents::Lost {
            // If cleaning stops half-way, the contents are unknown.
            kept.contents = Contents::Unknown;
            if kept.clean(shared, module).is_ok() {
                kept.contents = Contents::Of(module.id());
                shared.free.put(kept, Some(module.id()));
                return;
            }
            shared.failed.fetch_add(1, atomic::Ordering::Relaxed);
        }
        if kept.contents == Contents::Lost {
            shared.lose();
        } else {
            shared.free.put(kept, None);
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
    /// memory is zero, and so is the byte.
    pub(crate) fn mark(&self, region: &Region) -> *const AtomicU8 {
        /// The byte for memory that a fork inherits.
        static ALWAYS: AtomicU8 = AtomicU8::new(1);
        match (self.kept.keeping, region.0.reset.tracker()) {
            (Keeping::Tracked, Some(tracker)) => tracker.mark(),
            _ => &raw const ALWAYS,
        }
    }

    /// The counters of the slot's instances. They live as long as the region.
    pub(crate) fn account(&self, region: &Region) -> *const Account {
        &raw const region.0.accounts[self.kept.index as usize]
    }

    /// Number of pages of memory 0 that differ from the module's initial memory. `None` if the slot
    /// is not tracked.
    pub(crate) fn pages_changed(&self, region: &Region, module: &Module) -> Option<u64> {
        let shared = &*region.0;
        if self.kept.accessible == 0 {
            return Some(0);
        }
        match (self.kept.keeping, shared.reset.tracker()) {
            (Keeping::Tracked, Some(tracker)) => {
                // SAFETY: this `Slot` owns the slot, which is prepared for `module`. No guest runs
                // in it while the caller borrows its instance.
                unsafe { tracker.changed(self.kept.index, self.vmctx, module) }
            }
            _ => None,
        }
    }

    /// The address ranges by which the signal handler recognises the slot.
    pub(crate) fn ranges(&self, region: &Region) -> Ranges {
        let layout = &region.0.layout;
        let parts = Parts::of(&region.0, self.kept.index);
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

impl Kept {
    /// Rebuilds the slot's memory for `module`, whatever the slot holds.
    fn pave(&mut self, shared: &Shared, module: &Module) -> io::Result<()> {
        let parts = Parts::of(shared, self.index);
        let contents = core::mem::replace(&mut self.contents, Contents::Unknown);
        self.warm = false;
        self.idle = 0;
        let fixed = parts.absolute(shared.layout.fixed());
        let memory = parts.vmctx();
        // SAFETY: the slot was taken from the free list and holds no instance, so no reference into
        // it exists.
        unsafe {
            if !matches!(contents, Contents::Of(_)) {
                parts
                    .reservation
                    .protect(fixed.clone(), Access::ReadWrite)?;
            }
            if contents != Contents::Fresh {
                // The range from the stack to the end of accessible memory has no gap.
                parts
                    .reservation
                    .decommit(fixed.start..memory + self.accessible.max(self.reach.marked))?;
                self.clear_further(&parts)?;
            }
        }
        self.table_bytes = 0;
        let keeping = shared.reset.keeping(module);
        if let Err(error) = self.keep(shared, keeping, module) {
            // The kernel may refuse to track memory that it allows to be mapped in another way.
            if keeping != Keeping::Tracked || self.contents == Contents::Lost {
                return Err(error);
            }
            self.keep(shared, shared.reset.keeping_untracked(module), module)?;
        }
        self.contents = Contents::Of(module.id());
        Ok(())
    }

    /// Gives memory 0 the backing, the size and the contents of the module's initial memory. Every
    /// accessible byte of memory 0 must be zero or belong to a mapped image.
    fn keep(&mut self, shared: &Shared, keeping: Keeping, module: &Module) -> io::Result<()> {
        let bytes = module.memory_bytes() as usize;
        // An image that is mapped there belongs to another module.
        if self.keeping != keeping || matches!(keeping, Keeping::Mapped(_)) {
            self.remap(shared, keeping, module)?;
        }
        self.resize(shared, bytes)?;
        self.size_further(shared, module)?;
        match (keeping, shared.reset.tracker()) {
            (Keeping::Tracked, Some(tracker)) => tracker.assign(self.index, module),
            (Keeping::Plain, _) => {
                let memory = Parts::of(shared, self.index).vmctx();
                // SAFETY: `resize` made the memory accessible and as large as the module's initial
                // memory.
                unsafe { reset::copy_image(memory as *mut u8, 0, module) };
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes the backing of memory 0 to `keeping`, for `module`. Afterwards no byte of memory 0
    /// is accessible.
    fn remap(&mut self, shared: &Shared, keeping: Keeping, module: &Module) -> io::Result<()> {
        let parts = Parts::of(shared, self.index);
        let memory = parts.vmctx();
        let image = match keeping {
            Keeping::Mapped(_) => Some(module.image_file()?),
            Keeping::Plain | Keeping::Tracked => None,
        };
        self.resize(shared, 0)?;
        let mapped = |keeping| match keeping {
            Keeping::Mapped(bytes) => bytes,
            Keeping::Plain | Keeping::Tracked => 0,
        };
        let (now, then) = (mapped(self.keeping).max(self.reach.marked), mapped(keeping));
        // A mapping that fails may leave a hole in the address space, where other code may map
        // memory.
        self.contents = Contents::Lost;
        // SAFETY: `pave` owns the slot, which holds no instance, so no reference into it exists.
        // The file is as long as the module's image, and it is sealed.
        unsafe {
            let fresh = memory + then.min(now)..memory + now;
            parts.reservation.map_fresh(fresh)?;
            if let Some(image) = image {
                let range = memory..memory + then;
                parts.reservation.map_file(range, image.as_fd())?;
            }
        }
        self.contents = Contents::Unknown;
        self.reach = Reach::default();
        self.keeping = keeping;
        self.accessible = 0;
        Ok(())
    }

    /// Cleans the slot for the next instance of its module.
    fn clean(&mut self, shared: &Shared, module: &Module) -> io::Result<()> {
        let parts = Parts::of(shared, self.index);
        let bytes = module.memory_bytes() as usize;
        if self.accessible > 0 {
            // SAFETY: the instance has ended, so no thread uses the slot. The memory of an instance
            // never shrinks, so the initial memory is accessible.
            let restored = unsafe {
                let memory = Memory0 {
                    index: self.index,
                    used: self.accessible,
                    keeping: self.keeping,
                    idle: &mut self.idle,
                    reach: &mut self.reach,
                };
                shared.reset.restore(&parts, memory, module)
            };
            restored.map_err(|refused| self.refused(refused))?;
            self.resize(shared, bytes)?;
        }
        // SAFETY: the instance has ended, so no thread uses the slot.
        unsafe { self.clear_further(&parts)? };
        self.size_further(shared, module)?;
        if self.table_bytes > RESIDENT_BYTES {
            let tables = parts.absolute(shared.layout.tables());
            // SAFETY: the instance has ended, so no thread uses the slot. The slot is no longer
            // warm, so every table is written completely before its next use.
            unsafe { parts.reservation.decommit(tables)? };
            self.table_bytes = 0;
            self.warm = false;
        }
        trim_stack(&parts)
    }

    /// Sets the size of memory 0 to `bytes` bytes. New bytes are zero, because bytes are zero when
    /// they become inaccessible: before a caller shrinks the memory, it has returned them to the
    /// kernel or zeroed them.
    fn resize(&mut self, shared: &Shared, bytes: usize) -> io::Result<()> {
        match (self.keeping, shared.reset.tracker()) {
            (Keeping::Tracked, Some(tracker)) => {
                let parts = Parts::of(shared, self.index);
                // SAFETY: `self` owns the slot, and no view contains bytes that are not accessible
                // yet.
                let resized = unsafe { tracker.resize(self.index, &parts, &mut self.reach, bytes) };
                resized.map_err(|refused| self.refused(refused))?;
            }
            _ => {
                let parts = Parts::of(shared, self.index);
                let memory = parts.vmctx();
                // SAFETY: `self` owns the slot. Views of the host borrow the instance, so no view
                // exists while the size changes.
                let resized = unsafe { protect(&parts, memory, self.accessible, bytes) };
                resized.map_err(|refused| self.refused(refused))?;
            }
        }
        self.accessible = bytes;
        Ok(())
    }

    /// Sets the size of a further memory to `bytes` bytes. New bytes are zero, for the reason that
    /// [`resize`](Self::resize) gives.
    fn resize_further(&mut self, shared: &Shared, number: u32, bytes: usize) -> io::Result<()> {
        let parts = Parts::of(shared, self.index);
        let position = number as usize - 1;
        // SAFETY: `self` owns the slot. Views of the host borrow the instance, so no view exists
        // while the size changes.
        let resized =
            unsafe { protect(&parts, parts.memory(number), self.further[position], bytes) };
        resized.map_err(|refused| self.refused(refused))?;
        self.further[position] = bytes;
        Ok(())
    }

    /// Converts the error of a failed resize. The slot is lost if the accessible part of the memory
    /// is now unknown: the next instance would see bytes past its end.
    #[cold]
    fn refused(&mut self, refused: NotProtected) -> io::Error {
        if !refused.is_unchanged {
            self.contents = Contents::Lost;
        }
        refused.error
    }

    /// Gives each further memory the size of the module's initial memory. Memories that the module
    /// does not define become inaccessible.
    fn size_further(&mut self, shared: &Shared, module: &Module) -> io::Result<()> {
        let mut initial = module.own_memories().iter().skip(1);
        for number in 1..=self.further.len() as u32 {
            let bytes = initial.next().and_then(MemoryType::accessible_bytes);
            let bytes = bytes.unwrap_or(0);
            self.resize_further(shared, number, bytes as usize)?;
        }
        Ok(())
    }

    /// Returns the accessible parts of all further memories to the kernel. They are zero then.
    ///
    /// # Safety
    ///
    /// No thread may use the slot, and no reference into it may exist.
    unsafe fn clear_further(&self, parts: &Parts<'_>) -> io::Result<()> {
        for (number, bytes) in (1..).zip(&self.further) {
            if *bytes > 0 {
                let memory = parts.memory(number);
                // SAFETY: the caller ensures that no thread uses the slot and no reference into it
                // exists.
                unsafe { parts.reservation.decommit(memory..memory + bytes)? };
            }
        }
        Ok(())
    }
}

/// Changes the size of the accessible part of a memory from `now` to `then` bytes.
///
/// # Safety
///
/// The memory must lie in a slot that the caller owns. No reference into the part that becomes
/// inaccessible may exist.
unsafe fn protect(
    parts: &Parts<'_>,
    memory: usize,
    now: usize,
    then: usize,
) -> Result<(), NotProtected> {
    let (now, then) = (memory + now, memory + then);
    // SAFETY: the caller owns the slot, and no reference into the part that becomes inaccessible
    // exists.
    unsafe {
        match then.cmp(&now) {
            Ordering::Greater => parts.reservation.protect(now..then, Access::ReadWrite),
            Ordering::Less => parts.reservation.protect(then..now, Access::None),
            Ordering::Equal => Ok(()),
        }
    }
}

/// Returns to the kernel the part of the stack that only a deep recursion used.
///
/// This limits the memory of the process. Isolation does not need it: a guest cannot read data that
/// another guest left on the stack, because generated code writes every stack slot before it reads
/// it.
fn trim_stack(parts: &Parts<'_>) -> io::Result<()> {
    let stack = parts.absolute(parts.layout.whole_stack());
    if stack.len() <= RESIDENT_BYTES + PROBED_BYTES {
        return Ok(());
    }
    let kept = stack.end - RESIDENT_BYTES;
    // SAFETY: the stack is accessible, and no guest runs on it.
    let probed =
        unsafe { slice::from_raw_parts((kept - PROBED_BYTES) as *const u64, PROBED_BYTES / 8) };
    // A guest whose stack was deeper left a return address here, unless one frame spans all of it.
    if probed.iter().all(|word| *word == 0) {
        return Ok(());
    }
    // SAFETY: the stack is accessible, no guest runs on it, and `probed` is not used again.
    unsafe { parts.reservation.decommit(stack.start..kept) }
}

/// Bytes that are read to find whether the guest used more stack than the part that stays resident.
const PROBED_BYTES: usize = 512;
