//! The programs of examples/guests, which are the guests of many tests.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Path of a guest program, or of another file of examples/guests.
pub fn guest(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
    folder.join(name)
}

/// Path of a guest that is not committed. If it was not built, prints that and returns `None`.
///
/// # Panics
///
/// If stderr is closed.
pub fn built(name: &str) -> Option<PathBuf> {
    let path = guest("built").join(name);
    if path.exists() {
        return Some(path);
    }
    // Written to stderr directly: the test harness hides what a passing test prints.
    let said = writeln!(
        std::io::stderr(),
        "NOT RUN: {name} is not built; run examples/guests/build.sh, which says what it needs"
    );
    said.expect("stderr is open");
    None
}
