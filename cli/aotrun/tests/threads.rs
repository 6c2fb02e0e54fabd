//! Programs with threads (wasi-threads), and WASI over a shared memory.

use crate::common;

use common::{aotrun, run, stderr, stdout};
use pirn_testing::retry::with_longer_limits;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;
use tempfile::TempDir;

/// The common part of the guests. `$print` writes some bytes of the memory. Word 0 counts finished
/// threads, and guests wait at word 4.
const COMMON: &str = r#"
  (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "env" "memory" (memory 1 4 shared))
  (export "memory" (memory 0))
  (func $print (param i32 i32)
    (i32.store (i32.const 1024) (local.get 0)) (i32.store (i32.const 1028) (local.get 1))
    (if (call $write (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1032)) (then (unreachable))))
  (func $done
    (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))
    (drop (memory.atomic.notify (i32.const 0) (i32.const -1))))
  (func $join (param $count i32) (local $now i32)
    (loop $l
      (drop (memory.atomic.wait32 (i32.const 0) (local.tee $now (i32.atomic.load (i32.const 0))) (i64.const 1000000)))
      (br_if $l (i32.ne (i32.atomic.load (i32.const 0)) (local.get $count)))))"#;

fn program(rest: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("guest.wat");
    fs::write(&path, format!("(module {COMMON} {rest})")).expect("room for a module");
    (folder, path)
}

fn ran(rest: &str, input: &str) -> Output {
    let (_folder, path) = program(rest);
    run(aotrun().arg(path), input)
}

fn code(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), stderr(output))
}

#[test]
fn threads_share_the_memory_and_the_files() {
    let output = ran(
        r#"(data (i32.const 2048) "thread\nmain\n")
           (func (export "wasi_thread_start") (param $tid i32) (param $argument i32)
             ;; Each has its own number, and the argument that it was made with.
             (drop (i32.atomic.rmw.or (i32.const 8) (i32.shl (i32.const 1) (local.get $tid))))
             (drop (i32.atomic.rmw.add (i32.const 12) (local.get $argument)))
             (call $done))
           (func (export "_start") (local $n i32)
             (loop $l
               (if (i32.ne (call $spawn (i32.const 7)) (i32.add (local.get $n) (i32.const 1))) (then (unreachable)))
               (br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 20))))
             (call $join (i32.const 20))
             (if (i32.ne (i32.atomic.load (i32.const 8)) (i32.const 0x1ffffe)) (then (unreachable)))
             (if (i32.ne (i32.atomic.load (i32.const 12)) (i32.const 140)) (then (unreachable)))
             (call $print (i32.const 2055) (i32.const 5)))"#,
        "",
    );
    assert_eq!(code(&output), (Some(0), String::new()));
    assert_eq!(stdout(&output), "main\n");
}

#[test]
fn wasi_reads_and_writes_shared_memories() {
    let output = ran(
        r#"(func (export "wasi_thread_start") (param i32 i32)
             (i32.store (i32.const 1024) (i32.const 4096)) (i32.store (i32.const 1028) (i32.const 100))
             (if (call $read (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1036)) (then (unreachable)))
             (call $print (i32.const 4096) (i32.load (i32.const 1036)))
             (if (call $random (i32.const 8192) (i32.const 64)) (then (unreachable)))
             (if (i64.eqz (i64.or (i64.load (i32.const 8192)) (i64.load (i32.const 8248)))) (then (unreachable)))
             ;; A clock, relative, of a microsecond: one event.
             (i64.store (i32.const 9000) (i64.const 77)) (i32.store (i32.const 9016) (i32.const 1))
             (i64.store (i32.const 9024) (i64.const 1000))
             (if (call $poll (i32.const 9000) (i32.const 9100) (i32.const 1) (i32.const 9200)) (then (unreachable)))
             (if (i64.ne (i64.load (i32.const 9100)) (i64.const 77)) (then (unreachable)))
             (if (i32.ne (i32.load (i32.const 9200)) (i32.const 1)) (then (unreachable)))
             (call $done))
           (func (export "_start")
             (drop (call $spawn (i32.const 0)))
             (call $join (i32.const 1)))"#,
        "from outside",
    );
    assert_eq!(code(&output), (Some(0), String::new()));
    assert_eq!(stdout(&output), "from outside");
    // An access past the end of the memory ends the program.
    for call in [
        "(drop (call $random (i32.const 65535) (i32.const 2)))",
        "(drop (call $poll (i32.const 65500) (i32.const 0) (i32.const 1) (i32.const 0)))",
    ] {
        let output = ran(
            &format!(
                "(func (export \"wasi_thread_start\") (param i32 i32)) (func (export \"_start\") {call})"
            ),
            "",
        );
        let (code, said) = code(&output);
        assert_eq!(code, Some(134), "{call}: {said}");
        assert!(
            said.contains("out of bounds memory access"),
            "{call}: {said}"
        );
    }
}

/// The first thread that exits must end threads that wait or loop for ever. It exits after two of
/// them have begun.
#[test]
fn the_first_thread_that_ends_the_program_ends_all() {
    let waits = "(drop (memory.atomic.wait32 (i32.const 4) (i32.const 0) (i64.const -1)))";
    let spins = "(loop $l (br $l))";
    for (ends, wanted, said) in [
        ("(call $exit (i32.const 9))", 9, ""),
        ("(unreachable)", 134, "aotrun: trap: unreachable"),
        (
            "(drop (i32.load (i32.const 0x40000)))",
            134,
            "aotrun: trap: out of bounds memory access",
        ),
    ] {
        for others in [waits, spins] {
            let output = ran(
                &format!(
                    r#"(func (export "wasi_thread_start") (param i32) (param $ends i32)
                         (if (local.get $ends) (then (call $join (i32.const 2)) {ends}))
                         (call $done) {others})
                       (func (export "_start")
                         (drop (call $spawn (i32.const 0))) (drop (call $spawn (i32.const 0)))
                         (drop (call $spawn (i32.const 1)))
                         {others})"#
                ),
                "",
            );
            let (code, found) = code(&output);
            assert_eq!(code, Some(wanted), "{ends} {others}: {found}");
            assert!(found.starts_with(said), "{found}");
        }
    }
    // The first thread returns.
    for others in [waits, spins] {
        let output = ran(
            &format!(
                r#"(func (export "wasi_thread_start") (param i32 i32) (call $done) {others})
                   (func (export "_start")
                     (drop (call $spawn (i32.const 0))) (drop (call $spawn (i32.const 0)))
                     (call $join (i32.const 2)))"#
            ),
            "",
        );
        assert_eq!(code(&output), (Some(0), String::new()), "{others}");
    }
}

#[test]
fn a_deadline_ends_all_threads() {
    let (_folder, path) = program(
        r#"(data (i32.const 2048) "loops\n")
           (func (export "wasi_thread_start") (param i32 i32)
             (call $print (i32.const 2048) (i32.const 6)) (loop $l (br $l)))
           (func (export "_start")
             (drop (call $spawn (i32.const 0)))
             (drop (memory.atomic.wait32 (i32.const 4) (i32.const 0) (i64.const -1))))"#,
    );
    // The deadline must pass after the second thread has begun.
    with_longer_limits(Duration::from_millis(50), |limit| {
        let deadline = format!("{}ms", limit.as_millis());
        let output = run(aotrun().args(["--deadline", &deadline]).arg(&path), "");
        let (code, said) = code(&output);
        assert_eq!(code, Some(124), "{said}");
        assert!(said.contains("deadline"), "{said}");
        (stdout(&output) == "loops\n").then_some(())
    });
}

#[test]
fn spawning_too_many_threads_fails_in_the_guest() {
    let output = ran(
        r#"(func (export "wasi_thread_start") (param i32 i32)
             (drop (memory.atomic.wait32 (i32.const 4) (i32.const 0) (i64.const -1)))
             (call $done))
           (func (export "_start") (local $n i32)
             (loop $l
               (if (i32.gt_s (call $spawn (i32.const 0)) (i32.const 0)) (then
                 (local.set $n (i32.add (local.get $n) (i32.const 1)))
                 (br $l))))
             (i32.atomic.store (i32.const 4) (i32.const 1))
             (loop $w
               (drop (memory.atomic.notify (i32.const 4) (i32.const -1)))
               (br_if $w (i32.ne (i32.atomic.load (i32.const 0)) (local.get $n))))
             (call $exit (local.get $n)))"#,
        "",
    );
    assert_eq!(code(&output), (Some(64), String::new()));
}

#[test]
fn invalid_programs_with_threads_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("guest.wat");
    for (text, said) in [
        (
            r#"(module (import "wasi" "thread-spawn" (func (param i32) (result i32))) (memory (export "memory") 1)
                 (func (export "wasi_thread_start") (param i32 i32)) (func (export "_start")))"#,
            "it imports wasi.thread-spawn and no shared memory; link it with --import-memory and --shared-memory",
        ),
        (
            r#"(module (import "wasi" "thread-spawn" (func (param i32) (result i32)))
                 (import "env" "memory" (memory 1 1 shared)) (func (export "_start")))"#,
            "no exported function \"wasi_thread_start\"",
        ),
        (
            r#"(module (import "wasi" "thread-spawn" (func (param i32) (result i32)))
                 (import "env" "memory" (memory 1 1 shared)) (func (export "_start"))
                 (func (export "wasi_thread_start") (param i32)))"#,
            "\"wasi_thread_start\"",
        ),
        (
            r#"(module (import "env" "memory" (memory 65535 65535 shared)) (func (export "_start")))"#,
            "--memory-max is",
        ),
    ] {
        fs::write(&path, text).expect("room for a module");
        let output = run(aotrun().args(["--memory-max", "1MiB"]).arg(&path), "");
        let (code, found) = code(&output);
        assert_eq!(code, Some(1), "{found}");
        assert!(
            found.starts_with("aotrun: ") && found.contains(said),
            "{found}"
        );
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}
