//! The information that a WASI context gives its guest, and the information that it withholds.

use crate::common::setup::prepared;
use pirn_runtime::{CallError, Instance, Params, Prepared, Results};
use pirn_testing::retry::{Passed, with_fitting_limit};
use pirn_wasi::pipe::{ReadPipe, WritePipe};
use pirn_wasi::{Dir, WasiCtx, WasiCtxBuilder, ambient_authority};
use std::time::Duration;

/// The exports write results from address 16 and return an errno, or an errno and the requested
/// value.
const GUEST: &str = r#"(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $env_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $env (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $now (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_res_get" (func $res (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $vector (param $bytes i32)
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (local.get $bytes)))
  ;; errnos, number, bytes; the bytes lie at 1024
  (func (export "args") (result i32 i32 i32)
    (i32.or (call $args_sizes (i32.const 16) (i32.const 20)) (call $args (i32.const 64) (i32.const 1024)))
    (i32.load (i32.const 16)) (i32.load (i32.const 20)))
  (func (export "env") (result i32 i32 i32)
    (i32.or (call $env_sizes (i32.const 16) (i32.const 20)) (call $env (i32.const 64) (i32.const 1024)))
    (i32.load (i32.const 16)) (i32.load (i32.const 20)))
  (func (export "now") (param i32) (result i32 i64)
    (call $now (local.get 0) (i64.const 0) (i32.const 16)) (i64.load (i32.const 16)))
  (func (export "resolution") (param i32) (result i32 i64)
    (call $res (local.get 0) (i32.const 16)) (i64.load (i32.const 16)))
  (func (export "random") (result i32 i64)
    (call $random (i32.const 16) (i32.const 8)) (i64.load (i32.const 16)))
  (func (export "endless") (drop (memory.grow (i32.const 1023)))
    (loop (drop (call $random (i32.const 0) (i32.const 0x4000000))) (br 0)))
  (func (export "outside") (param i32 i32) (result i32) (call $random (local.get 0) (local.get 1)))
  (func (export "read") (param i32) (result i32 i32)
    (call $vector (i32.const 100))
    (call $read (local.get 0) (i32.const 0) (i32.const 1) (i32.const 8)) (i32.load (i32.const 8)))
  (func (export "write") (param i32 i32) (result i32 i32)
    (call $vector (local.get 1))
    (call $write (local.get 0) (i32.const 0) (i32.const 1) (i32.const 8)) (i32.load (i32.const 8)))
  ;; errno, length of the name
  (func (export "prestat") (param i32) (result i32 i32)
    (call $prestat (local.get 0) (i32.const 16)) (i32.load (i32.const 20))))"#;

const BADF: i32 = 8;

fn call<P, R>(
    instance: &mut Instance<WasiCtx>,
    prepared: &Prepared<WasiCtx>,
    name: &str,
    params: P,
) -> R
where
    P: Params,
    R: Results,
{
    let func = prepared.func::<P, R>(name).expect("it is exported");
    instance.call(&func, params).expect("it returns")
}

/// The strings that a guest received, each with its terminating zero.
fn strings(instance: &Instance<WasiCtx>, bytes: i32) -> String {
    let memory = instance.memory();
    let bytes = memory.slice(1024, bytes.cast_unsigned());
    String::from_utf8(bytes.expect("it is inside").to_vec()).expect("it is text")
}

#[test]
fn a_new_context_is_empty() {
    let prepared = prepared(GUEST, 2);
    let wasi = WasiCtxBuilder::default().build();
    let mut guest = prepared.try_instantiate(wasi).expect("a slot");
    let told: (i32, i32, i32) = call(&mut guest, &prepared, "args", ());
    assert_eq!(told, (0, 0, 0));
    let told: (i32, i32, i32) = call(&mut guest, &prepared, "env", ());
    assert_eq!(told, (0, 0, 0));
    // Standard input is empty, and output is discarded.
    assert_eq!(
        call::<_, (i32, i32)>(&mut guest, &prepared, "read", 0),
        (0, 0)
    );
    for fd in [1, 2] {
        let told: (i32, i32) = call(&mut guest, &prepared, "write", (fd, 7));
        assert_eq!(told, (0, 7), "descriptor {fd}");
    }
    let told: (i32, i32) = call(&mut guest, &prepared, "prestat", 3);
    assert_eq!(told.0, BADF);
}

#[test]
fn a_context_gives_the_guest_its_configuration() {
    let prepared = prepared(GUEST, 2);
    let output = WritePipe::new_in_memory();
    let folder = tempfile::tempdir().expect("a folder");
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).expect("it opens");
    let wasi = WasiCtxBuilder::new()
        .arg("greet")
        .and_then(|wasi| wasi.args(["-v", "ä"]))
        .and_then(|wasi| wasi.env("A", "1"))
        .and_then(|wasi| wasi.envs([("B", "x=y"), ("C", "")]))
        .expect("it fits")
        .stdin(ReadPipe::from("hello"))
        .stderr(output.clone())
        .preopened_dir(dir, "/data")
        .expect("a descriptor is free")
        .build();
    let mut guest = prepared.try_instantiate(wasi).expect("a slot");
    let (errno, count, bytes): (i32, i32, i32) = call(&mut guest, &prepared, "args", ());
    assert_eq!((errno, count), (0, 3));
    assert_eq!(strings(&guest, bytes), "greet\0-v\0ä\0");
    let (errno, count, bytes): (i32, i32, i32) = call(&mut guest, &prepared, "env", ());
    assert_eq!((errno, count), (0, 3));
    assert_eq!(strings(&guest, bytes), "A=1\0B=x=y\0C=\0");
    assert_eq!(
        call::<_, (i32, i32)>(&mut guest, &prepared, "read", 0),
        (0, 5)
    );
    assert_eq!(
        call::<_, (i32, i32)>(&mut guest, &prepared, "write", (2, 5)),
        (0, 5)
    );
    assert_eq!(
        call::<_, (i32, i32)>(&mut guest, &prepared, "prestat", 3),
        (0, 5)
    );
    drop(guest);
    let output = output.try_into_inner().expect("the context is dropped");
    assert_eq!(output.into_inner(), b"hello");
}

#[test]
fn clocks_advance_and_the_monotonic_clock_starts_with_the_context() {
    const HOUR_NS: i64 = 3600 * 1_000_000_000;
    let prepared = prepared(GUEST, 2);
    let wasi = WasiCtxBuilder::new().build();
    let mut guest = prepared.try_instantiate(wasi).expect("a slot");
    let (realtime, monotonic) = (0, 1);
    for clock in [realtime, monotonic] {
        let (errno, ns): (i32, i64) = call(&mut guest, &prepared, "resolution", clock);
        assert!(
            errno == 0 && (1..=1_000_000_000).contains(&ns),
            "{clock}: {errno}, {ns}"
        );
    }
    let first: (i32, i64) = call(&mut guest, &prepared, "now", monotonic);
    let second: (i32, i64) = call(&mut guest, &prepared, "now", monotonic);
    assert_eq!((first.0, second.0), (0, 0));
    // The monotonic clock does not reveal the machine's uptime.
    assert!(0 <= first.1 && first.1 <= second.1 && second.1 < HOUR_NS);
    let today: (i32, i64) = call(&mut guest, &prepared, "now", realtime);
    let years_56 = 56 * 365 * 24 * HOUR_NS;
    assert!(today.0 == 0 && today.1 > years_56, "{today:?}");
}

/// Each request gets new random bytes, also in a reused slot.
#[test]
fn random_bytes_are_not_repeated() {
    let prepared = prepared(GUEST, 2);
    let mut told = vec![];
    for _ in 0..2 {
        let wasi = WasiCtxBuilder::new().build();
        let mut guest = prepared.try_instantiate(wasi).expect("a slot");
        for _ in 0..2 {
            let (errno, bytes): (i32, i64) = call(&mut guest, &prepared, "random", ());
            assert_eq!(errno, 0);
            told.push(bytes);
        }
    }
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 4);
}

#[test]
fn a_deadline_ends_a_large_random_get() {
    let prepared = prepared(GUEST, 2);
    let mut guest = prepared
        .try_instantiate(WasiCtxBuilder::new().build())
        .expect("a slot");
    let outside = prepared.func::<(i32, i32), i32>("outside");
    let outside = outside.expect("it is exported");
    for (start, len) in [(65535, 2), (-1, 2), (0, -1), (65537, 0), (1 << 20, 1 << 20)] {
        let answer = guest.call(&outside, (start, len));
        assert!(answer.is_err(), "{start} {len}: {answer:?}");
    }
    assert_eq!(guest.call(&outside, (65536, 0)).expect("it is inside"), 0);
    let endless = prepared.func::<(), ()>("endless");
    let endless = endless.expect("it is exported");
    drop(guest);
    // On a busy machine the deadline may pass before the guest runs, or after the end of the first
    // buffer.
    with_fitting_limit(Duration::from_millis(20), |limit| {
        let mut guest = prepared
            .try_instantiate(WasiCtxBuilder::new().build())
            .expect("a slot");
        let ended = guest.deadline(limit).call(&endless, ());
        let Err(CallError::Deadline(stop)) = ended else {
            panic!("{ended:?}")
        };
        let memory = guest.memory();
        let zeros = |start| memory.slice(start, 16).expect("it is inside") == [0; 16];
        let written = !zeros(0);
        let unwritten = zeros(memory.len() as u32 - 16);
        match (stop.backtrace().len(), written, unwritten) {
            // The deadline passed in the host function and ended it before the end of the buffer.
            (1, true, true) => Passed::Within(()),
            (_, false, _) => Passed::TooEarly,
            _ => Passed::TooLate,
        }
    });
}

/// Arguments and variables are bytes, as on Linux.
#[test]
fn arguments_and_variables_need_not_be_utf_8() {
    let prepared = prepared(GUEST, 2);
    let wasi = WasiCtxBuilder::new()
        .arg(b"\xff\x80")
        .and_then(|wasi| wasi.env("N", b"\xc3"))
        .expect("it fits")
        .build();
    let mut guest = prepared.try_instantiate(wasi).expect("a slot");
    for (name, expected) in [("args", &b"\xff\x80\0"[..]), ("env", b"N=\xc3\0")] {
        let (errno, count, bytes): (i32, i32, i32) = call(&mut guest, &prepared, name, ());
        assert_eq!((errno, count), (0, 1));
        let memory = guest.memory();
        let found = memory
            .slice(1024, bytes.cast_unsigned())
            .expect("it is inside");
        assert_eq!(found, expected);
    }
}
