//! `aotrun --snapshot`: initialises a program, and writes a module that starts from there.

use crate::args::Args;
use crate::load;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::run::{self, Time};
use crate::timings::Timings;
use anyhow::{Context, Result, anyhow, bail};
use pirn_runtime::{CallError, ExternType, Instance, Module};
use pirn_wasi::{Exit, VirtualClock, WasiCtx, WasiCtxBuilder, open_descriptors};
use std::path::Path;
use std::time::SystemTime;

/// Exports that initialise a program, the first that exists: the names of wizer, and of WASI's
/// reactors.
const INITIALISERS: [&str; 3] = ["wizer-initialize", "wizer.initialize", REACTOR];
const REACTOR: &str = "_initialize";

/// Initialises the program, and writes its snapshot to `out`. Prints the timings if the options ask
/// for them.
pub(crate) fn run(args: &Args, out: &Path) -> Outcome {
    let mut timings = Timings::default();
    let outcome = match phases(args, out, &mut timings) {
        Ok(()) => Outcome::Exited(0),
        Err(outcome) => outcome,
    };
    if args.timings {
        timings.print();
    }
    outcome
}

fn phases(args: &Args, out: &Path, timings: &mut Timings) -> Result<(), Outcome> {
    let program = args.program.display();
    let output = Output::File(out.to_owned());
    output.spares(&args.program)?;
    // The guest reads the same times and random bytes in every run, so that the same program gives
    // the same file.
    let clock = VirtualClock::new(SystemTime::UNIX_EPOCH);
    let wasi = WasiCtxBuilder::with_virtual_clock(&clock).seeded_random([0; 32]);
    let wasi = args.add_to(wasi)?.build();
    let module = load::open(&args.program, args.fuel.is_some(), timings)?;
    let initialisers = initialisers(args, &module)?;
    let prepared = run::prepare(args, &module, None, &Time::Virtual(clock))?;
    let prepared = run::limited(args, prepared)?;
    let mut instance = timings.measure("instantiate", || prepared.instantiate(wasi))?;
    timings.measure("initialise", || {
        let mut names = initialisers.iter();
        names.try_for_each(|name| initialise(args, &mut instance, name))
    })?;
    let open = open_descriptors(instance.data()).map_err(anyhow::Error::from)?;
    check_descriptors(args.given(), &open).with_context(|| program.to_string())?;
    let names: Vec<&str> = initialisers.iter().map(String::as_str).collect();
    let snapshot = timings.measure("snapshot", || instance.snapshot_after(&names));
    let snapshot = snapshot.with_context(|| program.to_string())?;
    timings.measure("save", || {
        let bytes = snapshot.to_bytes().map_err(anyhow::Error::from)?;
        output.write(&bytes)
    })?;
    Ok(())
}

/// The exports to call, in order.
fn initialisers(args: &Args, module: &Module) -> Result<Vec<String>> {
    let program = args.program.display();
    let func = |wanted: &str| {
        module.exports().find_map(|(name, ty)| match ty {
            ExternType::Func(ty) if name == wanted => Some(ty),
            _ => None,
        })
    };
    let first = || INITIALISERS.into_iter().find(|name| func(name).is_some());
    let Some(init) = args.init.as_deref().or_else(first) else {
        bail!(
            "{program} exports neither {} nor {REACTOR}; name its initialisation with --init",
            INITIALISERS[0]
        );
    };
    let Some(ty) = func(init) else {
        bail!("{program} exports no function {init:?}; name one that it has with --init");
    };
    if !ty.params.is_empty() || !ty.results.is_empty() {
        bail!(
            "{init:?} of {program} has the type {ty}; --init needs one without parameters and results"
        );
    }
    // A reactor must be initialised before any other export is called (WASI application ABI).
    let reactor = (init != REACTOR && func(REACTOR).is_some()).then_some(REACTOR);
    Ok(reactor
        .into_iter()
        .chain([init])
        .map(str::to_owned)
        .collect())
}

/// Calls an export that initialises the program.
fn initialise(args: &Args, instance: &mut Instance<WasiCtx>, name: &str) -> Result<(), Outcome> {
    let called = run::call(instance, name, &[], args.deadline);
    match called {
        Ok(_) => Ok(()),
        Err(error) => Err(failed(name, error)),
    }
}

/// An initialisation that exits leaves no state to start from, also if its exit code is 0.
fn failed(name: &str, error: CallError) -> Outcome {
    match Exit::of(&error) {
        Some(exit) => Outcome::Failed(anyhow!(
            "the guest exited with code {} in {name:?}; a snapshot needs an initialisation that \
             returns",
            exit.code
        )),
        None => error.into(),
    }
}

/// Refuses to lose descriptors that the guest opened or closed. The numbers below `given` were
/// given to it.
fn check_descriptors(given: u32, open: &[u32]) -> Result<()> {
    if let Some(left) = open.iter().find(|number| **number >= given) {
        bail!(
            "descriptor {left} is open after the initialisation, and no instance of the snapshot \
             would have it; close it before"
        );
    }
    if let Some(closed) = (0..given).find(|number| !open.contains(number)) {
        bail!(
            "descriptor {closed} was closed by the initialisation, and each instance of the \
             snapshot would have it; leave it open"
        );
    }
    Ok(())
}
