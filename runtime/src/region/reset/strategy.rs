//! [`ResetStrategy`]: the interface of every reset strategy.

use super::memory0::{Memory0, MemoryBacking};
use super::tracker::Tracker;
use crate::module::Module;
use crate::region::layout::{Layout, Limits};
use crate::region::parts::Parts;
use crate::sys::memory::{NotProtected, Reservation};
use std::io;

/// The slots of a region that is being built.
#[derive(Debug, Clone, Copy)]
pub(in crate::region) struct Site<'a> {
    /// Reservations of `chunk_slots` slots each. The last reservation may hold fewer slots.
    pub(in crate::region) chunks: &'a [Reservation],
    pub(in crate::region) chunk_slots: u32,
    pub(in crate::region) layout: &'a Layout,
    pub(in crate::region) limits: &'a Limits,
}

/// A strategy that cleans a slot for the next instance.
///
/// Each strategy implements this trait in a file of its own, and has a line in the list of
/// `reset.rs`. The list calls the strategies by a `match`, so no call goes through a table of
/// functions.
pub(super) trait ResetStrategy: Sized {
    /// Makes the strategy, after a test that it works on this machine. The test reads and writes
    /// real pages, because a return code alone proves nothing.
    ///
    /// # Errors
    ///
    /// The reason why the strategy does not work here.
    fn probe(site: Site<'_>) -> io::Result<Self>;

    /// Best backing of a slot's memory for a module.
    fn backing(&self, module: &Module) -> MemoryBacking;

    /// Best backing of a slot's memory for a module, without tracking: the kernel may refuse to
    /// track memory that it allows to be mapped in another way.
    fn backing_untracked(&self, module: &Module) -> MemoryBacking {
        self.backing(module)
    }

    /// Whether a slot that is clean for `module` needs another backing before use. The backing
    /// changes in a fork, or after instances of the module used more memory than a slot keeps track
    /// of.
    #[inline]
    fn has_changed(&self, _: MemoryBacking, _: &Module) -> bool {
        false
    }

    /// The tracker of the slots, if the strategy tracks.
    #[inline]
    fn tracker(&self) -> Option<&Tracker> {
        None
    }

    /// Restores the accessible bytes of memory 0 to the initial memory of the module, followed by
    /// zeros. The memory keeps its size.
    ///
    /// # Errors
    ///
    /// The error of the system call that failed. The contents are then unknown.
    ///
    /// # Safety
    ///
    /// No thread may use the slot during the call. The initial memory must be at most as large as
    /// the accessible part. `memory0` must state the true backing and size of the memory.
    unsafe fn restore(
        &self,
        parts: &Parts<'_>,
        memory0: Memory0<'_>,
        module: &Module,
    ) -> Result<(), NotProtected>;
}
