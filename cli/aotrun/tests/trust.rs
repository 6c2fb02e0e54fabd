//! `aotrun --trust`: runs what one of the keys signed, and nothing else.

use crate::common;
use pirn_testing::signing;

use common::{aotrun, guest, run, stderr, stdout};
use pirn_signature::signature_path;
use signing::{Pair, public_text};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder with `hello.so`, its signature, and the public key `a.pub`.
fn signed(key: &Pair) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("hello.so");
    let wasm = fs::read(guest("hello.wasm")).expect("the guest is there");
    let options = pirn_compiler::Options::default();
    let so = pirn_compiler::compile(&wasm, &options).expect("the guest is valid");
    fs::write(&path, &so).expect("room");
    fs::write(signature_path(&path), key.sign(&so)).expect("room");
    fs::write(folder.path().join("a.pub"), public_text(&key.pair)).expect("room");
    (folder, path)
}

fn refused(program: &Path, key: &Path, options: &[&str], part: &str) {
    let output = run(
        aotrun().args(options).arg("--trust").arg(key).arg(program),
        "",
    );
    let said = stderr(&output);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), ""),
        "{said}"
    );
    assert!(
        said.starts_with("aotrun: ") && said.lines().count() == 1,
        "{said}"
    );
    assert!(said.contains(part), "{part:?} is not in {said}");
}

#[test]
fn only_a_signed_module_runs() {
    let (key, other) = (Pair::new(), Pair::new());
    let (folder, program) = signed(&key);
    let trusted = folder.path().join("a.pub");
    let foreign = folder.path().join("b.pub");
    fs::write(&foreign, public_text(&other.pair)).expect("room");
    let mut command = aotrun();
    command
        .arg("--trust")
        .arg(&foreign)
        .arg("--trust")
        .arg(&trusted);
    let output = run(command.arg(&program), "");
    assert_eq!(
        stdout(&output),
        "hello from a slot\n",
        "{}",
        stderr(&output)
    );

    refused(&program, &foreign, &[], "it is signed with key ");
    refused(&program, &program, &[], "it has more than 4096 bytes");
    refused(&program, &folder.path().join("none"), &[], "--trust ");
    // A module that would be compiled: without a signature, and with one.
    refused(&guest("hello.wasm"), &trusted, &[], "it is not signed");
    let wasm = folder.path().join("hello.wasm");
    let bytes = fs::read(guest("hello.wasm")).expect("the guest is there");
    fs::write(&wasm, &bytes).expect("room");
    fs::write(signature_path(&wasm), key.sign(&bytes)).expect("room");
    refused(&wasm, &trusted, &[], "it is a WebAssembly module");
    // A snapshot is made of signed modules only, too.
    fs::write(&program, &fs::read(&program).expect("it is there")[1..]).expect("room");
    refused(&program, &trusted, &[], "its signature is of ");
    let out = folder.path().join("out.so").display().to_string();
    refused(
        &program,
        &trusted,
        &["--snapshot", &out],
        "its signature is of ",
    );
    assert!(!Path::new(&out).exists());
}
