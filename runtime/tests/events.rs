//! Kills, deadlines, budgets and ends of time slices occur at random moments. No slot may be lost,
//! and no instance may see data of the slot's previous instance.

use crate::common;

use common::campaign::share;
use common::random::Random;
use futures::executor::block_on;
use futures::future::poll_immediate;
use pirn_runtime::{
    CallError, Instance, KillSwitch, Linker, Prepared, Region, Reset, Step, TypedFunc, Value,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Events for each reset under `cargo test`. For a million in all, run `cargo test -p pirn-runtime
/// --release --test runtime -- --ignored --nocapture events::`.
const SOME: u64 = 6_000;
const MANY: u64 = 250_000;

/// A guest that writes to memory and globals, asks the host, and waits for it.
const GUEST: &str = r#"(module
  (import "h" "ask" (func $ask (param i32) (result i32)))
  (import "h" "wait" (func $wait (param i32) (result i32)))
  (import "h" "call" (func $call (param i32) (result i32)))
  (memory (export "memory") 2 8)
  (global $marks (export "marks") (mut i64) (i64.const 0))
  (func $mark (param $at i32)
    (global.set $marks (i64.add (global.get $marks) (i64.const 1)))
    (i32.store (i32.and (local.get $at) (i32.const 0x1fffc)) (local.get $at)))
  (func (export "works") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (call $mark (i32.mul (local.get $n) (i32.const 4100)))
      (local.set $sum (i32.add (local.get $sum) (call $call (local.get $n))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "asks") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (call $mark (i32.mul (local.get $n) (i32.const 4100)))
      (local.set $sum (i32.add (local.get $sum) (call $ask (local.get $n))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "waits") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (call $mark (i32.mul (local.get $n) (i32.const 4100)))
      (local.set $sum (i32.add (local.get $sum) (call $wait (local.get $n))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum)))"#;

/// The initial memory of an instance.
static ZEROS: [u8; 2 << 16] = [0; 2 << 16];

/// Number of iterations of each call, and the call's result if nothing stops it.
const STEPS: i32 = 60;
const RESULT: i32 = STEPS * (STEPS + 1) / 2;

type I = Instance<(), i32, i32>;

fn prepare(reset: Reset) -> Prepared<(), i32, i32> {
    let mut linker = Linker::<(), i32, i32>::asking();
    linker
        .func("h", "call", |n: i32| n)
        .and_then(|linker| linker.func_ask("h", "ask", |_, n: i32| Ok(n), |_, _: i32, n| n))
        .and_then(|linker| {
            linker.func_async("h", "wait", |_, n: i32| {
                Box::pin(async move {
                    if n % 7 == 0 {
                        futures::pending!();
                    }
                    n
                })
            })
        })
        .expect("the names are free");
    let region = Region::builder().slots(4).reset(reset).build();
    region
        .expect("it works here")
        .prepare(&common::wat(GUEST), &linker)
        .expect("it is linked")
}

/// Data shared by the threads.
struct Shared {
    prepared: Prepared<(), i32, i32>,
    funcs: [TypedFunc<i32, i32>; 3],
    /// The kill switch of each worker's instance.
    switches: [Mutex<Option<KillSwitch>>; 2],
    events: [AtomicU64; 5],
    done: AtomicBool,
}

/// Indices of the event counters.
const KILLED: usize = 0;
const LATE: usize = 1;
const SPENT: usize = 2;
const PREEMPTED: usize = 3;
const DROPPED: usize = 4;

impl Shared {
    fn count(&self, event: usize) {
        self.events[event].fetch_add(1, Ordering::Relaxed);
    }

    fn total(&self) -> u64 {
        let counts = self.events.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Whether enough events happened, including at least one of each kind. How often a kind
    /// happens depends on the machine. The last bound ends a run in which one kind never happens.
    fn enough(&self, events: u64) -> bool {
        let seen = |count: &AtomicU64| count.load(Ordering::Relaxed) > 0;
        self.total() >= events && (self.events.iter().all(seen) || self.total() >= 20 * events)
    }

    /// Calls one instance in a random way until the call ends.
    fn work(&self, worker: usize, random: &mut Random) {
        let mut instance = self.prepared.instantiate(()).expect("a slot");
        assert_eq!(instance.global("marks"), Some(Value::I64(0)));
        let memory = instance.memory();
        assert!(memory.as_slice() == ZEROS);
        *self.switches[worker].lock().expect("no panic") = Some(instance.kill_switch());
        match random.below(3) {
            0 => self.call(&mut instance, random),
            1 => self.steps(&mut instance, random),
            _ => self.future(&mut instance, random),
        }
    }

    /// Counts how a call ended.
    fn ended(&self, result: Result<i32, CallError>) {
        match result {
            Ok(sum) => assert_eq!(sum, RESULT),
            Err(CallError::Killed(_)) => self.count(KILLED),
            Err(CallError::Deadline(_)) => self.count(LATE),
            Err(CallError::CpuBudget(_)) => self.count(SPENT),
            Err(error) => panic!("{error}"),
        }
    }

    fn call(&self, instance: &mut I, random: &mut Random) {
        let limit = Duration::from_nanos(random.below(60_000));
        let result = match random.below(3) {
            0 => instance.call(&self.funcs[0], STEPS),
            1 => instance.deadline(limit).call(&self.funcs[0], STEPS),
            _ => instance.cpu_budget(limit).call(&self.funcs[0], STEPS),
        };
        self.ended(result);
    }

    fn steps(&self, instance: &mut I, random: &mut Random) {
        let asks = &self.funcs[1];
        let mut slice = || Duration::from_nanos(2_000 + random.below(30_000));
        let mut step = instance.timeslice(slice()).start(asks, STEPS);
        for n in 0.. {
            step = match step {
                Ok(Step::Returned(sum)) => return self.ended(Ok(sum)),
                Err(error) => return self.ended(Err(error)),
                Ok(_) if n == 300 => return self.count(DROPPED),
                Ok(Step::Asked(n)) => instance.timeslice(slice()).resume_with(asks, n),
                Ok(Step::Preempted) => {
                    self.count(PREEMPTED);
                    instance.timeslice(slice()).resume(asks)
                }
            };
        }
    }

    /// One call in four has no limit and waits more often than the test polls it. The test drops
    /// this call, even on a slow machine.
    fn future(&self, instance: &mut I, random: &mut Random) {
        let limited = random.below(4) > 0;
        let mut polls = random.below(if limited { 40 } else { STEPS as u64 / 7 });
        let limit = Duration::from_nanos(2_000 + random.below(100_000));
        let func = &self.funcs[2];
        let mut call = if limited {
            let limited = instance.timeslice(limit / 4).deadline(limit);
            limited.call_async(func, STEPS)
        } else {
            instance.call_async(func, STEPS)
        };
        loop {
            if let Some(result) = block_on(poll_immediate(&mut call)) {
                return self.ended(result);
            }
            let Some(left) = polls.checked_sub(1) else {
                return self.count(DROPPED);
            };
            polls = left;
        }
    }

    /// Kills and preempts the workers' instances.
    fn disturb(&self, random: &mut Random) {
        while !self.done.load(Ordering::Relaxed) {
            let worker = random.below(2) as usize;
            let switch = self.switches[worker].lock().expect("no panic").clone();
            for _ in 0..random.below(2_000) {
                std::hint::spin_loop();
            }
            let Some(switch) = switch else { continue };
            if random.below(4) == 0 {
                // The instance may have been dropped.
                let _ = switch.kill();
            } else {
                switch.preempt();
            }
            thread::yield_now();
        }
    }
}

fn run(events: u64) {
    for reset in common::resets() {
        let prepared = prepare(reset);
        let func = |name| prepared.func(name).expect("it is exported");
        let shared = Shared {
            funcs: ["works", "asks", "waits"].map(func),
            switches: Default::default(),
            events: Default::default(),
            done: AtomicBool::new(false),
            prepared,
        };
        thread::scope(|scope| {
            let shared = &shared;
            let workers = [0, 1].map(|worker| {
                scope.spawn(move || {
                    let mut random = Random(worker as u64 * 77 + 12345);
                    while !shared.enough(events) {
                        shared.work(worker, &mut random);
                    }
                })
            });
            scope.spawn(|| shared.disturb(&mut Random(99)));
            let ended = workers.map(thread::ScopedJoinHandle::join);
            shared.done.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok));
        });
        let description = shared.prepared.region().describe();
        assert_eq!(
            (
                shared.prepared.region().slots_free(),
                description.slots_lost()
            ),
            (4, 0),
            "{reset}"
        );
        assert_eq!(description.resets_failed(), 0, "{reset}");
        let [killed, late, spent, preempted, dropped] = shared
            .events
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        println!(
            "{reset}: {killed} killed, {late} late, {spent} spent, {preempted} preempted, {dropped} dropped"
        );
        assert!(
            [killed, late, spent, preempted, dropped]
                .iter()
                .all(|count| *count > 0)
        );
    }
}

#[test]
fn random_events_leak_no_slot() {
    run(share(SOME, 4));
}

#[test]
#[ignore = "takes minutes; the test above is a sample"]
fn a_million_random_events_leak_no_slot() {
    run(MANY);
}
