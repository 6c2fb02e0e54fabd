//! [`Slot`]: one instance's part of a region, taken.
//!
//! ```text
//!            take                    drop
//!  Fresh ──────────▶ taken, holding ───────▶ Of(module): memory is exactly its initial memory
//!  Unknown ─(paved)─▶    a module   ───────▶ Unknown: the kernel failed us; paved over before use
//! ```
//!
//! # Safety
//!
//! Owns the whole address range of a slot from [`Slot::prepare`] to the drop: index and state are
//! moved out of the free list, so there is one `Slot` for each. A slot is on the list as `Of(module)`
//! only when its accessible memory equals that module's initial memory, byte for byte and in size.
#![allow(unsafe_code)]

use super::free::ModuleId;
use super::layout::Layout;
use super::{Shared, reset};
use crate::module::Module;
use crate::sys::memory::{Access, Reservation};
use core::ops::Range;
use core::slice;
use pirn_format::layout::ELEMENT_BYTES;
use std::io;
use std::sync::Arc;

/// All that is known of a slot. It is in the free list, or in a [`Slot`].
#[derive(Debug)]
pub(crate) struct Kept {
    index: u32,
    contents: Contents,
    /// Bytes of memory 0 that are accessible.
    accessible: usize,
    /// Whether the instance area is that of the module, up to what instances change.
    warm: bool,
    /// Most bytes of a table that were used since the tables were last given back.
    table_bytes: usize,
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
}

impl Kept {
    pub(super) fn fresh(index: u32) -> Self {
        Self {
            index,
            contents: Contents::Fresh,
            accessible: 0,
            warm: false,
            table_bytes: 0,
        }
    }
}

/// Where the parts of one slot lie.
pub(super) struct Parts<'a> {
    pub(super) reservation: &'a Reservation,
    start: usize,
    layout: &'a Layout,
}

impl Parts<'_> {
    /// Base of memory 0.
    pub(super) fn vmctx(&self) -> usize {
        self.start + self.layout.vmctx()
    }

    fn absolute(&self, part: Range<usize>) -> Range<usize> {
        self.start + part.start..self.start + part.end
    }
}

/// One instance's part of a region. Its drop makes it clean and gives it back.
#[derive(Debug)]
pub(crate) struct Slot {
    shared: Arc<Shared>,
    /// Moved out in the drop.
    kept: Kept,
    module: Module,
}

/// Bytes of stack that stay resident, and of tables.
const RESIDENT_BYTES: usize = 64 << 10;

impl Slot {
    /// Makes a slot ready for a module: its memory is exactly the module's initial memory.
    ///
    /// # Errors
    ///
    /// What the kernel gives. The slot is free again, as unknown.
    pub(super) fn prepare(shared: Arc<Shared>, kept: Kept, module: &Module) -> io::Result<Self> {
        let mut slot = Self {
            shared,
            kept,
            module: module.clone(),
        };
        if slot.kept.contents != Contents::Of(module.id()) {
            // A failure drops the slot half-way; its contents say that nothing of it can be relied on.
            slot.pave()?;
        }
        Ok(slot)
    }

    /// Makes it the module's from whatever it was.
    fn pave(&mut self) -> io::Result<()> {
        let parts = parts(&self.shared, self.kept.index);
        let contents = core::mem::replace(&mut self.kept.contents, Contents::Unknown);
        self.kept.warm = false;
        let fixed = parts.absolute(self.shared.layout.fixed());
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
                    .decommit(fixed.start..memory + self.kept.accessible)?;
            }
        }
        self.kept.table_bytes = 0;
        let bytes = self.module.memory_bytes() as usize;
        set_accessible(&parts, &mut self.kept.accessible, bytes)?;
        // SAFETY: the memory is accessible, zero, and as large as the module's initial memory.
        unsafe { reset::copy_image(memory as *mut u8, 0, &self.module) };
        self.kept.contents = Contents::Of(self.module.id());
        Ok(())
    }

    fn parts(&self) -> Parts<'_> {
        parts(&self.shared, self.kept.index)
    }

    /// The context pointer: base of memory 0 and end of the instance area.
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.parts().vmctx() as *mut u8
    }

    /// The stack that its guest uses, as addresses.
    pub(crate) fn stack(&self) -> Range<usize> {
        let layout = &self.shared.layout;
        self.parts().absolute(layout.stack(self.kept.index))
    }

    /// The guard below the stack, as addresses.
    pub(crate) fn stack_guard(&self) -> Range<usize> {
        self.parts().absolute(self.shared.layout.stack_guard())
    }

    /// All that a guest's memory accesses can reach: its memory and the guard behind it.
    pub(crate) fn reservation(&self) -> Range<usize> {
        let layout = &self.shared.layout;
        self.parts().absolute(layout.vmctx()..layout.bytes())
    }

    /// Start of the elements of the module's own table `index`.
    pub(crate) fn table(&self, index: u32) -> *mut u64 {
        (self.parts().start + self.shared.layout.table(index)) as *mut u64
    }

    /// Whether the part of the instance area that instances do not change is the module's.
    pub(crate) fn is_warm(&self) -> bool {
        self.kept.warm
    }

    /// Says whether it is.
    pub(crate) fn set_warm(&mut self, warm: bool) {
        self.kept.warm = warm;
    }

    /// Current size of memory 0.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.kept.accessible as u64
    }

    /// Makes memory 0 this large; what is new is zero.
    ///
    /// # Errors
    ///
    /// What mprotect(2) gives; then the memory is as large as before.
    pub(crate) fn grow_memory(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = bytes as usize;
        debug_assert!(
            self.kept.accessible <= bytes && bytes <= self.shared.limits.memory_bytes_max
        );
        let parts = parts(&self.shared, self.kept.index);
        set_accessible(&parts, &mut self.kept.accessible, bytes)
    }

    /// Says that the module's own table `index` has this many elements now.
    pub(crate) fn note_table(&mut self, index: u32, elements: u64) {
        debug_assert!(index < self.shared.limits.tables);
        let bytes = elements as usize * ELEMENT_BYTES as usize;
        self.kept.table_bytes = self.kept.table_bytes.max(bytes);
    }

    /// Makes the slot clean for the next instance of its module.
    fn clean(&mut self) -> io::Result<()> {
        let parts = parts(&self.shared, self.kept.index);
        let used = self.kept.accessible;
        let bytes = self.module.memory_bytes() as usize;
        // SAFETY: the instance is gone: nobody uses the slot. Memory only grows.
        unsafe { reset::restore(self.shared.reset, &parts, used, &self.module)? };
        set_accessible(&parts, &mut self.kept.accessible, bytes)?;
        if self.kept.table_bytes > RESIDENT_BYTES {
            // SAFETY: as above. Every table is written whole before it is used again: it is not warm.
            unsafe {
                parts
                    .reservation
                    .decommit(parts.absolute(self.shared.layout.tables()))?;
            };
            self.kept.table_bytes = 0;
            self.kept.warm = false;
        }
        self.trim_stack(&parts)
    }

    /// Gives back what a deep recursion left of the stack.
    ///
    /// This is for the memory that a process holds, not for secrecy: a guest cannot read the stack of
    /// another, because generated code writes every stack slot before it reads it.
    fn trim_stack(&self, parts: &Parts<'_>) -> io::Result<()> {
        let stack = parts.absolute(self.shared.layout.whole_stack());
        if stack.len() <= RESIDENT_BYTES + PROBED_BYTES {
            return Ok(());
        }
        let kept = stack.end - RESIDENT_BYTES;
        // SAFETY: the stack is accessible, and no guest runs on it.
        let probed =
            unsafe { slice::from_raw_parts((kept - PROBED_BYTES) as *const u64, PROBED_BYTES / 8) };
        // A guest that went deeper left a return address here, unless one frame spans the page.
        if probed.iter().all(|word| *word == 0) {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { parts.reservation.decommit(stack.start..kept) }
    }
}

/// What is looked at to see whether the stack went deeper than what stays resident.
const PROBED_BYTES: usize = 512;

impl Drop for Slot {
    fn drop(&mut self) {
        if self.kept.contents == Contents::Of(self.module.id()) {
            // Half-cleaned is unknown.
            self.kept.contents = Contents::Unknown;
            if self.clean().is_ok() {
                self.kept.contents = Contents::Of(self.module.id());
            }
        }
        let index = self.kept.index;
        let kept = core::mem::replace(&mut self.kept, Kept::fresh(index));
        let module = match kept.contents {
            Contents::Of(module) => Some(module),
            Contents::Fresh | Contents::Unknown => None,
        };
        self.shared.free.put(kept, module);
    }
}

fn parts(shared: &Shared, index: u32) -> Parts<'_> {
    let (reservation, start) = shared.place(index);
    Parts {
        reservation,
        start,
        layout: &shared.layout,
    }
}

/// Makes exactly the first `bytes` bytes of memory 0 accessible. What becomes accessible is zero,
/// because what becomes inaccessible is: the callers have given it back or rewritten it.
fn set_accessible(parts: &Parts<'_>, accessible: &mut usize, bytes: usize) -> io::Result<()> {
    let memory = parts.vmctx();
    let (now, then) = (memory + *accessible, memory + bytes);
    // SAFETY: the memory of a slot that its caller owns; the host's views of it borrow the instance,
    // so none lives while its size changes.
    unsafe {
        if then > now {
            parts.reservation.protect(now..then, Access::ReadWrite)?;
        } else if then < now {
            parts.reservation.protect(then..now, Access::None)?;
        }
    }
    *accessible = bytes;
    Ok(())
}
