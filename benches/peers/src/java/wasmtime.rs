//! [`JavaWasmtime`]: Wasmtime with the settings that make an invocation fastest.

use super::engine::JavaEngine;
use super::program::JavaProgram;
use crate::best::best;
use anyhow::Result;
use std::time::{Duration, Instant};
use wasmtime::{
    Config, Extern, InstanceAllocationStrategy, InstancePre, Linker, Module, ModuleExport,
    PoolingAllocationConfig, Store,
};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::{MemoryOutputPipe, SinkOutputStream};

/// Most bytes that a program prints.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

pub struct JavaWasmtime {
    engine: wasmtime::Engine,
    pre: InstancePre<WasiP1Ctx>,
    start: ModuleExport,
    args: Vec<&'static str>,
}

impl JavaWasmtime {
    /// # Errors
    ///
    /// The module is refused.
    pub fn new(program: &JavaProgram, wasm: &[u8]) -> Result<Self> {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_core_instances(8)
            .total_memories(8)
            .total_tables(8)
            .max_memory_size(160 << 20);
        let mut config = Config::new();
        best(&mut pool, &mut config);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = wasmtime::Engine::new(&config)?;
        let module = Module::new(&engine, wasm)?;
        let mut linker = Linker::<WasiP1Ctx>::new(&engine);
        p1::add_to_linker_sync(&mut linker, |wasi| wasi)?;
        linker.func_wrap("teavmMath", "sqrt", |operand: f64| operand.sqrt())?;
        let pre = linker.instantiate_pre(&module)?;
        let start = module.get_export_index("_start");
        Ok(Self {
            engine,
            pre,
            start: start.ok_or_else(|| anyhow::anyhow!("no _start"))?,
            args: [program.name].into_iter().chain(program.argument).collect(),
        })
    }

    /// What an invocation prints.
    ///
    /// # Errors
    ///
    /// The invocation failed.
    pub fn output(&self) -> Result<Vec<u8>> {
        let output = MemoryOutputPipe::new(OUTPUT_BYTES_MAX);
        let wasi = WasiCtxBuilder::new()
            .args(&self.args)
            .stdout(output.clone())
            .build_p1();
        self.invoke(wasi)?;
        Ok(output.contents().to_vec())
    }

    fn invoke(&self, wasi: WasiP1Ctx) -> Result<()> {
        let mut store = Store::new(&self.engine, wasi);
        let instance = self.pre.instantiate(&mut store)?;
        let func = instance.get_module_export(&mut store, &self.start);
        let func = func.and_then(Extern::into_func);
        let func = func.ok_or_else(|| anyhow::anyhow!("_start is not a function"))?;
        func.typed::<(), ()>(&store)?.call(&mut store, ())?;
        Ok(())
    }
}

impl JavaEngine for JavaWasmtime {
    fn run(&mut self, count: u64) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..count {
            let mut wasi = WasiCtxBuilder::new();
            wasi.args(&self.args).stdout(SinkOutputStream);
            self.invoke(wasi.build_p1())?;
        }
        Ok(start.elapsed())
    }
}
