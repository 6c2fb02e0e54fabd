//! Shared by tests that change their own process: a region with guests that load, store, loop and
//! fork.

use pirn_runtime::{CallError, Caller, Instance, Linker, Module, Prepared, Region, Reset, Value};
use std::time::Duration;

/// Runs a case under every reset.
#[track_caller]
pub(crate) fn everywhere(case: &str) {
    for reset in super::resets() {
        super::exited_with(&format!("{case} {reset}"), 0);
    }
}

pub(crate) const GUEST: &str = r#"(module
  (import "host" "fork" (func $fork (result i32)))
  (memory (export "memory") 1 4) (data (i32.const 8) "image")
  (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "store") (param i32 i32) (i32.store8 (local.get 0) (local.get 1)))
  (func (export "forever") (loop $l (br $l)))
  (func (export "fork_and_loop") (drop (call $fork)) (loop $l (br $l)))
  (func (export "fork") (result i32)
    (i32.store8 (i32.const 100) (i32.const 7))
    (i32.add (call $fork) (i32.load8_u (i32.const 100))))
  (func (export "grow") (result i32)
    (i32.store8 (i32.const 100) (i32.const 7))
    (i32.add (memory.grow (i32.const 1)) (i32.load8_u (i32.const 100)))))"#;

pub(crate) struct Setup {
    pub(crate) region: Region,
    pub(crate) prepared: Prepared<()>,
}

impl Setup {
    pub(crate) fn new(reset: Reset, memory_max: usize) -> Self {
        Self::of(&super::wat(GUEST), reset, memory_max)
    }

    /// Takes a compiled module, because a child has no threads with which to compile one.
    pub(crate) fn of(module: &Module, reset: Reset, memory_max: usize) -> Self {
        let region = Region::builder()
            .slots(3)
            .memory_bytes_max(memory_max)
            .reset(reset);
        let region = region.build().expect("a region");
        let mut linker = Linker::new();
        // Returns 0 in the child, 1 in the parent.
        let fork = |_: Caller<'_, ()>| i32::from(fork() != 0);
        linker.func("host", "fork", fork).expect("the name is free");
        linker.memory_limiter(|(), _| self::fork() >= 0);
        let prepared = region.prepare(module, &linker).expect("it links");
        Self { region, prepared }
    }

    pub(crate) fn instance(&self) -> Instance<()> {
        self.prepared.try_instantiate(()).expect("a slot is free")
    }
}

pub(crate) fn load(instance: &mut Instance<()>, at: i32) -> Result<i32, String> {
    let results = instance.call_values("load", &[Value::I32(at)]);
    match results.map_err(|error| error.to_string())?[..] {
        [Value::I32(byte)] => Ok(byte),
        _ => Err("another type".to_owned()),
    }
}

pub(crate) fn store(instance: &mut Instance<()>, at: i32, byte: i32) -> Result<(), String> {
    let done = instance.call_values("store", &[Value::I32(at), Value::I32(byte)]);
    done.map(drop).map_err(|error| error.to_string())
}

pub(crate) fn fork() -> i32 {
    // SAFETY: fork(2) is a plain system call. The child only runs guests and ends with _exit(2).
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork(2) works");
    child
}

pub(crate) fn ended_well(child: i32) {
    let mut status = 0;
    // SAFETY: `status` is a valid `c_int` that waitpid(2) writes to.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "exit status of the child");
}

/// Ends a child process; the exit code is 0 unless `run` panics.
pub(crate) fn child(run: impl FnOnce() + std::panic::UnwindSafe) -> ! {
    let result = std::panic::catch_unwind(run);
    // SAFETY: _exit(2) takes no pointers. It ends the child without the parent's exit handlers.
    unsafe { libc::_exit(i32::from(result.is_err())) };
}

pub(crate) fn ends_late(setup: &Setup) {
    let mut instance = setup.instance();
    for _ in 0..3 {
        let limited = instance.deadline(Duration::from_millis(2));
        let ended = limited.call_values("forever", &[]);
        assert!(matches!(ended, Err(CallError::Deadline(_))), "{ended:?}");
        assert_eq!(load(&mut instance, 8).expect("it lives"), i32::from(b'i'));
    }
}

/// Ends this child process if it hangs, so that an endless wait fails the test. The limit is in
/// minutes, because a busy machine may delay a child by any number of seconds.
pub(crate) fn limit_run_time() {
    // SAFETY: alarm(2) takes no pointers.
    unsafe { libc::alarm(300) };
}
