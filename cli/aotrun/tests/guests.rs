//! Programs from real toolchains must print through `aotrun` what their sources print natively.

use crate::common;

use common::{aotrun, built, fixture, guest, run, stderr, stdout};
use pirn_compiler::{OptLevel, Options, compile};
use std::fs;
use std::path::Path;

#[test]
fn hello_prints() {
    let output = run(aotrun().arg(guest("hello.wasm")), "");
    assert_eq!(stdout(&output), fixture("hello.expected.txt"));
    assert_eq!(
        (stderr(&output).as_str(), output.status.code()),
        ("", Some(0))
    );
    let output = run(aotrun().arg(guest("hello.wasm")).args(["--", "--you"]), "");
    assert_eq!(stdout(&output), "hello from --you\n");
}

#[test]
fn v128_kernels_equal_plain_c() {
    let output = run(aotrun().arg(guest("simd.wasm")), "");
    assert_eq!(stdout(&output), fixture("simd.expected.txt"));
    assert_eq!(output.status.code(), Some(0));
}

/// Intel's intrinsics, compiled with the header for guests and with that of a compiler for x86.
#[test]
fn x86_intrinsics_equal_x86() {
    let output = run(aotrun().arg(guest("x86.wasm")), "");
    assert_eq!(stdout(&output), fixture("x86.expected.txt"));
    assert_eq!(output.status.code(), Some(0));
}

/// Arguments, environment, files, directories, standard streams, clock and exit code.
fn tour(program: &Path, language: &str, report: &str, code: i32) {
    let data = tempfile::tempdir().expect("a temporary directory");
    copy(&guest("fixtures/data"), data.path());
    let mut command = aotrun();
    command
        .arg("--dir")
        .arg(format!("{}::/data", data.path().display()));
    for variable in fixture("tour.env.txt").lines() {
        command.args(["--env", variable]);
    }
    command.arg(program).arg("--");
    command.args(fixture("tour.args.txt").split_terminator('\n'));
    let output = run(&mut command, &fixture("tour.stdin.txt"));
    let expected = fixture("tour.expected.txt").replace("{language}", language);
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    assert_eq!(stderr(&output), fixture("tour.stderr.expected.txt"));
    assert_eq!(output.status.code(), Some(code));
    let written = fs::read_to_string(data.path().join(report)).expect("the guest wrote its report");
    assert_eq!(written, fixture("tour.written.expected.txt"));
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("fixtures are there") {
        let entry = entry.expect("fixtures are readable");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).expect("room for fixtures");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("room for fixtures");
        }
    }
}

#[test]
fn a_c_program_tours_the_host() {
    tour(&guest("tour-c.wasm"), "C", "out-c.txt", 7);
}

#[test]
fn a_rust_program_tours_the_host() {
    tour(&guest("tour-rust.wasm"), "Rust", "out-rust.txt", 7);
}

/// As components of WASI 0.2. Their C library gives each exit code but 0 as an error, which is 1.
#[test]
fn components_tour_the_host() {
    tour(&guest("tour-c-p2.wasm"), "C", "out-c.txt", 1);
    tour(&guest("tour-rust-p2.wasm"), "Rust", "out-rust.txt", 1);
}

#[test]
fn a_component_prints() {
    let output = run(aotrun().arg(guest("hello-p2.wasm")), "");
    assert_eq!(stdout(&output), fixture("hello.expected.txt"));
    assert_eq!(
        (stderr(&output).as_str(), output.status.code()),
        ("", Some(0))
    );
    let output = run(
        aotrun().arg(guest("hello-p2.wasm")).args(["--", "--you"]),
        "",
    );
    assert_eq!(stdout(&output), "hello from --you\n");
}

#[test]
fn a_go_program_tours_the_host() {
    if let Some(program) = built("tour-go.wasm") {
        tour(&program, "Go", "out-go.txt", 7);
    }
}

#[test]
fn a_json_handler_in_go_answers() {
    let Some(program) = built("json.wasm") else {
        return;
    };
    // Compiled once for all runs, and quickly. The tour compiles a program in Go as `aotrun` does.
    let mut options = Options::default();
    options.opt_level = OptLevel::None;
    let wasm = fs::read(program).expect("the guest is readable");
    let so = compile(&wasm, &options).expect("the guest is valid");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let program = folder.path().join("json.so");
    fs::write(&program, so).expect("room for a module");
    for (name, code) in [("order", 0), ("broken", 2), ("type", 2), ("refused", 2)] {
        let output = run(
            aotrun().arg(&program),
            &fixture(&format!("json.{name}.json")),
        );
        assert_eq!(
            stdout(&output),
            fixture(&format!("json.{name}.expected.json")),
            "{name}"
        );
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
}

/// A Java program prints the same hashes in a Java virtual machine.
#[test]
fn a_java_program_computes_what_java_computes() {
    let Some(program) = built("maths-java.wasm") else {
        return;
    };
    let output = run(aotrun().arg(&program), "");
    assert_eq!(
        stdout(&output),
        fixture("maths-java.expected.txt"),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(0));
}
