//! `pirn-serve`: the server, with guests in pirn's slots.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result};
use clap::Parser as _;
use pirn_runtime::Module;
use pirn_server::args::Args;
use pirn_server::pirn::{self, Pirn};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The magic number of an ELF file, which a compiled module starts with.
const ELF: &[u8] = b"\x7fELF";

fn main() -> ExitCode {
    match serve(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pirn-serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> Result<()> {
    args.log()?;
    let modules = args.modules().map(open);
    let mut modules = modules.collect::<Result<Vec<_>>>()?;
    if let Some(deadline) = args.warm() {
        for (module, path) in modules.iter_mut().zip(args.modules()) {
            let warm = pirn::warm(module, &args.settings(), deadline, |_| Ok(()));
            *module = warm.with_context(|| path.display().to_string())?;
        }
    }
    let engine = Pirn::new(args.settings(), &modules, |_| Ok(()))?;
    tracing::info!("{}", engine.region().describe());
    args.serve(Arc::new(engine))
}

/// Opens a compiled module, or compiles a WebAssembly module first.
fn open(path: &Path) -> Result<Module> {
    let what = || path.display().to_string();
    let bytes = fs::read(path).with_context(what)?;
    if bytes.starts_with(ELF) {
        return Module::open(path).with_context(what);
    }
    let so = compile(&bytes).with_context(what)?;
    Module::from_bytes(&so).with_context(what)
}

#[cfg(feature = "compiler")]
fn compile(bytes: &[u8]) -> Result<Vec<u8>> {
    let wasm = pirn_compiler::parse_text(bytes)?;
    Ok(pirn_compiler::compile(
        &wasm,
        &pirn_compiler::Options::default(),
    )?)
}

#[cfg(not(feature = "compiler"))]
fn compile(_: &[u8]) -> Result<Vec<u8>> {
    anyhow::bail!("it is not compiled, and this pirn-serve has no compiler; run `aotc` first")
}
