//! The server with guests in Wasmtime at its best settings. Options, front end, threads and
//! limits are the same; only the [`Engine`] differs.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml --bin serve -- --route
//! /hello=hello.wasm`
//!
//! Guests are called through Wasmtime's async functions. They yield to others by epochs, which is
//! Wasmtime's cheaper way: their code checks a counter that a thread increments. The deadline is a
//! tokio timeout, which drops the call.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, anyhow};
use http_body_util::BodyExt as _;
use pirn_peers::best::best;
use pirn_runtime::Usage;
use pirn_server::cgi::Output;
use pirn_server::{Begun, End, Ended, Engine, Exchange, Settings, Slots, program};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;
use wasmtime::{
    Config, Extern, InstanceAllocationStrategy, InstancePre, Linker, Module, ModuleExport,
    PoolingAllocationConfig, Store, UpdateDeadline,
};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};
use wasmtime_wasi::{I32Exit, WasiCtxBuilder};

/// Stack for host functions, which run on the guest's stack.
const HOST_STACK: usize = 1 << 20;

/// Runs guests in instances of Wasmtime's pool.
struct WasmtimeServer(Arc<ServedPool>);

struct ServedPool {
    engine: wasmtime::Engine,
    settings: Settings,
    guests: Vec<ServedGuest>,
    /// One permit for each instance of the pool: the pool itself fails when it is full, and does
    /// not wait.
    slots: Semaphore,
}

/// The guest of one route.
struct ServedGuest {
    pre: InstancePre<WasiP1Ctx>,
    /// Looked up once, as pirn does.
    start: ModuleExport,
}

fn engine(settings: &Settings) -> Result<wasmtime::Engine> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(settings.slots)
        .total_memories(settings.slots)
        .total_tables(settings.slots)
        .total_stacks(settings.slots)
        .max_memory_size(settings.memory_bytes_max);
    let mut config = Config::new();
    best(&mut pool, &mut config);
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .epoch_interruption(true)
        .max_wasm_stack(settings.stack_bytes)
        .async_stack_size(settings.stack_bytes + HOST_STACK);
    Ok(wasmtime::Engine::new(&config)?)
}

impl WasmtimeServer {
    fn new<'a>(settings: Settings, modules: impl Iterator<Item = &'a Path>) -> Result<Self> {
        let engine = engine(&settings)?;
        let mut linker = Linker::<WasiP1Ctx>::new(&engine);
        p1::add_to_linker_async(&mut linker, |wasi| wasi)?;
        let guests = modules.map(|path| {
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            let module = Module::new(&engine, pirn_compiler::parse_text(&bytes)?)?;
            let start = module.get_export_index("_start");
            Ok(ServedGuest {
                pre: linker.instantiate_pre(&module)?,
                start: start.ok_or_else(|| anyhow!("{} has no _start", path.display()))?,
            })
        });
        let guests = guests.collect::<Result<_>>()?;
        let (ticking, epoch) = (engine.weak(), settings.timeslice);
        std::thread::spawn(move || {
            while let Some(engine) = ticking.upgrade() {
                std::thread::sleep(epoch);
                engine.increment_epoch();
            }
        });
        Ok(Self(Arc::new(ServedPool {
            engine,
            slots: Semaphore::new(settings.slots as usize),
            settings,
            guests,
        })))
    }
}

impl ServedPool {
    async fn end(&self, guest: &ServedGuest, wasi: WasiP1Ctx) -> wasmtime::Result<()> {
        let mut store = Store::new(&self.engine, wasi);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|_| {
            let others = Box::pin(yield_now());
            Ok(UpdateDeadline::YieldCustom(1, others))
        });
        let instance = guest.pre.instantiate_async(&mut store).await?;
        let start = instance.get_module_export(&mut store, &guest.start);
        let start = start.and_then(Extern::into_func).expect("it is exported");
        let start = start.typed::<(), ()>(&store)?;
        start.call_async(&mut store, ()).await
    }
}

impl Engine for WasmtimeServer {
    /// The whole body is there before the guest starts, and the answer is sent when the guest has
    /// ended: Wasmtime's pipes in memory have no other way.
    fn begin(&self, exchange: Exchange) -> Result<Begun, End> {
        let pool = Arc::clone(&self.0);
        let (mut printed, answer) = Output::new();
        let run = Box::pin(async move {
            let begin = Instant::now();
            let output = MemoryOutputPipe::new(pool.settings.output_max);
            let errors = MemoryOutputPipe::new(pool.settings.errors_max);
            let mut wasi = WasiCtxBuilder::new();
            for (name, value) in &exchange.environment {
                wasi.env(name, value);
            }
            let body = exchange.request.into_body().collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            let wasi = wasi
                .stdin(MemoryInputPipe::new(body))
                .stdout(output.clone())
                .stderr(errors.clone())
                .build_p1();
            let (slot, since) = exchange.place.wait(pool.slots.acquire()).await?;
            let end = pool.end(&pool.guests[exchange.route], wasi);
            let mut end = match timeout(pool.settings.deadline, end).await {
                Ok(Ok(())) => End::Exited(0),
                Ok(Err(error)) => ended(error),
                Err(_) => End::Deadline,
            };
            drop(slot);
            let took = since.elapsed();
            let output = output.contents();
            if end == End::Exited(0) {
                // The pipe does not report whether the guest printed more.
                end = match output.len() >= pool.settings.output_max {
                    true => End::Output,
                    false => {
                        printed.write_all(&output).expect("it takes all");
                        let malformed = printed.finish().err();
                        malformed.map_or(end, |malformed| End::Malformed(malformed.to_string()))
                    }
                };
            }
            Some(Ended {
                end,
                errors: errors.contents().into(),
                waited: since - begin,
                took,
                usage: Usage::default(),
            })
        });
        Ok(Begun { answer, run })
    }

    fn slots(&self) -> Slots {
        Slots {
            all: self.0.settings.slots as usize,
            free: self.0.slots.available_permits(),
            lost: 0,
        }
    }
}

/// How a guest ended whose call did not return.
fn ended(error: wasmtime::Error) -> End {
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return End::Exited(exit.0.cast_unsigned());
    }
    End::Trap(format!("{error:#}"))
}

fn main() -> ExitCode {
    program::serve("serve", |config, _| {
        anyhow::ensure!(
            config.trust.is_none(),
            "--trust is of pirn-serve, and this server checks no signatures; remove it"
        );
        WasmtimeServer::new(config.settings.clone(), config.modules())
    })
}
