//! [`Place`]: a request's place in the queue for slots.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// A request's place in the queue for slots. The number of places is limited, and so is the time in
/// the queue.
#[derive(Debug)]
pub struct Place {
    wait: Duration,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    pub(crate) fn new(permit: OwnedSemaphorePermit, wait: Duration) -> Self {
        Self {
            wait,
            _permit: permit,
        }
    }

    /// Waits for a slot. Returns the result of `slot` and the time when the request got the slot.
    /// Returns `None` if no slot was free in time.
    pub async fn wait<T>(self, slot: impl Future<Output = T>) -> Option<(T, Instant)> {
        let mut slot = pin!(slot);
        let mut since = Instant::now();
        // The request gets its slot in the last poll, so the time of that poll counts.
        let polled = poll_fn(|context| {
            since = Instant::now();
            slot.as_mut().poll(context)
        });
        let slot = timeout(self.wait, polled).await.ok()?;
        Some((slot, since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn it_is_held_while_it_waits_and_no_longer() {
        let places = Arc::new(Semaphore::new(1));
        let place = |wait| {
            let permit = Arc::clone(&places).try_acquire_owned();
            Place::new(permit.expect("it is free"), wait)
        };
        let before = Instant::now();
        let slot = place(Duration::ZERO).wait(ready(7)).await;
        assert!(slot.is_some_and(|(slot, since)| slot == 7 && since >= before));
        let late = place(Duration::from_millis(1)).wait(pending::<()>());
        assert_eq!(places.available_permits(), 0);
        assert!(late.await.is_none());
        drop(place(Duration::MAX).wait(pending::<()>()));
        assert_eq!(places.available_permits(), 1);
    }
}
