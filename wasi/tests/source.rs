//! Standard input from a source whose bytes arrive later: the guest waits, and blocks a thread only
//! under the functions that block.

use crate::sleep::yields;
use futures::executor::block_on;
use futures::future::{join, poll_immediate};
use pirn_runtime::{CallError, Instance, Linker, Module, Region, TypedFunc};
use pirn_testing::retry::with_longer_limits;
use pirn_wasi::{Source, WasiCtx, WasiCtxBuilder};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Reads up to 64 bytes to address 100. The results are the errno and the number of bytes. `poll`
/// polls standard input for reading, and returns the errno and the type of the event.
const READER: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\64\00\00\00\40\00\00\00")
  (data (i32.const 1008) "\01")
  (func (export "read") (result i32 i32)
    (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8))
    (i32.load (i32.const 8)))
  (func (export "poll") (result i32 i32)
    (call $poll (i32.const 1000) (i32.const 2000) (i32.const 1) (i32.const 3000))
    (i32.load8_u (i32.const 2010))))"#;

/// Bytes, errors and ends that the test gives.
#[derive(Clone, Default)]
struct Given(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pieces: VecDeque<io::Result<&'static [u8]>>,
    waker: Option<Waker>,
}

impl Given {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    fn give(&self, piece: io::Result<&'static [u8]>) {
        let mut state = self.state();
        state.pieces.push_back(piece);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl Read for Given {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let piece = self.state().pieces.pop_front();
        let bytes = piece.unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))?;
        into[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

impl Source for Given {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.pieces.is_empty() {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

type Func = TypedFunc<(), (i32, i32)>;

/// A guest, its functions `read` and `poll`, and its input.
fn guest(link: impl FnOnce(&mut Linker<WasiCtx>)) -> (Instance<WasiCtx>, [Func; 2], Given) {
    let mut linker = Linker::new();
    link(&mut linker);
    let wasm = pirn_compiler::parse_text(READER.as_bytes()).expect("it is well-formed");
    let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default());
    let module = Module::from_bytes(&so.expect("it is valid")).expect("it opens");
    let region = Region::builder().build().expect("a region");
    let prepared = region.prepare(&module, &linker).expect("it is linked");
    let given = Given::default();
    let wasi = WasiCtxBuilder::new().stdin_source(given.clone()).build();
    let func = |name| prepared.func(name).expect("it is exported");
    let instance = prepared.try_instantiate(wasi).expect("a slot is free");
    (instance, [func("read"), func("poll")], given)
}

fn blocking() -> (Instance<WasiCtx>, [Func; 2], Given) {
    guest(|linker| pirn_wasi::link(linker, |wasi| wasi).expect("the names are free"))
}

fn waiting() -> (Instance<WasiCtx>, [Func; 2], Given) {
    guest(|linker| {
        pirn_wasi::link_async(linker, |wasi| wasi, yields).expect("the names are free");
    })
}

fn piece(instance: &Instance<WasiCtx>, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let read = instance.memory().read(100, &mut bytes);
    read.expect("a page");
    bytes
}

#[test]
fn a_guest_that_waits_for_bytes_blocks_no_thread() {
    let (mut instance, [read, _], given) = waiting();
    given.give(Ok(b"there"));
    let told = block_on(instance.call_async(&read, ()));
    assert_eq!(told.expect("bytes"), (0, 5));
    assert_eq!(piece(&instance, 5), b"there");
    // The other future is polled only if the guest yields the thread.
    let gives = async { given.give(Ok(b"later")) };
    let (told, ()) = block_on(join(instance.call_async(&read, ()), gives));
    assert_eq!(told.expect("bytes"), (0, 5));
    assert_eq!(piece(&instance, 5), b"later");
    let fails = async { given.give(Err(io::Error::other("no more"))) };
    let (told, ()) = block_on(join(instance.call_async(&read, ()), fails));
    assert_eq!(told.expect("an errno").0, 29, "io");
    let ends = async { given.give(Ok(b"")) };
    let (told, ()) = block_on(join(instance.call_async(&read, ()), ends));
    assert_eq!(told.expect("the end"), (0, 0));
    // A call that is dropped takes no bytes.
    let mut dropped = instance.call_async(&read, ());
    assert!(block_on(poll_immediate(&mut dropped)).is_none());
    drop(dropped);
    given.give(Ok(b"kept"));
    let told = block_on(instance.call_async(&read, ()));
    assert_eq!(told.expect("bytes"), (0, 4));
}

#[test]
fn a_guest_that_waits_for_bytes_reaches_its_deadline() {
    for async_call in [false, true] {
        let (mut instance, [read, _], given) = if async_call { waiting() } else { blocking() };
        with_longer_limits(Duration::from_millis(10), |limit| {
            let limited = instance.deadline(limit);
            let ended = match async_call {
                true => block_on(limited.call_async(&read, ())),
                false => limited.call(&read, ()),
            };
            let error = ended.expect_err("nothing is there");
            assert!(matches!(error, CallError::Deadline(_)), "{error}");
            Some(())
        });
        given.give(Ok(b"abc"));
        let told = block_on(instance.call_async(&read, ()));
        assert_eq!(told.expect("bytes"), (0, 3));
    }
}

#[test]
fn a_guest_that_blocks_gets_bytes_of_another_thread() {
    let (mut instance, [read, poll], given) = blocking();
    for func in [&poll, &read] {
        std::thread::scope(|scope| {
            let give = given.clone();
            scope.spawn(move || {
                if give.state().pieces.is_empty() {
                    give.give(Ok(b"abc"));
                }
            });
            let told = instance.call(func, ()).expect("an errno");
            assert_eq!(told.0, 0);
        });
    }
    assert_eq!(piece(&instance, 3), b"abc");
}

#[test]
fn a_poll_waits_until_the_source_has_bytes() {
    let (mut instance, [read, poll], given) = waiting();
    let gives = async { given.give(Ok(b"abc")) };
    let (told, ()) = block_on(join(instance.call_async(&poll, ()), gives));
    assert_eq!(told.expect("an event"), (0, 1), "a descriptor to read");
    let told = block_on(instance.call_async(&read, ()));
    assert_eq!(told.expect("bytes"), (0, 3));
}
