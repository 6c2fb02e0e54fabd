//! The command line.

use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use pirn_cli::output::Output;
use pirn_compiler::{Cache, Emit, OptLevel, Options, Pass, RelaxedSimd};
use pirn_format::cpu::{Arch, CpuFeatures};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Compiles a WebAssembly module or component to a native shared object, ahead of time.
#[derive(Debug, Parser)]
#[command(name = "aotc", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The module or component: a .wasm or .wat file
    pub(crate) input: Option<PathBuf>,
    /// Output file; `-` is standard output [default: the input's name with .so, .clif, .s or .o]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Kind of output
    #[arg(long, value_enum, default_value_t = Kind::So)]
    pub(crate) emit: Kind,
    /// Architecture to compile for: x86_64 or aarch64 [default: this machine's]
    #[arg(long)]
    target: Option<String>,
    /// Instructions that the code may use: a level (baseline, x86-64-v3, ...) or `native`, with
    /// features added or removed, as in `x86-64-v2,+avx,-popcnt`
    #[arg(long, default_value = "baseline")]
    cpu: String,
    /// Optimisation level
    #[arg(long, value_enum, default_value_t = Level::Speed)]
    opt_level: Level,
    /// Compile no function into its callers, so that profilers and debuggers show each call
    #[arg(long)]
    no_inline: bool,
    /// Optimiser pass to leave out, to find the pass that causes a fault; may be repeated
    #[arg(long, value_name = "PASS", value_parser = pass())]
    without_pass: Vec<Pass>,
    /// Leave out the masks that protect checked addresses against speculation; for trusted guests
    /// only
    #[arg(long)]
    no_spectre_masks: bool,
    /// Results of relaxed vector operators where WebAssembly leaves a choice: the fastest on the
    /// target, or equal results on all targets
    #[arg(long, value_enum, value_name = "RESULTS", default_value_t = Relaxed::Fastest)]
    relaxed_simd: Relaxed,
    /// Carry over the guest's debug information, so that debuggers and profilers show source lines
    #[arg(short = 'g', long)]
    debug_info: bool,
    /// Count executed operators, so that fuel can limit a guest
    #[arg(long)]
    fuel: bool,
    /// Units of compile work that the module may use for each of its bytes, in addition to
    /// 1,000,000 for any module; a unit is at most 1 us of processor time
    #[arg(long, value_name = "UNITS", default_value_t = pirn_compiler::WORK_PER_BYTE)]
    work_per_byte: u64,
    /// Take functions that were compiled earlier from this folder, and store new ones there; the
    /// folder is created if it does not exist. Anyone who can write to the folder controls what
    /// guests do
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Most MiB of all files of the cache together
    #[arg(long, value_name = "MIB", default_value_t = 1024, requires = "cache")]
    cache_max: u32,
    /// Signs the module with this secret key: writes the signature beside the module, with .minisig
    /// after its name
    #[arg(long, value_name = "KEY")]
    pub(crate) sign: Option<PathBuf>,
    /// File whose first line is the password of the secret key [default: AOTC_PASSWORD of the
    /// environment, or the terminal]
    #[arg(long, value_name = "FILE", requires = "sign")]
    pub(crate) password_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes a pair of keys: NAME.key to sign modules with, and NAME.pub to verify them with
    Keygen {
        /// Name of the two files, without .key and .pub; neither is ever overwritten
        #[arg(short, long, value_name = "NAME", default_value = "pirn")]
        output: PathBuf,
        /// Does not encrypt the secret key: anyone who reads the file can sign
        #[arg(long, conflicts_with = "password_file")]
        no_password: bool,
        /// File whose first line is the password [default: AOTC_PASSWORD of the environment, or the
        /// terminal]
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Signs a compiled module or a snapshot: writes the signature beside it, with .minisig after
    /// its name
    Sign {
        /// The compiled module
        file: PathBuf,
        /// Secret key: a .key file
        #[arg(long, value_name = "KEY")]
        key: PathBuf,
        /// File whose first line is the password of the secret key [default: AOTC_PASSWORD of the
        /// environment, or the terminal]
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Proves from a module's machine code that it stays in its sandbox; with --key, checks that it
    /// is signed with one of the keys, and nothing else
    Verify {
        /// The compiled module; with --key, its signature is beside it
        file: PathBuf,
        /// Public key that is trusted: a .pub file; may be repeated
        #[arg(long = "key", value_name = "PUB")]
        keys: Vec<PathBuf>,
    },
    /// Shows the content of a compiled module: imports, exports, memory, cpu, bytes of each section
    Inspect {
        /// The compiled module
        file: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// Cranelift IR
    Clif,
    /// Assembly
    Asm,
    /// Relocatable object with the text and its symbols
    Obj,
    /// Shared object for the runtime
    So,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    None,
    Speed,
    SpeedAndSize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Relaxed {
    Fastest,
    Deterministic,
}

impl From<Kind> for Emit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Clif => Self::Clif,
            Kind::Asm => Self::Asm,
            Kind::Obj => Self::Obj,
            Kind::So => Self::So,
        }
    }
}

impl Args {
    pub(crate) fn options(&self) -> Result<Options> {
        let arch = self.arch()?;
        let mut options = Options::new(arch);
        options.cpu = cpu(arch, &self.cpu)?;
        options.inline = !self.no_inline;
        for pass in &self.without_pass {
            options.passes = options.passes.without(*pass);
        }
        options.spectre = !self.no_spectre_masks;
        options.relaxed_simd = match self.relaxed_simd {
            Relaxed::Fastest => RelaxedSimd::Fastest,
            Relaxed::Deterministic => RelaxedSimd::Deterministic,
        };
        options.fuel = self.fuel;
        options.debug_info = self.debug_info;
        options.work_per_byte = self.work_per_byte;
        options.cache = match &self.cache {
            Some(folder) => {
                let cache = Cache::open(folder)?;
                Some(Arc::new(cache.bytes_max(u64::from(self.cache_max) << 20)))
            }
            None => None,
        };
        options.opt_level = match self.opt_level {
            Level::None => OptLevel::None,
            Level::Speed => OptLevel::Speed,
            Level::SpeedAndSize => OptLevel::SpeedAndSize,
        };
        Ok(options)
    }

    /// Whether `--debug-info` has no effect: Cranelift IR as text has no debug information.
    pub(crate) fn has_idle_debug_info(&self) -> bool {
        self.debug_info && matches!(self.emit, Kind::Clif)
    }

    fn arch(&self) -> Result<Arch> {
        let name = self.target.as_deref().unwrap_or(std::env::consts::ARCH);
        let Some(arch) = Arch::from_name(name) else {
            let known = Arch::ALL.map(Arch::name).join(", ");
            bail!("target {name} is not supported; give one of {known} with --target");
        };
        Ok(arch)
    }

    /// The output from the command line, or a file beside the input.
    pub(crate) fn output(&self, input: &Path) -> Result<Output> {
        let extension = match self.emit {
            Kind::Clif => "clif",
            Kind::Asm => "s",
            Kind::Obj => "o",
            Kind::So => "so",
        };
        match &self.output {
            Some(path) if path.as_os_str() == "-" => Ok(Output::Stdout),
            Some(path) => Ok(Output::File(path.clone())),
            None if input.file_name().is_none() => {
                bail!(
                    "{} names no file; name a file, or give an output file with -o",
                    input.display()
                )
            }
            None => Ok(Output::File(input.with_extension(extension))),
        }
    }
}

/// Reads the name of an optimiser pass.
fn pass() -> impl TypedValueParser<Value = Pass> {
    let names = PossibleValuesParser::new(Pass::ALL.map(Pass::name));
    names.try_map(|name| {
        let mut passes = Pass::ALL.into_iter();
        let pass = passes.find(|pass| pass.name() == name);
        pass.ok_or_else(|| format!("no pass has the name {name:?}"))
    })
}

/// Parses `--cpu`: a level, with features added or removed.
fn cpu(arch: Arch, text: &str) -> Result<CpuFeatures> {
    let mut parts = text.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default();
    if name.starts_with(['+', '-']) {
        bail!("cpu {text:?} begins with a feature; begin with a level, as in baseline,{text}");
    }
    let mut set = match name {
        "native" => native(arch)?,
        name => level(arch, name)?,
    };
    for part in parts {
        let changed = match part.split_at_checked(1) {
            Some(("+", feature)) => set.with(feature),
            Some(("-", feature)) => set.without(feature),
            None => {
                bail!(
                    "cpu {text:?} has a comma without a feature; write +FEATURE after it, or \
                     remove it"
                )
            }
            _ => {
                bail!("cpu feature {part:?} starts with neither + nor -; write +{part} or -{part}")
            }
        };
        let Some(changed) = changed else {
            let known: Vec<_> = arch.features().iter().map(|feature| feature.name).collect();
            bail!(
                "cpu feature {part:?} is unknown for {arch}; use one of {}",
                known.join(", ")
            );
        };
        set = changed;
    }
    Ok(set)
}

fn level(arch: Arch, name: &str) -> Result<CpuFeatures> {
    let Some(set) = CpuFeatures::level(arch, name) else {
        let known: Vec<_> = arch.levels().iter().map(|level| level.name).collect();
        bail!(
            "cpu {name:?} is unknown for {arch}; use one of {}, native",
            known.join(", ")
        );
    };
    Ok(set)
}

/// The features of this machine.
fn native(arch: Arch) -> Result<CpuFeatures> {
    let machine = pirn_format::cpu::detect();
    if machine.arch() != arch {
        bail!(
            "cpu native is {}, the target is {arch}; name a level of {arch}",
            machine.arch()
        );
    }
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_parsed_and_mistakes_named() {
        let arch = Arch::X86_64;
        let v2 = CpuFeatures::level(arch, "x86-64-v2").unwrap();
        assert_eq!(cpu(arch, "baseline").unwrap(), v2);
        assert_eq!(cpu(arch, "x86-64-v2,+avx,-avx").unwrap(), v2);
        for (text, part) in [
            ("", "\"\" is unknown"),
            ("v9", "x86-64-v3"),
            ("baseline,avx", "write +avx"),
            ("baseline,+neon", "use one of sse3"),
            ("baseline,", "\"baseline,\" has a comma without a feature"),
            ("baseline,,+avx", "has a comma without"),
            ("+avx", "as in baseline,+avx"),
            ("-popcnt", "begin with a level"),
        ] {
            let error = cpu(arch, text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
        assert!(cpu(Arch::Aarch64, "baseline,+lse").is_ok());
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
