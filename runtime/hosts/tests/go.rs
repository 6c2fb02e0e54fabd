//! Guests in a Go program. Go's runtime handles the same signals: SIGSEGV for nil pointers, and
//! SIGURG to preempt goroutines.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// The program, in a folder that exists as long as this test program.
static PROGRAM: LazyLock<Option<(TempDir, PathBuf)>> = LazyLock::new(|| {
    if !common::have("guests in a Go program", "go", "version") {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let program = folder.path().join("hosts");
    // Go compiles its library once for this mode and for `c-shared`.
    build("pie", &program);
    Some((folder, program))
});

/// Builds the program, either as an executable or as a library.
fn build(mode: &str, to: &Path) {
    let library = common::library_folder();
    let library = library.display();
    let mut go = Command::new("go");
    go.current_dir(common::sources("go"))
        .args(["build", "-buildvcs=false", "-buildmode", mode, "-o"])
        .arg(to)
        .env("CGO_ENABLED", "1")
        .env("GOFLAGS", "")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env(
            "CGO_LDFLAGS",
            format!("-L{library} -lpirn_hosts -Wl,-rpath,{library}"),
        );
    common::build(&mut go);
}

fn ended_well(mode: &str) {
    if let Some((folder, program)) = &*PROGRAM {
        common::ended_well(&common::host(folder.path(), program, &[mode]));
    }
}

#[test]
fn guests_run_while_go_handles_its_own_signals() {
    ended_well("run");
}

/// Go forwards the runtime's signals to a channel (`signal.Notify`). Guests must still trap and
/// stop.
#[test]
fn guests_run_while_go_forwards_signals_to_a_channel() {
    ended_well("notify");
}

/// Go ignores SIGURG (`signal.Ignore`), the signal by which the runtime interrupts guests.
#[test]
fn guests_are_stopped_while_go_ignores_sigurg() {
    ended_well("ignore");
}

#[test]
fn guests_run_if_go_is_loaded_after_the_runtime() {
    let what = "a Go library that is loaded later";
    let Some((folder, _)) = &*PROGRAM else {
        return;
    };
    if !common::have(what, "cc", "--version") {
        return;
    }
    let (library, program) = (folder.path().join("later.so"), folder.path().join("later"));
    build("c-shared", &library);
    let hosts = common::library_folder();
    let hosts = hosts.display();
    let mut cc = Command::new("cc");
    cc.arg(common::sources("c").join("go.c"))
        .arg("-o")
        .arg(&program);
    cc.args([
        format!("-L{hosts}"),
        format!("-Wl,-rpath,{hosts}"),
        "-lpirn_hosts".to_owned(),
        "-ldl".to_owned(),
    ]);
    common::build(&mut cc);
    common::ended_well(&common::host(folder.path(), program, &[library]));
}

#[test]
fn go_reports_a_fault_in_c_code() {
    let Some((folder, program)) = &*PROGRAM else {
        return;
    };
    let output = common::host(folder.path(), program, &["fault"]);
    let said = common::said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for line in [
        "SIGSEGV: segmentation violation",
        "signal arrived during cgo execution",
    ] {
        assert!(said.contains(line), "{said}");
    }
}
