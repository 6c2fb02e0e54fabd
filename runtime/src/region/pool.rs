//! [`Region`] and [`Pool`]: a handle to a set of slots, and the data that all handles share.

use super::free::FreeList;
use super::kept::Kept;
use super::layout::{Layout, Limits};
use super::parts::Parts;
use super::reset::{Reset, Strategy};
use crate::account::Account;
use crate::sys::memory::Reservation;
use core::sync::atomic::{AtomicU32, Ordering};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// A set of slots. Each slot holds one instance at a time.
///
/// The address space of all slots is reserved at once. A clone is a handle to the same region. The
/// address space returns to the system when the last handle and the last instance are dropped.
#[derive(Debug, Clone)]
pub struct Region(pub(super) Arc<Pool>);

/// The data that all handles of a region share.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) limits: Limits,
    /// Maximum number of nested calls of an instance or group that run at one time.
    pub(super) nested_calls_max: u32,
    pub(crate) layout: Layout,
    pub(super) reset: Strategy,
    /// Better reset strategies that do not work on this machine, each with the reason.
    pub(super) refused: Vec<(Reset, String)>,
    pub(crate) free: FreeList<Kept>,
    /// The counters of each slot's instances. The counters of a slot have cache lines of their own.
    pub(crate) accounts: Box<[CachePadded<Account>]>,
    /// Number of slots that are never used again. Accesses of `lost` and `failed` are relaxed: no
    /// other data depends on their order.
    pub(super) lost: AtomicU32,
    /// Number of resets that failed because the kernel refused a system call.
    pub(super) failed: AtomicU32,
    /// Reservations of `chunk_slots` slots each. The last reservation may hold fewer slots.
    pub(super) chunks: Vec<Reservation>,
    pub(super) chunk_slots: u32,
}

impl Pool {
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

    /// The parts of slot `index`.
    pub(super) fn parts(&self, index: u32) -> Parts<'_> {
        let (reservation, start) = self.place(index);
        Parts::new(reservation, start, &self.layout)
    }
}
