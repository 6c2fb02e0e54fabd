//! [`by_turns`]: a guest's future among those of connections.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tokio::task::yield_now;

/// Polls a guest's future so that all others, and the sockets, have their turn before its next slice of time.
///
/// A future whose slice is over wakes its task while it is polled. To tokio that is a task with more to do, and
/// it polls 61 of those before it looks at sockets; after a `yield_now` it looks at them first.
pub(crate) async fn by_turns<F: Future>(guest: F) -> F::Output {
    let mut guest = pin!(guest);
    loop {
        let polled = poll_fn(|context| {
            let turn = Arc::new(Turn {
                task: context.waker().clone(),
                state: AtomicU8::new(POLLED),
            });
            let waker = Waker::from(Arc::clone(&turn));
            match guest.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if turn.ends() == WOKEN => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        match polled.await {
            Some(output) => return output,
            None => yield_now().await,
        }
    }
}

/// One poll, and who is woken after it.
struct Turn {
    task: Waker,
    state: AtomicU8,
}

/// It is being polled.
const POLLED: u8 = 0;
/// And has been woken meanwhile.
const WOKEN: u8 = 1;
/// The poll is over.
const WAITS: u8 = 2;

impl Turn {
    /// Ends the poll, and says what it came to.
    fn ends(&self) -> u8 {
        self.state.swap(WAITS, Ordering::AcqRel)
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = self
            .state
            .compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if woken == Err(WAITS) {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    #[tokio::test]
    async fn who_wakes_itself_gives_way_to_timers() {
        let mut polls = 0_u32;
        let always = poll_fn(|context| -> Poll<()> {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::Pending
        });
        let ended = timeout(Duration::from_millis(1), by_turns(always)).await;
        assert!(ended.is_err() && polls > 1, "{polls}");
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        by_turns(sleep(Duration::from_millis(1))).await;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waits = tokio::spawn(by_turns(receiver));
        yield_now().await;
        sender.send(7).expect("it waits");
        assert_eq!(waits.await.expect("no panic"), Ok(7));
    }
}
