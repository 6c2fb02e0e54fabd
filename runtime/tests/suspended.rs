//! Attacks with suspended guests: traps at the end of a time slice, forgotten and panicking futures
//! and wakers, forks, and threads that block all signals. Also state that must not pass from one
//! call to the next.
#![allow(
    unsafe_code,
    reason = "an allocator that counts, and alarms and forks in child processes"
)]

use crate::common;

use common::campaign::share;
use common::random::Random;
use common::retry::{with_longer_limits, with_more_iterations};
use futures::task::{ArcWake, noop_waker};
use pirn_runtime::{
    CallError, CallState, Caller, FuncRef, HostError, Instance, InvalidCall, KillOutcome, Linker,
    Operation, Prepared, Region, Step, TypedFunc,
};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Bytes that all threads of the process have allocated and not freed (mallinfo2(3)).
fn heap_bytes() -> i64 {
    // SAFETY: mallinfo2(3) has no preconditions.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as i64
}

const GUEST: &str = include_str!("suspended/guest.wat");

/// The question that the host function asks after the deadline of the call.
const SLOW: i32 = 99;

/// The host's data.
#[derive(Default)]
struct Data {
    /// Whether the future panics when it is polled again, and when it is dropped.
    panics: bool,
    /// Whether the future stays pending for ever.
    never: bool,
    /// Whether the host function `ask` began with the question [`SLOW`].
    asked: bool,
    /// The function that the host function `run` calls once.
    run: Option<Box<dyn FnOnce() + Send>>,
}

/// A future that is pending once, and then ready with null.
struct Wait {
    panics: bool,
    never: bool,
    polled: bool,
}

impl Future for Wait {
    type Output = Option<FuncRef>;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if !std::mem::replace(&mut self.polled, true) || self.never {
            return Poll::Pending;
        }
        assert!(!self.panics, "polled again");
        Poll::Ready(None)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        assert!(!self.panics, "dropped");
    }
}

type P = Prepared<Data, i32, i32>;
type I = Instance<Data, i32, i32>;

fn prepare(slots: u32) -> P {
    prepare_with(slots, pirn_runtime::Reset::Auto)
}

fn prepare_with(slots: u32, reset: pirn_runtime::Reset) -> P {
    let mut linker = Linker::<Data, i32, i32>::asking();
    linker
        .func_ask(
            "h",
            "ask",
            |mut caller: Caller<'_, Data>, n: i32| {
                if n == SLOW {
                    caller.data_mut().asked = true;
                    while !caller.is_stopped() {
                        thread::yield_now();
                    }
                }
                Ok(n)
            },
            |_, _: i32, answer: i32| answer,
        )
        .and_then(|linker| {
            linker.func_async("h", "wait", |caller: Caller<'_, Data>, _: i64| {
                let (panics, never) = (caller.data().panics, caller.data().never);
                Box::pin(Wait {
                    panics,
                    never,
                    polled: false,
                })
            })
        })
        .and_then(|linker| {
            linker.func_ask(
                "h",
                "fill",
                |_, at: i32| Ok(at),
                |mut caller: Caller<'_, Data>, at: i32, answer: i32| {
                    caller
                        .memory_mut()
                        .write_u32(at.cast_unsigned(), answer.cast_unsigned())?;
                    Ok::<_, HostError>(answer)
                },
            )
        })
        .and_then(|linker| {
            linker.func("h", "fail", || -> Result<(), HostError> {
                Err(HostError::message("told"))
            })
        })
        .and_then(|linker| {
            linker.func("h", "run", |mut caller: Caller<'_, Data>| {
                if let Some(run) = caller.data_mut().run.take() {
                    run();
                }
            })
        })
        .expect("the names are free");
    let region = Region::builder()
        .slots(slots)
        .reset(reset)
        .build()
        .expect("a region");
    region
        .prepare(&common::wat(GUEST), &linker)
        .expect("it is linked")
}

fn instance(prepared: &P) -> I {
    prepared
        .try_instantiate(Data::default())
        .expect("a slot is free")
}

fn func(prepared: &P, name: &str) -> TypedFunc<i32, i32> {
    prepared.func(name).expect("it is exported")
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&noop_waker()))
}

// Memory unsafety.

#[test]
fn a_trap_at_the_end_of_a_slice_is_reported() {
    let prepared = prepare(1);
    let traps = func(&prepared, "traps");
    let mut instance = instance(&prepared);
    let switch = instance.kill_switch();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| preempts(&switch, &done));
        let _done = Sets(&done);
        let slice = Duration::from_secs(3600);
        for _ in 0..share(60_000, 3) {
            instance.memory_mut().write_u32(0, 0).expect("a page");
            let mut step = instance.timeslice(slice).start(&traps, 0);
            while matches!(step, Ok(Step::Preempted)) {
                step = instance.timeslice(slice).resume(&traps);
            }
            assert!(matches!(step, Err(CallError::Trap(_))), "{step:?}");
            let ran = instance.memory().read_u32(0).expect("a page");
            assert_eq!(ran, 1, "number of runs up to the trap in one call");
        }
    });
}

/// A trap and a preemption coincide. The slot's next instance must not report the trap.
#[test]
fn a_trap_at_the_end_of_a_slice_does_not_reach_the_next_instance() {
    let prepared = prepare(1);
    let (traps, fails) = (func(&prepared, "traps"), func(&prepared, "fails"));
    let slice = Duration::from_secs(3600);
    for _ in 0..share(600, 8) {
        let mut first = instance(&prepared);
        let switch = first.kill_switch();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| preempts(&switch, &done));
            let _done = Sets(&done);
            while !matches!(first.timeslice(slice).start(&traps, 0), Ok(Step::Preempted)) {}
        });
        drop(first);
        let mut next = instance(&prepared);
        let error = next.call(&fails, 0).expect_err("the host function fails");
        assert!(matches!(error, CallError::Host(_)), "{error:?}");
    }
}

/// Preempts the running guest repeatedly, with pauses of different length.
fn preempts(switch: &pirn_runtime::KillSwitch, done: &AtomicBool) {
    let mut pause = 1_u32;
    while !done.load(Ordering::SeqCst) {
        pause = pause.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for _ in 0..pause >> 22 {
            std::hint::spin_loop();
        }
        switch.preempt();
    }
}

struct Sets<'a>(&'a AtomicBool);

impl Drop for Sets<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_guest_that_traps_at_the_end_of_a_slice_does_not_escape() {
    common::exited_with("escapes", 0);
}

fn escapes() {
    let prepared = prepare(1);
    let escapes = func(&prepared, "escapes");
    let mut instance = instance(&prepared);
    let switch = instance.kill_switch();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| preempts(&switch, &done));
        let _done = Sets(&done);
        let slice = Duration::from_secs(3600);
        for _ in 0..share(100_000, 5) {
            let mut step = instance.timeslice(slice).start(&escapes, 2000);
            while matches!(step, Ok(Step::Preempted)) {
                step = instance.timeslice(slice).resume(&escapes);
            }
            assert!(matches!(step, Err(CallError::Trap(_))), "{step:?}");
        }
    });
}

#[test]
fn a_question_is_not_answered_in_a_later_call() {
    let prepared = prepare(1);
    let (is, asks) = (func(&prepared, "is"), func(&prepared, "asks"));
    let fakes: TypedFunc<i64, i32> = prepared.func("fakes").expect("it is exported");
    let mut instance = instance(&prepared);
    assert!(matches!(instance.start(&is, 1), Ok(Step::Returned(1))));
    assert!(instance.call(&asks, 1).is_err());
    let mut call = instance.call_async(&fakes, 0x4141_4141_4141);
    assert!(poll(&mut call).is_pending());
    std::mem::forget(call);
    // The future was forgotten, so the instance has no call that it could resume.
    let step = instance.resume_with(&fakes, 7);
    assert!(matches!(step, Err(CallError::State(_))), "{step:?}");
}

#[test]
fn a_panicking_drop_of_a_future_does_not_resume_the_guest() {
    let prepared = prepare(1);
    let fakes: TypedFunc<i64, i32> = prepared.func("fakes").expect("it is exported");
    let mut instance = instance(&prepared);
    instance.data_mut().panics = true;
    let mut call = instance.call_async(&fakes, 0x4141_4141_4141);
    assert!(poll(&mut call).is_pending());
    let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut call)));
    assert!(polled.is_err(), "its drop panics");
    let polled = poll(&mut call);
    assert!(matches!(polled, Poll::Ready(Err(_))), "{polled:?}");
}

// Hangs, lost slots, memory that grows.

#[test]
fn a_panicking_drop_of_a_waker_leaks_no_slot() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let prepared = prepare(1);
    let fakes: TypedFunc<i64, i32> = prepared.func("fakes").expect("it is exported");
    let mut first = instance(&prepared);
    let limit = Duration::from_secs(3600);
    let waker = Waker::from(Arc::new(Bad));
    let mut call = first.deadline(limit).call_async(&fakes, 1);
    assert!(
        Pin::new(&mut call)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        drop(call);
        drop(waker);
    }));
    let last = catch_unwind(AssertUnwindSafe(|| drop(first)));
    assert!(dropped.is_err() || last.is_err());
    assert!(prepared.try_instantiate(Data::default()).is_ok());
}

#[test]
fn a_panic_of_a_waker_does_not_end_the_timer_thread() {
    common::exited_with("timer", 0);
}

#[test]
fn ended_calls_with_deadlines_leak_no_memory() {
    common::exited_with("deadlines", 0);
}

#[test]
fn preemptions_during_a_host_function_leak_no_memory() {
    common::exited_with("preemptions", 0);
}

/// Not a test: the child processes run one of the cases here.
#[test]
#[ignore = "started by the other tests"]
fn case() {
    match common::case().as_str() {
        "timer" => timer(),
        "deadlines" => deadlines(),
        "preemptions" => preemptions(),
        "forks" => forks(),
        "escapes" => escapes(),
        other => match other.split_once(' ') {
            Some(("left", reset)) => left(common::reset_named(reset)),
            Some(("answers", reset)) => answers(common::reset_named(reset)),
            _ => panic!("no case {other:?}"),
        },
    }
}

fn timer() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("dropped");
            }
        }
    }
    static WOKEN: AtomicBool = AtomicBool::new(false);
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            WOKEN.store(true, Ordering::SeqCst);
            panic_any(Payload);
        }
    }
    let prepared = prepare(1);
    let fakes: TypedFunc<i64, i32> = prepared.func("fakes").expect("it is exported");
    let mut instance = instance(&prepared);
    let waker = Waker::from(Arc::new(Bad));
    let limit = Duration::from_millis(100);
    // Repeat the call until the guest waits when the deadline passes.
    with_longer_limits(limit, |limit| {
        let mut call = instance.deadline(limit).call_async(&fakes, 1);
        let polled = Pin::new(&mut call).poll(&mut Context::from_waker(&waker));
        while polled.is_pending() && !WOKEN.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        polled.is_pending().then_some(())
    });
    common::setup::limit_run_time();
    let forever = func(&prepared, "forever");
    let error = instance.deadline(limit).call(&forever, 1);
    assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
}

fn deadlines() {
    let prepared = prepare(1);
    let fakes: TypedFunc<i64, i32> = prepared.func("fakes").expect("it is exported");
    let mut instance = instance(&prepared);
    let mut grown = 0;
    for n in 0..20_000 {
        let mut call = instance.deadline(Duration::MAX).call_async(&fakes, 1);
        assert!(poll(&mut call).is_pending());
        assert!(matches!(poll(&mut call), Poll::Ready(Ok(0))));
        if n == 100 {
            grown = -heap_bytes();
        }
    }
    grown += heap_bytes();
    assert!(grown < 64 << 10, "{grown} bytes");
}

fn preemptions() {
    let prepared = prepare(1);
    let runs = func(&prepared, "runs");
    let mut instance = instance(&prepared);
    let switch = instance.kill_switch();
    instance.data_mut().run = Some(Box::new(move || {
        let before = heap_bytes();
        for _ in 0..20_000 {
            assert!(switch.preempt());
        }
        let grown = heap_bytes() - before;
        assert!(grown < 64 << 10, "{grown} bytes");
    }));
    let slice = Duration::from_secs(3600);
    let step = instance.timeslice(slice).start(&runs, 1);
    assert!(matches!(step, Ok(Step::Preempted)), "{step:?}");
}

#[test]
fn a_guest_is_resumed_on_a_thread_that_blocks_all_signals() {
    for reset in common::resets() {
        common::exited_with(&format!("answers {reset}"), 0);
    }
}

fn answers(reset: pirn_runtime::Reset) {
    let prepared = prepare_with(1, reset);
    let fills = func(&prepared, "fills");
    for _ in 0..3 {
        let mut instance = instance(&prepared);
        assert!(matches!(instance.start(&fills, 9000), Ok(Step::Asked(_))));
        let answering = thread::spawn(move || {
            // SAFETY: sigfillset(3) fills the set before pthread_sigmask(3) reads it.
            unsafe {
                let mut all: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&raw mut all);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
            }
            instance.resume_with(&fills, 7)
        });
        let step = answering.join().expect("no panic");
        assert!(matches!(step, Ok(Step::Returned(7))), "{step:?}");
    }
}

#[test]
fn a_waiting_call_in_a_child_has_its_deadline() {
    common::exited_with("forks", 0);
}

fn forks() {
    let prepared = prepare_with(1, common::reset_named("decommitted"));
    let fakes: TypedFunc<i64, i32> = prepared.func("fakes").expect("it is exported");
    let mut instance = instance(&prepared);
    instance.data_mut().never = true;
    with_longer_limits(Duration::from_millis(100), |limit| {
        let mut call = instance.deadline(limit).call_async(&fakes, 1);
        let pending = poll(&mut call).is_pending();
        pending.then(|| fork_and_end_in_child(call))
    });
}

/// Forks. In the child, the waiting call must end at its deadline.
fn fork_and_end_in_child(call: impl Future<Output = Result<i32, CallError>>) {
    // SAFETY: the child uses only this thread's state, and ends with _exit(2).
    match unsafe { libc::fork() } {
        0 => {
            common::setup::limit_run_time();
            let ended = futures::executor::block_on(call);
            let code = i32::from(!matches!(ended, Err(CallError::Deadline(_))));
            // SAFETY: _exit(2) takes no pointers.
            unsafe { libc::_exit(code) };
        }
        child => {
            let mut status = -1;
            // SAFETY: `status` is a valid `c_int` that waitpid(2) writes to.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0, "exit status of the child");
        }
    }
}

#[test]
fn a_finished_call_keeps_no_waker() {
    struct Counted(AtomicU32);
    impl ArcWake for Counted {
        fn wake_by_ref(this: &Arc<Self>) {
            this.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let prepared = prepare(1);
    let fakes: TypedFunc<i64, i32> = prepared.func("fakes").expect("it is exported");
    let mut instance = instance(&prepared);
    let counted = Arc::new(Counted(AtomicU32::new(0)));
    let waker = futures::task::waker(Arc::clone(&counted));
    let limit = Duration::from_secs(3600);
    let mut call = instance.deadline(limit).call_async(&fakes, 1);
    let polled = Pin::new(&mut call).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    drop(call);
    drop(waker);
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
fn a_slice_of_zero_time_makes_progress() {
    let prepared = prepare(1);
    let counts = func(&prepared, "counts");
    let mut instance = instance(&prepared);
    let mut steps = 1;
    let mut step = instance
        .timeslice(Duration::ZERO)
        .start(&counts, 10_000_000);
    while !matches!(step, Ok(Step::Returned(0))) {
        assert!(matches!(step, Ok(Step::Preempted)), "{step:?}");
        assert!(steps < 1_000_000, "the guest makes no progress");
        step = instance.timeslice(Duration::ZERO).resume(&counts);
        steps += 1;
    }
    println!("{steps} steps");
}

// Wrong results.

#[test]
fn a_plain_call_after_a_step_cannot_ask() {
    let prepared = prepare(1);
    let (is, asks) = (func(&prepared, "is"), func(&prepared, "asks"));
    let mut instance = instance(&prepared);
    let before = instance
        .call(&asks, 1)
        .expect_err("no host answers the question");
    assert!(matches!(before, CallError::State(_)), "{before:?}");
    assert!(matches!(instance.start(&is, 1), Ok(Step::Returned(1))));
    let after = instance
        .call(&asks, 1)
        .expect_err("no host answers the question");
    assert_eq!(after.to_string(), before.to_string());
}

#[test]
fn a_refused_async_call_keeps_the_suspended_call() {
    let prepared = prepare(1);
    let asks = func(&prepared, "asks");
    let mut instance = instance(&prepared);
    assert!(matches!(instance.start(&asks, 1), Ok(Step::Asked(1))));
    let mut call = instance.call_async(&asks, 1);
    let Poll::Ready(Err(CallError::State(error))) = poll(&mut call) else {
        panic!("it is refused");
    };
    assert_eq!(
        (error.operation(), error.state()),
        (Operation::Call, CallState::Asked)
    );
    drop(call);
    assert!(instance.is_suspended());
    assert!(matches!(
        instance.resume_with(&asks, 9),
        Ok(Step::Returned(9))
    ));
}

#[test]
fn a_question_after_the_deadline_is_dropped() {
    let prepared = prepare(1);
    let asks = func(&prepared, "asks");
    let mut instance = instance(&prepared);
    with_longer_limits(Duration::from_millis(1), |limit| {
        let step = instance.deadline(limit).start(&asks, SLOW);
        assert!(matches!(step, Err(CallError::Deadline(_))), "{step:?}");
        instance.data().asked.then_some(())
    });
    let step = instance.start(&asks, 1);
    assert!(matches!(step, Ok(Step::Asked(1))), "{step:?}");
}

#[test]
fn a_killed_guest_gets_no_answer() {
    let prepared = prepare(1);
    let fills = func(&prepared, "fills");
    let mut instance = instance(&prepared);
    let switch = instance.kill_switch();
    assert!(matches!(instance.start(&fills, -4), Ok(Step::Asked(-4))));
    assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
    let step = instance.resume_with(&fills, 1);
    assert!(matches!(step, Err(CallError::Killed(_))), "{step:?}");
}

/// In a child process without the guest's memory, an answer must not be written to it.
#[test]
fn an_answer_in_a_child_without_the_memory_is_refused() {
    for reset in common::resets() {
        common::exited_with(&format!("left {reset}"), 0);
    }
}

fn left(reset: pirn_runtime::Reset) {
    let prepared = prepare_with(1, reset);
    let fills = func(&prepared, "fills");
    let mut instance = instance(&prepared);
    assert!(matches!(instance.start(&fills, 64), Ok(Step::Asked(64))));
    // SAFETY: the child uses only this thread's state, and ends with _exit(2).
    match unsafe { libc::fork() } {
        0 => {
            let ended = instance.resume_with(&fills, 1);
            let as_it_is = match &ended {
                Ok(step) => matches!(step, Step::Returned(1)),
                Err(CallError::Invalid(why)) => **why == InvalidCall::NotInherited,
                Err(_) => false,
            };
            if !as_it_is {
                eprintln!("{ended:?}");
            }
            // SAFETY: _exit(2) takes no pointers.
            unsafe { libc::_exit(i32::from(!as_it_is)) };
        }
        child => {
            let mut status = -1;
            // SAFETY: `status` is a valid `c_int` that waitpid(2) writes to.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0, "exit status of the child");
        }
    }
}

/// A kill switch created after the suspension still finds the suspended call.
#[test]
fn a_later_kill_switch_finds_the_suspended_call() {
    let prepared = prepare(1);
    let asks = func(&prepared, "asks");
    let mut instance = instance(&prepared);
    assert!(matches!(instance.start(&asks, 1), Ok(Step::Asked(1))));
    let switch = instance.kill_switch();
    assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
}

#[test]
fn the_error_of_a_future_names_its_limits() {
    let prepared = prepare(1);
    let forever = func(&prepared, "forever");
    let (limit, slice) = (Duration::from_millis(5), Duration::from_micros(100));
    for of_the_processor in [false, true] {
        let mut instance = instance(&prepared);
        let sliced = instance.timeslice(slice);
        let mut call = if of_the_processor {
            sliced.cpu_budget(limit).call_async(&forever, 1)
        } else {
            sliced.deadline(limit).call_async(&forever, 1)
        };
        let error = loop {
            if let Poll::Ready(ended) = poll(&mut call) {
                break ended.expect_err("it never returns");
            }
        };
        let (CallError::Deadline(stop) | CallError::CpuBudget(stop)) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(stop.limit(), Some(limit), "{error}");
    }
}

#[test]
fn a_resumed_forgotten_call_may_ask() {
    let prepared = prepare(1);
    let works = func(&prepared, "works_and_asks");
    let mut instance = instance(&prepared);
    let slice = Duration::from_micros(100);
    with_more_iterations(100_000_000, |n| {
        let mut call = instance.timeslice(slice).call_async(&works, n);
        let pending = poll(&mut call).is_pending();
        pending.then(|| std::mem::forget(call))
    });
    // From here on the caller makes the call step by step.
    let step = instance.resume(&works);
    assert!(matches!(step, Ok(Step::Asked(1))), "{step:?}");
}

#[test]
fn guests_compute_equal_results_across_threads_and_preemptions() {
    let prepared = prepare(4);
    let all = func(&prepared, "mixes");
    let expected = {
        let mut whole = instance(&prepared);
        let mut step = whole.start(&all, 3000);
        while let Ok(Step::Asked(n)) = step {
            step = whole.resume_with(&all, n ^ 5);
        }
        step.expect("it returns")
    };
    assert!(matches!(expected, Step::Returned(_)), "{expected:?}");
    let steps_max = share(800_000, 14);
    let steps = AtomicU64::new(0);
    let (give, take) =
        std::sync::mpsc::sync_channel::<(I, bool, Result<Step<i32, i32>, CallError>)>(8);
    let take = std::sync::Mutex::new(take);
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            let (give, take, prepared, expected, steps) =
                (give.clone(), &take, &prepared, &expected, &steps);
            scope.spawn(move || {
                let mut random = Random(seed);
                while steps.load(Ordering::Relaxed) < steps_max {
                    let got = take.lock().expect("no panic").try_recv().ok();
                    let (mut instance, killed, step) = match got {
                        Some(got) => got,
                        None => {
                            let Ok(mut new) = prepared.try_instantiate(Data::default()) else {
                                thread::yield_now();
                                continue;
                            };
                            let slice = Duration::from_nanos(random.below(60_000));
                            let step = new.timeslice(slice).start(&all, 3000);
                            (new, false, step)
                        }
                    };
                    steps.fetch_add(1, Ordering::Relaxed);
                    let slice = Duration::from_nanos(random.below(60_000));
                    let switch = instance.kill_switch();
                    let kill = random.below(200) == 0;
                    let step = match step {
                        Ok(Step::Returned(n)) => {
                            assert_eq!(&Step::Returned(n), expected);
                            continue;
                        }
                        Err(CallError::Killed(_)) if killed => continue,
                        Err(error) => panic!("{error:?}"),
                        Ok(_) if random.below(50) == 0 => continue,
                        Ok(Step::Asked(n)) => {
                            if kill {
                                // A kill from an earlier round may have arrived after the step
                                // ended.
                                let met = switch.kill();
                                assert!(met.is_ok() || killed, "{met:?}");
                            }
                            instance.timeslice(slice).resume_with(&all, n ^ 5)
                        }
                        Ok(Step::Preempted) => thread::scope(|scope| {
                            let at = random.below(3000);
                            let preempt = random.below(4) == 0;
                            if kill || preempt {
                                scope.spawn(move || {
                                    for _ in 0..at {
                                        std::hint::spin_loop();
                                    }
                                    if kill {
                                        let _ = switch.kill();
                                    } else {
                                        switch.preempt();
                                    }
                                });
                            }
                            instance.timeslice(slice).resume(&all)
                        }),
                    };
                    // If the channel is full, the instance is dropped here, which ends the call.
                    let _ = give.try_send((instance, killed || kill, step));
                }
            });
        }
    });
}
