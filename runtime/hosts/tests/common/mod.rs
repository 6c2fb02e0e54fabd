//! Shared by the tests of hosts: finds the library, and builds and runs host programs.

use pirn_testing::campaign::share;
use pirn_testing::process::not_run;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Time limit of a host in seconds. timeout(1) kills a host that hangs, and the test fails. A host
/// takes a few seconds; a busy machine may need many times as long.
const TIMEOUT_SECONDS: &str = "900";

/// How often guests perform every action in the whole campaign. Hosts read the number of rounds
/// from `PIRN_ROUNDS`.
const ROUNDS: u64 = 6;

/// The folder of the library, which is that of this test program: both are built together.
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

/// Whether a tool works. If not, prints that `what` is not run.
pub(crate) fn have(what: &str, tool: &str, argument: &str) -> bool {
    let there = Command::new(tool).arg(argument).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        not_run(format_args!("{what}, for want of `{tool}`"));
    }
    there
}

/// Runs a build command.
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
    command.args(["--signal=KILL", TIMEOUT_SECONDS]);
    command.arg(program.as_ref()).args(arguments);
    command.env("PIRN_ROUNDS", share(ROUNDS, 3).to_string());
    let output = command.current_dir(folder).output();
    output.expect("timeout(1) starts")
}

/// Checks that a host ran to its end.
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

/// The exit status and all output of a program.
pub(crate) fn said(output: &Output) -> String {
    let [told, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{}\n{told}\n{said}", output.status)
}
