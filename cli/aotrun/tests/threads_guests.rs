//! Programs with threads from real toolchains: each part of pthreads and of Rust's `std::thread`,
//! under 64 threads, and each way in which a program with threads ends.

use crate::common;

use common::{aotrun, guest, run, stderr, stdout};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

/// A guest, compiled once for all tests.
struct Program {
    path: PathBuf,
    _folder: TempDir,
}

impl Program {
    fn new(name: &str) -> Self {
        let wasm = fs::read(guest(name)).expect("the guest is committed");
        let object = pirn_compiler::compile(&wasm, &Default::default()).expect("it compiles");
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("guest.so");
        fs::write(&path, object).expect("room for the object");
        Self {
            path,
            _folder: folder,
        }
    }

    fn command(&self, test: &str) -> Command {
        let mut command = aotrun();
        command.arg(&self.path).args(["--", test]);
        command
    }

    fn passes(&self, test: &str) {
        let output = run(&mut self.command(test), "");
        let said = (stdout(&output), stderr(&output), output.status.code());
        assert_eq!(said, (format!("{test} ok\n"), String::new(), Some(0)));
    }

    /// Starts a test whose standard input stays open and silent.
    fn starts(&self, test: &str) -> Child {
        let mut command = self.command(test);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
            .stderr(Stdio::piped())
            .spawn()
            .expect("aotrun starts")
    }
}

static C: LazyLock<Program> = LazyLock::new(|| Program::new("threads-c.wasm"));
static RUST: LazyLock<Program> = LazyLock::new(|| Program::new("threads-rust.wasm"));

/// One test for each name, so that they run at the same time and fail apart.
macro_rules! passing {
    ($program:ident: $($test:ident => $name:ident)*) => {
        $(#[test]
        fn $name() {
            $program.passes(stringify!($test));
        })*
    };
}

passing! { C:
    mutex => c_mutexes_exclude_and_report_misuse
    cond => c_condition_variables_wake_and_time_out
    signal => c_each_signal_wakes_one_waiter
    barrier => c_barriers_meet_in_every_round
    tls => c_thread_local_variables_and_keys_are_of_each_thread
    once => c_once_runs_once_and_others_wait
    detached => c_detached_threads_return_their_stacks
    rwlock => c_rwlocks_admit_readers_or_a_writer
    semaphore => c_semaphores_admit_three
    spin => c_spin_locks_exclude
    c11 => c_threads_of_c11_work
    malloc => c_blocks_are_freed_by_other_threads
    limit => c_one_thread_too_many_is_refused_with_eagain
}

passing! { RUST:
    mutex => rust_mutexes_exclude
    condvar => rust_condition_variables_wake_and_time_out
    barrier => rust_barriers_meet_in_every_round
    thread_local => rust_thread_locals_are_dropped_by_each_thread
    once => rust_once_runs_once
    detached => rust_detached_threads_return_their_slots
    rwlock => rust_rwlocks_admit_readers_or_a_writer
    channel => rust_channels_carry_all_messages
    park => rust_parked_threads_are_unparked
    allocate => rust_blocks_are_freed_by_other_threads
    limit => rust_one_thread_too_many_is_an_error
}

/// The lock of a file covers a whole call.
#[test]
fn lines_of_threads_are_not_mixed() {
    let output = run(&mut C.command("stdio"), "");
    let found = stdout(&output);
    let found: BTreeSet<_> = found.lines().collect();
    let wanted: Vec<_> = (0..64)
        .flat_map(|thread| (0..10).map(move |line| (thread, line)))
        .map(|(thread, line)| format!("thread {thread:02} says {line} of ten"))
        .chain(["stdio ok".to_owned()])
        .collect();
    assert_eq!(found, wanted.iter().map(String::as_str).collect());
}

/// Ends a program while 63 other threads wait for a futex, compute, sleep, and read standard input.
#[track_caller]
fn ends(program: &Program, test: &str, code: i32, out: &str, error: &str) {
    let mut child = program.starts(test);
    // Held open until the end: a thread of the guest waits for a byte.
    let input = child.stdin.take();
    let mut found = [String::new(), String::new()];
    let mut pipes = (child.stdout.take(), child.stderr.take());
    let pipe = pipes.0.as_mut().expect("a pipe was asked for");
    pipe.read_to_string(&mut found[0]).expect("UTF-8");
    let pipe = pipes.1.as_mut().expect("a pipe was asked for");
    pipe.read_to_string(&mut found[1]).expect("UTF-8");
    let status = child.wait().expect("aotrun ends");
    drop(input);
    assert_eq!((status.code(), found[0].as_str()), (Some(code), out));
    assert!(found[1].contains(error), "{test}: {}", found[1]);
    let reports = found[1].matches("aotrun: ").count();
    assert_eq!(reports, usize::from(code == 134), "{test}: {}", found[1]);
}

#[test]
fn any_thread_may_end_the_program() {
    ends(&C, "end-return", 0, "return: ", "");
    // `exit` writes what is buffered, `_exit` does not.
    ends(&C, "end-exit", 17, "exit: ", "");
    ends(&C, "end-_exit", 18, "", "");
    ends(&RUST, "exit", 19, "", "");
}

#[test]
fn a_trap_of_any_thread_ends_the_program_with_one_report() {
    ends(&C, "end-abort", 134, "", "aotrun: trap: unreachable");
    ends(
        &C,
        "end-trap",
        134,
        "",
        "aotrun: trap: out of bounds memory access",
    );
    ends(&RUST, "panic", 134, "", "the fortieth thread panics");
}

#[test]
fn wrong_arguments_are_reported() {
    let output = run(&mut C.command("nonsense"), "");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "no test \"nonsense\"\n");
    let output = run(C.command("mutex").arg("65"), "");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "65 threads; give 2 to 64\n");
}
