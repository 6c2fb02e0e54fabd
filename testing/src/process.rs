//! Runs a test, or a case of a suite, in a child process of its own, from which the kernel may
//! refuse system calls.
//!
//! # Safety
//!
//! [`case`] calls alarm(2), which takes no pointers. [`refuse`] gives the kernel a filter that
//! lives during the call.
#![allow(unsafe_code, reason = "alarms and filters are system calls")]

pub use libc::{ENOSYS, SYS_openat2};

use crate::program::program;
use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::process::Output;

/// Environment variable that tells a child process which case to run.
const CASE: &str = "PIRN_TEST_CASE";
/// The case of a child process of [`alone`].
const ALONE: &str = "alone";
/// Seconds after which a child process ends. The limit of the test in the parent is longer.
const CASE_SECONDS_MAX: u32 = 1200;

/// Prints a note about a test that this machine cannot run. Writes to stderr directly, because the
/// test harness hides the output of a passing test.
pub fn not_run(what: impl Display) {
    writeln!(std::io::stderr(), "NOT RUN: {what}").expect("stderr is open");
}

/// Runs a test of this program in a child process, with a case.
fn run(test: &str, case: &str) -> Output {
    let this = std::env::current_exe().expect("this program");
    let mut command = program(this);
    command
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(CASE, case);
    let output = command.output().expect("the program starts");
    // A test program without a test of this name succeeds, too, so check that one test ran.
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("running 1 test"), "{test}, {case}: {told}");
    output
}

/// Runs a case in a child process: the ignored test `case` of the caller's suite, which is the
/// module of the caller's file, or of its folder, in `tests`.
#[track_caller]
pub fn child(case: &str) -> Output {
    let file = Location::caller().file();
    let (_, inside) = file.rsplit_once("tests/").expect("a test calls");
    let suite = inside.split(['/', '.']).next().unwrap_or(inside);
    run(&format!("{suite}::case"), case)
}

/// In a child process: the case to run. An endless wait fails after twenty minutes.
pub fn case() -> String {
    // SAFETY: alarm(2) takes no pointers.
    unsafe { libc::alarm(CASE_SECONDS_MAX) };
    std::env::var(CASE).expect("the parent names the case")
}

/// Runs a case in a child process (see [`child`]) and checks its exit code.
#[track_caller]
pub fn exited_with(case: &str, code: i32) {
    check(case, &child(case), code);
}

fn check(case: &str, output: &Output, code: i32) {
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| line.starts_with("NOT RUN: ")) {
        writeln!(std::io::stderr(), "{line}").expect("stderr is open");
    }
    let status = output.status;
    assert_eq!(status.code(), Some(code), "{case}: {status:?} {said}");
}

/// Runs the calling test in a child process, where no other test runs. Tests that measure their
/// process need this: memory, mappings, descriptors, threads.
///
/// The test harness names each test's thread like the test.
pub fn alone(test: impl FnOnce()) {
    if std::env::var(CASE).is_ok_and(|case| case == ALONE) {
        test();
        return;
    }
    let thread = std::thread::current();
    let name = thread.name().expect("the test harness names threads");
    let output = run(name, ALONE);
    // Figures that the test prints. The harness shows them with `--nocapture`.
    print!("{}", String::from_utf8_lossy(&output.stdout));
    check(name, &output, 0);
}

/// Ends a child process successfully, after a note about a feature that this machine lacks. An
/// emulated CPU may lack features that its kernel has.
pub fn not_here(what: &str) -> ! {
    not_run(what);
    std::process::exit(0);
}

/// Makes the kernel refuse a system call of this thread from now on (seccomp(2)). With `argument`,
/// the kernel refuses only calls whose second argument is `argument`.
///
/// # Panics
///
/// If the kernel does not accept the promise that comes before a filter.
pub fn refuse(number: i64, argument: Option<u32>, errno: i32) {
    let statement = |code, k| libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    let unless = |k, skipped| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: skipped,
        k,
    };
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    // Offsets in `struct seccomp_data`: the number is at 0, the arguments start at 16, 8 bytes
    // each.
    let mut program = vec![statement(load, 0)];
    match argument {
        None => program.push(unless(number as u32, 1)),
        Some(value) => program.extend([
            unless(number as u32, 3),
            statement(load, 24),
            unless(value, 1),
        ]),
    }
    program.extend([
        statement(give, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(give, libc::SECCOMP_RET_ALLOW),
    ]);
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` points to `program`, which is alive. The kernel checks the filter.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        if libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) != 0 {
            not_here("there are no filters of system calls here (seccomp(2))");
        }
    }
}
