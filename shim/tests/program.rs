//! The program that containerd starts, called by hand.

use std::process::Command;

#[test]
fn a_call_that_is_not_containerds_is_an_error_of_one_line() {
    for args in [
        &[][..],
        &["--help"],
        &["-h"],
        &["start"],
        &["-namespace", "a", "-id", "b", "start"],
        &["-namespace", "", "-id", "b", "-address", "c", "delete"],
        &["-id"],
    ] {
        let mut shim = Command::new(env!("CARGO_BIN_EXE_containerd-shim-pirn-v1"));
        let output = shim.args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.starts_with("containerd-shim-pirn-v1: it needs -namespace, -id and -address"),
            "{args:?}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    }
}

#[test]
fn the_version_is_printed() {
    let mut shim = Command::new(env!("CARGO_BIN_EXE_containerd-shim-pirn-v1"));
    let output = shim.arg("-v").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
}
