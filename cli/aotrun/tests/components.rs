//! The command line of `aotrun` with components: runs, calls of functions, limits and refusals.

use crate::common;

use common::{aotrun, guest, run, stderr, stdout};
use pirn_testing::retry::with_longer_limits;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The path of a component in the text format.
fn component(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/components");
    folder.join(name)
}

/// A temporary folder with a component in the text format.
fn written(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("guest.wat");
    fs::write(&path, text).expect("room for a component");
    (folder, path)
}

/// A command whose core function has this body.
fn command(body: &str) -> String {
    format!(
        "(component
           (import \"wasi:cli/exit@0.2.0\" (instance $exit
             (export \"exit\" (func (param \"status\" (result))))
             (export \"exit-with-code\" (func (param \"status-code\" u8)))))
           (core func $exit (canon lower (func $exit \"exit\")))
           (core func $code (canon lower (func $exit \"exit-with-code\")))
           (core module $main
             (import \"w\" \"exit\" (func $exit (param i32)))
             (import \"w\" \"code\" (func $code (param i32)))
             (memory 1 100)
             (func (export \"run\") (result i32) {body}))
           (core instance $main (instantiate $main (with \"w\" (instance
             (export \"exit\" (func $exit)) (export \"code\" (func $code))))))
           (func $run (result (result)) (canon lift (core func $main \"run\")))
           (instance $run (export \"run\" (func $run)))
           (export \"wasi:cli/run@0.2.0\" (instance $run)))"
    )
}

/// Checks the exit code, and that stderr begins with a line that starts with the program's name and
/// contains all parts. The rest of stderr is a backtrace.
fn failed(output: &Output, code: i32, parts: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let line = said.lines().next().unwrap_or_default();
    assert!(line.starts_with("aotrun: "), "{said}");
    for part in parts {
        assert!(line.contains(part), "{part:?} is not in {said}");
    }
    let mut rest = said.lines().skip(1);
    assert!(rest.all(|line| line.starts_with("   ")), "{said}");
    assert_eq!(stdout(output), "");
}

/// Checks that `aotrun` failed with exit code 1 and one line.
fn refused(command: &mut Command, parts: &[&str]) {
    let output = run(command, "");
    failed(&output, 1, parts);
    assert_eq!(stderr(&output).lines().count(), 1);
}

/// Calls a function of the component with all types.
fn invoke(function: &str, arguments: &[&str]) -> Command {
    let mut command = aotrun();
    command.args(["--invoke", function]);
    command.arg(component("values.wat")).arg("--");
    command.args(arguments);
    command
}

#[test]
fn exit_codes_are_those_of_the_guest() {
    let cases = [
        ("(i32.const 0)", 0),
        ("(i32.const 1)", 1),
        ("(call $exit (i32.const 0)) (i32.const 1)", 0),
        ("(call $exit (i32.const 1)) (i32.const 0)", 1),
        ("(call $code (i32.const 0)) (i32.const 1)", 0),
        ("(call $code (i32.const 7)) unreachable", 7),
        ("(call $code (i32.const 255)) unreachable", 255),
    ];
    for (body, code) in cases {
        let (_folder, program) = written(&command(body));
        let output = run(aotrun().arg(&program), "");
        assert_eq!(output.status.code(), Some(code), "{body}");
        assert_eq!(
            (stdout(&output), stderr(&output)),
            (String::new(), String::new())
        );
    }
}

#[test]
fn a_component_that_fails_is_told_like_a_module() {
    let (_folder, program) = written(&command("unreachable"));
    failed(
        &run(aotrun().arg(&program), ""),
        134,
        &["trap: unreachable"],
    );
    // A result that is neither ok nor an error.
    let (_folder, program) = written(&command("(i32.const 2)"));
    let parts = ["trap: discriminant 2 of a type with 2 cases"];
    failed(&run(aotrun().arg(&program), ""), 134, &parts);
    let parts = ["trap: a string of 100 bytes at 0xfffffff8 exceeds the memory"];
    failed(&run(&mut invoke("outside", &[]), ""), 134, &parts);
}

#[test]
fn limits_end_a_component() {
    let (_folder, program) = written(&command("(loop (br 0)) (i32.const 0)"));
    let output = run(aotrun().args(["--deadline", "20ms"]).arg(&program), "");
    failed(&output, 124, &["ran past its deadline", "raise --deadline"]);
    let output = run(aotrun().args(["--fuel", "1000"]).arg(&program), "");
    failed(&output, 124, &["out of fuel", "raise --fuel"]);
    let grow = "(i32.eq (memory.grow (i32.const 9)) (i32.const -1))";
    let (_folder, program) = written(&command(grow));
    for (memory, code) in [("640KiB", 0), ("576KiB", 1)] {
        let output = run(aotrun().args(["--memory-max", memory]).arg(&program), "");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
    let parts = ["it needs 128 KiB of memory, --memory-max is 64 KiB; raise it"];
    refused(
        aotrun()
            .args(["--memory-max", "1KiB"])
            .arg(guest("hello-p2.wasm")),
        &parts,
    );
}

#[test]
fn fuel_needs_code_that_counts_it() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let so = folder.path().join("hello.so");
    let wasm = fs::read(guest("hello-p2.wasm")).expect("the guest is there");
    let compiled = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default());
    fs::write(&so, compiled.expect("it compiles")).expect("room for a module");
    let output = run(aotrun().arg(&so), "");
    assert_eq!(stdout(&output), "hello from a slot\n");
    refused(aotrun().args(["--fuel", "1000"]).arg(&so), &["aotc --fuel"]);
}

#[test]
fn a_component_that_waits_ends_at_its_deadline() {
    // They wait for an hour, or for ever.
    for program in ["sleep.wat", "cat.wat"] {
        let mut command = aotrun();
        command.args(["--deadline", "50ms"]).arg(component(program));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        // The input stays open.
        let stdin = child.stdin.take();
        let output = child.wait_with_output().expect("it ends");
        drop(stdin);
        failed(
            &output,
            124,
            &["ran past its deadline of 50ms", "raise --deadline"],
        );
    }
}

/// The reader of the output reads nothing, so that the component waits when the pipe is full.
#[test]
fn a_component_that_waits_for_room_ends_at_its_deadline() {
    const PIPE_BYTES: usize = 1 << 16;
    with_longer_limits(Duration::from_millis(200), |limit| {
        let mut command = aotrun();
        command.arg("--deadline");
        command.arg(format!("{}ms", limit.as_millis()));
        command.arg(component("cat.wat"));
        command.stdin(fs::File::open("/dev/zero").expect("it is there"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut said = String::new();
        let mut errors = child.stderr.take().expect("a pipe");
        errors.read_to_string(&mut said).expect("text");
        let late = format!("ran past its deadline of {limit:?}");
        assert!(said.contains(&late), "{said}");
        assert_eq!(child.wait().expect("it ends").code(), Some(124));
        let mut written = vec![];
        let mut output = child.stdout.take().expect("a pipe");
        output.read_to_end(&mut written).expect("zeros");
        (written.len() == PIPE_BYTES).then_some(())
    });
}

#[test]
fn unread_input_is_left_for_other_programs() {
    let (mut read, mut write) = std::io::pipe().expect("a pipe");
    write.write_all(b"all of it").expect("room");
    drop(write);
    let mut command = aotrun();
    command
        .arg(guest("hello-p2.wasm"))
        .stdin(read.try_clone().expect("a descriptor"));
    assert!(command.output().expect("it runs").status.success());
    let mut left = String::new();
    read.read_to_string(&mut left).expect("text");
    assert_eq!(left, "all of it");
}

#[test]
fn large_input_and_output_are_complete() {
    let bytes: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
    let mut command = aotrun();
    command.arg(component("cat.wat"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let sent = bytes.clone();
    let writer = thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("all was read");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
}

#[test]
fn a_closed_input_ends_and_a_closed_output_is_an_error() {
    let output = run(aotrun().arg(component("cat.wat")).stdin(Stdio::null()), "");
    assert_eq!(
        (stdout(&output).as_str(), output.status.code()),
        ("", Some(0))
    );
    let mut command = aotrun();
    command.arg(component("cat.wat"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut out = child.stdout.take().expect("a pipe");
    stdin.write_all(b"one").expect("room");
    out.read_exact(&mut [0; 3]).expect("three bytes");
    drop(out);
    // The write may fail because the guest has ended.
    let _ = stdin.write_all(&[0; 100_000]);
    drop(stdin);
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn values_have_a_text_form() {
    let cases = [
        ("add", &["2", "3"][..], "5"),
        ("byte", &["-128"], "-128"),
        ("char", &["'ü'"], "'ü'"),
        ("bool", &["true"], "true"),
        ("paint", &["dark-green"], "dark-green"),
        ("allow", &["{write, read}"], "{read, write}"),
        ("allow", &["{}"], "{}"),
        ("empty", &["err"], "err"),
        ("text", &[r#""a\n\u{1b}\"ü""#], r#""a\n\u{1b}\"ü""#),
        ("text", &[r#""\u{202e}""#], r#""\u{202e}""#),
        ("list", &["[]"], "[]"),
        ("list", &["[0, 65535]"], "[0, 65535]"),
        ("pair", &["(-1, 2)"], "(-1, 2)"),
        (
            "put",
            &[r#"{size: some(3), name: "a"}"#],
            r#"{name: "a", size: some(3)}"#,
        ),
        ("put", &[r#"{name: "a"}"#], r#"{name: "a"}"#),
        ("draw", &["dot"], "dot"),
        ("draw", &["circle(0.5)"], "circle(0.5)"),
        ("draw", &["circle(nan)"], "circle(nan)"),
        // Functions of interfaces, by their whole name, a compatible one, or the last part.
        ("test:adder/adder@1.2.0#sum", &["2", "3"], "5"),
        ("test:adder/adder@1.0.0#sum", &["2", "3"], "5"),
        ("sum", &["2", "3"], "5"),
    ];
    for (function, arguments, printed) in cases {
        let output = run(&mut invoke(function, arguments), "");
        assert_eq!(stderr(&output), "", "{function} {arguments:?}");
        assert_eq!(stdout(&output), format!("{printed}\n"), "{function}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn other_values_are_refused_with_the_type() {
    let cases = [
        ("byte", "128", "s8"),
        ("byte", "1.0", "s8"),
        ("byte", "1 2", "s8"),
        ("char", "x", "char"),
        ("char", "'xy'", "char"),
        ("bool", "1", "bool"),
        ("paint", "blue", "enum { red, dark-green }"),
        ("allow", "{execute}", "flags { read, write }"),
        ("allow", "{read, read}", "flags { read, write }"),
        (
            "text",
            "a",
            "string: invalid value type at 0..1; write it in quotes: '\"a\"'",
        ),
        ("text", "", "string"),
        ("text", "\"a\nb\"", "string"),
        ("list", "[65536]", "list<u16>"),
        ("list", "[1,", "list<u16>"),
        ("pair", "(1)", "tuple<s32, u32>"),
        (
            "put",
            "{size: none}",
            "record { name: string, size: option<u64> }",
        ),
        ("put", "{name: \"a\", name: \"b\"}", "record"),
        ("draw", "circle", "variant { dot, circle(f64) }"),
        ("draw", "dot(1)", "variant"),
    ];
    for (function, argument, ty) in cases {
        let wrong = format!("argument {argument:?} is not a value of type {ty}");
        refused(&mut invoke(function, &[argument]), &[&wrong, "; "]);
    }
    let deep = "[".repeat(100_000);
    refused(&mut invoke("list", &[&deep]), &["nesting too deep"]);
}

#[test]
fn invalid_calls_are_refused() {
    let parts = ["function \"add\" of type func(a: u32, b: u32) -> u32 takes 2 arguments, 1 were"];
    refused(&mut invoke("add", &["1"]), &parts);
    refused(&mut invoke("add", &["1", "2", "3"]), &["3 were given"]);
    let parts = [
        "exports no function \"sub\", it has ",
        "add",
        "name one of them",
    ];
    refused(&mut invoke("sub", &[]), &parts);
    // Two interfaces have it.
    refused(
        &mut invoke("twice", &["1", "2"]),
        &["exports no function \"twice\""],
    );
    refused(
        &mut invoke("other#sum", &["1", "2"]),
        &["exports no function"],
    );
    refused(
        &mut invoke("open", &["1"]),
        &["has a resource, which has no text form"],
    );
}

#[test]
fn components_that_are_no_commands_are_refused() {
    let parts = [
        "exports no wasi:cli/run, it has ",
        "name a function with --invoke",
    ];
    refused(aotrun().arg(component("values.wat")), &parts);
    let (_folder, program) = written("(component)");
    refused(
        aotrun().arg(&program),
        &["exports no wasi:cli/run, it has none"],
    );
    let parts = ["answers HTTP requests", "serve it with pirn-serve"];
    refused(aotrun().arg(guest("http-hello.wasm")), &parts);
    // Another type.
    let (_folder, program) = written(
        "(component
           (core module $m (func (export \"run\") (result i32) (i32.const 0)))
           (core instance $m (instantiate $m))
           (func $run (result u32) (canon lift (core func $m \"run\")))
           (instance $run (export \"run\" (func $run)))
           (export \"wasi:cli/run@0.2.0\" (instance $run)))",
    );
    refused(
        aotrun().arg(&program),
        &["wasi:cli/run", "is func() -> u32"],
    );
}

#[test]
fn missing_imports_are_named() {
    let calls = |import: &str| {
        format!(
            "(component
               (import {import})
               (core func $lowered (canon lower (func $i \"open\")))
               (core module $m (import \"w\" \"open\" (func)))
               (core instance (instantiate $m (with \"w\" (instance
                 (export \"open\" (func $lowered)))))))"
        )
    };
    let instance = "(instance $i (export \"open\" (func)))";
    for name in [
        "test:files/files",
        "wasi:cli/files@0.2.0",
        "wasi:cli/exit@0.3.0",
    ] {
        let (_folder, program) = written(&calls(&format!("{name:?} {instance}")));
        let parts = [&format!("it imports {name}#open, which aotrun does not have; ")[..]];
        refused(aotrun().arg(&program), &parts);
    }
    let (_folder, program) = written(
        "(component
           (import \"test:files/files\" (instance $i (export \"file\" (type (sub resource)))))
           (alias export $i \"file\" (type $file))
           (core func $drop (canon resource.drop $file))
           (core module $m (import \"w\" \"drop\" (func (param i32))))
           (core instance (instantiate $m (with \"w\" (instance
             (export \"drop\" (func $drop)))))))",
    );
    let parts = ["it imports the resource type test:files/files#file, which aotrun does not have"];
    refused(aotrun().arg(&program), &parts);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let hello = guest("hello-p2.wasm");
    let refuse = |options: &[&str], parts: &[&str]| {
        refused(aotrun().args(options).arg(&hello), parts);
    };
    refuse(
        &["--snapshot", "/nowhere/a.so"],
        &["is a component", "only core modules; "],
    );
    refuse(
        &["--http-allow", "http://a"],
        &["--http-allow: \"http://a\" is no server; "],
    );
    refuse(
        &["--http-allow", ""],
        &["--http-allow: \"\" is no server; "],
    );
    refuse(
        &["--net-allow", "example.com:80"],
        &["--net-allow: \"example.com:80\" is no rule; "],
    );
    refuse(
        &["--net-allow", "tcp-connect=a"],
        &["--net-allow: \"tcp-connect=a\" is no rule; "],
    );
    refuse(&["--dir", "/nowhere"], &["--dir /nowhere: cannot open"]);
    refuse(&["--env", "=a"], &["--env \"=a\" names no variable; "]);
    refuse(
        &["--invoke", "add"],
        &["exports no function \"add\", it has wasi:cli/run@"],
    );
    for option in ["--http-allow", "--net-allow"] {
        let value = ["lookup", "example.com"][usize::from(option == "--http-allow")];
        let mut command = aotrun();
        command.args([option, value]).arg(guest("hello.wasm"));
        refused(&mut command, &["is a core module", option, "remove it"]);
    }
}

/// The guest returns an error if it gets no TCP socket.
#[test]
fn sockets_are_there_if_addresses_are_allowed() {
    let cases = [
        (&[][..], 1),
        (&["lookup"], 1),
        (&["udp-bind=loopback"], 1),
        (&["tcp-connect=loopback:80"], 0),
        (&["lookup", "tcp-listen=[::1]:0"], 0),
    ];
    for (rules, code) in cases {
        let mut command = aotrun();
        for rule in rules {
            command.args(["--net-allow", rule]);
        }
        let output = run(command.arg(component("socket.wat")), "");
        assert_eq!(
            (stderr(&output).as_str(), output.status.code()),
            ("", Some(code)),
            "{rules:?}"
        );
    }
}

#[test]
fn what_a_run_used_is_printed() {
    let mut command = aotrun();
    command.args(["--usage", "--timings", "--fuel", "1000000"]);
    let output = run(command.arg(guest("hello-p2.wasm")), "");
    assert_eq!(stdout(&output), "hello from a slot\n");
    let said = stderr(&output);
    let names: Vec<_> = said
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    for name in [
        "compile",
        "load",
        "instantiate",
        "run",
        "teardown",
        "fuel",
        "cpu_us",
        "host_calls",
        "memory_0_bytes_peak",
    ] {
        assert!(names.contains(&name), "{name} is not in {said}");
    }
}
