//! Runs a test, or a case of a suite, in a child process of its own.
//!
//! # Safety
//!
//! [`case`] calls alarm(2), which takes no pointers.
#![allow(unsafe_code, reason = "alarms are a system call")]

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
    // A test program without a test of that name succeeds too, so check that one test ran.
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
    std::env::var(CASE).expect("the other tests say which")
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
    check(name, &run(name, ALONE), 0);
}
