//! Tracked: memory is filled page by page as it is touched, and pages that are written to are listed.
//!
//! ```text
//!   memory 0:  │ pages, up to the current size      │ up to the largest so far       │ guard
//!   a page is    missing ──read──▶ filled, protected   missing: touching it is a trap    inaccessible
//!                   └────write───▶ filled, listed ◀──write──┘
//! ```
//!
//! The range up to the largest size that the memory has had is registered with a userfaultfd, and is
//! readable and writable from then on. A page that is missing raises SIGBUS when it is touched, in the
//! guest or in the host's view of the memory. Below the memory's current size the handler fills it with
//! the page of the image; beyond, the signal is the guest's trap. So growing is a store, but for the
//! first time, and a reset puts back the pages on the list, without a system call: every other page is
//! as it was filled, or missing. Only where an instance has grown and touched what it grew by, those pages
//! are closed to every access afterwards, and opened again when an instance grows.
//!
//! So that one large request does not tax the small ones after it, a listed page that resets keep
//! finding unchanged leaves the list and is given back. That costs a fault if it was wrong: then the
//! slot becomes slower to give back. What a slot cannot keep track of is given back at once, and a
//! module whose instances do that again and again is kept another way, see [`Module::note_wide`].
//!
//! In a fork nothing of this works: the descriptor is that of the parent. So the memory is zeros
//! there, and each slot is mapped anew, and kept another way, before a child's instance gets it.
//!
//! [`Module::note_wide`]: crate::module::Module::note_wide
//!
//! # Safety
//!
//! Owns the fact that a page of a tracked slot which can be written to is on the slot's list, or the
//! list says that it is too long. [`populate`] runs in the signal handler: it takes no lock, allocates
//! nothing, and reads what does not change while an instance has the slot.
#![allow(unsafe_code)]

mod pages;
mod registry;

use super::lines::Lines;
use super::{PAGE, PUT_BACK_MAX, SPARE};
use crate::locks;
use crate::module::{Inner, Module};
use crate::region::layout::{Layout, Limits};
use crate::region::slot::Parts;
use crate::switch::arch::touch;
use crate::sys::fork::ForkMark;
use crate::sys::memory::{Access, NotProtected, Reservation};
use crate::sys::userfault::{Fill, Userfault, keeping_errno};
use core::ops::Range;
use core::slice;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use pages::{Account, Ledger};
use registry::Registry;
use std::io;
use std::sync::MutexGuard;

/// Pages that a slot lists. An instance that writes to more has all its memory given back.
const LISTED_MAX: u32 = PUT_BACK_MAX as u32;
/// Pages that a slot keeps, listed or only read: 16 MiB.
const FILLED_MAX: u32 = 4096;
/// Resets in a row that find a page unchanged before it is given back: at first, and at most. To fill a
/// page again costs as much as to compare it some fifty times (bench `cycle`).
const PATIENCE: u32 = 4;
const PATIENCE_MAX: u32 = 64;
/// Times in a row that touching a page may find it as it ought to be.
const REPEATS_MAX: u32 = 10_000;
/// Resets within which it shows whether giving pages back was wrong.
const REGRET: u32 = 64;

/// Most pages that one ioctl fills: 64 KiB.
const RUN_PAGES: usize = 16;

/// What pages of zeros are filled from.
#[repr(align(4096))]
struct Zeros([u8; RUN_PAGES * PAGE]);
static ZEROS: Zeros = Zeros([0; RUN_PAGES * PAGE]);

/// Which memory belongs to which tracker, for the signal handler.
static TRACKERS: Registry<Tracker> = Registry::new();

/// The lock of this module.
pub(crate) struct Lock {
    _trackers: MutexGuard<'static, registry::Old<Tracker>>,
}

/// Takes it.
pub(crate) fn lock() -> Lock {
    Lock {
        _trackers: TRACKERS.lock(),
    }
}

/// Keeps track of the pages of all slots of a region.
#[derive(Debug)]
pub(in crate::region) struct Tracker {
    userfault: Userfault,
    mark: ForkMark,
    lines: Lines,
    ledger: Ledger,
    /// Where the reservations of the region start, and how many slots each holds.
    chunks: Vec<usize>,
    chunk_slots: usize,
    slot_bytes: usize,
    /// From the start of a slot to its memory.
    vmctx: usize,
}

/// How far the memory of a slot is tracked, in bytes from its start: each at most the next.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::region) struct Reach {
    /// What may be touched.
    open: usize,
    /// What is registered.
    tracked: usize,
    /// What may not be mapped as it was reserved.
    pub(in crate::region) marked: usize,
}

/// What a fault in a slot's memory came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    /// The page is there: the instruction can run again.
    There,
    /// The system has no memory for the page.
    Exhausted,
    /// The address is in no memory that is tracked, or past its size.
    Elsewhere,
}

impl Tracker {
    /// Keeps track of the slots of a region: of none yet.
    ///
    /// # Errors
    ///
    /// What the kernel gives where it refuses.
    pub(super) fn new(
        chunks: &[Reservation],
        chunk_slots: u32,
        layout: &Layout,
        limits: &Limits,
    ) -> io::Result<Box<Self>> {
        if crate::sys::page_bytes() != PAGE {
            return Err(io::Error::other("the kernel's pages are not of 4 KiB"));
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
        locks::hold_over_forks();
        TRACKERS.add(chunks.iter().map(Reservation::range), &raw const *tracker);
        Ok(tracker)
    }

    /// Whether it works in this process: it does not in a fork.
    #[inline]
    pub(in crate::region) fn is_ours(&self) -> bool {
        self.mark.is_ours()
    }

    /// The mark of the process that it works in.
    pub(in crate::region) fn mark(&self) -> &AtomicU8 {
        self.mark.byte()
    }

    /// Makes the memory of a slot this large, and tracks what has not been.
    ///
    /// # Errors
    ///
    /// What the kernel gives; then the memory is as large as before.
    ///
    /// # Safety
    ///
    /// The slot must belong to the caller, and nobody have a view of what becomes accessible.
    pub(in crate::region) unsafe fn resize(
        &self,
        index: u32,
        parts: &Parts<'_>,
        reach: &mut Reach,
        bytes: usize,
    ) -> Result<(), NotProtected> {
        let memory = parts.vmctx();
        if bytes > reach.tracked {
            let new = memory + reach.tracked..memory + bytes;
            reach.marked = reach.marked.max(bytes);
            parts.reservation.never_merge(new.clone());
            parts.reservation.wipe_on_fork(new.clone())?;
            self.userfault.register(&new)?;
            reach.tracked = bytes;
        }
        if bytes > reach.open {
            let new = memory + reach.open..memory + bytes;
            // SAFETY: passed on. All of it is tracked.
            unsafe { parts.reservation.protect(new, Access::ReadWrite)? };
            reach.open = bytes;
        }
        if let Some(account) = self.ledger.account(index as usize) {
            account.pages.bytes.store(bytes, Relaxed);
        }
        Ok(())
    }

    /// Makes a slot whose memory is all missing, and as large as the module's, the module's.
    pub(in crate::region) fn assign(&self, index: u32, module: &Module) {
        let Some(account) = self.ledger.account(index as usize) else {
            return;
        };
        account.clear_all();
        let pages = account.pages;
        pages.patience.store(PATIENCE, Relaxed);
        pages.given_back.store(0, Relaxed);
        pages
            .module
            .store(core::ptr::from_ref(module.inner()).cast_mut(), Relaxed);
    }

    /// Fills or frees the page that an address lies in, if it is in the current memory of a slot.
    ///
    /// # Safety
    ///
    /// Must be called by the handler of the fault, in the thread that touched the address.
    unsafe fn populate(&self, chunk: usize, address: usize, write: bool) -> Touched {
        let Some((account, offset)) = self.find(chunk, address) else {
            return Touched::Elsewhere;
        };
        // In a fork the ioctls would change the parent.
        if offset >= account.pages.bytes.load(Relaxed) || !self.is_ours() {
            return Touched::Elsewhere;
        }
        // SAFETY: null while the tracker is tried. Else somebody touches the memory below its size, so
        // that an instance of the module has the slot.
        let module = unsafe { account.pages.module.load(Relaxed).as_ref() };
        let (number, page) = (offset / PAGE, address - address % PAGE);
        let source = module.map_or(0, |module| module.image_source(number * PAGE));
        let from = module
            .and_then(|module| module.image_at(source))
            .unwrap_or(&ZEROS.0[..PAGE]);
        // SAFETY: a page of the slot's memory that is missing: whoever touches it expects its initial
        // contents.
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
                // A page that was filled for writing is listed as well.
                fresh |= write && account.list(number as u32, source);
                if fresh {
                    account.pages.repeats.store(0, Relaxed);
                } else if account.pages.repeats.fetch_add(1, Relaxed) >= REPEATS_MAX {
                    // Not that another thread was first: the page cannot be read back from where the
                    // kernel has moved it out to, and never will be.
                    return Touched::Exhausted;
                }
                Touched::There
            }
            // The instruction runs again, and faults again.
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Touched::There,
            Err(_) => Touched::Exhausted,
        }
    }

    /// The slot that an address lies in, and the offset of the address in the slot's memory.
    fn find(&self, chunk: usize, address: usize) -> Option<(Account<'_>, usize)> {
        let chunk = self.chunks.iter().position(|start| *start == chunk)?;
        let within = address - self.chunks[chunk];
        let slot = chunk * self.chunk_slots + within / self.slot_bytes;
        let offset = (within % self.slot_bytes).checked_sub(self.vmctx)?;
        Some((self.ledger.account(slot)?, offset))
    }

    /// Fills or unprotects all pages of a range, as [`populate`](Self::populate) does one page, with
    /// one ioctl a run of missing pages.
    ///
    /// # Safety
    ///
    /// The range must lie in the memory of an instance that the caller borrows.
    unsafe fn populate_range(&self, chunk: usize, range: Range<usize>, write: bool) -> Touched {
        let Some((account, first)) = self.find(chunk, range.start) else {
            return Touched::Elsewhere;
        };
        let bytes = account.pages.bytes.load(Relaxed);
        // In a fork the ioctls would change the parent.
        if first >= bytes || !self.is_ours() {
            return Touched::Elsewhere;
        }
        // SAFETY: an instance of the module has the slot, by the caller's promise; null in a probe.
        let module = unsafe { account.pages.module.load(Relaxed).as_ref() };
        let source_of =
            |page: usize| module.map_or(0, |module: &Inner| module.image_source(page * PAGE));
        let memory = range.start - first;
        let end = (first + range.len()).min(bytes).div_ceil(PAGE);
        let (mut page, mut refused) = (first / PAGE, 0);
        while page < end {
            if account.is_listed(page as u32) {
                page += 1;
                continue;
            }
            let source = source_of(page);
            let image = module.and_then(|module| module.image_at(source));
            // A run of zeros; a page of the image is filled alone.
            let is_run = |at: &usize| {
                let new = image.is_none() && source_of(*at) == 0;
                new && !account.is_listed(*at as u32)
            };
            let most = end.min(page + RUN_PAGES);
            let pages = 1 + (page + 1..most).take_while(is_run).count();
            let from = image.unwrap_or(&ZEROS.0).as_ptr();
            let at = memory + page * PAGE;
            // SAFETY: pages of an instance that the caller borrows, if they are missing; the source
            // is a page of the image, or up to `RUN_PAGES` of zeros.
            let filled = unsafe { self.userfault.fill_run(at, from, pages * PAGE, !write) };
            // The kernel may ask for memory before it looks whether the page is present.
            // SAFETY: as above, and registered memory is readable once its page is present.
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
                // The kernel is changing the mappings of the process, as fork(2) does.
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
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

    /// Makes the memory of a slot the initial memory of its module again, but for its size.
    ///
    /// Pages that were filled behind it are put back to zeros and closed to every access, not given back:
    /// the next instance may well grow as this one did.
    ///
    /// # Errors
    ///
    /// What madvise(2) and mprotect(2) give, or that this is a fork: then the contents are unknown.
    ///
    /// # Safety
    ///
    /// Nobody may use the slot meanwhile. It must be tracked, and be the module's.
    pub(super) unsafe fn restore(
        &self,
        index: u32,
        parts: &Parts<'_>,
        reach: &mut Reach,
        module: &Module,
    ) -> Result<(), NotProtected> {
        let account = match self.ledger.account(index as usize) {
            Some(account) if self.is_ours() => account,
            _ => return Err(io::Error::other("a slot of another process").into()),
        };
        let (pages, memory) = (account.pages, parts.vmctx());
        let initial = module.memory_bytes() as usize;
        let (used, listed) = (pages.bytes.load(Relaxed), pages.listed.load(Relaxed));
        if listed > LISTED_MAX || pages.filled.load(Relaxed) > FILLED_MAX {
            module.note_wide();
            // SAFETY: nobody uses the slot.
            unsafe { parts.reservation.decommit(memory..memory + reach.marked)? };
            account.clear_all();
            return Ok(());
        }
        if listed > 0 {
            // SAFETY: as above; what was filled behind `used` is closed.
            unsafe { self.restore_listed(account, listed, parts, used, module)? };
        }
        if used > initial && pages.grown.load(Relaxed) != 0 {
            // SAFETY: as above.
            unsafe {
                let closed = memory + initial..memory + reach.open;
                parts.reservation.protect(closed, Access::None)?;
            }
            reach.open = initial;
        }
        Ok(())
    }

    /// Number of pages of a slot's memory that are not as the module starts with them; `None` if more
    /// were written to than are listed, or in a fork.
    ///
    /// # Safety
    ///
    /// The slot must be tracked, and be the module's, with its memory at that address; nobody may
    /// write to it meanwhile.
    pub(in crate::region) unsafe fn changed(
        &self,
        index: u32,
        memory: usize,
        module: &Module,
    ) -> Option<u64> {
        let account = self.ledger.account(index as usize)?;
        let listed = account.pages.listed.load(Relaxed);
        if listed > LISTED_MAX || !self.is_ours() {
            return None;
        }
        let used_pages = (account.pages.bytes.load(Relaxed) / PAGE) as u32;
        let listed = account.list[..listed as usize]
            .iter()
            .map(pages::Listed::get);
        let changed = listed.filter(|(page, _, source)| {
            if *page >= used_pages {
                return false;
            }
            let at = memory + *page as usize * PAGE;
            // SAFETY: a listed page below the current size is there, and nobody writes to it.
            let found = unsafe { slice::from_raw_parts(at as *const u8, PAGE) };
            found != module.inner().image_at(*source).unwrap_or(&ZEROS.0[..PAGE])
        });
        Some(changed.count() as u64)
    }

    /// Puts back what is on the list, and takes off it what has been unchanged for long.
    ///
    /// # Safety
    ///
    /// As for [`restore`](Self::restore). The first `used` bytes must be open, and what was filled behind
    /// them be zero.
    unsafe fn restore_listed(
        &self,
        account: Account<'_>,
        listed: u32,
        parts: &Parts<'_>,
        used: usize,
        module: &Module,
    ) -> io::Result<()> {
        let (pages, memory) = (account.pages, parts.vmctx());
        let used_pages = (used / PAGE) as u32;
        let patience = regretted(account, listed);
        let (mut kept, mut given_back, mut run) = (0, 0, memory..memory);
        for entry in &account.list[..listed as usize] {
            let (page, idle, source) = entry.get();
            let at = memory + page as usize * PAGE;
            let initial = module.inner().image_at(source);
            // SAFETY: a listed page below `used` is there and can be written to, and nobody uses it.
            let changed =
                page < used_pages && unsafe { self.lines.restore(at as *mut u8, initial) };
            let idle = if changed { 0 } else { idle + 1 };
            if idle < patience || listed - given_back <= SPARE as u32 {
                account.list[kept as usize].set(page, idle.min(PATIENCE_MAX), source);
                kept += 1;
                continue;
            }
            given_back += 1;
            account.clear(page);
            if at != run.end {
                // SAFETY: pages that are as they were filled; nobody uses them.
                unsafe { parts.reservation.decommit(run)? };
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
        // SAFETY: as above.
        unsafe { parts.reservation.decommit(run) }
    }
}

/// How often in a row a page must be found unchanged before it is given back: more often where pages
/// were given back that were soon wanted again.
fn regretted(account: Account<'_>, listed: u32) -> u32 {
    let pages = account.pages;
    let (patience, given_back) = (pages.patience.load(Relaxed), pages.given_back.load(Relaxed));
    if given_back == 0 {
        return patience;
    }
    let since = pages.since.load(Relaxed) + 1;
    pages.since.store(since, Relaxed);
    let wanted_again = listed - pages.kept.load(Relaxed) >= given_back.div_ceil(2);
    if wanted_again || since > REGRET {
        pages.given_back.store(0, Relaxed);
    }
    if !wanted_again {
        return patience;
    }
    let longer = (patience * 4).min(PATIENCE_MAX);
    pages.patience.store(longer, Relaxed);
    longer
}

/// What a try needs to see.
impl Tracker {
    /// The pages of a slot that can be written to, in the order in which they first were.
    pub(super) fn listed(&self, index: usize) -> Vec<u32> {
        let Some(account) = self.ledger.account(index) else {
            return vec![];
        };
        let listed = account.pages.listed.load(Relaxed).min(LISTED_MAX);
        let pages = account.list[..listed as usize].iter();
        pages.map(|listed| listed.get().0).collect()
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        // No instance of the region lives, so nobody touches its memory.
        TRACKERS.remove(&raw const *self);
    }
}

/// Fills or frees the page that an address lies in, if it is tracked memory of an instance: then the
/// instruction that touched it can run again.
///
/// Async-signal-safe.
///
/// # Safety
///
/// Must be called by the handler of a fault, in the thread that touched the address.
pub(crate) unsafe fn populate(address: usize, write: bool) -> Touched {
    keeping_errno(|| {
        // SAFETY: whoever touches a slot's memory keeps its region alive, and with it the tracker.
        let tracked = unsafe {
            TRACKERS.with(address, |tracker, chunk| {
                tracker.populate(chunk.start, address, write)
            })
        };
        tracked.unwrap_or(Touched::Elsewhere)
    })
}

/// Fills or unprotects all pages of a range, as far as it is tracked memory of an instance.
///
/// # Safety
///
/// The range must lie in the memory of an instance that the caller borrows.
pub(super) unsafe fn populate_range(range: Range<usize>, write: bool) -> Touched {
    // SAFETY: the borrowed instance keeps its region alive, and with it the tracker.
    let tracked = unsafe {
        TRACKERS.with(range.start, |tracker, chunk| {
            tracker.populate_range(chunk.start, range.clone(), write)
        })
    };
    tracked.unwrap_or(Touched::Elsewhere)
}
