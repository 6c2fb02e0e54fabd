//! How tests start programs of their own target, which this machine may not run by itself.

use std::ffi::OsStr;
use std::process::Command;

/// The runner by which cargo ran the tests, or nothing.
fn runner() -> String {
    let arch = std::env::consts::ARCH.to_uppercase();
    std::env::var(format!("CARGO_TARGET_{arch}_UNKNOWN_LINUX_GNU_RUNNER")).unwrap_or_default()
}

/// Whether this machine does not run the tests by itself.
#[allow(dead_code, reason = "some tests ask")]
pub(crate) fn has_runner() -> bool {
    !runner().is_empty()
}

/// A command for a program of the target that the tests are built for: behind the runner by which cargo
/// ran the tests, if there is one (The Cargo Book, "Configuration", `target.<triple>.runner`).
pub(crate) fn program(path: impl AsRef<OsStr>) -> Command {
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
