//! The machine code of common shapes of guests, for both targets, beside the sources in
//! `shapes/*.wat`. A change of the generated code is a change of these files, which a reviewer
//! reads.
//!
//! `PIRN_BLESS=1 cargo test --test compiler shapes::` writes the files whose code has changed. With
//! llvm-mca (package `llvm` of Debian) functions without calls get an estimate: the cycles of one
//! pass, of a hundred passes that follow each other, over all instructions in their order. Every
//! branch falls through, so an estimate can be compared only with an older one of the same
//! function.

use crate::common;

use pirn_compiler::Options;
use pirn_format::cpu::Arch;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The model of a processor for llvm-mca, and the start of a comment in assembly.
fn conventions(arch: Arch) -> (&'static str, &'static str) {
    match arch {
        Arch::X86_64 => ("znver3", "#"),
        Arch::Aarch64 => ("neoverse-n1", "//"),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapes")
}

/// The names of all shapes.
fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder()).expect("the folder is there");
    let paths = files.map(|file| file.expect("the folder can be read").path());
    let sources = paths.filter(|path| path.extension().is_some_and(|end| end == "wat"));
    let name = |path: PathBuf| path.file_stem()?.to_str().map(str::to_owned);
    let mut names: Vec<_> = sources.filter_map(name).collect();
    names.sort();
    names
}

/// Splits an instruction at its first address: a hexadecimal number that is neither an immediate
/// nor a displacement.
fn address(instruction: &str) -> Option<(&str, u64, &str)> {
    let marks = instruction.match_indices("0x").map(|(at, _)| at);
    for at in marks {
        let (before, rest) = instruction.split_at(at);
        let digits = rest[2..].find(|c: char| !c.is_ascii_hexdigit());
        let (number, after) = rest.split_at(digits.map_or(rest.len(), |digits| digits + 2));
        if before.ends_with([' ', ',']) && !after.starts_with('(') {
            let number = u64::from_str_radix(&number[2..], 16).expect("these are digits");
            return Some((before, number, after));
        }
    }
    None
}

/// Splits `.long TARGET-TABLE`, the entry of a jump table, into its two addresses.
fn entry(instruction: &str) -> Option<[u64; 2]> {
    let (target, table) = instruction.strip_prefix(".long ")?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some([number(target)?, number(table)?])
}

/// The name of a function or trampoline of a listing.
fn name(piece: &str) -> &str {
    let head = piece.lines().next().unwrap_or_default();
    let name = head.trim_start_matches(";; ").split(':').next();
    name.unwrap_or_default()
}

/// A function or trampoline of a listing as assembly: with labels, and without offsets. The labels
/// have numbers from `label` on.
fn assembly(piece: &str, comment: &str, label: &mut usize) -> String {
    let lines = piece.lines().skip(1);
    let mut out = String::new();
    let lines: Vec<_> = lines
        .map(|line| {
            let (offset, text) = line.split_once(": ").expect("a line has an offset");
            let (instruction, note) = text.split_once(";;").unwrap_or((text, ""));
            let at = u64::from_str_radix(offset.trim(), 16).expect("offsets are hexadecimal");
            let target = note.split_once("-> ").map(|(_, target)| target);
            (at, instruction.trim(), target)
        })
        .collect();
    let starts: BTreeSet<u64> = lines.iter().map(|(at, ..)| *at).collect();
    let is_table = |target: Option<&str>| target.is_some_and(|it| it.starts_with("table "));
    let in_text = lines.iter().filter(|(.., target)| !is_table(*target));
    let targets = in_text.flat_map(|(_, instruction, _)| {
        let named = address(instruction).map(|(_, target, _)| target);
        named
            .into_iter()
            .chain(entry(instruction).into_iter().flatten())
    });
    let targets: BTreeSet<u64> = targets.filter(|target| starts.contains(target)).collect();
    let labels: BTreeMap<u64, usize> = targets.into_iter().zip(*label..).collect();
    *label += labels.len();
    let label = |target| match labels.get(&target) {
        Some(number) => format!("L{number}"),
        None => "outside".to_owned(),
    };
    // The place of a dispatch table depends on the code before it.
    let in_table = |instruction: &str| {
        let instruction = match instruction.split_once("#0x") {
            Some((before, _)) => format!("{before}:lo12:outside"),
            None => instruction.to_owned(),
        };
        match address(&instruction) {
            Some((before, _, after)) => format!("{before}outside{after}"),
            None => instruction,
        }
    };
    for (at, instruction, target) in lines {
        if let Some(number) = labels.get(&at) {
            let _ = writeln!(out, "L{number}:");
        }
        let text = match (entry(instruction), address(instruction)) {
            _ if is_table(target) => in_table(instruction),
            (Some([target, table]), _) => format!(".long {}-{}", label(target), label(table)),
            (_, Some((before, target, after))) => format!("{before}{}{after}", label(target)),
            _ => instruction.to_owned(),
        };
        let _ = match target {
            Some(target) => writeln!(out, "    {text:40} {comment} {target}"),
            None => writeln!(out, "    {text}"),
        };
    }
    out
}

/// The functions of a shape as assembly, each with its name. Of a shape `trampolines-...`, its
/// trampolines.
fn shape(shape: &str, arch: Arch) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder().join(format!("{shape}.wat")));
    let text = text.expect("the source can be read");
    let listing = common::listing(&text, &Options::new(arch));
    let is_wanted = |piece: &&str| match shape.starts_with("trampolines-") {
        true => name(piece).starts_with("trampoline"),
        false => name(piece).starts_with(|c: char| c.is_ascii_digit()),
    };
    let (_, comment) = conventions(arch);
    let mut label = 1;
    let pieces = listing.split("\n\n").filter(is_wanted);
    let pieces: Vec<_> = pieces
        .map(|piece| (name(piece).to_owned(), assembly(piece, comment, &mut label)))
        .collect();
    assert!(!pieces.is_empty(), "{shape}: {listing}");
    pieces
}

/// The estimate of llvm-mca for a function, without the calls of its trap stubs. `None` if there is
/// no llvm-mca, if llvm-mca cannot read an instruction, and for code with calls, whose time is not
/// known.
fn estimate(arch: Arch, code: &str) -> Option<String> {
    let (processor, comment) = conventions(arch);
    let source = tempfile::NamedTempFile::new().expect("a temporary file");
    let is_for_traps = |line: &&str| {
        let mnemonic = line.split_whitespace().next();
        line.contains("stub of trap") || matches!(mnemonic, Some("ud2" | "udf"))
    };
    let timed: Vec<_> = code.lines().filter(|line| !is_for_traps(line)).collect();
    std::fs::write(source.path(), timed.join("\n")).expect("the file can be written");
    let found = Command::new("llvm-mca")
        .arg(format!("--mtriple={arch}-unknown-linux-gnu"))
        .arg(format!("--mcpu={processor}"))
        .args(["--iterations=100", "--instruction-info=false"])
        .args(["--resource-pressure=false"])
        .arg(source.path())
        .output();
    let found = found.ok()?;
    let said = String::from_utf8_lossy(&found.stdout);
    let problems = String::from_utf8_lossy(&found.stderr);
    let is_known = !problems.contains("found a call") && !problems.contains("error:");
    let figure = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().parse::<f64>().ok()? / 100.0)
    };
    let (instructions, cycles) = (figure("Instructions:")?, figure("Total Cycles:")?);
    is_known.then(|| {
        format!(
            "{comment} {instructions} instructions, {cycles:.1} cycles (llvm-mca, {processor})\n"
        )
    })
}

/// The file of a shape, with estimates or without.
fn file(functions: &[(String, String)], arch: Arch, with_estimates: bool) -> String {
    let (_, comment) = conventions(arch);
    let text = functions.iter().map(|(name, code)| {
        let estimate = with_estimates.then(|| estimate(arch, code)).flatten();
        format!("{comment} {name}\n{}{code}", estimate.unwrap_or_default())
    });
    text.collect::<Vec<_>>().join("\n")
}

/// The numbered lines of a file without the estimates, which depend on the version of llvm-mca.
fn numbered(file: &str) -> Vec<(usize, &str)> {
    let lines = (1..).zip(file.lines());
    let code = lines.filter(|(_, line)| !line.contains("(llvm-mca, "));
    code.collect()
}

#[test]
fn the_code_of_common_shapes_is_as_committed() {
    let mut changed = vec![];
    let mut files = BTreeSet::new();
    for name in names() {
        for arch in Arch::ALL {
            let path = folder().join(format!("{name}.{arch}.s"));
            let functions = shape(&name, arch);
            let code = file(&functions, arch, false);
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            let (old, new) = (numbered(&committed), numbered(&code));
            let lines = |file: &[(usize, &str)]| -> Vec<String> {
                file.iter().map(|(_, line)| (*line).to_owned()).collect()
            };
            if lines(&old) != lines(&new) && std::env::var_os("PIRN_BLESS").is_some() {
                let code = file(&functions, arch, true);
                std::fs::write(&path, code).expect("the file can be written");
            } else if lines(&old) != lines(&new) {
                let first = (0..).find(|at| lines(&old).get(*at) != lines(&new).get(*at));
                let first = first.expect("a line differs");
                let (number, old) = old.get(first).copied().unwrap_or((old.len(), "nothing"));
                let new = new.get(first).map_or("nothing", |(_, line)| *line);
                let path = path.display();
                changed.push(format!(
                    "{path}:{number}: {old:?} is committed, not {new:?}"
                ));
            }
            files.insert(path);
        }
    }
    let there = std::fs::read_dir(folder()).expect("the folder is there");
    let there = there.map(|file| file.expect("the folder can be read").path());
    let is_code = |path: &PathBuf| path.extension().is_some_and(|end| end == "s");
    let there: BTreeSet<_> = there.filter(is_code).collect();
    assert_eq!(there, files, "each shape has a file for each target");
    assert!(
        changed.is_empty(),
        "{}\nif these changes are intended, run `PIRN_BLESS=1 cargo test --test compiler shapes::` \
         and read the diff",
        changed.join("\n")
    );
}
