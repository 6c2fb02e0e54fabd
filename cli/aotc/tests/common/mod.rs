//! Shared by the suites: a run of `aotc`, and its output.

use pirn_testing::program;
use std::ffi::OsStr;
use std::process::{Command, Output};

/// The program under test with these arguments.
pub(crate) fn command<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = program::program(env!("CARGO_BIN_EXE_aotc"));
    command.args(args);
    command
}

/// Runs the program.
pub(crate) fn aotc<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Output {
    command(args).output().expect("the program starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks that `aotc` succeeded without a word on stderr. Returns what it printed.
pub(crate) fn works(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!((said.as_str(), output.status.code()), ("", Some(0)));
    text(&output.stdout)
}

/// Checks that `aotc` failed with exit code 1, printed nothing, and gave one line of errors that
/// starts with its name and contains all parts.
pub(crate) fn refused(output: &Output, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(1), String::new()),
        "{said}"
    );
    assert!(
        said.starts_with("aotc: ") && said.lines().count() == 1,
        "{said}"
    );
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}
