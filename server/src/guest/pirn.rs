//! [`Pirn`]: runs guests in pirn's slots. This file runs WASI programs that speak CGI, and
//! `handler.rs` components.

use super::engine::{Begun, End, Engine, Exchange, Ran, Running, Slots, Work};
use super::errors::core_end;
use super::grants::{GrantedDir, Grants};
use super::handler::{Handler, Times};
use super::place::Place;
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use pirn_component::Component;
use pirn_runtime::{
    CallError, ExternType, HostFuture, Instance, InstantiateError, LinkError, Linker, Measure,
    Module, Prepared, Region, Results, TypedFunc, Usage,
};
use pirn_wasi::conventions::{InitialiseError, call_after_restore, initialisers, link_teavm};
use pirn_wasi::pipe::{ReadPipe, WritePipe};
use pirn_wasi::{Bounded, Exit, MemoryDir, WasiCtx, WasiCtxBuilder};
use std::borrow::Cow;
use std::fmt;
use std::io::Cursor;
use std::time::{Duration, Instant};
use tokio::task::yield_now;
use tokio::time::sleep_until;

/// Limits for guests.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of guests at the same time.
    pub slots: u32,
    /// Most bytes of a guest's memory.
    pub memory_bytes_max: usize,
    /// Bytes of a guest's stack.
    pub stack_bytes: usize,
    /// Longest wall time of a guest.
    pub deadline: Duration,
    /// Longest time of a module's start function. The function runs during instantiation, and
    /// blocks its thread.
    pub start_deadline: Duration,
    /// Longest time that a guest keeps a thread before other guests have their turn.
    pub timeslice: Duration,
    /// Most bytes of a guest's standard output.
    pub output_max: usize,
    /// Most bytes of a guest's standard error.
    pub errors_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            slots: 64,
            memory_bytes_max: 64 << 20,
            stack_bytes: 1 << 20,
            deadline: Duration::from_secs(1),
            start_deadline: Duration::from_millis(50),
            timeslice: Duration::from_micros(500),
            output_max: 1 << 20,
            errors_max: 8 << 10,
        }
    }
}

/// Runs guests in pirn's slots.
pub struct Pirn {
    region: Region,
    /// Most memories of a guest in the region.
    memories: u32,
    settings: Settings,
    guests: Vec<Guest>,
}

/// The guest of one route.
struct Guest {
    deadline: Duration,
    kind: Kind,
}

/// The kind of a guest.
enum Kind {
    /// A WASI program that speaks CGI.
    Program(Box<Program>),
    /// A `wasi:http` component.
    Handler(Handler),
}

/// A WASI program that speaks CGI.
struct Program {
    prepared: Prepared<WasiCtx>,
    /// The initialisation of a reactor, if the host must still call it.
    init: Option<TypedFunc<(), ()>>,
    answer: Answer,
    memory_dirs: Vec<GrantedDir>,
}

/// The guest that an error of [`Pirn::new`] is about: the number of its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestNumber(pub usize);

impl fmt::Display for GuestNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guest {}", self.0)
    }
}

/// The function that answers a request.
enum Answer {
    /// `_start` of a command, or `handle` of a reactor.
    Plain(TypedFunc<(), ()>),
    /// `handle` of a reactor, which returns an exit code.
    Code(TypedFunc<(), i32>),
}

/// The export of a reactor that answers a request.
const HANDLE: &str = "handle";

impl Program {
    /// Finds the functions of a program.
    fn new(prepared: Prepared<WasiCtx>, module: &Module) -> Result<Self> {
        let func = |wanted: &str| {
            module.exports().find_map(|(name, ty)| match ty {
                ExternType::Func(ty) if name == wanted => Some(ty),
                _ => None,
            })
        };
        let prepared = call_after_restore(prepared, module)?;
        if func("_start").is_some() {
            let answer = Answer::Plain(prepared.func("_start")?);
            let init = None;
            return Ok(Self {
                prepared,
                init,
                answer,
                memory_dirs: vec![],
            });
        }
        let answer = match func(HANDLE) {
            Some(ty) if ty.results.is_empty() => Answer::Plain(prepared.func(HANDLE)?),
            Some(_) => Answer::Code(prepared.func(HANDLE)?),
            None => bail!(
                "it exports neither _start nor {HANDLE}, so it answers no request; export one"
            ),
        };
        let init = func("_initialize").map(|_| prepared.func("_initialize"));
        Ok(Self {
            init: init.transpose()?,
            prepared,
            answer,
            memory_dirs: vec![],
        })
    }
}

impl Pirn {
    /// Prepares a guest for each route, in the order of the routes.
    ///
    /// `more` may define more host functions besides WASI.
    ///
    /// # Errors
    ///
    /// If the region cannot be made. If a module does not fit into the region, has an unresolved
    /// import, or exports neither `_start` nor `handle`, the error has a [`GuestNumber`].
    pub fn new(
        settings: Settings,
        modules: &[Module],
        more: impl FnOnce(&mut Linker<WasiCtx>) -> Result<(), LinkError>,
    ) -> Result<Self> {
        let memories = memories(modules);
        let region = region(&settings, settings.slots, memories)?;
        Self::in_region(region, memories, settings, modules, more)
    }

    /// Prepares other guests, or the same guests with other settings, beside the guests of this
    /// engine. The new guests share the slots of this engine, unless the new settings need other
    /// slots.
    ///
    /// # Errors
    ///
    /// As [`Pirn::new`].
    pub fn renewed(
        &self,
        settings: Settings,
        modules: &[Module],
        more: impl FnOnce(&mut Linker<WasiCtx>) -> Result<(), LinkError>,
    ) -> Result<Self> {
        let old = &self.settings;
        let has_same_slots = old.slots == settings.slots
            && old.memory_bytes_max == settings.memory_bytes_max
            && old.stack_bytes == settings.stack_bytes
            && memories(modules) <= self.memories;
        if !has_same_slots {
            return Self::new(settings, modules, more);
        }
        Self::in_region(self.region.clone(), self.memories, settings, modules, more)
    }

    fn in_region(
        region: Region,
        memories: u32,
        settings: Settings,
        modules: &[Module],
        more: impl FnOnce(&mut Linker<WasiCtx>) -> Result<(), LinkError>,
    ) -> Result<Self> {
        let mut linker = Linker::new();
        let sleep =
            |until: Instant| -> HostFuture<'static, ()> { Box::pin(sleep_until(until.into())) };
        pirn_wasi::link_async(&mut linker, |wasi| wasi, sleep)?;
        link_teavm(&mut linker, |wasi| wasi)?;
        more(&mut linker)?;
        let mut components = pirn_component::Linker::new();
        components.host_bytes_max(HOST_BYTES_MAX);
        pirn_wasi2::link(&mut components)?;
        pirn_wasi2::http::link(&mut components)?;
        let start_deadline = settings.deadline.min(settings.start_deadline);
        let kind = |module: &Module| -> Result<Kind> {
            if module.component().is_some() {
                let component = Component::new(module)?;
                let handler = Handler::new(&region, &component, &components, start_deadline)?;
                return Ok(Kind::Handler(handler));
            }
            let prepared = region.prepare(module, &linker)?;
            let prepared = prepared.start_deadline(start_deadline);
            // Measuring CPU time reads the clocks, which costs 1 us of the tens of microseconds of
            // a request.
            let prepared = prepared.measured(Measure::CpuTime);
            Ok(Kind::Program(Program::new(prepared, module)?.into()))
        };
        let guests = modules.iter().enumerate().map(|(number, module)| {
            let kind = kind(module).context(GuestNumber(number))?;
            let deadline = settings.deadline;
            Ok(Guest { deadline, kind })
        });
        let guests = guests.collect::<Result<_>>()?;
        Ok(Self {
            region,
            memories,
            settings,
            guests,
        })
    }

    /// Sets the longest wall time of the guest of one route, in place of [`Settings::deadline`].
    pub fn set_deadline(&mut self, route: usize, deadline: Duration) {
        let guest = &mut self.guests[route];
        let start_deadline = deadline.min(self.settings.start_deadline);
        match &mut guest.kind {
            Kind::Program(program) => {
                program.prepared = program.prepared.start_deadline(start_deadline);
            }
            Kind::Handler(handler) => handler.set_start_deadline(start_deadline),
        }
        guest.deadline = deadline;
    }

    /// Applies the grants of the guest of one route.
    pub fn allow(&mut self, route: usize, grants: &Grants) {
        match &mut self.guests[route].kind {
            Kind::Handler(handler) => handler.allow(grants),
            Kind::Program(program) => program.memory_dirs.clone_from(&grants.memory_dirs),
        }
    }

    /// The region, for inspection.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Runs a guest in its own slot, which is free again afterwards. Returns how the guest ended,
    /// when it got its slot, and the resources that it used.
    async fn end(
        &self,
        guest: &Program,
        deadline: Duration,
        context: WasiCtx,
        place: Place,
    ) -> Option<(End, Instant, Usage)> {
        let made = guest.prepared.instantiate_async(context);
        let (made, since) = place.wait(made).await?;
        let mut instance = match made {
            Ok(instance) => instance,
            Err(error) => return Some((not_made(error), since, Usage::default())),
        };
        let end = self.answer(guest, deadline, &mut instance).await;
        let end = end.unwrap_or_else(ended);
        Some((end, since, instance.usage_without_pages()))
    }

    /// Calls the functions of a guest. The deadline covers all calls together.
    async fn answer(
        &self,
        guest: &Program,
        deadline: Duration,
        instance: &mut Instance<WasiCtx>,
    ) -> Result<End, CallError> {
        let begin = Instant::now();
        let left = || deadline.saturating_sub(begin.elapsed());
        if let Some(init) = &guest.init {
            self.call(instance, init, left()).await?;
        }
        let code = match &guest.answer {
            Answer::Plain(answer) => {
                self.call(instance, answer, left()).await?;
                0
            }
            Answer::Code(answer) => self.call(instance, answer, left()).await?,
        };
        Ok(End::Exited(code.cast_unsigned()))
    }

    /// Calls a function of a guest that has `left` until its deadline.
    async fn call<R: Results>(
        &self,
        instance: &mut Instance<WasiCtx>,
        func: &TypedFunc<(), R>,
        left: Duration,
    ) -> Result<R, CallError> {
        let limited = instance.deadline(left);
        let limited = limited.timeslice(self.settings.timeslice);
        let call = limited.call_async(func, ());
        call.yield_with(|| Box::pin(yield_now())).await
    }
}

/// A snapshot of a guest after its initialisation. Instances of the snapshot begin initialised.
///
/// The initialisation has no arguments, variables or input, and its output is dropped. The guest
/// sees the system's clocks and random numbers. It has the directories in memory that each request
/// gets, but its changes in them are lost. `more` defines the same host functions as for
/// [`Pirn::new`]. Returns a module without initialisation, and a snapshot, unchanged.
///
/// # Errors
///
/// If the guest does not fit into a slot, or if its initialisation fails or takes longer than
/// `deadline`.
pub fn warm(
    module: &Module,
    settings: &Settings,
    grants: &Grants,
    deadline: Duration,
    more: impl FnOnce(&mut Linker<WasiCtx>) -> Result<(), LinkError>,
) -> Result<Module> {
    let initialisers = match initialisers(module, None) {
        Ok(initialisers) if !module.is_snapshot() => initialisers,
        Ok(_) | Err(InitialiseError::None) => return Ok(module.clone()),
        Err(error) => return Err(error.into()),
    };
    let region = region(settings, 1, module.memories())?;
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi)?;
    link_teavm(&mut linker, |wasi| wasi)?;
    more(&mut linker)?;
    let prepared = region.prepare(module, &linker)?.start_deadline(deadline);
    let context = with_memory_dirs(WasiCtxBuilder::new(), &grants.memory_dirs)?;
    let mut instance = prepared.instantiate(context.build())?;
    for name in &initialisers {
        let called = instance.deadline(deadline).call_values(name, &[]);
        called.with_context(|| format!("its initialisation {name}"))?;
    }
    // A descriptor that the guest has opened may have replaced a preopened descriptor under the
    // same number.
    let given = STREAMS + grants.memory_dirs.len();
    let wasi = instance.data();
    if wasi.opened().number() > 0 || wasi.open_descriptors().len() != given {
        bail!("its initialisation opened or closed descriptors; leave them as they are");
    }
    let names: Vec<&str> = initialisers.iter().map(String::as_str).collect();
    Ok(instance.snapshot_after(&names)?)
}

/// Most memory that the host keeps for one component, in all. A connection to another server with
/// its bodies counts for up to 256 KiB, so a guest may have 60 connections.
const HOST_BYTES_MAX: usize = 16 << 20;

/// Number of standard streams.
const STREAMS: usize = 3;

/// Most memories of a module.
fn memories(modules: &[Module]) -> u32 {
    modules.iter().map(Module::memories).max().unwrap_or(0)
}

/// A region for guests with at most `memories` memories.
fn region(settings: &Settings, slots: u32, memories: u32) -> Result<Region> {
    let region = Region::builder()
        .slots(slots)
        .memories(memories.max(1))
        .memory_bytes_max(settings.memory_bytes_max)
        .stack_bytes(settings.stack_bytes)
        .build();
    Ok(region?)
}

impl Engine for Pirn {
    fn run(&self, work: Work) -> Running<'_> {
        Box::pin(async move {
            let guest = &self.guests[work.route];
            let Kind::Program(program) = &guest.kind else {
                // Never happens: the server asks `is_handler` first.
                return None;
            };
            let pipe = |bytes_max| WritePipe::new(Bounded::new(vec![], bytes_max));
            let output = pipe(self.settings.output_max);
            let errors = pipe(self.settings.errors_max);
            let (environment, dirs) = (&work.environment, &program.memory_dirs);
            let made = context(environment, work.body, &output, &errors, dirs);
            let (end, since, usage) = match made {
                Ok(context) => {
                    let ended = self.end(program, guest.deadline, context, work.place);
                    ended.await?
                }
                Err(error) => {
                    let why = format!("no environment for the guest: {error}");
                    (End::System(why), Instant::now(), Usage::default())
                }
            };
            let took = since.elapsed();
            let (output, overflowed) = taken(output);
            let (errors, _) = taken(errors);
            Some(Ran {
                end,
                output,
                overflowed,
                errors,
                took,
                usage,
            })
        })
    }

    fn is_handler(&self, route: usize) -> bool {
        matches!(self.guests[route].kind, Kind::Handler(_))
    }

    fn begin(&self, exchange: Exchange) -> Result<Begun, End> {
        let guest = &self.guests[exchange.route];
        let times = Times {
            deadline: guest.deadline,
            timeslice: self.settings.timeslice,
            errors_max: self.settings.errors_max,
        };
        match &guest.kind {
            Kind::Handler(handler) => handler.begin(exchange, times),
            Kind::Program(_) => Err(End::System("the guest is no component".to_owned())),
        }
    }

    fn slots(&self) -> Slots {
        let region = self.region.describe();
        Slots {
            all: region.slots() as usize,
            free: self.region.slots_free(),
            lost: region.slots_lost() as usize,
        }
    }
}

/// The destination of a guest's output.
type Output = WritePipe<Bounded<Vec<u8>>>;

/// The captured output, and whether the guest printed more. The guest has ended by now.
fn taken(output: Output) -> (Vec<u8>, bool) {
    output.try_into_inner().map_or((vec![], true), |all| {
        let overflowed = all.is_refusing();
        (all.into_inner(), overflowed)
    })
}

/// The guest's WASI context: its request and its directories in memory, but no sockets.
fn context(
    environment: &[(Cow<'static, str>, String)],
    body: Bytes,
    output: &Output,
    errors: &Output,
    dirs: &[GrantedDir],
) -> Result<WasiCtx> {
    let builder = WasiCtxBuilder::new()
        .envs(environment.iter().map(|(name, value)| (&**name, value)))?
        .stdin(ReadPipe::new(Cursor::new(body)))
        .stdout(output.clone())
        .stderr(errors.clone());
    Ok(with_memory_dirs(builder, dirs)?.build())
}

/// Gives a guest new directories in memory.
fn with_memory_dirs(builder: WasiCtxBuilder, dirs: &[GrantedDir]) -> Result<WasiCtxBuilder> {
    dirs.iter().try_fold(builder, |builder, dir| {
        let made = MemoryDir::new(&dir.base, dir.limits);
        Ok(builder.memory_dir(made, &dir.path)?)
    })
}

fn not_made(error: InstantiateError) -> End {
    match error {
        InstantiateError::Start(error) => ended(error),
        error => End::System(error.to_string()),
    }
}

/// The end of a guest whose call failed with this error.
fn ended(error: CallError) -> End {
    if let Some(exit) = Exit::of(&error) {
        return End::Exited(exit.code);
    }
    core_end(error)
}
