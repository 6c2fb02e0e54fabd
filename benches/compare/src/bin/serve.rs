//! The server example, its guests run by Wasmtime at its best settings: the same options, the same front,
//! threads, queue and limits, and another [`Engine`].
//!
//! `cargo run --release --manifest-path benches/compare/Cargo.toml --bin serve -- --route /hello=hello.wasm`
//!
//! Deadlines are by epochs, Wasmtime's cheaper way: the code of guests has checks, and a thread counts. A
//! client that hangs up does not end its guest, which runs to its deadline.

#![forbid(unsafe_code)]

#[path = "../best.rs"]
mod best;

use anyhow::{Context as _, Result, anyhow};
use clap::Parser as _;
use pirn_server_example::args::Args;
use pirn_server_example::{End, Engine, Ran, Settings, Slots, Work};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wasmtime::{
    Config, Extern, InstanceAllocationStrategy, InstancePre, Linker, Module, ModuleExport,
    PoolConcurrencyLimitError, PoolingAllocationConfig, Store, Trap,
};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};
use wasmtime_wasi::{I32Exit, WasiCtxBuilder};

/// Time between two epochs.
const EPOCH: Duration = Duration::from_millis(5);

/// Guests in instances of Wasmtime's pool.
struct Wasmtime {
    engine: wasmtime::Engine,
    settings: Settings,
    guests: Vec<Guest>,
    used: AtomicUsize,
}

/// The guest of one route.
struct Guest {
    pre: InstancePre<WasiP1Ctx>,
    /// Looked up once, as ours is.
    start: ModuleExport,
}

fn engine(settings: &Settings) -> Result<wasmtime::Engine> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(settings.slots)
        .total_memories(settings.slots)
        .total_tables(settings.slots)
        .max_memory_size(settings.memory_max);
    let mut config = Config::new();
    best::best(&mut pool, &mut config);
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .epoch_interruption(true)
        .max_wasm_stack(settings.stack);
    Ok(wasmtime::Engine::new(&config)?)
}

impl Wasmtime {
    fn new<'a>(settings: Settings, modules: impl Iterator<Item = &'a Path>) -> Result<Self> {
        let engine = engine(&settings)?;
        let mut linker = Linker::<WasiP1Ctx>::new(&engine);
        p1::add_to_linker_sync(&mut linker, |wasi| wasi)?;
        let guests = modules.map(|path| {
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            let module = Module::new(&engine, pirn_compiler::parse_text(&bytes)?)?;
            let start = module.get_export_index("_start");
            Ok(Guest {
                pre: linker.instantiate_pre(&module)?,
                start: start.ok_or_else(|| anyhow!("{} has no _start", path.display()))?,
            })
        });
        let guests = guests.collect::<Result<_>>()?;
        let ticking = engine.weak();
        std::thread::spawn(move || {
            while let Some(engine) = ticking.upgrade() {
                std::thread::sleep(EPOCH);
                engine.increment_epoch();
            }
        });
        Ok(Self {
            engine,
            settings,
            guests,
            used: AtomicUsize::new(0),
        })
    }

    fn end(&self, guest: &Guest, wasi: WasiP1Ctx) -> wasmtime::Result<()> {
        let mut store = Store::new(&self.engine, wasi);
        let epochs = self.settings.deadline.as_nanos().div_ceil(EPOCH.as_nanos());
        store.set_epoch_deadline(epochs as u64);
        let instance = guest.pre.instantiate(&mut store)?;
        let start = instance.get_module_export(&mut store, &guest.start);
        let start = start.and_then(Extern::into_func).expect("it is exported");
        start.typed::<(), ()>(&store)?.call(&mut store, ())
    }
}

impl Engine for Wasmtime {
    fn run(&self, work: Work) -> Ran {
        let output = MemoryOutputPipe::new(self.settings.output_max);
        let errors = MemoryOutputPipe::new(self.settings.errors_max);
        let mut wasi = WasiCtxBuilder::new();
        for (name, value) in &work.environment {
            wasi.env(name, value);
        }
        let wasi = wasi
            .stdin(MemoryInputPipe::new(work.body))
            .stdout(output.clone())
            .stderr(errors.clone())
            .build_p1();
        self.used.fetch_add(1, Ordering::Relaxed);
        let end = self.end(&self.guests[work.route], wasi);
        self.used.fetch_sub(1, Ordering::Relaxed);
        let output: Vec<u8> = output.contents().into();
        Ran {
            end: end.map_or_else(ended, |()| End::Exited(0)),
            // The pipe does not say whether there was more.
            overflowed: output.len() >= self.settings.output_max,
            output,
            errors: errors.contents().into(),
        }
    }

    fn slots(&self) -> Slots {
        let all = self.settings.slots as usize;
        Slots {
            all,
            free: all.saturating_sub(self.used.load(Ordering::Relaxed)),
            lost: 0,
        }
    }
}

/// How a guest that did not return ended.
fn ended(error: wasmtime::Error) -> End {
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return End::Exited(exit.0.cast_unsigned());
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return End::Full;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => End::Deadline,
        _ => End::Trap(format!("{error:#}")),
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    args.log()?;
    let engine = Wasmtime::new(args.settings(), args.modules())?;
    args.serve(Arc::new(engine))
}
