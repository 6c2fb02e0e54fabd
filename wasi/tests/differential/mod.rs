//! Preview 1 against wasi-common: random calls in turn on both, over two copies of one directory.
//! wasi-common is an independent implementation of the same interface.
//!
//! After each call, errno and results must be equal; at the end, the directories. [`DIFFERENCES`]
//! lists what differs, and why.

mod calls;
mod common;
mod differences;
mod machine;

use crate::preview1::driver::Guest;
use calls::{Call, Maker};
use common::Common;
use differences::DIFFERENCES;
use machine::{Answer, Side, hard_links};
use pirn_testing::campaign::share;
use pirn_testing::paths::{Tree, of_directory};
use pirn_wasi::{Dir, WasiCtxBuilder, ambient_authority};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Sequences of the whole campaign, and calls of each.
const SEQUENCES: u64 = 5_000;
const CALLS: usize = 60;
/// One sequence of so many runs by default.
const SAMPLE: usize = 25;

/// Failures that a run shrinks and prints.
const FAILURES_MAX: usize = 20;

/// The name of the directory.
const NAME: &str = "/inside";

/// Makes the directory with which a sequence begins.
fn make(folder: &Path) {
    let make = || {
        fs::create_dir_all(folder.join("d/deep"))?;
        fs::write(folder.join("a"), "hello, world")?;
        fs::write(folder.join("b"), "")?;
        fs::write(folder.join("d/a"), "inner")?;
        fs::create_dir(folder.join("e"))?;
        for (to, name) in [
            ("a", "to-a"),
            ("d", "to-d"),
            ("none", "to-none"),
            ("loop", "loop"),
            ("..", "up"),
            ("/", "root"),
        ] {
            symlink(to, folder.join(name))?;
        }
        std::io::Result::Ok(())
    };
    make().expect("room for a tree");
}

/// Two guests, each with a copy of the directory.
struct Pair {
    folder: tempfile::TempDir,
    common: Side<Common>,
    pirn: Side<Guest>,
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let [common, pirn] = ["common", "pirn"].map(|name| folder.path().join(name));
        for folder in [&common, &pirn] {
            fs::create_dir(folder).expect("room for a directory");
            make(folder);
        }
        let dir = Dir::open_ambient_dir(&pirn, ambient_authority()).expect("it is there");
        let wasi = WasiCtxBuilder::new().preopened_dir(dir, NAME);
        let guest = Guest::new(wasi.expect("a descriptor").build());
        Self {
            common: Side::new(Common::new(&common, NAME), &common),
            pirn: Side::new(guest, &pirn),
            folder,
        }
    }

    /// What both directories contain.
    fn trees(&self) -> [(Tree, Vec<Vec<String>>); 2] {
        ["common", "pirn"].map(|name| {
            let folder = self.folder.path().join(name);
            (of_directory(&folder), hard_links(&folder))
        })
    }

    /// Runs a call on both sides. Counts the row that describes a difference. Returns whether
    /// another call can follow, and the answer.
    fn run(&mut self, call: &Call, counts: &mut [u64]) -> Result<(bool, Answer), String> {
        let answers = [self.common.run(call), self.pirn.run(call)];
        let [common, pirn] = &answers;
        let row = match common == pirn {
            true => None,
            false => {
                let mut rows = DIFFERENCES.iter();
                let row = rows.position(|row| (row.covers)(call, common, pirn));
                let unknown = || format!("{call:?}: wasi-common {common:?}, but {pirn:?}");
                Some(row.ok_or_else(unknown)?)
            }
        };
        if let Some(row) = row {
            counts[row] += 1;
        }
        let ends = ends(call, row, &answers);
        let [_, pirn] = answers;
        Ok((!ends, pirn))
    }
}

/// Whether no call can follow: the guests have ended, or a difference leaves the two sides in
/// different states.
fn ends(call: &Call, row: Option<usize>, answers: &[Answer; 2]) -> bool {
    let [common, pirn] = answers;
    let both_fail = common.errno != Ok(0) && pirn.errno != Ok(0);
    pirn.errno.is_err() || row.is_some() && call.changes() && !both_fail
}

/// A count for each row.
fn no_counts() -> Vec<u64> {
    vec![0; DIFFERENCES.len()]
}

/// Runs calls on both sides until one differs or ends the guests. Counts the rows.
fn run(calls: &[Call], counts: &mut [u64]) -> Result<(), String> {
    let mut pair = Pair::new();
    for call in calls {
        if !pair.run(call, counts)?.0 {
            return Ok(());
        }
    }
    check_trees(&pair)
}

fn check_trees(pair: &Pair) -> Result<(), String> {
    let beside = pair.folder.path().read_dir().expect("a directory").count();
    assert_eq!(beside, 2, "a guest made a file outside of its directory");
    let [common, pirn] = pair.trees();
    match common == pirn {
        true => Ok(()),
        false => Err(format!("the directories: {common:?}, but {pirn:?}")),
    }
}

/// Makes and runs a sequence. Returns its calls, and how it failed.
fn sequence(seed: u64, counts: &mut [u64]) -> (Vec<Call>, Result<(), String>) {
    let (mut pair, mut maker, mut calls) = (Pair::new(), Maker::new(seed), vec![]);
    for _ in 0..CALLS {
        let call = maker.call();
        calls.push(call.clone());
        let (follows, answer) = match pair.run(&call, counts) {
            Ok(done) => done,
            Err(text) => return (calls, Err(text)),
        };
        if !follows {
            return (calls, Ok(()));
        }
        if answer.errno == Ok(0) {
            note(&mut maker, &call, &answer);
        }
    }
    (calls, check_trees(&pair))
}

/// Tells the maker of calls which descriptors are open.
fn note(maker: &mut Maker, call: &Call, answer: &Answer) {
    match call {
        Call::Open { slot, .. } => maker.opened(*slot, answer.text.contains("kind 3")),
        Call::Close(slot) => maker.closed(*slot),
        Call::Renumber(from, to) if from != to => maker.renumbered(*from, *to),
        _ => {}
    }
}

/// Leaves calls out of a sequence that fails, as long as it still fails.
fn shrink(mut calls: Vec<Call>) -> Vec<Call> {
    let counts = &mut no_counts();
    let mut at = calls.len();
    while at > 0 {
        at -= 1;
        let left_out = calls.remove(at);
        if run(&calls, counts).is_ok() {
            calls.insert(at, left_out);
        }
    }
    calls
}

#[test]
fn random_calls_have_the_answers_of_wasi_common() {
    let mut counts = no_counts();
    let (mut failures, mut text) = (0, String::new());
    for seed in 0..share(SEQUENCES, SAMPLE) {
        let (calls, result) = sequence(seed, &mut counts);
        let Err(first) = result else { continue };
        failures += 1;
        let calls = shrink(calls);
        let last = run(&calls, &mut no_counts()).err();
        let _ = writeln!(text, "seed {seed}: {}", last.unwrap_or(first));
        for call in calls {
            let _ = writeln!(text, "    {call:?}");
        }
        if failures == FAILURES_MAX {
            break;
        }
    }
    assert!(failures == 0, "{failures} sequences fail\n{text}");
    for (row, count) in DIFFERENCES.iter().zip(counts) {
        println!("{count} calls differ: {}", row.reason);
    }
}

#[test]
fn each_listed_difference_occurs() {
    for (index, row) in DIFFERENCES.iter().enumerate() {
        let mut counts = no_counts();
        let result = run(&(row.example)(), &mut counts);
        assert_eq!(result, Ok(()), "{}", row.reason);
        let reason = row.reason;
        assert!(
            counts[index] > 0,
            "no call differs by this reason: {reason}"
        );
    }
}
