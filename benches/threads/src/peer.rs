//! Wasmtime, with `wasi.thread-spawn` by its crate wasmtime-wasi-threads.

use std::path::Path;
use std::sync::Arc;
use wasi_common::WasiCtx;
use wasi_common::sync::WasiCtxBuilder;
use wasmtime::Result;
use wasmtime::{Config, Engine, Linker, Module, OptLevel, Store};
use wasmtime_wasi_threads::WasiThreadsCtx;

/// What host functions reach.
#[derive(Clone)]
struct Host {
    wasi: WasiCtx,
    threads: Option<Arc<WasiThreadsCtx<Host>>>,
}

/// Runs a program to its end, with this process's standard streams.
///
/// # Errors
///
/// If the program is not valid, or traps.
pub(crate) fn run(program: &Path, arguments: &[String]) -> Result<()> {
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_threads(true)
        .shared_memory(true);
    let engine = Engine::new(&config)?;
    let module = Module::from_file(&engine, program)?;
    let wasi = WasiCtxBuilder::new()
        .inherit_stdio()
        .arg("work")?
        .args(arguments)?
        .build();
    let mut store = Store::new(
        &engine,
        Host {
            wasi,
            threads: None,
        },
    );
    let mut linker = Linker::new(&engine);
    wasi_common::sync::add_to_linker(&mut linker, |host: &mut Host| &mut host.wasi)?;
    wasmtime_wasi_threads::add_to_linker(&mut linker, &store, &module, |host: &mut Host| {
        host.threads.as_deref().expect("set before the guest runs")
    })?;
    let threads = WasiThreadsCtx::new(module.clone(), Arc::new(linker.clone()), false)?;
    store.data_mut().threads = Some(Arc::new(threads));
    let instance = linker.instantiate(&mut store, &module)?;
    let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
    start.call(&mut store, ())
}
