//! The operations on Wasmtime, with two settings.

use crate::phase::Phase;
use pirn_peers::best::best;
use pirn_peers::row::Run;
use wasmtime::{
    Config, Extern, InstanceAllocationStrategy, InstancePre, Linker, Module,
    PoolingAllocationConfig, Store,
};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::SinkOutputStream;

/// Settings of Wasmtime.
#[derive(Debug, Clone, Copy)]
pub enum Settings {
    /// All settings that make a cycle faster.
    Best,
    /// The pooling allocator, and defaults otherwise.
    DefaultPool,
}

pub struct WasmtimePhases {
    engine: wasmtime::Engine,
}

impl WasmtimePhases {
    pub fn new(settings: Settings) -> Self {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_core_instances(8)
            .total_memories(8)
            .total_tables(8)
            .max_memory_size(80 << 20);
        let mut config = Config::new();
        if let Settings::Best = settings {
            best(&mut pool, &mut config);
        }
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = wasmtime::Engine::new(&config).expect("an engine");
        Self { engine }
    }

    fn prepare(&self, guest: &[u8]) -> InstancePre<()> {
        let wasm = pirn_compiler::parse_text(guest).expect("it is well-formed");
        let module = Module::new(&self.engine, &wasm).expect("it is valid");
        let mut linker = Linker::new(&self.engine);
        linker
            .func_wrap("host", "f", |n: i32| n)
            .expect("the name is free");
        linker.instantiate_pre(&module).expect("it links")
    }

    /// Each cycle makes its own WASI context, as a request would.
    fn hello<'a>(&self, guest: &[u8], name: &str) -> Run<'a> {
        let module = Module::new(&self.engine, guest).expect("it is valid");
        let mut linker = Linker::<WasiP1Ctx>::new(&self.engine);
        p1::add_to_linker_sync(&mut linker, |wasi| wasi).expect("the names are free");
        let pre = linker.instantiate_pre(&module).expect("it links");
        let export = module.get_export_index(name).expect("it is exported");
        let engine = self.engine.clone();
        Box::new(move |count| {
            for _ in 0..count {
                let wasi = WasiCtxBuilder::new().stdout(SinkOutputStream).build_p1();
                let mut store = Store::new(&engine, wasi);
                let instance = pre.instantiate(&mut store).expect("a slot");
                let func = instance.get_module_export(&mut store, &export);
                let func = func.and_then(Extern::into_func).expect("it is exported");
                let func = func.typed::<(), ()>(&store).expect("it is of that type");
                func.call(&mut store, ()).expect("it returns");
            }
        })
    }

    pub fn run<'a>(&self, phase: Phase) -> Run<'a> {
        let (guest, name) = phase.guest();
        if let Phase::CycleHello = phase {
            return self.hello(&guest, name);
        }
        let pre = self.prepare(&guest);
        let engine = self.engine.clone();
        // Looked up once, as pirn does.
        let export = pre.module().get_export_index(name).expect("it is exported");
        match phase {
            Phase::CycleNull => Box::new(move |count| {
                for _ in 0..count {
                    let mut store = Store::new(&engine, ());
                    let instance = pre.instantiate(&mut store).expect("a slot");
                    let func = instance.get_module_export(&mut store, &export);
                    let func = func.and_then(Extern::into_func).expect("it is exported");
                    let func = func.typed::<(), ()>(&store).expect("it is of that type");
                    func.call(&mut store, ()).expect("it returns");
                }
            }),
            Phase::CyclePages(_) | Phase::CycleDense | Phase::CycleGrow | Phase::CycleHello => {
                let pages = phase.pages();
                Box::new(move |count| {
                    for _ in 0..count {
                        let mut store = Store::new(&engine, ());
                        let instance = pre.instantiate(&mut store).expect("a slot");
                        let func = instance.get_module_export(&mut store, &export);
                        let func = func.and_then(Extern::into_func).expect("it is exported");
                        let func = func.typed::<u32, u32>(&store).expect("it is of that type");
                        func.call(&mut store, pages).expect("it returns");
                    }
                })
            }
            Phase::Call => {
                let mut store = Store::new(&engine, ());
                let instance = pre.instantiate(&mut store).expect("a slot");
                let func = instance.get_typed_func::<(i32, i32), i32>(&mut store, name);
                let func = func.expect("it is exported");
                Box::new(move |count| {
                    for n in 0..count {
                        func.call(&mut store, (n as i32, 1)).expect("it returns");
                    }
                })
            }
            Phase::HostCall => {
                let mut store = Store::new(&engine, ());
                let instance = pre.instantiate(&mut store).expect("a slot");
                let func = instance.get_typed_func::<u32, i32>(&mut store, name);
                let func = func.expect("it is exported");
                Box::new(move |count| {
                    func.call(&mut store, count as u32).expect("it returns");
                })
            }
            Phase::Trap(_) => {
                let mut store = Store::new(&engine, ());
                let instance = pre.instantiate(&mut store).expect("a slot");
                let func = instance.get_typed_func::<(), ()>(&mut store, name);
                let func = func.expect("it is exported");
                Box::new(move |count| {
                    for _ in 0..count {
                        func.call(&mut store, ()).expect_err("it traps");
                    }
                })
            }
        }
    }
}
