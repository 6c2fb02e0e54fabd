//! How tests start programs of their own target, which this machine may not run by itself.

use std::ffi::OsStr;
use std::process::Command;

/// A command for a program of the target that the tests are built for: behind the runner by which cargo
/// ran the tests, if there is one (The Cargo Book, "Configuration", `target.<triple>.runner`).
pub(crate) fn program(path: impl AsRef<OsStr>) -> Command {
    let arch = std::env::consts::ARCH.to_uppercase();
    let runner = std::env::var(format!("CARGO_TARGET_{arch}_UNKNOWN_LINUX_GNU_RUNNER"));
    let runner = runner.unwrap_or_default();
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
