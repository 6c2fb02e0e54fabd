//! Prints the table and draws the graph: medians of rounds in which the engines take turns.

#![forbid(unsafe_code)]

use anyhow::Result;
use pirn_peers::java::all::{self, ENGINES, FIRST_SLOW};
use pirn_peers::java::engine::JavaEngine;
use pirn_peers::java::graph;
use pirn_peers::java::program::PROGRAMS;
use std::path::Path;
use std::time::Duration;

/// Time of an engine's turn.
const TURN: Duration = Duration::from_millis(20);

/// Time before the measurement in which a virtual machine compiles what runs often.
const WARM_UP: Duration = Duration::from_millis(1500);

/// Rounds in which the engines with slow invocations run once.
const SLOW_ROUNDS: usize = 5;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds = args.next().and_then(|n| n.parse().ok()).unwrap_or(15);
    let svg = args.next().filter(|svg| svg != "-");
    let only = args.next();
    println!("medians of {rounds} rounds, one thread, microseconds an invocation");
    println!("GraalVM: not available, not measured");
    for (number, name) in (1..).zip(ENGINES) {
        println!("  {number}: {name}");
    }
    let numbers: String = (1..=ENGINES.len()).map(|n| format!("{n:>10}")).collect();
    println!("{:<14}{numbers}{:>8}{:>8}", "", "3/1", "1/4");
    let mut rows = vec![];
    let wanted = |name| only.as_deref().is_none_or(|only| only == name);
    for program in PROGRAMS.into_iter().filter(|p| wanted(p.name)) {
        let mut engines = all::open(&program)?;
        let us = measure(&mut engines, rounds)?;
        let times: String = us.iter().map(|us| format!("{us:>10.1}")).collect();
        let (name, faster, slower) = (program.name, us[2] / us[0], us[0] / us[3]);
        println!("{name:<14}{times}{faster:>8.2}{slower:>8.2}");
        rows.push((name, us, program));
    }
    let Some(svg) = svg else { return Ok(()) };
    let names: Vec<&str> = ENGINES
        .into_iter()
        .chain(["study: Wasmtime", "study: one VM for all"])
        .collect();
    let rows: Vec<(&str, Vec<f64>)> = rows
        .into_iter()
        .map(|(name, mut us, program)| {
            us.extend([program.study_wasmtime_us, program.study_jvm_us]);
            (name, us)
        })
        .collect();
    graph::draw(&rows, &names, Path::new(&svg))
}

/// Median microseconds of an invocation, for each engine.
fn measure(engines: &mut [Box<dyn JavaEngine>], rounds: usize) -> Result<Vec<f64>> {
    let (fast, slow) = engines.split_at_mut(FIRST_SLOW);
    let mut counts = vec![];
    for engine in fast.iter_mut() {
        counts.push(calibrate(engine.as_mut())?);
    }
    let mut samples = vec![vec![]; fast.len()];
    for _ in 0..rounds {
        for ((engine, count), samples) in fast.iter_mut().zip(&counts).zip(&mut samples) {
            samples.push(engine.run(*count)?.as_secs_f64() * 1e6 / *count as f64);
        }
    }
    let mut slow_samples = vec![vec![]; slow.len()];
    for _ in 0..SLOW_ROUNDS.min(rounds) {
        for (engine, samples) in slow.iter_mut().zip(&mut slow_samples) {
            samples.push(engine.run(1)?.as_secs_f64() * 1e6);
        }
    }
    samples.append(&mut slow_samples);
    Ok(samples.into_iter().map(median).collect())
}

/// Runs an engine until it is warm. Returns the number of invocations that fill a turn.
fn calibrate(engine: &mut dyn JavaEngine) -> Result<u64> {
    let (mut count, mut spent) = (1, Duration::ZERO);
    loop {
        let time = engine.run(count)?;
        spent += time;
        if spent > WARM_UP && time > TURN / 4 {
            let turns = TURN.as_secs_f64() / time.as_secs_f64();
            return Ok(((count as f64 * turns) as u64).max(1));
        }
        if time < TURN {
            count *= 2;
        }
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
