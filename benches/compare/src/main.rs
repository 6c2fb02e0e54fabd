//! Runs pirn, Wasmtime and Wasmer on the same guests, in one process and in turn, and prints a
//! table with ratios.
//!
//! Each row is measured in rounds. In each round every engine has its turn, so that other load of
//! the machine affects all of them. The table shows the median of the rounds.
//!
//! `cargo run --release --manifest-path benches/compare/Cargo.toml [rounds [rows]]`, where `rows`
//! is a substring of the names of the wanted rows.

#![forbid(unsafe_code)]

mod best;
mod control;
mod ours;
mod peer;
mod wasmer;

use std::time::{Duration, Instant};

/// Executes a number of operations of one row on one engine.
type Run<'a> = Box<dyn FnMut(u64) + 'a>;

/// One row: its name, and the operation on each engine.
struct Row<'a> {
    name: String,
    ours: Run<'a>,
    best: Run<'a>,
    /// `None` if the row does not use Wasmtime's default pool.
    pool: Option<Run<'a>>,
    /// `None` if Wasmer does not have the operation.
    wasmer: Option<Run<'a>>,
}

/// Time of an engine's turn in one round.
const TURN: Duration = Duration::from_millis(20);

/// Number of operations before the measurement.
const WARM_UP: u64 = 20;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(21);
    let ours = ours::Engine::new();
    let best = peer::Engine::new(peer::Settings::Best);
    let pool = peer::Engine::new(peer::Settings::DefaultPool);
    let wasmer = wasmer::Engine::new();
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

/// Median nanoseconds of an operation, for each engine.
fn measure(engines: &mut [&mut Run<'_>], rounds: usize) -> Vec<f64> {
    let counts: Vec<_> = engines.iter_mut().map(|run| calibrate(run)).collect();
    let mut samples = vec![vec![]; engines.len()];
    for _ in 0..rounds {
        for (at, run) in engines.iter_mut().enumerate() {
            let start = Instant::now();
            run(counts[at]);
            samples[at].push(start.elapsed().as_secs_f64() * 1e9 / counts[at] as f64);
        }
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    samples.into_iter().map(median).collect()
}

/// Number of operations that fill a turn.
fn calibrate(run: &mut Run<'_>) -> u64 {
    // The first operations do additional work, such as the first access to pages. Exclude them.
    run(WARM_UP);
    let mut count = 1;
    loop {
        let start = Instant::now();
        run(count);
        let time = start.elapsed();
        if time > TURN / 4 {
            return ((count as f64 * TURN.as_secs_f64() / time.as_secs_f64()) as u64).max(1);
        }
        count *= 2;
    }
}

/// The measured operations.
#[derive(Debug, Clone, Copy)]
pub enum Phase {
    /// Instantiate, call a function that does nothing, tear down.
    CycleNull,
    /// The cycle of a guest that writes this many pages of 4 KiB.
    CyclePages(u32),
    /// The cycle of a guest with a dense image of 1 MiB, which writes four pages.
    CycleDense,
    /// The cycle of a guest that grows its memory by 1 MiB and writes 16 pages of it, as an
    /// allocating guest does.
    CycleGrow,
    /// The cycle of a C program that prints one line over WASI. The output is discarded.
    CycleHello,
    /// A call of an existing instance.
    Call,
    /// A call from the guest to the host and back.
    HostCall,
    /// A call that traps, by the name of its function.
    Trap(&'static str),
}

impl Phase {
    fn all() -> Vec<Self> {
        let mut all = vec![Self::CycleNull];
        all.extend([1, 8, 64, 1024].map(Self::CyclePages));
        all.extend([
            Self::CycleDense,
            Self::CycleGrow,
            Self::CycleHello,
            Self::Call,
            Self::HostCall,
        ]);
        all.extend(
            [
                "load_out_of_bounds",
                "unreachable",
                "divide_by_zero",
                "stack_overflow",
            ]
            .map(Self::Trap),
        );
        all
    }

    fn name(self) -> String {
        match self {
            Self::CycleNull => "cycle: null".to_owned(),
            Self::CyclePages(pages) => format!("cycle: writes {pages} pages"),
            Self::CycleGrow => "cycle: grows 1 MiB, writes 16 pages".to_owned(),
            Self::CycleHello => "cycle: C hello over WASI".to_owned(),
            Self::CycleDense => "cycle: 1 MiB image, writes 4 pages".to_owned(),
            Self::Call => "call and return, (i32, i32) -> i32".to_owned(),
            Self::HostCall => "guest to host and back".to_owned(),
            Self::Trap(name) => format!("trap: {}", name.replace('_', " ")),
        }
    }

    /// The argument of a guest function that writes a number of pages.
    fn pages(self) -> u32 {
        match self {
            Self::CyclePages(pages) => pages,
            Self::CycleGrow => 16,
            _ => 4,
        }
    }

    /// The guest in text or binary format, and the name of the function to call.
    fn guest(self) -> (Vec<u8>, &'static str) {
        let text = |text: &str| text.as_bytes().to_vec();
        match self {
            Self::CycleNull => (
                text(include_str!("../../../examples/guests/null.wat")),
                "run",
            ),
            Self::CyclePages(_) => (
                text(include_str!("../../../examples/guests/touch.wat")),
                "touch",
            ),
            Self::CycleDense => (dense().into_bytes(), "touch"),
            Self::CycleGrow => (text(GROW), "touch"),
            Self::CycleHello => (
                include_bytes!("../../../examples/guests/hello.wasm").to_vec(),
                "_start",
            ),
            Self::Call => (
                text(include_str!("../../../examples/guests/add.wat")),
                "add",
            ),
            Self::HostCall => (
                text(include_str!("../../../examples/guests/hostcalls.wat")),
                "calls",
            ),
            Self::Trap(name) => (
                text(include_str!("../../../examples/guests/traps.wat")),
                name,
            ),
        }
    }
}

/// `touch(pages)` writes to the pages by which it has grown the memory.
const GROW: &str = r#"(module (memory 1)
  (func (export "touch") (param $pages i32) (result i32)
    (local $at i32)
    (local.set $at (i32.shl (memory.grow (i32.const 16)) (i32.const 16)))
    (loop $again
      (i32.store8 (local.get $at) (i32.const 1))
      (local.set $at (i32.add (local.get $at) (i32.const 4096)))
      (br_if $again (local.tee $pages (i32.sub (local.get $pages) (i32.const 1)))))
    (local.get $at)))"#;

/// `touch(pages)` writes to an image of 1 MiB without a page of zeros.
fn dense() -> String {
    let data = "\\41".repeat(1 << 20);
    format!(
        r#"(module (memory 17) (data (i32.const 0) "{data}")
          (func (export "touch") (param $pages i32) (result i32)
            (local $page i32)
            (loop $again
              (i32.store8 (i32.mul (local.get $page) (i32.const 69632)) (local.get $page))
              (br_if $again (i32.lt_u
                (local.tee $page (i32.add (local.get $page) (i32.const 1)))
                (local.get $pages))))
            (local.get $page)))"#
    )
}
