//! Shared by the tests of `aotrun`: guests, fixtures, and a run with its whole output.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod setup;

use pirn_testing::program;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The folder of the guest programs.
pub(crate) fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests")
}

/// Path of a guest program.
pub(crate) fn guest(name: &str) -> PathBuf {
    guests().join(name)
}

/// Path of a guest that is not committed. If it was not built, prints that and returns `None`.
pub(crate) fn built(name: &str) -> Option<PathBuf> {
    let path = guests().join("built").join(name);
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

/// The text of a fixture file.
pub(crate) fn fixture(name: &str) -> String {
    let path = guests().join("fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The program under test.
pub(crate) fn aotrun() -> Command {
    program::program(env!("CARGO_BIN_EXE_aotrun"))
}

/// Runs a command with this standard input.
pub(crate) fn run(command: &mut Command, stdin: &str) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut pipe = child.stdin.take().expect("a pipe was asked for");
    // A guest that does not read its input closes the pipe.
    let _ = pipe.write_all(stdin.as_bytes());
    drop(pipe);
    child.wait_with_output().expect("the program ends")
}

/// The standard output of a program.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The standard error of a program.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
