//! The code generator's settings for a target.

use crate::error::CompileError;
use crate::optimize::Isas;
use crate::options::{OptLevel, Options};
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use pirn_format::cpu::Arch;
use target_lexicon::Triple;

/// The code generator in the configurations of [`Isas`].
pub(crate) struct OwnedIsas {
    asked: OwnedTargetIsa,
    plain: OwnedTargetIsa,
}

impl OwnedIsas {
    /// The target that the options ask for. With `report_blocks` the code generator reports where
    /// blocks begin.
    ///
    /// # Errors
    ///
    /// As [`build`].
    pub(crate) fn build(options: &Options, report_blocks: bool) -> Result<Self, CompileError> {
        let mut plain = options.clone();
        plain.opt_level = OptLevel::None;
        Ok(Self {
            asked: build(options, report_blocks)?,
            plain: build(&plain, report_blocks)?,
        })
    }

    /// All configurations.
    pub(crate) fn all(&self) -> Isas<'_> {
        Isas {
            asked: &*self.asked,
            plain: &*self.plain,
        }
    }
}

/// The target that the options ask for. With `report_blocks` the code generator reports where
/// blocks begin, which does not change the code.
///
/// # Errors
///
/// [`CompileError::Options`] for a target or feature that this build has no code generator for, and
/// for a processor without a feature that generated code needs.
pub(crate) fn build(
    options: &Options,
    report_blocks: bool,
) -> Result<OwnedTargetIsa, CompileError> {
    let arch = options.cpu.arch();
    for needed in needed(arch) {
        if !options.cpu.has(needed) {
            return Err(CompileError::Options(format!(
                "cpu {} lacks {needed}, which code for v128 and for rounding needs; do not remove \
                 it",
                options.cpu.name()
            )));
        }
    }
    let triple: Triple = match arch {
        Arch::X86_64 => "x86_64-unknown-linux-gnu",
        Arch::Aarch64 => "aarch64-unknown-linux-gnu",
    }
    .parse()
    .map_err(|error| CompileError::Options(format!("target {arch}: {error}")))?;
    let mut builder = isa::lookup(triple)
        .map_err(|error| CompileError::Options(format!("target {arch}: {error}")))?;
    for feature in arch.features() {
        let Some(setting) = feature.setting else {
            continue;
        };
        let on = options.cpu.has(feature.name);
        builder.set(setting, truth(on)).map_err(|error| {
            CompileError::Options(format!("cpu feature {}: {error}", feature.name))
        })?;
    }
    if arch == Arch::Aarch64 {
        // A select alone may be predicted. A barrier after the select prevents that (Arm, "Cache
        // Speculation Side-channels", 3.1: CSDB).
        builder
            .set("use_csdb", truth(options.spectre))
            .map_err(|error| CompileError::Options(format!("setting use_csdb: {error}")))?;
    }
    builder
        .finish(flags(options, report_blocks)?)
        .map_err(|error| CompileError::Options(format!("target {arch}: {error}")))
}

/// The features that generated code needs. Without these features the code generator calls helper
/// functions that do not exist, for example for shuffles and `ceil`.
fn needed(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["ssse3", "sse4.1"],
        Arch::Aarch64 => &[],
    }
}

/// A boolean setting's value.
fn truth(on: bool) -> &'static str {
    if on { "true" } else { "false" }
}

fn flags(options: &Options, report_blocks: bool) -> Result<settings::Flags, CompileError> {
    let opt_level = match options.opt_level {
        OptLevel::None => "none",
        OptLevel::Speed => "speed",
        OptLevel::SpeedAndSize => "speed_and_size",
    };
    let probes_stack = true;
    #[cfg(feature = "faults")]
    let probes_stack =
        probes_stack && options.fault != Some(crate::faults::Fault::StackProbeDropped);
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", opt_level),
        // All code is in one text section: calls are relative, and there are no relocations.
        ("is_pic", "false"),
        ("use_colocated_libcalls", "true"),
        // A large frame touches the guard below the stack before any memory beyond it.
        ("enable_probestack", truth(probes_stack)),
        ("probestack_strategy", "inline"),
        // Backtraces follow frame pointers.
        ("preserve_frame_pointers", "true"),
        ("unwind_info", "true"),
        // Results that do not fit in registers are returned in the caller's memory.
        ("enable_multi_ret_implicit_sret", "true"),
        (
            "enable_heap_access_spectre_mitigation",
            truth(options.spectre),
        ),
        (
            "enable_table_access_spectre_mitigation",
            truth(options.spectre),
        ),
        // Cranelift would verify after each of its own passes. `optimize::Pipeline` calls the
        // verifier.
        ("enable_verifier", "false"),
        ("machine_code_cfg_info", truth(report_blocks)),
    ] {
        flags
            .set(name, value)
            .map_err(|error| CompileError::Options(format!("setting {name}: {error}")))?;
    }
    Ok(settings::Flags::new(flags))
}
