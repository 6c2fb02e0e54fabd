//! [`Timings`]: the time that each phase took, and the resources that the run used.

use pirn_runtime::Usage;
use std::time::{Duration, Instant};

/// The time of each phase in order, and the resources that the run used.
#[derive(Debug, Default)]
pub(crate) struct Timings {
    phases: Vec<(&'static str, Duration)>,
    /// Fuel that the guest used, if the code counts fuel.
    pub(crate) fuel: Option<u64>,
    /// Resources that the guest used, if the run was measured.
    pub(crate) usage: Option<Usage>,
}

impl Timings {
    /// Runs a phase and records its time.
    pub(crate) fn measure<T>(&mut self, phase: &'static str, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.phases.push((phase, start.elapsed()));
        result
    }

    /// Prints a line for each phase, in microseconds, and a line for fuel.
    pub(crate) fn print(&self) {
        for (phase, time) in &self.phases {
            eprintln!("{phase:<11} {:>12.1} us", time.as_secs_f64() * 1e6);
        }
        if let Some(fuel) = self.fuel {
            eprintln!("{:<11} {fuel:>12}", "fuel");
        }
    }
}
