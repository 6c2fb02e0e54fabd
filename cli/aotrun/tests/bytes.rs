//! Arguments and variables that are not UTF-8.

use crate::common::{aotrun, run, stderr};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// Writes its arguments and variables, each with a zero byte at its end.
const GUEST: &str = r#"(module
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $env (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get"
    (func $env_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $out (param $len i32)
    (i32.store (i32.const 16) (i32.const 4096)) (i32.store (i32.const 20) (local.get $len))
    (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (drop (call $sizes (i32.const 0) (i32.const 4)))
    (drop (call $args (i32.const 1024) (i32.const 4096)))
    (call $out (i32.load (i32.const 4)))
    (drop (call $env_sizes (i32.const 0) (i32.const 4)))
    (drop (call $env (i32.const 1024) (i32.const 4096)))
    (call $out (i32.load (i32.const 4)))))"#;

/// A temporary folder with a program in the text format.
fn written(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("guest.wat");
    std::fs::write(&path, text).expect("room for a program");
    (folder, path)
}

#[test]
fn a_module_gets_bytes() {
    let (_folder, program) = written(GUEST);
    let mut command = aotrun();
    command.arg("--env").arg(OsStr::from_bytes(b"N=\xc3"));
    command
        .arg("--env")
        .arg("PASSED")
        .env("PASSED", OsStr::from_bytes(b"\xff"));
    command.arg(&program).arg(OsStr::from_bytes(b"\xff\xfe"));
    let output = run(&mut command, "");
    assert_eq!(stderr(&output), "");
    assert_eq!(output.stdout, b"guest.wat\0\xff\xfe\0N=\xc3\0PASSED=\xff\0");
}

#[test]
fn a_function_takes_only_text() {
    let (_folder, program) = written("(module (func (export \"f\") (param i32)))");
    let mut command = aotrun();
    command.args(["--invoke", "f"]).arg(&program);
    let output = run(command.arg(OsStr::from_bytes(b"\xff")), "");
    let expected =
        "aotrun: \"\\xFF\" is not UTF-8, and this guest takes only text; give it another\n";
    assert_eq!(stderr(&output), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[cfg(feature = "components")]
#[test]
fn a_component_takes_only_text() {
    let (_folder, program) = written(
        "(component (core module $m (func (export \"f\"))) \
        (core instance $i (instantiate $m)) \
        (func (export \"f\") (canon lift (core func $i \"f\"))))",
    );
    for option in ["--env", "--"] {
        let mut command = aotrun();
        let text = OsStr::from_bytes(b"N=\xff");
        match option {
            "--env" => command
                .arg("--env")
                .arg(text)
                .args(["--invoke", "f"])
                .arg(&program),
            _ => command.args(["--invoke", "f"]).arg(&program).arg(text),
        };
        let output = run(&mut command, "");
        assert_eq!(output.status.code(), Some(1), "{option}");
    }
}
