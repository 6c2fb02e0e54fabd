//! [`Timings`]: how long each phase took.

use std::time::{Duration, Instant};

/// How long each phase took, in their order.
#[derive(Debug, Default)]
pub(crate) struct Timings(Vec<(&'static str, Duration)>);

impl Timings {
    /// Runs a phase and notes its time.
    pub(crate) fn measure<T>(&mut self, phase: &'static str, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.0.push((phase, start.elapsed()));
        result
    }

    /// Prints a line a phase, in microseconds.
    pub(crate) fn print(&self) {
        for (phase, time) in &self.0 {
            eprintln!("{phase:<11} {:>12.1} us", time.as_secs_f64() * 1e6);
        }
    }
}
