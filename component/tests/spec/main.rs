//! The component model's own scripts, and those of two tools that were written with it. The runner
//! compiles each component for both targets and runs it on this one.
//!
//! The scripts are read from the crates that `suites/Cargo.lock` pins. If cargo cannot download a
//! crate, the test runs nothing and says so.
//!
//! Prints for each file how many directives passed, and how many use a feature that is refused by
//! name. Both numbers must be those of `counts.txt`. There is no list of expected failures.
//!
//! `cargo test -p pirn-component-tests --test spec -- resources` runs the files whose names contain
//! `resources`.

mod bridge;
mod host;
mod reasons;
mod runner;
mod sources;
mod syntax;
mod values;

use rayon::prelude::*;
use runner::Report;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// The counts that a run must have.
const COUNTS: &str = include_str!("counts.txt");

/// The folders of scripts: the name here, the crate, and the folder or file in the crate.
const FOLDERS: [(&str, &str, &str); 5] = [
    (
        "component-model",
        "wasm-tools",
        "tests/component-model/test",
    ),
    ("wasm-tools", "wasm-tools", "tests/cli/component-model"),
    (
        "wasmtime",
        "wasmtime-cli",
        "tests/misc_testsuite/component-model",
    ),
    (
        "wasmtime/threading",
        "wasmtime-cli",
        "tests/misc_testsuite/component-model-threading",
    ),
    (
        "wasmtime/fused.wast",
        "wasmtime-cli",
        "tests/component-model/test/wasmtime/fused.wast",
    ),
];

fn main() -> ExitCode {
    // This program has no ignored tests, so `--ignored` runs nothing.
    if std::env::args().any(|arg| arg == "--ignored") {
        return ExitCode::SUCCESS;
    }
    pirn_testing::watch::main_thread();
    let mut filter = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let filter = filter.next().unwrap_or_default();
    let files = match scripts() {
        Ok(files) => files,
        Err(why) => {
            eprintln!("NOT RUN: scripts of the component model: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let files = files.into_iter();
    let (names, files): (Vec<String>, Vec<PathBuf>) =
        files.filter(|(name, _)| name.contains(&filter)).unzip();
    let reports = run(&files, &names);
    let mut table = String::new();
    let mut sum = Report::default();
    for (name, report) in names.iter().zip(&reports) {
        table.push_str(&row(name, report));
        sum.add(report);
    }
    table.push_str(&row(&format!("{} files", files.len()), &sum));
    print!("{table}");
    for (name, report) in names.iter().zip(&reports) {
        for failure in &report.failures {
            println!("{name}: {failure}");
        }
    }
    let differs = filter.is_empty() && table != COUNTS;
    if differs {
        println!("the table differs from component/tests/spec/counts.txt");
    }
    // A filter or a suite without matching files proves nothing, so it fails.
    ExitCode::from(u8::from(
        differs || !sum.failures.is_empty() || sum.passed == 0,
    ))
}

/// The lines of a file: directives that passed, refused ones, and why these are.
fn row(name: &str, report: &Report) -> String {
    let refused: usize = report.refused.values().sum();
    let mut row = format!("{name:<60} {:>6} {refused:>6}\n", report.passed);
    for (feature, count) in &report.refused {
        writeln!(row, "    {count:>4} {feature}").expect("a string has room");
    }
    row
}

/// All scripts by their names here, or why they cannot be had.
fn scripts() -> Result<BTreeMap<String, PathBuf>, String> {
    let mut found = BTreeMap::new();
    for (name, package, path) in FOLDERS {
        add_scripts(name, sources::of(package)?.join(path), &mut found);
    }
    Ok(found)
}

/// Adds a script, or all scripts in a folder and the folders within it.
fn add_scripts(name: &str, path: PathBuf, found: &mut BTreeMap<String, PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("the folder can be read") {
            let entry = entry.expect("it can be read");
            let file = entry.file_name();
            let name = format!("{name}/{}", file.to_str().expect("names are text"));
            add_scripts(&name, entry.path(), found);
        }
    } else if name.ends_with(".wast") {
        found.insert(name.to_owned(), path);
    }
}

/// Runs all files, on all processors.
fn run(files: &[PathBuf], names: &[String]) -> Vec<Report> {
    let each = files.par_iter().zip(names).with_max_len(1);
    each.map(|(file, name)| {
        let mut text = std::fs::read_to_string(file).expect("a script is text");
        if name.starts_with("wasmtime/") {
            text = syntax::newer(&text);
        }
        // The scripts of wasm-tools are for a validator.
        let links = !name.starts_with("wasm-tools/");
        runner::file(&text, links)
    })
    .collect()
}
