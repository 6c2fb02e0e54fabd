//! What the runtime's tests share: from text to an open module.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(
    unsafe_code,
    reason = "alternate stacks, limits and alarms are system calls"
)]

pub(crate) mod file;
pub(crate) mod guest;
pub(crate) mod house;
pub(crate) mod program;
pub(crate) mod random;
pub(crate) mod values;

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{Module, Region, Reset};
use std::fmt::Display;
use std::io::Write;
use std::process::Output;
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

/// Compiles text and opens it; the text is the test's own.
pub(crate) fn wat(text: &str) -> Module {
    wat_with(text, &Options::default())
}

/// Compiles text with these options and opens it; the text is the test's own.
pub(crate) fn wat_with(text: &str, options: &Options) -> Module {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
    open_with(&wasm, options).expect("the module is valid")
}

/// Compiles text so that it counts fuel, and opens it.
pub(crate) fn counting(text: &str, level: OptLevel) -> Module {
    let mut options = Options::default();
    (options.fuel, options.opt_level) = (true, level);
    wat_with(text, &options)
}

/// A file with these bytes, deleted when the path is dropped.
pub(crate) fn file(bytes: &[u8]) -> TempPath {
    let mut file = tempfile::Builder::new()
        .suffix(".so")
        .tempfile()
        .expect("a temporary file");
    file.write_all(bytes).expect("room for a temporary file");
    file.into_temp_path()
}

/// Says what is not tested here, past the test harness, which hides what a test that passes prints.
pub(crate) fn not_run(what: impl Display) {
    writeln!(std::io::stderr(), "NOT RUN: {what}").expect("stderr is open");
}

/// The ways of resetting that this machine has; of the others it is said that they were not tested.
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

/// Says to this program what to do in a process of its own.
const CASE: &str = "PIRN_TEST_CASE";

/// Runs the test `case` of this program, which is ignored otherwise, in a process of its own.
pub(crate) fn child(case: &str) -> Output {
    let this = std::env::current_exe().expect("this program");
    let mut command = program::program(this);
    command
        .args(["--exact", "case", "--ignored", "--nocapture"])
        .env(CASE, case);
    let output = command.output().expect("the program starts");
    // Where no test has that name, none fails.
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("running 1 test"), "{case}: {told}");
    output
}

/// In such a process: what it is to do. What waits for ever fails after ten minutes.
pub(crate) fn case() -> String {
    // SAFETY: a plain system call.
    unsafe { libc::alarm(600) };
    std::env::var(CASE).expect("the other tests say which")
}

/// The same, of a case under a reset.
pub(crate) fn case_and_reset() -> (String, Reset) {
    let both = case();
    let (case, reset) = both.split_once(' ').expect("two words");
    (case.to_owned(), reset_named(reset))
}

/// Sees that such a process ends with this code.
pub(crate) fn exited_with(case: &str, code: i32) {
    let output = child(case);
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| line.starts_with("NOT RUN: ")) {
        writeln!(std::io::stderr(), "{line}").expect("stderr is open");
    }
    assert_eq!(
        output.status.code(),
        Some(code),
        "{case}: {:?} {said}",
        output.status
    );
}

/// In such a process: ends it well, saying what this machine does not have. An emulator of a processor may
/// keep less than the kernel under it.
pub(crate) fn not_here(what: &str) -> ! {
    not_run(what);
    std::process::exit(0);
}

/// From now on the kernel refuses a system call in this thread, if `argument` is none or its second
/// argument (seccomp(2)).
pub(crate) fn refuse(number: i64, argument: Option<u32>, errno: i32) {
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
    // Offsets in `struct seccomp_data`: the number at 0, the arguments from 16 on, 8 bytes each.
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
    // SAFETY: a filter that is well-formed, which the kernel checks, for this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        if libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) != 0 {
            not_here("there are no filters of system calls here (seccomp(2))");
        }
    }
}

/// In such a process: limits what it may use (getrlimit(2)).
pub(crate) fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: (all calls) the limits of this process, from and to a place of our own.
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

/// The way of resetting of a name.
pub(crate) fn reset_named(name: &str) -> Reset {
    let reset = Reset::ALL
        .into_iter()
        .find(|reset| reset.to_string() == name);
    reset.expect("the other tests know the names")
}

/// Gives this thread an alternate stack of so many bytes, which nobody frees.
pub(crate) fn alternate_stack(bytes: usize) {
    let stack = libc::stack_t {
        ss_sp: Box::leak(vec![0_u8; bytes].into_boxed_slice())
            .as_mut_ptr()
            .cast(),
        ss_flags: 0,
        ss_size: bytes,
    };
    // SAFETY: memory that is nobody else's.
    let set = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// This thread's alternate stack: where, and how many bytes; none at 0.
pub(crate) fn alternate_stack_now() -> (usize, usize) {
    // SAFETY: all-zero is a valid stack_t, which is read.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(std::ptr::null(), &raw mut stack), 0);
        (stack.ss_sp as usize, stack.ss_size)
    }
}
