//! The component model's own scripts, and those of two tools that were written with it. The runner
//! compiles each component for both targets and runs it on this one.
//!
//! Prints for each file how many directives passed, and how many use a feature that is refused by
//! name. Both numbers must be those of `counts.txt`. There is no list of expected failures.
//!
//! `cargo test -p pirn-component --test spec -- resources` runs the files whose names contain
//! `resources`.

mod bridge;
mod host;
mod reasons;
mod runner;
mod values;

use rayon::prelude::*;
use runner::Report;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The counts that a run must have.
const COUNTS: &str = include_str!("counts.txt");

fn main() -> ExitCode {
    // This program has no ignored tests, so `--ignored` runs nothing.
    if std::env::args().any(|arg| arg == "--ignored") {
        return ExitCode::SUCCESS;
    }
    pirn_testing::watch::main_thread();
    let mut filter = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let filter = filter.next().unwrap_or_default();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec/suite");
    let mut files = scripts(&suite);
    files.sort();
    let names: Vec<String> = files
        .iter()
        .map(|file| file.strip_prefix(&suite).expect("it is in the suite"))
        .map(|file| file.display().to_string())
        .collect();
    let all = files
        .iter()
        .zip(names)
        .filter(|(_, name)| name.contains(&filter));
    let (files, names): (Vec<_>, Vec<_>) = all.unzip();
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

/// All scripts in a folder and the folders within it.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).expect("the suite is there") {
        let path = entry.expect("it can be read").path();
        match path.is_dir() {
            true => found.extend(scripts(&path)),
            false if path.extension().is_some_and(|end| end == "wast") => found.push(path),
            false => {}
        }
    }
    found
}

/// Runs all files, on all processors.
fn run(files: &[&PathBuf], names: &[String]) -> Vec<Report> {
    let each = files.par_iter().zip(names).with_max_len(1);
    each.map(|(file, name)| {
        let text = std::fs::read_to_string(file).expect("a script is text");
        // The scripts of wasm-tools are for a validator.
        let links = !name.starts_with("wasm-tools/");
        runner::file(&text, links)
    })
    .collect()
}
