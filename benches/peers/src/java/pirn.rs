//! [`JavaPirn`]: an instance for each invocation, of the module or of a snapshot.

use super::engine::JavaEngine;
use super::program::JavaProgram;
use anyhow::{Context as _, Result};
use pirn_compiler::{Options, compile};
use pirn_runtime::{Linker, Module, Prepared, Region, TypedFunc};
use pirn_wasi::pipe::WritePipe;
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::time::{Duration, Instant};

/// Largest memory of a program: TeaVM asks for no more by default.
const MEMORY_BYTES_MAX: usize = 160 << 20;

/// The argument of the invocation after which a snapshot is taken. The exported function `run`
/// brings the argument of the measured one.
const WARM_UP_ARGUMENT: &str = "10";

pub struct JavaPirn {
    prepared: Prepared<WasiCtx>,
    func: TypedFunc<(), ()>,
    /// Command-line arguments of the program.
    args: Vec<String>,
}

impl JavaPirn {
    /// Each invocation runs the program from its start.
    ///
    /// # Errors
    ///
    /// The module is refused.
    pub fn cold(program: &JavaProgram, wasm: &[u8]) -> Result<Self> {
        let (region, module) = (region()?, module(wasm)?);
        let prepared = region.prepare(&module, &linker()?)?;
        let func = prepared.func("_start")?;
        Ok(Self {
            prepared,
            func,
            args: args(program, program.argument),
        })
    }

    /// Each invocation begins after a short run of the program.
    ///
    /// # Errors
    ///
    /// The module is refused, or the state of the instance cannot be kept.
    pub fn warm(program: &JavaProgram, wasm: &[u8]) -> Result<Self> {
        let (region, module) = (region()?, module(wasm)?);
        let first = region.prepare(&module, &linker()?)?;
        let warm_up = program.argument.map(|_| WARM_UP_ARGUMENT);
        let wasi = context(&args(program, warm_up), WritePipe::new(std::io::sink()))?;
        let mut instance = first.instantiate(wasi)?;
        instance.call_values("_start", &[])?;
        let prepared = region.prepare(&instance.snapshot()?, &linker()?)?;
        let func = prepared.func("run")?;
        Ok(Self {
            prepared,
            func,
            args: vec![program.name.to_owned()],
        })
    }

    /// What an invocation prints.
    ///
    /// # Errors
    ///
    /// The invocation failed.
    pub fn output(&self) -> Result<Vec<u8>> {
        let output = WritePipe::new_in_memory();
        let mut instance = self
            .prepared
            .instantiate(context(&self.args, output.clone())?)?;
        instance.call(&self.func, ())?;
        drop(instance);
        let output = output.try_into_inner().ok().context("the pipe is shared")?;
        Ok(output.into_inner())
    }
}

impl JavaEngine for JavaPirn {
    fn run(&mut self, count: u64) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..count {
            let wasi = context(&self.args, WritePipe::new(std::io::sink()))?;
            let mut instance = self.prepared.instantiate(wasi)?;
            instance.call(&self.func, ())?;
        }
        Ok(start.elapsed())
    }
}

fn region() -> Result<Region> {
    let region = Region::builder()
        .slots(2)
        .memory_bytes_max(MEMORY_BYTES_MAX)
        .stack_bytes(1 << 20)
        .build()?;
    Ok(region)
}

fn module(wasm: &[u8]) -> Result<Module> {
    Ok(Module::from_bytes(&compile(wasm, &Options::default())?)?)
}

fn linker() -> Result<Linker<WasiCtx>> {
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi)?;
    Ok(linker)
}

fn args(program: &JavaProgram, argument: Option<&str>) -> Vec<String> {
    [program.name]
        .into_iter()
        .chain(argument)
        .map(str::to_owned)
        .collect()
}

fn context<W: std::io::Write + Send + Sync + 'static>(
    args: &[String],
    output: WritePipe<W>,
) -> Result<WasiCtx> {
    let builder = WasiCtxBuilder::new().args(args)?;
    Ok(builder.stdout(output).build())
}
