//! [`Options`]: what a compilation may be asked to do differently.

use crate::cache::Cache;
use pirn_format::cpu::{Arch, CpuFeatures};
use std::sync::Arc;

/// What a compilation may be asked to do differently.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The target: its architecture and the instruction-set extensions that code may use. The
    /// default is the baseline of the architecture that this compiler runs on, never the very
    /// machine.
    pub cpu: CpuFeatures,
    /// How hard to optimise.
    pub opt_level: OptLevel,
    /// Whether addresses of checked accesses are masked against speculation past the check
    /// (default: yes).
    pub spectre: bool,
    /// What relaxed operators on vectors give where WebAssembly lets them choose (default: what costs least).
    pub relaxed_simd: RelaxedSimd,
    /// Whether the code counts the operators that it executes, and ends once it has used up the fuel
    /// that the instance was given (default: no).
    pub fuel: bool,
    /// Whether the guest's own debug information, if it has any, is carried over: the file then says
    /// which line of the guest's source each instruction is of, to debuggers and profilers (default: no).
    /// What is run is the same.
    pub debug_info: bool,
    /// Units of compile work that the module may use for each of its bytes, in addition to
    /// 1,000,000 units for any module (default: [`WORK_PER_BYTE`]). A unit is at most 1 us of
    /// processor time. A module that needs more is refused with
    /// [`CompileError::Work`](crate::CompileError::Work).
    pub work_per_byte: u64,
    /// Where functions that were compiled earlier are taken from, and new ones are put (default: nowhere).
    /// What comes out is the same.
    pub cache: Option<Arc<Cache>>,
}

/// The default of [`Options::work_per_byte`].
pub const WORK_PER_BYTE: u64 = 100;

/// How hard to optimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OptLevel {
    /// Not at all: fastest to compile.
    None,
    /// For speed.
    #[default]
    Speed,
    /// For speed, and for size where that costs none.
    SpeedAndSize,
}

/// What relaxed operators on vectors give where WebAssembly lets them choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RelaxedSimd {
    /// What the target's processors do fastest, among what is allowed. It depends on [`Options::cpu`] alone.
    #[default]
    Fastest,
    /// The result of WebAssembly's deterministic profile: the same on every target. Signs and payloads of NaNs are
    /// the processor's still, as with all operators on floating-point numbers.
    Deterministic,
}

impl Options {
    /// The defaults for an architecture: its baseline CPU, optimised for speed.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        let cpu = CpuFeatures::level(arch, "baseline").unwrap_or(CpuFeatures::none(arch));
        Self {
            cpu,
            opt_level: OptLevel::default(),
            spectre: true,
            relaxed_simd: RelaxedSimd::default(),
            fuel: false,
            debug_info: false,
            work_per_byte: WORK_PER_BYTE,
            cache: None,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        let arch = Arch::from_name(std::env::consts::ARCH).unwrap_or(Arch::X86_64);
        Self::new(arch)
    }
}
