//! Starts programs of the tests' target, which this machine may be unable to run directly.

use std::ffi::OsStr;
use std::process::Command;

/// The runner with which cargo ran the tests; empty if cargo used none.
fn runner() -> String {
    let arch = std::env::consts::ARCH.to_uppercase();
    std::env::var(format!("CARGO_TARGET_{arch}_UNKNOWN_LINUX_GNU_RUNNER")).unwrap_or_default()
}

/// Whether this machine needs a runner for the tests.
pub fn has_runner() -> bool {
    !runner().is_empty()
}

/// A command for a program of the tests' target. The command uses the runner with which cargo ran
/// the tests, if there is a runner (The Cargo Book, "Configuration", `target.<triple>.runner`).
pub fn program(path: impl AsRef<OsStr>) -> Command {
    let runner = runner();
    let mut words = runner.split_whitespace();
    match words.next() {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.args(words).arg(path);
            command
        }
        None => Command::new(path),
    }
}
