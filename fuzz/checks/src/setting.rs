//! [`Setting`]: one way to compile a guest and run it.

use crate::random::Random;
use pirn_compiler::{Cache, OptLevel, Options, RelaxedSimd};
use pirn_format::cpu;
use pirn_runtime::Reset;
use std::sync::Arc;

/// One way to compile a guest and run it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// How hard to optimise.
    pub level: OptLevel,
    /// For this machine, not for the baseline.
    pub native: bool,
    /// With counted fuel.
    pub fuel: bool,
    /// With debug information.
    pub debug: bool,
    /// With masks against speculation.
    pub spectre: bool,
    /// Also with a cache, of which the same must come.
    pub cache: bool,
    /// How slots are made clean.
    pub reset: Reset,
}

impl Setting {
    /// As `aotc` compiles without options.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            level: OptLevel::Speed,
            native: false,
            fuel: false,
            debug: false,
            spectre: true,
            cache: false,
            reset: Reset::Auto,
        }
    }

    /// Any of them.
    pub fn any(random: &mut Random) -> Self {
        let levels = [OptLevel::Speed, OptLevel::None, OptLevel::SpeedAndSize];
        Self {
            level: levels[random.below(3)],
            native: random.once_in(2),
            fuel: random.once_in(3),
            debug: random.once_in(3),
            spectre: !random.once_in(3),
            cache: random.once_in(8),
            reset: Reset::ALL[random.below(Reset::ALL.len())],
        }
    }

    /// What it is to the compiler, but for the cache. Relaxed operators are deterministic: otherwise each engine, and each
    /// processor, has its own results.
    #[must_use]
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        options.opt_level = self.level;
        if self.native {
            options.cpu = cpu::detect();
        }
        options.fuel = self.fuel;
        options.debug_info = self.debug;
        options.spectre = self.spectre;
        options.relaxed_simd = RelaxedSimd::Deterministic;
        options
    }

    /// Compiles a module. With a cache it is compiled twice more, into one and from it.
    ///
    /// # Errors
    ///
    /// What the compiler says, or that the cache makes a difference.
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
