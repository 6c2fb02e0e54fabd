//! Faults that are no guest's go to whoever handled them before us, as if we were not there.
//!
//! Each case runs in a process of its own, which is this test program again, told by its environment
//! what to do.
#![allow(
    unsafe_code,
    reason = "a test of what happens after wrong pointers and raised signals"
)]

mod common;

use pirn_runtime::{HostError, Linker, Region};
use std::os::unix::process::ExitStatusExt;

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
fn a_fault_of_the_host_kills_the_process() {
    died_of("fault outside a guest", libc::SIGSEGV);
    died_of("fault in a host function", libc::SIGSEGV);
}

#[test]
fn an_earlier_handler_gets_its_faults() {
    common::exited_with("earlier handler, outside a guest", 42);
    common::exited_with("earlier handler, in a host function", 42);
}

#[test]
fn a_signal_that_someone_sends_is_no_trap() {
    died_of("sent while a guest is on the stack", libc::SIGSEGV);
    common::exited_with("sent and ignored", 0);
}

#[test]
fn a_guest_traps_where_an_earlier_handler_is_installed() {
    common::exited_with("trap with an earlier handler", 0);
}

/// Not a test: what the processes do.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    let case = common::case();
    if case.contains("earlier handler") {
        // SAFETY: the handler only ends the process.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = earlier as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            assert_eq!(
                libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()),
                0
            );
        }
    }
    if case.contains("sent") {
        // Rust's own handler swallows what is sent.
        let was = if case.contains("ignored") {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        // SAFETY: neither is a function.
        unsafe { libc::signal(libc::SIGSEGV, was) };
    }
    let region = Region::builder().slots(1).build().expect("a region");
    match case.as_str() {
        "fault outside a guest" | "earlier handler, outside a guest" => fault(),
        "fault in a host function" | "earlier handler, in a host function" => {
            in_host(&region, || {
                fault();
                Ok(())
            });
        }
        "sent while a guest is on the stack" | "sent and ignored" => in_host(&region, || {
            // SAFETY: sends a signal to this thread.
            unsafe { libc::raise(libc::SIGSEGV) };
            Ok(())
        }),
        "trap with an earlier handler" => {
            let module = common::wat(include_str!("../../examples/guests/traps.wat"));
            let prepared = region.prepare(&module, &Linker::new()).expect("it links");
            let mut instance = prepared.instantiate(()).expect("a slot");
            for name in ["load_out_of_bounds", "stack_overflow"] {
                instance.call_values(name, &[]).expect_err("it traps");
            }
        }
        other => panic!("no case {other}"),
    }
}

extern "C" fn earlier(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: _exit(2) is safe in a handler.
    unsafe { libc::_exit(42) };
}

/// Reads where nothing is mapped.
fn fault() {
    let nowhere = std::hint::black_box(16 as *const u8);
    // SAFETY: none: the process is to die of it.
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
