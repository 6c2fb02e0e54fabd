//! Runs pirn, Wasmtime and Wasmer on the same guests, in one process and in turn, and prints a
//! table with ratios.
//!
//! Each row is measured in rounds. In each round every engine has its turn, so that other load of
//! the machine affects all of them. The table shows the median of the rounds.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml --bin compare [rounds [rows]]`,
//! where `rows` is a substring of the names of the wanted rows.

#![forbid(unsafe_code)]

mod phase;
mod ours;
mod peer;
mod wasmer;
mod control;

use phase::Phase;
use pirn_peers::row::Row;
use pirn_peers::turns::measure;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(21);
    let ours = ours::PirnPhases::new();
    let best = peer::WasmtimePhases::new(peer::Settings::Best);
    let pool = peer::WasmtimePhases::new(peer::Settings::DefaultPool);
    let wasmer = wasmer::WasmerPhases::new();
    let mut rows = vec![];
    let only = std::env::args().nth(2).unwrap_or_default();
    for phase in Phase::all() {
        if !phase.name().contains(&only) {
            continue;
        }
        rows.push(Row {
            name: phase.name(),
            ours: ours.run(phase),
            best: best.run(phase),
            pool: Some(pool.run(phase)),
            wasmer: wasmer.run(phase),
        });
    }
    let control = control::rows().into_iter();
    rows.extend(control.filter(|row| row.name.contains(&only)));
    println!("medians of {rounds} rounds, one thread, nanoseconds");
    println!(
        "{:<34} {:>12} {:>16} {:>16} {:>16} {:>7}",
        "", "pirn", "wasmtime best", "wasmtime pool", "wasmer", "ratio"
    );
    for row in &mut rows {
        let mut engines = vec![&mut row.ours, &mut row.best];
        engines.extend(row.pool.iter_mut().chain(&mut row.wasmer));
        let medians = measure(&mut engines, rounds);
        let column = |at: usize| match medians.get(at) {
            Some(median) => format!("{median:.1}"),
            None => "-".to_owned(),
        };
        println!(
            "{:<34} {:>12} {:>16} {:>16} {:>16} {:>7.2}",
            row.name,
            column(0),
            column(1),
            column(2),
            column(3),
            medians[1] / medians[0]
        );
    }
}
