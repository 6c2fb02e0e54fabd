//! Runs one guest in this process, under one of the engines that are libraries. The process then
//! ends with the guest's exit code.

mod wasmer;

use anyhow::{Context, Result, bail};
use pirn_runtime::{Linker, Module, Region, Reset};
use pirn_wasi::{Exit, WasiCtx, WasiCtxBuilder};
use std::path::Path;
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p1;

/// Stack of a guest, for engines that have the option.
const STACK_BYTES: usize = 1 << 20;

/// Memory of a guest, for engines that have the option: more than scrypt and Argon2 are told to
/// use.
const MEMORY_BYTES: usize = 1 << 30;

/// Runs the guest.
pub fn run(engine: &str, file: &Path, passes: Option<&str>) -> Result<()> {
    let arguments: Vec<_> = ["guest"].into_iter().chain(passes).collect();
    let code = match engine {
        "pirn" => pirn(file, &arguments),
        "wasmtime" => wasmtime(file, &arguments),
        "wasmer" => wasmer::run(file, &arguments, ::wasmer::sys::Cranelift::new()),
        #[cfg(feature = "llvm")]
        "wasmer-llvm" => wasmer::run(file, &arguments, ::wasmer::sys::LLVM::new()),
        _ => bail!("{engine:?} is no library here"),
    };
    std::process::exit(code.with_context(|| file.display().to_string())?);
}

fn pirn(file: &Path, arguments: &[&str]) -> Result<i32> {
    let module = Module::open(file)?;
    let mut linker = Linker::<WasiCtx>::new();
    pirn_wasi::link(&mut linker, |wasi| wasi)?;
    let region = Region::builder()
        .slots(1)
        .memory_bytes_max(MEMORY_BYTES)
        .stack_bytes(STACK_BYTES)
        // Each slot is used only once.
        .reset(Reset::Decommitted)
        .build()?;
    let prepared = region.prepare(&module, &linker)?;
    let mut wasi = WasiCtxBuilder::new().inherit_stdio();
    for argument in arguments {
        wasi = wasi.arg(*argument)?;
    }
    let wasi = wasi.build();
    let mut instance = prepared.instantiate(wasi)?;
    let start = prepared.func::<(), ()>("_start")?;
    match instance.call(&start, ()) {
        Ok(()) => Ok(0),
        Err(error) => match Exit::of(&error) {
            Some(exit) => Ok(exit.code.cast_signed()),
            None => Err(error.into()),
        },
    }
}

/// Wasmtime with its defaults: all instructions of this CPU, and full optimisation.
fn wasmtime(file: &Path, arguments: &[&str]) -> Result<i32> {
    let engine = wasmtime::Engine::default();
    let module = wasmtime::Module::from_file(&engine, file)?;
    let mut linker = wasmtime::Linker::new(&engine);
    p1::add_to_linker_sync(&mut linker, |wasi| wasi)?;
    let wasi = wasmtime_wasi::WasiCtxBuilder::new()
        .inherit_stdio()
        .args(arguments)
        .build_p1();
    let mut store = wasmtime::Store::new(&engine, wasi);
    let instance = linker.instantiate(&mut store, &module)?;
    let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
    match start.call(&mut store, ()) {
        Ok(()) => Ok(0),
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(exit) => Ok(exit.0),
            None => Err(error.into()),
        },
    }
}
