//! Runs one program on one engine for a profiler: `java-profile PROGRAM ENGINE COUNT`, where ENGINE
//! is a number of the table, from 1.

use anyhow::{Context as _, Result};
use pirn_peers::java::all::{self, ENGINES};
use pirn_peers::java::program::PROGRAMS;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let name = args.next().context("a program")?;
    let number: usize = args.next().context("an engine")?.parse()?;
    let count = args.next().context("a count")?.parse()?;
    let program = PROGRAMS.into_iter().find(|program| program.name == name);
    let mut engines = all::open(&program.context("no such program")?)?;
    let engine = engines.get_mut(number - 1).context("no such engine")?;
    for _ in 0..5 {
        let time = engine.run(count)?;
        let us = time.as_secs_f64() * 1e6 / count as f64;
        println!("{name} on {}: {us:.2} us", ENGINES[number - 1]);
    }
    Ok(())
}
