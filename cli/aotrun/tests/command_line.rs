//! The command line of `aotrun`: runs, refusals and messages.

use crate::common;

use common::{aotrun, guest, run, stderr, stdout};
use pirn_format::cpu::Arch;
use pirn_testing::retry::with_longer_limits;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// A temporary folder with a module in the text format.
fn module(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("guest.wat");
    fs::write(&path, text).expect("room for a module");
    (folder, path)
}

/// Checks that `aotrun` failed with exit code 1 and one line that starts with its name and contains
/// all parts.
fn refused(command: &mut Command, parts: &[&str]) {
    let output = run(command, "");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("aotrun: ") && said.ends_with('\n'),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert_eq!(stdout(&output), "");
}

/// Compiles a program to a shared object, as `aotc` does.
fn compiled(program: &Path) -> Vec<u8> {
    let bytes = fs::read(program).expect("the guest is there");
    let wasm = pirn_compiler::parse_text(&bytes).expect("the guest is well-formed");
    pirn_compiler::compile(&wasm, &pirn_compiler::Options::default()).expect("the guest is valid")
}

fn invoke(program: &Path, function: &str, arguments: &[&str]) -> Output {
    run(
        aotrun()
            .arg("--invoke")
            .arg(function)
            .arg(program)
            .arg("--")
            .args(arguments),
        "",
    )
}

#[test]
fn a_shared_object_runs_without_compilation() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let so = folder.path().join("hello.so");
    fs::write(&so, compiled(&guest("hello.wasm"))).expect("room for a module");
    let output = run(aotrun().arg(&so), "");
    assert_eq!(stdout(&output), "hello from a slot\n");
}

#[test]
fn a_shared_object_with_debug_information_behaves_equally() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let guest = guest("lines.wasm");
    let wasm = fs::read(&guest).expect("the guest is there");
    let mut options = pirn_compiler::Options::default();
    options.debug_info = true;
    let lined = pirn_compiler::compile(&wasm, &options).expect("the guest is valid");
    let plain = compiled(&guest);
    assert!(lined.len() > plain.len());
    // The second run ends with a division by zero and a backtrace.
    for (rounds, code) in [("1000", Some(0)), ("0", Some(134))] {
        let [lined, plain] = [("lined.so", &lined), ("plain.so", &plain)].map(|(name, so)| {
            let path = folder.path().join(name);
            fs::write(&path, so).expect("room for a module");
            let output = invoke(&path, "work", &[rounds]);
            assert_eq!(output.status.code(), code);
            (stdout(&output), stderr(&output))
        });
        assert_eq!(lined, plain, "{rounds} rounds");
    }
}

#[test]
fn functions_are_invoked_with_typed_arguments() {
    let sum = invoke(&guest("add.wat"), "add", &["2147483647", "1"]);
    assert_eq!(stdout(&sum), "-2147483648\n");
    let sum = invoke(&guest("add.wat"), "add", &["4294967295", "-1"]);
    assert_eq!(stdout(&sum), "-2\n");
    assert_eq!(
        stdout(&invoke(&guest("fib.wasm"), "fib", &["20"])),
        "6765\n"
    );
    let (_folder, program) = module(
        "(module (func (export \"f\") (param i64 f32 f64) (result f64 f32 i64)
           local.get 2 local.get 1 local.get 0))",
    );
    assert_eq!(
        stdout(&invoke(&program, "f", &["-9", "0.5", "1e300"])),
        format!("{}\n0.5\n-9\n", 1e300)
    );
}

#[test]
fn invalid_calls_are_refused() {
    let call = |function: &str, arguments: &[&str]| {
        let mut command = aotrun();
        command
            .arg("--invoke")
            .arg(function)
            .arg(guest("add.wat"))
            .arg("--")
            .args(arguments);
        command
    };
    refused(
        &mut call("sub", &["1", "2"]),
        &["exports no function \"sub\"", "it has add"],
    );
    refused(
        &mut call("add", &["1"]),
        &["takes 2 arguments, 1 were given"],
    );
    refused(
        &mut call("add", &["1", "two"]),
        &["argument \"two\" is not a value of type i32"],
    );
    refused(
        &mut call("add", &["1", "4294967296"]),
        &["argument \"4294967296\" is not a value of type i32"],
    );
    refused(
        aotrun().arg(guest("add.wat")),
        &["exports no function \"_start\"", "--invoke"],
    );
}

#[test]
fn aotrun_exits_with_the_guests_exit_code() {
    for (code, expected) in [(0, 0), (7, 7), (125, 125), (134, 134), (255, 255), (256, 0)] {
        let (_folder, program) = module(&format!(
            "(module (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
               (func (export \"_start\") (call $exit (i32.const {code})) unreachable))"
        ));
        let output = run(aotrun().arg(program), "");
        assert_eq!(output.status.code(), Some(expected), "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn an_uncaught_exception_is_reported_with_its_backtrace() {
    let (_folder, program) = module(
        "(module $guest (tag $t (export \"oops\") (param i32 f64)) (tag $u)
           (func $thrower (param i32) (throw $t (local.get 0) (f64.const 1.5)))
           (func $passes (export \"run\") (param i32)
             (block $u (try_table (catch $u $u) (call $thrower (local.get 0)))))
           (func (export \"nameless\") (throw $u)))",
    );
    let output = invoke(&program, "run", &["7"]);
    assert_eq!(output.status.code(), Some(134));
    let said = stderr(&output);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "aotrun: uncaught exception of tag oops (7, 1.5)");
    assert!(lines[1].contains("guest!thrower at 0x"), "{said}");
    assert!(lines[2].contains("guest!passes at 0x"), "{said}");
    assert_eq!(lines.len(), 3, "{said}");
    let output = invoke(&program, "nameless", &[]);
    assert!(stderr(&output).starts_with("aotrun: uncaught exception ()\n"));
}

#[test]
fn a_trap_is_reported_with_its_backtrace() {
    let output = invoke(&guest("traps.wat"), "nested", &[]);
    assert_eq!(output.status.code(), Some(134));
    let said = stderr(&output);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "aotrun: trap: unreachable");
    for (line, name) in lines[1..].iter().zip(["inner", "middle", "outer"]) {
        assert!(line.contains(&format!(": {name} at 0x")), "{said}");
    }
    assert_eq!(lines.len(), 4);
}

#[test]
fn endless_recursion_traps_with_any_stack_size() {
    for stack in ["16KiB", "1MiB", "8MiB"] {
        let mut command = aotrun();
        command
            .args(["--stack", stack, "--invoke", "stack_overflow"])
            .arg(guest("traps.wat"));
        let output = run(&mut command, "");
        assert_eq!(
            output.status.code(),
            Some(134),
            "{stack}: {}",
            stderr(&output)
        );
        assert!(stderr(&output).starts_with("aotrun: trap: call stack exhausted\n"));
    }
}

#[test]
fn a_deadline_ends_an_endless_program() {
    let forever = "(loop $l (br $l))";
    let programs = [
        format!("(module $m (func $f (export \"_start\") {forever}))"),
        format!("(module $m (func (export \"_start\")) (func $f {forever}) (start $f))"),
        format!(
            "(module $m (func (export \"_start\")) (func $f (export \"_initialize\") {forever}))"
        ),
    ];
    for text in programs {
        let (_folder, program) = module(&text);
        // On a busy machine the deadline may pass before the guest is entered, and the message
        // names no function.
        with_longer_limits(Duration::from_millis(20), |limit| {
            let deadline = format!("{}ms", limit.as_millis());
            let output = run(aotrun().args(["--deadline", &deadline]).arg(&program), "");
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(124), "{said}");
            let late = format!("guest ran past its deadline of {limit:?}");
            assert!(
                said.contains(&late) && said.ends_with("; raise --deadline\n"),
                "{said}"
            );
            said.contains(&format!("{late} in m!f")).then_some(())
        });
    }
    let output = run(
        aotrun()
            .args(["--deadline", "60m"])
            .arg(guest("hello.wasm")),
        "",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn fuel_ends_an_endless_program_and_is_reported() {
    let forever = "(loop $l (br $l))";
    for text in [
        format!("(module $m (func $f (export \"_start\") {forever}))"),
        format!("(module $m (func (export \"_start\")) (func $f {forever}) (start $f))"),
    ] {
        let (_folder, program) = module(&text);
        let output = run(aotrun().args(["--fuel", "100000"]).arg(program), "");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(124), "{said}");
        assert!(
            said.starts_with("aotrun: trap: out of fuel in m!f")
                && said.ends_with("; raise --fuel\n")
                && said.lines().count() == 1,
            "{said}"
        );
    }
    let (_folder, program) = module("(module (func (export \"f\") (drop (i32.const 1))))");
    let timed = |arguments: &[&str], program: &Path| {
        let mut command = aotrun();
        command.args(["--timings", "--invoke", "f"]);
        stderr(&run(command.args(arguments).arg(program), ""))
    };
    for fuel in ["1", "18446744073709551615"] {
        let said = timed(&["--fuel", fuel], &program);
        assert_eq!(
            said.lines().last(),
            Some("fuel                   1"),
            "{said}"
        );
    }
    assert!(!timed(&[], &program).contains("fuel"));
    // A compiled module cannot be changed to count fuel or to stop counting.
    let so = program.with_extension("so");
    fs::write(&so, compiled(&program)).expect("room for a module");
    refused(
        aotrun().args(["--fuel", "9", "--invoke", "f"]).arg(&so),
        &["guest.so", "does not count fuel", "`aotc --fuel`"],
    );
    let mut options = pirn_compiler::Options::default();
    options.fuel = true;
    let bytes = fs::read(&program).expect("the module is there");
    let wasm = pirn_compiler::parse_text(&bytes).expect("it is well-formed");
    let counting = pirn_compiler::compile(&wasm, &options).expect("it is valid");
    fs::write(&so, counting).expect("room for a module");
    for arguments in [&[][..], &["--fuel", "5"]] {
        let said = timed(arguments, &so);
        assert_eq!(
            said.lines().last(),
            Some("fuel                   1"),
            "{said}"
        );
    }
}

#[test]
fn usage_is_reported_however_the_guest_ends() {
    let text = r#"(module (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
      (memory 1 9)
      (func (export "returns") (drop (call $yield)) (drop (memory.grow (i32.const 2))))
      (func (export "traps") (drop (call $yield)) (drop (memory.grow (i32.const 2))) (unreachable)))"#;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("guest.wat");
    std::fs::write(&program, text).expect("room for a guest");
    for name in ["returns", "traps"] {
        let output = run(
            aotrun()
                .args(["--usage", "--fuel", "99", "--invoke", name])
                .arg(&program),
            "",
        );
        let said = stderr(&output);
        let number = |name: &str| {
            let mut lines = said.lines().filter_map(|line| line.split_once(' '));
            let (_, number) = lines.find(|(found, _)| *found == name)?;
            number.trim().parse::<u64>().ok()
        };
        assert_eq!(number("host_calls"), Some(1), "{said}");
        assert_eq!(number("memory_0_bytes_peak"), Some(3 << 16), "{said}");
        assert_eq!(number("suspended_us"), Some(0), "{said}");
        // Two clocks, of which the system corrects one's rate.
        let [running, cpu] = ["running_us", "cpu_us"].map(|name| number(name).expect("a time"));
        assert!(running + running / 100 + 10 >= cpu, "{said}");
        assert!(number("fuel") > Some(0), "{said}");
        assert!(
            number("bytes_read").is_some() && number("bytes_written").is_some(),
            "{said}"
        );
    }
}

#[test]
fn every_phase_is_timed() {
    let output = run(aotrun().arg("--timings").arg(guest("hello.wasm")), "");
    let said = stderr(&output);
    let phases: Vec<_> = said
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        phases,
        ["compile", "load", "instantiate", "run", "teardown"]
    );
    let mut all_us = 0.0;
    for line in said.lines() {
        let parts: Vec<_> = line.split_whitespace().collect();
        let us = parts[1].parse::<f64>().ok().filter(|us| *us >= 0.0);
        all_us += us.unwrap_or_else(|| panic!("{line}"));
        assert_eq!(parts[2], "us", "{line}");
    }
    // A single phase may be shorter than what is printed.
    assert!(all_us > 0.0, "{said}");
}

#[test]
fn files_other_than_modules_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("room for a file");
        path
    };
    refused(
        aotrun().arg(folder.path().join("none.wasm")),
        &["none.wasm", "cannot read"],
    );
    refused(aotrun().arg(folder.path()), &["cannot read"]);
    refused(aotrun().arg(file("empty.wasm", b"")), &["empty"]);
    refused(
        aotrun().arg(file("empty.so", b"")),
        &["it is empty", "aotc"],
    );
    refused(
        aotrun().arg(file("garbage.wasm", b"\xff\x00garbage")),
        &["garbage.wasm"],
    );
    refused(
        aotrun().arg(file("garbage.so", b"garbage")),
        &["not an ELF file", "aotc"],
    );
    refused(
        aotrun().arg(file("wasm.so", b"\0asm\x01\0\0\0")),
        &["it is a WebAssembly module"],
    );
    refused(
        aotrun().arg(file("wrong.wat", b"(module (func i32.cons))")),
        &["wrong.wat", "1:"],
    );
    refused(
        aotrun().arg(file("invalid.wat", b"(module (func i32.add))")),
        &["invalid", "offset"],
    );
    let so = compiled(&guest("add.wat"));
    refused(
        aotrun().arg(file("cut.so", &so[..so.len() - 1])),
        &["damaged", "bytes"],
    );
    let mut changed = so.clone();
    *changed.last_mut().expect("it is not empty") ^= 1;
    refused(
        aotrun().arg(file("changed.so", &changed)),
        &["damaged", "content hash"],
    );
    let ls = fs::read("/proc/self/exe").expect("this program's file is readable");
    refused(
        aotrun().arg(file("program.so", &ls)),
        &["not a compiled module"],
    );
}

#[test]
fn damaged_modules_and_modules_for_other_targets_are_refused() {
    let wasm = fs::read(guest("fib.wasm")).expect("the guest is there");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("other.so");
    let here = Arch::from_name(std::env::consts::ARCH).expect("a target of ours");
    for arch in Arch::ALL {
        let options = pirn_compiler::Options::new(arch);
        let so = pirn_compiler::compile(&wasm, &options).expect("the guest is valid");
        if arch != here {
            let says =
                format!("is for {arch}, this machine is {here}; compile it with --target {here}");
            fs::write(&path, &so).expect("room for a module");
            refused(aotrun().arg(&path), &[&says]);
        }
        // Damage in the header, in the code, and after all segments.
        for at in [18, 700, so.len() / 2, so.len() - 1] {
            let mut changed = so.clone();
            changed[at] ^= 0x10;
            fs::write(&path, &changed).expect("room for a module");
            refused(aotrun().arg(&path), &["other.so"]);
        }
        for len in [64, 1000, so.len() / 2, so.len() - 1] {
            fs::write(&path, &so[..len]).expect("room for a module");
            refused(aotrun().arg(&path), &["other.so", "damaged"]);
        }
    }
}

#[test]
fn missing_imports_are_named() {
    let (_folder, program) =
        module("(module (import \"env\" \"f\" (func (param i32))) (func (export \"_start\")))");
    refused(
        aotrun().arg(program),
        &[
            "it imports env.f (a function (i32) -> ()), which aotrun does not have; call it",
            "with the crate pirn-runtime",
        ],
    );
    let (_folder, program) = module(
        "(module (import \"wasi_snapshot_preview1\" \"fd_close\" (func (param i64) (result i32)))
           (func (export \"_start\")))",
    );
    refused(
        aotrun().arg(program),
        &[
            "wasi_snapshot_preview1.fd_close is a function (i32) -> i32",
            "(i64) -> i32",
        ],
    );
    // Preview 1 requires a memory with 32-bit addresses.
    let (_folder, program) = module(
        "(module (import \"wasi_snapshot_preview1\" \"fd_close\" (func (param i32) (result i32)))
           (memory (export \"memory\") i64 1) (func (export \"_start\")))",
    );
    refused(
        aotrun().arg(program),
        &[
            "import wasi_snapshot_preview1.fd_close is of an interface with 32-bit addresses",
            "the module's memory is i64 1.. pages; compile the guest with a 32-bit memory",
        ],
    );
    let (_folder, program) = module("(module (memory 3) (func (export \"_start\")))");
    refused(
        aotrun().args(["--memory-max", "128KiB"]).arg(program),
        &["it needs 192 KiB of memory, --memory-max is 128 KiB; raise it"],
    );
}

#[test]
fn file_limits_give_the_guest_an_errno() {
    // Opens two files, writes to the second twice, and exits with the first errno.
    let text = r#"(module
      (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (memory (export "memory") 1)
      (data (i32.const 0) "ab")
      (func $must (param i32) (if (local.get 0) (then (call $exit (local.get 0)))))
      (func $make (param i32)
        (call $must (call $open (i32.const 3) (i32.const 0) (local.get 0) (i32.const 1) (i32.const 1) (i64.const 64)
          (i64.const 0) (i32.const 0) (i32.const 8))))
      (func (export "_start")
        (call $make (i32.const 0)) (call $make (i32.const 1))
        (i32.store (i32.const 20) (i32.const 5000))
        (call $must (call $write (i32.load (i32.const 8)) (i32.const 16) (i32.const 1) (i32.const 12)))
        (call $must (call $write (i32.load (i32.const 8)) (i32.const 16) (i32.const 1) (i32.const 12)))))"#;
    for (options, code) in [
        (&["--fd-max", "2"][..], 0),
        (&["--fd-max", "1"], 41),
        (&["--disk-max", "18192"], 0),
        (&["--disk-max", "13192"], 19),
        (&["--disk-max", "8KiB"], 19),
        (&[], 0),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("guest.wat");
        std::fs::write(&path, text).expect("room for a module");
        let mut command = aotrun();
        command
            .args(options)
            .arg("--dir")
            .arg(folder.path())
            .arg(&path);
        let output = run(&mut command, "");
        assert_eq!(output.status.code(), Some(code), "{options:?}");
    }
}

#[test]
fn impossible_options_are_refused() {
    let with = |option: &str, value: &str| {
        let mut command = aotrun();
        command.args([option, value]).arg(guest("hello.wasm"));
        command
    };
    refused(
        &mut with("--dir", "/no/such/dir::/data"),
        &["--dir /no/such/dir", "cannot open"],
    );
    refused(
        &mut with("--dir", "::/data:ro"),
        &[
            "--dir \"::/data:ro\" has an empty HOST",
            "HOST[::GUEST][:ro]",
        ],
    );
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (name, remedy) in [("data:ro", "data:ro/"), ("a::b", "a::b::GUEST")] {
        let path = folder.path().join(name);
        fs::create_dir(&path).expect("room for a directory");
        refused(
            &mut with("--dir", &path.display().to_string()),
            &["cannot open the directory", "; for ", remedy],
        );
    }
    let file = format!("{}::/data", guest("add.wat").display());
    refused(
        &mut with("--dir", &file),
        &["add.wat", "cannot open the directory"],
    );
    for text in ["", "=dir", "/data="] {
        refused(
            &mut with("--memory-dir", text),
            &["has an empty GUEST, DIR or TAR", "GUEST[=DIR|TAR]"],
        );
    }
    refused(
        &mut with("--memory-dir", "/data=/no/such/file"),
        &["--memory-dir /data=", "/no/such/file: No such file"],
    );
    let broken = folder.path().join("broken.tar");
    for (bytes, problem) in [
        (&b"no archive at all"[..], "the archive: "),
        (&[b'#'; 1024], "the archive: "),
        (&[0x1f, 0x8b, 8, 0], "compressed by gzip; decompress it"),
    ] {
        fs::write(&broken, bytes).expect("room for a file");
        let option = format!("/data={}", broken.display());
        refused(
            &mut with("--memory-dir", &option),
            &["--memory-dir /data=", problem],
        );
    }
    std::os::unix::net::UnixListener::bind(folder.path().join("socket")).expect("room");
    let option = format!("/data={}", folder.path().display());
    refused(
        &mut with("--memory-dir", &option),
        &["socket is a device, FIFO or socket"],
    );
    refused(
        &mut with("--env", "=x"),
        &["names no variable", "NAME=VALUE"],
    );
    refused(
        &mut with("--env", "PIRN_NOT_SET"),
        &["PIRN_NOT_SET", "give it a value"],
    );
    refused(
        &mut with("--stack", "1KiB"),
        &["`stack_bytes` is 1024, the allowed range is 16384 to"],
    );
    refused(
        &mut with("--memory-max", "5GiB"),
        &["`memory_bytes_max` is 5368709120"],
    );
    for (option, value) in [
        ("--memory-max", "lots"),
        ("--deadline", "soon"),
        ("--deadline", "0s"),
        ("--fuel", "much"),
        ("--fuel", "18446744073709551616"),
        ("--no-such-option", "1"),
    ] {
        let output = run(&mut with(option, value), "");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(option), "{}", stderr(&output));
    }
}

#[test]
fn segments_that_do_not_fit_are_traps() {
    for (text, code) in [
        (
            "(memory 1) (data (i32.const 65536) \"x\")",
            "out of bounds memory access",
        ),
        (
            "(table 1 funcref) (elem (i32.const 1) $f) (func $f)",
            "out of bounds table access",
        ),
    ] {
        let (_folder, program) = module(&format!("(module {text} (func (export \"_start\")))"));
        let output = run(aotrun().arg(program), "");
        assert_eq!(output.status.code(), Some(134), "{}", stderr(&output));
        assert_eq!(stderr(&output), format!("aotrun: trap: {code}\n"));
    }
}

#[test]
fn a_reactor_is_initialised_before_a_call() {
    let (_folder, program) = module(
        "(module (global $ready (mut i32) (i32.const 0))
           (func (export \"_initialize\") (global.set $ready (i32.const 5)))
           (func (export \"ready\") (result i32) (global.get $ready)))",
    );
    assert_eq!(stdout(&invoke(&program, "ready", &[])), "5\n");
}

#[test]
fn a_closed_pipe_causes_no_panic() {
    let mut child = aotrun()
        .args(["--invoke", "add"])
        .arg(guest("add.wat"))
        .args(["--", "1", "2"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(
        (stderr(&output).as_str(), output.status.code()),
        ("", Some(0))
    );
}

#[test]
fn invalid_command_lines_are_reported_in_one_line() {
    for (line, parts) in [
        (&[][..], &["<PROGRAM> is missing"][..]),
        (
            &["x.so", "--fuel", "all"],
            &["--fuel: \"all\" is not a number", "as in 1000000"],
        ),
        (
            &["x.so", "--stack", "3X"],
            &["--stack: \"3X\" is not a number of bytes"],
        ),
        (
            &["x.so", "--timing"],
            &["--timing is unknown; --timings is similar"],
        ),
        (&["x.so", "--dir"], &["--dir has no value"]),
    ] {
        refused(aotrun().args(line), parts);
        refused(aotrun().args(line), &["; see `aotrun --help`\n"]);
    }
}

/// Creates a file, prints the content of another one, and exits with the errno of the creation.
const WRITER: &str = r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "new") (data (i32.const 200) "old")
  (func (export "_start") (local $errno i32)
    (local.set $errno (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 3)
      (i32.const 1) (i64.const 66) (i64.const 0) (i32.const 0) (i32.const 8)))
    (if (call $open (i32.const 3) (i32.const 0) (i32.const 200) (i32.const 3)
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 8)) (then (unreachable)))
    (i32.store (i32.const 16) (i32.const 1000)) (i32.store (i32.const 20) (i32.const 100))
    (drop (call $read (i32.load (i32.const 8)) (i32.const 16) (i32.const 1) (i32.const 12)))
    (i32.store (i32.const 20) (i32.load (i32.const 12)))
    (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 12)))
    (call $exit (local.get $errno))))"#;

/// `--dir` with the suffix `:ro` gives read-only access, also for names that contain colons.
#[test]
fn a_directory_may_be_read_only() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let program = folder.path().join("writer.wat");
    fs::write(&program, WRITER).expect("room for a module");
    // The guest's name of the directory, the suffix on the command line, and the errno (`rofs` is
    // 69).
    for (name, behind, errno) in [
        ("a", ":ro", 69),
        ("b", "::/data:ro", 69),
        ("c", "::/data", 0),
        ("d", "", 0),
        ("e:ro", "/", 0),
        ("f:ro", "::/data", 0),
        ("g:ro", ":ro", 69),
        ("h::i", "::/data", 0),
        ("j::k", "::/data:ro", 69),
    ] {
        let dir = folder.path().join(name);
        fs::create_dir(&dir).expect("room for a directory");
        fs::write(dir.join("old"), name).expect("room for a file");
        let option = format!("{}{behind}", dir.display());
        let output = run(aotrun().args(["--dir", &option]).arg(&program), "");
        assert_eq!(
            output.status.code(),
            Some(errno),
            "{option}: {}",
            stderr(&output)
        );
        assert_eq!(stdout(&output), name);
        assert_eq!(dir.join("new").exists(), errno == 0, "{option}");
    }
}

/// A directory in memory is a copy of a directory or of an archive, and the guest's changes stay in
/// memory.
#[test]
fn a_directory_may_be_in_memory() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let program = folder.path().join("writer.wat");
    fs::write(&program, WRITER).expect("room for a module");
    let dir = folder.path().join("dir");
    fs::create_dir(&dir).expect("room for a directory");
    fs::write(dir.join("old"), "copied").expect("room for a file");
    let archive = folder.path().join("archive.tar");
    let mut builder = tar::Builder::new(fs::File::create(&archive).expect("room for a file"));
    builder
        .append_dir_all(".", &dir)
        .expect("room for an archive");
    builder.finish().expect("room for an archive");
    for source in [dir.clone(), archive] {
        let option = format!("/data={}", source.display());
        let output = run(aotrun().args(["--memory-dir", &option]).arg(&program), "");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stdout(&output), "copied");
    }
    assert!(!dir.join("new").exists());
    // The limit: `nospc` is 51. An empty directory has no file `old`.
    let option = format!("/data={}", dir.display());
    let limited = ["--memory-dir", &option, "--memory-dir-max", "1000"];
    assert_eq!(
        run(aotrun().args(limited).arg(&program), "").status.code(),
        Some(51)
    );
    // An empty directory has no file `old`, without which the guest traps.
    let output = run(aotrun().args(["--memory-dir", "/data"]).arg(&program), "");
    assert_eq!(output.status.code(), Some(134));
}

#[test]
fn a_component_may_have_a_directory_in_memory() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("input.txt"), "one\ntwo\n").expect("room for a file");
    let option = format!("/data={}", folder.path().display());
    let mut command = aotrun();
    command.args(["--memory-dir", &option, "--env", "NAME=x"]);
    command.arg(guest("tour-rust-p2.wasm")).arg("one");
    let output = run(&mut command, "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in ["input.txt: 8 bytes", "back: the same"] {
        assert!(stdout(&output).contains(line), "{}", stdout(&output));
    }
    let names = fs::read_dir(folder.path()).expect("a directory").count();
    assert_eq!(names, 1);
}
