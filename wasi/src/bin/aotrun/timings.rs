//! [`Timings`]: how long each phase took, and what it all used.

use pirn_runtime::Usage;
use std::time::{Duration, Instant};

/// How long each phase took, in their order, and what it all used.
#[derive(Debug, Default)]
pub(crate) struct Timings {
    phases: Vec<(&'static str, Duration)>,
    /// Fuel that was used, if it was counted.
    pub(crate) fuel: Option<u64>,
    /// What the guest used, if it was measured.
    pub(crate) usage: Option<Usage>,
}

impl Timings {
    /// Runs a phase and notes its time.
    pub(crate) fn measure<T>(&mut self, phase: &'static str, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.phases.push((phase, start.elapsed()));
        result
    }

    /// Prints a line a phase, in microseconds, and one for fuel.
    pub(crate) fn print(&self) {
        for (phase, time) in &self.phases {
            eprintln!("{phase:<11} {:>12.1} us", time.as_secs_f64() * 1e6);
        }
        if let Some(fuel) = self.fuel {
            eprintln!("{:<11} {fuel:>12}", "fuel");
        }
    }
}
