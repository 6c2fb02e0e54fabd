//! [`Options`]: the settings of a compilation.

use crate::cache::Cache;
use crate::passes::{Pass, Passes};
use pirn_format::cpu::{Arch, CpuFeatures};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The settings of a compilation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The target: its architecture and the instruction-set extensions that code may use. The
    /// default is the baseline of the host architecture. The default never depends on the host's
    /// processor.
    pub cpu: CpuFeatures,
    /// The optimisation level.
    pub opt_level: OptLevel,
    /// Whether small functions are compiled into their callers (default: yes). Never with
    /// [`OptLevel::None`]. Traps, their backtraces and fuel are the same either way.
    pub inline: bool,
    /// The optimiser passes that run (default: all). A maintainer leaves out passes to find the
    /// pass that causes a fault. The results of the guest do not change, except for the bits of
    /// NaNs.
    pub passes: Passes,
    /// Whether addresses of checked accesses are masked against speculation past the check
    /// (default: yes).
    pub spectre: bool,
    /// Which results relaxed vector operators give where WebAssembly allows several (default: the
    /// cheapest).
    pub relaxed_simd: RelaxedSimd,
    /// Whether the code counts the operators that it executes, and traps once it has used the fuel
    /// of the instance (default: no).
    pub fuel: bool,
    /// Whether the guest's debug information, if it has any, is carried over (default: no).
    /// Debuggers and profilers can then map each instruction to a line of the guest's source. The
    /// machine code does not change.
    pub debug_info: bool,
    /// Units of compile work that the module may use for each of its bytes, in addition to
    /// 1,000,000 units for any module (default: [`WORK_PER_BYTE`]). A unit is at most 1 us of
    /// processor time. A module that needs more is refused with
    /// [`CompileError::Work`](crate::CompileError::Work).
    pub work_per_byte: u64,
    /// The cache of compiled functions to read from and to add to (default: none). The cache does
    /// not change the output.
    pub cache: Option<Arc<Cache>>,
    /// The fault that this compiler has (default: none).
    #[cfg(feature = "faults")]
    #[doc(hidden)]
    pub fault: Option<crate::faults::Fault>,
}

/// The default of [`Options::work_per_byte`].
pub const WORK_PER_BYTE: u64 = 100;

/// The optimisation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OptLevel {
    /// No optimisation: the fastest to compile.
    None,
    /// Optimised for speed.
    #[default]
    Speed,
    /// Optimised for speed, and for size where that costs no speed.
    SpeedAndSize,
}

/// Which results relaxed vector operators give where WebAssembly allows several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RelaxedSimd {
    /// The allowed result that is fastest on the target's processors. The choice depends only on
    /// [`Options::cpu`].
    #[default]
    Fastest,
    /// The result of WebAssembly's deterministic profile, which is the same on every target. As
    /// with all floating-point operators, signs and payloads of NaNs still depend on the processor.
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
            inline: true,
            passes: Passes::ALL,
            spectre: true,
            relaxed_simd: RelaxedSimd::default(),
            fuel: false,
            debug_info: false,
            work_per_byte: WORK_PER_BYTE,
            cache: None,
            #[cfg(feature = "faults")]
            fault: None,
        }
    }

    /// Whether functions are inlined.
    pub(crate) fn inlines(&self) -> bool {
        self.inline && self.opt_level != OptLevel::None
    }

    /// The options that decide the output, as `aotc` takes them. Options that are defaults on every
    /// machine are left out.
    pub(crate) fn command_line(&self) -> String {
        // Destructures all options, so that a new one cannot be forgotten.
        let Self {
            cpu,
            opt_level,
            inline,
            passes,
            spectre,
            relaxed_simd,
            fuel,
            debug_info,
            // The work limit decides whether there is an output, but does not change its bytes.
            work_per_byte: _,
            cache: _,
            #[cfg(feature = "faults")]
                fault: _,
        } = self;
        let level = match opt_level {
            OptLevel::None => "none",
            OptLevel::Speed => "speed",
            OptLevel::SpeedAndSize => "speed-and-size",
        };
        let (target, cpu) = (cpu.arch(), cpu.name());
        let mut line = format!("--target {target} --cpu {cpu} --opt-level {level}");
        for (is_given, option) in [
            (!inline, "--no-inline"),
            (!spectre, "--no-spectre-masks"),
            (
                *relaxed_simd == RelaxedSimd::Deterministic,
                "--relaxed-simd deterministic",
            ),
            (*fuel, "--fuel"),
            (*debug_info, "--debug-info"),
        ] {
            if is_given {
                line.extend([" ", option]);
            }
        }
        for pass in Pass::ALL.into_iter().filter(|pass| !passes.has(*pass)) {
            line.extend([" --without-pass ", pass.name()]);
        }
        line
    }

    /// Hashes the options that decide machine code or its tables, for the keys of the cache.
    pub(crate) fn hash_settings(&self, state: &mut impl Hasher) {
        // Destructures all options, so that a new one cannot be forgotten.
        let Self {
            cpu,
            opt_level,
            inline,
            passes,
            spectre,
            relaxed_simd,
            fuel,
            debug_info,
            // The work limit decides whether code is generated, but does not change the code.
            work_per_byte: _,
            cache: _,
            #[cfg(feature = "faults")]
            fault,
        } = self;
        #[cfg(feature = "faults")]
        fault.hash(state);
        format!("{cpu:?} {opt_level:?} {relaxed_simd:?}").hash(state);
        (inline, passes, spectre, fuel, debug_info).hash(state);
    }
}

impl Default for Options {
    fn default() -> Self {
        let arch = Arch::from_name(std::env::consts::ARCH).unwrap_or(Arch::X86_64);
        Self::new(arch)
    }
}
