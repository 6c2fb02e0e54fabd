//! Process settings that must not break guests: blocked fault signals, a limit on writable memory,
//! and merging of pages by the kernel. Each case runs in a child process.
#![allow(unsafe_code, reason = "this test changes its own process")]

use crate::common;

use common::setup::{Setup, ends_late, everywhere, limit_run_time, load};
use pirn_runtime::{CallError, Caller, Linker, Prepared, Region, Reset, Value};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_thread_that_blocks_all_signals_runs_guests() {
    everywhere("blocked");
}

#[test]
fn a_limit_on_data_leaves_a_working_reset() {
    everywhere("data");
}

#[test]
fn reaching_a_limit_on_data_leaks_no_slot() {
    everywhere("half-way");
}

/// Kernel same-page merging must not apply to tracked pages, which userfaultfd write-protects.
#[test]
fn tracked_pages_are_excluded_from_same_page_merging() {
    everywhere("merged");
}

#[test]
fn a_guest_is_stopped_without_queued_signals() {
    // `resets()` lists the best reset of this machine first.
    let reset = common::resets()[0];
    common::exited_with(&format!("queue {reset}"), 0);
}

#[test]
fn sigurg_of_other_senders_reaches_the_earlier_handler() {
    common::exited_with("passed-on decommitted", 0);
}

/// The kernel may merge two pending signals. The earlier handler must still run.
#[test]
fn sigurg_merged_with_an_interrupt_reaches_the_earlier_handler() {
    common::exited_with("merged-signals decommitted", 0);
}

/// A later handler replaces the runtime's. Guests must still stop at their deadlines.
#[test]
fn guests_are_stopped_despite_a_later_handler() {
    common::exited_with("taken decommitted", 0);
}

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    let (case, reset) = common::case_and_reset();
    match case.as_str() {
        "blocked" => blocked(reset),
        "data" => data(reset),
        "half-way" => half_way(reset),
        "merged" => merged(reset),
        "passed-on" => passed_on(),
        "queue" => queue(reset),
        "merged-signals" => merged_signals(),
        "taken" => taken(),
        other => panic!("{other}"),
    }
}

fn blocked(reset: Reset) {
    let setup = Setup::new(reset, 4 << 16);
    let thread = std::thread::spawn(move || {
        // SAFETY: changes only this thread's signal mask. Servers do this when one thread waits for
        // all signals.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        }
        let mut instance = setup.instance();
        assert_eq!(instance.memory().as_slice()[8], b'i');
        assert_eq!(load(&mut instance, 9), Ok(i32::from(b'm')));
        load(&mut instance, 1 << 16).expect_err("it is out of bounds");
    });
    thread.join().expect("no panic");
}

/// Limits the bytes of writable private memory of this process (`RLIMIT_DATA`, getrlimit(2)).
fn limit_data(bytes: u64) {
    common::limit(libc::RLIMIT_DATA, bytes);
}

/// Bytes that `RLIMIT_DATA` counts now (proc_pid_statm(5)).
fn written_to() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(5).expect("the sixth number");
    pages.parse::<u64>().expect("a number") * 4096
}

fn data(reset: Reset) {
    limit_data(1 << 30);
    let setup = Setup::new(reset, 4 << 30);
    let large = common::wat(
        "(module (memory (export \"memory\") 12000) (data (i32.const 8) \"image\")
           (func (export \"grow\") (param i32) (result i32) (memory.grow (local.get 0))))",
    );
    let mut linker = Linker::<Vec<String>>::new();
    linker
        .memory_limiter(|told: &mut Vec<String>, growth| {
            told.push(format!("to {}", growth.desired >> 16));
            true
        })
        .growth_failed(|told, _, error| told.push(error.to_string()));
    let large = setup.region.prepare(&large, &linker).expect("it fits");
    for _ in 0..3 {
        assert_eq!(load(&mut setup.instance(), 8), Ok(i32::from(b'i')));
        // 750 MiB fit under the limit once, but not twice.
        let mut instance = large.try_instantiate(vec![]).expect("it fits");
        assert_eq!(instance.memory().slice(8, 5).unwrap(), b"image");
        let grow = instance.call_values("grow", &[Value::I32(10_000)]);
        assert_eq!(grow.unwrap(), [Value::I32(-1)]);
        // The runtime asked the limiter, and then reported that the system refused the growth.
        match &instance.data()[..] {
            [asked, told] => {
                assert_eq!(asked, "to 22000");
                assert!(
                    told.starts_with("the system gives no memory to grow: "),
                    "{told}"
                );
            }
            other => panic!("{other:?}"),
        }
        let error = large.try_instantiate(vec![]).expect_err("there is no room");
        assert!(
            error.to_string().starts_with("the system gives no memory"),
            "{error}"
        );
        assert_eq!(instance.memory().slice(8, 5).unwrap(), b"image");
        drop(instance);
        assert_eq!(setup.region.slots_free(), 3);
    }
}

/// If a slot's memory exceeds the limit, the slot must become usable again once there is room.
fn half_way(reset: Reset) {
    const SLOTS: usize = 8;
    // The image covers all of the memory, so the limit is exceeded when the image is mapped.
    let modules = ["image", "other"].map(|image| {
        let rest = "a".repeat((3 << 20) - 5);
        common::wat(&format!(
            "(module (memory (export \"memory\") 48) (data (i32.const 0) \"{image}{rest}\"))"
        ))
    });
    // Apart from memories the region needs few bytes. The limit leaves room for the memories of
    // only some slots.
    let builder = Region::builder().slots(SLOTS as u32).reset(reset);
    let builder = builder
        .stack_bytes(1 << 16)
        .tables(0)
        .instance_bytes(1 << 16);
    let region = builder.build().expect("a region");
    let prepared = modules.map(|module| {
        let prepared = region.prepare(&module, &Linker::<()>::new());
        prepared.expect("it fits")
    });
    let kinds = [(&prepared[0], b"image"), (&prepared[1], b"other")];
    let fill = |prepared: &Prepared<()>, image: &[u8; 5]| {
        let mut instances = vec![];
        loop {
            match prepared.try_instantiate(()) {
                Ok(mut instance) => {
                    let mut memory = instance.memory_mut();
                    let bytes = memory.slice_mut(0, 6).expect("it is there");
                    assert!(bytes[..5] == *image && bytes[5] == b'a', "{bytes:?}");
                    bytes.fill(1);
                    instances.push(instance);
                }
                Err(error) => return (instances, error.to_string()),
            }
        }
    };
    // A small guest has used every slot before.
    let small = region.prepare(&common::wat("(module (memory 1))"), &Linker::<()>::new());
    let small = small.expect("it fits");
    drop([(); SLOTS].map(|()| small.try_instantiate(()).expect("a slot is free")));
    limit_data(written_to() + (11 << 20));
    for round in 0..3 {
        // The second module gets no slot while free slots still hold the first module's memory.
        for ((prepared, image), least) in kinds.into_iter().zip([1, 0]) {
            let (instances, error) = fill(prepared, image);
            let (live, description) = (instances.len(), region.describe());
            assert!((least..SLOTS).contains(&live), "{round}: {live}");
            assert!(
                error.starts_with("the system gives no memory for a slot"),
                "{error}"
            );
            assert_eq!(region.slots_free(), SLOTS - live, "{round}: {description}");
            assert_eq!(description.slots_lost(), 0, "{description}");
        }
    }
    limit_data(libc::RLIM_INFINITY);
    for (prepared, image) in kinds {
        let (instances, error) = fill(prepared, image);
        assert_eq!(instances.len(), SLOTS, "{error}");
        assert!(error.starts_with("all 8 slots"), "{error}");
    }
}

/// The flags of the mapping that contains an address (proc_pid_smaps(5)).
fn flags(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux");
    let mut within = false;
    for line in maps.lines() {
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = line
            .split_once(' ')
            .and_then(|(range, _)| range.split_once('-'));
        if let Some((Some(start), Some(end))) =
            range.map(|(start, end)| (number(start), number(end)))
        {
            within = (start..end).contains(&address);
        } else if within && line.starts_with("VmFlags") {
            return line.to_owned() + " ";
        }
    }
    panic!("{address:#x} is not mapped");
}

fn merged(reset: Reset) {
    const PR_SET_MEMORY_MERGE: i32 = 67;
    // SAFETY: prctl(2) with `PR_SET_MEMORY_MERGE` takes no pointers.
    if unsafe { libc::prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) } != 0 {
        common::not_run("this kernel merges no pages");
        return;
    }
    let setup = Setup::new(reset, 4 << 16);
    let instance = setup.instance();
    let found = flags(instance.memory().as_slice().as_ptr() as usize);
    assert_eq!(found.contains(" uw "), reset == Reset::Tracked, "{found}");
    assert!(
        reset != Reset::Tracked || !found.contains(" mg "),
        "{found}"
    );
}

/// A loop ends at its deadline although the process may queue no signals.
fn queue(reset: Reset) {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` is a valid `rlimit` that setrlimit(2) reads.
    let limited = unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const none) };
    assert_eq!(limited, 0);
    limit_run_time();
    let setup = Setup::new(reset, 1 << 20);
    ends_late(&setup);
    // The same holds on a thread with its own large alternate stack.
    let thread = std::thread::spawn(move || {
        common::alternate_stack(1 << 20);
        ends_late(&setup);
    });
    thread.join().expect("no panic");
}

/// Number of calls of [`count`].
static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(signal: i32) {
    assert_eq!(signal, libc::SIGURG);
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

fn passed_on() {
    // SAFETY: (all calls) `count` has the type of a signal handler, and the signals go to this
    // process or to a live thread of it.
    unsafe {
        let handler: extern "C" fn(i32) = count;
        libc::signal(libc::SIGURG, handler as *const () as usize);
        let setup = Setup::new(Reset::Auto, 1 << 20);
        libc::raise(libc::SIGURG);
        assert_eq!(SIGNALS.load(Ordering::SeqCst), 1);
        let value = libc::sigval {
            sival_ptr: std::ptr::without_provenance_mut(8),
        };
        libc::sigqueue(libc::getpid(), libc::SIGURG, value);
        // The kernel may deliver a signal that is sent to the process on any thread.
        while SIGNALS.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        // The handler also gets the runtime's interrupts: the kernel may have merged another
        // sender's signal with one of them.
        ends_late(&setup);
        assert!(SIGNALS.load(Ordering::SeqCst) > 2);
        // While a guest runs on this thread, signals of other senders still reach the earlier
        // handler.
        let before = SIGNALS.load(Ordering::SeqCst);
        let (mut instance, thread) = (setup.instance(), libc::pthread_self() as usize);
        let switch = instance.kill_switch();
        let others = std::thread::spawn(move || {
            while !switch.is_running() {
                std::thread::yield_now();
            }
            for _ in 0..100 {
                let sent = SIGNALS.load(Ordering::SeqCst);
                libc::pthread_kill(thread as libc::pthread_t, libc::SIGURG);
                // The kernel merges a signal with one that is still pending, so wait for each.
                while SIGNALS.load(Ordering::SeqCst) == sent {
                    std::thread::yield_now();
                }
            }
            assert!(switch.is_running(), "the guest runs until it is killed");
            switch.kill()
        });
        let ended = instance.call_values("forever", &[]);
        assert!(matches!(ended, Err(CallError::Killed(_))), "{ended:?}");
        let killed = others.join().expect("no panic");
        killed.expect("the instance exists");
        assert!(SIGNALS.load(Ordering::SeqCst) >= before + 100);
    }
}

/// Sets the action for SIGURG: a handler, `SIG_IGN` or `SIG_DFL`.
fn handle(action: libc::sighandler_t) {
    // SAFETY: `action` is the address of a function with the type of a handler, or a constant of
    // signal(2).
    let before = unsafe { libc::signal(libc::SIGURG, action) };
    assert_ne!(before, libc::SIG_ERR);
}

fn counts() -> libc::sighandler_t {
    let handler: extern "C" fn(i32) = count;
    handler as *const () as usize
}

const TALKATIVE: &str = r#"(module
  (import "host" "tell" (func $tell))
  (func (export "run") (local i32)
    (loop $again
      (local.set 0 (i32.const 1000000))
      (loop $spin (br_if $spin (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
      (call $tell)
      (br $again))))"#;

/// Blocks or unblocks SIGURG on this thread.
fn block(how: i32) {
    // SAFETY: changes only this thread's signal mask, by a set that is zeroed before.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGURG);
        libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// The runtime's interrupt and another sender's signal are both pending for a thread. The kernel
/// delivers the first and drops the second, but the earlier handler must run.
fn merged_signals() {
    handle(counts());
    let region = Region::builder().slots(1).build().expect("a region");
    let mut linker = Linker::<bool>::new();
    let tell = |mut caller: Caller<'_, bool>| {
        // SAFETY: sigpending(2) writes a valid set, which sigismember(3) reads.
        let waits = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut set);
            libc::sigismember(&raw const set, libc::SIGURG) == 1
        };
        if waits {
            let before = SIGNALS.load(Ordering::SeqCst);
            // SAFETY: sends a signal to this thread, which is alive.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGURG) };
            block(libc::SIG_UNBLOCK);
            assert!(SIGNALS.load(Ordering::SeqCst) > before, "a signal was lost");
            *caller.data_mut() = true;
        }
    };
    linker.func("host", "tell", tell).expect("the name is free");
    let prepared = region.prepare(&common::wat(TALKATIVE), &linker);
    let prepared = prepared.expect("it links");
    // A kill that arrives inside the host function sends no signal, so this repeats until one is
    // pending.
    let met = (0..1000).any(|_| {
        let mut instance = prepared.try_instantiate(false).expect("a slot is free");
        let switch = instance.kill_switch();
        block(libc::SIG_BLOCK);
        let kills = std::thread::spawn(move || {
            while !switch.is_running() {
                std::thread::yield_now();
            }
            switch.kill().expect("it lives");
        });
        let ended = instance.call_values("run", &[]);
        assert!(matches!(ended, Err(CallError::Killed(_))), "{ended:?}");
        kills.join().expect("no panic");
        instance.into_data()
    });
    assert!(met, "no kill found the guest running");
}

/// The action that [`forward`] calls next.
static NEXT: OnceLock<libc::sigaction> = OnceLock::new();

/// Counts the signal, and calls the handler that was installed before.
extern "C" fn forward(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    count(signal);
    let next = NEXT.get().expect("it was set before").sa_sigaction;
    // SAFETY: `NEXT` holds the runtime's handler, which has this type.
    unsafe {
        let next: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
            std::mem::transmute(next);
        next(signal, info, context);
    }
}

/// Installs handlers after the runtime's handler. They do not forward the signal.
fn taken() {
    limit_run_time();
    let setup = Setup::new(Reset::Auto, 1 << 20);
    for action in [
        libc::SIG_IGN,
        libc::SIG_DFL,
        counts(),
        libc::SIG_IGN,
        counts(),
    ] {
        handle(action);
        ends_late(&setup);
        let before = SIGNALS.load(Ordering::SeqCst);
        // SAFETY: raise(3) sends a signal to this thread.
        unsafe { libc::raise(libc::SIGURG) };
        // The counter may rise by more: a late interrupt for the guest may arrive too.
        let counted = SIGNALS.load(Ordering::SeqCst) > before;
        assert_eq!(counted, action == counts());
    }
    // A handler that forwards the signal to the runtime's handler, which forwards it to the one
    // before. SAFETY: all-zero is a valid `sigaction`, and `forward` has the type of a handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut ours: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = forward as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGURG, std::ptr::null(), &raw mut ours);
        NEXT.get_or_init(|| ours);
        libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut());
    }
    for _ in 0..2 {
        let before = SIGNALS.load(Ordering::SeqCst);
        // SAFETY: raise(3) sends a signal to this thread.
        unsafe { libc::raise(libc::SIGURG) };
        assert!(SIGNALS.load(Ordering::SeqCst) >= before + 2);
        ends_late(&setup);
    }
}
