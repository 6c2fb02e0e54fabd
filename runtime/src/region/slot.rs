//! [`Slot`]: one instance's part of a region, taken.
//!
//! ```text
//!            prepare               give_back
//!  Fresh ──────────▶ taken, holding ───────▶ Of(module): memory is exactly its initial memory
//!  Unknown ─(paved)─▶    a module   ───────▶ Unknown: the kernel failed us; paved over before use
//!     └─────────────▶ Lost: the kernel failed us in the middle of a mapping, or refused to change what
//!                     may be accessed and then to take that back; never used again
//! ```
//!
//! # Safety
//!
//! Owns the whole address range of a slot from [`Slot::prepare`] to [`Slot::give_back`]: index and state are
//! moved out of the free list, so there is one `Slot` for each. A slot is on the list as `Of(module)`
//! only when its accessible memory equals that module's initial memory, byte for byte and in size.
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

/// All that is known of a slot. It is in the free list, or in a [`Slot`].
///
/// The memory of a slot on the list that is `Of` a module has no byte accessible beyond the module's
/// initial memory.
#[derive(Debug)]
pub(crate) struct Kept {
    index: u32,
    contents: Contents,
    /// Bytes of memory 0: no more are accessible.
    accessible: usize,
    /// Bytes of each further memory that the slot has room for: as many are accessible, and what is not is zero once it is.
    further: Box<[usize]>,
    /// How memory 0 is kept.
    keeping: Keeping,
    /// How far memory 0 is tracked.
    reach: Reach,
    /// Resets in a row that found more resident pages than are of use.
    idle: u8,
    /// Whether the instance area is that of the module, up to what instances change.
    warm: bool,
    /// Most bytes of a table that were used since the tables were last given back.
    table_bytes: usize,
    /// By which its instances are stopped, once one was to be.
    control: Option<Owned>,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// Nothing: it was never used, and nothing of it is accessible.
    Fresh,
    /// The initial memory of this module.
    Of(ModuleId),
    /// Whatever the last instance left, of whatever module.
    Unknown,
    /// Perhaps nothing of ours: it is never used again.
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

/// Where the parts of one slot lie.
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

/// One instance's part of a region. Who has it gives it back by [`give_back`](Self::give_back).
///
/// It holds the addresses that every call needs, and neither region nor module: its instance does, and
/// passes them where they are needed.
#[derive(Debug)]
pub(crate) struct Slot {
    kept: ManuallyDrop<Taken<Kept>>,
    vmctx: usize,
    stack_end: usize,
}

/// Bytes of stack that stay resident, and of tables.
const RESIDENT_BYTES: usize = 64 << 10;

impl Slot {
    /// Makes a slot ready for a module: its memory is exactly the module's initial memory.
    ///
    /// # Errors
    ///
    /// What the kernel gives. The slot is free again, as unknown.
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

    /// Makes the slot clean for the next instance of its module, and free.
    ///
    /// # Safety
    ///
    /// `self` must not be used afterwards.
    pub(crate) unsafe fn give_back(&mut self, region: &Region, module: &Module) {
        let shared = &*region.0;
        // SAFETY: nobody uses it afterwards, as the caller says.
        let mut kept = unsafe { ManuallyDrop::take(&mut self.kept) };
        if kept.contents != Contents::Lost {
            // Half-cleaned is unknown.
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

    /// The context pointer: base of memory 0 and end of the instance area.
    #[inline]
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.vmctx as *mut u8
    }

    /// End of the stack that its guest uses.
    #[inline]
    pub(crate) fn stack_end(&self) -> usize {
        self.stack_end
    }

    /// A byte that is 1 as long as the slot's memory is what its instance left in it: in a fork, tracked
    /// memory is not.
    pub(crate) fn mark(&self, region: &Region) -> *const AtomicU8 {
        /// For memory that a fork inherits.
        static ALWAYS: AtomicU8 = AtomicU8::new(1);
        match (self.kept.keeping, region.0.reset.tracker()) {
            (Keeping::Tracked, Some(tracker)) => tracker.mark(),
            _ => &raw const ALWAYS,
        }
    }

    /// What is counted for its instances. It lives as long as the region.
    pub(crate) fn account(&self, region: &Region) -> *const Account {
        &raw const region.0.accounts[self.kept.index as usize]
    }

    /// Pages of memory 0 whose bytes are not those that the module starts with; `None` if nobody keeps
    /// track of them.
    pub(crate) fn pages_changed(&self, region: &Region, module: &Module) -> Option<u64> {
        let shared = &*region.0;
        if self.kept.accessible == 0 {
            return Some(0);
        }
        match (self.kept.keeping, shared.reset.tracker()) {
            (Keeping::Tracked, Some(tracker)) => {
                // SAFETY: the slot is ours and the module's, and its guest does not run.
                unsafe { tracker.changed(self.kept.index, self.vmctx, module) }
            }
            _ => None,
        }
    }

    /// The ranges of addresses that the signal handler knows a slot by.
    pub(crate) fn ranges(&self, region: &Region) -> Ranges {
        let layout = &region.0.layout;
        let parts = Parts::of(&region.0, self.kept.index);
        Ranges {
            stack: parts.absolute(layout.stack(self.kept.index)),
            stack_guard: parts.absolute(layout.stack_guard()),
            memory: parts.absolute(layout.vmctx()..layout.bytes()),
        }
    }

    /// Start of the elements of the module's own table `index`.
    #[inline]
    pub(crate) fn table(&self, region: &Region, index: u32) -> *mut u64 {
        let layout = &region.0.layout;
        (self.vmctx - layout.vmctx() + layout.table(index)) as *mut u64
    }

    /// Whether the part of the instance area that instances do not change is the module's.
    #[inline]
    pub(crate) fn is_warm(&self) -> bool {
        self.kept.warm
    }

    /// Says whether it is.
    #[inline]
    pub(crate) fn set_warm(&mut self, warm: bool) {
        self.kept.warm = warm;
    }

    /// By what its instances are stopped.
    pub(crate) fn control(&mut self) -> &Owned {
        self.kept.control.get_or_insert_with(Owned::new)
    }

    /// Base of memory `number`, of those that the module defines.
    #[inline]
    pub(crate) fn memory(&self, region: &Region, number: u32) -> *mut u8 {
        let layout = &region.0.layout;
        (self.vmctx - layout.vmctx() + layout.memory(number)) as *mut u8
    }

    /// Makes so many bytes of memory `number` accessible, no fewer than are; what is new is zero.
    ///
    /// # Errors
    ///
    /// What mprotect(2) gives; then the memory is as large as before. If the kernel has not even taken
    /// back what it did, the guest may reach zeros past the end of the memory, and the slot is lost when
    /// its instance ends.
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

    /// Says that one of the module's own tables has this many elements now.
    pub(crate) fn note_table(&mut self, elements: u64) {
        let bytes = elements as usize * ELEMENT_BYTES as usize;
        self.kept.table_bytes = self.kept.table_bytes.max(bytes);
    }
}

/// Ranges of addresses of a slot.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// The stack that its guest uses.
    pub(crate) stack: Range<usize>,
    /// The guard below the stack.
    pub(crate) stack_guard: Range<usize>,
    /// All that a guest's memory accesses can reach: its memories, each with the guard behind it.
    pub(crate) memory: Range<usize>,
}

impl Kept {
    /// Makes it the module's from whatever it was.
    fn pave(&mut self, shared: &Shared, module: &Module) -> io::Result<()> {
        let parts = Parts::of(shared, self.index);
        let contents = core::mem::replace(&mut self.contents, Contents::Unknown);
        self.warm = false;
        self.idle = 0;
        let fixed = parts.absolute(shared.layout.fixed());
        let memory = parts.vmctx();
        // SAFETY: the slot is ours and no instance is in it, so nothing refers into it.
        unsafe {
            if !matches!(contents, Contents::Of(_)) {
                parts
                    .reservation
                    .protect(fixed.clone(), Access::ReadWrite)?;
            }
            if contents != Contents::Fresh {
                // From the stack to the end of what is accessible it is one piece.
                parts
                    .reservation
                    .decommit(fixed.start..memory + self.accessible.max(self.reach.marked))?;
                self.clear_further(&parts)?;
            }
        }
        self.table_bytes = 0;
        let keeping = shared.reset.keeping(module);
        if let Err(error) = self.keep(shared, keeping, module) {
            // Tracking may be refused where a plain or a copy-on-write mapping is not.
            if keeping != Keeping::Tracked || self.contents == Contents::Lost {
                return Err(error);
            }
            self.keep(shared, shared.reset.keeping_untracked(module), module)?;
        }
        self.contents = Contents::Of(module.id());
        Ok(())
    }

    /// Makes memory 0, of which nothing is accessible that is not zero or an image, the module's.
    fn keep(&mut self, shared: &Shared, keeping: Keeping, module: &Module) -> io::Result<()> {
        let bytes = module.memory_bytes() as usize;
        // The image that is mapped is another's.
        if self.keeping != keeping || matches!(keeping, Keeping::Mapped(_)) {
            self.remap(shared, keeping, module)?;
        }
        self.resize(shared, bytes)?;
        self.size_further(shared, module)?;
        match (keeping, shared.reset.tracker()) {
            (Keeping::Tracked, Some(tracker)) => tracker.assign(self.index, module),
            (Keeping::Plain, _) => {
                let memory = Parts::of(shared, self.index).vmctx();
                // SAFETY: the memory is accessible, zero, and as large as the module's initial memory.
                unsafe { reset::copy_image(memory as *mut u8, 0, module) };
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes memory 0 be kept in a way, for a module, from whatever way it is kept: afterwards nothing of
    /// it is accessible.
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
        // A mapping that fails may leave a hole, where anybody's memory can come to lie.
        self.contents = Contents::Lost;
        // SAFETY: as in `pave`; the file is as long as the module's image, and sealed.
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

    /// Makes it clean for the next instance of its module.
    fn clean(&mut self, shared: &Shared, module: &Module) -> io::Result<()> {
        let parts = Parts::of(shared, self.index);
        let bytes = module.memory_bytes() as usize;
        if self.accessible > 0 {
            // SAFETY: the instance is gone: nobody uses the slot. Memory only grows.
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
        // SAFETY: the instance is gone: nobody uses the slot.
        unsafe { self.clear_further(&parts)? };
        self.size_further(shared, module)?;
        if self.table_bytes > RESIDENT_BYTES {
            let tables = parts.absolute(shared.layout.tables());
            // SAFETY: as above. Every table is written whole before it is used again: it is not warm.
            unsafe { parts.reservation.decommit(tables)? };
            self.table_bytes = 0;
            self.warm = false;
        }
        trim_stack(&parts)
    }

    /// Makes memory 0 have exactly this many bytes. What is new is zero, because what goes is: the
    /// callers have given it back or rewritten it.
    fn resize(&mut self, shared: &Shared, bytes: usize) -> io::Result<()> {
        match (self.keeping, shared.reset.tracker()) {
            (Keeping::Tracked, Some(tracker)) => {
                let parts = Parts::of(shared, self.index);
                // SAFETY: the slot is ours, and nobody has a view of what is not accessible yet.
                let resized = unsafe { tracker.resize(self.index, &parts, &mut self.reach, bytes) };
                resized.map_err(|refused| self.refused(refused))?;
            }
            _ => {
                let parts = Parts::of(shared, self.index);
                let memory = parts.vmctx();
                // SAFETY: the memory of a slot that is ours; the host's views of it borrow the instance,
                // so none lives while its size changes.
                let resized = unsafe { protect(&parts, memory, self.accessible, bytes) };
                resized.map_err(|refused| self.refused(refused))?;
            }
        }
        self.accessible = bytes;
        Ok(())
    }

    /// Makes a further memory have exactly this many bytes. What is new is zero, as for [`resize`](Self::resize).
    fn resize_further(&mut self, shared: &Shared, number: u32, bytes: usize) -> io::Result<()> {
        let parts = Parts::of(shared, self.index);
        let position = number as usize - 1;
        // SAFETY: as in `resize`.
        let resized =
            unsafe { protect(&parts, parts.memory(number), self.further[position], bytes) };
        resized.map_err(|refused| self.refused(refused))?;
        self.further[position] = bytes;
        Ok(())
    }

    /// The error of a memory that the kernel did not resize. The slot is lost if it is not known how much
    /// of the memory is accessible now: bytes past its end would be the next instance's.
    #[cold]
    fn refused(&mut self, refused: NotProtected) -> io::Error {
        if !refused.is_unchanged {
            self.contents = Contents::Lost;
        }
        refused.error
    }

    /// Makes each further memory as large as the module's initial one, and those that it has not inaccessible.
    fn size_further(&mut self, shared: &Shared, module: &Module) -> io::Result<()> {
        let mut initial = module.own_memories().iter().skip(1);
        for number in 1..=self.further.len() as u32 {
            let bytes = initial.next().and_then(MemoryType::accessible_bytes);
            let bytes = bytes.unwrap_or(0);
            self.resize_further(shared, number, bytes as usize)?;
        }
        Ok(())
    }

    /// Gives all that is accessible of the further memories back to the kernel: it is zero then.
    ///
    /// # Safety
    ///
    /// Nobody may use the slot.
    unsafe fn clear_further(&self, parts: &Parts<'_>) -> io::Result<()> {
        for (number, bytes) in (1..).zip(&self.further) {
            if *bytes > 0 {
                let memory = parts.memory(number);
                // SAFETY: passed on.
                unsafe { parts.reservation.decommit(memory..memory + bytes)? };
            }
        }
        Ok(())
    }
}

/// Makes as much of a memory accessible as it is to have, of which so much is.
///
/// # Safety
///
/// The memory must be one of a slot that is the caller's, and nobody use what becomes inaccessible.
unsafe fn protect(
    parts: &Parts<'_>,
    memory: usize,
    now: usize,
    then: usize,
) -> Result<(), NotProtected> {
    let (now, then) = (memory + now, memory + then);
    // SAFETY: passed on.
    unsafe {
        match then.cmp(&now) {
            Ordering::Greater => parts.reservation.protect(now..then, Access::ReadWrite),
            Ordering::Less => parts.reservation.protect(then..now, Access::None),
            Ordering::Equal => Ok(()),
        }
    }
}

/// Gives back what a deep recursion left of the stack.
///
/// This is for the memory that a process holds, not for secrecy: a guest cannot read the stack of
/// another, because generated code writes every stack slot before it reads it.
fn trim_stack(parts: &Parts<'_>) -> io::Result<()> {
    let stack = parts.absolute(parts.layout.whole_stack());
    if stack.len() <= RESIDENT_BYTES + PROBED_BYTES {
        return Ok(());
    }
    let kept = stack.end - RESIDENT_BYTES;
    // SAFETY: the stack is accessible, and no guest runs on it.
    let probed =
        unsafe { slice::from_raw_parts((kept - PROBED_BYTES) as *const u64, PROBED_BYTES / 8) };
    // A guest that went deeper left a return address here, unless one frame spans all of it.
    if probed.iter().all(|word| *word == 0) {
        return Ok(());
    }
    // SAFETY: as above.
    unsafe { parts.reservation.decommit(stack.start..kept) }
}

/// What is looked at to see whether the stack went deeper than what stays resident.
const PROBED_BYTES: usize = 512;
