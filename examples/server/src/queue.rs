//! [`Queue`]: requests that wait for a worker thread, and the threads.

use crate::engine::{End, Engine, Ran, Work};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot::{self, Receiver, Sender};

/// One request that waits for a worker.
struct Job {
    work: Work,
    /// When its time of waiting, also for a slot, is over.
    until: Instant,
    answer: Sender<Done>,
}

/// What a worker answers.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) ran: Ran,
    /// Time between taking it up and its end.
    pub(crate) took: Duration,
}

/// Requests that wait for a worker, oldest first, and the workers.
///
/// It is bounded, and so is the time that a request spends in it: the front gives up waiting, and what
/// nobody waits for is passed over.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    line: Mutex<Line>,
    ready: Condvar,
    waiting_max: usize,
}

#[derive(Default)]
struct Line {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    /// Starts the workers.
    pub(crate) fn new(
        engine: &Arc<dyn Engine>,
        workers: usize,
        waiting_max: usize,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            line: Mutex::default(),
            ready: Condvar::new(),
            waiting_max,
        });
        let queue = Self {
            shared,
            workers: Mutex::default(),
        };
        for number in 0..workers {
            let (engine, shared) = (Arc::clone(engine), Arc::clone(&queue.shared));
            let worker = Builder::new().name(format!("guest-{number}"));
            let worker = worker.spawn(move || {
                while let Some(job) = shared.next() {
                    job.serve(&*engine);
                }
            })?;
            queue.handles().push(worker);
        }
        Ok(queue)
    }

    /// Puts a request in line, and gives where its answer will come. None if the line is full, or closed.
    pub(crate) fn push(&self, work: Work, until: Instant) -> Option<Receiver<Done>> {
        let mut line = self.shared.line();
        // Those that waited longest have been given up first.
        while line.jobs.front().is_some_and(Job::is_given_up) {
            line.jobs.pop_front();
        }
        if line.closed || line.jobs.len() >= self.shared.waiting_max {
            return None;
        }
        let (answer, receiver) = oneshot::channel();
        line.jobs.push_back(Job {
            work,
            until,
            answer,
        });
        drop(line);
        self.shared.ready.notify_one();
        Some(receiver)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.line().jobs.len()
    }

    /// Serves what is in line, takes nothing new, and ends the workers. Blocks.
    pub(crate) fn close(&self) {
        self.shared.line().closed = true;
        self.shared.ready.notify_all();
        let workers = std::mem::take(&mut *self.handles());
        for worker in workers {
            // A worker catches the panics of what it runs.
            let _ = worker.join();
        }
    }

    fn handles(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request that somebody waits for. None if there will be none.
    fn next(&self) -> Option<Job> {
        let mut line = self.line();
        loop {
            while let Some(job) = line.jobs.pop_front() {
                if job.work.ticket.start() {
                    return Some(job);
                }
            }
            if line.closed {
                return None;
            }
            let woken = self.ready.wait(line);
            line = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Job {
    fn is_given_up(&self) -> bool {
        !self.work.ticket.is_waiting()
    }

    fn serve(self, engine: &dyn Engine) {
        let Self {
            mut work,
            until,
            answer,
        } = self;
        let start = Instant::now();
        work.slot_wait = until.saturating_duration_since(start);
        // A bug of the engine's must not cost the server a worker.
        let ran = catch_unwind(AssertUnwindSafe(|| engine.run(work)));
        let ran = ran.unwrap_or_else(|_| {
            Ran::without_output(End::Panic("engine panicked, see its message".to_owned()))
        });
        let took = start.elapsed();
        // Nobody may wait for it any more.
        let _ = answer.send(Done { ran, took });
    }
}
