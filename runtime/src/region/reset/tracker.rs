//! [`Tracker`]: fills the pages of a region's slots on demand, lists the dirty pages, and restores
//! them. `tracked.rs` describes the strategy.
//!
//! # Safety
//!
//! Owns this invariant: every writable page of a tracked slot is on the slot's list, or `listed`
//! exceeds [`DIRTY_MAX`]. [`populate`] runs in the signal handler, so it takes no lock and does not
//! allocate. It uses the registry of trackers and the slot's atomic counters, bitmap and list. All
//! other data that `populate` reads is constant while an instance has the slot.
#![allow(unsafe_code)]

mod pages;
mod registry;

use super::lines::Lines;
use super::memory0::{PAGE, Reach, SPARE};
use crate::module::{Inner, Module};
use crate::region::layout::{Layout, Limits};
use crate::region::parts::Parts;
use crate::signals::page_fault::{self, Touched};
use crate::switch::arch::touch;
use crate::sys::fork::ForkMark;
use crate::sys::fork_lock;
use crate::sys::memory::{Access, NotProtected, Order, Reservation};
use crate::sys::userfault::{Fill, Userfault, keeping_errno};
use core::ops::Range;
use core::slice;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use nix::errno::Errno;
use pages::{DIRTY_MAX, Ledger, SlotPages};
use registry::Registry;
use std::io;

/// Maximum number of pages that a slot keeps between instances, dirty or only read: 16 MiB.
const FILLED_MAX: u32 = 4096;
/// Number of resets in a row that must find a page unchanged before the page returns to the system:
/// the initial value and the maximum. The kernel needs about 50 times as long to fill a page as the
/// runtime to compare a page (bench `cycle`).
const HYSTERESIS: u32 = 4;
const HYSTERESIS_MAX: u32 = 64;
/// Maximum number of faults in a row that find the page present, and of `EAGAIN` in one
/// `populate_range`.
const REPEATS_MAX: u32 = 10_000;
/// Number of resets during which the tracker watches whether returning pages was a mistake.
const WATCHED_RESETS: u32 = 64;

/// Maximum number of pages that one ioctl fills: 64 KiB.
const RUN_PAGES: usize = 16;

/// Source for pages that are filled with zeros.
#[repr(align(4096))]
struct Zeros([u8; RUN_PAGES * PAGE]);
static ZEROS: Zeros = Zeros([0; RUN_PAGES * PAGE]);

/// The tracker of each tracked memory range. The signal handler looks up trackers in this registry.
static TRACKERS: Registry<Tracker> = Registry::new();

/// Tracks the pages of all slots of a region.
#[derive(Debug)]
pub(in crate::region) struct Tracker {
    userfault: Userfault,
    mark: ForkMark,
    lines: Lines,
    ledger: Ledger,
    /// Start of each reservation of the region.
    chunks: Vec<usize>,
    chunk_slots: usize,
    slot_bytes: usize,
    /// Offset of the memory from the start of a slot.
    vmctx: usize,
}

impl Tracker {
    /// Creates the tracker of a region's slots. No slot is tracked yet.
    ///
    /// # Errors
    ///
    /// The error of the system call that the kernel refused.
    pub(super) fn new(
        chunks: &[Reservation],
        chunk_slots: u32,
        layout: &Layout,
        limits: &Limits,
    ) -> io::Result<Box<Self>> {
        if crate::sys::page_bytes() != PAGE {
            return Err(io::Error::other("the kernel's pages are not 4 KiB"));
        }
        let tracker = Box::new(Self {
            userfault: Userfault::new()?,
            mark: ForkMark::new()?,
            lines: Lines::detect(),
            ledger: Ledger::new(limits.slots as usize, limits.memory_bytes_max)?,
            chunks: chunks.iter().map(|chunk| chunk.range().start).collect(),
            chunk_slots: chunk_slots as usize,
            slot_bytes: layout.bytes(),
            vmctx: layout.vmctx(),
        });
        fork_lock::hold_over_forks();
        page_fault::set_hook(populate);
        TRACKERS.add(chunks.iter().map(Reservation::range), &raw const *tracker);
        Ok(tracker)
    }

    /// Whether the tracker works in this process: it does not work in a fork.
    #[inline]
    pub(in crate::region) fn is_ours(&self) -> bool {
        self.mark.is_ours()
    }

    /// The byte that tells whether the tracker works in this process. A fork clears the byte.
    pub(in crate::region) fn mark(&self) -> &AtomicU8 {
        self.mark.byte()
    }

    /// Sets the size of a slot's memory to `bytes`, and starts to track the part that was not
    /// tracked.
    ///
    /// # Errors
    ///
    /// The error of the system call that failed. The memory then keeps its size.
    ///
    /// # Safety
    ///
    /// The slot must belong to the caller, and no view of the newly accessible part may exist.
    pub(in crate::region) unsafe fn resize(
        &self,
        index: u32,
        parts: &Parts<'_>,
        reach: &mut Reach,
        bytes: usize,
    ) -> Result<(), NotProtected> {
        let memory = parts.vmctx();
        if bytes > reach.tracked {
            reach.marked = reach.marked.max(bytes);
            let border = reach.mapped.clamp(reach.tracked, bytes);
            let image = memory + reach.tracked..memory + border;
            if !image.is_empty() {
                parts.reservation.never_merge(image.clone());
                self.userfault.register_file(&image)?;
            }
            let new = memory + border..memory + bytes;
            if !new.is_empty() {
                parts.reservation.never_merge(new.clone());
                parts.reservation.wipe_on_fork(new.clone())?;
                self.userfault.register(&new)?;
            }
            reach.tracked = bytes;
        }
        if bytes > reach.open {
            let new = memory + reach.open..memory + bytes;
            // SAFETY: the caller owns the slot and no view of this range exists. The whole range is
            // tracked.
            unsafe { parts.reservation.protect(new, Access::ReadWrite)? };
            reach.open = bytes;
        }
        if let Some(account) = self.ledger.account(index as usize) {
            account.pages.mapped.store(reach.mapped, Relaxed);
            account.pages.bytes.store(bytes, Relaxed);
        }
        Ok(())
    }

    /// Whether the image of a module can be mapped: the kernel reports writes to such mappings.
    pub(super) fn maps_images(&self) -> bool {
        self.userfault.protects_files()
    }

    /// Returns pages to the system. Afterwards, pages of a mapped image hold the image's contents
    /// and are protected again: the kernel forgets the protection of written pages.
    ///
    /// # Errors
    ///
    /// The error of madvise(2) or ioctl(2). Some pages may then be unprotected.
    ///
    /// # Safety
    ///
    /// No thread may use the slot. The range must lie in the slot's tracked memory, which starts at
    /// `memory` and has an image mapped over its first `mapped` bytes.
    pub(super) unsafe fn discard(
        &self,
        parts: &Parts<'_>,
        range: Range<usize>,
        mapped: usize,
    ) -> io::Result<()> {
        let image = range.start..range.end.min(parts.vmctx() + mapped);
        // SAFETY: the caller promises that no thread uses the slot.
        unsafe { parts.reservation.decommit(range)? };
        match image.is_empty() {
            true => Ok(()),
            false => self.userfault.protect(&image),
        }
    }

    /// Assigns a slot to a module. All pages of the slot's memory must be missing, or be protected
    /// pages of the module's mapped image. The memory must have the module's initial size.
    pub(in crate::region) fn assign(&self, index: u32, module: &Module) {
        let Some(account) = self.ledger.account(index as usize) else {
            return;
        };
        account.clear_all();
        let pages = account.pages;
        pages.hysteresis.store(HYSTERESIS, Relaxed);
        pages.given_back.store(0, Relaxed);
        pages
            .module
            .store(core::ptr::from_ref(module.inner()).cast_mut(), Relaxed);
    }

    /// Fills or unprotects the page at an address, if the address is in the current memory of a
    /// slot.
    ///
    /// # Safety
    ///
    /// Only the handler of the fault may call this method, on the thread that touched the address.
    unsafe fn populate(&self, chunk: usize, address: usize, write: bool) -> Touched {
        let Some((account, offset)) = self.find(chunk, address) else {
            return Touched::Elsewhere;
        };
        // In a fork, the ioctls would change the parent's memory.
        if offset >= account.pages.bytes.load(Relaxed) || !self.is_ours() {
            return Touched::Elsewhere;
        }
        // SAFETY: the pointer is null while a probe tests the tracker. Otherwise a thread touches
        // the memory below its size, so an instance of this module has the slot and keeps the
        // module alive.
        let module = unsafe { account.pages.module.load(Relaxed).as_ref() };
        let (number, page) = (offset / PAGE, address - address % PAGE);
        let source = module.map_or(0, |module| module.image_source(number * PAGE));
        let from = module
            .and_then(|module| module.image_at(source))
            .unwrap_or(&ZEROS.0[..PAGE]);
        if offset < account.pages.mapped.load(Relaxed) {
            return self.populate_mapped(account, number as u32, source, page, write);
        }
        // SAFETY: `page` is a missing page of the slot's memory. The thread that touches it expects
        // the page's initial contents.
        let filled = unsafe { self.userfault.fill(page, from.as_ptr(), PAGE, !write) };
        let mut fresh = false;
        let done = match filled {
            Ok(Fill::Filled) => {
                fresh = true;
                account.pages.filled.fetch_add(1, Relaxed);
                if (number * PAGE) as u64 >= module.map_or(0, Inner::memory_bytes) {
                    account.pages.grown.store(1, Relaxed);
                }
                Ok(())
            }
            Ok(Fill::WasThere) if write => self.userfault.unprotect(page, PAGE),
            Ok(Fill::WasThere) => Ok(()),
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => {
                // A fault by a write makes the page writable, so the page is listed.
                fresh |= write && account.list(number as u32, source);
                if fresh {
                    account.pages.repeats.store(0, Relaxed);
                } else if account.pages.repeats.fetch_add(1, Relaxed) >= REPEATS_MAX {
                    // Another thread that resolves the fault first explains few repeats, not
                    // this many: the kernel cannot read the page back from swap.
                    return Touched::Exhausted;
                }
                Touched::There
            }
            // The instruction runs again, and faults again.
            Err(Errno::EAGAIN) => Touched::There,
            Err(_) => Touched::Exhausted,
        }
    }

    /// Unprotects a page of a mapped image after a fault, and lists the page.
    fn populate_mapped(
        &self,
        account: SlotPages<'_>,
        number: u32,
        source: u32,
        page: usize,
        write: bool,
    ) -> Touched {
        // The kernel itself fills pages of a mapping for reading. So the fault means that the
        // kernel failed to read this page back from swap.
        if !write {
            return Touched::Exhausted;
        }
        // First unprotect the page, then list it: a reset writes to listed pages.
        match self.userfault.unprotect(page, PAGE) {
            Ok(()) => {}
            // The instruction runs again, and faults again.
            Err(Errno::EAGAIN) => return Touched::There,
            Err(_) => return Touched::Exhausted,
        }
        if account.list(number, source) {
            account.note_filled(1);
            account.pages.repeats.store(0, Relaxed);
        } else if account.pages.repeats.fetch_add(1, Relaxed) >= REPEATS_MAX {
            return Touched::Exhausted;
        }
        Touched::There
    }

    /// Returns the account of the slot at an address, and the offset of the address in the slot's
    /// memory.
    fn find(&self, chunk: usize, address: usize) -> Option<(SlotPages<'_>, usize)> {
        let chunk = self.chunks.iter().position(|start| *start == chunk)?;
        let within = address - self.chunks[chunk];
        let slot = chunk * self.chunk_slots + within / self.slot_bytes;
        let offset = (within % self.slot_bytes).checked_sub(self.vmctx)?;
        Some((self.ledger.account(slot)?, offset))
    }

    /// Fills or unprotects all pages of a range. One ioctl fills up to [`RUN_PAGES`] zero pages.
    /// [`populate`](Self::populate) fills or unprotects one page.
    ///
    /// # Safety
    ///
    /// The range must lie in the memory of an instance that the caller borrows.
    // Longer than a screen: one pass over the pages, with a branch for each state of a page.
    unsafe fn populate_range(&self, chunk: usize, range: Range<usize>, write: bool) -> Touched {
        let Some((account, first)) = self.find(chunk, range.start) else {
            return Touched::Elsewhere;
        };
        let bytes = account.pages.bytes.load(Relaxed);
        // In a fork, the ioctls would change the parent's memory.
        if first >= bytes || !self.is_ours() {
            return Touched::Elsewhere;
        }
        // SAFETY: the caller borrows an instance of the module, which keeps the module alive. The
        // pointer is null in a probe.
        let module = unsafe { account.pages.module.load(Relaxed).as_ref() };
        let source_of =
            |page: usize| module.map_or(0, |module: &Inner| module.image_source(page * PAGE));
        let memory = range.start - first;
        let end = (first + range.len()).min(bytes).div_ceil(PAGE);
        let (mut page, mut refused) = (first / PAGE, 0);
        while page < end {
            if account.is_dirty(page as u32) {
                page += 1;
                continue;
            }
            let source = source_of(page);
            if page * PAGE < account.pages.mapped.load(Relaxed) {
                let at = memory + page * PAGE;
                // The kernel fills the page when it is read.
                let touched = match write {
                    true => self.populate_mapped(account, page as u32, source, at, write),
                    false => Touched::There,
                };
                if !matches!(touched, Touched::There) {
                    return touched;
                }
                // After EAGAIN the page is not listed yet.
                refused += 1;
                if !write || account.is_dirty(page as u32) {
                    (page, refused) = (page + 1, 0);
                } else if refused >= REPEATS_MAX {
                    return Touched::Exhausted;
                }
                continue;
            }
            let image = module.and_then(|module| module.image_at(source));
            // One ioctl fills a run of zero pages, but only a single page from the image.
            let is_run = |at: &usize| {
                let new = image.is_none() && source_of(*at) == 0;
                new && !account.is_dirty(*at as u32)
            };
            let most = end.min(page + RUN_PAGES);
            let pages = 1 + (page + 1..most).take_while(is_run).count();
            let from = image.unwrap_or(&ZEROS.0).as_ptr();
            let at = memory + page * PAGE;
            // SAFETY: the pages belong to an instance that the caller borrows, and the kernel fills
            // only missing pages. The source is a page of the image, or up to `RUN_PAGES` pages of
            // zeros.
            let fill = |pages| unsafe { self.userfault.fill_run(at, from, pages * PAGE, !write) };
            let filled = match fill(pages) {
                // The run may cross the border of two mappings: the kernel does not always merge
                // parts that were tracked one after the other. A single page crosses no border.
                Err(Errno::ENOENT) => fill(1),
                filled => filled,
            };
            // The kernel may allocate memory, and fail, before it checks whether the page is
            // present.
            // SAFETY: the page belongs to an instance that the caller borrows. Registered memory is
            // readable once its page is present.
            let filled = filled.or_else(|error| match unsafe { touch::load(at as *const u8) } {
                touch::FAILED => Err(error),
                _ => Ok(0),
            });
            let done = match filled {
                Ok(0) if write => self.userfault.unprotect(at, PAGE).map(|()| 1),
                Ok(0) => Ok(1),
                Ok(bytes) => {
                    account.note_filled((bytes / PAGE) as u32);
                    let end = (page * PAGE + bytes) as u64;
                    if end > module.map_or(0, Inner::memory_bytes) {
                        account.pages.grown.store(1, Relaxed);
                    }
                    Ok(bytes / PAGE)
                }
                Err(error) => Err(error),
            };
            match done {
                Ok(pages) => {
                    for page in page..page + if write { pages } else { 0 } {
                        account.list(page as u32, source);
                    }
                    page += pages;
                }
                // The kernel is changing the mappings of the process, for example in fork(2).
                Err(Errno::EAGAIN) => {
                    refused += 1;
                    if refused >= REPEATS_MAX {
                        return Touched::Exhausted;
                    }
                }
                Err(_) => return Touched::Exhausted,
            }
        }
        account.pages.repeats.store(0, Relaxed);
        Touched::There
    }

    /// Restores the memory of a slot to the initial memory of its module, but not its size.
    ///
    /// Touched pages beyond the initial size are zeroed and made inaccessible. These pages stay
    /// resident, because the next instance probably grows its memory as well. If the list has
    /// overflowed, or more than [`FILLED_MAX`] pages were filled, all memory returns to the system
    /// instead.
    ///
    /// # Errors
    ///
    /// The error of madvise(2) or mprotect(2), or an error that says that this process is a fork.
    /// The contents of the memory are then unknown.
    ///
    /// # Safety
    ///
    /// No thread may use the slot during the call. The slot must be tracked and assigned to
    /// `module`.
    pub(super) unsafe fn restore(
        &self,
        index: u32,
        parts: &Parts<'_>,
        reach: &mut Reach,
        module: &Module,
    ) -> Result<(), NotProtected> {
        let account = match self.ledger.account(index as usize) {
            Some(account) if self.is_ours() => account,
            _ => return Err(io::Error::other("the slot belongs to another process").into()),
        };
        let (pages, memory) = (account.pages, parts.vmctx());
        let initial = module.memory_bytes() as usize;
        let (used, listed) = (pages.bytes.load(Relaxed), pages.listed.load(Relaxed));
        if listed > DIRTY_MAX || pages.filled.load(Relaxed) > FILLED_MAX {
            module.note_large_working_set();
            // SAFETY: the caller promises that no thread uses the slot.
            unsafe { self.discard(parts, memory..memory + reach.marked, reach.mapped)? };
            account.clear_all();
            return Ok(());
        }
        if listed > 0 {
            // SAFETY: the caller promises that no thread uses the slot. Pages filled beyond `used`
            // are inaccessible.
            unsafe { self.restore_dirty(account, listed, parts, reach.mapped, module)? };
        }
        if used > initial && pages.grown.load(Relaxed) != 0 {
            // SAFETY: the caller promises that no thread uses the slot.
            unsafe {
                let closed = memory + initial..memory + reach.open;
                parts.reservation.protect(closed, Access::None)?;
            }
            reach.open = initial;
            set_apart(parts, reach, initial);
        }
        Ok(())
    }

    /// Counts the pages of a slot's memory that differ from the module's initial memory. Returns
    /// `None` if the list has overflowed, or in a fork.
    ///
    /// # Safety
    ///
    /// The slot must be tracked and assigned to `module`. The slot's memory must start at `memory`,
    /// and no thread may write to the memory during the call.
    pub(in crate::region) unsafe fn changed(
        &self,
        index: u32,
        memory: usize,
        module: &Module,
    ) -> Option<u64> {
        let account = self.ledger.account(index as usize)?;
        let listed = account.pages.listed.load(Relaxed);
        if listed > DIRTY_MAX || !self.is_ours() {
            return None;
        }
        let used_pages = (account.pages.bytes.load(Relaxed) / PAGE) as u32;
        let listed = account.list[..listed as usize]
            .iter()
            .map(pages::DirtyPage::get);
        let changed = listed.filter(|(page, _, source)| {
            if *page >= used_pages {
                return false;
            }
            let at = memory + *page as usize * PAGE;
            // SAFETY: a listed page below the current size is present, and the caller promises that
            // no thread writes to the page.
            let found = unsafe { slice::from_raw_parts(at as *const u8, PAGE) };
            found != module.inner().image_at(*source).unwrap_or(&ZEROS.0[..PAGE])
        });
        Some(changed.count() as u64)
    }

    /// Whether a page of a tracked slot certainly has its initial contents: the page is not in the
    /// list of dirty pages. Some listed pages may hold their initial contents, too.
    pub(in crate::region) fn is_unwritten(&self, index: u32, offset: usize) -> bool {
        let account = self.ledger.account(index as usize);
        account.is_some_and(|account| !account.is_dirty((offset / PAGE) as u32))
    }

    /// Restores the listed pages. Removes pages that stayed unchanged for many resets from the
    /// list.
    ///
    /// # Safety
    ///
    /// As for [`restore`](Self::restore). The memory must be accessible up to its current size, and
    /// pages filled beyond that size must be zero. The image must be mapped over the first `mapped`
    /// bytes.
    unsafe fn restore_dirty(
        &self,
        account: SlotPages<'_>,
        listed: u32,
        parts: &Parts<'_>,
        mapped: usize,
        module: &Module,
    ) -> io::Result<()> {
        let (pages, memory) = (account.pages, parts.vmctx());
        let used_pages = (pages.bytes.load(Relaxed) / PAGE) as u32;
        let hysteresis = hysteresis_of(account, listed);
        let (mut kept, mut given_back, mut run) = (0, 0, memory..memory);
        for entry in &account.list[..listed as usize] {
            let (page, idle, source) = entry.get();
            let at = memory + page as usize * PAGE;
            let initial = module.inner().image_at(source);
            // SAFETY: a listed page below `used` is present and writable, and no thread uses the
            // page.
            let changed =
                page < used_pages && unsafe { self.lines.restore(at as *mut u8, initial) };
            let idle = if changed { 0 } else { idle + 1 };
            if idle < hysteresis || listed - given_back <= SPARE as u32 {
                account.list[kept as usize].set(page, idle.min(HYSTERESIS_MAX), source);
                kept += 1;
                continue;
            }
            given_back += 1;
            account.clear(page);
            if at != run.end {
                // SAFETY: these pages hold their initial contents, and no thread uses them.
                unsafe { self.discard(parts, run, mapped)? };
                run = at..at;
            }
            run.end = at + PAGE;
        }
        pages.listed.store(kept, Relaxed);
        pages.kept.store(kept, Relaxed);
        if given_back > 0 {
            pages.filled.fetch_sub(given_back, Relaxed);
            pages.given_back.store(given_back, Relaxed);
            pages.since.store(0, Relaxed);
        }
        // SAFETY: these pages hold their initial contents, and no thread uses them.
        unsafe { self.discard(parts, run, mapped) }
    }
}

/// Keeps the grown part of a memory, which begins at `initial`, in a mapping of its own. Opening
/// and closing the grown part then changes the protection of that mapping. Otherwise the kernel
/// would merge the mapping with the initial part and split it again, which doubles the time of
/// mprotect(2).
fn set_apart(parts: &Parts<'_>, reach: &mut Reach, initial: usize) {
    if reach.apart == (initial, reach.tracked) {
        return;
    }
    let memory = parts.vmctx();
    let (from, to) = reach.apart;
    let before = memory + from..memory + initial.min(to);
    if !before.is_empty() {
        parts.reservation.expect(before, Order::Any);
    }
    let apart = memory + initial..memory + reach.tracked;
    parts.reservation.expect(apart, Order::Random);
    reach.apart = (initial, reach.tracked);
}

/// Returns the number of resets in a row that must find a page unchanged before the page returns to
/// the system. The number rises if instances soon needed returned pages again.
fn hysteresis_of(account: SlotPages<'_>, listed: u32) -> u32 {
    let pages = account.pages;
    let (hysteresis, given_back) = (
        pages.hysteresis.load(Relaxed),
        pages.given_back.load(Relaxed),
    );
    if given_back == 0 {
        return hysteresis;
    }
    let since = pages.since.load(Relaxed) + 1;
    pages.since.store(since, Relaxed);
    let wanted_again = listed - pages.kept.load(Relaxed) >= given_back.div_ceil(2);
    if wanted_again || since > WATCHED_RESETS {
        pages.given_back.store(0, Relaxed);
    }
    if !wanted_again {
        return hysteresis;
    }
    let longer = (hysteresis * 4).min(HYSTERESIS_MAX);
    pages.hysteresis.store(longer, Relaxed);
    longer
}

/// Access for the probe.
impl Tracker {
    /// Forgets the writable pages of a slot.
    pub(super) fn forget(&self, index: usize) {
        if let Some(account) = self.ledger.account(index) {
            account.clear_all();
        }
    }

    /// Lists the writable pages of a slot, in the order in which they first became writable.
    pub(super) fn listed(&self, index: usize) -> Vec<u32> {
        let Some(account) = self.ledger.account(index) else {
            return vec![];
        };
        let listed = account.pages.listed.load(Relaxed).min(DIRTY_MAX);
        let pages = account.list[..listed as usize].iter();
        pages.map(|listed| listed.get().0).collect()
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        // The region has no live instance, so no thread touches the region's memory.
        TRACKERS.remove(&raw const *self);
    }
}

/// The process's page-fault hook. Fills or unprotects the page at an address in tracked memory of
/// an instance. The instruction that touched the page can then run again.
///
/// Async-signal-safe.
///
/// # Safety
///
/// Only the handler of a fault may call this function, on the thread that touched the address.
unsafe fn populate(address: usize, write: bool) -> Touched {
    keeping_errno(|| {
        // SAFETY: the thread that touches a slot's memory keeps its region alive, and with it the
        // tracker.
        let tracked = unsafe {
            TRACKERS.with(address, |tracker, chunk| {
                tracker.populate(chunk.start, address, write)
            })
        };
        tracked.unwrap_or(Touched::Elsewhere)
    })
}

/// Fills or unprotects all pages of a range, as far as the range is tracked memory of an instance.
///
/// # Safety
///
/// The range must lie in the memory of an instance that the caller borrows.
pub(crate) unsafe fn populate_range(range: Range<usize>, write: bool) -> Touched {
    // SAFETY: the borrowed instance keeps its region alive, and with it the tracker.
    let tracked = unsafe {
        TRACKERS.with(range.start, |tracker, chunk| {
            tracker.populate_range(chunk.start, range.clone(), write)
        })
    };
    tracked.unwrap_or(Touched::Elsewhere)
}
