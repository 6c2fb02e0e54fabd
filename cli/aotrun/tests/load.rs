//! The programs that `aotrun` does not load: files that might block it or never end.

use crate::common;

use common::{aotrun, run, stderr, stdout};
use std::path::Path;
use std::process::Command;

/// Nobody writes to the pipe, so reading it would wait for ever. A device has no end.
#[test]
fn pipes_and_devices_are_refused_at_once() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    // The name alone says that the last one is compiled.
    let pipes = ["pipe", "pipe.wat", "pipe.so"].map(|name| folder.path().join(name));
    let made = Command::new("mkfifo").args(&pipes).status();
    assert!(made.expect("there is a mkfifo").success());
    let programs = pipes.iter().map(AsRef::as_ref);
    for program in programs.chain([Path::new("/dev/zero")]) {
        let snapshot = folder.path().join("snapshot.so");
        for options in [&[][..], &["--snapshot".as_ref(), snapshot.as_os_str()]] {
            let output = run(aotrun().args(options).arg(program), "");
            let said = stderr(&output);
            let wanted = format!(
                "aotrun: cannot read {}: it is a pipe, a socket or a device; name a regular file\n",
                program.display()
            );
            assert_eq!(said, wanted);
            assert_eq!(output.status.code(), Some(1));
            assert_eq!(stdout(&output), "");
            assert!(!snapshot.exists());
        }
    }
}

#[test]
fn a_directory_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let output = run(aotrun().arg(folder.path()), "");
    let said = stderr(&output);
    assert!(
        said.starts_with("aotrun: cannot read ") && said.contains("directory"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(output.status.code(), Some(1));
}
