//! `pirn-serve --trust`: what is served, at the start and after reloads, and what is refused.

use crate::common;
use crate::common::serving;
use pirn_testing::signing;

use common::guest;
use pirn_server::load::metric;
use pirn_signature::signature_path;
use serving::{Serving, refusal, serve};
use signing::{Pair, public_text};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A guest in the text format that answers with a word.
fn answering(word: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write"
            (func $fd_write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "\10\00\00\00\1c\00\00\00")
          (data (i32.const 16) "Content-Type: text/plain\n\n{word}")
          (func (export "_start")
            (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    );
    assert_eq!(word.len(), 2);
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let options = pirn_compiler::Options::default();
    pirn_compiler::compile(&wasm, &options).expect("it is valid")
}

/// A folder with a key `a.pub`, a signed guest `guest.so` and a configuration that trusts the key.
struct Folder {
    folder: TempDir,
    key: Pair,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let folder = Self {
            folder,
            key: Pair::new(),
        };
        folder.write("a.pub", public_text(&folder.key.pair));
        folder.sign("guest.so", &answering("v1"));
        folder.configure("trust = ['a.pub']\n");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        // As a deployment does: readers find the old one or the new one.
        let next = self.path("next");
        fs::write(&next, bytes).expect("room");
        fs::rename(next, self.path(name)).expect("the same folder");
    }

    fn sign(&self, name: &str, bytes: &[u8]) {
        let signature = signature_path(Path::new(name));
        self.write(&signature.display().to_string(), self.key.sign(bytes));
        self.write(name, bytes);
    }

    fn configure(&self, first: &str) {
        let rest = "listen = '127.0.0.1:0'\ndeadline = '3600s'\nwarm_deadline = '3600s'\n\
                    [[route]]\npath = '/'\nmodule = 'guest.so'\n";
        self.write("serve.toml", format!("{first}{rest}"));
    }

    /// The one line with which the program refuses these arguments.
    fn refusal(&self, args: &[&str]) -> String {
        let route = format!("/={}", self.text("guest.so"));
        refusal(&[&["--check-config", "--log", "off", "--route", &route], args].concat())
    }
}

fn body(response: &str) -> &str {
    response.split("\r\n\r\n").nth(1).unwrap_or(response)
}

#[test]
fn a_signed_guest_is_served_as_it_was_when_it_was_checked() {
    let folder = Folder::new();
    let mut command = serve();
    command
        .arg("--config")
        .arg(folder.path("serve.toml"))
        .args(["--log", "off"]);
    let serving = Serving::start(command);
    assert_eq!(body(&serving.get("/")), "v1");
    // In place, as no deployment should do it: a mapping of the file would have the new bytes.
    let (old, new) = (answering("v1"), answering("v9"));
    assert_eq!(old.len(), new.len());
    fs::write(folder.path("guest.so"), new).expect("it may be written");
    assert_eq!(body(&serving.get("/")), "v1");
    serving.stop();
}

#[test]
fn nothing_unsigned_is_served_from_the_start() {
    let folder = Folder::new();
    let key = folder.text("a.pub");
    let trust = ["--trust", &key];
    let module = folder.text("guest.so");
    let other = Pair::new();
    folder.write("b.pub", public_text(&other.pair));
    let refused = |args: &[&str], parts: &[&str]| {
        let error = folder.refusal(args);
        assert_eq!(error.lines().count(), 1, "{error}");
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
        let named = error
            .replace(&format!("{module}.minisig"), "")
            .matches(&module)
            .count();
        assert!(named <= 1, "the module is named {named} times in {error}");
    };
    let good = serve()
        .args(["--check-config", "--log", "off", "--route"])
        .args([
            format!("/={module}").as_str(),
            "--trust",
            &folder.text("b.pub"),
            "--trust",
            &key,
        ])
        .output();
    assert!(good.expect("it starts").status.success());
    refused(
        &["--trust", &folder.text("b.pub")],
        &["--route /: ", "it is signed with key "],
    );
    folder.write("guest.so", answering("v2"));
    refused(
        &trust,
        &["--route /: ", &module, "it has hash ", "; sign it again"],
    );
    let bytes = answering("v1");
    folder.write("guest.so", &bytes[..bytes.len() / 2]);
    refused(&trust, &["its signature is of "]);
    folder.write("guest.so", &bytes);
    fs::remove_file(folder.path("guest.so.minisig")).expect("it is there");
    refused(
        &trust,
        &["it is not signed: ", "guest.so.minisig does not exist"],
    );
    // What would be compiled, under its own name and under that of a module, signed or not.
    let wasm = fs::read(guest("web-hello.wasm")).expect("the guest is there");
    folder.sign("guest.wasm", &wasm);
    let route = format!("/wasm={}", folder.text("guest.wasm"));
    folder.sign("guest.so", &bytes);
    let routes = ["--route", &route, "--trust", &key];
    refused(
        &routes,
        &["it is not compiled", "only signed modules are served"],
    );
    folder.sign("guest.so", &wasm);
    refused(&trust, &["it is a WebAssembly module"]);
    folder.write("guest.so", &wasm);
    fs::remove_file(folder.path("guest.so.minisig")).expect("it is there");
    refused(&trust, &["it is not signed"]);
}

#[test]
fn files_that_are_no_keys_are_refused() {
    let folder = Folder::new();
    let secret = folder.key.pair.sk.to_box(None).expect("text").to_string();
    folder.write("secret.key", secret);
    for (name, part) in [
        ("secret.key", "it is a secret key"),
        ("guest.so.minisig", "it is a signature"),
        ("guest.so", "it has more than 4096 bytes"),
        ("none.pub", "cannot read it: No such file"),
        ("", "is a directory"),
    ] {
        let key = folder.text(name);
        let error = folder.refusal(&["--trust", &key]);
        assert!(
            error.starts_with(&format!("pirn-serve: --trust {key}: ")),
            "{error}"
        );
        assert!(
            error.contains(part) && error.lines().count() == 1,
            "{error}"
        );
    }
    // A list without a key in the file, which must not mean that all is trusted.
    folder.configure("trust = []\n");
    let config = folder.text("serve.toml");
    let error = refusal(&["--check-config", "--config", &config]);
    assert!(error.contains("trust is an empty list"), "{error}");
}

#[test]
fn a_reload_serves_nothing_unsigned() {
    let folder = Folder::new();
    let log = fs::File::create(folder.path("log")).expect("room");
    let mut command = serve();
    command
        .arg("--config")
        .arg(folder.path("serve.toml"))
        .stderr(log);
    let serving = Serving::start(command);
    let reload = |name: &str| {
        let count = || metric(&serving.get("/metrics"), name);
        let before = count();
        serving.signal("HUP");
        while count() == before {}
    };
    let (good, bad) = (
        "pirn_reloads_total{result=\"ok\"}",
        "pirn_reloads_total{result=\"failed\"}",
    );
    let said = |part: &str| {
        let log = fs::read_to_string(folder.path("log")).expect("text");
        let last = log
            .lines()
            .rfind(|line| line.contains("not reloaded"))
            .expect("a line");
        assert!(last.contains(part), "{part:?} is not in {last}");
    };
    folder.write("guest.so", answering("v2"));
    reload(bad);
    said("it has hash ");
    assert_eq!(body(&serving.get("/")), "v1");
    folder.sign("guest.so", &answering("v2"));
    reload(good);
    assert_eq!(body(&serving.get("/")), "v2");
    // The key is read again, too.
    folder.write("a.pub", public_text(&Pair::new().pair));
    reload(bad);
    said("it is signed with key ");
    folder.write("a.pub", "");
    reload(bad);
    said("it is not a public key");
    folder.write("a.pub", public_text(&folder.key.pair));
    // What was served without a check does not stand for a signed guest later.
    folder.write("guest.so", answering("v3"));
    folder.configure("");
    reload(good);
    assert_eq!(body(&serving.get("/")), "v3");
    folder.configure("trust = ['a.pub']\n");
    reload(bad);
    said("it has hash ");
    folder.sign("guest.so", &answering("v3"));
    reload(good);
    fs::write(folder.path("guest.so"), answering("v9")).expect("it may be written");
    assert_eq!(body(&serving.get("/")), "v3");
    serving.stop();
}

#[test]
fn a_warm_guest_comes_from_a_signed_one() {
    let folder = Folder::new();
    let wat = r#"(module
      (import "wasi_snapshot_preview1" "fd_write"
        (func $fd_write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 0) "\10\00\00\00\1c\00\00\00")
      (data (i32.const 16) "Content-Type: text/plain\n\nno")
      (func (export "_initialize") (i32.store16 (i32.const 42) (i32.const 0x6b6f)))
      (func (export "handle")
        (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    let wasm = pirn_compiler::parse_text(wat.as_bytes()).expect("it is well-formed");
    let bytes = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default());
    folder.sign("guest.so", &bytes.expect("it is valid"));
    let mut command = serve();
    command
        .arg("--config")
        .arg(folder.path("serve.toml"))
        .args(["--log", "off", "--warm"]);
    let serving = Serving::start(command);
    assert_eq!(body(&serving.get("/")), "ok");
    serving.stop();
}
