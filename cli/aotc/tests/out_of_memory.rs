//! `aotc` without memory ends as with other errors.

use pirn_testing::campaign::{sampled, share};
use pirn_testing::program;
use std::process::Command;
use wasm_encoder::{CodeSection, Function, FunctionSection, Module, TypeSection};

/// A module with one function of nested blocks.
fn blocks(nested: usize) -> Vec<u8> {
    let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
    types.ty().function([], []);
    functions.function(0);
    let mut function = Function::new([]);
    function.raw([0x02, 0x40].repeat(nested));
    function.raw(vec![0x0b; nested + 1]);
    let mut code = CodeSection::new();
    code.function(&function);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    module.finish()
}

#[test]
fn running_out_of_memory_ends_aotc_like_other_errors() {
    if program::has_runner() {
        println!("NOT RUN: aotc without memory; its emulator is what would have none");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (wasm, so) = (folder.path().join("m.wasm"), folder.path().join("m.so"));
    let nested = share(1_000_000, 2) as usize;
    std::fs::write(&wasm, blocks(nested)).expect("it is written");
    let (mut runs, mut failed) = (0, 0);
    for megabytes in sampled([60, 100, 150, 250, 400, 8000], 2, 1) {
        runs += 1;
        let output = Command::new("sh")
            .args([
                "-c",
                "ulimit -v $0; exec \"$@\"",
                &(megabytes << 10).to_string(),
            ])
            .arg(env!("CARGO_BIN_EXE_aotc"))
            .arg(&wasm)
            .arg("-o")
            .arg(&so)
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("the shell starts");
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => assert!(so.exists()),
            Some(1) => {
                failed += 1;
                assert!(said.contains("memory"), "{megabytes} MB: {said}");
                assert!(!so.exists(), "{megabytes} MB: {said}");
            }
            other => panic!("{megabytes} MB: {other:?}: {said}"),
        }
        let left = std::fs::read_dir(folder.path())
            .expect("it is there")
            .count();
        assert_eq!(
            left,
            1 + usize::from(output.status.success()),
            "{megabytes} MB"
        );
    }
    assert!(failed > 0 && failed < runs, "{failed} of {runs} failed");
}
