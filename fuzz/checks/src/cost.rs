//! Searches for modules that cost the compiler most for their size. Each module has a shape with a
//! few numbers; the search changes the numbers of the costliest modules.
//!
//! A module that compiles may cost one microsecond for each unit of work that
//! [`Options::work_per_byte`] permits. The compiler must refuse other modules with the name of a
//! limit. The cost is measured in two ways. CPU time ([`Found::cpu_ns`]) is for people. Bytes of
//! machine code ([`Found::code_bytes`]) are for tests, because they are reproducible.

mod shapes;
mod types;
mod bodies;
mod parts;

use crate::random::Random;
use core::fmt;
use pirn_compiler::{CompileError, OptLevel, Options, WORK_PER_BYTE, compile_counting};
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use rustix::time::{ClockId, clock_gettime};
pub use shapes::{KINDS, Shape};

/// Units of work that any module may use.
pub const FREE: u64 = 1_000_000;

/// The cost of compiling one module.
#[derive(Debug, Clone)]
pub struct Found {
    /// The shape.
    pub shape: Shape,
    /// Index of the compiler options.
    pub way: usize,
    /// Bytes of the module.
    pub bytes: u64,
    /// CPU time of this process until the module was compiled or refused.
    pub cpu_ns: u64,
    /// Bytes of machine code; 0 if it was refused.
    pub code_bytes: u64,
    /// Units of work that the module used; 0 if it was refused.
    pub work: u64,
    /// The limit that refused the module.
    pub refused: Option<String>,
}

impl Found {
    /// Share of the allowed cost for a module of this size, in thousandths, by CPU time.
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

    /// Nanoseconds for each unit of work.
    #[must_use]
    pub fn ns_per_unit(&self) -> u64 {
        self.cpu_ns / self.work.max(1)
    }

    fn permille(&self, cost: u64) -> u64 {
        cost * 1000 / (FREE + self.bytes * WORK_PER_BYTE)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, bytes, way) = (self.shape, self.bytes, self.way);
        let (time, code) = (self.time_permille(), self.code_permille());
        let per_byte = self.cpu_ns / bytes.max(1);
        write!(
            f,
            "{time:4} by time, {code:4} by code, {per_byte:6} ns a byte, "
        )?;
        match self.refused {
            None => write!(f, "{:4} ns a unit", self.ns_per_unit())?,
            Some(_) => write!(f, "refused")?,
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

/// Compiles a module of a shape and measures the cost.
///
/// # Errors
///
/// If the compiler reports that the module is invalid, or an internal error.
pub fn measure(shape: Shape, options: &Options) -> Result<Found, String> {
    let wasm = shape.module();
    let before = cpu_ns();
    let compiled = compile_counting(&wasm, options);
    let cpu_ns = cpu_ns() - before;
    let mut found = Found {
        shape,
        way: 0,
        bytes: wasm.len() as u64,
        cpu_ns,
        code_bytes: 0,
        work: 0,
        refused: None,
    };
    match compiled {
        Ok((file, work)) => {
            let checked = Checked::new(&file).map_err(|error| format!("{shape:?}: {error}"))?;
            found.code_bytes = checked.header.section(Section::Text).len;
            found.work = work;
        }
        Err(
            error @ (CompileError::Work { .. }
            | CompileError::FunctionLimit { .. }
            | CompileError::Limit { .. }),
        ) => found.refused = Some(error.to_string()),
        Err(error) => return Err(format!("{shape:?}: {error}")),
    }
    Ok(found)
}

/// Measures shapes as long as `proceeds` returns true. Half of the shapes are changes of the worst
/// shapes so far, ordered by `judge`. Returns the worst of each kind, the worst of all first.
///
/// # Errors
///
/// As [`measure`].
pub fn search(
    random: &mut Random,
    ways: &[Options],
    mut proceeds: impl FnMut(usize) -> bool,
    judge: impl Fn(&Found) -> u64,
) -> Result<Vec<Found>, String> {
    let mut worst: Vec<Option<Found>> = vec![None; KINDS.len()];
    let mut tried = 0;
    while proceeds(tried) {
        let kind = random.below(KINDS.len());
        let shape = match &worst[kind] {
            Some(found) if !random.once_in(4) => found.shape.changed(random),
            _ => Shape::any(kind, random),
        };
        let way = random.below(ways.len());
        let mut found = measure(shape, &ways[way])?;
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
