//! What one instance of a snapshot leaves for the next: nothing, under every reset strategy, on two
//! threads, in a forked child, and with an image of many pages.
#![allow(unsafe_code, reason = "a test that forks its own process")]

use super::common::setup::{child, ended_well, fork, limit_run_time};
use super::common::{self, campaign::share, random::Random};
use pirn_runtime::{CallError, Instance, Linker, Module, Prepared, Region, Reset, Value};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

/// Pages of the largest image, of 64 KiB each: 16 MiB, more than a tracked slot copies.
pub(super) const LARGE: u32 = 256;

/// A guest with two memories. `fill(pages)` writes a word to every 512 bytes of the first memory.
/// `sum` returns a checksum of all words. `spoil` overwrites a word of each memory and grows both.
pub(super) const GUEST: &str = r#"(module
  (memory (export "memory") 2 400)
  (memory $more 1 9)
  (global $g (mut i64) (i64.const 1))
  (func (export "fill") (param $pages i32) (local $at i32)
    (drop (memory.grow (i32.sub (local.get $pages) (memory.size))))
    (loop $next
      (i64.store (local.get $at)
        (i64.add (i64.mul (i64.extend_i32_u (local.get $at)) (i64.const 0x9e3779b97f4a7c15))
          (global.get $g)))
      (local.set $at (i32.add (local.get $at) (i32.const 512)))
      (br_if $next (i32.lt_u (local.get $at) (i32.shl (local.get $pages) (i32.const 16)))))
    (drop (memory.grow $more (i32.const 2)))
    (i64.store $more (i32.const 100) (i64.const 5))
    (i64.store $more (i32.const 140000) (i64.const 6))
    (global.set $g (i64.const 77)))
  (func (export "sum") (result i64) (local $at i32) (local $sum i64)
    (local.set $sum (global.get $g))
    (loop $next
      (local.set $sum (i64.add (i64.rotl (local.get $sum) (i64.const 1))
        (i64.load (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.shl (memory.size) (i32.const 16)))))
    (local.set $at (i32.const 0))
    (loop $next
      (local.set $sum (i64.add (i64.rotl (local.get $sum) (i64.const 1))
        (i64.load $more (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next
        (i32.lt_u (local.get $at) (i32.shl (memory.size $more) (i32.const 16)))))
    (local.get $sum))
  (func (export "spoil") (param $at i32) (param $pages i32)
    (i64.store (local.get $at) (i64.const -1))
    (i64.store $more (i32.and (local.get $at) (i32.const 0x1ffff)) (i64.const -1))
    (drop (memory.grow $more (local.get $pages)))
    (global.set $g (i64.const -1))
    (if (i32.gt_s (memory.grow (local.get $pages)) (i32.const 0))
      (then (memory.fill (i32.shl (i32.sub (memory.size) (local.get $pages)) (i32.const 16))
        (i32.const 0x5a) (i32.shl (local.get $pages) (i32.const 16))))))
  (func (export "trap") unreachable)
  (func (export "forever") (loop $l (br $l))))"#;

pub(super) struct Warm {
    pub(super) prepared: Prepared<()>,
    /// The sum of the words in a fresh instance.
    pub(super) sum: i64,
}

pub(super) fn region(reset: Reset, slots: u32) -> Region {
    let region = Region::builder().slots(slots).memories(2).reset(reset);
    region.build().expect("the region is built")
}

impl Warm {
    /// A snapshot with an image of `pages` pages of 64 KiB.
    pub(super) fn new(region: &Region, module: &Module, pages: u32) -> Self {
        let linker = Linker::new();
        let prepared = region.prepare(module, &linker).expect("it links");
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        let filled = instance.call_values("fill", &[Value::I32(pages as i32)]);
        filled.expect("it returns");
        let sum = sum(&mut instance);
        let snapshot = instance.snapshot().expect("it can be taken");
        let prepared = region.prepare(&snapshot, &linker).expect("it links");
        Self { prepared, sum }
    }

    pub(super) fn instance(&self) -> Instance<()> {
        self.prepared.try_instantiate(()).expect("a slot is free")
    }

    /// One request: finds the state of the snapshot, spoils it, and ends in some way.
    fn request(&self, random: &mut Random) {
        let mut instance = self.instance();
        assert_eq!(sum(&mut instance), self.sum);
        let bytes = instance.memory().len() as u64;
        for _ in 0..random.below(40) {
            let at = random.below(bytes - 8) as i32;
            let grown = random.below(2) as i32;
            let spoilt = instance.call_values("spoil", &[Value::I32(at), Value::I32(grown)]);
            spoilt.expect("it returns");
        }
        match random.below(3) {
            0 => drop(instance),
            1 => {
                let ended = instance.call_values("trap", &[]);
                assert!(matches!(ended, Err(CallError::Trap(_))), "{ended:?}");
            }
            _ => {
                let limited = instance.deadline(Duration::from_micros(100));
                let ended = limited.call_values("forever", &[]);
                assert!(matches!(ended, Err(CallError::Deadline(_))), "{ended:?}");
            }
        }
    }
}

pub(super) fn sum(instance: &mut Instance<()>) -> i64 {
    match instance.call_values("sum", &[]).expect("it returns")[..] {
        [Value::I64(sum)] => sum,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn every_instance_finds_the_state_of_the_snapshot() {
    let module = common::wat(GUEST);
    let mut random = Random(1);
    for reset in common::resets() {
        let region = region(reset, 1);
        let warm = [2, 20, LARGE].map(|pages| Warm::new(&region, &module, pages));
        for _ in 0..share(300, 10) {
            warm[random.below(3) as usize].request(&mut random);
        }
        assert_eq!(region.slots_free(), 1, "{reset}");
    }
}

/// The check above must find a reset that forgets a byte.
#[test]
#[should_panic(expected = "left == right")]
fn a_byte_that_is_left_is_found() {
    let (module, region) = (common::wat(GUEST), region(Reset::Auto, 1));
    let mut warm = Warm::new(&region, &module, 2);
    let mut instance = warm.instance();
    let spoilt = instance.call_values("spoil", &[Value::I32(4096), Value::I32(0)]);
    spoilt.expect("it returns");
    // A snapshot of a spoilt instance stands for a slot that was not restored.
    let snapshot = instance.snapshot().expect("it can be taken");
    warm.prepared = region.prepare(&snapshot, &Linker::new()).expect("it links");
    warm.request(&mut Random(1));
}

#[test]
fn instances_on_two_threads_find_the_state_of_the_snapshot() {
    let module = common::wat(GUEST);
    for reset in common::resets() {
        let region = region(reset, 3);
        let warm = [2, LARGE].map(|pages| Warm::new(&region, &module, pages));
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let warm = &warm;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..share(100, 10) {
                        warm[random.below(2) as usize].request(&mut random);
                    }
                });
            }
        });
        assert_eq!(region.slots_free(), 3, "{reset}");
    }
}

/// A forked child inherits slots that hold the parent's snapshots. Instances in the child must have
/// the state of their snapshots, and instances of the parent must not change.
#[test]
fn instances_in_a_forked_child_find_the_state_of_the_snapshot() {
    for reset in common::resets() {
        common::exited_with(&format!("snapshots {reset}"), 0);
    }
}

/// In a child process of its own: see [`case`](super::case).
pub(super) fn forks(reset: Reset) {
    limit_run_time();
    let region = region(reset, 3);
    let module = common::wat(GUEST);
    let warm = [2, 20, LARGE].map(|pages| Warm::new(&region, &module, pages));
    let held = warm[0].instance();
    // Its image is mapped, and some of its pages are written before the fork, some after it.
    let mut large = warm[2].instance();
    let mut spoil = |pages: core::ops::Range<i32>| {
        for page in pages {
            let spoilt = large.call_values("spoil", &[Value::I32(page << 12), Value::I32(0)]);
            spoilt.expect("it returns");
        }
    };
    spoil(0..40);
    let all = || {
        let mut random = Random(5);
        for _ in 0..share(10, 4) {
            for warm in &warm {
                warm.request(&mut random);
            }
        }
    };
    all();
    let pid = fork();
    if pid == 0 {
        child(AssertUnwindSafe(|| {
            all();
            // A child of the child has instances, too, and so has the child afterwards.
            let grandchild = fork();
            if grandchild == 0 {
                child(AssertUnwindSafe(all));
            }
            ended_well(grandchild);
            all();
            // `held` dates from before the fork. It gives a snapshot if the child has its memory.
            match held.snapshot() {
                Ok(_) => assert_ne!(reset, Reset::Tracked),
                Err(error) => {
                    assert_eq!(reset, Reset::Tracked);
                    assert!(error.to_string().contains("parent process"), "{error}");
                }
            }
        }));
    }
    spoil(30..90);
    ended_well(pid);
    spoil(80..120);
    drop(large);
    all();
    assert_eq!(sum(&mut { held }), warm[0].sum);
}
