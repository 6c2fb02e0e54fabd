//! What a module says of the file and the options that it was compiled from, which are words of a
//! command line of `aotc`.

use crate::common::{command, text};
use pirn_compiler::{OptLevel, Options, Pass, RelaxedSimd, compile, parse_text};
use pirn_format::cpu::{Arch, CpuFeatures};
use pirn_format::read::Checked;
use std::fs;
use std::path::Path;
use std::process::Command;

const TEXT: &[u8] = b"(module (func (export \"f\") (result i32) (i32.const 1)))";

fn wasm() -> Vec<u8> {
    parse_text(TEXT).expect("it is well-formed").into_owned()
}

/// What `aotc` prints.
fn aotc(folder: &Path, args: &[&str]) -> String {
    let output = command(args).current_dir(folder).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn other_tools_compute_the_same_hash() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("one.wasm"), wasm()).expect("room");
    aotc(folder.path(), &["one.wasm", "--fuel"]);
    let said = aotc(folder.path(), &["inspect", "one.so"]);
    let sum = Command::new("sha256sum")
        .arg(folder.path().join("one.wasm"))
        .output();
    let sum = String::from_utf8(sum.expect("coreutils are installed").stdout).expect("text");
    let sum = sum.split(' ').next().expect("a hash");
    let arch = std::env::consts::ARCH;
    for line in [
        format!("wasm       sha256 {sum}"),
        format!(
            "compiler   pirn-compiler {}, cranelift ",
            env!("CARGO_PKG_VERSION")
        ),
        format!("options    --target {arch} --cpu baseline --opt-level speed --fuel"),
    ] {
        assert!(
            said.lines().any(|said| said.starts_with(&line)),
            "{line:?} is not in {said}"
        );
    }
}

/// The options that a compiled module names.
fn options_in(file: &[u8]) -> String {
    let checked = Checked::new(file).expect("it is whole");
    checked.metadata.source.options
}

/// Options, each with another value than its default.
fn unusual() -> Options {
    let mut options = Options::new(Arch::X86_64);
    let level = CpuFeatures::level(Arch::X86_64, "x86-64-v2").expect("a level");
    options.cpu = level.with("avx").expect("a feature");
    options.opt_level = OptLevel::SpeedAndSize;
    options.inline = false;
    options.spectre = false;
    options.relaxed_simd = RelaxedSimd::Deterministic;
    options.fuel = true;
    options.debug_info = true;
    options.passes = options.passes.without(Pass::Hoist).without(Pass::Spill);
    options
}

#[test]
fn the_options_are_a_command_line_that_makes_the_same_file() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("one.wasm"), wasm()).expect("room");
    let mut none = Options::new(Arch::Aarch64);
    none.opt_level = OptLevel::None;
    for options in [unusual(), none, Options::default()] {
        let file = compile(&wasm(), &options).expect("it is valid");
        let line = options_in(&file);
        let words: Vec<_> = line.split(' ').collect();
        aotc(folder.path(), &[&["one.wasm"][..], &words].concat());
        let made = fs::read(folder.path().join("one.so")).expect("it is there");
        assert!(made == file, "{line}");
    }
    let file = compile(&wasm(), &unusual()).expect("it is valid");
    assert_eq!(
        options_in(&file),
        "--target x86_64 --cpu baseline,+avx --opt-level speed-and-size --no-inline \
         --no-spectre-masks --relaxed-simd deterministic --fuel --debug-info \
         --without-pass spill --without-pass hoist"
    );
}
