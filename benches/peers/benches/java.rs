//! Criterion's report: a group for each program, with each engine.

use criterion::{Criterion, SamplingMode};
use pirn_peers::java::all::{self, ENGINES, FIRST_SLOW};
use pirn_peers::java::program::PROGRAMS;
use std::time::Duration;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(1500))
        .measurement_time(Duration::from_millis(1500))
        .configure_from_args();
    for program in PROGRAMS {
        let mut engines = all::open(&program).expect("the program runs on all engines");
        let mut group = criterion.benchmark_group(program.name);
        for (at, (engine, name)) in engines.iter_mut().zip(ENGINES).enumerate() {
            group.sample_size(if at < FIRST_SLOW { 50 } else { 10 });
            group.sampling_mode(SamplingMode::Flat);
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|count| engine.run(count).expect("it runs"));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
