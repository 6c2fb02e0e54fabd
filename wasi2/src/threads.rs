//! [`Pool`]: some threads of the process, shared fairly by programs and their guests.
//!
//! A thread that waits for a name server or for the disk cannot be cancelled, so it stays taken
//! after the drop of its guest. Therefore the pool also counts threads by program: a program cannot
//! take more threads by dropping and making guests.
//!
//! * A guest holds at most `guest_threads_max` threads.
//! * A program that holds `n` threads gets another thread only while more than `FREE_PER_HELD * n`
//!   threads are free. Alone, a program holds about a third of the pool; ten programs can fill a
//!   pool of 64 threads. The first request of a program needs one free thread.
//! * The next thread goes to the waiting program with the fewest threads; within the program, to
//!   the guest with the fewest threads; then to the oldest request.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::task::{JoinError, spawn_blocking};

/// A program gets a thread only while the free threads are more than this factor times the threads
/// that it holds.
const FREE_PER_HELD: usize = 2;

/// A guest, and the program that it runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct User {
    /// The number of the program. All programs without their own number count as program 0.
    pub(crate) program: u64,
    pub(crate) guest: u64,
}

/// A number that no program and no guest has yet.
pub(crate) fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Some threads of the process, and the requests for them.
pub(crate) struct Pool {
    threads_max: usize,
    guest_threads_max: usize,
    state: Mutex<State>,
}

/// The users of a pool. Programs and guests that hold nothing and wait for nothing have no entry.
struct State {
    /// Number of threads that are taken.
    held: usize,
    /// Number of the next request.
    next: u64,
    programs: BTreeMap<u64, Program>,
}

#[derive(Default)]
struct Program {
    held: usize,
    guests: BTreeMap<u64, Guest>,
}

#[derive(Default)]
struct Guest {
    held: usize,
    /// Requests that wait, oldest first.
    waiting: BTreeMap<u64, Option<Waker>>,
    /// Requests that have got a thread, and have not been polled since.
    granted: BTreeSet<u64>,
}

impl Program {
    /// The next request of this program, as threads of its guest, number of the request, guest.
    fn next(&self, guest_threads_max: usize) -> Option<(usize, u64, u64)> {
        let guests = self.guests.iter();
        let guests = guests.filter(|(_, guest)| guest.held < guest_threads_max);
        let first = |(number, guest): (&u64, &Guest)| {
            let (request, _) = guest.waiting.first_key_value()?;
            Some((guest.held, *request, *number))
        };
        guests.filter_map(first).min()
    }
}

impl State {
    /// The next request, as its user and number.
    fn next(&self, pool: &Pool) -> Option<(User, u64)> {
        let free = pool.threads_max - self.held;
        let programs = self.programs.iter();
        let programs = programs.filter(|(_, program)| FREE_PER_HELD * program.held < free);
        let first = |(number, program): (&u64, &Program)| {
            let (_, request, guest) = program.next(pool.guest_threads_max)?;
            Some((program.held, request, *number, guest))
        };
        let (_, request, program, guest) = programs.filter_map(first).min()?;
        Some((User { program, guest }, request))
    }

    fn guest(&mut self, user: User) -> (&mut usize, &mut usize, &mut Guest) {
        let program = self.programs.entry(user.program).or_default();
        let guest = program.guests.entry(user.guest).or_default();
        (&mut self.held, &mut program.held, guest)
    }

    /// Adds a request, and returns its number.
    fn ask(&mut self, user: User) -> u64 {
        let number = self.next;
        self.next += 1;
        self.guest(user).2.waiting.insert(number, None);
        number
    }

    /// Gives free threads to requests. Returns the wakers of the requests' tasks.
    fn grant(&mut self, pool: &Pool) -> Vec<Waker> {
        let mut wakers = vec![];
        while let Some((user, number)) = self.next(pool) {
            let (all, of_program, guest) = self.guest(user);
            *all += 1;
            *of_program += 1;
            guest.held += 1;
            wakers.extend(guest.waiting.remove(&number).flatten());
            guest.granted.insert(number);
        }
        wakers
    }

    /// Ready if a request has got a thread. Otherwise keeps the waker of the request's task. Also
    /// returns the waker that is not needed any more.
    fn poll(&mut self, user: User, number: u64, waker: Waker) -> (Poll<()>, Option<Waker>) {
        let (_, _, guest) = self.guest(user);
        if guest.granted.remove(&number) {
            return (Poll::Ready(()), Some(waker));
        }
        let old = guest.waiting.insert(number, Some(waker));
        (Poll::Pending, old.flatten())
    }

    /// Removes a request whose future was dropped, and gives back its thread. Returns the waker of
    /// the request's task.
    fn give_up(&mut self, user: User, number: u64) -> Option<Waker> {
        let (_, _, guest) = self.guest(user);
        if guest.granted.remove(&number) {
            self.release(user);
            return None;
        }
        let waker = guest.waiting.remove(&number).flatten();
        self.forget(user);
        waker
    }

    fn release(&mut self, user: User) {
        let (all, of_program, guest) = self.guest(user);
        *all -= 1;
        *of_program -= 1;
        guest.held -= 1;
        self.forget(user);
    }

    /// Removes the entries of a user that holds nothing and waits for nothing.
    fn forget(&mut self, user: User) {
        let (_, _, guest) = self.guest(user);
        let is_idle = guest.held == 0 && guest.waiting.is_empty();
        if let Some(program) = self.programs.get_mut(&user.program).filter(|_| is_idle) {
            program.guests.remove(&user.guest);
            if program.guests.is_empty() {
                self.programs.remove(&user.program);
            }
        }
    }
}

impl Pool {
    pub(crate) const fn new(threads_max: usize, guest_threads_max: usize) -> Self {
        Self {
            threads_max,
            guest_threads_max,
            state: Mutex::new(State {
                held: 0,
                next: 0,
                programs: BTreeMap::new(),
            }),
        }
    }

    /// Waits until the user may have a thread. A drop of the permit gives the thread back.
    pub(crate) async fn enter(&'static self, user: User) -> Permit {
        let mut request = Request {
            pool: self,
            user,
            number: Some(self.change(|state| state.ask(user))),
        };
        poll_fn(|context| request.poll(context)).await
    }

    /// Runs a function that may block on a thread of the user. The thread is taken until the
    /// function returns, even if this future is dropped earlier.
    pub(crate) async fn run<T: Send + 'static>(
        &'static self,
        user: User,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let permit = self.enter(user).await;
        let work = move || {
            let _until_it_returns = permit;
            work()
        };
        spawn_blocking(work).await
    }

    /// Changes the state, and then gives free threads to requests. `change` must not drop a waker:
    /// the drop is the executor's code, which may use this pool.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakers) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let result = change(&mut state);
            (result, state.grant(self))
        };
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Threads that are taken, and requests that wait.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.change(|state| {
            let guests = state.programs.values().flat_map(|all| all.guests.values());
            (state.held, guests.map(|guest| guest.waiting.len()).sum())
        })
    }
}

/// A request for a thread.
struct Request {
    pool: &'static Pool,
    user: User,
    /// `None` after the request has got a thread.
    number: Option<u64>,
}

impl Request {
    fn poll(&mut self, context: &Context<'_>) -> Poll<Permit> {
        let (pool, user) = (self.pool, self.user);
        if let Some(number) = self.number {
            let waker = context.waker().clone();
            let (polled, _old) = pool.change(|state| state.poll(user, number, waker));
            if polled.is_pending() {
                return Poll::Pending;
            }
            self.number = None;
        }
        Poll::Ready(Permit { pool, user })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let user = self.user;
            drop(self.pool.change(|state| state.give_up(user, number)));
        }
    }
}

/// A thread of a pool. A drop of the permit gives the thread back.
pub(crate) struct Permit {
    pool: &'static Pool,
    user: User,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let user = self.user;
        self.pool.change(|state| state.release(user));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_testing::random::Random;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::Wake;

    type Entering = Pin<Box<dyn Future<Output = Permit>>>;

    fn pool(threads_max: usize, guest_threads_max: usize) -> &'static Pool {
        Box::leak(Box::new(Pool::new(threads_max, guest_threads_max)))
    }

    const fn user(program: u64, guest: u64) -> User {
        User { program, guest }
    }

    fn poll(entering: &mut Entering) -> Option<Permit> {
        let mut context = Context::from_waker(Waker::noop());
        match entering.as_mut().poll(&mut context) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    /// Asks for a thread. Returns the permit, or the waiting request.
    fn enter(pool: &'static Pool, user: User) -> Result<Permit, Entering> {
        let mut entering: Entering = Box::pin(pool.enter(user));
        poll(&mut entering).ok_or(entering)
    }

    /// All permits that a user gets without waiting.
    fn fill(pool: &'static Pool, user: User) -> Vec<Permit> {
        std::iter::from_fn(|| enter(pool, user).ok()).collect()
    }

    #[track_caller]
    fn assert_idle(pool: &Pool) {
        assert_eq!(pool.counts(), (0, 0));
        pool.change(|state| assert!(state.programs.is_empty(), "an entry is left"));
    }

    #[test]
    fn a_guest_and_a_program_have_a_share() {
        let pool = pool(64, 4);
        let first = fill(pool, user(1, 1));
        assert_eq!(first.len(), 4);
        // Guests that are dropped and made again.
        let mut held: Vec<_> = (2..100)
            .flat_map(|guest| fill(pool, user(1, guest)))
            .collect();
        assert_eq!(first.len() + held.len(), 22);
        // Other programs that take all threads that they can.
        let others = (2..11).map(|program| {
            let of_one: Vec<_> = (0..100)
                .flat_map(|guest| fill(pool, user(program, guest)))
                .collect();
            let number = of_one.len();
            held.extend(of_one);
            number
        });
        assert_eq!(others.collect::<Vec<_>>(), [14, 10, 6, 4, 3, 2, 1, 1, 1]);
        assert_eq!(pool.counts(), (64, 0));
        assert!(enter(pool, user(11, 0)).is_err());
        drop((first, held));
        assert_idle(pool);
    }

    /// The first request of another guest comes before the fifth request of a guest.
    #[test]
    fn guests_of_a_program_take_turns() {
        let pool = pool(10, 10);
        let mut held = fill(pool, user(1, 1));
        assert_eq!(held.len(), 4);
        let mut fifth = enter(pool, user(1, 1)).err().expect("it waits");
        let mut first = enter(pool, user(1, 2)).err().expect("it waits");
        held.pop();
        assert!(poll(&mut fifth).is_none());
        let first = poll(&mut first);
        assert!(first.is_some());
        held.pop();
        let fifth = poll(&mut fifth);
        assert!(fifth.is_some());
        drop((held, first, fifth));
        assert_idle(pool);
    }

    #[test]
    fn a_program_that_holds_nothing_is_next() {
        let pool = pool(4, 4);
        let of_first = fill(pool, user(1, 1));
        let of_second = fill(pool, user(2, 1));
        let of_third = fill(pool, user(3, 1));
        let held = [&of_first, &of_second, &of_third].map(Vec::len);
        assert_eq!(held, [2, 1, 1]);
        let mut older = enter(pool, user(1, 2)).err().expect("it waits");
        let mut newer = enter(pool, user(4, 1)).err().expect("it waits");
        drop(of_third);
        assert!(poll(&mut older).is_none());
        let newer = poll(&mut newer);
        assert!(newer.is_some());
        drop((of_first, of_second));
        let older = poll(&mut older);
        assert!(older.is_some());
        drop((newer, older));
        assert_idle(pool);
    }

    #[test]
    fn a_request_that_is_dropped_takes_nothing() {
        let pool = pool(1, 1);
        let held = fill(pool, user(1, 1));
        let waiting = enter(pool, user(1, 1)).err().expect("it waits");
        let granted = enter(pool, user(2, 1)).err().expect("it waits");
        let mut next = enter(pool, user(3, 1)).err().expect("it waits");
        drop(waiting);
        assert_eq!(pool.counts(), (1, 2));
        drop(held);
        assert_eq!(pool.counts(), (1, 1));
        // This request has the thread, but its future has not been polled since.
        drop(granted);
        let next = poll(&mut next);
        assert!(next.is_some());
        drop(next);
        assert_idle(pool);
    }

    #[test]
    fn a_request_that_gets_a_thread_wakes_its_task() {
        struct Count(AtomicU64);

        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }

        let pool = pool(1, 1);
        let held = fill(pool, user(1, 1));
        let count = Arc::new(Count(AtomicU64::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut waiting: Entering = Box::pin(pool.enter(user(2, 1)));
        let polled = waiting.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        drop(held);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        drop(waiting);
        assert_idle(pool);
    }

    /// The last waker of a task may own the task, whose drop gives up its requests.
    #[test]
    fn a_waker_may_use_the_pool_when_it_is_dropped() {
        struct Uses(&'static Pool, Arc<AtomicU64>);

        impl Wake for Uses {
            fn wake(self: Arc<Self>) {}
        }

        impl Drop for Uses {
            fn drop(&mut self) {
                self.0.counts();
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }

        let pool = pool(1, 1);
        let held = fill(pool, user(1, 1));
        let dropped = Arc::new(AtomicU64::new(0));
        let mut waiting: Entering = Box::pin(pool.enter(user(2, 1)));
        let mut poll = || {
            let waker = Waker::from(Arc::new(Uses(pool, Arc::clone(&dropped))));
            waiting
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
        };
        // The second waker replaces the first.
        assert!(!poll() && !poll());
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        // The wake drops the second. The third is not kept.
        drop(held);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        assert!(poll());
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
        drop(waiting);
        let held = fill(pool, user(1, 1));
        let mut waiting: Entering = Box::pin(pool.enter(user(2, 1)));
        let waker = Waker::from(Arc::new(Uses(pool, Arc::clone(&dropped))));
        let polled = waiting.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(waker);
        drop(waiting);
        assert_eq!(dropped.load(Ordering::Relaxed), 4);
        drop(held);
        assert_idle(pool);
    }

    /// Requests, permits and drops in random order. No request waits while a rule gives it a
    /// thread.
    #[test]
    fn no_thread_is_lost() {
        let mut random = Random(48);
        for _ in 0..50 {
            let pool = pool(1 + random.below(16) as usize, 1 + random.below(4) as usize);
            let (mut held, mut waiting) = (vec![], vec![]);
            for _ in 0..200 {
                match random.below(3) {
                    0 if !held.is_empty() => {
                        let one = random.below(held.len() as u64) as usize;
                        drop(held.swap_remove(one));
                    }
                    1 if !waiting.is_empty() => {
                        let one = random.below(waiting.len() as u64) as usize;
                        let mut one: Entering = waiting.swap_remove(one);
                        held.extend(poll(&mut one));
                    }
                    _ => match enter(pool, user(random.below(4), random.below(3))) {
                        Ok(permit) => held.push(permit),
                        Err(entering) => waiting.push(entering),
                    },
                }
                let (taken, _) = pool.counts();
                assert!(held.len() <= taken && taken <= pool.threads_max);
                pool.change(|state| {
                    let guests = state.programs.values().flat_map(|all| all.guests.values());
                    assert!({ guests }.all(|guest| guest.held <= pool.guest_threads_max));
                    let sums = state.programs.values();
                    assert_eq!(sums.map(|program| program.held).sum::<usize>(), state.held);
                    assert!(state.next(pool).is_none());
                });
            }
            drop((held, waiting));
            assert_idle(pool);
        }
    }
}
