//! The system calls and allocations of one cycle: instantiate, call, host call and teardown. The
//! test fails if either list differs from the expected one.
//!
//! This program runs itself under ptrace(2) to list the system calls.
#![allow(unsafe_code, reason = "an allocator that counts, and ptrace(2)")]

mod common;

use pirn_runtime::{Caller, Instance, Linker, Measure, Prepared, Region, Reset, Step};
use pirn_testing::allocator::{Counting, allocations};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The work of one cycle.
#[derive(Debug, Clone, Copy)]
enum Case {
    /// A guest without memory, called.
    Null,
    /// A guest with one page of memory that calls the host, which reads its memory.
    HostCall,
    /// A guest of 69 pages with an image, which writes eight of 4 KiB.
    Writes,
    /// A guest that grows by a page and writes there.
    Grows,
    /// A guest without memory, called with a deadline.
    Limited,
    /// A guest without memory that asks its caller, and is answered.
    Asks,
    /// Like [`Case::HostCall`], with every measurement except processor time.
    Measured,
    /// Like [`Case::Asks`], with processor time measured.
    MeasuredAsks,
}

const CASES: [Case; 8] = [
    Case::Null,
    Case::HostCall,
    Case::Writes,
    Case::Grows,
    Case::Limited,
    Case::Asks,
    Case::Measured,
    Case::MeasuredAsks,
];

/// The system calls of one cycle, in the order of the cases.
fn expected(reset: Reset) -> [&'static [i64]; 8] {
    use libc::{SYS_ioctl as IOCTL, SYS_madvise as MADVISE, SYS_mprotect as MPROTECT};
    // Reads of processor time: at the start and end of each of two steps.
    const CLOCKS: &[i64] = &[libc::SYS_clock_gettime; 4];
    match reset {
        // Growth unprotects pages with mprotect(2); the reset protects them again.
        Reset::Tracked => [&[], &[], &[], &[MPROTECT, MPROTECT], &[], &[], &[], CLOCKS],
        // One PAGEMAP_SCAN ioctl finds the dirty pages.
        Reset::Scanned => [
            &[],
            &[IOCTL],
            &[IOCTL],
            // Growth; then the reset frees the grown pages, scans the others, and protects the
            // grown ones again.
            &[MPROTECT, MADVISE, IOCTL, MPROTECT],
            &[],
            &[],
            &[IOCTL],
            CLOCKS,
        ],
        // The reset frees the pages after the first 64 KiB.
        Reset::Rewritten => [
            &[],
            &[],
            &[MADVISE],
            &[MPROTECT, MADVISE, MPROTECT],
            &[],
            &[],
            &[],
            CLOCKS,
        ],
        Reset::Decommitted => [
            &[],
            &[MADVISE],
            &[MADVISE],
            &[MPROTECT, MADVISE, MPROTECT],
            &[],
            &[],
            &[MADVISE],
            CLOCKS,
        ],
        other => panic!("{other} is not in the list"),
    }
}

const HOST_CALL: &str = r#"(module (import "host" "f" (func $f (param i32) (result i32))) (memory 1)
      (func (export "run") (i32.store (i32.const 8) (call $f (i32.const 4)))))"#;

const ASKS: &str = r#"(module (import "host" "ask" (func $ask (param i32) (result i32)))
      (func (export "run") (drop (call $ask (i32.const 4)))))"#;

const GUESTS: [&str; 8] = [
    "(module (func (export \"run\")))",
    HOST_CALL,
    r#"(module (memory 69) (data (i32.const 0) "a") (data (i32.const 9000) "b")
      (func (export "run") (local $at i32)
        (loop $next
          (i32.store (local.get $at) (i32.const 7))
          (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4096)))
            (i32.const 32768))))))"#,
    r#"(module (memory 1 9) (func (export "run")
      (drop (memory.grow (i32.const 1))) (i32.store (i32.const 65536) (i32.const 1))))"#,
    "(module (func (export \"run\")))",
    ASKS,
    HOST_CALL,
    ASKS,
];

/// No call reaches this limit. The timer thread wakes once in this time.
const LIMIT: Duration = Duration::from_secs(3600);

fn prepare(case: Case, reset: Reset) -> Prepared<u32, u32, u32> {
    let mut linker = Linker::<u32, u32, u32>::asking();
    let read = |mut caller: Caller<'_, u32>, at: u32| {
        *caller.data_mut() += 1;
        caller.memory().read_u32(at)
    };
    linker
        .func("host", "f", read)
        .and_then(|linker| linker.func_ask("host", "ask", |_, n: u32| Ok(n), |_, _: u32, n| n))
        .expect("the names are free");
    let region = Region::builder()
        .slots(2)
        .reset(reset)
        .build()
        .expect("a region");
    let prepared = region
        .prepare(&common::wat(GUESTS[case as usize]), &linker)
        .expect("it fits");
    match case {
        Case::Measured => prepared.measured(Measure::WallTime),
        Case::MeasuredAsks => prepared.measured(Measure::CpuTime),
        _ => prepared,
    }
}

/// One cycle, as a function that can be repeated.
fn cycle(case: Case, reset: Reset) -> impl FnMut() {
    let prepared = prepare(case, reset);
    let run = prepared.func::<(), ()>("run").expect("it is exported");
    move || {
        let mut instance: Instance<u32, u32, u32> =
            prepared.try_instantiate(0).expect("a slot is free");
        match case {
            Case::Limited => instance.deadline(LIMIT).call(&run, ()),
            Case::Asks | Case::MeasuredAsks => match instance.start(&run, ()).expect("it asks") {
                Step::Asked(n) => instance.resume_with(&run, n).map(|step| {
                    assert_eq!(step, Step::Returned(()));
                }),
                other => panic!("{other:?}"),
            },
            _ => instance.call(&run, ()),
        }
        .expect("it returns");
        std::hint::black_box(instance.usage());
        drop(instance);
    }
}

fn main() -> ExitCode {
    pirn_testing::watch::main_thread();
    match std::env::var(TRACED) {
        Ok(_) => traced(),
        Err(_) => {
            no_allocations();
            the_listed_system_calls();
        }
    }
    println!("hot path: no allocation, and the listed system calls");
    ExitCode::SUCCESS
}

fn no_allocations() {
    for reset in common::resets() {
        for case in CASES {
            let mut cycle = cycle(case, reset);
            (0..10).for_each(|_| cycle());
            let before = allocations();
            (0..100).for_each(|_| cycle());
            assert_eq!(allocations() - before, 0, "{case:?}, {reset}");
        }
    }
    // A canary: the counter must count this allocation.
    let before = allocations();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(allocations() - before, 1);
}

const TRACED: &str = "PIRN_TEST_TRACED";
/// An argument of getpgid(2) that tells the tracer that a cycle starts or ends. No other code
/// passes it.
const MARK: u64 = 0x7069_726e;

fn mark() {
    // SAFETY: getpgid(2) takes no pointers. No process has this id.
    unsafe { libc::syscall(libc::SYS_getpgid, MARK) };
}

/// Number of traced cycles for each case.
const ROUNDS: usize = 4;

/// Runs in the traced process: warms up, and makes `ROUNDS` cycles of each case between two marks.
fn traced() {
    for reset in common::resets() {
        for case in CASES {
            let mut cycle = cycle(case, reset);
            (0..10).for_each(|_| cycle());
            for _ in 0..ROUNDS {
                mark();
                cycle();
                mark();
            }
        }
    }
}

fn the_listed_system_calls() {
    let Some(found) = trace() else {
        eprintln!("NOT RUN: ptrace(2) is refused here, so system calls are not counted");
        return;
    };
    let resets = common::resets();
    let of_one = CASES.len() * ROUNDS;
    assert_eq!(found.len(), resets.len() * of_one, "{found:?}");
    let mut wakes = 0;
    for (reset, found) in resets.iter().zip(found.chunks(of_one)) {
        for ((case, found), expected) in
            CASES.iter().zip(found.chunks(ROUNDS)).zip(expected(*reset))
        {
            for found in found {
                if matches!(case, Case::Limited) && found[..] == [libc::SYS_futex] {
                    wakes += 1;
                } else {
                    assert_eq!(found, expected, "{case:?}, {reset}");
                }
            }
        }
    }
    // A call wakes the timer thread only if that thread would otherwise check too late. All calls
    // have one limit, so this happens at most once in `LIMIT`. Usually the first call wakes the
    // thread. A later call does so if the thread has just checked and found no running call.
    assert!(wakes <= 1, "the timer thread was woken {wakes} times");
}

/// Runs this program under ptrace(2); returns the system calls between each pair of marks. `None`
/// if tracing is not permitted.
fn trace() -> Option<Vec<Vec<i64>>> {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(TRACED, "1").stdout(std::process::Stdio::null());
    // SAFETY: ptrace(2) with `PTRACE_TRACEME` uses no pointers, and is async-signal-safe between
    // fork and exec.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let child = command.spawn().ok()?;
    let pid = child.id().cast_signed();
    let mut status = wait(pid);
    assert!(libc::WIFSTOPPED(status), "it stops at its start");
    // SAFETY: the child is stopped, and `PTRACE_SETOPTIONS` uses no pointers.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::PTRACE_O_TRACESYSGOOD) };
    let (mut found, mut between, mut entering) = (vec![], None::<Vec<i64>>, true);
    let mut deliver = 0;
    loop {
        // SAFETY: the child is stopped: `wait` returned it, and it has not exited. `PTRACE_SYSCALL`
        // uses no pointers.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, deliver) };
        deliver = 0;
        status = wait(pid);
        if libc::WIFEXITED(status) {
            assert_eq!(libc::WEXITSTATUS(status), 0, "the child exits with 0");
            return Some(found);
        }
        assert!(
            libc::WIFSTOPPED(status),
            "a signal ended the child: {status:#x}"
        );
        if libc::WSTOPSIG(status) != libc::SIGTRAP | 0x80 {
            deliver = libc::WSTOPSIG(status);
            continue;
        }
        if entering {
            let (number, first) = system_call(pid);
            match (&mut between, number == libc::SYS_getpgid && first == MARK) {
                (None, true) => between = Some(vec![]),
                (Some(_), true) => found.extend(between.take()),
                (Some(calls), false) => calls.push(number),
                (None, false) => {}
            }
        }
        entering = !entering;
    }
}

fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is a valid `c_int` that waitpid(2) writes to.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

/// Number and first argument of the system call that a stopped child is about to make.
fn system_call(pid: i32) -> (i64, u64) {
    // SAFETY: all-zero is a valid `ptrace_syscall_info`, and the kernel writes at most `bytes`
    // bytes.
    unsafe {
        let mut info: libc::ptrace_syscall_info = std::mem::zeroed();
        let bytes = size_of::<libc::ptrace_syscall_info>();
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, bytes, &raw mut info);
        (info.u.entry.nr.cast_signed(), info.u.entry.args[0])
    }
}
