//! The work on a slot between two instances: its memory is rebuilt for another module, or cleaned
//! for the next instance of the same module.
//!
//! # Safety
//!
//! Works only on slots that the caller took from the free list, or whose instance has ended. A slot
//! is cleaned or rebuilt without an error only if its accessible memories equal the module's
//! initial memories, in size and in every byte.
#![allow(unsafe_code)]

use super::kept::{Contents, Kept};
use super::parts::Parts;
use super::pool::Pool;
use super::reset::{self, Memory0, MemoryBacking, Reach};
use crate::module::Module;
use crate::sys::memory::{Access, NotProtected};
use crate::sys::page_bytes;
use core::cmp::Ordering;
use core::slice;
use pirn_format::types::MemoryType;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Part of the stack that stays resident, in bytes. The tables stay resident if no table is larger
/// than this size.
const RESIDENT_BYTES: usize = 64 << 10;

impl Kept {
    /// Rebuilds the slot's memory for `module`, whatever the slot holds.
    pub(super) fn pave(&mut self, pool: &Pool, module: &Module) -> io::Result<()> {
        let parts = pool.parts(self.index);
        let contents = core::mem::replace(&mut self.contents, Contents::Unknown);
        self.warm = false;
        self.idle = 0;
        let fixed = parts.absolute(pool.layout.fixed());
        let memory = parts.vmctx();
        // SAFETY: the slot was taken from the free list and holds no instance, so no reference into
        // the slot exists.
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
        let backing = pool.reset.backing(module);
        if let Err(error) = self.keep(pool, backing, module) {
            // The kernel may refuse to track memory that it allows to be mapped in another way.
            if !backing.is_tracked() || self.contents == Contents::Lost {
                return Err(error);
            }
            self.keep(pool, pool.reset.backing_untracked(module), module)?;
        }
        self.contents = Contents::Of(module.id());
        Ok(())
    }

    /// Gives memory 0 the backing, the size and the contents of the module's initial memory. Every
    /// accessible byte of memory 0 must be zero or belong to a mapped image.
    fn keep(&mut self, pool: &Pool, backing: MemoryBacking, module: &Module) -> io::Result<()> {
        let bytes = module.memory_bytes() as usize;
        // An image that is mapped over memory 0 belongs to another module.
        if self.backing != backing || backing.mapped_bytes() > 0 {
            self.remap(pool, backing, module)?;
        }
        self.resize(pool, bytes)?;
        self.map_further(pool, module)?;
        self.size_further(pool, module)?;
        match (backing, pool.reset.tracker()) {
            (MemoryBacking::Tracked(_), Some(tracker)) => tracker.assign(self.index, module),
            (MemoryBacking::Plain, _) => {
                let memory = pool.parts(self.index).vmctx();
                // SAFETY: `resize` made the memory accessible and as large as the module's initial
                // memory.
                unsafe { reset::copy_image(memory as *mut u8, 0, module) };
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes the backing of memory 0 to `backing`, for `module`. Afterwards no byte of memory 0
    /// is accessible.
    fn remap(&mut self, pool: &Pool, backing: MemoryBacking, module: &Module) -> io::Result<()> {
        let parts = pool.parts(self.index);
        let memory = parts.vmctx();
        let image = match backing.mapped_bytes() {
            0 => None,
            _ => Some(module.image_file()?),
        };
        self.resize(pool, 0)?;
        let now = self.backing.mapped_bytes().max(self.reach.marked);
        // SAFETY: the memory belongs to this slot, and no byte of the memory is accessible. The
        // file is as long as the module's image.
        unsafe { self.replace_mapping(&parts, memory, now, image, backing.mapped_bytes())? };
        self.reach = Reach::default();
        if backing.is_tracked() {
            self.reach.mapped = backing.mapped_bytes();
        }
        self.backing = backing;
        self.accessible = 0;
        Ok(())
    }

    /// Maps the images of the module's further memories. Only snapshots have such images. Replaces
    /// the rest of an earlier module's images by fresh memory.
    fn map_further(&mut self, pool: &Pool, module: &Module) -> io::Result<()> {
        for number in 1..=self.further.len() as u32 {
            let position = number as usize - 1;
            let then = module
                .further_image_end(number)
                .next_multiple_of(page_bytes());
            let now = self.further_mapped[position];
            if now.max(then) == 0 {
                continue;
            }
            let file = match then {
                0 => None,
                _ => Some(module.further_image_file(number)?),
            };
            self.resize_further(pool, number, 0)?;
            let parts = pool.parts(self.index);
            let memory = parts.memory(number);
            // SAFETY: the memory belongs to this slot, and no byte of the memory is accessible. The
            // file is as long as the image.
            unsafe { self.replace_mapping(&parts, memory, now, file, then)? };
            self.further_mapped[position] = then;
        }
        Ok(())
    }

    /// Maps a sealed file over the first `then` bytes of a memory. Maps fresh memory over the rest
    /// of the first `now` bytes, which an earlier image covers. Without a file, `then` is 0.
    ///
    /// # Errors
    ///
    /// The error of mmap(2). The slot is then lost: a failed mapping may leave a hole in the
    /// address space, where other code may map memory.
    ///
    /// # Safety
    ///
    /// The memory must belong to this slot, which holds no instance, and no byte of the memory may
    /// be accessible. The file must have `then` bytes.
    unsafe fn replace_mapping(
        &mut self,
        parts: &Parts<'_>,
        memory: usize,
        now: usize,
        file: Option<&File>,
        then: usize,
    ) -> io::Result<()> {
        self.contents = Contents::Lost;
        // SAFETY: the caller ensures that no reference into the memory exists, and that the file is
        // long enough. The file is sealed, so it never becomes shorter.
        unsafe {
            let fresh = memory + then.min(now)..memory + now;
            parts.reservation.map_fresh(fresh)?;
            if let Some(file) = file {
                let range = memory..memory + then;
                parts.reservation.map_file(range, file.as_fd())?;
            }
        }
        self.contents = Contents::Unknown;
        Ok(())
    }

    /// Cleans the slot for the next instance of its module.
    #[inline]
    pub(super) fn clean(&mut self, pool: &Pool, module: &Module) -> io::Result<()> {
        let parts = pool.parts(self.index);
        let bytes = module.memory_bytes() as usize;
        if self.accessible > 0 {
            // SAFETY: the instance has ended, so no thread uses the slot. The memory of an instance
            // never shrinks, so the initial memory is accessible.
            let restored = unsafe {
                let memory = Memory0 {
                    index: self.index,
                    used: self.accessible,
                    backing: self.backing,
                    idle: &mut self.idle,
                    reach: &mut self.reach,
                };
                pool.reset.restore(&parts, memory, module)
            };
            restored.map_err(|refused| self.refused(refused))?;
            self.resize(pool, bytes)?;
        }
        // SAFETY: the instance has ended, so no thread uses the slot.
        unsafe { self.clear_further(&parts)? };
        self.size_further(pool, module)?;
        if self.table_bytes > RESIDENT_BYTES {
            let tables = parts.absolute(pool.layout.tables());
            // SAFETY: the instance has ended, so no thread uses the slot. The slot is no longer
            // warm, so every table is written completely before its next use.
            unsafe { parts.reservation.decommit(tables)? };
            self.table_bytes = 0;
            self.warm = false;
        }
        trim_stack(&parts)
    }

    /// Sets the size of memory 0 to `bytes` bytes. New bytes are zero, because bytes are zero when
    /// they become inaccessible. Before a caller shrinks the memory, the caller returns those bytes
    /// to the kernel or zeroes them.
    pub(super) fn resize(&mut self, pool: &Pool, bytes: usize) -> io::Result<()> {
        match (self.backing, pool.reset.tracker()) {
            (MemoryBacking::Tracked(_), Some(tracker)) => {
                let parts = pool.parts(self.index);
                // SAFETY: `self` owns the slot, and no view contains bytes that are not accessible
                // yet.
                let resized = unsafe { tracker.resize(self.index, &parts, &mut self.reach, bytes) };
                resized.map_err(|refused| self.refused(refused))?;
            }
            _ => {
                let parts = pool.parts(self.index);
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

    /// Sets the size of a further memory to `bytes` bytes. New bytes hold the mapped image, or
    /// zeros: [`clear_further`](Self::clear_further) discarded all earlier writes.
    pub(super) fn resize_further(
        &mut self,
        pool: &Pool,
        number: u32,
        bytes: usize,
    ) -> io::Result<()> {
        let parts = pool.parts(self.index);
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
    /// is now unknown: the next instance could access bytes past its memory's end.
    #[cold]
    fn refused(&mut self, refused: NotProtected) -> io::Error {
        if !refused.is_unchanged {
            self.contents = Contents::Lost;
        }
        refused.error
    }

    /// Gives each further memory the size of the module's initial memory. Memories that the module
    /// does not define become inaccessible.
    fn size_further(&mut self, pool: &Pool, module: &Module) -> io::Result<()> {
        let mut initial = module.own_memories().iter().skip(1);
        for number in 1..=self.further.len() as u32 {
            let bytes = initial.next().and_then(MemoryType::accessible_bytes);
            let bytes = bytes.unwrap_or(0);
            self.resize_further(pool, number, bytes as usize)?;
        }
        Ok(())
    }

    /// Returns the accessible parts of all further memories to the kernel. Then each part holds the
    /// image that is mapped over it, followed by zeros.
    ///
    /// # Safety
    ///
    /// No thread may use the slot, and no reference into the slot may exist.
    unsafe fn clear_further(&self, parts: &Parts<'_>) -> io::Result<()> {
        for (number, bytes) in (1..).zip(&self.further) {
            if *bytes > 0 {
                let memory = parts.memory(number);
                // SAFETY: the caller ensures that no thread uses the slot and no reference into the
                // slot exists.
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
/// The trim limits the memory of the process. Isolation does not need the trim. A guest cannot read
/// data that another guest left on the stack, because generated code writes every stack slot before
/// it reads the slot.
fn trim_stack(parts: &Parts<'_>) -> io::Result<()> {
    let stack = parts.absolute(parts.layout.whole_stack());
    if stack.len() <= RESIDENT_BYTES + PROBED_BYTES {
        return Ok(());
    }
    let kept = stack.end - RESIDENT_BYTES;
    // SAFETY: the stack is accessible, and no guest runs on it.
    let probed =
        unsafe { slice::from_raw_parts((kept - PROBED_BYTES) as *const u64, PROBED_BYTES / 8) };
    // A guest whose stack was deeper left a return address in these bytes, unless one frame spans
    // all these bytes.
    if probed.iter().all(|word| *word == 0) {
        return Ok(());
    }
    // SAFETY: the stack is accessible, no guest runs on it, and `probed` is not used again.
    unsafe { parts.reservation.decommit(stack.start..kept) }
}

/// Bytes that are read to find whether the guest used more stack than the part that stays resident.
const PROBED_BYTES: usize = 512;
