//! Runs a WASI command in its container.

use crate::given::Given;
use crate::outcome::{Outcome, unlinked};
use crate::policy::{Command, Policy};
use crate::stop::Stop;
use anyhow::{Context as _, Error, Result, anyhow};
use pirn_component::{Component, Limits, Linker as ComponentLinker};
use pirn_runtime::{ExternType, Linker, Module, Region, Reset};
use pirn_wasi::WasiCtxBuilder;
use pirn_wasi::conventions::{call_after_restore, link_teavm};
use pirn_wasi2::http::Client;
use pirn_wasi2::{RUN, Wasi, WasiBuilder};
use std::time::Duration;

/// The start function of a command that is a core module.
const START: &str = "_start";

/// A running component yields to the executor after this time. The component's connections need the
/// executor.
const TIMESLICE: Duration = Duration::from_millis(10);

/// Runs a command, and returns its outcome.
pub(crate) fn run(
    module: &Module,
    limits: &Command,
    policy: &Policy,
    given: Given,
    stop: &Stop,
) -> Outcome {
    let ended = match module.component() {
        None => run_module(module, limits, given, stop),
        Some(_) => run_component(module, limits, policy, given, stop),
    };
    ended.map_or_else(|outcome| outcome, |()| Outcome::Exited(0))
}

fn run_module(module: &Module, limits: &Command, given: Given, stop: &Stop) -> Result<(), Outcome> {
    let is_command = module
        .exports()
        .any(|(name, ty)| name == START && matches!(ty, ExternType::Func(_)));
    if !is_command {
        return Err(no_command("exports no _start").into());
    }
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi).context("wasi")?;
    link_teavm(&mut linker, |wasi| wasi).context("wasi")?;
    let prepared = region(module, limits)?.prepare(module, &linker);
    let prepared = prepared.map_err(|error| unlinked(&error.into()))?;
    let mut prepared = call_after_restore(prepared, module).context("cannot link the guest")?;
    if let Some(deadline) = limits.deadline {
        prepared = prepared.start_deadline(deadline);
    }
    let mut wasi = WasiCtxBuilder::new()
        .inherit_stdio()
        .descriptors_max(limits.descriptors_max);
    for arg in &given.args {
        wasi = wasi.arg(arg).context("arguments")?;
    }
    for (name, value) in &given.env {
        wasi = wasi.env(name, value).context("variables")?;
    }
    for preopen in given.dirs {
        wasi = match preopen.is_read_only {
            true => wasi.preopened_dir_read_only(preopen.dir, &preopen.path),
            false => wasi.preopened_dir(preopen.dir, &preopen.path),
        }
        .context("directories")?;
    }
    let mut instance = prepared.instantiate(wasi.build())?;
    stop.guard(instance.kill_switch());
    match limits.deadline {
        Some(limit) => instance.deadline(limit).call_values(START, &[])?,
        None => instance.call_values(START, &[])?,
    };
    Ok(())
}

fn run_component(
    module: &Module,
    limits: &Command,
    policy: &Policy,
    given: Given,
    stop: &Stop,
) -> Result<(), Outcome> {
    let component = Component::new(module).context("cannot read the component")?;
    let region = region(module, limits)?;
    let mut linker = ComponentLinker::<Wasi>::new();
    pirn_wasi2::link(&mut linker).context("wasi")?;
    pirn_wasi2::http::link(&mut linker).context("wasi:http")?;
    let mut prepared = linker
        .prepare(&region, &component)
        .map_err(|error| unlinked(&error.into()))?;
    if let Some(limit) = limits.deadline {
        prepared = prepared.start_deadline(limit);
    }
    let run = prepared.typed::<(), Result<(), ()>>(RUN);
    let run = run.map_err(|_| no_command("exports neither wasi:cli/run nor wasi:http"))?;
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let executor = executor.context("cannot make the executor of host functions")?;
    let result = {
        // Streams and sockets need an entered executor when the code creates them.
        let _guard = executor.enter();
        let wasi = wasi(given, limits, policy).build();
        let mut instance = prepared.instantiate(wasi)?;
        stop.guard(instance.kill_switch());
        let limits = Limits {
            deadline: limits.deadline,
            timeslice: Some(TIMESLICE),
        };
        executor.block_on(instance.call_typed_async(limits, &run, ()))
    };
    // This does not wait for threads that read standard input or resolve a name.
    executor.shutdown_background();
    match result? {
        Ok(()) => Ok(()),
        Err(()) => Err(Outcome::Exited(1)),
    }
}

fn wasi(given: Given, limits: &Command, policy: &Policy) -> WasiBuilder {
    let mut wasi = WasiBuilder::new()
        .inherit_stdio()
        .descriptors_max(limits.descriptors_max)
        .cwd(given.cwd)
        .network(policy.network.clone())
        .outgoing(Client::new(policy.servers.clone()));
    for arg in given.args {
        wasi = wasi.arg(arg);
    }
    for (name, value) in given.env {
        wasi = wasi.env(name, value);
    }
    for preopen in given.dirs {
        wasi = match preopen.is_read_only {
            true => wasi.preopened_dir_read_only(preopen.dir, preopen.path),
            false => wasi.preopened_dir(preopen.dir, preopen.path),
        };
    }
    wasi
}

/// A region with one slot, large enough for the program.
fn region(module: &Module, limits: &Command) -> Result<Region> {
    let region = Region::builder()
        .slots(1)
        .reset(Reset::Decommitted)
        .memories(module.memories().max(1))
        .memory_bytes_max(limits.memory_max)
        .stack_bytes(limits.stack)
        .tables(64)
        .table_elements(1 << 20)
        .instance_bytes(64 << 20)
        .build();
    region.context("cannot make a slot for the guest")
}

fn no_command(why: &str) -> Error {
    anyhow!("the guest {why}, so it is no command; check its target")
}
