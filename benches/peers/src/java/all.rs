//! [`open`]: every engine with a program ready, after a comparison of what each prints.

use super::engine::JavaEngine;
use super::jvm::{Forked, Process, Shared, output};
use super::pirn::JavaPirn;
use super::program::JavaProgram;
use super::wasmtime::JavaWasmtime;
use anyhow::{Result, ensure};

/// What an invocation is on each engine.
pub const ENGINES: [&str; 6] = [
    "pirn",
    "pirn, snapshot",
    "Wasmtime 48",
    "OpenJDK, one VM for all",
    "OpenJDK, fork that makes a VM",
    "OpenJDK, process of java",
];

/// The first of the engines whose invocations take so long that they run once a turn.
pub const FIRST_SLOW: usize = 4;

/// All engines in the order of [`ENGINES`], each with the program ready. Compares what each prints
/// with what Java prints.
///
/// # Errors
///
/// A file is missing, an engine fails, or an output differs.
pub fn open(program: &JavaProgram) -> Result<Vec<Box<dyn JavaEngine>>> {
    let expected = output(program)?;
    let check = |engine: &str, found: &[u8]| {
        ensure!(
            found == expected,
            "{}: {engine} printed {:?}, Java {:?}",
            program.name,
            String::from_utf8_lossy(found),
            String::from_utf8_lossy(&expected)
        );
        Ok(())
    };
    ensure!(
        !expected.is_empty(),
        "{}: Java printed nothing",
        program.name
    );
    let wasm = program.wasm()?;
    let cold = JavaPirn::cold(program, &wasm)?;
    check(ENGINES[0], &cold.output()?)?;
    let warm = JavaPirn::warm(program, &wasm)?;
    check(ENGINES[1], &warm.output()?)?;
    let wasmtime = JavaWasmtime::new(program, &wasm)?;
    check(ENGINES[2], &wasmtime.output()?)?;
    check(ENGINES[5], &Process::new(program).output()?)?;
    Ok(vec![
        Box::new(cold),
        Box::new(warm),
        Box::new(wasmtime),
        Box::new(Shared::new(program)?),
        Box::new(Forked::new(program)?),
        Box::new(Process::new(program)),
    ])
}
