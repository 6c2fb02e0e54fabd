//! [`JavaEngine`]: a way to run a program again and again.

use anyhow::Result;
use std::time::Duration;

/// Runs one program. What the program prints is discarded.
pub trait JavaEngine {
    /// The time of `count` invocations, one after another.
    ///
    /// # Errors
    ///
    /// An invocation failed.
    fn run(&mut self, count: u64) -> Result<Duration>;
}
