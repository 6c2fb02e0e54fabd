//! [`Pirn`]: runs guests in pirn's slots. `program.rs` runs WASI programs that speak CGI, and
//! `handler.rs` components.

use super::bounds::Bounds;
use super::engine::{Begun, End, Engine, Exchange, Slots};
use super::grants::Grants;
use super::handler::Handler;
use super::program::{Program, with_memory_dirs};
use anyhow::{Context as _, Result, bail};
use pirn_component::Component;
use pirn_runtime::{HostFuture, LinkError, Linker, Module, Region};
use pirn_wasi::conventions::{InitialiseError, initialisers, link_teavm};
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::fmt;
use std::time::{Duration, Instant};
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
    /// Most bytes of a CGI program's standard output.
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
    Program(Program),
    /// A `wasi:http` component.
    Handler(Handler),
}

/// The guest that an error of [`Pirn::new`] is about: the number of its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestNumber(pub usize);

impl fmt::Display for GuestNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guest {}", self.0)
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
            Ok(Kind::Program(Program::new(&prepared, module)?))
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
            Kind::Program(program) => program.set_start_deadline(start_deadline),
            Kind::Handler(handler) => handler.set_start_deadline(start_deadline),
        }
        guest.deadline = deadline;
    }

    /// Applies the grants of the guest of one route.
    pub fn allow(&mut self, route: usize, grants: &Grants) {
        match &mut self.guests[route].kind {
            Kind::Handler(handler) => handler.allow(grants),
            Kind::Program(program) => program.allow(grants),
        }
    }

    /// The region, for inspection.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
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
    fn is_handler(&self, route: usize) -> bool {
        matches!(self.guests[route].kind, Kind::Handler(_))
    }

    fn begin(&self, exchange: Exchange) -> Result<Begun, End> {
        let guest = &self.guests[exchange.route];
        let bounds = Bounds {
            deadline: guest.deadline,
            timeslice: self.settings.timeslice,
            output_max: self.settings.output_max,
            errors_max: self.settings.errors_max,
        };
        match &guest.kind {
            Kind::Handler(handler) => handler.begin(exchange, bounds),
            Kind::Program(program) => Ok(program.begin(exchange, bounds)),
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
