//! A kill at every single instruction of a call: on its way in, in guest code, to the host and back, and on
//! its way out.
//!
//! The thread that calls is stepped by the processor's trap flag, and the handler of its signal kills at
//! the instruction whose turn it is. The interrupt that follows meets exactly that one.
#![allow(
    unsafe_code,
    reason = "a signal handler, and the trap flag of the processor"
)]

mod common;

use core::arch::asm;
use pirn_runtime::{CallError, Func, Instance, KillSwitch, Linker, Met, Prepared, Region};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// Counts in its memory; one of them calls the host in between.
const COUNTERS: &str = r#"(module
  (import "h" "quick" (func $quick (param i32) (result i32)))
  (memory (export "memory") 1)
  (func $count (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))))
  (func (export "counts") (loop $l (call $count) (br $l)))
  (func (export "counts_and_calls")
    (loop $l (call $count) (drop (call $quick (i32.const 1))) (br $l)))
  (func (export "counts_twice") (result i32)
    (call $count) (drop (call $quick (i32.const 1))) (call $count)
    (i32.load (i32.const 0))))"#;

/// One test at a time steps.
static STEPPING: Mutex<()> = Mutex::new(());
/// Instructions that were stepped over.
static STEPS: AtomicU32 = AtomicU32::new(0);
/// At which of them to kill.
static AT: AtomicU32 = AtomicU32::new(0);
/// What is killed.
static SWITCH: Mutex<Option<KillSwitch>> = Mutex::new(None);
/// What the kill met: 0 nothing, 1 idle, 2 the guest, 3 the host.
static MET: AtomicI32 = AtomicI32::new(0);
/// The guest's counter, and what it was then.
static COUNTER: AtomicPtr<i32> = AtomicPtr::new(std::ptr::null_mut());
static COUNTED: AtomicI32 = AtomicI32::new(0);

extern "C" fn step(_: i32) {
    if STEPS.fetch_add(1, Ordering::SeqCst) != AT.load(Ordering::SeqCst) {
        return;
    }
    let switch = SWITCH.try_lock().expect("nobody holds it while it steps");
    let met = switch.as_ref().expect("there is one").kill();
    let met = match met.expect("nobody else kills") {
        Met::Idle => 1,
        Met::Guest => 2,
        Met::Host => 3,
        other => panic!("{other:?}"),
    };
    // SAFETY: the guest's memory, which is mapped while its instance lives, and whose guest waits.
    let counted = unsafe { COUNTER.load(Ordering::SeqCst).read_volatile() };
    COUNTED.store(counted, Ordering::SeqCst);
    MET.store(met, Ordering::SeqCst);
}

/// Runs something step by step.
fn stepped<R>(run: impl FnOnce() -> R) -> R {
    // SAFETY: sets and clears the trap flag of this thread, whose signal has a handler.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = run();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    result
}

fn prepare() -> Prepared<()> {
    // SAFETY: all-zero is a valid sigaction; the handler is of the right type.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32) = step;
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        // The interrupt comes when the handler is done.
        libc::sigaddset(&raw mut action.sa_mask, libc::SIGURG);
        assert_eq!(
            libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()),
            0
        );
    }
    let mut linker = Linker::new();
    linker
        .func("h", "quick", |n: i32| n)
        .expect("the name is free");
    let region = Region::builder().slots(1).build().expect("a region");
    region
        .prepare(&common::wat(COUNTERS), &linker)
        .expect("it is linked")
}

/// Makes a call that is killed at an instruction; gives how it ended, and how far it counted.
fn killed_at<R: pirn_runtime::Results>(
    prepared: &Prepared<()>,
    func: &Func<(), R>,
    at: u32,
) -> (Result<R, CallError>, i32, Instance<()>) {
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    *SWITCH.lock().expect("no panic") = Some(instance.kill_switch());
    // The page is there: to fill it is not what is stepped through.
    instance.memory_mut().write_u32(0, 0).expect("a page");
    let counter = instance.memory().as_slice().as_ptr().cast_mut().cast();
    COUNTER.store(counter, Ordering::SeqCst);
    MET.store(0, Ordering::SeqCst);
    AT.store(at, Ordering::SeqCst);
    STEPS.store(0, Ordering::SeqCst);
    let ended = stepped(|| instance.call(func, ()));
    let counted = instance.memory().read_u32(0).expect("a page");
    (ended, counted.cast_signed(), instance)
}

/// Kills made before: the timer thread is there, and has room for those to come.
fn warm_up(prepared: &Prepared<()>) {
    let counts = prepared.func::<(), ()>("counts").expect("it is exported");
    for at in 0..40 {
        let (ended, ..) = killed_at(prepared, &counts, 300 + at);
        assert!(matches!(ended, Err(CallError::Killed(_))), "{ended:?}");
    }
}

#[test]
fn a_loop_ends_wherever_it_is_killed() {
    let _alone = STEPPING.lock().expect("no panic");
    let prepared = prepare();
    warm_up(&prepared);
    for name in ["counts", "counts_and_calls"] {
        let func = prepared.func::<(), ()>(name).expect("it is exported");
        let mut met = [0; 4];
        // The way in, and several times around.
        for at in 0..450 {
            let (ended, counted, _) = killed_at(&prepared, &func, at);
            assert!(
                matches!(ended, Err(CallError::Killed(_))),
                "{at}: {ended:?}"
            );
            met[MET.load(Ordering::SeqCst) as usize] += 1;
            // It was not the timer's second interrupt that ended it.
            let then = COUNTED.load(Ordering::SeqCst);
            assert!(
                (then..=then + 1).contains(&counted),
                "{name} {at}: went on from {then} to {counted}"
            );
        }
        println!("{name}: idle, guest, host: {:?}", &met[1..]);
        assert!(met[0] == 0 && met[1] > 0 && met[2] > 0, "{met:?}");
        assert_eq!(met[3] > 0, name == "counts_and_calls", "{met:?}");
    }
}

#[test]
fn a_call_that_ends_is_killed_or_returns() {
    let _alone = STEPPING.lock().expect("no panic");
    let prepared = prepare();
    warm_up(&prepared);
    let func = prepared
        .func::<(), i32>("counts_twice")
        .expect("it is exported");
    let (mut killed, mut returned) = (0, 0);
    for at in 0..2000 {
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
        if MET.load(Ordering::SeqCst) == 0 {
            // The call was over before its turn came.
            assert_eq!(instance.call(&func, ()).expect("it lives"), 4);
            break;
        }
        let error = instance.call(&func, ()).expect_err("it was killed");
        assert!(matches!(error, CallError::Killed(_)), "{at}: {error}");
    }
    println!("{killed} killed, {returned} returned");
    assert!(killed > 50 && returned > 10);
}
