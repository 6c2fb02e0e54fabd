//! Runs programs with threads natively, with pirn and with Wasmtime, side by side.
//!
//! ```text
//! cargo build --release --bin aotrun
//! cargo run --release --manifest-path benches/threads/Cargo.toml -- target/release/aotrun 5
//! ```
//!
//! The arguments are the path of `aotrun`, the number of rounds, and the file to draw. The programs
//! measure themselves, so starting and compiling them does not count. Each figure is the median of
//! the rounds; in each round, all programs run once, in turn.

#![forbid(unsafe_code)]

mod programs;
mod peer;
mod graph;

use anyhow::{Context, Result, anyhow, bail};
use programs::{Allocator, Programs, Row, THREADS, Task, World};
use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [first, program, arguments @ ..] = &words[..]
        && first == "wasmtime"
    {
        return peer::run(program.as_ref(), arguments).map_err(|error| anyhow!("{error:?}"));
    }
    let [aotrun, rest @ ..] = &words[..] else {
        bail!("no arguments; give the path of aotrun, the rounds and the file to draw");
    };
    let rounds = rest.first().map_or("5", String::as_str);
    let rounds: usize = rounds
        .parse()
        .with_context(|| format!("rounds {rounds:?}"))?;
    let programs = Programs::build(PathBuf::from(aotrun))?;
    let mut measured: BTreeMap<(Row, u32), Vec<f64>> = BTreeMap::new();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for row in rows() {
            let threads = if row.0.is_latency() {
                &THREADS[..1]
            } else {
                &THREADS
            };
            for &threads in threads {
                let took = programs.measure(row, threads)?;
                measured.entry((row, threads)).or_default().push(took);
            }
        }
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let medians = measured
        .into_iter()
        .map(|(key, values)| (key, median(values)))
        .collect();
    print(&medians);
    if let Some(file) = rest.get(1) {
        graph::draw(file.as_ref(), &medians)?;
    }
    Ok(())
}

/// All rows, in the order in which they run.
fn rows() -> Vec<Row> {
    let mut rows = vec![];
    for task in Task::ALL {
        for allocator in task.allocators() {
            for world in World::ALL {
                if (allocator, world) != (&Allocator::System, World::Native)
                    && *allocator == Allocator::System
                    && task == Task::Allocate
                {
                    // A guest's allocator is that of its C library, dlmalloc.
                    continue;
                }
                rows.push((task, *allocator, world));
            }
        }
    }
    rows
}

/// Prints a table in Markdown.
fn print(medians: &BTreeMap<(Row, u32), f64>) {
    println!("| program | allocator | run by | 1 thread | 2 | 4 | 8 | two threads / one |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows().into_iter().filter(|row| !row.0.is_latency()) {
        let took = |threads| medians[&(row, threads)];
        let cells = THREADS
            .map(|threads| format!("{:.1} ms", took(threads) * 1e3))
            .join(" | ");
        let (task, allocator, world) = row;
        println!(
            "| {task} | {allocator} | {world} | {cells} | {:.2} |",
            took(2) / took(1)
        );
    }
    println!("\n| from | to | run by | median |\n|---|---|---|---|");
    for row in rows().into_iter().filter(|row| row.0.is_latency()) {
        println!(
            "| {} | {} | {:.1} us |",
            row.0,
            row.2,
            medians[&(row, 1)] / 1e3
        );
    }
}
