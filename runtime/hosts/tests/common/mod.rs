//! What the tests of hosts share: the library, and programs that are built, run and waited for.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Seconds that a host has: one that hangs is killed by timeout(1), and fails.
const PATIENCE: &str = "120";

/// The folder of the library: that of this test program, which is built with it.
pub(crate) fn library_folder() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let folder = test.parent().expect("a folder").to_owned();
    let library = folder.join("libpirn_hosts.so");
    assert!(library.exists(), "{} is built", library.display());
    folder
}

/// The sources of the hosts in a language.
pub(crate) fn sources(language: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join(language)
}

/// Whether a tool answers to this; where it does not, that is said, and what was not run.
pub(crate) fn have(what: &str, tool: &str, argument: &str) -> bool {
    let there = Command::new(tool).arg(argument).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        // Past the test harness, which hides what a test that passes prints.
        let said = writeln!(std::io::stderr(), "NOT RUN: {what}, for want of `{tool}`");
        said.expect("stderr is open");
    }
    there
}

/// Runs a program that builds something.
pub(crate) fn build(command: &mut Command) {
    let output = command.output().expect("the tool starts");
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

/// Runs a host with its arguments, in a folder.
pub(crate) fn host(
    folder: &Path,
    program: impl AsRef<Path>,
    arguments: &[impl AsRef<std::ffi::OsStr>],
) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", PATIENCE]);
    command.arg(program.as_ref()).args(arguments);
    let output = command.current_dir(folder).output();
    output.expect("timeout(1) starts")
}

/// Sees that a host came to its end.
pub(crate) fn ended_well(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
    let told = String::from_utf8_lossy(&output.stdout);
    let last = told.lines().last();
    assert_eq!(
        last,
        Some("all guests did as they must"),
        "{}",
        said(output)
    );
}

/// All that a program said.
pub(crate) fn said(output: &Output) -> String {
    let [told, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{}\n{told}\n{said}", output.status)
}
