//! The program `pirn-serve`: what it says, what it refuses, and how it ends.

mod common;

use common::guest;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn serve() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pirn-serve"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends the program with the test, however that ends.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let module = guest("web-hello.wasm");
    let mut command = serve();
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--deadline",
        "20s",
        "--slots",
        "2",
        "--route",
    ]);
    command.arg(format!("/hello={}", module.display()));
    let mut serving = Serving(command.spawn().expect("it starts"));
    let stdout = serving.0.stdout.take().expect("a pipe was asked for");
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it says where it listens");
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .expect("an address");
    let mut client = TcpStream::connect(address).expect("it listens");
    let request = b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    client.write_all(request).expect("it listens");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello from a slot\n"), "{answer}");
    let id = serving.0.id().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status();
    assert!(told.expect("there is a kill").success());
    assert!(serving.0.wait().expect("it ends").success());
    let mut log = String::new();
    let stderr = serving.0.stderr.take().expect("a pipe was asked for");
    BufReader::new(stderr)
        .read_to_string(&mut log)
        .expect("text");
    assert!(
        log.contains("2 slots (2 free)") && log.contains("stopping"),
        "{log}"
    );
}

/// What it says when it does not serve: one line.
fn refusal(args: &[&str]) -> String {
    let output = serve().args(args).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn what_it_cannot_serve_is_named() {
    let hello = format!("/={}", guest("web-hello.wasm").display());
    let flood = format!("/={}", guest("flood.wat").display());
    let manifest = format!("/={}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let missing = refusal(&["--log", "off", "--route", "/=nowhere.so"]);
    assert!(missing.starts_with("pirn-serve: nowhere.so: "), "{missing}");
    let no_module = refusal(&["--log", "off", "--route", &manifest]);
    assert!(no_module.contains("Cargo.toml"), "{no_module}");
    let small = ["--log", "off", "--memory-max", "64KiB", "--route", &flood];
    let small = refusal(&small);
    assert!(
        small.contains("guest 0: module needs 2 pages of memory, slots hold 1"),
        "{small}"
    );
    let slots = refusal(&["--log", "off", "--slots", "0", "--route", &hello]);
    assert!(slots.contains("`slots` is 0"), "{slots}");
    let routes = ["--log", "off", "--route", "/metrics=x", "--route", &hello];
    assert!(
        refusal(&routes).contains("x: "),
        "the module is looked at first"
    );
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
