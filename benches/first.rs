//! The one-time costs of a process: its first region, which installs the signal handlers and probes
//! the resets; its first instance; and the first call of that instance. Each sample is a process of
//! its own.

use criterion::{Criterion, criterion_group};
use pirn_benches::{compiled, file};
use pirn_runtime::{Linker, Module, Region};
use std::process::Command;
use std::time::{Duration, Instant};

/// Environment variable for the measured process: the phase to measure.
const PHASE: &str = "PIRN_BENCH_FIRST";
const MODULE: &str = "PIRN_BENCH_MODULE";

/// In the measured process: runs all phases, and prints the time of the wanted one in nanoseconds.
fn child(wanted: &str, module: &str) {
    let mut done: Vec<(&str, Duration)> = vec![];
    let mut start = Instant::now();
    let mut lap = |phase| {
        done.push((phase, start.elapsed()));
        start = Instant::now();
    };
    let module = Module::open(module).expect("it opens");
    lap("open");
    let region = Region::builder().slots(16).build().expect("a region");
    lap("region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let touch = prepared.func::<u32, u32>("touch").expect("it is exported");
    lap("prepare");
    let mut instance = prepared.instantiate(()).expect("a slot");
    lap("instance");
    instance.call(&touch, 4).expect("it returns");
    lap("call that writes 4 pages");
    drop(instance);
    lap("drop");
    let (_, time) = done
        .iter()
        .find(|(phase, _)| *phase == wanted)
        .expect("a phase");
    println!("{}", time.as_nanos());
}

fn first(c: &mut Criterion) {
    let module = file(&compiled("touch.wat"));
    let mut group = c.benchmark_group("first of a process");
    group.sample_size(20);
    for phase in [
        "open",
        "region",
        "prepare",
        "instance",
        "call that writes 4 pages",
        "drop",
    ] {
        let run = || {
            let program = std::env::current_exe().expect("this program");
            let mut command = Command::new(program);
            command.env(PHASE, phase).env(MODULE, &*module);
            let output = command.output().expect("it starts").stdout;
            let nanoseconds = String::from_utf8_lossy(&output).trim().parse();
            Duration::from_nanos(nanoseconds.expect("it prints a number"))
        };
        group.bench_function(phase, |b| {
            b.iter_custom(|count| (0..count).map(|_| run()).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, first);

fn main() {
    match (std::env::var(PHASE), std::env::var(MODULE)) {
        (Ok(phase), Ok(module)) => child(&phase, &module),
        _ => {
            benches();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}
