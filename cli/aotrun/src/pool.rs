//! [`Pool`]: host threads that run the threads of a program. A host thread whose work has ended
//! stays for the next thread that the program spawns.
//!
//! A host thread without work first spins for `SPIN`, and then sleeps. Spawning a thread soon after
//! another has ended therefore needs no new host thread and no wake-up by the kernel.

use std::collections::VecDeque;
use std::hint;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time for which a host thread looks for work before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// Most host threads that look for work at the same time. More threads would take processors from
/// guests.
const SPINNING_MAX: usize = 1;

type Work = Box<dyn FnOnce() + Send>;

/// The host threads.
pub(crate) struct Pool {
    threads_max: usize,
    state: Mutex<State>,
    /// Notified when there is work for a sleeping thread, or when the pool is closed.
    changed: Condvar,
    /// Length of the queue, for threads that look for work without the lock.
    queued: AtomicUsize,
    spinning: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Work that no thread has taken yet.
    queue: VecDeque<Work>,
    /// Threads that have no work.
    idle: usize,
    /// The threads among `idle` that sleep.
    asleep: usize,
    threads: Vec<JoinHandle<()>>,
    is_closed: bool,
}

impl Pool {
    /// A pool without threads, which makes at most `threads_max`.
    pub(crate) fn new(threads_max: u32) -> Self {
        Self {
            threads_max: threads_max as usize,
            state: Mutex::default(),
            changed: Condvar::new(),
            queued: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
        }
    }

    /// Runs work on an idle thread, or else on a new thread. If all `threads_max` threads are busy,
    /// the work waits in the queue. The caller limits the program's threads.
    ///
    /// # Errors
    ///
    /// If the pool is closed, or the system refuses a thread. The work is dropped.
    pub(crate) fn run(self: &Arc<Self>, work: Work) -> io::Result<()> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(io::Error::other(
                "the program has ended; spawn threads before",
            ));
        }
        if state.idle <= state.queue.len() && state.threads.len() < self.threads_max {
            let pool = Arc::clone(self);
            let builder = thread::Builder::new().name("guest".to_owned());
            let thread = builder.spawn(move || pool.serve(work))?;
            state.threads.push(thread);
            return Ok(());
        }
        state.queue.push_back(work);
        self.queued.store(state.queue.len(), Relaxed);
        // A spinning thread needs no wake-up: it sees the new length of the queue.
        let wake = state.idle - state.asleep < state.queue.len() && state.asleep > 0;
        drop(state);
        if wake {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Ends all threads, after the work in the queue. Returns when the threads have ended.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let threads = mem::take(&mut state.threads);
        drop(state);
        self.changed.notify_all();
        for thread in threads {
            // A panic of the work was caught; the message has been printed.
            let _ = thread.join();
        }
    }

    /// The life of a thread.
    fn serve(&self, first: Work) {
        let mut next = Some(first);
        while let Some(work) = next {
            // The panic has printed its message. The thread continues with other work.
            let _ = catch_unwind(AssertUnwindSafe(work));
            next = self.next();
        }
    }

    /// Waits for work. Returns `None` if the pool is closed and no work is left.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        state.idle += 1;
        if state.queue.is_empty() && !state.is_closed {
            drop(state);
            self.spin();
            state = self.lock();
        }
        while state.queue.is_empty() && !state.is_closed {
            state.asleep += 1;
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.asleep -= 1;
        }
        state.idle -= 1;
        let work = state.queue.pop_front();
        self.queued.store(state.queue.len(), Relaxed);
        work
    }

    /// Spins until there is work, for at most [`SPIN`], unless [`SPINNING_MAX`] other threads spin.
    fn spin(&self) {
        if self.spinning.fetch_add(1, Relaxed) < SPINNING_MAX {
            let end = Instant::now() + SPIN;
            while self.queued.load(Relaxed) == 0 && Instant::now() < end {
                hint::spin_loop();
            }
        }
        self.spinning.fetch_sub(1, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::sync::mpsc;

    #[test]
    fn a_thread_serves_again_after_its_work_and_after_a_panic() {
        let pool = Arc::new(Pool::new(4));
        let (sender, receiver) = mpsc::channel();
        let mut seen = HashSet::new();
        for round in 0..50 {
            let sender = sender.clone();
            let work = move || {
                sender.send(thread::current().id()).expect("the test waits");
                assert!(round % 10 != 3, "a panic that the test wants");
            };
            pool.run(Box::new(work)).expect("the system has threads");
            seen.insert(receiver.recv().expect("the work runs"));
            while pool.lock().idle == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(seen.len(), 1);
        assert_eq!(pool.lock().threads.len(), 1);
        pool.close();
    }

    #[test]
    fn work_runs_at_the_same_time_up_to_the_limit_and_waits_past_it() {
        let pool = Arc::new(Pool::new(3));
        let together = Arc::new(Barrier::new(4));
        let (sender, receiver) = mpsc::channel();
        for _ in 0..3 {
            let together = Arc::clone(&together);
            let work = move || {
                together.wait();
                together.wait();
            };
            pool.run(Box::new(work)).expect("the system has threads");
        }
        // All three run: the barrier opens.
        together.wait();
        pool.run(Box::new(move || sender.send(()).expect("the test waits")))
            .expect("work past the limit waits");
        assert_eq!(pool.lock().threads.len(), 3);
        assert!(receiver.try_recv().is_err());
        together.wait();
        receiver.recv().expect("the work runs after others");
        pool.close();
    }

    #[test]
    fn closing_finishes_the_queue_and_refuses_more() {
        let pool = Arc::new(Pool::new(1));
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let done = Arc::clone(&done);
            let work = move || {
                let _ = done.fetch_add(1, Relaxed);
            };
            pool.run(Box::new(work)).expect("work past the limit waits");
        }
        pool.close();
        assert_eq!(done.load(Relaxed), 20);
        let refused = pool.run(Box::new(|| ())).expect_err("it is closed");
        assert_eq!(
            refused.to_string(),
            "the program has ended; spawn threads before"
        );
    }

    #[test]
    fn threads_from_many_sides_are_served() {
        let pool = Arc::new(Pool::new(8));
        let done = AtomicUsize::new(0);
        let done = Arc::new(done);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let done = Arc::clone(&done);
                        let work = move || {
                            let _ = done.fetch_add(1, Relaxed);
                        };
                        pool.run(Box::new(work)).expect("the system has threads");
                    }
                });
            }
        });
        pool.close();
        assert_eq!(done.load(Relaxed), 2000);
        assert_eq!(pool.queued.load(Relaxed), 0);
    }
}
