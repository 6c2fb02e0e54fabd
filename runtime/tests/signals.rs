//! A fault outside guests must reach the handler that was installed before the runtime's, as if the
//! runtime had no handler.
//!
//! Each case runs in a child process: this test program again, with the case in its environment.
#![allow(
    unsafe_code,
    reason = "this test dereferences invalid pointers and raises signals"
)]

use crate::common;

use pirn_runtime::{CallError, HostError, Linker, Prepared, Region, TrapCode};
use std::os::unix::process::ExitStatusExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::Poll;

fn died_of(case: &str, signal: i32) {
    let output = common::child(case);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.signal(),
        Some(signal),
        "{case}: {:?} {said}",
        output.status
    );
}

#[test]
fn a_fault_in_host_code_kills_the_process() {
    died_of("fault outside a guest", libc::SIGSEGV);
    died_of("fault in a host function", libc::SIGSEGV);
    died_of("fault in an async host function", libc::SIGSEGV);
    died_of("ignored, fault outside a guest", libc::SIGSEGV);
    died_of("ignored, fault in a host function", libc::SIGSEGV);
}

#[test]
fn an_earlier_handler_is_called_with_its_flags() {
    // SA_RESETHAND: the handler runs once, and then the default action ends the process.
    died_of("earlier handler, once", libc::SIGSEGV);
    // SA_NODEFER: the handler may be entered again while it runs.
    common::exited_with("earlier handler, within itself", 42);
}

#[test]
fn a_later_handler_that_forwards_does_not_disturb_guests() {
    common::exited_with("later handler, traps", 0);
    died_of("later handler, fault outside a guest", libc::SIGSEGV);
    died_of("later handler, fault in a host function", libc::SIGSEGV);
    // The runtime's handler is installed again after the later one, which forwards to it.
    died_of(
        "later handler behind ours, fault outside a guest",
        libc::SIGSEGV,
    );
    died_of(
        "handler that comes back, fault outside a guest",
        libc::SIGSEGV,
    );
    common::exited_with("handler that comes back, traps", 0);
}

/// A later handler does not forward faults. Building a region must install the runtime's handler
/// over the later one.
#[test]
fn a_new_region_installs_its_handler_over_a_later_one() {
    common::exited_with("keeping handler, traps", 0);
    common::exited_with("keeping handler, fault outside a guest", 42);
}

/// At its end, a thread must have its own alternate stack again, and no mapping may leak.
#[test]
fn foreign_threads_keep_their_alternate_stack() {
    common::exited_with("a thousand threads", 0);
    common::exited_with("a thread with a small alternate stack", 0);
    common::exited_with("a thread with a large alternate stack", 0);
}

#[test]
fn an_earlier_handler_gets_host_faults() {
    common::exited_with("earlier handler, outside a guest", 42);
    common::exited_with("earlier handler, in a host function", 42);
}

#[test]
fn a_sent_signal_is_no_trap() {
    died_of("sent while a guest is on the stack", libc::SIGSEGV);
    common::exited_with("sent and ignored", 0);
}

#[test]
fn a_guest_traps_despite_an_earlier_handler() {
    common::exited_with("earlier handler, trap", 0);
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Installs a handler for SIGSEGV; returns the action before it.
fn handle(handler: Handler, flags: i32) -> libc::sigaction {
    // SAFETY: all-zero is a valid `sigaction`, and `handler` has the type of a handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        let done = libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut old);
        assert_eq!(done, 0);
        old
    }
}

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    let case = common::case();
    let (handlers, what) = case.split_once(", ").unwrap_or(("", &case));
    match (handlers, what) {
        ("earlier handler", "once") => {
            handle(once, libc::SA_ONSTACK | libc::SA_RESETHAND);
        }
        ("earlier handler", "within itself") => {
            handle(within_itself, libc::SA_NODEFER);
        }
        ("earlier handler", _) => {
            handle(earlier, libc::SA_ONSTACK);
        }
        ("handler that comes back", _) => {
            handle(passes_on, libc::SA_ONSTACK);
        }
        ("ignored", _) => ignore(libc::SIG_IGN),
        _ if what == "sent and ignored" => ignore(libc::SIG_IGN),
        // Rust's own handler ignores a SIGSEGV that a process sends, so use the default action.
        _ if what.starts_with("sent") => ignore(libc::SIG_DFL),
        _ => {}
    }
    let region = Region::builder().slots(1).build().expect("a region");
    match handlers {
        "later handler" => {
            let old = handle(passes_on, libc::SA_ONSTACK);
            OURS.get_or_init(|| old);
        }
        "later handler behind ours" | "handler that comes back" => {
            let old = handle(passes_on, libc::SA_ONSTACK);
            OURS.get_or_init(|| old);
            drop(Region::builder().slots(1).build().expect("a region"));
        }
        "keeping handler" => {
            // A handler without SA_ONSTACK that forwards nothing. The next region installs the
            // runtime's handler in front of it.
            handle(earlier, 0);
            drop(Region::builder().slots(1).build().expect("a region"));
        }
        _ => {}
    }
    match what {
        "fault outside a guest" | "outside a guest" | "once" | "within itself" => fault(),
        "fault in a host function" | "in a host function" => in_host(&region, || {
            fault();
            Ok(())
        }),
        "fault in an async host function" => in_async_host(&region),
        "sent while a guest is on the stack" | "sent and ignored" => in_host(&region, || {
            // SAFETY: raise(3) sends a signal to this thread.
            unsafe { libc::raise(libc::SIGSEGV) };
            Ok(())
        }),
        "trap" | "traps" => traps(&guest(&region)),
        "a thousand threads" => a_thousand_threads(&guest(&region)),
        "a thread with a small alternate stack" => with_alternate_stack(&guest(&region), 16 << 10),
        "a thread with a large alternate stack" => with_alternate_stack(&guest(&region), 1 << 20),
        other => panic!("no case {other}"),
    }
}

/// Sets an action for SIGSEGV that is not a function: `SIG_IGN` or `SIG_DFL`.
fn ignore(action: libc::sighandler_t) {
    // SAFETY: `action` is a constant of signal(2), not a function.
    unsafe { libc::signal(libc::SIGSEGV, action) };
}

fn guest(region: &Region) -> Prepared<()> {
    let module = common::wat(include_str!("../../examples/guests/traps.wat"));
    region.prepare(&module, &Linker::new()).expect("it links")
}

/// A guest traps by signals, once where its stack has no room for a handler.
fn traps(prepared: &Prepared<()>) {
    let mut instance = prepared.instantiate(()).expect("a slot");
    for (name, code) in [
        ("load_out_of_bounds", TrapCode::MemoryOutOfBounds),
        ("stack_overflow", TrapCode::StackOverflow),
    ] {
        let ended = instance.call_values(name, &[]);
        let trapped = matches!(&ended, Err(CallError::Trap(trap)) if trap.code() == code);
        assert!(trapped, "{name}: {ended:?}");
    }
}

/// Runs a function in a thread that C creates.
fn thread(run: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void, prepared: &Prepared<()>) {
    // SAFETY: pthread_join(3) waits for the thread, so the borrow of `prepared` outlives it.
    unsafe {
        let (mut thread, with) = (std::mem::zeroed(), (&raw const *prepared).cast_mut());
        let made = libc::pthread_create(&raw mut thread, std::ptr::null(), run, with.cast());
        assert_eq!(made, 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
    }
}

extern "C" fn run_traps(prepared: *mut libc::c_void) -> *mut libc::c_void {
    assert_eq!(
        common::alternate_stack_now(),
        (0, 0),
        "a new thread has no alternate stack"
    );
    // SAFETY: `thread` passes a valid `Prepared` that outlives this thread.
    traps(unsafe { &*prepared.cast::<Prepared<()>>() });
    assert_ne!(
        common::alternate_stack_now(),
        (0, 0),
        "the runtime sets an alternate stack"
    );
    std::ptr::null_mut()
}

fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    maps.lines().count()
}

fn a_thousand_threads(prepared: &Prepared<()>) {
    // The alternate stacks of the first threads are allocated here, before the mappings are
    // counted.
    (0..10).for_each(|_| thread(run_traps, prepared));
    let before = mappings();
    (0..1000).for_each(|_| thread(run_traps, prepared));
    let after = mappings();
    // A leak would leave two mappings for each thread: a stack and its guard page.
    assert!(after < before + 20, "{before} mappings, then {after}");
}

/// The address of the alternate stack that the thread set up. The runtime must restore it at the
/// thread's end.
static OWN_STACK: AtomicUsize = AtomicUsize::new(0);
static CHECKED: AtomicBool = AtomicBool::new(false);

/// A pthread key destructor: it runs after the destructors of Rust's thread locals.
extern "C" fn stack_is_restored(_: *mut libc::c_void) {
    let (at, _) = common::alternate_stack_now();
    CHECKED.store(at == OWN_STACK.load(Ordering::SeqCst), Ordering::SeqCst);
}

fn with_alternate_stack(prepared: &Prepared<()>, bytes: usize) {
    static KEY: AtomicU32 = AtomicU32::new(0);
    extern "C" fn run(with: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the caller passes a valid pair and joins this thread before the pair is dropped.
        let (prepared, bytes) = unsafe { &*with.cast::<(Prepared<()>, usize)>() };
        common::alternate_stack(*bytes);
        OWN_STACK.store(common::alternate_stack_now().0, Ordering::SeqCst);
        // SAFETY: pthread_key_create(3) made the key, and the value is only compared with null.
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::SeqCst), with) };
        traps(prepared);
        let (at, now) = common::alternate_stack_now();
        assert_ne!(at, OWN_STACK.load(Ordering::SeqCst));
        assert!(now >= 64 << 10 && now >= *bytes, "{now} of {bytes}");
        std::ptr::null_mut()
    }
    let with = (prepared.clone(), bytes);
    // SAFETY: pthread_join(3) waits for the thread, so `with` outlives it.
    unsafe {
        let (mut key, mut thread) = (0, std::mem::zeroed());
        assert_eq!(
            libc::pthread_key_create(&raw mut key, Some(stack_is_restored)),
            0
        );
        KEY.store(key, Ordering::SeqCst);
        let with = (&raw const with).cast_mut().cast();
        let made = libc::pthread_create(&raw mut thread, std::ptr::null(), run, with);
        assert_eq!(made, 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
    }
    assert!(
        CHECKED.load(Ordering::SeqCst),
        "the thread's own stack is restored"
    );
}

/// The runtime's own handler.
static OURS: OnceLock<libc::sigaction> = OnceLock::new();

/// Calls the runtime's handler. Exits with 1 if that handler calls this one again.
extern "C" fn passes_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    static WITHIN: AtomicBool = AtomicBool::new(false);
    if WITHIN.swap(true, Ordering::SeqCst) {
        // SAFETY: _exit(2) is async-signal-safe.
        unsafe { libc::_exit(1) };
    }
    let ours = OURS.get().expect("it was kept").sa_sigaction;
    // SAFETY: `OURS` holds the runtime's handler, which has this type.
    let ours: Handler = unsafe { std::mem::transmute(ours) };
    ours(signal, info, context);
    WITHIN.store(false, Ordering::SeqCst);
}

/// Returns, so that the fault repeats. SA_RESETHAND must prevent a second call.
extern "C" fn once(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    static CALLED: AtomicBool = AtomicBool::new(false);
    if CALLED.swap(true, Ordering::SeqCst) {
        // SAFETY: _exit(2) is async-signal-safe.
        unsafe { libc::_exit(1) };
    }
}

/// Faults inside the handler. The second call, which SA_NODEFER permits, exits with 42.
extern "C" fn within_itself(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    static CALLED: AtomicBool = AtomicBool::new(false);
    if CALLED.swap(true, Ordering::SeqCst) {
        // SAFETY: _exit(2) is async-signal-safe.
        unsafe { libc::_exit(42) };
    }
    fault();
}

extern "C" fn earlier(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: _exit(2) is async-signal-safe.
    unsafe { libc::_exit(42) };
}

/// Reads an address at which nothing is mapped.
fn fault() {
    let nowhere = std::hint::black_box(16 as *const u8);
    // SAFETY: this read is invalid on purpose: it makes the processor fault.
    std::hint::black_box(unsafe { nowhere.read_volatile() });
}

/// Runs a host function that a guest calls.
fn in_host(region: &Region, run: fn() -> Result<(), HostError>) {
    let module = common::wat(
        "(module (import \"host\" \"run\" (func $run)) (func (export \"f\") (call $run)))",
    );
    let mut linker = Linker::<()>::new();
    linker.func("host", "run", run).expect("the name is free");
    let prepared = region.prepare(&module, &linker).expect("it links");
    let mut instance = prepared.instantiate(()).expect("a slot");
    instance
        .call_values("f", &[])
        .expect("the host function returns, if the process lives");
}

/// Runs the code in the future of an async host function that a guest calls.
fn in_async_host(region: &Region) {
    let module = common::wat(
        "(module (import \"host\" \"run\" (func $run)) (func (export \"f\") (call $run)))",
    );
    let mut linker = Linker::<()>::new();
    linker
        .func_async("host", "run", |_, (): ()| {
            Box::pin(async {
                let mut waited = false;
                let wait = std::future::poll_fn(|context| {
                    if std::mem::replace(&mut waited, true) {
                        return Poll::Ready(());
                    }
                    context.waker().wake_by_ref();
                    Poll::Pending
                });
                wait.await;
                fault();
            })
        })
        .expect("the name is free");
    let prepared = region.prepare(&module, &linker).expect("it links");
    let func = prepared.func::<(), ()>("f").expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    futures::executor::block_on(instance.call_async(&func, ())).expect("if the process lives");
}
