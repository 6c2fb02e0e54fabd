//! Tracked: a reset strategy that fills memory on demand and records each dirty page in a list.
//!
//! ```text
//!   memory 0:  │ pages, up to the current size      │ up to the largest so far       │ guard
//!   a page is    missing ──read──▶ filled, protected   missing: touching it is a trap    inaccessible
//!                   └────write───▶ filled, listed ◀──write──┘
//! ```
//!
//! The range up to the memory's largest size so far is registered with userfaultfd(2). The range is
//! readable and writable. But a reset may close the grown part: that part is then inaccessible.
//! Touching a missing page raises SIGBUS, in the guest or in a view of the host. The first write to
//! a page that was filled for reading also raises SIGBUS. Below the memory's current size, the
//! signal handler fills the page from the image, or unprotects the page. Beyond that size, the
//! signal is a trap of the guest.
//!
//! A reset restores the pages on the list without a system call. Every other page has the contents
//! with which it was filled, or is missing. In a dirty page, the reset stores only the cache lines
//! that differ (`lines.rs`). Once an instance has touched a page beyond the initial size, each
//! reset of a grown memory closes the whole grown part, by one mprotect(2). The grown part stays
//! open while none of its pages was ever touched. So `memory.grow` makes no system call, except
//! where it opens a closed part or first exceeds the memory's largest size.
//!
//! A large image is mapped over the start of the memory, privately, and registered for writes
//! alone:
//!
//! ```text
//!   a mapped page is   protected ──write──▶ listed ──unchanged for several resets──▶ protected
//!                                            │  ▲
//!                                            └──┘ each reset restores it in place
//! ```
//!
//! Slots share the pages of the image until a guest writes to them. The kernel fills these pages
//! for reading. When a reset returns written pages of the image to the system, the reset protects
//! the pages again.
//!
//! One large request must not slow down the small requests after it. So a dirty page that several
//! resets in a row find unchanged leaves the list and returns to the system. A list of at most
//! `SPARE` pages is not shortened. If an instance needs a returned page again, the instance pays
//! one page fault. The slot then waits for more resets before it returns pages (hysteresis). A
//! reset returns all memory of a slot with more than `DIRTY_MAX` dirty pages or `FILLED_MAX` filled
//! pages. After three such resets, a module's slots get another backing, see
//! [`Module::note_large_working_set`].
//!
//! Tracking does not work in a fork, because the file descriptor belongs to the parent process. In
//! the child, the memory is filled with zeros, except for a mapped image, whose pages keep their
//! bytes. The child cannot use an instance with tracked memory. Before an instance of the child
//! gets a slot, the slot is mapped again, with another backing.
//!
//! [`Module::note_large_working_set`]: crate::module::Module::note_large_working_set
//!
//! # Safety
//!
//! Owns the pages on which the strategy is probed. `tracker.rs` owns the lists of dirty pages.
#![allow(unsafe_code)]

use super::memory0::{Memory0, MemoryBacking, PAGE, Reach};
use super::rewritten::Rewritten;
use super::scanned::Scanned;
use super::strategy::{ResetStrategy, Site};
use super::tracker::Tracker;
use crate::module::Module;
use crate::region::layout::{Layout, Limits};
use crate::region::parts::Parts;
use crate::sys::memory::{NotProtected, Reservation, image_file};
use crate::sys::page_bytes;
use nix::sys::signal::Signal;
use std::io;
use std::os::fd::AsFd;

/// Maximum size of a copied image, in bytes: each slot copies the pages that its guests touch. A
/// larger image is mapped, so that all slots share the pages that they only read.
const COPIED_IMAGE_BYTES: usize = 4 << 20;
/// Maximum size of a copied image of a snapshot or a component, in bytes. Snapshots and components
/// usually have many live instances. A component with a large image contains a language runtime
/// that was initialised before compilation. Mapping an image costs some ten microseconds whenever a
/// slot changes its module.
const COPIED_SNAPSHOT_BYTES: usize = 256 << 10;
/// Maximum end of a mapped image in memory, in bytes. Protecting the range takes 8 bytes of page
/// tables and 2 ns for each page, also where the image has no pages.
const MAPPED_END_MAX: usize = 1 << 30;

/// See [`Reset::Tracked`](super::Reset::Tracked).
#[derive(Debug)]
pub(in crate::region) struct Tracked {
    tracker: Box<Tracker>,
    /// Whether the tracker can track a mapped image.
    maps_images: bool,
    /// The strategy for modules that tracking does not suit, if scanning works.
    scanned: Option<Scanned>,
}

impl ResetStrategy for Tracked {
    fn probe(site: Site<'_>) -> io::Result<Self> {
        test()?;
        Ok(Self {
            tracker: Tracker::new(site.chunks, site.chunk_slots, site.layout, site.limits)?,
            maps_images: test_mapped().is_ok(),
            scanned: Scanned::probe(site).ok(),
        })
    }

    fn backing(&self, module: &Module) -> MemoryBacking {
        let suits =
            self.tracker.is_ours() && module.has_memory() && !module.has_large_working_set();
        if !suits {
            return self.backing_untracked(module);
        }
        let is_initialised = module.is_snapshot() || module.component().is_some();
        let copied_max = match is_initialised {
            true => COPIED_SNAPSHOT_BYTES,
            false => COPIED_IMAGE_BYTES,
        };
        let end = module.image_end().next_multiple_of(page_bytes());
        match module.image_bytes() <= copied_max {
            true => MemoryBacking::Tracked(0),
            false if self.maps_images && end <= MAPPED_END_MAX => MemoryBacking::Tracked(end),
            false if module.image_bytes() <= COPIED_IMAGE_BYTES => MemoryBacking::Tracked(0),
            false => self.backing_untracked(module),
        }
    }

    fn backing_untracked(&self, module: &Module) -> MemoryBacking {
        match &self.scanned {
            Some(scanned) => scanned.backing(module),
            None => Rewritten.backing(module),
        }
    }

    #[inline]
    fn has_changed(&self, backing: MemoryBacking, module: &Module) -> bool {
        backing.is_tracked() && (!self.tracker.is_ours() || module.has_large_working_set())
    }

    #[inline]
    fn tracker(&self) -> Option<&Tracker> {
        Some(&self.tracker)
    }

    #[inline]
    unsafe fn restore(
        &self,
        parts: &Parts<'_>,
        memory0: Memory0<'_>,
        module: &Module,
    ) -> Result<(), NotProtected> {
        // SAFETY: the caller ensures that no thread uses the slot, that the initial memory is
        // accessible, and that `memory0` states the true backing.
        unsafe {
            match (memory0.backing, &self.scanned) {
                (MemoryBacking::Tracked(_), _) => {
                    self.tracker
                        .restore(memory0.index, parts, memory0.reach, module)
                }
                (_, Some(scanned)) => scanned.restore(parts, memory0, module),
                (_, None) => Rewritten.restore(parts, memory0, module),
            }
        }
    }
}

/// Tests that a tracker distinguishes read pages from written pages, in this thread and with the
/// installed signal handler.
///
/// # Errors
///
/// The error of a system call, or an error that says that the tracker's list is wrong.
fn test() -> io::Result<()> {
    if !crate::signals::handles(Signal::SIGBUS)? {
        return Err(io::Error::other("another handler is installed for SIGBUS"));
    }
    crate::sys::signal::prepare_thread()?;
    let (memory, layout, limits) = one_slot()?;
    let tracker = Tracker::new(&memory, 1, &layout, &limits)?;
    let parts = Parts::new(&memory[0], memory[0].range().start, &layout);
    let page = page_bytes();
    let at = |n: usize| (parts.vmctx() + n * page) as *mut u8;
    // SAFETY: no other code knows this reservation. The memory's size is set to three pages before
    // the test touches them.
    let read = unsafe {
        tracker.resize(0, &parts, &mut Reach::default(), 3 * page)?;
        let read = [at(0).read_volatile(), at(2).read_volatile()];
        at(1).write_volatile(1);
        at(2).write_volatile(2);
        [
            read[0],
            read[1],
            at(0).read_volatile(),
            at(1).read_volatile(),
        ]
    };
    if read != [0, 0, 0, 1] || tracker.listed(0) != [1, 2] {
        return Err(io::Error::other(
            "userfaultfd does not distinguish reads from writes",
        ));
    }
    Ok(())
}

/// Tests that a tracker lists the written pages of a mapped image and no other pages, also after
/// the pages were returned to the system.
///
/// # Errors
///
/// The error of a system call, or an error that says that the tracker's list is wrong.
fn test_mapped() -> io::Result<()> {
    let (memory, layout, limits) = one_slot()?;
    let tracker = Tracker::new(&memory, 1, &layout, &limits)?;
    if !tracker.maps_images() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let parts = Parts::new(&memory[0], memory[0].range().start, &layout);
    let page = page_bytes();
    let image = image_file([(0, &[7; PAGES * PAGE][..])].into_iter())?;
    let mapped = PAGES * page;
    let range = parts.vmctx()..parts.vmctx() + mapped;
    let at = |n: usize| (parts.vmctx() + n * page) as *mut u8;
    let mut reach = Reach {
        mapped,
        ..Reach::default()
    };
    let mut found = vec![];
    // SAFETY: no other code knows this reservation, and the file is as long as the range. The
    // memory's size is set before the test touches the memory.
    unsafe {
        memory[0].map_file(range.clone(), image.as_fd())?;
        tracker.resize(0, &parts, &mut reach, mapped)?;
        for _ in 0..2 {
            // Page 0 is read only, page 1 is read and written, and page 2 is written only.
            found.extend([at(0).read_volatile(), at(1).read_volatile()]);
            at(1).write_volatile(1);
            at(2).write_volatile(2);
            found.extend([at(1).read_volatile(), at(2).add(1).read_volatile()]);
            found.extend(tracker.listed(0).iter().map(|page| *page as u8));
            tracker.forget(0);
            tracker.discard(&parts, range.clone(), mapped)?;
        }
    }
    match found == [7, 7, 1, 7, 1, 2].repeat(2) {
        true => Ok(()),
        false => Err(io::Error::other("userfaultfd loses writes to mapped files")),
    }
}

/// Number of pages that the tests touch.
const PAGES: usize = 3;

/// A reservation for one slot with a small memory.
fn one_slot() -> io::Result<([Reservation; 1], Layout, Limits)> {
    let mut limits = Limits {
        slots: 1,
        memories: 1,
        memory_bytes_max: 1 << 16,
        tables: 0,
        table_elements: 0,
        stack_bytes: 1 << 16,
        instance_bytes: 1 << 16,
    };
    let layout = Layout::new(&mut limits).map_err(|_| io::ErrorKind::InvalidInput)?;
    let memory = [Reservation::new(layout.bytes())?];
    Ok((memory, layout, limits))
}
