//! Several instances that share a memory, each on its own thread.

use crate::common;
use crate::common::values::shared_memory;
use pirn_runtime::{Linker, Prepared, Region, SharedMemory};
use std::thread;

const GUEST: &str = r#"(module (import "h" "m" (memory 1 100 shared))
  ;; Adds 1 so often.
  (func (export "adds") (param $n i32)
    (loop $l (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  ;; The same under a lock at 8 that is waited for, by loads and stores that are not atomic.
  (func $lock
    (if (i32.atomic.rmw.cmpxchg (i32.const 8) (i32.const 0) (i32.const 1)) (then
      (loop $l
        (if (i32.atomic.rmw.xchg (i32.const 8) (i32.const 2)) (then
          (drop (memory.atomic.wait32 (i32.const 8) (i32.const 2) (i64.const -1)))
          (br $l)))))))
  (func $unlock
    (if (i32.ne (i32.atomic.rmw.xchg (i32.const 8) (i32.const 0)) (i32.const 1)) (then
      (drop (memory.atomic.notify (i32.const 8) (i32.const 1))))))
  (func (export "locks") (param $n i32)
    (loop $l
      (call $lock)
      (i64.store (i32.const 16) (i64.add (i64.load (i32.const 16)) (i64.const 1)))
      (i64.store (i32.const 24) (i64.sub (i64.load (i32.const 24)) (i64.const 1)))
      (call $unlock)
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  ;; Grows by a page so often; gives the sum of the sizes before.
  (func (export "grows") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (local.set $sum (i32.add (local.get $sum) (memory.grow (i32.const 1))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  ;; Looks at the size until it is so many pages, and reads the last byte.
  (func (export "sees") (param $pages i32) (result i32)
    (loop $l (br_if $l (i32.lt_u (memory.size) (local.get $pages))))
    (i32.load8_u offset=65535 (i32.mul (i32.sub (local.get $pages) (i32.const 1)) (i32.const 65536))))
  ;; Sends numbers, each once the last was taken; 0 is none.
  (func (export "sends") (param $n i32)
    (loop $l
      (loop $full
        (if (i32.atomic.load (i32.const 32)) (then
          (drop (memory.atomic.wait32 (i32.const 32) (i32.atomic.load (i32.const 32)) (i64.const 1000000)))
          (br $full))))
      (i32.store (i32.const 64) (i32.mul (local.get $n) (i32.const 3)))
      (i32.atomic.store (i32.const 32) (local.get $n))
      (drop (memory.atomic.notify (i32.const 32) (i32.const -1)))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  ;; Takes them until the last; gives the sum of what was sent with them.
  (func (export "takes") (result i32) (local $n i32) (local $sum i32)
    (loop $l
      (drop (memory.atomic.wait32 (i32.const 32) (i32.const 0) (i64.const 1000000)))
      (br_if $l (i32.eqz (local.tee $n (i32.atomic.load (i32.const 32)))))
      (local.set $sum (i32.add (local.get $sum) (i32.load (i32.const 64))))
      (i32.atomic.store (i32.const 32) (i32.const 0))
      (drop (memory.atomic.notify (i32.const 32) (i32.const 1)))
      (br_if $l (i32.ne (local.get $n) (i32.const 1))))
    (local.get $sum)))"#;

const THREADS: u32 = 4;

fn prepared(memory: &SharedMemory) -> Prepared<()> {
    let region = Region::builder().slots(THREADS).build().expect("a region");
    let mut linker = Linker::new();
    linker.memory("h", "m", memory).expect("the name is free");
    region
        .prepare(&common::wat(GUEST), &linker)
        .expect("it fits")
}

/// Calls a function on [`THREADS`] threads.
fn on_threads(prepared: &Prepared<()>, name: &str, n: u32) {
    let func = prepared.func::<(u32,), ()>(name).expect("it is there");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut guest = prepared.instantiate(()).expect("a slot");
                guest.call(&func, (n,)).expect("it runs");
            });
        }
    });
}

/// Atomic additions of several threads to one word.
#[test]
fn concurrent_atomic_additions_are_not_lost() {
    let memory = shared_memory(1, 100);
    on_threads(&prepared(&memory), "adds", 20_000);
    let sum = memory.atomic_u32(0).expect("it is inside");
    assert_eq!(
        sum.load(std::sync::atomic::Ordering::SeqCst),
        THREADS * 20_000
    );
}

#[test]
fn a_guests_lock_is_exclusive() {
    let memory = shared_memory(1, 100);
    on_threads(&prepared(&memory), "locks", 5_000);
    let mut sums = [0; 16];
    memory.read(16, &mut sums).expect("it is inside");
    let (up, down) = sums.split_at(8);
    let sum = u64::from(THREADS) * 5_000;
    assert_eq!(up, sum.to_le_bytes());
    assert_eq!(down, 0_u64.wrapping_sub(sum).to_le_bytes());
    assert_eq!(memory.waiters(8), 0);
}

#[test]
fn concurrent_growths_return_different_sizes() {
    let memory = shared_memory(1, 100);
    let prepared = prepared(&memory);
    let grows = prepared.func::<(u32,), i32>("grows").expect("it is there");
    let sees = prepared.func::<(u32,), u32>("sees").expect("it is there");
    let (sum, seen) = thread::scope(|scope| {
        let run = |_| {
            scope.spawn(|| {
                let mut guest = prepared.instantiate(()).expect("a slot");
                guest.call(&grows, (33,)).expect("it runs")
            })
        };
        let growing: Vec<_> = (0..THREADS - 1).map(run).collect();
        let watching = scope.spawn(|| {
            let mut guest = prepared.instantiate(()).expect("a slot");
            guest.call(&sees, (100,)).expect("it runs")
        });
        let sum = growing
            .into_iter()
            .map(|thread| thread.join().expect("it ends"));
        (sum.sum::<i32>(), watching.join().expect("it ends"))
    });
    // The memory grew from 1 to 100 pages, and each `memory.grow` returned another size.
    assert_eq!((sum, seen, memory.len()), ((1..100).sum(), 0, 100 << 16));
    let mut guest = prepared.instantiate(()).expect("a slot");
    assert_eq!(guest.call(&grows, (1,)).expect("it runs"), -1);
}

/// Stores before an atomic store are visible after the atomic load that reads it.
#[test]
fn an_atomic_store_publishes_earlier_stores() {
    let memory = shared_memory(1, 100);
    let prepared = prepared(&memory);
    let sends = prepared.func::<(u32,), ()>("sends").expect("it is there");
    let takes = prepared.func::<(), u32>("takes").expect("it is there");
    let sum = thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut guest = prepared.instantiate(()).expect("a slot");
            guest.call(&takes, ()).expect("it runs")
        });
        let mut guest = prepared.instantiate(()).expect("a slot");
        guest.call(&sends, (2_000,)).expect("it runs");
        taker.join().expect("it ends")
    });
    assert_eq!(sum, 3 * (1..=2_000).sum::<u32>());
}
