//! Measures engines in turn.

use crate::row::Run;
use std::time::{Duration, Instant};

/// Time of an engine's turn in one round.
const TURN: Duration = Duration::from_millis(20);

/// Number of operations before the measurement.
const WARM_UP: u64 = 20;

/// Median nanoseconds of an operation, for each engine.
pub fn measure(engines: &mut [&mut Run<'_>], rounds: usize) -> Vec<f64> {
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
