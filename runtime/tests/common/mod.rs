//! Shared by the runtime's tests: compiles and opens modules, and runs cases in child processes.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(
    unsafe_code,
    reason = "alternate stacks, limits and alarms are system calls"
)]

pub(crate) mod file;
pub(crate) mod guest;
pub(crate) mod setup;
pub(crate) mod values;

#[allow(unused_imports, reason = "each test uses a part of it")]
pub(crate) use pirn_testing::process::{
    alone, case, child, exited_with, not_here, not_run, refuse,
};
#[allow(unused_imports, reason = "each test uses a part of it")]
pub(crate) use pirn_testing::{campaign, program, random, retry};

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{Module, Region, Reset};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use tempfile::TempPath;

/// Compiles a binary module for this machine's baseline and opens it.
pub(crate) fn open(wasm: &[u8]) -> Result<Module, String> {
    open_with(wasm, &Options::default())
}

/// Compiles a binary module with these options and opens it.
pub(crate) fn open_with(wasm: &[u8], options: &Options) -> Result<Module, String> {
    let so = pirn_compiler::compile(wasm, options).map_err(|e| e.to_string())?;
    Module::from_bytes(&so).map_err(|e| e.to_string())
}

/// Compiles a module in the text format and opens it.
pub(crate) fn wat(text: &str) -> Module {
    wat_with(text, &Options::default())
}

/// Compiles a module in the text format with these options, and opens it.
pub(crate) fn wat_with(text: &str, options: &Options) -> Module {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
    open_with(&wasm, options).expect("the module is valid")
}

/// Compiles a module in the text format to code that counts fuel, and opens it.
pub(crate) fn counting(text: &str, level: OptLevel) -> Module {
    let mut options = Options::default();
    (options.fuel, options.opt_level) = (true, level);
    wat_with(text, &options)
}

/// A temporary file with these bytes. It is deleted when the path is dropped.
pub(crate) fn file(bytes: &[u8]) -> TempPath {
    let mut file = tempfile::Builder::new()
        .suffix(".so")
        .tempfile()
        .expect("a temporary file");
    file.write_all(bytes).expect("room for a temporary file");
    file.into_temp_path()
}

/// The resets that this machine supports. Prints which ones are not tested.
pub(crate) fn resets() -> Vec<Reset> {
    let works = |reset: &Reset| {
        let tried = Region::builder().slots(1).reset(*reset).build();
        if let Err(error) = &tried {
            not_run(error);
        }
        tried.is_ok()
    };
    Reset::ALL.into_iter().filter(works).collect()
}

/// Maximum number of times that a test repeats a call until a time slice ends in it. On a busy
/// machine the timer is late, and a call of some milliseconds may return first.
pub(crate) const SLICED_CALLS_MAX: usize = 10_000;

/// In a child process: the case to run, and its reset.
pub(crate) fn case_and_reset() -> (String, Reset) {
    let both = case();
    let (case, reset) = both.split_once(' ').expect("two words");
    (case.to_owned(), reset_named(reset))
}

/// In a child process: sets a resource limit (getrlimit(2)).
pub(crate) fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: (all calls) `limit` is a valid `rlimit` that the system calls read or write.
    unsafe {
        assert_eq!(libc::getrlimit(resource, &raw mut limit), 0);
        limit.rlim_cur = most;
        assert_eq!(libc::setrlimit(resource, &raw const limit), 0);
        assert_eq!(libc::getrlimit(resource, &raw mut limit), 0);
    }
    if limit.rlim_cur != most {
        not_here(&format!(
            "limit {resource} of getrlimit(2) is not kept here"
        ));
    }
}

/// The reset with this name.
pub(crate) fn reset_named(name: &str) -> Reset {
    let reset = Reset::ALL
        .into_iter()
        .find(|reset| reset.to_string() == name);
    reset.expect("the other tests know the names")
}

/// Gives this thread an alternate signal stack of `bytes` bytes, which is never freed.
pub(crate) fn alternate_stack(bytes: usize) {
    let stack = libc::stack_t {
        ss_sp: Box::leak(vec![0_u8; bytes].into_boxed_slice())
            .as_mut_ptr()
            .cast(),
        ss_flags: 0,
        ss_size: bytes,
    };
    // SAFETY: `stack` describes leaked memory that nothing else uses.
    let set = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Address and size in bytes of this thread's alternate signal stack; 0 and 0 if there is none.
pub(crate) fn alternate_stack_now() -> (usize, usize) {
    // SAFETY: all-zero is a valid `stack_t`, and sigaltstack(2) writes to it.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(std::ptr::null(), &raw mut stack), 0);
        (stack.ss_sp as usize, stack.ss_size)
    }
}

/// The index of the first different byte of two slices of one length.
pub(crate) fn first_difference(found: &[u8], expected: &[u8]) -> Option<usize> {
    // A comparison of slices is fast, also in an unoptimised test.
    let mut parts = found.chunks(4096).zip(expected.chunks(4096));
    let part = parts.position(|(found, expected)| found != expected)?;
    (part * 4096..found.len()).find(|at| found[*at] != expected[*at])
}

/// The entries of a range of addresses in /proc/self/pagemap, one for each page of 4096 bytes
/// (proc_pid_pagemap(5)).
pub(crate) fn pagemap(range: Range<usize>) -> Vec<u64> {
    const CPU_PAGE: usize = 4096;
    let mut entries = vec![0; range.len() / CPU_PAGE * 8];
    let file = File::open("/proc/self/pagemap").expect("/proc is mounted");
    let at = range.start / CPU_PAGE * 8;
    let read = file.read_exact_at(&mut entries, at as u64);
    read.expect("the process may read its own");
    let (entries, _) = entries.as_chunks();
    entries
        .iter()
        .map(|entry| u64::from_ne_bytes(*entry))
        .collect()
}
