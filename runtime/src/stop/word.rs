//! [`Word`]: the state that threads share about one guest that can be stopped.
//!
//! The package `runtime/loom` runs the tests at the end under loom, in all possible interleavings.

use crate::switch::interrupt_flag::{self, GO};
use sync::Ordering::SeqCst;
use sync::{AtomicI32, AtomicU64};

/// Atomics of the core library, or loom's replacements under test.
mod sync {
    #[cfg(not(loom))]
    pub(super) use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
    #[cfg(loom)]
    pub(super) use loom::sync::atomic::{AtomicI32, AtomicU64, Ordering};
}

/// Bits of a word. The bits above them hold the number of the call, counted over all generations.
const KILL: u64 = 1 << 1;
pub(super) const DEADLINE: u64 = 1 << 2;
pub(super) const CPU_BUDGET: u64 = 1 << 3;
pub(super) const SLICE: u64 = interrupt_flag::SLICE as u64;
pub(super) const RUNNING: u64 = 1 << 8;
/// A call was left and can be resumed.
pub(super) const SUSPENDED: u64 = 1 << 9;
/// The running call has a time slice.
const SLICED: u64 = 1 << 10;
/// The guest runs in a nested call and cannot be suspended: the end of its time slice is deferred.
const SLICE_DEFERRED: u64 = 1 << 11;
/// The time slice ended while its end was deferred: the end is pending.
pub(super) const SLICE_PENDING: u64 = 1 << 12;
const CALL_SHIFT: u32 = 13;

/// Reason to stop a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A [`KillSwitch`](crate::KillSwitch) was used.
    Killed,
    /// The call's deadline passed.
    Deadline,
    /// The call used up its processor time.
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
        // A kill has priority, because it is permanent.
        [Self::Killed, Self::Deadline, Self::CpuBudget]
            .into_iter()
            .find(|why| word & why.bit() != 0)
    }
}

/// Reason why a kill had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    /// The instance was gone.
    Gone,
    /// The instance had been killed before.
    Killed,
}

/// State that threads share about one guest that can be stopped. A word serves one instance after
/// another. Each instance is a generation.
#[derive(Debug)]
pub(super) struct Word {
    /// The interrupt flag with the reasons to stop, whether a call runs, and the number of the
    /// call.
    ///
    /// All threads change the word by one atomic step. All threads see the changes of one word, and
    /// of its bytes, in the same order. So a plain load of the flag is enough on entry to a guest.
    /// If the flag was set before the step that sets [`RUNNING`], that step reported it. Otherwise
    /// the thread that sets the flag finds [`RUNNING`] and interrupts.
    word: AtomicU64,
    /// Number of the generation. The generation is written before the word. So if a thread loads
    /// the word, and then finds its own generation in this field, the word does not belong to a
    /// later generation.
    generation: AtomicU64,
    /// The thread that runs the guest, or ran the guest last. The field is written before
    /// [`RUNNING`] is set, so a thread that finds [`RUNNING`] also finds this thread.
    thread: AtomicI32,
}

impl Word {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(GO.into()),
            generation: AtomicU64::new(0),
            thread: AtomicI32::new(0),
        }
    }

    /// Ends a generation: a thread that has the old generation's number cannot stop the next
    /// instance.
    pub(super) fn next_generation(&self) {
        self.generation.fetch_add(1, SeqCst);
        self.next_call(|_| 0);
    }

    /// Advances to the next call, with the flag clear and the bits that `stays` selects from the
    /// word.
    fn next_call(&self, stays: impl Fn(u64) -> u64) {
        let next = |word: u64| {
            let call = (word >> CALL_SHIFT) + 1;
            Some(call << CALL_SHIFT | stays(word) | u64::from(GO))
        };
        // Never fails: the closure always returns a word.
        let _ = self.word.fetch_update(SeqCst, SeqCst, next);
    }

    /// Number of the current generation.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(SeqCst)
    }

    /// Address of the interrupt flag: the lowest byte of the word.
    #[cfg(not(loom))]
    pub(super) fn flag_address(&self) -> *const core::sync::atomic::AtomicU8 {
        // Little-endian, as `lib.rs` requires.
        (&raw const self.word).cast()
    }

    /// Value of the interrupt flag.
    pub(super) fn flag(&self) -> u8 {
        self.word.load(SeqCst) as u8
    }

    /// The thread that runs the guest, or ran the guest last.
    pub(super) fn thread(&self) -> i32 {
        self.thread.load(SeqCst)
    }

    /// Records the call's thread id in a fork, where the thread id differs.
    pub(super) fn moved(&self, thread: i32) {
        self.thread.store(thread, SeqCst);
    }

    /// Announces a call on this thread and returns its number. `sliced` tells whether the call has
    /// a time slice.
    ///
    /// # Errors
    ///
    /// The reason why the guest must not run.
    pub(super) fn begin(&self, thread: i32, sliced: bool) -> Result<u64, Why> {
        self.thread.store(thread, SeqCst);
        let sliced = if sliced { SLICED } else { 0 };
        let word = self.word.fetch_or(RUNNING | sliced, SeqCst);
        match Why::of(word) {
            None => Ok(word >> CALL_SHIFT),
            Some(why) => {
                self.end(false);
                Err(why)
            }
        }
    }

    /// Ends the call, or suspends it.
    pub(super) fn end(&self, suspended: bool) {
        let suspended = if suspended { SUSPENDED } else { 0 };
        self.next_call(|word| word & KILL | suspended);
    }

    /// Records that a call of this generation is suspended.
    pub(super) fn suspended(&self) {
        self.word.fetch_or(SUSPENDED, SeqCst);
    }

    /// Records that the suspended call will not be resumed.
    pub(super) fn cancel(&self) {
        self.word.fetch_and(!SUSPENDED, SeqCst);
    }

    /// The reason to stop the guest, if there is one.
    pub(super) fn why(&self) -> Option<Why> {
        Why::of(self.word.load(SeqCst))
    }

    /// Sets the interrupt flag of a call for a reason. Returns whether the call still runs.
    pub(super) fn stop(&self, call: u64, reason: u64) -> bool {
        let still = |word: u64| {
            let runs = word >> CALL_SHIFT == call && word & RUNNING != 0;
            runs.then_some(with_reason(word, reason))
        };
        self.word.fetch_update(SeqCst, SeqCst, still).is_ok()
    }

    /// Whether this call runs.
    pub(super) fn runs(&self, call: u64) -> bool {
        let word = self.word.load(SeqCst);
        word >> CALL_SHIFT == call && word & RUNNING != 0
    }

    /// Whether a call of this generation runs.
    pub(super) fn runs_for(&self, generation: u64) -> bool {
        let word = self.word.load(SeqCst);
        self.generation.load(SeqCst) == generation && word & RUNNING != 0
    }

    /// Stops a generation's instance for good. Returns the previous word.
    ///
    /// # Errors
    ///
    /// The reason why the kill had no effect.
    pub(super) fn kill(&self, generation: u64) -> Result<u64, Missed> {
        let mut missed = Missed::Gone;
        let killed = |word: u64| {
            // The generation is read after the word. If the generation has changed by then, the
            // word has changed, too, and the update fails.
            if self.generation.load(SeqCst) != generation {
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

    /// Ends the time slice of this generation's running call, if the call has a time slice. Returns
    /// the previous word.
    pub(super) fn preempt(&self, generation: u64) -> Option<u64> {
        let over = |word: u64| {
            // The generation is read after the word, as in `kill`.
            let ours = self.generation.load(SeqCst) == generation;
            (ours && word & RUNNING != 0 && word & SLICED != 0).then_some(with_reason(word, SLICE))
        };
        self.word.fetch_update(SeqCst, SeqCst, over).ok()
    }

    /// Defers the end of the time slice. Until `undefer_slice`, only a kill, a deadline or a budget
    /// sets the interrupt flag. Returns false if the end of the slice was deferred already.
    pub(super) fn defer_slice(&self) -> bool {
        let hold = |word: u64| match word & SLICE {
            0 => Some(word | SLICE_DEFERRED),
            _ => Some(word & !SLICE | SLICE_DEFERRED | SLICE_PENDING),
        };
        // Never fails: the closure always returns a word.
        let before = self.word.fetch_update(SeqCst, SeqCst, hold);
        before.is_ok_and(|word| word & SLICE_DEFERRED == 0)
    }

    /// Stops deferring the end of the time slice. If that end is pending, sets the interrupt flag.
    pub(super) fn undefer_slice(&self) {
        let release = |word: u64| {
            let over = if word & SLICE_PENDING == 0 { 0 } else { SLICE };
            Some(word & !(SLICE_DEFERRED | SLICE_PENDING) | over)
        };
        // Never fails: the closure always returns a word.
        let _ = self.word.fetch_update(SeqCst, SeqCst, release);
    }
}

/// Returns the word with one more reason for its interrupt flag, or with a pending end of a slice.
fn with_reason(word: u64, reason: u64) -> u64 {
    match reason {
        SLICE if word & SLICE_DEFERRED != 0 => word | SLICE_PENDING,
        reason => word | reason,
    }
}

/// Number of the call in a word.
pub(super) fn call_of(word: u64) -> u64 {
    word >> CALL_SHIFT
}

/// Loom runs these tests in every interleaving, with every value that a load may see.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// Id of the thread that runs guests in these tests. Any other id is an error.
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

        /// Interrupts the thread that runs the call, after the word was changed.
        fn interrupt(&self, word: u64) {
            if word & RUNNING != 0 && self.word.thread() == THREAD {
                self.signal.store(true, SeqCst);
            }
        }

        /// Runs a guest that never returns by itself, after its call was announced. The guest
        /// leaves if its interrupt flag is set on entry, or when a signal finds the flag set. If
        /// the signal never comes, the loop never ends, and loom reports an error.
        fn runs(&self) {
            // The switch, too, uses only a plain load.
            if self.word.word.load(sync::Ordering::Relaxed) as u8 != GO {
                return;
            }
            while !self.signal.load(SeqCst) || self.word.flag() == GO {
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
                other.interrupt(word);
            });
            if guest.word.begin(THREAD, false).is_ok() {
                guest.runs();
                assert_eq!(guest.word.why(), Some(Why::Killed));
                guest.word.end(false);
            }
            killer.join().unwrap();
            // The kill is permanent.
            assert_eq!(guest.word.begin(THREAD, false), Err(Why::Killed));
            assert_eq!(guest.word.kill(0), Err(Missed::Killed));
        });
    }

    /// The canary: if `RUNNING` is set before the thread id is written, a killer can miss the
    /// thread.
    #[test]
    #[should_panic]
    fn a_thread_that_is_announced_too_late_is_missed() {
        loom::model(|| {
            let guest = Guest::new();
            let other = Arc::clone(&guest);
            let killer = thread::spawn(move || {
                let word = other.word.kill(0).unwrap();
                other.interrupt(word);
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
            let call = guest.word.begin(THREAD, false).unwrap();
            let other = Arc::clone(&guest);
            let timer = thread::spawn(move || other.word.stop(call, DEADLINE));
            let met = guest.word.why();
            guest.word.end(false);
            // A timer that came too late stopped no call.
            let next = guest.word.begin(THREAD, false).unwrap();
            assert_ne!(next, call);
            assert_eq!((guest.word.flag(), guest.word.why()), (GO, None));
            let closed = timer.join().unwrap();
            assert!(closed || met.is_none());
            assert!(guest.word.runs(next) && !guest.word.runs(call));
            assert_eq!((guest.word.flag(), guest.word.why()), (GO, None));
        });
    }

    #[test]
    fn a_switch_stops_no_later_generation() {
        let kill: fn(&Word) = |word| assert_ne!(word.kill(0), Err(Missed::Killed));
        let preempt: fn(&Word) = |word| drop(word.preempt(0));
        for switch in [kill, preempt] {
            loom::model(move || {
                let guest = Guest::new();
                guest.word.begin(THREAD, true).unwrap();
                let other = Arc::clone(&guest);
                let switched = thread::spawn(move || switch(&other.word));
                guest.word.end(true);
                guest.word.next_generation();
                guest.word.begin(THREAD, true).unwrap();
                switched.join().unwrap();
                assert_eq!((guest.word.flag(), guest.word.why()), (GO, None));
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

    /// A slice that ends around a nested call neither interrupts that call nor is lost.
    #[test]
    fn a_slice_that_ends_beside_a_nested_call_ends_after_it() {
        loom::model(|| {
            let guest = Guest::new();
            let call = guest.word.begin(THREAD, true).unwrap();
            let other = Arc::clone(&guest);
            let timer = thread::spawn(move || other.word.stop(call, SLICE));
            assert!(guest.word.defer_slice());
            // An inner nested call does not defer again: the outer nested call ends the deferral.
            assert!(!guest.word.defer_slice());
            assert_eq!(guest.word.flag(), GO);
            guest.word.undefer_slice();
            assert!(timer.join().unwrap());
            assert_eq!(
                (guest.word.flag(), guest.word.why()),
                (GO | SLICE as u8, None)
            );
            guest.word.end(true);
            guest.word.begin(THREAD, true).unwrap();
            assert_eq!(guest.word.flag(), GO);
        });
    }

    /// A kill does end a nested call.
    #[test]
    fn a_kill_beside_a_nested_call_sets_its_flag() {
        loom::model(|| {
            let guest = Guest::new();
            guest.word.begin(THREAD, true).unwrap();
            let other = Arc::clone(&guest);
            let killer = thread::spawn(move || {
                let word = other.word.kill(0).unwrap();
                other.interrupt(word);
            });
            guest.word.defer_slice();
            guest.runs();
            assert_eq!(guest.word.why(), Some(Why::Killed));
            guest.word.undefer_slice();
            assert_eq!(guest.word.why(), Some(Why::Killed));
            killer.join().unwrap();
        });
    }

    #[test]
    fn a_slice_that_is_ended_twice_ends_once() {
        loom::model(|| {
            let guest = Guest::new();
            let call = guest.word.begin(THREAD, true).unwrap();
            let others = [0, 1].map(|_| Arc::clone(&guest));
            let [one, two] = others.map(|other| {
                thread::spawn(move || match other.word.preempt(0) {
                    Some(word) => {
                        other.interrupt(word);
                        u32::from(word & SLICE == 0)
                    }
                    None => 0,
                })
            });
            guest.runs();
            assert_eq!(guest.word.flag(), GO | SLICE as u8);
            guest.word.end(true);
            let first = one.join().unwrap() + two.join().unwrap();
            assert_eq!(first, 1);
            assert!(!guest.word.runs(call));
            assert_eq!(guest.word.why(), None);
        });
    }
}
