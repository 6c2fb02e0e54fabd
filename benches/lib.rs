//! Shared by the benches: guests, and loops that time one phase of many instances at once.
//!
//! A phase of tens of nanoseconds cannot be timed alone, because reading a clock takes as long.
//! Therefore [`phase`] prepares [`BATCH`] instances, times all of them together, and cleans up
//! outside the timer.

#![forbid(unsafe_code)]

use pirn_runtime::{Instance, Linker, Module, Prepared, Region, Reset};
use pirn_wasi::pipe::WritePipe;
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempPath;

/// Number of instances that are timed together.
pub const BATCH: u64 = 32;

/// The imports by which a guest opens, reads and writes files, in WebAssembly's text format.
pub const FILE_IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_pread"
    (func $read (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_pwrite"
    (func $write (param i32 i32 i32 i64 i32) (result i32)))"#;

/// The WebAssembly binary of a guest.
#[must_use]
pub fn wasm(guest: &str) -> Vec<u8> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
    let bytes = std::fs::read(folder.join(guest)).expect("the guest is there");
    let wasm = pirn_compiler::parse_text(&bytes).expect("the guest is well-formed");
    wasm.into_owned()
}

/// The compiled module of a guest.
#[must_use]
pub fn compiled(guest: &str) -> Vec<u8> {
    let options = pirn_compiler::Options::default();
    pirn_compiler::compile(&wasm(guest), &options).expect("the guest is valid")
}

/// A temporary file with these bytes.
#[must_use]
pub fn file(bytes: &[u8]) -> TempPath {
    let mut file = tempfile::Builder::new()
        .suffix(".so")
        .tempfile()
        .expect("a temporary file");
    file.write_all(bytes).expect("room for a module");
    file.into_temp_path()
}

/// Compiles and opens a guest.
#[must_use]
pub fn guest(name: &str) -> Module {
    Module::open(file(&compiled(name))).expect("it opens")
}

/// Compiles and opens a module in the text format.
#[must_use]
pub fn text(text: &str) -> Module {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let so =
        pirn_compiler::compile(&wasm, &pirn_compiler::Options::default()).expect("it is valid");
    Module::open(file(&so)).expect("it opens")
}

/// A region with a slot for each instance of a batch.
#[must_use]
pub fn region(reset: Reset) -> Region {
    region_of(reset, 1)
}

/// A region with a slot for each instance of a batch, whose slots hold `memories` memories.
#[must_use]
pub fn region_of(reset: Reset, memories: u32) -> Region {
    Region::builder()
        .slots(BATCH as u32)
        .memories(memories)
        .reset(reset)
        .build()
        .expect("address space")
}

/// Prepares a guest without imports.
#[must_use]
pub fn prepared(module: &Module, reset: Reset) -> Prepared<()> {
    region(reset)
        .prepare(module, &Linker::new())
        .expect("it fits")
}

/// Prepares the C program that prints one line.
#[must_use]
pub fn hello(reset: Reset) -> Prepared<WasiCtx> {
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi).expect("the names are free");
    region(reset)
        .prepare(&guest("hello.wasm"), &linker)
        .expect("it links")
}

/// A WASI context that discards the guest's output.
#[must_use]
pub fn sink() -> WasiCtx {
    WasiCtxBuilder::new()
        .stdout(WritePipe::new(std::io::sink()))
        .build()
}

/// Time that `run` takes on `count` values from `make`. Making values and dropping results is not
/// timed.
pub fn phase<T, R>(
    count: u64,
    mut make: impl FnMut() -> T,
    mut run: impl FnMut(T) -> R,
) -> Duration {
    let (mut time, mut left) = (Duration::ZERO, count);
    while left > 0 {
        let batch = left.min(BATCH);
        let values: Vec<T> = (0..batch).map(|_| make()).collect();
        let mut results = Vec::with_capacity(batch as usize);
        let start = Instant::now();
        results.extend(values.into_iter().map(&mut run));
        time += start.elapsed();
        left -= batch;
    }
    time
}

/// A new instance of a guest without imports.
#[must_use]
pub fn instance(prepared: &Prepared<()>) -> Instance<()> {
    prepared.try_instantiate(()).expect("a slot is free")
}
