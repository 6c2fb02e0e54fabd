//! Shared by the suites: guests, fixtures, and a run with its whole output.

pub(crate) use pirn_testing::guests::{built, guest};

use pirn_testing::program;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The text of a fixture file.
pub(crate) fn fixture(name: &str) -> String {
    let path = guest("fixtures").join(name);
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
