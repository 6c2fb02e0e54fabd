//! [`Word`]: what threads agree upon about one guest that may be stopped.
//!
//! The package `runtime/loom` runs the tests at the end in all orders of threads that there are.

use sync::Ordering::SeqCst;
use sync::{AtomicI32, AtomicU64};

/// Atomics: the core library's, or what stands in for them under test.
mod sync {
    #[cfg(not(loom))]
    pub(super) use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
    #[cfg(loom)]
    pub(super) use loom::sync::atomic::{AtomicI32, AtomicU64, Ordering};
}

/// The gate's value while the guest may go on.
pub(crate) const GO: u8 = 1;

/// Bits of a word, above which is the number of the call: the word has had so many, of all tenants.
const KILL: u64 = 1 << 1;
pub(super) const DEADLINE: u64 = 1 << 2;
pub(super) const CPU_BUDGET: u64 = 1 << 3;
pub(super) const SLICE: u64 = 1 << 4;
pub(super) const RUNNING: u64 = 1 << 8;
/// A call was left that can be gone on with.
pub(super) const SUSPENDED: u64 = 1 << 9;
/// The call that runs has a slice of time.
const SLICED: u64 = 1 << 10;
const STAMP_SHIFT: u32 = 11;

/// Why a guest is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// By a [`KillSwitch`](crate::KillSwitch).
    Killed,
    /// Its deadline passed.
    Deadline,
    /// It used up its processor time.
    CpuBudget,
}

impl Why {
    fn bit(self) -> u64 {
        match self {
            Self::Killed => KILL,
            Self::Deadline => DEADLINE,
            Self::CpuBudget => CPU_BUDGET,
        }
    }

    fn of(word: u64) -> Option<Self> {
        // A kill outlasts the others.
        [Self::Killed, Self::Deadline, Self::CpuBudget]
            .into_iter()
            .find(|why| word & why.bit() != 0)
    }
}

/// Why nobody was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    /// The tenant was gone.
    Gone,
    /// It had been killed.
    Killed,
}

/// What threads agree upon about one guest that may be stopped. It has one tenant after another.
#[derive(Debug)]
pub(super) struct Word {
    /// The gate, why it is closed, whether a call runs, and which.
    ///
    /// All change it by one atomic step, and of one word all threads see one order, its bytes included. So
    /// who enters a guest may look at the gate by a plain load: had the word been closed before it said
    /// [`RUNNING`] there, that step would have told it; else who closes it finds that bit, and interrupts.
    word: AtomicU64,
    /// Number of the tenant. Who reads it after the word knows whose that word is: this is written first.
    tenant: AtomicU64,
    /// The thread that runs the guest, or did last. Who finds [`RUNNING`] finds it: this is written first.
    thread: AtomicI32,
}

impl Word {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(GO.into()),
            tenant: AtomicU64::new(0),
            thread: AtomicI32::new(0),
        }
    }

    /// Ends a tenancy: nobody who meant the tenant can stop another.
    pub(super) fn next_tenant(&self) {
        self.tenant.fetch_add(1, SeqCst);
        self.next_call(|_| 0);
    }

    /// Goes on to the next call, with an open gate and what is to stay of the word.
    fn next_call(&self, stays: impl Fn(u64) -> u64) {
        let next = |word: u64| {
            let call = (word >> STAMP_SHIFT) + 1;
            Some(call << STAMP_SHIFT | stays(word) | u64::from(GO))
        };
        // Never fails: the closure always gives a word.
        let _ = self.word.fetch_update(SeqCst, SeqCst, next);
    }

    /// Number of the tenant.
    pub(super) fn tenant(&self) -> u64 {
        self.tenant.load(SeqCst)
    }

    /// The gate: the lowest byte of the word.
    #[cfg(not(loom))]
    pub(super) fn gate(&self) -> *const core::sync::atomic::AtomicU8 {
        // Little-endian, as `lib.rs` demands.
        (&raw const self.word).cast()
    }

    /// What is in the gate.
    pub(super) fn in_gate(&self) -> u8 {
        self.word.load(SeqCst) as u8
    }

    /// The thread that runs the guest, or did last.
    pub(super) fn thread(&self) -> i32 {
        self.thread.load(SeqCst)
    }

    /// The call goes on in a thread of another number: of a fork.
    pub(super) fn moved(&self, thread: i32) {
        self.thread.store(thread, SeqCst);
    }

    /// Announces a call on this thread, which may have slices of time; gives its stamp.
    ///
    /// # Errors
    ///
    /// Why it is not to be made.
    pub(super) fn begin(&self, thread: i32, sliced: bool) -> Result<u64, Why> {
        self.thread.store(thread, SeqCst);
        let sliced = if sliced { SLICED } else { 0 };
        let word = self.word.fetch_or(RUNNING | sliced, SeqCst);
        match Why::of(word) {
            None => Ok(word >> STAMP_SHIFT),
            Some(why) => {
                self.end(false);
                Err(why)
            }
        }
    }

    /// Ends the call, for now if it is suspended.
    pub(super) fn end(&self, suspended: bool) {
        let suspended = if suspended { SUSPENDED } else { 0 };
        self.next_call(|word| word & KILL | suspended);
    }

    /// A call of its tenant is suspended.
    pub(super) fn suspended(&self) {
        self.word.fetch_or(SUSPENDED, SeqCst);
    }

    /// The suspended call is not gone on with.
    pub(super) fn cancel(&self) {
        self.word.fetch_and(!SUSPENDED, SeqCst);
    }

    /// Why the guest is to be stopped, if it is.
    pub(super) fn why(&self) -> Option<Why> {
        Why::of(self.word.load(SeqCst))
    }

    /// Closes the gate of a call that runs, for a reason; tells whether it still does.
    pub(super) fn stop(&self, stamp: u64, reason: u64) -> bool {
        let still = |word: u64| {
            let runs = word >> STAMP_SHIFT == stamp && word & RUNNING != 0;
            runs.then_some(word | reason)
        };
        self.word.fetch_update(SeqCst, SeqCst, still).is_ok()
    }

    /// Whether that call runs.
    pub(super) fn runs(&self, stamp: u64) -> bool {
        let word = self.word.load(SeqCst);
        word >> STAMP_SHIFT == stamp && word & RUNNING != 0
    }

    /// Whether a call of that tenant runs.
    pub(super) fn runs_for(&self, tenant: u64) -> bool {
        let word = self.word.load(SeqCst);
        self.tenant.load(SeqCst) == tenant && word & RUNNING != 0
    }

    /// Stops a tenant for good; gives what its word was.
    ///
    /// # Errors
    ///
    /// Why that was not to be done.
    pub(super) fn kill(&self, tenant: u64) -> Result<u64, Missed> {
        let mut missed = Missed::Gone;
        let killed = |word: u64| {
            // Read after the word: if the tenant is another by then, the word is, too.
            if self.tenant.load(SeqCst) != tenant {
                missed = Missed::Gone;
                return None;
            }
            if word & KILL != 0 {
                missed = Missed::Killed;
                return None;
            }
            Some(word | KILL)
        };
        let word = self.word.fetch_update(SeqCst, SeqCst, killed);
        word.map_err(|_| missed)
    }

    /// Ends the slice of time of a tenant's call that runs, if it has one; gives what its word was.
    pub(super) fn preempt(&self, tenant: u64) -> Option<u64> {
        let over = |word: u64| {
            // As in `kill`.
            let ours = self.tenant.load(SeqCst) == tenant;
            (ours && word & RUNNING != 0 && word & SLICED != 0).then_some(word | SLICE)
        };
        self.word.fetch_update(SeqCst, SeqCst, over).ok()
    }
}

/// Number of the call in a word.
pub(super) fn stamp(word: u64) -> u64 {
    word >> STAMP_SHIFT
}

/// Every order that there is, of threads and of what they see of each other.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// The number of the thread that runs guests here; any other is a mistake.
    const THREAD: i32 = 7;

    /// A word, and the signal that is sent to [`THREAD`].
    struct Guest {
        word: Word,
        signal: AtomicBool,
    }

    impl Guest {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                word: Word::new(),
                signal: AtomicBool::new(false),
            })
        }

        /// What comes behind a word that was changed: the thread that runs the call is interrupted.
        fn poke(&self, word: u64) {
            if word & RUNNING != 0 && self.word.thread() == THREAD {
                self.signal.store(true, SeqCst);
            }
        }

        /// A guest that never ends by itself, after its call was announced: it leaves if its gate is closed on
        /// entry, or when a signal finds it closed. A signal that never comes is a loop without end, which is
        /// an error.
        fn runs(&self) {
            // As the switch looks: by no more than a load.
            if self.word.word.load(sync::Ordering::Relaxed) as u8 != GO {
                return;
            }
            while !self.signal.load(SeqCst) || self.word.in_gate() == GO {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn a_guest_that_is_killed_is_not_entered_or_is_interrupted() {
        loom::model(|| {
            let guest = Guest::new();
            let other = Arc::clone(&guest);
            let killer = thread::spawn(move || {
                let word = other.word.kill(0).unwrap();
                other.poke(word);
            });
            if guest.word.begin(THREAD, false).is_ok() {
                guest.runs();
                assert_eq!(guest.word.why(), Some(Why::Killed));
                guest.word.end(false);
            }
            killer.join().unwrap();
            // For ever.
            assert_eq!(guest.word.begin(THREAD, false), Err(Why::Killed));
            assert_eq!(guest.word.kill(0), Err(Missed::Killed));
        });
    }

    /// The canary: who says first that a call runs, and then where, is not always found.
    #[test]
    #[should_panic]
    fn a_thread_that_is_announced_too_late_is_missed() {
        loom::model(|| {
            let guest = Guest::new();
            let other = Arc::clone(&guest);
            let killer = thread::spawn(move || {
                let word = other.word.kill(0).unwrap();
                other.poke(word);
            });
            let word = guest.word.word.fetch_or(RUNNING, SeqCst);
            guest.word.thread.store(THREAD, SeqCst);
            if Why::of(word).is_none() {
                guest.runs();
            }
            killer.join().unwrap();
        });
    }

    #[test]
    fn a_deadline_meets_its_own_call_or_none() {
        loom::model(|| {
            let guest = Guest::new();
            let stamp = guest.word.begin(THREAD, false).unwrap();
            let other = Arc::clone(&guest);
            let timer = thread::spawn(move || other.word.stop(stamp, DEADLINE));
            let met = guest.word.why();
            guest.word.end(false);
            // Whatever came too late met nobody.
            let next = guest.word.begin(THREAD, false).unwrap();
            assert_ne!(next, stamp);
            assert_eq!((guest.word.in_gate(), guest.word.why()), (GO, None));
            let closed = timer.join().unwrap();
            assert!(closed || met.is_none());
            assert!(guest.word.runs(next) && !guest.word.runs(stamp));
            assert_eq!((guest.word.in_gate(), guest.word.why()), (GO, None));
        });
    }

    #[test]
    fn a_switch_meets_no_later_tenant() {
        let kill: fn(&Word) = |word| assert_ne!(word.kill(0), Err(Missed::Killed));
        let preempt: fn(&Word) = |word| drop(word.preempt(0));
        for switch in [kill, preempt] {
            loom::model(move || {
                let guest = Guest::new();
                guest.word.begin(THREAD, true).unwrap();
                let other = Arc::clone(&guest);
                let switched = thread::spawn(move || switch(&other.word));
                guest.word.end(true);
                guest.word.next_tenant();
                guest.word.begin(THREAD, true).unwrap();
                switched.join().unwrap();
                assert_eq!((guest.word.in_gate(), guest.word.why()), (GO, None));
                assert!(!guest.word.runs_for(0) && guest.word.runs_for(1));
            });
        }
    }

    #[test]
    fn a_kill_is_not_lost_between_two_steps() {
        loom::model(|| {
            let guest = Guest::new();
            let other = Arc::clone(&guest);
            let killer = thread::spawn(move || other.word.kill(0).is_ok());
            for _ in 0..2 {
                if guest.word.begin(THREAD, true).is_err() {
                    break;
                }
                guest.word.end(true);
            }
            guest.word.cancel();
            assert!(killer.join().unwrap());
            assert_eq!(guest.word.begin(THREAD, true), Err(Why::Killed));
        });
    }

    #[test]
    fn a_slice_that_is_ended_twice_ends_once() {
        loom::model(|| {
            let guest = Guest::new();
            let stamp = guest.word.begin(THREAD, true).unwrap();
            let others = [0, 1].map(|_| Arc::clone(&guest));
            let [one, two] = others.map(|other| {
                thread::spawn(move || match other.word.preempt(0) {
                    Some(word) => {
                        other.poke(word);
                        u32::from(word & SLICE == 0)
                    }
                    None => 0,
                })
            });
            guest.runs();
            assert_eq!(guest.word.in_gate(), GO | SLICE as u8);
            guest.word.end(true);
            let first = one.join().unwrap() + two.join().unwrap();
            assert_eq!(first, 1);
            assert!(!guest.word.runs(stamp));
            assert_eq!(guest.word.why(), None);
        });
    }
}
