//! Searches for modules and components that cost the compiler most for their size. Each has a shape
//! with a few numbers; the search changes the numbers of the costliest ones.
//!
//! A module or component that compiles may cost one microsecond for each unit of work that
//! [`Options::work_per_byte`] permits for the bytes of the input. The compiler must refuse others
//! with the name of a limit. The cost is measured in two ways. CPU time ([`Found::cpu_ns`]) is for
//! people. Units of work, bytes of the output and bytes of the heap ([`Found::code_permille`],
//! [`Found::bound_permille`]) are for tests, because they are reproducible.

mod subject;
mod shapes;
mod types;
mod bodies;
mod parts;
mod component_shape;
mod instances;
mod interfaces;
mod copies;
mod components;

use crate::random::Random;
pub use component_shape::ComponentShape;
pub use components::COMPONENT_KINDS;
use core::fmt;
use pirn_compiler::{Compilation, CompileError, OptLevel, Options, WORK_PER_BYTE};
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use rustix::time::{ClockId, clock_gettime};
pub use shapes::{KINDS, Shape};
pub use subject::Subject;

/// Units of work that any module may use.
pub const FREE: u64 = 1_000_000;

/// Bytes of the heap that compiling any component may take. With [`HEAP_PER_UNIT`], a component of
/// 100 KB may take 127 MB. A process of `aotc` has 28 MB or less for each example component, of
/// which the largest have 80 to 160 KB.
pub const HEAP_FREE: u64 = 16 << 20;
/// Bytes of the heap in addition, for each unit of work that the size of the component permits.
pub const HEAP_PER_UNIT: u64 = 10;

/// The cost of compiling one module or component.
#[derive(Debug, Clone)]
pub struct Found<S = Shape> {
    /// The shape.
    pub shape: S,
    /// Index of the compiler options.
    pub way: usize,
    /// Bytes of the input.
    pub bytes: u64,
    /// CPU time of this process until the input was compiled or refused.
    pub cpu_ns: u64,
    /// Bytes of machine code; 0 if the input was refused.
    pub code_bytes: u64,
    /// Bytes of the compiled file; 0 if the input was refused.
    pub file_bytes: u64,
    /// The most bytes of memory at a time, as the [`Meter`] counts them, also of a refused input.
    pub heap_bytes: u64,
    /// Units of work that the input used; 0 if it was refused.
    pub work: u64,
    /// The limit that refused the input, or the rule that it breaks.
    pub refused: Option<String>,
}

/// Measures memory. The program that measures provides the functions.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    /// Starts a measurement.
    pub start: fn(),
    /// The most bytes at a time since the start.
    pub peak: fn() -> u64,
}

impl Meter {
    /// Measures nothing.
    pub const NONE: Self = Self {
        start: || (),
        peak: || 0,
    };
}

impl<S: Subject> Found<S> {
    /// Share of the allowed cost for an input of this size, in thousandths, by CPU time.
    #[must_use]
    pub fn time_permille(&self) -> u64 {
        self.permille(self.cpu_ns / 1000)
    }

    /// Share of the allowed cost in thousandths, by bytes of machine code. Each unit of work allows
    /// one byte.
    #[must_use]
    pub fn code_permille(&self) -> u64 {
        self.permille(self.code_bytes)
    }

    /// The largest share of a bound, in thousandths: units of work, bytes of the compiled file, of
    /// which each unit allows one, and bytes of the heap. Nothing of this depends on the machine.
    #[must_use]
    pub fn bound_permille(&self) -> u64 {
        let heap_bytes_max = HEAP_FREE + HEAP_PER_UNIT * self.units_max();
        let heap = self.heap_bytes * 1000 / heap_bytes_max;
        heap.max(self.permille(self.work.max(self.file_bytes)))
    }

    /// Nanoseconds for each unit of work.
    #[must_use]
    pub fn ns_per_unit(&self) -> u64 {
        self.cpu_ns / self.work.max(1)
    }

    /// The units of work that the size permits.
    fn units_max(&self) -> u64 {
        FREE + self.bytes * WORK_PER_BYTE
    }

    fn permille(&self, cost: u64) -> u64 {
        cost * 1000 / self.units_max()
    }
}

impl<S: Subject> fmt::Display for Found<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, bytes, way) = (self.shape, self.bytes, self.way);
        let (time, code) = (self.time_permille(), self.code_permille());
        let per_byte = self.cpu_ns / bytes.max(1);
        write!(
            f,
            "{time:4} by time, {code:4} by code, {per_byte:6} ns a byte, "
        )?;
        if self.heap_bytes > 0 {
            let (heap, file) = (self.heap_bytes >> 10, self.file_bytes >> 10);
            write!(f, "{heap} KiB of memory, {file} KiB of output, ")?;
        }
        match &self.refused {
            None => write!(f, "{:4} ns a unit", self.ns_per_unit())?,
            Some(why) => write!(f, "refused ({why})")?,
        }
        write!(f, ": {}, {bytes} bytes, way {way}, {shape:?}", shape.name())
    }
}

/// The options that change the amount of work: no optimiser, the other target, counted fuel.
#[must_use]
pub fn ways() -> Vec<Options> {
    let mut ways = Vec::from([Arch::X86_64, Arch::Aarch64].map(Options::new));
    let mut plain = ways[0].clone();
    plain.opt_level = OptLevel::None;
    let mut counting = ways[0].clone();
    counting.fuel = true;
    ways.extend([plain, counting]);
    ways
}

/// Options without the work limit, under which the search must find expensive modules.
#[must_use]
pub fn unlimited() -> Options {
    let mut options = Options::new(Arch::X86_64);
    options.work_per_byte = u64::MAX;
    options
}

/// Compiles a module or component of a shape and measures the cost.
///
/// # Errors
///
/// If the compiler reports that a module is invalid, or an internal error. A component may be
/// invalid, because the sizes of its types have limits.
pub fn measure<S: Subject>(shape: S, options: &Options, meter: Meter) -> Result<Found<S>, String> {
    let wasm = shape.binary();
    (meter.start)();
    let before = cpu_ns();
    let compiled = Compilation::new(options).run(&wasm);
    let cpu_ns = cpu_ns() - before;
    let mut found = Found {
        shape,
        way: 0,
        bytes: wasm.len() as u64,
        cpu_ns,
        code_bytes: 0,
        file_bytes: 0,
        heap_bytes: (meter.peak)(),
        work: 0,
        refused: None,
    };
    let is_component = wasm.get(6) == Some(&1);
    match compiled {
        Ok(emitted) => {
            let file = emitted.bytes;
            let checked = Checked::new(&file).map_err(|error| format!("{shape:?}: {error}"))?;
            found.code_bytes = checked.header.section(Section::Text).len;
            found.file_bytes = file.len() as u64;
            found.work = emitted.work;
        }
        Err(
            error @ (CompileError::Work { .. }
            | CompileError::FunctionLimit { .. }
            | CompileError::Limit { .. }),
        ) => found.refused = Some(error.to_string()),
        Err(error @ (CompileError::Invalid { .. } | CompileError::Component(_)))
            if is_component =>
        {
            found.refused = Some(error.to_string());
        }
        Err(error) => return Err(format!("{shape:?}: {error}")),
    }
    Ok(found)
}

/// Measures shapes as long as `proceeds` returns true. Half of the shapes are changes of the worst
/// shapes so far, ordered by `judge`. `measure` gets a shape and a number below `ways`, the index
/// of the compiler options. Returns the worst of each kind, the worst of all first.
///
/// # Errors
///
/// As [`measure`].
pub fn search<S: Subject>(
    random: &mut Random,
    ways: usize,
    mut proceeds: impl FnMut(usize) -> bool,
    mut measure: impl FnMut(S, usize) -> Result<Found<S>, String>,
    judge: impl Fn(&Found<S>) -> u64,
) -> Result<Vec<Found<S>>, String> {
    let mut worst: Vec<Option<Found<S>>> = vec![None; S::KINDS.len()];
    let mut tried = 0;
    while proceeds(tried) {
        let kind = random.below(S::KINDS.len());
        let shape = match &worst[kind] {
            Some(found) if !random.once_in(4) => found.shape.changed(random),
            _ => S::any(kind, random),
        };
        let way = random.below(ways);
        let mut found = measure(shape, way)?;
        found.way = way;
        if worst[kind]
            .as_ref()
            .is_none_or(|best| judge(&found) > judge(best))
        {
            worst[kind] = Some(found);
        }
        tried += 1;
    }
    let mut worst: Vec<_> = worst.into_iter().flatten().collect();
    worst.sort_by_key(|found| u64::MAX - judge(found));
    Ok(worst)
}

/// CPU time of this process.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Not negative: the clock starts at 0.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
