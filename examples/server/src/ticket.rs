//! [`Ticket`]: one request between those who wait for its answer and the thread that runs its guest.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One request between those who wait for its answer and the thread that runs its guest.
#[derive(Debug, Default)]
pub struct Ticket {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Ends the guest, once it runs.
    stop: Option<Box<dyn Fn() + Send>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.phase.fmt(f)
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Waiting,
    /// A worker has it.
    Started,
    /// Nobody waits for the answer any more.
    Cancelled,
}

impl Ticket {
    /// Whether it still waits for a worker, and somebody for its answer.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.state().phase == Phase::Waiting
    }

    /// Takes it for a worker. False if nobody waits for the answer any more.
    #[must_use]
    pub fn start(&self) -> bool {
        self.change(Phase::Started)
    }

    /// Gives up waiting for a worker. False if one has it: then there will be an answer.
    #[must_use]
    pub fn abandon(&self) -> bool {
        self.change(Phase::Cancelled)
    }

    /// From `Waiting` to another phase.
    fn change(&self, to: Phase) -> bool {
        let mut state = self.state();
        let waits = state.phase == Phase::Waiting;
        if waits {
            state.phase = to;
        }
        waits
    }

    /// Nobody waits for the answer any more: what runs is ended.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.phase = Phase::Cancelled;
        if let Some(stop) = state.stop.take() {
            stop();
        }
    }

    /// Whether nobody waits for the answer any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().phase == Phase::Cancelled
    }

    /// The guest is about to run, and `stop` ends it. False if it need not run: nobody
    /// waits for the answer any more.
    #[must_use]
    pub fn arm(&self, stop: impl Fn() + Send + 'static) -> bool {
        let mut state = self.state();
        state.stop = Some(Box::new(stop));
        state.phase != Phase::Cancelled
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_of_worker_and_front_gets_it() {
        let ticket = Ticket::default();
        assert!(ticket.start() && !ticket.abandon() && !ticket.start());
        let ticket = Ticket::default();
        assert!(ticket.abandon() && !ticket.start());
        assert!(ticket.is_cancelled());
    }

    #[test]
    fn a_guest_is_stopped_once_whenever_the_client_goes() {
        let stopped = Arc::new(AtomicUsize::new(0));
        let stop = || {
            let stopped = Arc::clone(&stopped);
            move || {
                stopped.fetch_add(1, Ordering::Relaxed);
            }
        };
        let ticket = Ticket::default();
        assert!(ticket.start() && ticket.arm(stop()));
        ticket.cancel();
        ticket.cancel();
        assert_eq!(stopped.load(Ordering::Relaxed), 1);
        let gone = Ticket::default();
        assert!(gone.start());
        gone.cancel();
        assert!(!gone.arm(stop()), "it need not run");
        assert_eq!(stopped.load(Ordering::Relaxed), 1);
    }
}
