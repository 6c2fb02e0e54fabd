//! Kills or preempts a call at every instruction: on entry to the guest, in guest code, during host
//! calls, and on exit.
//!
//! The test single-steps the calling thread (module `arch`). At the chosen instruction, the step's
//! signal handler kills or preempts the call, so the interrupt arrives exactly there.
//!
//! Each test runs in a process of its own: its signal handler, and on aarch64 its breakpoints in
//! the runtime's code, would stop other tests, too.
//!
//! A run over all instructions takes minutes. The tests therefore use a sample of the instructions
//! unless `PIRN_CAMPAIGN` says otherwise (see [`stride`]).
#![allow(
    unsafe_code,
    reason = "single steps need a signal handler and assembly"
)]

mod arch;
use crate::common;

use arch::stepped;
use common::{alone, campaign::every};
use pirn_runtime::{
    CallError, Instance, KillOutcome, KillSwitch, Linker, Prepared, Region, Step, TrapCode,
    TypedFunc,
};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Guests that count in their memory; one of them also calls the host between.
const COUNTERS: &str = r#"(module
  (import "h" "quick" (func $quick (param i32) (result i32)))
  (memory (export "memory") 1)
  (func $count (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))))
  (func (export "counts") (loop $l (call $count) (br $l)))
  (func (export "counts_and_calls")
    (loop $l (call $count) (drop (call $quick (i32.const 1))) (br $l)))
  (func $tail (export "counts_by_tail_calls") (call $count) (return_call $tail))
  ;; From few parameters to many and back, and a frame that is returned to.
  (func $few (param $n i32) (result i64)
    (if (result i64) (local.get $n)
      (then (return_call $many (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4) (i64.const 5) (i64.const 6)
        (i64.const 7) (i64.const 8) (i64.const 9) (i64.const 10) (i64.const 11) (i64.const 12) (local.get $n)))
      (else (i64.const 3))))
  (func $many (param i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64) (param $n i32) (result i64)
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.wrap_i64 (i64.add (local.get 8) (local.get 11)))))
    (if (i32.and (local.get $n) (i32.const 1)) (then (call $count)))
    (return_call $few (i32.sub (local.get $n) (i32.const 1))))
  (func (export "tails") (result i64) (local $a i64) (local $i i32)
    (loop $l
      (local.set $a (i64.add (i64.mul (local.get $a) (i64.const 7)) (call $few (local.get $i))))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 6))))
    (i64.add (local.get $a) (i64.extend_i32_s (i32.load (i32.const 0)))))
  ;; Numbers of all kinds, held in registers across calls of the host.
  (func (export "mixes") (result i64)
    (local $i i32) (local $v v128) (local $w v128) (local $x f64) (local $y f32) (local $a i64) (local $b i64)
    (local.set $v (i32x4.splat (i32.const 3)))
    (local.set $x (f64.const 1.5)) (local.set $y (f32.const 0.75)) (local.set $b (i64.const 0x9e3779b97f4a7c15))
    (loop $l
      (local.set $v (i32x4.add (i32x4.mul (local.get $v) (i32x4.splat (i32.const 5))) (i32x4.splat (local.get $i))))
      (local.set $w (i64x2.add (v128.xor (local.get $w) (local.get $v)) (i64x2.splat (local.get $b))))
      (local.set $x (f64.add (f64.mul (local.get $x) (f64.const 1.0625)) (f64.convert_i32_s (local.get $i))))
      (local.set $y (f32.sub (f32.sqrt (f32.mul (local.get $y) (f32.const 3))) (f32.const 0.125)))
      (local.set $a (i64.rotl (i64.xor (local.get $a) (local.get $b)) (i64.const 7)))
      (local.set $b (i64.mul (local.get $b) (i64.or (local.get $a) (i64.const 1))))
      (if (i32.eqz (i32.and (local.get $i) (i32.const 1)))
        (then (local.set $a (i64.add (local.get $a) (i64.extend_i32_s (call $quick (local.get $i)))))
              (call $count)))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))
    (i64.add
      (i64.add (i64.add (local.get $a) (local.get $b)) (i64.add (i64.extend_i32_s (i32.load (i32.const 0)))
        (i64.reinterpret_f64 (f64.add (local.get $x) (f64.promote_f32 (local.get $y))))))
      (i64.add (i64x2.extract_lane 0 (local.get $w)) (i64x2.extract_lane 1 (local.get $w)))))
  ;; Copies and fills in the first page, whose lengths are computed. Two copies overlap.
  (func (export "copies") (result i64) (local $none i32)
    (local.set $none (i32.load (i32.const 0)))
    (i64.store (i32.const 120) (i64.const 0x0123456789abcdef))
    (i64.store (i32.const 190) (i64.const 0x1122334455667788))
    (memory.fill (i32.const 130) (i32.const 5) (i32.add (local.get $none) (i32.const 66)))
    (memory.copy (i32.const 1000) (i32.const 100) (i32.add (local.get $none) (i32.const 100)))
    (memory.copy (i32.const 1008) (i32.const 1000) (i32.add (local.get $none) (i32.const 700)))
    (memory.copy (i32.const 501) (i32.const 1003) (i32.add (local.get $none) (i32.const 700)))
    (memory.copy (i32.const 509) (i32.const 517) (i32.add (local.get $none) (i32.const 300)))
    (memory.fill (i32.const 3001) (i32.const 7) (i32.add (local.get $none) (i32.const 700)))
    (i64.add (i64.mul (i64.load (i32.const 520)) (i64.const 31))
      (i64.add (i64.mul (i64.load (i32.const 1095)) (i64.const 37)) (i64.load (i32.const 3695)))))
  (func (export "counts_twice") (result i32)
    (call $count) (drop (call $quick (i32.const 1))) (call $count)
    (i32.load (i32.const 0))))"#;

/// Two calls through a table that the compiler knows. The second finds no function and traps.
const TRAPS: &str = r#"(module
  (memory (export "memory") 1)
  (func $count (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))))
  (func (export "counts") (loop $l (call $count) (br $l)))
  (table 3 funcref) (elem (i32.const 1) func $count $count) (global $none (mut i32) (i32.const 0))
  (func (export "counts_and_traps")
    (call_indirect (i32.add (global.get $none) (i32.const 1))) (call_indirect (global.get $none))))"#;

/// Only one test at a time may step.
static STEPPING: Mutex<()> = Mutex::new(());
/// Number of instructions that were stepped over.
static STEPS: AtomicU32 = AtomicU32::new(0);
/// The step number at which to kill or preempt.
static AT: AtomicU32 = AtomicU32::new(0);
/// Whether to preempt at that step in place of a kill.
static PREEMPTS: AtomicBool = AtomicBool::new(false);
/// The switch of the instance that runs.
static SWITCH: Mutex<Option<KillSwitch>> = Mutex::new(None);
/// The state that the kill found: 0 none, 1 idle, 2 guest code, 3 a host function.
static FOUND: AtomicI32 = AtomicI32::new(0);
/// Address of the guest's counter, and its value at the kill.
static COUNTER: AtomicPtr<i32> = AtomicPtr::new(std::ptr::null_mut());
static COUNTED: AtomicI32 = AtomicI32::new(0);

/// The step handler calls this at each instruction.
fn instant() {
    let at = AT.load(Ordering::SeqCst);
    if STEPS.fetch_add(1, Ordering::SeqCst) != at {
        return;
    }
    if PREEMPTS.load(Ordering::SeqCst) {
        preempt();
        return;
    }
    let switch = SWITCH
        .try_lock()
        .expect("no other thread holds the lock during a step");
    let met = switch
        .as_ref()
        .expect("the instance has a kill switch")
        .kill();
    let met = match met.expect("only this handler kills") {
        KillOutcome::Idle => 1,
        KillOutcome::Guest => 2,
        KillOutcome::Host => 3,
        other => panic!("{other:?}"),
    };
    // SAFETY: `COUNTER` points into the guest's memory, which stays mapped while the instance
    // lives. The guest is stopped in this handler.
    let counted = unsafe { COUNTER.load(Ordering::SeqCst).read_volatile() };
    COUNTED.store(counted, Ordering::SeqCst);
    FOUND.store(met, Ordering::SeqCst);
}

/// Asks another thread to end the time slice, and waits until that thread has sent the interrupt or
/// decided not to. If the other thread still waits for a lock that this thread holds, this function
/// asks nothing.
fn preempt() {
    let asked = PREEMPT.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
    if asked.is_err() {
        return;
    }
    let other = OTHER.try_lock().expect("no other thread holds the lock");
    other.as_ref().expect("it was started").unpark();
    // The other thread sends no interrupt if a host function runs. It may also wait for a lock that
    // this thread holds, and sleeps then. On a busy machine it may take any time.
    while PREEMPT.load(Ordering::SeqCst) != 0 && !interrupted() && !other_sleeps() {
        std::thread::yield_now();
    }
}

/// The kernel's id of the other thread, or 0 before that thread runs.
static OTHER_ID: AtomicI32 = AtomicI32::new(0);

/// Whether the other thread sleeps (proc_pid_stat(5)). A signal handler calls this, so it allocates
/// nothing.
fn other_sleeps() -> bool {
    let (mut path, mut text) = ([0_u8; 64], [0_u8; 512]);
    let id = OTHER_ID.load(Ordering::SeqCst);
    write!(&mut path[..63], "/proc/self/task/{id}/stat").expect("there is room");
    // SAFETY: `path` ends with a zero, and read(2) writes at most as many bytes as `text` has.
    unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY);
        libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
    }
    // The state is a letter after the name in parentheses.
    let name = text[..510].iter().rposition(|byte| *byte == b')');
    name.is_none_or(|end| text[end + 2] == b'S')
}

/// The request to the other thread: 0 none, 1 end the slice, 2 exit.
static PREEMPT: AtomicU32 = AtomicU32::new(0);

/// Whether an interrupt is pending for this thread.
fn interrupted() -> bool {
    // SAFETY: sigpending(2) writes a valid set before sigismember(3) reads it.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGURG) == 1
    }
}

/// The thread that runs [`preempts`].
static OTHER: Mutex<Option<Thread>> = Mutex::new(None);

fn preempts() {
    // SAFETY: gettid(2) takes no arguments.
    OTHER_ID.store(unsafe { libc::gettid() }, Ordering::SeqCst);
    loop {
        match PREEMPT.load(Ordering::SeqCst) {
            0 => std::thread::park(),
            1 => {
                let switch = SWITCH.lock().expect("no panic");
                switch
                    .as_ref()
                    .expect("the instance has a kill switch")
                    .preempt();
                PREEMPT.store(0, Ordering::SeqCst);
            }
            _ => return,
        }
    }
}

fn prepare(text: &str) -> Prepared<()> {
    arch::install();
    let mut linker = Linker::new();
    linker
        .func("h", "quick", |n: i32| n)
        .expect("the name is free");
    let region = Region::builder().slots(1).build().expect("a region");
    region
        .prepare(&common::wat(text), &linker)
        .expect("it is linked")
}

/// Makes a call that is killed at an instruction; returns the result, the final count, and the
/// instance.
fn killed_at<R: pirn_runtime::Results>(
    prepared: &Prepared<()>,
    func: &TypedFunc<(), R>,
    at: u32,
) -> (Result<R, CallError>, i32, Instance<()>) {
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    *SWITCH.lock().expect("no panic") = Some(instance.kill_switch());
    // Touch the page now, so that no page fault happens during the steps.
    instance.memory_mut().write_u32(0, 0).expect("a page");
    let counter = instance.memory().as_slice().as_ptr().cast_mut().cast();
    COUNTER.store(counter, Ordering::SeqCst);
    FOUND.store(0, Ordering::SeqCst);
    PREEMPTS.store(false, Ordering::SeqCst);
    AT.store(at, Ordering::SeqCst);
    STEPS.store(0, Ordering::SeqCst);
    let ended = stepped(|| instance.call(func, ()));
    let counted = instance.memory().read_u32(0).expect("a page");
    (ended, counted.cast_signed(), instance)
}

/// Number of instructions of a whole call that nothing kills. An unoptimised runtime executes five
/// times as many as an optimised one.
fn instructions<R: pirn_runtime::Results>(prepared: &Prepared<()>, func: &TypedFunc<(), R>) -> u32 {
    let (ended, ..) = killed_at(prepared, func, u32::MAX);
    assert!(ended.is_ok() || matches!(ended, Err(CallError::Trap(_))));
    STEPS.load(Ordering::SeqCst)
}

/// Distance between two instructions at which the test intervenes. It is at least `sample`. A trial
/// at instruction n takes n steps, so the distance is large enough that all trials together take at
/// most [`STEPS_MAX`] steps.
fn stride(sample: usize, instructions: u32) -> usize {
    let all = u64::from(instructions).pow(2) / 2;
    every(sample.max((all / STEPS_MAX) as usize))
}

/// Maximum number of steps of the trials of one call. A step takes 15 us in a virtual machine.
const STEPS_MAX: u64 = 9_000;

/// Instructions that cover the way into a loop and several iterations of it.
fn many(prepared: &Prepared<()>) -> u32 {
    let twice = prepared.func::<(), i32>("counts_twice");
    instructions(prepared, &twice.expect("it is exported")) + arch::ITERATIONS
}

/// Ends some calls early, so that the timer thread exists and need not allocate later.
fn warm_up(prepared: &Prepared<()>) {
    let counts = prepared.func::<(), ()>("counts").expect("it is exported");
    // Start the timer thread before the first step. A thread that starts during a step inherits the
    // trap flag, and blocks the signal of the steps.
    let mut late = prepared.try_instantiate(()).expect("the slot is free");
    let ended = late.deadline(Duration::from_millis(1)).call(&counts, ());
    assert!(matches!(ended, Err(CallError::Deadline(_))), "{ended:?}");
    drop(late);
    for at in 0..40 {
        let (ended, ..) = killed_at(prepared, &counts, arch::ITERATIONS + at);
        assert!(matches!(ended, Err(CallError::Killed(_))), "{ended:?}");
    }
}

#[test]
fn a_loop_can_be_killed_at_any_instruction() {
    alone(kill_loops);
}

fn kill_loops() {
    let _alone = STEPPING.lock().expect("no panic");
    let prepared = prepare(COUNTERS);
    warm_up(&prepared);
    let many = many(&prepared);
    for name in ["counts", "counts_and_calls", "counts_by_tail_calls"] {
        let func = prepared.func::<(), ()>(name).expect("it is exported");
        let mut met = [0u32; 4];
        // Whether a trial found each state that the call has.
        let all_met = |met: &[u32; 4]| {
            let outside = met[1] > 0 && (met[3] > 0 || name != "counts_and_calls");
            met[2] > 0 && (outside || !arch::EVERYWHERE)
        };
        // Covers the way in and several iterations of the loop. The distance may be a multiple of
        // the loop's length, so that each trial finds the same state. Then trials at successive
        // instructions follow until each state was found.
        let sampled = (0..many).step_by(stride(7, many));
        let count = sampled.len();
        for (n, at) in sampled.chain(arch::ITERATIONS..many).enumerate() {
            if n >= count && all_met(&met) {
                break;
            }
            let (ended, counted, _) = killed_at(&prepared, &func, at);
            assert!(
                matches!(ended, Err(CallError::Killed(_))),
                "{at}: {ended:?}"
            );
            met[FOUND.load(Ordering::SeqCst) as usize] += 1;
            // The first interrupt ended the call: with the timer's second one, the guest would have
            // counted further.
            let then = COUNTED.load(Ordering::SeqCst);
            assert!(
                (then..=then + 1).contains(&counted),
                "{name} {at}: continued from {then} to {counted}"
            );
        }
        println!("{name}: idle, guest, host: {:?}", &met[1..]);
        assert!(met[0] == 0 && all_met(&met), "{met:?}");
        if arch::EVERYWHERE {
            assert_eq!(met[3] > 0, name == "counts_and_calls", "{met:?}");
        }
    }
}

#[test]
fn a_kill_near_a_return_kills_or_returns() {
    alone(kill_near_returns);
}

fn kill_near_returns() {
    let _alone = STEPPING.lock().expect("no panic");
    let prepared = prepare(COUNTERS);
    warm_up(&prepared);
    let func = prepared
        .func::<(), i32>("counts_twice")
        .expect("it is exported");
    let whole = instructions(&prepared, &func);
    let (mut killed, mut returned, every) = (0, 0, stride(3, whole));
    for at in (0..2 * whole).step_by(every) {
        let (ended, counted, mut instance) = killed_at(&prepared, &func, at);
        match ended {
            Ok(result) => {
                assert_eq!((result, counted), (2, 2), "{at}");
                returned += 1;
            }
            Err(CallError::Killed(_)) => {
                assert!((0..=2).contains(&counted), "{at}");
                killed += 1;
            }
            Err(error) => panic!("{at}: {error}"),
        }
        if FOUND.load(Ordering::SeqCst) == 0 {
            // The call ended before the chosen instruction.
            assert_eq!(instance.call(&func, ()).expect("it lives"), 4);
            break;
        }
        let error = instance.call(&func, ()).expect_err("it was killed");
        assert!(matches!(error, CallError::Killed(_)), "{at}: {error}");
    }
    println!("{killed} killed, {returned} returned");
    assert!(killed > 50 / every && (returned > 10 / every || !arch::EVERYWHERE));
}

/// The exit stub must find the right trap code, also if a kill arrives in the stub.
#[test]
fn a_kill_near_a_table_trap_kills_or_traps() {
    alone(kill_near_table_traps);
}

fn kill_near_table_traps() {
    if !arch::EVERYWHERE {
        common::not_run("kills among calls by a table: what steps writes over its array, too");
        return;
    }
    let _alone = STEPPING.lock().expect("no panic");
    let prepared = prepare(TRAPS);
    warm_up(&prepared);
    let func = prepared.func::<(), ()>("counts_and_traps");
    let func = func.expect("it is exported");
    let whole = instructions(&prepared, &func);
    let (mut killed, mut trapped, every) = (0, 0, stride(3, whole));
    for at in (0..2 * whole).step_by(every) {
        let (ended, counted, _) = killed_at(&prepared, &func, at);
        match ended.expect_err("it never returns") {
            CallError::Trap(trap) => {
                let told = (trap.code(), trap.backtrace().len(), counted);
                assert_eq!(told, (TrapCode::UninitializedElement, 1, 1), "{at}");
                trapped += 1;
            }
            CallError::Killed(_) => {
                assert!((0..=1).contains(&counted), "{at}");
                killed += 1;
            }
            error => panic!("{at}: {error}"),
        }
        if FOUND.load(Ordering::SeqCst) == 0 {
            break;
        }
    }
    println!("{killed} killed, {trapped} trapped");
    assert!(killed > 50 / every && trapped > 0);
}

#[test]
fn a_guest_can_be_preempted_at_any_instruction() {
    alone(preempt_loops);
}

fn preempt_loops() {
    preempted_at("mixes", 37);
}

#[test]
fn a_guest_can_be_preempted_around_tail_calls() {
    alone(preempt_tail_calls);
}

fn preempt_tail_calls() {
    preempted_at("tails", 11);
}

#[test]
fn a_guest_can_be_preempted_while_it_copies() {
    alone(preempt_copies);
}

fn preempt_copies() {
    preempted_at("copies", 7);
}

#[test]
fn a_guest_can_be_killed_while_it_copies() {
    alone(kill_copies);
}

fn kill_copies() {
    let _alone = STEPPING.lock().expect("no panic");
    let prepared = prepare(COUNTERS);
    warm_up(&prepared);
    let func = prepared.func::<(), i64>("copies").expect("it is exported");
    let (whole, ..) = killed_at(&prepared, &func, u32::MAX);
    let whole = whole.expect("it returns");
    let in_all = STEPS.load(Ordering::SeqCst);
    let (mut killed, every) = (0, stride(5, in_all));
    for at in (0..2 * in_all).step_by(every) {
        let (ended, ..) = killed_at(&prepared, &func, at);
        match ended {
            Ok(result) => assert_eq!(result, whole, "{at}"),
            Err(CallError::Killed(_)) => killed += 1,
            Err(error) => panic!("{at}: {error}"),
        }
        if FOUND.load(Ordering::SeqCst) == 0 {
            break;
        }
    }
    println!("{killed} killed of {in_all} instructions, every {every}");
    assert!(killed > 50 / every);
}

/// Preempts calls of a function, each at another instruction. The distance between these
/// instructions follows from the sample and the function's length.
fn preempted_at(name: &str, sample: usize) {
    let _alone = STEPPING.lock().expect("no panic");
    let prepared = prepare(COUNTERS);
    warm_up(&prepared);
    let func = prepared.func::<(), i64>(name).expect("it is exported");
    let whole = prepared
        .try_instantiate(())
        .and_then(|mut instance| Ok(instance.call(&func, ())?))
        .expect("it returns");
    let (in_all, many) = (instructions(&prepared, &func), many(&prepared));
    let (nth, first) = (stride(sample, in_all), stride(7, in_all));
    PREEMPT.store(0, Ordering::SeqCst);
    OTHER_ID.store(0, Ordering::SeqCst);
    let other = std::thread::spawn(preempts);
    *OTHER.lock().expect("no panic") = Some(other.thread().clone());
    while OTHER_ID.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let (mut steps, mut at) = (0, 0);
    loop {
        // Before the runtime has announced the call, it cannot be preempted. Use small steps there.
        at += if steps == 0 { first.min(nth) } else { nth } as u32;
        // The other thread may have waited for a lock until the last call ended.
        while PREEMPT.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        let mut instance = prepared.try_instantiate(()).expect("the slot is free");
        *SWITCH.lock().expect("no panic") = Some(instance.kill_switch());
        instance.memory_mut().write_u32(0, 0).expect("a page");
        PREEMPTS.store(true, Ordering::SeqCst);
        AT.store(at, Ordering::SeqCst);
        STEPS.store(0, Ordering::SeqCst);
        FOUND.store(0, Ordering::SeqCst);
        let slice = Duration::from_secs(3600);
        let mut suspended = 0;
        let mut step = stepped(|| instance.timeslice(slice).start(&func, ()));
        let result = loop {
            match step.expect("the guest resumes") {
                Step::Returned(result) => break result,
                Step::Preempted => suspended += 1,
                Step::Asked(none) => match none {},
            }
            // Preempt once more, on the way in or later. Then let the call run to its end.
            if suspended == 1 {
                AT.store(
                    STEPS.load(Ordering::SeqCst) + at * 7 % many,
                    Ordering::SeqCst,
                );
            }
            step = stepped(|| instance.timeslice(slice).resume(&func));
        };
        assert_eq!(result, whole, "preempted {suspended} times, first at {at}");
        steps += suspended;
        assert!(suspended <= 3, "the call never enters the guest");
        if STEPS.load(Ordering::SeqCst) < at {
            break;
        }
    }
    PREEMPT.store(2, Ordering::SeqCst);
    other.thread().unpark();
    other.join().expect("no panic");
    println!("{name}: preempted {steps} times");
    assert!(
        steps as usize > arch::ITERATIONS as usize / 2 / nth,
        "preempted only {steps} times"
    );
}
