//! A guest that writes more output than its limit gets an errno. The host keeps the output up to
//! the limit.

use crate::common::setup::prepared;
use pirn_wasi::pipe::WritePipe;
use pirn_wasi::{Bounded, WasiCtxBuilder};
use std::io::{IoSlice, Write};

/// `write(fd, first, second)` writes that many bytes from 1024 by two vectors and returns the
/// errno. The number of written bytes is at 0.
const GUEST: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 1024) "0123456789")
  (func (export "write") (param i32 i32 i32) (result i32)
    (i32.store (i32.const 0) (i32.const -1))
    (i32.store (i32.const 16) (i32.const 1024)) (i32.store (i32.const 20) (local.get 1))
    (i32.store (i32.const 24) (i32.add (i32.const 1024) (local.get 1)))
    (i32.store (i32.const 28) (local.get 2))
    (call $write (local.get 0) (i32.const 16) (i32.const 2) (i32.const 0))))"#;

const SUCCESS: i32 = 0;
const NOSPC: i32 = 51;

const STDOUT: i32 = 1;
const STDERR: i32 = 2;

/// The result of a write: the errno, and the number of bytes if there was no error.
type Answer = (i32, u32);

/// Makes these writes with `room` bytes for each output; returns the results and both outputs.
fn writes(room: usize, writes: &[(i32, i32, i32)]) -> (Vec<Answer>, [Bounded<Vec<u8>>; 2]) {
    let prepared = prepared(GUEST, 1);
    let outputs = [(); 2].map(|()| WritePipe::new(Bounded::new(vec![], room)));
    let wasi = WasiCtxBuilder::new()
        .stdout(outputs[0].clone())
        .stderr(outputs[1].clone())
        .build();
    let write = prepared.func::<(i32, i32, i32), i32>("write");
    let write = write.expect("it is exported");
    let mut instance = prepared.try_instantiate(wasi).expect("the slot is free");
    let answers = writes.iter().map(|params| {
        let errno = instance.call(&write, *params).expect("it returns");
        (errno, instance.memory().read_u32(0).expect("it is inside"))
    });
    let answers = answers.collect();
    drop(instance);
    let outputs = outputs.map(|pipe| pipe.try_into_inner().expect("the guest is gone"));
    (answers, outputs)
}

/// Output of exactly the limit is accepted.
#[test]
fn output_of_exactly_the_limit_is_accepted() {
    let (answers, [output, _]) = writes(10, &[(STDOUT, 4, 6), (STDOUT, 0, 0)]);
    assert_eq!(answers, [(SUCCESS, 10), (SUCCESS, 0)]);
    assert!(!output.is_refusing());
    assert_eq!(output.into_inner(), b"0123456789");
}

#[test]
fn output_past_the_limit_is_refused() {
    let (answers, [output, _]) = writes(10, &[(STDOUT, 4, 7), (STDOUT, 1, 0), (STDOUT, 0, 1)]);
    // As on a disk that becomes full, the first write is short, and the next returns an errno
    // without a count.
    assert_eq!(
        answers,
        [(SUCCESS, 10), (NOSPC, u32::MAX), (NOSPC, u32::MAX)]
    );
    assert!(output.is_refusing());
    assert_eq!(output.into_inner(), b"0123456789");
}

#[test]
fn a_write_truncated_in_its_first_vector_skips_the_second() {
    let (answers, [output, _]) = writes(3, &[(STDOUT, 4, 4)]);
    assert_eq!(answers, [(SUCCESS, 3)]);
    assert!(output.is_refusing());
    assert_eq!(output.into_inner(), b"012");
}

#[test]
fn each_output_has_its_own_limit() {
    let (answers, [output, errors]) = writes(4, &[(STDOUT, 8, 0), (STDERR, 2, 2), (STDOUT, 1, 1)]);
    assert_eq!(answers, [(SUCCESS, 4), (SUCCESS, 4), (NOSPC, u32::MAX)]);
    assert!(output.is_refusing() && !errors.is_refusing());
    assert_eq!(errors.into_inner(), b"0123");
}

#[test]
fn a_limit_of_zero_refuses_the_first_byte() {
    let (answers, [output, _]) = writes(0, &[(STDOUT, 0, 0), (STDOUT, 1, 0)]);
    assert_eq!(answers, [(SUCCESS, 0), (NOSPC, u32::MAX)]);
    assert!(output.is_refusing());
}

#[test]
fn the_limit_applies_to_writes_of_the_host() {
    let mut output = Bounded::new(vec![], 3);
    assert_eq!(output.write(b"ab").expect("room"), 2);
    assert_eq!(output.write(b"cd").expect("room for one"), 1);
    let full = output.write(b"d").expect_err("no room");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(output.write(b"").expect("nothing needs no room"), 0);
    let full = output.write_vectored(&[IoSlice::new(b""), IoSlice::new(b"d")]);
    assert_eq!(
        full.expect_err("no room").kind(),
        std::io::ErrorKind::StorageFull
    );
    assert_eq!(output.into_inner(), b"abc");
}

/// Accepts two bytes and then fails.
#[derive(Debug)]
struct Failing(Vec<u8>);

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() >= 2 {
            return Err(std::io::Error::other("it is gone"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_of_the_writer_is_not_reported_as_a_limit() {
    let mut output = Bounded::new(Failing(vec![]), 100);
    let vectors = [IoSlice::new(b"ab"), IoSlice::new(b"cd")];
    assert_eq!(output.write_vectored(&vectors).expect("two bytes"), 2);
    let gone = output.write_vectored(&vectors).expect_err("it failed");
    assert_eq!(gone.kind(), std::io::ErrorKind::Other);
    assert!(!output.is_refusing());
}
