//! The program `pirn-serve`: its messages, its refusals, and its end.

use crate::common;
use crate::common::serving;

use common::guest;
use pirn_cli::text;
use serving::{PATIENT, Serving, get, refusal, serve};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

/// A guest without a response that writes a line to its standard error which imitates a line of the
/// log.
const COMPLAINS: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\19\00\00\00")
  (data (i32.const 16) "woe\1b[31m\rERROR me\u{9b}\u{202e}\u{2028}")
  (func (export "_start")
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let complains = folder.path().join("complains.wat");
    std::fs::write(&complains, COMPLAINS).expect("room for a module");
    let mut command = serve();
    command.args(["--listen", "127.0.0.1:0"]).args(PATIENT);
    command.args(["--slots", "2"]);
    for (path, module) in [("/hello", guest("web-hello.wasm")), ("/woe", complains)] {
        command.arg("--route");
        command.arg(format!("{path}={}", module.display()));
    }
    let serving = Serving::start(command);
    let address = serving.address.as_str();
    let answer = get(address, "/hello");
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello from a slot\n"), "{answer}");
    let answer = get(address, "/woe");
    assert!(answer.starts_with("HTTP/1.0 502 "), "{answer}");
    assert!(!answer.contains("woe"), "the client is not told: {answer}");
    let log = serving.stop();
    for part in [
        "2 slots (2 free)",
        r#"line="woe\u{1b}[31m\rERROR me\u{9b}\u{202e}\u{2028}""#,
        r#"outcome="malformed""#,
        "stopping",
    ] {
        assert!(log.contains(part), "{part} in:\n{log}");
    }
    let is_plain = |char| char == '\n' || text::is_plain(char);
    assert!(log.chars().all(is_plain), "{log:?}");
}

/// A guest without a response that writes 8,000 empty lines to its standard error.
const NOISY: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\40\1f\00\00")
  (func (export "_start")
    (memory.fill (i32.const 16) (i32.const 10) (i32.const 8000))
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

#[test]
fn guests_do_not_fill_the_log() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (noisy, log) = (folder.path().join("noisy.wat"), folder.path().join("log"));
    std::fs::write(&noisy, NOISY).expect("room for a module");
    let mut command = serve();
    command.args(PATIENT);
    command.args(["--listen", "127.0.0.1:0", "--log-max", "4KiB", "--route"]);
    command.arg(format!("/={}", noisy.display()));
    command.stderr(std::fs::File::create(&log).expect("room for a log"));
    let serving = Serving::start(command);
    let address = serving.address.as_str();
    let start = Instant::now();
    let mut told = String::new();
    // Repeat until a second in which the server suppressed lines is over.
    while !told.contains("not logged") {
        assert!(start.elapsed() < common::PATIENCE, "{told}");
        let answer = get(address, "/");
        assert!(answer.starts_with("HTTP/1.0 502 "), "{answer}");
        told = std::fs::read_to_string(&log).expect("text");
    }
    // An upper bound, which holds on a machine of any speed.
    let seconds = start.elapsed().as_secs() as usize + 2;
    // The server itself logs few lines.
    let most = seconds * (4 << 10) + 2000;
    assert!(
        told.len() <= most,
        "{} bytes, not {most}:\n{told}",
        told.len()
    );
    let metrics = get(address, "/metrics");
    let dropped = metrics.lines().find_map(|line| {
        let count = line.strip_prefix("pirn_log_lines_dropped_total ")?;
        count.parse::<u64>().ok()
    });
    assert!(dropped.is_some_and(|lines| lines > 7_000), "{metrics}");
}

#[test]
fn connections_beyond_the_descriptors_wait() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("log");
    let mut command = Command::new("sh");
    let program = serve();
    command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]);
    command.arg(program.get_program()).args(program.get_args());
    command.args(["--listen", "127.0.0.1:0", "--slots", "2"]);
    command.args(PATIENT);
    command.arg("--route");
    command.arg(format!("/={}", guest("web-hello.wasm").display()));
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::fs::File::create(&log).expect("room for a log"));
    let serving = Serving::start(command);
    let address = serving.address.as_str();
    let connect = |_| TcpStream::connect(address).expect("it listens");
    // From here on, because the server may log before the last connection is made.
    let start = Instant::now();
    let idle: Vec<_> = (0..100).map(connect).collect();
    let told = || std::fs::read_to_string(&log).expect("text");
    while !told().contains("no connection accepted") {
        assert!(start.elapsed() < common::PATIENCE, "{}", told());
        std::thread::yield_now();
    }
    drop(idle);
    let answer = get(address, "/");
    assert!(answer.ends_with("hello from a slot\n"), "{answer}");
    // The server logs this at most twenty times a second: an upper bound on a machine of any speed.
    let lines = told().matches("no connection accepted").count() as u64;
    let most = 20 * (start.elapsed().as_secs() + 1) + 1;
    assert!(lines <= most, "{lines} lines, not {most}");
}

/// A component that imports a function.
const IMPORTS_FUNC: &str = r#"(component
  (import "f" (func $f))
  (core func $f (canon lower (func $f)))
  (core module $m (import "" "f" (func)))
  (core instance (instantiate $m (with "" (instance (export "f" (func $f)))))))"#;

/// A component that imports a type of resources.
const IMPORTS_RESOURCE: &str = r#"(component
  (import "t" (type $t (sub resource)))
  (core func $f (canon resource.drop $t))
  (core module $m (import "" "f" (func (param i32))))
  (core instance (instantiate $m (with "" (instance (export "f" (func $f)))))))"#;

#[test]
fn an_import_that_it_does_not_provide_is_named() {
    let module = "(module (import \"env\" \"f\" (func)) (func (export \"_start\")))";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("imports.wat");
    for (text, import) in [
        (module, "env.f (a function () -> ())"),
        (IMPORTS_FUNC, "f"),
        (IMPORTS_RESOURCE, "the resource type t"),
    ] {
        std::fs::write(&path, text).expect("a file");
        let route = format!("/={}", path.display());
        let said = refusal(&["--log", "off", "--route", &route]);
        let expected =
            format!("--route /: it imports {import}, which is not provided; remove the import");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn what_it_cannot_serve_is_named() {
    let hello = format!("/={}", guest("web-hello.wasm").display());
    let flood = format!("/={}", guest("flood.wat").display());
    let manifest = format!("/={}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let missing = refusal(&["--log", "off", "--route", "/=nowhere.so"]);
    let named = "pirn-serve: --route /: nowhere.so: ";
    assert!(missing.starts_with(named), "{missing}");
    let no_module = refusal(&["--log", "off", "--route", &manifest]);
    assert!(no_module.contains("Cargo.toml"), "{no_module}");
    let small = ["--log", "off", "--memory-max", "64KiB", "--route", &flood];
    let small = refusal(&small);
    assert!(
        small.contains("--route /: it needs 128 KiB of memory, --memory-max is 64 KiB; raise it"),
        "{small}"
    );
    let slots = refusal(&["--log", "off", "--slots", "0", "--route", &hello]);
    assert!(slots.contains("\"0\" is not a count"), "{slots}");
    let routes = ["--log", "off", "--route", "/metrics=x", "--route", &hello];
    let metrics = refusal(&routes);
    assert!(metrics.contains("a path of the server itself"), "{metrics}");
    let none = refusal(&["--log", "off"]);
    assert!(none.contains("give --route PATH=MODULE"), "{none}");
}

#[test]
fn help_has_the_interface() {
    let output = serve().arg("--help").output().expect("it starts");
    let help = String::from_utf8(output.stdout).expect("text");
    for part in [
        "RFC 3875",
        "--memory-max",
        "--answer-max",
        "504",
        "SIGTERM",
        "/metrics",
    ] {
        assert!(help.contains(part), "{part} in:\n{help}");
    }
}

/// A program that appends three bytes to `/tmp/log`, and prints the file's size and an errno.
const APPENDS: &str = r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get" (func $stat (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 32) "\64\00\00\00\03\00\00\00" "\c8\00\00\00\2b\00\00\00")
  (data (i32.const 100) "log")
  (data (i32.const 200) "Content-Type: text/plain\0a\0asize: 0 errno: 0\0a")
  (func $digit (param $at i32) (param $number i32)
    (i32.store8 (local.get $at) (i32.add (i32.const 48) (local.get $number))))
  (func (export "_start") (local $errno i32)
    (local.set $errno (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 3)
      (i32.const 1) (i64.const 0x200040) (i64.const 0) (i32.const 1) (i32.const 16)))
    (if (i32.eqz (local.get $errno)) (then
      (local.set $errno
        (call $write (i32.load (i32.const 16)) (i32.const 32) (i32.const 1) (i32.const 20)))
      (drop (call $stat (i32.load (i32.const 16)) (i32.const 304)))))
    (call $digit (i32.const 232) (i32.load (i32.const 336)))
    (call $digit (i32.const 241) (local.get $errno))
    (drop (call $write (i32.const 1) (i32.const 40) (i32.const 1) (i32.const 20)))))"#;

/// A folder with a program and with content for directories in memory, as a folder and an archive.
fn folder_with_content() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("content")).expect("room for a folder");
    std::fs::write(path("content/note.txt"), "hello").expect("room for a file");
    std::fs::write(path("appends.wat"), APPENDS).expect("room for a module");
    let tar = Command::new("tar")
        .arg("-cf")
        .args([
            path("content.tar"),
            "-C".into(),
            path("content"),
            ".".into(),
        ])
        .status();
    assert!(tar.expect("there is a tar").success());
    folder
}

#[test]
fn each_request_has_files_of_its_own() {
    let folder = folder_with_content();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for content in [path("content"), path("content.tar")] {
        let mut command = serve();
        command.args(["--listen", "127.0.0.1:0"]).args(PATIENT);
        command.args(["--memory-dir", "/tmp", "--memory-dir"]);
        command.arg(format!("/data={content}"));
        for (route, module) in [
            ("/component", guest("http-files.wasm").display().to_string()),
            ("/program", path("appends.wat")),
        ] {
            command.arg("--route").arg(format!("{route}={module}"));
        }
        let serving = Serving::start(command);
        for _ in 0..3 {
            let answer = serving.get("/component");
            assert!(
                answer.ends_with("\r\n\r\nnote: hello, lines: 1\n"),
                "{answer:?}"
            );
            let answer = serving.get("/program");
            assert!(answer.ends_with("\r\n\r\nsize: 3 errno: 0\n"), "{answer:?}");
        }
        serving.stop();
    }
    let note = std::fs::read(path("content/note.txt")).expect("it is there");
    assert_eq!(note, b"hello");
}

#[test]
fn memory_for_files_is_limited() {
    let folder = folder_with_content();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut command = serve();
    command.args(["--listen", "127.0.0.1:0"]).args(PATIENT);
    command.args(["--memory-dir", "/tmp", "--memory-dir-max", "512", "--route"]);
    command.arg(format!("/={}", path("appends.wat")));
    let serving = Serving::start(command);
    let answer = serving.get("/");
    // Errno `nospc` is 51.
    assert!(answer.ends_with("size: 0 errno: c\n"), "{answer:?}");
    serving.stop();
}

#[test]
fn directories_in_memory_that_cannot_be_made_are_named() {
    let folder = folder_with_content();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let route = format!("/={}", path("appends.wat"));
    for (dirs, why) in [
        (
            vec!["tmp".to_owned()],
            "write it as in /tmp or /data=assets.tar",
        ),
        (
            vec!["/tmp=".to_owned()],
            "write it as in /tmp or /data=assets.tar",
        ),
        (
            vec!["/tmp".to_owned(), "/tmp".to_owned()],
            "\"/tmp\" is given twice",
        ),
        (vec![format!("/a={}", path("none"))], "none: No such file"),
        (
            vec![format!("/a={}", path("appends.wat"))],
            "--memory-dir /a",
        ),
    ] {
        let mut args = vec!["--route", &route];
        for dir in &dirs {
            args.extend(["--memory-dir", dir]);
        }
        let said = refusal(&args);
        assert!(said.contains(why), "{why} in {said}");
    }
}
