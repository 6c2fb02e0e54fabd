//! Compile times of pirn and of Wasmtime, each module in a new process, on one processor.

use crate::guests::Built;
use crate::measure::{self, Samples};
use crate::tool::said;
use anyhow::{Context, Result, bail, ensure};
use pirn_compiler::{OptLevel, Options};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The compilers, as they are named among the samples: pirn with its defaults, without
/// optimisation, and Wasmtime with its defaults.
const NAMES: [&str; 3] = ["compile-pirn", "compile-pirn-none", "compile-wasmtime"];

/// Samples of each compiler and program.
const ROUNDS: usize = 5;

/// Compiles a module that is in memory once, and prints picoseconds.
pub fn run(name: &str, file: &Path) -> Result<()> {
    let wasm = std::fs::read(file).with_context(|| file.display().to_string())?;
    let mut options = Options::default();
    if name == NAMES[1] {
        options.opt_level = OptLevel::None;
    }
    let engine = wasmtime::Engine::default();
    let start = Instant::now();
    let bytes = match name {
        "compile-pirn" | "compile-pirn-none" => {
            pirn_compiler::compile(&wasm, &options).map(|so| so.len())?
        }
        "compile-wasmtime" => engine.precompile_module(&wasm)?.len(),
        _ => bail!("there is no {name:?}"),
    };
    let ps = start.elapsed().as_nanos() * 1000;
    ensure!(bytes > 0, "{name}: an empty file");
    println!("{ps}");
    Ok(())
}

/// Measures all programs. The compilers take turns. Samples are noted as those of engines are.
pub fn measure(programs: &[(String, Vec<Built>)], notes: &Path) -> Result<Samples> {
    let mut samples = Samples::new();
    for round in 0..ROUNDS {
        for (program, places) in programs {
            let built = &places[0];
            for turn in 0..NAMES.len() {
                let name = NAMES[(turn + round) % NAMES.len()];
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["compile", name]).arg(&built.wasm);
                let ps = said(&mut command)?.trim().parse()?;
                measure::note(notes, program, name, ps)?;
                let by = samples.entry(program.clone()).or_default();
                by.entry(name.to_owned()).or_default().push(ps);
            }
        }
    }
    Ok(samples)
}

/// The table as Markdown, if there are samples: milliseconds, and ratios to Wasmtime's time.
pub fn text(samples: &Samples) -> Option<String> {
    let median = |all: &Vec<f64>| {
        let mut all = all.clone();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2] / 1e9
    };
    let row = |(program, by): (&String, &std::collections::BTreeMap<String, Vec<f64>>)| {
        let [pirn, none, wasmtime] = NAMES.map(|name| by.get(name).map(median));
        Some((program.clone(), [pirn?, none?, wasmtime?]))
    };
    let rows: Vec<_> = samples.iter().filter_map(row).collect();
    let mean = |at: usize| {
        let logs = rows.iter().map(|(_, ms)| (ms[at] / ms[2]).ln());
        (logs.sum::<f64>() / rows.len() as f64).exp()
    };
    let worst = |at: usize| {
        let ratios = rows.iter().map(|(_, ms)| ms[at] / ms[2]);
        ratios.fold(0., f64::max)
    };
    if rows.is_empty() {
        return None;
    }
    let mut text =
        "\n| compiled | pirn, ms | pirn without optimisation, ms | Wasmtime, ms | pirn / \
                    Wasmtime | without optimisation / Wasmtime |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (program, [pirn, none, wasmtime]) in &rows {
        let (a, b) = (pirn / wasmtime, none / wasmtime);
        let _ = writeln!(
            text,
            "| {program} | {pirn:.1} | {none:.1} | {wasmtime:.1} | {a:.2} | {b:.2} |"
        );
    }
    let _ = writeln!(
        text,
        "| geometric mean; worst | | | | {:.2}; {:.2} | {:.2}; {:.2} |",
        mean(0),
        worst(0),
        mean(1),
        worst(1)
    );
    Some(text)
}
