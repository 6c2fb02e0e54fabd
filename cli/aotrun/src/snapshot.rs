//! `aotrun --snapshot`: initialises a program, and writes a module whose instances start
//! initialised.

use crate::args::Args;
use crate::given::Given;
use crate::load;
use crate::outcome::Outcome;
use crate::run::{self, Time};
use crate::timings::Timings;
use anyhow::{Context, Result, anyhow, bail};
use pirn_cli::output::Output;
use pirn_runtime::{CallError, Instance};
use pirn_wasi::conventions::initialisers;
use pirn_wasi::{Exit, VirtualClock, WasiCtx, WasiCtxBuilder};
use std::path::Path;
use std::time::SystemTime;

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
    let given = Given::of(args)?;
    let descriptors = given.descriptors();
    let wasi = given.add_to(wasi)?.build();
    let module = load::open(&args.program, args.fuel.is_some(), &args.trust, timings)?;
    if module.component().is_some() {
        return Err(Outcome::Failed(anyhow!(
            "{program} is a component, and --snapshot takes only core modules; initialise it with \
             the tools of its language, and compile the result with `aotc`"
        )));
    }
    let initialisers = initialisers(&module, args.init.as_deref())
        .with_context(|| format!("{program}: --init"))?;
    let prepared = run::prepare(args, &module, None, &Time::Virtual(clock))?;
    let prepared = run::limited(args, prepared)?;
    let mut instance = timings.measure("instantiate", || prepared.instantiate(wasi))?;
    timings.measure("initialise", || {
        let mut names = initialisers.iter();
        names.try_for_each(|name| initialise(args, &mut instance, name))
    })?;
    let wasi = instance.data();
    let (open, opened) = (wasi.open_descriptors(), wasi.opened().number());
    check_descriptors(descriptors, &open, opened).with_context(|| program.to_string())?;
    let names: Vec<&str> = initialisers.iter().map(String::as_str).collect();
    let snapshot = timings.measure("snapshot", || instance.snapshot_after(&names));
    let snapshot = snapshot.with_context(|| program.to_string())?;
    timings.measure("save", || {
        let bytes = snapshot.to_bytes().map_err(anyhow::Error::from)?;
        output.write(&bytes)
    })?;
    Ok(())
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

/// Refuses a snapshot if the guest has opened, closed or replaced a descriptor, because the
/// snapshot would lose the change. The guest started with the numbers below `given`, and has
/// `opened` descriptors of its own open.
fn check_descriptors(given: u32, open: &[u32], opened: u64) -> Result<()> {
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
    // The open numbers are the given numbers. So a descriptor that the guest opened has replaced a
    // given descriptor.
    if opened > 0 {
        bail!(
            "a descriptor that was given was replaced by the initialisation (fd_renumber), and \
             each instance of the snapshot would have the given one; leave it as it is"
        );
    }
    Ok(())
}
