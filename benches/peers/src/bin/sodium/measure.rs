//! Samples: checks the results of programs, calibrates the number of passes, and measures each
//! engine.

use crate::engines::SodiumEngine;
use crate::guests::{Built, Guests};
use crate::set::{Kind, Program};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Picoseconds of a pass, one for each sample, by program and engine.
pub type Samples = BTreeMap<String, BTreeMap<String, Vec<f64>>>;

/// Programs with the engines under which their output is wrong.
pub type Wrong = BTreeSet<(String, String)>;

/// Compares the output of each program under each engine, including the native one, with the
/// expected output.
pub fn check(guests: &Guests, programs: &[Program], engines: &[SodiumEngine]) -> Result<Wrong> {
    let mut wrong = Wrong::new();
    let (mut right, mut runs) = (0, 0);
    for program in programs {
        let built = guests.program(program, Kind::Right, 0)?;
        let expected = std::fs::read(&program.expected)
            .with_context(|| program.expected.display().to_string())?;
        for engine in engines {
            if let Some(why) = engine.lacks(&built) {
                println!("missing: {} by {}: {why}", program.name, engine.name);
                continue;
            }
            runs += 1;
            let why = match engine.run(&built) {
                Ok(found) if found == expected => None,
                Ok(found) => Some(format!("prints {}", difference(&found, &expected))),
                Err(error) => Some(format!("{error:#}")),
            };
            match why {
                None => right += 1,
                Some(why) => {
                    println!("wrong: {} by {}: {why}", program.name, engine.name);
                    wrong.insert((program.name.clone(), engine.name.to_owned()));
                }
            }
        }
    }
    println!(
        "{right} of {runs} runs print what {}, and what the native program prints",
        guests.set().expects
    );
    Ok(wrong)
}

/// The first line that differs.
fn difference(found: &[u8], expected: &[u8]) -> String {
    let (found, expected) = (
        String::from_utf8_lossy(found),
        String::from_utf8_lossy(expected),
    );
    let (mut found, mut expected) = (found.lines(), expected.lines());
    for number in 1.. {
        let (a, b) = (found.next(), expected.next());
        if a != b {
            return format!("line {number} {a:?}, not {b:?}");
        }
        if a.is_none() {
            break;
        }
    }
    "other line ends".to_owned()
}

/// Number of passes for which the native program takes about the wanted time.
pub fn calibrate(
    guests: &Guests,
    native: &SodiumEngine,
    program: &Program,
    ms: u64,
) -> Result<u64> {
    let file = guests.out().join(format!("{}.{ms}ms", program.name));
    if let Ok(text) = std::fs::read_to_string(&file) {
        return text.trim().parse().context("a count");
    }
    let wanted_ps = ms as f64 * 1e9;
    let mut count = 1;
    let count = loop {
        let built = guests.native(program, Kind::Timed(count))?;
        // The clock may report 0 for a short pass. Use at least a picosecond.
        let pass_ps = sample(native, &built)?.max(1.);
        let took_ps = pass_ps * count as f64;
        if took_ps > wanted_ps / 8. || count >= COUNT_MAX {
            break ((wanted_ps / pass_ps) as u64).clamp(1, COUNT_MAX);
        }
        count *= 16;
    };
    std::fs::write(file, count.to_string())?;
    Ok(count)
}

/// Most passes. A program that computes nothing gets this number.
const COUNT_MAX: u64 = 10_000_000;

/// Runs a program once and returns the picoseconds of a pass.
fn sample(engine: &SodiumEngine, built: &Built) -> Result<f64> {
    let printed = engine.run(built)?;
    let printed = String::from_utf8_lossy(&printed);
    let ps: u64 = printed
        .trim()
        .parse()
        .with_context(|| format!("prints {:?}, no number", printed.trim()))?;
    Ok(ps as f64)
}

/// Measures in rounds. In each round, the engines run a program one after another, with its data at
/// the same one of the positions that it was built for. Each sample is written to a file at once.
/// An interpreter runs only in the first round.
pub fn measure(
    programs: &[(String, Vec<Built>)],
    engines: &[SodiumEngine],
    wrong: &Wrong,
    rounds: usize,
    notes: &Path,
) -> Result<Samples> {
    std::fs::write(notes, "")?;
    let mut samples = Samples::new();
    let mut failed = wrong.clone();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for (program, places) in programs {
            let built = &places[round % places.len()];
            for turn in 0..engines.len() {
                // Another engine goes first in each round.
                let engine = &engines[(turn + round) % engines.len()];
                let key = (program.clone(), engine.name.to_owned());
                if failed.contains(&key) || (round > 0 && engine.is_slow()) {
                    continue;
                }
                match sample(engine, built) {
                    Ok(ps) => {
                        note(notes, program, engine.name, ps)?;
                        let by = samples.entry(program.clone()).or_default();
                        by.entry(engine.name.to_owned()).or_default().push(ps);
                    }
                    Err(error) => {
                        println!("failed: {program} by {}: {error:#}", engine.name);
                        failed.insert(key);
                    }
                }
            }
        }
    }
    Ok(samples)
}

/// Appends a sample to the file of samples.
pub fn note(notes: &Path, program: &str, engine: &str, ps: f64) -> Result<()> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().append(true).open(notes)?;
    Ok(writeln!(file, "{program}\t{engine}\t{ps}")?)
}

/// Reads the samples of earlier runs.
pub fn read(notes: &Path) -> Result<Samples> {
    let text = std::fs::read_to_string(notes).with_context(|| notes.display().to_string())?;
    let mut samples = Samples::new();
    for line in text.lines() {
        let fields: Vec<_> = line.split('\t').collect();
        ensure!(fields.len() == 3, "{}: {line:?}", notes.display());
        let by = samples.entry(fields[0].to_owned()).or_default();
        let all = by.entry(fields[1].to_owned()).or_default();
        all.push(fields[2].parse().with_context(|| line.to_owned())?);
    }
    Ok(samples)
}
