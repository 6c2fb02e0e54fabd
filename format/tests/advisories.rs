//! The ledger of others' security advisories, docs/internals/advisories.md: each row names a test
//! that exists, or says why the fault cannot occur here.
//!
//! A test is named by its path. `runtime::bulk::tables::a_test` is the test `bulk::tables::a_test`
//! of the test program `runtime`; `pirn_runtime::memory::shared::tests::a_test` is a unit test of
//! the crate `pirn-runtime`.

use super::tidy::{none, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

const PAGE: &str = "docs/internals/advisories.md";
/// First cell of the header of each table of the ledger.
const HEADER: &str = "| advisory |";
/// Fewest characters of a reason.
const REASON_CHARS_MIN: usize = 30;

/// The first words of the cell that says what holds here.
const VERDICTS: [&str; 3] = [
    // The part that had the fault does not exist here.
    "cannot: ",
    // The fault could occur here, and something keeps it out.
    "prevented: ",
    // pirn had the fault.
    "occurred: ",
];

/// Whether this is an identifier of a database of advisories.
fn is_identifier(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let digits = |part: &str, len: std::ops::RangeInclusive<usize>| {
        len.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    match parts[..] {
        ["GHSA", a, b, c] => [a, b, c].iter().all(|part| {
            let is_letter = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
            part.len() == 4 && part.bytes().all(is_letter)
        }),
        ["CVE", year, number] => digits(year, 4..=4) && digits(number, 4..=7),
        ["RUSTSEC", year, number] => digits(year, 4..=4) && digits(number, 4..=4),
        _ => false,
    }
}

/// The files in which a test may be, by its path, and its name.
fn places(path: &str) -> Option<(Vec<PathBuf>, &str)> {
    let parts: Vec<_> = path.split("::").collect();
    let (first, name) = (*parts.first()?, *parts.last()?);
    let modules = parts.get(1..parts.len() - 1)?;
    let folder = match first.strip_prefix("pirn_") {
        Some(krate) => root().join(krate.replace('_', "-")).join("src"),
        None => {
            let krate = match first {
                "fuzz-checks" => "testing/fuzz/checks",
                "faults" => "verify/faults",
                name => name,
            };
            root().join(krate).join("tests")
        }
    };
    let file = |modules: &[&str]| {
        modules
            .iter()
            .fold(folder.clone(), |path, name| path.join(name))
    };
    let mut files = vec![file(modules).with_extension("rs")];
    files.extend(["mod.rs", "main.rs"].map(|name| file(modules).join(name)));
    // Unit tests may be in the file that they test.
    if let Some((&"tests", outer)) = modules.split_last() {
        files.push(file(outer).with_extension("rs"));
        files.push(file(outer).join("mod.rs"));
    }
    Some((files, name))
}

/// Whether a text defines a test of this name that normal runs include.
fn defines(text: &str, name: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let start = format!("fn {name}(");
    let at = lines.iter().position(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.starts_with(&start)
    });
    let Some(at) = at else {
        return false;
    };
    let before = lines[..at].iter().rev();
    let attributes: Vec<_> = before
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .collect();
    let has = |start: &str| attributes.iter().any(|line| line.starts_with(start));
    (has("#[test]") || has("#[tokio::test")) && !has("#[ignore")
}

fn exists(path: &str) -> bool {
    let Some((files, name)) = places(path) else {
        return false;
    };
    let mut texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    texts.any(|text| defines(&text, name))
}

/// The texts in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What is wrong with a ledger.
fn problems(page: &str) -> Vec<String> {
    let (mut found, mut known, mut in_table) = (vec![], BTreeSet::new(), false);
    for line in page.lines() {
        if !line.starts_with('|') {
            in_table = false;
            continue;
        }
        in_table |= line.starts_with(HEADER);
        if !in_table || line.starts_with(HEADER) || line.starts_with("|---") {
            continue;
        }
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [advisory, kind, here, tests] = cells[..] else {
            found.push(format!("a row has {} cells, not 4: {line}", cells.len()));
            continue;
        };
        let identifiers: Vec<_> = advisory
            .split([' ', ','])
            .filter(|id| !id.is_empty())
            .collect();
        for id in &identifiers {
            if !is_identifier(id) {
                found.push(format!("{id} is no identifier"));
            } else if !known.insert((*id).to_owned()) {
                found.push(format!("{id} has two rows"));
            }
        }
        if identifiers.is_empty() || kind.is_empty() {
            found.push(format!("a row without an identifier or a kind: {line}"));
        }
        let Some(verdict) = VERDICTS.iter().find(|verdict| here.starts_with(**verdict)) else {
            found.push(format!("{advisory}: begin with one of {VERDICTS:?}"));
            continue;
        };
        if here.len() - verdict.len() < REASON_CHARS_MIN {
            found.push(format!("{advisory}: no reason"));
        }
        let named: Vec<_> = quoted(tests).collect();
        for test in &named {
            if !exists(test) {
                found.push(format!("{advisory}: no test {test}"));
            }
        }
        let needs_none = *verdict == VERDICTS[0] && tests == "none";
        if named.is_empty() && !needs_none {
            found.push(format!("{advisory}: name a test"));
        }
    }
    if known.is_empty() {
        found.push("no row".to_owned());
    }
    found
}

#[test]
fn each_advisory_has_a_test_or_a_reason() {
    let page = fs::read_to_string(root().join(PAGE)).expect(PAGE);
    none("rows of the ledger", &problems(&page));
}

#[test]
fn a_row_without_a_test_or_a_reason_is_found() {
    let ledger = |rows: &str| {
        let page =
            format!("# A\n\n| other |\n|---|\n| x |\n\n{HEADER} kind | here | tests |\n|---|\n");
        problems(&(page + rows))
    };
    let kind = "a sentence";
    let reason = "prevented: by something that is described here";
    let test = "`format::advisories::a_row_without_a_test_or_a_reason_is_found`";
    let good = format!("| GHSA-aaaa-2222-3333 CVE-2026-12345 | {kind} | {reason} | {test} |\n");
    assert_eq!(ledger(&good), Vec::<String>::new());
    let cannot = "cannot: nothing of that kind exists in this project";
    let id = "GHSA-aaaa-2222-3333";
    assert_eq!(
        ledger(&format!("| {id} | {kind} | {cannot} | none |")).len(),
        0
    );
    for bad in [
        String::new(),
        format!("{good}{good}"),
        format!("| {id} | {kind} | {reason} | none |"),
        format!("| {id} | {kind} | {reason} | |"),
        format!("| {id} | {kind} | {reason} |"),
        format!("| {id} | {kind} | {cannot} | |"),
        format!("| {id} | {kind} | cannot: no | none |"),
        format!("| {id} | {kind} | perhaps: this is a reason of enough words | {test} |"),
        format!("| {id} | {kind} | {reason} | `format::advisories::no_such_test` |"),
        format!("| {id} | {kind} | {reason} | `format::no_such_suite::a_test` |"),
        format!("| {id} | {kind} | {reason} | {test} `runtime::exhaustion::case` |"),
        format!("| {id} | {kind} | {reason} | `format::advisories::exists` |"),
        format!("| {id} | | {reason} | {test} |"),
        format!("| | {kind} | {reason} | {test} |"),
        format!("| GHSA-aaaa-2222 | {kind} | {reason} | {test} |"),
        format!("| CVE-26-1 | {kind} | {reason} | {test} |"),
        format!("| a page | {kind} | {reason} | {test} |"),
    ] {
        assert!(!ledger(&bad).is_empty(), "{bad}");
    }
}

#[test]
fn tests_of_every_kind_are_found() {
    for test in [
        "runtime::bulk::stopped::a_deadline_ends_a_builtin_in_the_middle",
        "runtime::snapshots::a_snapshot_keeps_the_code_of_its_module",
        "wasi2::hostile::a_path_cannot_name_another_host",
        "faults::each_fault_is_refused_for_its_property",
        "fuzz-checks::lifecycle::instances_find_their_initial_state",
        "pirn_runtime::memory::shared::tests::accesses_past_the_end_touch_nothing",
        "pirn_memory_files::contents::tests::a_sparse_file_costs_one_extent",
    ] {
        assert!(exists(test), "{test}");
    }
    for test in [
        "runtime",
        "runtime::",
        "",
        "pirn_runtime::lib",
        "nothing::tests::a",
    ] {
        assert!(!exists(test), "{test}");
    }
}
