//! [`Setting`]: one way to compile a guest and run it.

use crate::random::Random;
use pirn_compiler::{Cache, OptLevel, Options, Pass, Passes, RelaxedSimd};
use pirn_format::cpu;
use pirn_runtime::Reset;
use std::sync::Arc;

/// One way to compile a guest and run it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Optimisation level.
    pub level: OptLevel,
    /// Whether to compile for this CPU instead of the baseline.
    pub native: bool,
    /// Whether to count fuel.
    pub fuel: bool,
    /// Whether to emit debug information.
    pub debug: bool,
    /// Whether to inline small functions.
    pub inline: bool,
    /// The optimiser passes that run, besides inlining.
    pub passes: Passes,
    /// Whether to mask addresses against speculative execution.
    pub spectre: bool,
    /// Whether to compile with a cache too, which must give the same module.
    pub cache: bool,
    /// Reset of the slots.
    pub reset: Reset,
}

impl Setting {
    /// The default settings of `aotc`.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            level: OptLevel::Speed,
            native: false,
            fuel: false,
            debug: false,
            inline: true,
            passes: Passes::ALL,
            spectre: true,
            cache: false,
            reset: Reset::Auto,
        }
    }

    /// A random setting.
    pub fn any(random: &mut Random) -> Self {
        let pass = Pass::ALL[random.below(Pass::ALL.len())];
        let levels = [OptLevel::Speed, OptLevel::None, OptLevel::SpeedAndSize];
        Self {
            level: levels[random.below(3)],
            native: random.once_in(2),
            fuel: random.once_in(3),
            debug: random.once_in(3),
            inline: !random.once_in(3),
            passes: match random.below(5) {
                0 => Passes::NONE,
                1 | 2 => Passes::NONE.with(pass),
                3 => Passes::ALL.without(pass),
                _ => Passes::ALL,
            },
            spectre: !random.once_in(3),
            cache: random.once_in(8),
            reset: Reset::ALL[random.below(Reset::ALL.len())],
        }
    }

    /// Whether one pass runs alone, or inlining alone.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        let alone = |pass: Pass| self.passes == Passes::NONE.with(pass);
        let is_one = match self.inline {
            true => self.passes == Passes::NONE,
            false => Pass::ALL.into_iter().any(alone),
        };
        is_one && self.level != OptLevel::None
    }

    /// The compiler options, without the cache. Relaxed SIMD operators are deterministic: otherwise
    /// results differ between engines and between CPUs.
    #[must_use]
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        options.opt_level = self.level;
        if self.native {
            options.cpu = cpu::detect();
        }
        options.fuel = self.fuel;
        options.debug_info = self.debug;
        options.inline = self.inline;
        options.passes = self.passes;
        options.spectre = self.spectre;
        options.relaxed_simd = RelaxedSimd::Deterministic;
        options
    }

    /// Compiles a module. With a cache, compiles it twice more: once to fill the cache, and once
    /// from it.
    ///
    /// # Errors
    ///
    /// The compiler's error, or that the cache changes the module.
    pub fn compile(&self, wasm: &[u8]) -> Result<Vec<u8>, String> {
        let mut options = self.options();
        let compile = |options: &Options| {
            pirn_compiler::compile(wasm, options).map_err(|error| error.to_string())
        };
        let plain = compile(&options)?;
        if self.cache {
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            let cache = Cache::open(folder.path()).map_err(|error| error.to_string())?;
            options.cache = Some(Arc::new(cache));
            for turn in ["empty", "filled"] {
                if compile(&options)? != plain {
                    return Err(format!("an {turn} cache makes another module"));
                }
            }
        }
        Ok(plain)
    }
}
