//! [`Ticket`]: one request between those who wait for its answer and the thread that runs its guest.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One request between those who wait for its answer and the thread that runs its guest.
#[derive(Debug, Default)]
pub struct Ticket {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// When the guest's time is up, once it runs.
    until: Option<Instant>,
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

    /// Nobody waits for the answer any more: what runs is ended, what sleeps wakes.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.phase = Phase::Cancelled;
        if let Some(stop) = state.stop.take() {
            stop();
        }
        self.changed.notify_all();
    }

    /// Whether nobody waits for the answer any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().phase == Phase::Cancelled
    }

    /// The guest is about to run until then at most, and `stop` ends it. False if it need not run: nobody
    /// waits for the answer any more.
    #[must_use]
    pub fn arm(&self, until: Instant, stop: impl Fn() + Send + 'static) -> bool {
        let mut state = self.state();
        state.until = Some(until);
        state.stop = Some(Box::new(stop));
        state.phase != Phase::Cancelled
    }

    /// Sleeps on behalf of the guest: no longer than its time lasts and somebody waits for it.
    pub fn sleep(&self, time: Duration) {
        let mut state = self.state();
        let now = Instant::now();
        let latest = state.until.unwrap_or(now);
        let until = now.checked_add(time).map_or(latest, |end| end.min(latest));
        while state.phase != Phase::Cancelled {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let slept = self.changed.wait_timeout(state, left);
            state = slept.unwrap_or_else(PoisonError::into_inner).0;
        }
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
        assert!(ticket.start() && ticket.arm(Instant::now(), stop()));
        ticket.cancel();
        ticket.cancel();
        assert_eq!(stopped.load(Ordering::Relaxed), 1);
        let gone = Ticket::default();
        assert!(gone.start());
        gone.cancel();
        assert!(!gone.arm(Instant::now(), stop()), "it need not run");
        assert_eq!(stopped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_sleep_ends_with_the_guests_time_and_with_its_client() {
        let hour = Duration::from_secs(3600);
        let start = Instant::now();
        let ticket = Arc::new(Ticket::default());
        ticket.sleep(hour); // it does not run
        assert!(ticket.arm(start + Duration::from_millis(20), || ()));
        ticket.sleep(Duration::MAX);
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert!(ticket.arm(start + hour, || ()));
        let sleeper = {
            let ticket = Arc::clone(&ticket);
            std::thread::spawn(move || ticket.sleep(hour))
        };
        ticket.cancel();
        sleeper.join().expect("it wakes");
        assert!(start.elapsed() < hour);
    }
}
