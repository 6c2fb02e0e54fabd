//! What a module says of the file and the options that it was compiled from.

use pirn_testing::program;

use pirn_compiler::{OptLevel, Options, Pass, RelaxedSimd, compile, parse_text};
use pirn_format::cpu::{Arch, CpuFeatures};
use pirn_format::metadata::Source;
use pirn_format::read::Checked;
use std::fs;
use std::path::Path;
use std::process::Command;

const TEXT: &[u8] = b"(module (func (export \"f\") (result i32) (i32.const 1)))";

fn wasm() -> Vec<u8> {
    parse_text(TEXT).expect("it is well-formed").into_owned()
}

fn source(options: &Options) -> Source {
    let file = compile(&wasm(), options).expect("it is valid");
    Checked::new(&file).expect("it is whole").metadata.source
}

/// What `aotc` prints.
fn aotc(folder: &Path, args: &[&str]) -> String {
    let mut command = program::program(env!("CARGO_BIN_EXE_aotc"));
    let output = command.args(args).current_dir(folder).output();
    let output = output.expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("text")
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

/// Options of which each differs from its default.
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
        let line = source(&options).options;
        let words: Vec<_> = line.split(' ').collect();
        aotc(folder.path(), &[&["one.wasm"][..], &words].concat());
        let made = fs::read(folder.path().join("one.so")).expect("it is there");
        let file = compile(&wasm(), &options).expect("it is valid");
        assert!(made == file, "{line}");
    }
    assert_eq!(
        source(&unusual()).options,
        "--target x86_64 --cpu baseline,+avx --opt-level speed-and-size --no-inline \
         --no-spectre-masks --relaxed-simd deterministic --fuel --debug-info \
         --without-pass spill --without-pass hoist"
    );
}

#[test]
fn what_changes_no_output_is_not_in_it() {
    let mut options = Options::default();
    options.work_per_byte += 1;
    assert_eq!(source(&options), source(&Options::default()));
    // Another module has another hash, and no other difference.
    let other = parse_text(b"(module (func))").expect("it is well-formed");
    let file = compile(&other, &Options::default()).expect("it is valid");
    let other = Checked::new(&file).expect("it is whole").metadata.source;
    let one = source(&options);
    assert_ne!(other.wasm_sha256, one.wasm_sha256);
    assert_eq!((other.compiler, other.options), (one.compiler, one.options));
}
