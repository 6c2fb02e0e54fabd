//! Compiles random guests for both architectures and counts those that the verifier refuses. The
//! program runs for `PIRN_FUZZ_SECONDS` (default 60) and starts at the seed `PIRN_FUZZ_SEED`. It
//! prints each refusal with its seed on stderr, and at the end a line for each kind of settings. If
//! `PIRN_FUZZ_KEEP` names a folder, it writes the refused guests there.
//!
//! A refusal is no error: the verifier is sound, not complete. Guests that do not compile are left
//! out. The program fails if the verifier finds the file itself damaged, or if it cannot write to
//! the folder.

#![forbid(unsafe_code)]

use pirn_compiler::OptLevel;
use pirn_format::cpu::{Arch, CpuFeatures};
use pirn_fuzz_checks::campaign::{self, bytes};
use pirn_fuzz_checks::guest::Guest;
use pirn_fuzz_checks::setting::Setting;
use pirn_verify::VerifyError;
use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Guests that were proven, and those that were refused.
#[derive(Default)]
struct Count {
    proven: u64,
    refused: u64,
}

fn main() -> ExitCode {
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    let limit = Duration::from_secs(number(campaign::SECONDS).unwrap_or(60));
    let mut seed = number(campaign::SEED).unwrap_or(1);
    let folder = env::var_os(campaign::KEEP).map(PathBuf::from);
    let mut counts = BTreeMap::<String, Count>::new();
    let started = Instant::now();
    while counts.is_empty() || started.elapsed() < limit {
        if let Ok((guest, mut random)) = Guest::of(&bytes(seed)) {
            let setting = Setting::any(&mut random);
            for arch in [Arch::X86_64, Arch::Aarch64] {
                let mut options = setting.options();
                if arch != options.cpu.arch() {
                    options.cpu = CpuFeatures::level(arch, "baseline").expect("it exists");
                }
                let Ok(so) = pirn_compiler::compile(&guest.wasm, &options) else {
                    continue;
                };
                let level = match setting.level {
                    OptLevel::None => "unoptimised",
                    _ => "optimised",
                };
                let masks = if setting.spectre { "" } else { ", no masks" };
                let objects = if guest.uses.objects { ", objects" } else { "" };
                let kind = format!("{arch}, {level}{objects}{masks}");
                let count = counts.entry(kind.clone()).or_default();
                let Err(error) = pirn_verify::verify(&so) else {
                    count.proven += 1;
                    continue;
                };
                if !matches!(error, VerifyError::Refused(_)) {
                    eprintln!("seed {seed}: {kind}: {error}");
                    return ExitCode::FAILURE;
                }
                count.refused += 1;
                eprintln!("seed {seed}: {kind}: {error}");
                if let Some(folder) = &folder {
                    let path = folder.join(format!("{seed}.wasm"));
                    if let Err(error) = std::fs::write(&path, &guest.wasm) {
                        eprintln!("{}: {error}", path.display());
                        return ExitCode::FAILURE;
                    }
                }
            }
        }
        seed += 1;
    }
    for (kind, Count { proven, refused }) in counts {
        println!("{kind}: {proven} proven, {refused} refused");
    }
    ExitCode::SUCCESS
}
