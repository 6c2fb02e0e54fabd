//! Runs a program: load, instantiate, run, tear down.

use crate::args::Args;
#[cfg(feature = "components")]
use crate::component;
use crate::given::{Given, utf_8};
use crate::load;
use crate::outcome::Outcome;
use crate::place;
use crate::threads::{self, THREADS_MAX, Threads};
use crate::timings::Timings;
use crate::used;
use anyhow::{Context, Result, anyhow, bail};
use pirn_cli::output;
use pirn_cli::text::plain;
use pirn_runtime::{
    CallError, ExternType, FuncType, Instance, Linker, Measure, Module, Prepared, ValType, Value,
};
use pirn_wasi::conventions::{call_after_restore, link_teavm};
use pirn_wasi::{VirtualClock, WasiCtx, WasiCtxBuilder};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// Runs the program. Prints the timings and the usage if the options ask for them.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut timings = Timings::default();
    let outcome = match phases(args, &mut timings) {
        Ok(()) => Outcome::Exited(0),
        Err(outcome) => outcome,
    };
    if args.timings {
        timings.print();
    }
    if let Some(usage) = &timings.usage {
        used::print(usage);
    }
    outcome
}

fn phases(args: &Args, timings: &mut Timings) -> Result<(), Outcome> {
    let given = Given::of(args)?;
    #[cfg(feature = "components")]
    let network = component::Outside::of(args)?;
    let module = load::open(&args.program, args.fuel.is_some(), &args.trust, timings)?;
    #[cfg(feature = "components")]
    match module.component() {
        Some(_) => return component::run(args, &module, given, network, timings),
        None => component::Outside::refuse(args)?,
    }
    #[cfg(not(feature = "components"))]
    if module.component().is_some() {
        let program = args.program.display();
        return Err(Outcome::Failed(anyhow!(
            "{program} is a component, and this aotrun runs only core modules; build it with its \
             feature `components`"
        )));
    }
    let wasi = given.add_to(WasiCtxBuilder::new())?.build();
    let call = Call::new(args, &module)?;
    let threads = threads::may_spawn(&module).then(Arc::<Threads>::default);
    let prepared = prepare(args, &module, threads.as_ref(), &Time::Real)?;
    let prepared = limited(args, prepared)?;
    let prepared = call_after_restore(prepared, &module)
        .with_context(|| args.program.display().to_string())?;
    let prepared = match args.usage {
        true => prepared.measured(Measure::CpuTime),
        false => prepared,
    };
    if let Some(threads) = &threads {
        let program = || args.program.display().to_string();
        threads.of(&prepared).with_context(program)?;
    }
    let mut instance = timings.measure("instantiate", || prepared.instantiate(wasi))?;
    if let Some(threads) = &threads {
        threads.first(&mut instance);
    }
    let result = timings.measure("run", || call.run(&mut instance, args.deadline));
    let ended_by = threads.and_then(|threads| threads.finish());
    let given = args.fuel.unwrap_or(u64::MAX);
    timings.fuel = instance.fuel().map(|left| given - left);
    timings.usage = args.usage.then(|| instance.usage());
    timings.measure("teardown", || drop(instance));
    if let Some(outcome) = ended_by {
        return Err(outcome);
    }
    for value in result? {
        output::print(&format!("{value}\n"))?;
    }
    Ok(())
}

/// Adds the deadline and the fuel of the options to a preparation.
pub(crate) fn limited(args: &Args, prepared: Prepared<WasiCtx>) -> Result<Prepared<WasiCtx>> {
    let prepared = match args.deadline {
        Some(limit) => prepared.start_deadline(limit),
        None => prepared,
    };
    match args.fuel {
        Some(fuel) => prepared
            .start_fuel(fuel)
            .with_context(|| args.program.display().to_string()),
        None => Ok(prepared),
    }
}

/// The time that a guest reads.
pub(crate) enum Time {
    /// The time of the system.
    Real,
    /// The time of a clock that only the guest advances.
    Virtual(VirtualClock),
}

pub(crate) fn prepare(
    args: &Args,
    module: &Module,
    threads: Option<&Arc<Threads>>,
    time: &Time,
) -> Result<Prepared<WasiCtx>> {
    let others = threads.map_or(0, |_| THREADS_MAX);
    // One slot for the program, and one slot for each thread that the program may spawn.
    let region = place::region(args, module, 1 + others)?;
    let mut linker = Linker::new();
    match time {
        Time::Real => pirn_wasi::link(&mut linker, |wasi| wasi)?,
        Time::Virtual(clock) => {
            pirn_wasi::link_virtual(&mut linker, |wasi| wasi, clock.clone())?;
        }
    }
    link_teavm(&mut linker, |wasi| wasi)?;
    let program = args.program.display();
    threads::link_memories(&mut linker, module, args.memory_max)
        .with_context(|| program.to_string())?;
    if let Some(threads) = threads {
        threads.link(&mut linker)?;
    }
    let prepared = region.prepare(module, &linker);
    prepared.map_err(|error| place::unprepared(args, error))
}

/// The function to call. `new` checks the function and its arguments before the guest runs.
struct Call {
    /// Whether to call `_initialize` first. Reactors export it.
    initialize: bool,
    name: String,
    values: Vec<Value>,
}

impl Call {
    fn new(args: &Args, module: &Module) -> Result<Self> {
        let program = args.program.display();
        let func = |wanted: &str| {
            module.exports().find_map(|(name, ty)| match ty {
                ExternType::Func(ty) if name == wanted => Some(ty),
                _ => None,
            })
        };
        let (name, arguments) = match &args.invoke {
            Some(name) => (name.as_str(), &args.args[..]),
            None => ("_start", &[][..]),
        };
        let Some(ty) = func(name) else {
            let all = module
                .exports()
                .filter(|(_, ty)| matches!(ty, ExternType::Func(_)));
            let names: Vec<_> = all.map(|(name, _)| plain(name).to_string()).collect();
            let names = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            bail!("{program} exports no function {name:?}, it has {names}; name one with --invoke");
        };
        Ok(Self {
            initialize: func("_initialize").is_some() && name != "_initialize",
            name: name.to_owned(),
            values: values(name, &ty, arguments)?,
        })
    }

    fn run(
        &self,
        instance: &mut Instance<WasiCtx>,
        deadline: Option<Duration>,
    ) -> Result<Vec<Value>, CallError> {
        if self.initialize {
            call(instance, "_initialize", &[], deadline)?;
        }
        call(instance, &self.name, &self.values, deadline)
    }
}

/// Calls an exported function.
pub(crate) fn call(
    instance: &mut Instance<WasiCtx>,
    name: &str,
    values: &[Value],
    deadline: Option<Duration>,
) -> Result<Vec<Value>, CallError> {
    match deadline {
        Some(limit) => instance.deadline(limit).call_values(name, values),
        None => instance.call_values(name, values),
    }
}

/// Parses the arguments as values of the function's parameter types.
fn values(name: &str, ty: &FuncType, arguments: &[OsString]) -> Result<Vec<Value>> {
    if arguments.len() != ty.params.len() {
        let (found, wanted) = (arguments.len(), ty.params.len());
        bail!(
            "function {name:?} of type {ty} takes {wanted} arguments, {found} were given; give \
             one for each parameter"
        );
    }
    let pairs = arguments.iter().zip(&ty.params);
    pairs
        .map(|(argument, ty)| value(utf_8(argument)?, *ty))
        .collect()
}

fn value(text: &str, ty: ValType) -> Result<Value> {
    let wrong = || anyhow!("argument {text:?} is not a value of type {ty}; give one");
    Ok(match ty {
        ValType::I32 => Value::I32(
            text.parse::<i32>()
                .or_else(|_| text.parse::<u32>().map(u32::cast_signed))
                .map_err(|_| wrong())?,
        ),
        ValType::I64 => Value::I64(
            text.parse::<i64>()
                .or_else(|_| text.parse::<u64>().map(u64::cast_signed))
                .map_err(|_| wrong())?,
        ),
        ValType::F32 => Value::F32(text.parse::<f32>().map_err(|_| wrong())?.to_bits()),
        ValType::F64 => Value::F64(text.parse::<f64>().map_err(|_| wrong())?.to_bits()),
        _ => {
            bail!(
                "a parameter of type {ty} cannot be given on a command line; invoke a function \
                 that takes only numbers"
            )
        }
    })
}
