//! Ends a test that hangs: prints its name and the stacks of all threads, and ends the process.
//!
//! A watching thread looks at all threads of the process now and then. The test harness runs each
//! test in a new thread, so the age of that thread is the run time of the test. A thread that is
//! older than the limit gets a signal, whose handler records the thread's stack. Only if the stack
//! shows the harness as the caller is the thread a test: other threads may live longer.
//!
//! `PIRN_TEST_SECONDS` changes the limit.
//!
//! # Safety
//!
//! * `START` is in `.init_array`, so the loader calls it once, before `main`, on the main thread.
//! * The signal handler touches only `REQUESTED`, `STACK` and `DEPTH`, and calls
//!   backtrace(3), which allocates no memory after its first call. `record` makes the first call.
//! * Only the thread for which `REQUESTED` was set writes to `STACK`, and only the watching thread
//!   reads it, after `DEPTH` says that it is written.
#![allow(unsafe_code, reason = "stacks of other threads need a signal handler")]

use rustc_demangle::demangle;
use std::ffi::{c_int, c_void};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Environment variable with the limit in seconds.
const SECONDS: &str = "PIRN_TEST_SECONDS";
/// Seconds that a test may run. The slowest tests take one minute on an idle machine.
const SECONDS_MAX: u64 = 1500;
/// Most frames of a stack that are printed.
const FRAMES_MAX: usize = 64;
/// How long a thread may take to record its stack. A thread that blocks all signals never records
/// its stack.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of the watching thread's stack. The watching thread reads the symbols of its program.
const WATCH_STACK_BYTES: usize = 512 << 10;

/// The thread that is to record its stack.
static REQUESTED: AtomicI32 = AtomicI32::new(0);
/// The recorded return addresses.
static STACK: [AtomicPtr<c_void>; FRAMES_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; FRAMES_MAX];
/// Number of recorded addresses, or -1.
static DEPTH: AtomicI32 = AtomicI32::new(-1);
/// Whether the main thread runs the test: the program has no test harness.
static MAIN_IS_A_TEST: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let limit = std::env::var(SECONDS).ok();
    let limit = limit.and_then(|seconds| seconds.parse().ok());
    let limit = Duration::from_secs(limit.unwrap_or(SECONDS_MAX));
    let watch = thread::Builder::new()
        .name("test watch".into())
        .stack_size(WATCH_STACK_BYTES);
    // Without the thread, the tests run without a limit.
    drop(watch.spawn(move || watch_tests(limit)));
}

/// Makes the main thread a test that has the limit, in a program without the test harness.
pub fn main_thread() {
    MAIN_IS_A_TEST.store(true, Ordering::Relaxed);
}

/// The id of a thread, and its start in clock ticks since the machine's start.
type Thread = (i32, u64);

/// Reads `/proc/self/task` (proc_pid_task(5)). Empty without `/proc`.
fn threads() -> Vec<Thread> {
    let folder = fs::read_dir("/proc/self/task").into_iter().flatten();
    let ids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: i32| {
        let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
        // The name in parentheses may contain anything; the start time is the 20th field after it.
        let (_, fields) = stat.rsplit_once(") ")?;
        Some((id, fields.split(' ').nth(19)?.parse().ok()?))
    })
    .collect()
}

fn watch_tests(limit: Duration) {
    // SAFETY: gettid(2) takes no arguments.
    let own = unsafe { libc::gettid() };
    let pid = std::process::id().cast_signed();
    let mut known: Vec<(Thread, Instant)> = vec![];
    let mut no_tests: Vec<Thread> = vec![];
    loop {
        // The limit is no deadline of a test: it ends tests that would never end.
        thread::sleep((limit / 20).max(Duration::from_millis(50)));
        let now = threads();
        known.retain(|(thread, _)| now.contains(thread));
        for thread in now {
            if !known.iter().any(|(other, _)| *other == thread) {
                known.push((thread, Instant::now()));
            }
        }
        let is_candidate = |thread: &Thread| {
            thread.0 != own
                && (thread.0 != pid || MAIN_IS_A_TEST.load(Ordering::Relaxed))
                && !no_tests.contains(thread)
        };
        let old = known
            .iter()
            .filter(|(thread, since)| is_candidate(thread) && since.elapsed() > limit);
        let old: Vec<Thread> = old.map(|(thread, _)| *thread).collect();
        for thread in old {
            let stack = Symbols::read().describe(&record(pid, thread.0));
            if thread.0 == pid || stack.iter().any(|frame| is_harness(frame)) {
                let others = threads().into_iter().map(|(id, _)| id);
                report(pid, limit, thread.0, &stack, others.filter(|id| *id != own));
            }
            no_tests.push(thread);
        }
    }
}

/// Whether this frame is the function of the test harness that calls a test.
fn is_harness(frame: &str) -> bool {
    frame.contains("test::__rust_begin_short_backtrace")
}

extern "C" fn handle(_: c_int) {
    // SAFETY: gettid(2) and errno have no preconditions; the handler must not change errno.
    let (id, errno) = unsafe { (libc::gettid(), *libc::__errno_location()) };
    if REQUESTED
        .compare_exchange(id, 0, Ordering::SeqCst, Ordering::SeqCst)
        .is_err()
    {
        return;
    }
    // SAFETY: an `AtomicPtr` has the layout of a pointer, and `STACK` has `FRAMES_MAX` elements.
    // The exchange above makes this thread the only writer of `STACK`.
    unsafe {
        let frames = STACK.as_ptr().cast_mut().cast::<*mut c_void>();
        let depth = libc::backtrace(frames, FRAMES_MAX as c_int);
        *libc::__errno_location() = errno;
        DEPTH.store(depth, Ordering::SeqCst);
    }
}

/// The return addresses of a thread, innermost first. Empty if the thread does not answer.
fn record(pid: i32, thread: i32) -> Vec<usize> {
    let signal = libc::SIGRTMAX() - 3;
    // SAFETY: `action` is a whole `sigaction` with a handler of the right type. The first call of
    // backtrace(3) writes at most one address to `first`.
    unsafe {
        let mut first = std::ptr::null_mut();
        libc::backtrace(&raw mut first, 1);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
    DEPTH.store(-1, Ordering::SeqCst);
    REQUESTED.store(thread, Ordering::SeqCst);
    // SAFETY: tgkill(2) takes no pointers. A thread that has ended gives an error.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, signal) };
    let asked = Instant::now();
    // A handler that runs later than this finds no request.
    while DEPTH.load(Ordering::SeqCst) < 0 && asked.elapsed() < ANSWER_TIME_MAX {
        thread::sleep(Duration::from_millis(10));
    }
    let withdrawn = REQUESTED.compare_exchange(thread, 0, Ordering::SeqCst, Ordering::SeqCst);
    if withdrawn.is_ok() {
        return vec![];
    }
    while DEPTH.load(Ordering::SeqCst) < 0 {
        thread::sleep(Duration::from_millis(10));
    }
    let depth = DEPTH.load(Ordering::SeqCst).cast_unsigned() as usize;
    let frames = STACK.iter().take(depth);
    frames
        .map(|frame| frame.load(Ordering::SeqCst) as usize)
        .collect()
}

/// Prints the name of the test, its stack, and the stacks of the other threads. Ends the process.
fn report(
    pid: i32,
    limit: Duration,
    thread: i32,
    stack: &[String],
    threads: impl Iterator<Item = i32>,
) -> ! {
    let test = stack.iter().position(|frame| is_harness(frame));
    let name = test.and_then(|at| stack[..at].iter().rfind(|frame| !frame.contains("FnOnce")));
    let name = name.map_or("the test of this program", String::as_str);
    let name = name
        .trim_end_matches("::{closure#0}")
        .trim_end_matches("::{{closure}}");
    let mut text = format!(
        "\nthe test {name} ran for more than {} s; {SECONDS} changes the limit; all threads:\n",
        limit.as_secs()
    );
    let symbols = Symbols::read();
    let mut add = |thread: i32, stack: &[String]| {
        let file = |name| fs::read_to_string(format!("/proc/self/task/{thread}/{name}"));
        let [comm, wchan] = ["comm", "wchan"].map(|name| file(name).unwrap_or_default());
        let _ = writeln!(text, "thread {thread} ({}) {wchan}:", comm.trim());
        if stack.is_empty() {
            text += "    it blocks signals, and its stack is unknown\n";
        }
        for frame in stack {
            let _ = writeln!(text, "    {frame}");
        }
    };
    add(thread, stack);
    for other in threads.filter(|other| *other != thread) {
        add(other, &symbols.describe(&record(pid, other)));
    }
    // SAFETY: write(2) reads `text`. _exit(2) ends the process without handlers, which might wait
    // for the hanging thread.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(101)
    }
}

/// The functions of this program, and its mappings.
struct Symbols {
    /// Address in memory and name of each function, in order.
    functions: Vec<(usize, String)>,
    /// First address, end, and file of each executable mapping.
    mappings: Vec<(usize, usize, PathBuf)>,
}

impl Symbols {
    fn read() -> Self {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let mapping = |line: &str| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let [start, end] = [start, end].map(|at| usize::from_str_radix(at, 16).ok());
            Some((start?, end?, PathBuf::from(words.nth(4).unwrap_or("?"))))
        };
        let mappings: Vec<_> = maps.lines().filter_map(mapping).collect();
        let functions = std::env::current_exe().ok();
        let functions = functions.and_then(|this| functions_of(&this, &mappings));
        Self {
            functions: functions.unwrap_or_default(),
            mappings,
        }
    }

    /// A line for each address: a function, or a file and the offset in its mapping.
    fn describe(&self, stack: &[usize]) -> Vec<String> {
        let line = |at: &usize| {
            let mapping = |(start, end, _): &&(usize, usize, PathBuf)| (*start..*end).contains(at);
            let mapping = self.mappings.iter().find(mapping);
            let is_this = mapping
                .is_some_and(|(.., file)| std::env::current_exe().is_ok_and(|this| this == *file));
            let before = self.functions.partition_point(|(start, _)| start < at);
            match (is_this, before.checked_sub(1), mapping) {
                (true, Some(function), _) => format!("{:#}", demangle(&self.functions[function].1)),
                (_, _, Some((start, _, file))) => format!("{} + {:#x}", file.display(), at - start),
                _ => format!("{at:#x}"),
            }
        };
        stack.iter().map(line).collect()
    }
}

/// The symbols of functions in an ELF file, with their addresses in memory.
fn functions_of(
    path: &std::path::Path,
    mappings: &[(usize, usize, PathBuf)],
) -> Option<Vec<(usize, String)>> {
    use object::{Object as _, ObjectSymbol as _, SymbolKind};
    let bytes = fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    // The first mapping of the file is its start, at address 0 of a position-independent program.
    let (base, ..) = mappings.iter().find(|(.., mapped)| mapped == path)?;
    let functions = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text);
    let mut functions: Vec<_> = functions
        .filter_map(|symbol| {
            let name = symbol.name().ok()?;
            Some((base + symbol.address() as usize, name.to_owned()))
        })
        .collect();
    functions.sort();
    Some(functions)
}

#[cfg(test)]
mod tests {
    use crate::program::program;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Waits for ever, as does a second thread.
    #[test]
    #[ignore = "run by another test, in a process of its own"]
    fn hangs() {
        let (sender, receiver) = mpsc::channel::<()>();
        std::thread::spawn(another_thread_waits);
        let _ = receiver.recv();
        drop(sender);
    }

    fn another_thread_waits() {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }

    #[test]
    fn a_test_that_hangs_is_ended_by_name_with_all_stacks() {
        let mut command = program(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "watch::tests::hangs", "--ignored"])
            .env(super::SECONDS, "1");
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(101), "{said}");
        let named = "the test pirn_testing::watch::tests::hangs";
        assert!(said.contains(named), "{said}");
        assert!(said.contains("another_thread_waits"), "{said}");
    }
}
