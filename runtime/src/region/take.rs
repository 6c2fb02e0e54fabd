//! Taking a slot: now, in the queue on this thread, or in the queue as a future.

use super::free::{Place, Taken, WaitLimit};
use super::kept::Kept;
use super::pool::Region;
use super::slot::Slot;
use crate::module::Module;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use std::io;

impl Region {
    /// Takes a free slot, and makes its memory exactly the module's initial memory.
    ///
    /// # Errors
    ///
    /// [`TakeError`], if no slot is free for as long as `wait` allows, or if the system refuses
    /// memory.
    pub(crate) fn take(&self, module: &Module, wait: WaitLimit) -> Result<Slot, TakeError> {
        let kept = self.0.free.take(module.id(), wait);
        self.taken(kept.ok_or_else(|| self.nothing_free())?, module)
    }

    /// The error if no slot is free. The error tells whether a slot can still become free.
    #[cold]
    fn nothing_free(&self) -> TakeError {
        if self.0.lost.load(Ordering::Relaxed) < self.0.limits.slots {
            TakeError::Full
        } else {
            TakeError::Lost
        }
    }

    /// Prepares a slot from the free list for the module.
    fn taken(&self, kept: Taken<Kept>, module: &Module) -> Result<Slot, TakeError> {
        Slot::prepare(&self.0, kept, module).map_err(TakeError::System)
    }

    /// Takes a slot as [`take`](Self::take) does, but waits in the queue without blocking a thread.
    pub(crate) fn take_async<'a>(&'a self, module: &'a Module) -> TakeAsync<'a> {
        let (region, place) = (self, None);
        TakeAsync {
            region,
            module,
            place,
        }
    }
}

/// Future that waits in the queue for a slot.
#[derive(Debug)]
pub(crate) struct TakeAsync<'a> {
    region: &'a Region,
    module: &'a Module,
    /// Place in the queue, once the future waits.
    place: Option<Place<Kept>>,
}

impl Future for TakeAsync<'_> {
    type Output = Result<Slot, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (region, module) = (self.region, self.module);
        let free = &region.0.free;
        if self.place.is_none()
            && let Some(kept) = free.take(module.id(), WaitLimit::No)
        {
            return Poll::Ready(region.taken(kept, module));
        }
        let place = self.place.get_or_insert_with(|| free.queue());
        let Poll::Ready(kept) = free.given(place, context.waker()) else {
            return Poll::Pending;
        };
        self.leave();
        let kept = kept.ok_or_else(|| region.nothing_free());
        Poll::Ready(kept.and_then(|kept| region.taken(kept, module)))
    }
}

impl TakeAsync<'_> {
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.region.0.free.leave(&place);
        }
    }
}

impl Drop for TakeAsync<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Reason why no slot was taken.
#[derive(Debug)]
pub(crate) enum TakeError {
    /// All slots are in use.
    Full,
    /// All slots are lost: no slot becomes free again.
    Lost,
    /// The system refused memory.
    System(io::Error),
}
