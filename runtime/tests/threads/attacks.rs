//! Attacks on shared memories and waits: panicking wakers, forks, memories that grow inside a
//! limiter, sizes that other threads change, and slots that used other memories before.

use crate::common::retry::with_longer_limits;
use crate::common::setup::{child, ended_well, fork};
use crate::common::values::shared_memory;
use crate::common::{self, values};
use futures::executor::block_on;
use futures::task::{ArcWake, waker};
use pirn_runtime::{
    AddrType, CallError, Linker, MemoryType, Module, PageSize, Prepared, Region, SharedMemory,
    TrapCode, TypedFunc,
};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

const GUEST: &str = r#"(module (import "h" "m" (memory 1 4 shared))
  (func (export "wait") (param i32 i32 i64) (result i32)
    (memory.atomic.wait32 (local.get 0) (local.get 1) (local.get 2)))
  (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "add") (param i32) (result i32)
    (i32.atomic.rmw.add (local.get 0) (i32.const 1)))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))"#;

type Wait = TypedFunc<(i32, i32, i64), i32>;

fn linker(memory: &SharedMemory) -> Linker<()> {
    let mut linker = Linker::new();
    linker.memory("h", "m", memory).expect("the name is free");
    linker
}

fn prepared(module: &Module, memory: &SharedMemory, slots: u32) -> Prepared<()> {
    let region = Region::builder().slots(slots).build().expect("a region");
    let prepared = region.prepare(module, &linker(memory));
    prepared.expect("it fits")
}

/// The cases with forks; each runs in a child process (see [`case`](crate::threads::case)).
pub(crate) fn case(case: &str) {
    match case {
        "bytes" => bytes(),
        "times" => times(),
        other => panic!("no case {other}"),
    }
}

#[test]
fn a_panicking_waker_does_not_block_other_waiters() {
    #[derive(Default)]
    struct TestWaker {
        panics: bool,
        times: AtomicU32,
    }
    impl ArcWake for TestWaker {
        fn wake_by_ref(this: &Arc<Self>) {
            this.times.fetch_add(1, SeqCst);
            assert!(!this.panics, "a waker that panics");
        }
    }
    let memory = shared_memory(1, 1 << 2);
    let prepared = prepared(&common::wat(GUEST), &memory, 2);
    let wait: Wait = prepared.func("wait").expect("it is there");
    let mut guests = [(); 2].map(|()| prepared.try_instantiate(()).expect("a slot"));
    let [first, second] = &mut guests;
    let mut calls = [first, second].map(|guest| guest.call_async(&wait, (0, 0, -1)));
    let wakers = [true, false].map(|panics| {
        Arc::new(TestWaker {
            panics,
            ..TestWaker::default()
        })
    });
    for (call, test_waker) in calls.iter_mut().zip(&wakers) {
        let waker = waker(Arc::clone(test_waker));
        assert!(
            pin!(call)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    // Whether or not `notify` passes on a waker's panic, it has woken both waiters.
    let woken = catch_unwind(AssertUnwindSafe(|| memory.notify(0, 2).unwrap()));
    assert_eq!(
        wakers.map(|test_waker| test_waker.times.load(SeqCst)),
        [1, 1]
    );
    assert_eq!(woken.ok(), Some(2));
    for call in calls {
        assert_eq!(block_on(call).unwrap(), 0);
    }
}

/// Prepares a guest for a slot whose instances stay usable after a fork.
fn inherited(memory: &SharedMemory) -> Prepared<()> {
    let reset = common::reset_named("decommitted");
    let region = Region::builder().slots(1).reset(reset);
    let region = region.build().expect("a region");
    let prepared = region.prepare(&common::wat(GUEST), &linker(memory));
    prepared.expect("it fits")
}

#[test]
fn a_wait_in_a_child_has_its_timeout() {
    common::exited_with("times", 0);
}

fn times() {
    let memory = shared_memory(1, 4);
    let prepared = inherited(&memory);
    let wait: Wait = prepared.func("wait").expect("it is there");
    let mut guest = prepared.try_instantiate(()).expect("a slot");
    // Repeat the call until the guest waits when the process forks.
    with_longer_limits(Duration::from_millis(200), |timeout| {
        let mut call = guest.call_async(&wait, (0, 0, timeout.as_nanos() as i64));
        let waker = futures::task::noop_waker();
        let polled = pin!(&mut call).poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(ended) = polled {
            assert_eq!(ended.unwrap(), 2);
            return None;
        }
        let pid = fork();
        if pid == 0 {
            let call = AssertUnwindSafe(call);
            child(move || {
                let AssertUnwindSafe(call) = { call };
                common::setup::limit_run_time();
                assert_eq!(block_on(call).unwrap(), 2);
            });
        }
        ended_well(pid);
        Some(())
    });
}

#[test]
fn a_child_gets_a_zeroed_shared_memory() {
    common::exited_with("bytes", 0);
}

fn bytes() {
    let memory = shared_memory(1, 4);
    let prepared = inherited(&memory);
    let load: TypedFunc<i32, i32> = prepared.func("load").expect("it is there");
    let mut guest = prepared.try_instantiate(()).expect("a slot");
    memory.write(100, &[7]).expect("it is there");
    let pid = fork();
    if pid == 0 {
        let all = AssertUnwindSafe((guest, memory));
        child(move || {
            let AssertUnwindSafe((mut guest, memory)) = { all };
            common::setup::limit_run_time();
            assert_eq!(guest.call(&load, 100).unwrap(), 0);
            assert_eq!(memory.len(), 1 << 16);
            // After the fork, the child's memory is private to it.
            memory.write(100, &[8]).expect("it is there");
            assert_eq!(guest.call(&load, 100).unwrap(), 8);
        });
    }
    ended_well(pid);
    assert_eq!(guest.call(&load, 100).unwrap(), 7);
}

/// The host copies whole words where it can. No alignment or length may reach a byte more or less.
#[test]
fn the_host_copies_any_range_and_nothing_beside_it() {
    let memory = shared_memory(1, 1);
    let end = 1 << 16;
    let zeros = vec![0; end as usize];
    for len in [0, 1, 7, 8, 9, 15, 16, 17, 40] {
        for at in (0..16).chain(end - 56..=end - len) {
            let bytes: Vec<u8> = (1..=len as u8).collect();
            memory.write(at, &bytes).expect("it is inside");
            let mut all = vec![0; end as usize];
            memory.read(0, &mut all).expect("it is inside");
            let inside = at as usize..(at + len) as usize;
            assert_eq!(all[inside.clone()], bytes, "{at} {len}");
            assert!(all[..inside.start] == zeros[..inside.start], "{at} {len}");
            assert!(all[inside.end..] == zeros[inside.end..], "{at} {len}");
            let mut some = vec![0; len as usize];
            memory.read(at, &mut some).expect("it is inside");
            assert_eq!(some, bytes, "{at} {len}");
            memory.write(0, &zeros).expect("it is inside");
        }
        let past = vec![1; len as usize + 1];
        assert!(memory.write(end - len, &past).is_err(), "{len}");
        assert!(memory.read(end - len, &mut past.clone()).is_err(), "{len}");
    }
}

#[test]
fn a_limiter_that_grows_the_same_memory_does_not_deadlock() {
    for (of_limiter, most, answer) in [(0, 4, 1), (1, 4, -1), (3, 4, -1)] {
        let memory = shared_memory(1, most);
        let mut linker = linker(&memory);
        let same = memory.clone();
        linker.memory_limiter(move |(), _| {
            // The last call fails, because the memory has its maximum size.
            let _ = same.grow(of_limiter);
            true
        });
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&common::wat(GUEST), &linker);
        let prepared = prepared.expect("it fits");
        let grow: TypedFunc<i32, i32> = prepared.func("grow").expect("it is there");
        let mut guest = prepared.try_instantiate(()).expect("a slot");
        assert_eq!(guest.call(&grow, 1).unwrap(), answer, "{of_limiter}");
        assert!(memory.len() <= (most as usize) << 16);
    }
}

#[test]
fn the_size_is_read_again_after_an_atomic_access() {
    // The compiler compares each access to a memory with one-byte pages with its size. The host
    // changes that size while the guest spins.
    let text = r#"(module (import "h" "m" (memory 64 1000 shared (pagesize 1)))
      (func (export "grown") (param i32) (result i32) (local i32)
        (local.set 1 (i32.load8_u (i32.const 8)))
        (i32.atomic.store (i32.const 0) (i32.const 1))
        (loop $l (br_if $l (i32.eqz (i32.atomic.load (i32.const 4)))))
        (i32.add (i32.add (local.get 1) (i32.load8_u (local.get 0))) (memory.size))))"#;
    for options in values::levels() {
        let ty = MemoryType {
            address: AddrType::I32,
            page: PageSize::Byte,
            min: 64,
            max: Some(1000),
            shared: true,
        };
        let memory = SharedMemory::new(&ty).expect("the system has memory");
        let prepared = prepared(&common::wat_with(text, &options), &memory, 1);
        let grown: TypedFunc<i32, i32> = prepared.func("grown").expect("it is there");
        let mut guest = prepared.try_instantiate(()).expect("a slot");
        thread::scope(|scope| {
            let calls = scope.spawn(|| guest.call(&grown, 999).unwrap());
            let said = memory.atomic_u32(0).expect("it is there");
            while said.load(SeqCst) == 0 {
                thread::yield_now();
            }
            assert_eq!(memory.grow(936).unwrap(), 64);
            memory.write(999, &[7]).expect("it is there");
            memory.atomic_u32(4).unwrap().store(1, SeqCst);
            assert_eq!(calls.join().expect("it ends"), 1007);
        });
    }
}

#[test]
fn a_warm_slot_does_not_use_another_preparations_memory() {
    let first = shared_memory(1, 4);
    let prepared = prepared(&common::wat(GUEST), &first, 1);
    let add: TypedFunc<i32, i32> = prepared.func("add").expect("it is there");
    let load: TypedFunc<i32, i32> = prepared.func("load").expect("it is there");
    for n in 0..20 {
        // The preparation and the memory are dropped before the slot is used again, so their
        // addresses may be reused.
        let own = shared_memory(2, 4);
        let with_own = prepared.with_memory("h", "m", &own).expect("it fits");
        let mut guest = with_own.try_instantiate(()).expect("a slot");
        drop(with_own);
        own.write(200, &[9]).expect("it is there");
        drop(own);
        assert_eq!(guest.call(&load, 200).unwrap(), 9);
        assert_eq!(guest.call(&add, 0).unwrap(), 0);
        // The runtime knows the memory's guard region as long as the instance lives.
        let ended = guest.call(&load, 2 << 16);
        assert!(
            matches!(&ended, Err(CallError::Trap(trap)) if trap.code() == TrapCode::MemoryOutOfBounds),
            "{ended:?}"
        );
        drop(guest);
        let mut guest = prepared.try_instantiate(()).expect("a slot");
        assert_eq!(guest.call(&add, 0).unwrap(), n);
        let ended = guest.call(&load, 1 << 16);
        assert!(
            matches!(&ended, Err(CallError::Trap(trap)) if trap.code() == TrapCode::MemoryOutOfBounds),
            "{ended:?}"
        );
    }
    assert_eq!(first.atomic_u32(0).unwrap().load(SeqCst), 20);
}
