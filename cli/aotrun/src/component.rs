//! Runs a component: calls its `wasi:cli/run`, or an exported function with values in text form.

mod call;
mod outside;
mod wave;

pub(crate) use outside::Outside;

use crate::args::Args;
use crate::given::{Given, utf_8};
use crate::outcome::Outcome;
use crate::place;
use crate::timings::Timings;
use anyhow::{Context, Error, Result, anyhow};
use call::Call;
use pirn_cli::output;
use pirn_component::{CallError, Component, Limits, LinkError, Linker, Prepared};
use pirn_runtime::{Measure, Module};
use pirn_wasi2::{Wasi, WasiBuilder};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Runs a component.
pub(crate) fn run(
    args: &Args,
    module: &Module,
    given: Given,
    outside: Outside,
    timings: &mut Timings,
) -> Result<(), Outcome> {
    let component = Component::new(module).map_err(|error| unprepared(args, error))?;
    let prepared = prepare(args, &component)?;
    let call = Call::new(args, &component, &prepared)?;
    let executor = Builder::new_current_thread().enable_all().build();
    let executor = executor.context("cannot make the executor of host functions")?;
    let result = {
        // Streams and sockets need the executor when they are made.
        let _guard = executor.enter();
        let wasi = outside.add_to(wasi(given)?).build();
        run_in(&executor, args, &prepared, &call, wasi, timings)
    };
    // Does not wait for a thread that reads a terminal or looks up a name.
    executor.shutdown_background();
    if let Some(value) = result? {
        output::print(&format!("{value}\n"))?;
    }
    Ok(())
}

/// Instantiates the component, calls it, and returns the results in text form.
fn run_in(
    executor: &Runtime,
    args: &Args,
    prepared: &Prepared<Wasi>,
    call: &Call,
    wasi: Wasi,
    timings: &mut Timings,
) -> Result<Option<String>, Outcome> {
    let mut instance = timings.measure("instantiate", || prepared.instantiate(wasi))?;
    let limits = Limits {
        deadline: args.deadline,
        timeslice: Some(TIMESLICE),
    };
    let result = timings.measure("run", || executor.block_on(call.run(&mut instance, limits)));
    let given = args.fuel.unwrap_or(u64::MAX);
    timings.fuel = instance.core().fuel().map(|left| given - left);
    timings.usage = args.usage.then(|| instance.usage());
    timings.measure("teardown", || drop(instance));
    result
}

/// After this time a running guest lets the executor work, because the guest's connections need the
/// executor.
const TIMESLICE: Duration = Duration::from_millis(10);

fn prepare(args: &Args, component: &Component) -> Result<Prepared<Wasi>> {
    let region = place::region(args, component.module(), 1)?;
    let mut linker = Linker::<Wasi>::new();
    pirn_wasi2::link(&mut linker)?;
    pirn_wasi2::http::link(&mut linker)?;
    let prepared = linker.prepare(&region, component);
    let mut prepared = prepared.map_err(|error| unprepared(args, error))?;
    if let Some(limit) = args.deadline {
        prepared = prepared.start_deadline(limit);
    }
    if let Some(fuel) = args.fuel {
        let limited = prepared.start_fuel(fuel);
        prepared = limited.with_context(|| args.program.display().to_string())?;
    }
    if args.usage {
        prepared = prepared.measured(Measure::CpuTime);
    }
    Ok(prepared)
}

/// The error of a component that cannot be prepared.
fn unprepared(args: &Args, error: LinkError) -> Error {
    let program = args.program.display();
    match error {
        LinkError::Core(error) => place::unprepared(args, error),
        LinkError::MissingFunc { path } => anyhow!(
            "{program}: it imports {path}, which aotrun does not have; call it from a host that \
             defines it, with the crate pirn-component"
        ),
        LinkError::MissingResource { path } => anyhow!(
            "{program}: it imports the resource type {path}, which aotrun does not have; call it \
             from a host that defines it, with the crate pirn-component"
        ),
        error => Error::new(error).context(program.to_string()),
    }
}

/// The arguments, variables, streams and directories that the options give the guest. `Outside`
/// adds the network.
fn wasi(given: Given) -> Result<WasiBuilder> {
    let mut wasi = WasiBuilder::new()
        .inherit_stdio()
        .descriptors_max(given.descriptors_max);
    if let Some(bytes) = given.disk_bytes_max {
        wasi = wasi.disk_bytes_max(bytes);
    }
    for arg in given.args {
        wasi = wasi.arg(utf_8(&arg)?);
    }
    for (name, value) in given.env {
        wasi = wasi.env(utf_8(&name)?, utf_8(&value)?);
    }
    for directory in given.dirs {
        let (dir, guest) = (directory.dir, directory.guest);
        wasi = match directory.is_read_only {
            true => wasi.preopened_dir_read_only(dir, guest),
            false => wasi.preopened_dir(dir, guest),
        };
    }
    for dir in given.memory_dirs {
        wasi = wasi.memory_dir(&dir.base, dir.limits, dir.guest);
    }
    Ok(wasi)
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Core(error) => error.into(),
            CallError::Abi(error) => Self::Broke(error.to_string()),
            error => Self::Failed(error.into()),
        }
    }
}
