//! While a guest runs, the stack can be unwound from the guest into the host code that called it.
//! Debuggers and profilers need this.
#![allow(unsafe_code, reason = "a test that handles signals")]

use crate::common;

use common::values::shared_memory;
use pirn_runtime::{
    CallError, Caller, HostError, Instance, KillSwitch, Linker, Region, SharedMemory, Step,
    TypedFunc,
};
use std::backtrace::Backtrace;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;

const GUEST: &str = r#"(module
  (import "h" "ask" (func $ask))
  (import "h" "memory" (memory 1 1 shared))
  (func $spin (i32.atomic.store (i32.const 0) (i32.const 1)) (loop $l (br $l)))
  (func (export "spins") (call $spin))
  (func (export "asks") (call $ask) (call $spin)))"#;

/// The backtrace that the signal handler captured, if it has run.
static SEEN: Mutex<Option<String>> = Mutex::new(None);

extern "C" fn look(_: i32) {
    // The signal interrupts the guest, which holds no allocator lock. So the handler may allocate.
    let mut seen = SEEN.lock().expect("no panic");
    seen.get_or_insert_with(|| Backtrace::force_capture().to_string());
}

/// Captures this thread's backtrace while `run` runs a guest, and then kills the guest. The guest
/// writes to its memory when it loops.
fn seen_from_guest(
    memory: &SharedMemory,
    switch: KillSwitch,
    run: impl FnOnce() -> Result<(), CallError>,
) -> String {
    *SEEN.lock().expect("no panic") = None;
    let loops = memory.clone();
    let loops = move || loops.atomic_u32(0).expect("it has a page").swap(0, SeqCst) == 1;
    // SAFETY: pthread_self(3) has no requirements.
    let thread = unsafe { libc::pthread_self() };
    let signaller = std::thread::spawn(move || {
        while !loops() {
            std::thread::yield_now();
        }
        // SAFETY: `thread` is alive: it joins this thread before it ends.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
        while SEEN.lock().expect("no panic").is_none() {
            std::thread::yield_now();
        }
        let met = switch.kill();
        assert!(met.is_ok(), "{met:?}");
    });
    let ended = run();
    assert!(matches!(ended, Err(CallError::Killed(_))), "{ended:?}");
    signaller.join().expect("no panic");
    let seen = SEEN.lock().expect("no panic").take();
    seen.expect("the guest was interrupted")
}

type Asking = Instance<(), (), ()>;
type Plain = TypedFunc<(), ()>;

#[inline(never)]
fn the_caller(instance: &mut Asking, func: &Plain) -> Result<(), CallError> {
    // `black_box` prevents a tail call, which would remove this frame.
    std::hint::black_box(instance.call(func, ()))
}

#[inline(never)]
fn the_starter(instance: &mut Asking, func: &Plain) {
    let step = instance.start(func, ());
    assert!(matches!(step, Ok(Step::Asked(()))), "{step:?}");
}

#[inline(never)]
fn the_resumer(instance: &mut Asking, func: &Plain) -> Result<(), CallError> {
    std::hint::black_box(instance.resume_with(func, ())).map(drop)
}

/// A signal handler that interrupts a guest can unwind into the host function that called or
/// resumed it.
#[test]
fn unwinding_continues_from_the_guest_into_the_host() {
    if std::env::consts::ARCH != "x86_64" {
        common::not_run("unwind tables here end with the function that entered the guest");
        return;
    }
    // SAFETY: all-zero is a valid `sigaction`, and `look` has the type of a handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = look as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        let done = libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        assert_eq!(done, 0);
    }
    common::alternate_stack(1 << 20);
    let memory = shared_memory(1, 1);
    let mut linker = Linker::<(), (), ()>::asking();
    linker
        .func_ask(
            "h",
            "ask",
            |_: Caller<'_, ()>, ()| Ok(()),
            |_, (), ()| Ok::<(), HostError>(()),
        )
        .and_then(|linker| linker.memory("h", "memory", &memory))
        .expect("the names are free");
    let region = Region::builder().slots(2).build().expect("a region");
    let prepared = region
        .prepare(&common::wat(GUEST), &linker)
        .expect("it links");
    let func = |name| prepared.func::<(), ()>(name).expect("it is exported");
    let (spins, asks) = (func("spins"), func("asks"));
    let instance = || prepared.try_instantiate(()).expect("a slot is free");
    let mut called = instance();
    let seen = seen_from_guest(&memory, called.kill_switch(), || {
        the_caller(&mut called, &spins)
    });
    assert!(seen.contains("the_caller"), "{seen}");
    // A resumed guest has another caller than the one that first entered it.
    let mut resumed = instance();
    the_starter(&mut resumed, &asks);
    let seen = seen_from_guest(&memory, resumed.kill_switch(), || {
        the_resumer(&mut resumed, &asks)
    });
    assert!(seen.contains("the_resumer"), "{seen}");
    assert!(!seen.contains("the_starter"), "{seen}");
}
