//! Tests with hostile images: finding and reading the program, and the policy's decision.

use oci_spec::runtime::Spec;
use pirn_shim::approve::approve;
use pirn_shim::entry::{Entry, Image, Program};
use pirn_shim::policy::Policy;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tempfile::TempDir;

const WASM: &[u8] = b"\0asm\x01\0\0\0";
const BYTES_MAX: u64 = 1000;

struct Rootfs(TempDir);

impl Rootfs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join("rootfs").join(path)
    }

    fn file(&self, path: &str, bytes: &[u8]) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    fn link(&self, path: &str, target: &str) -> &Self {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        symlink(target, self.path(path)).unwrap();
        self
    }

    fn entry_of(&self, args: &[&str], cwd: &str, env: &[&str]) -> anyhow::Result<Entry> {
        fs::create_dir_all(self.path("")).unwrap();
        let config = self.0.path().join("config.json");
        let text = format!(
            r#"{{"ociVersion":"1.0.2","root":{{"path":"rootfs"}},
                 "process":{{"user":{{"uid":0,"gid":0}},"cwd":{cwd:?},"args":{args:?},"env":{env:?}}}}}"#
        );
        fs::write(&config, text).unwrap();
        let spec = Spec::load(&config).unwrap();
        Image::open(&self.path(""))?.entry(&spec, BYTES_MAX)
    }

    fn entry(&self, first: &str) -> anyhow::Result<Entry> {
        self.entry_of(&[first], "/", &[])
    }

    fn refuses(&self, first: &str, why: &str) {
        let error = self.entry(first).expect_err(first);
        let message = format!("{error:#}");
        assert!(message.contains(why), "{first}: {message}");
    }
}

#[test]
fn a_working_directory_that_is_not_there_is_named() {
    let rootfs = Rootfs::new();
    rootfs.file("app/a.wasm", WASM).link("l", "/app");
    for cwd in ["/", "/app", "/l", "/app/.."] {
        rootfs.entry_of(&["/app/a.wasm"], cwd, &[]).unwrap();
    }
    for cwd in ["/none", "/app/none", "/app/a.wasm"] {
        let error = rootfs.entry_of(&["/app/a.wasm"], cwd, &[]).unwrap_err();
        let expected = format!("the image has no folder {cwd:?}, which is the working directory");
        let error = format!("{error:#}");
        assert!(error.starts_with(&expected), "{error}");
        assert!(
            error.ends_with("; add it to the image, or mount a volume there"),
            "{error}"
        );
    }
}

#[test]
fn a_program_is_found_as_linux_finds_it() {
    let rootfs = Rootfs::new();
    rootfs
        .file("app/a.wasm", WASM)
        .link("b.wasm", "/app/a.wasm");
    let found = |args: &[&str], cwd, env: &[&str]| {
        let entry = rootfs.entry_of(args, cwd, env).unwrap();
        assert!(matches!(entry.program, Program::Wasm(_)), "{entry:?}");
    };
    found(&["/app/a.wasm"], "/", &[]);
    found(&["a.wasm"], "/app", &[]);
    found(&["./app/a.wasm"], "/", &[]);
    found(&["/b.wasm"], "/", &[]);
    found(&["a.wasm"], "/", &["PATH=/bin:/app"]);
    let of_path = rootfs.entry_of(&["app/a.wasm"], "/bin", &["PATH=/"]);
    assert!(of_path.is_err(), "a path is not looked up in PATH");
}

#[test]
fn no_path_leads_out_of_the_image() {
    let rootfs = Rootfs::new();
    fs::write(rootfs.0.path().join("outside.wasm"), WASM).unwrap();
    rootfs
        .link("up", "../outside.wasm")
        .link("far", "../../../../../../../../etc/passwd")
        .link("absolute", "/etc/passwd")
        .link("magic", "/proc/self/exe")
        .link("folder", "..");
    for path in [
        "/../outside.wasm",
        "/up",
        "/far",
        "/absolute",
        "/magic",
        "/folder/outside.wasm",
        "/absent",
        "",
        "/",
    ] {
        rootfs.refuses(path, "the image has no file");
    }
}

#[test]
fn what_is_no_program_is_refused() {
    let rootfs = Rootfs::new();
    rootfs
        .file("empty", b"")
        .file("short", b"\0as")
        .file("text.wat", b"(module)")
        .file(
            "small.wasm",
            &[WASM, &vec![0; BYTES_MAX as usize - WASM.len()]].concat(),
        )
        .file(
            "large.wasm",
            &[WASM, &vec![0; BYTES_MAX as usize - WASM.len() + 1]].concat(),
        )
        .file("signed.wasm", WASM)
        .file("signed.wasm.minisig", &[0xff; 10])
        .file("long.wasm", WASM)
        .file("long.wasm.minisig", &[b'a'; 20_000]);
    nix::unistd::mkfifo(&rootfs.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in ["/empty", "/short", "/text.wat"] {
        rootfs.refuses(path, "it is neither a WebAssembly file");
    }
    assert!(rootfs.entry("/small.wasm").is_ok());
    rootfs.refuses(
        "/large.wasm",
        "it has 1001 bytes, the policy of the node allows 1000",
    );
    rootfs.refuses("/signed.wasm", "it is no text");
    rootfs.refuses(
        "/long.wasm",
        "signed.wasm.minisig".trim_start_matches("signed"),
    );
    // Opening the pipe does not wait for a writer.
    rootfs.refuses("/pipe", "the image has no file");
    assert!(rootfs.entry_of(&[], "/", &[]).is_err());
}

#[test]
fn linux_programs_are_for_the_pause_container() {
    let rootfs = Rootfs::new();
    rootfs
        .file("pause", b"\x7fELF....")
        .file("script", b"#!/bin/sh\n");
    let sandbox = (
        "io.kubernetes.cri.container-type".to_owned(),
        "sandbox".to_owned(),
    );
    let container = (sandbox.0.clone(), "container".to_owned());
    let is_allowed = |policy: &str, annotation: Option<&(String, String)>| {
        let policy = Policy::parse(policy).unwrap();
        let annotations = annotation.cloned().into_iter().collect::<HashMap<_, _>>();
        let all = ["/pause", "/script"].map(|path| {
            let entry = rootfs.entry(path).unwrap();
            assert_eq!(entry.program, Program::Native);
            approve(&policy, &entry, Some(&annotations)).is_ok()
        });
        assert_eq!(all[0], all[1]);
        all[0]
    };
    assert!(is_allowed("", Some(&sandbox)));
    assert!(!is_allowed("", Some(&container)));
    assert!(!is_allowed("", None));
    assert!(is_allowed("native = \"allow\"", None));
    assert!(!is_allowed("native = \"refuse\"", Some(&sandbox)));
}

/// A policy that trusts one key, and the text of signatures by that key.
struct Trust {
    folder: TempDir,
    pair: minisign::KeyPair,
}

impl Trust {
    fn new() -> Self {
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pub");
        fs::write(&path, pair.pk.to_box().unwrap().to_string()).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        Self { folder, pair }
    }

    fn policy(&self, more: &str) -> Policy {
        let key = self.folder.path().join("a.pub");
        Policy::parse(&format!("trust = [{key:?}]\n{more}")).unwrap()
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let signed = minisign::sign(None, &self.pair.sk, bytes, None, None);
        signed.unwrap().to_string().into_bytes()
    }
}

fn outcome(policy: &Policy, rootfs: &Rootfs, path: &str) -> Result<(), String> {
    let entry = rootfs.entry(path).unwrap();
    approve(policy, &entry, None).map_err(|error| format!("{error:#}"))
}

#[test]
fn images_bring_no_machine_code_that_is_not_signed() {
    const SO: &[u8] = b"\x7fELF of an image";
    let (trust, other) = (Trust::new(), Trust::new());
    let rootfs = Rootfs::new();
    rootfs
        .file("unsigned.so", SO)
        .file("signed.so", SO)
        .file("signed.so.minisig", &trust.sign(SO))
        .file("other.so", SO)
        .file("other.so.minisig", &other.sign(SO))
        .file("changed.so", b"\x7fELF of another")
        .file("changed.so.minisig", &trust.sign(SO))
        .file("empty.so", SO)
        .file("empty.so.minisig", b"");
    let policy = trust.policy("");
    assert_eq!(outcome(&policy, &rootfs, "/signed.so"), Ok(()));
    for name in ["/unsigned.so", "/other.so", "/changed.so", "/empty.so"] {
        let error = outcome(&policy, &rootfs, name).expect_err(name);
        assert!(error.contains("takes only signed machine code"), "{error}");
        // The verifier cannot prove a file that is no compiled module.
        let verified = trust.policy("so = \"verified\"");
        let error = outcome(&verified, &rootfs, name).expect_err(name);
        assert!(error.contains("does not prove"), "{error}");
        assert_eq!(
            outcome(&trust.policy("so = \"any\""), &rootfs, name),
            Ok(())
        );
    }
    // Without a trusted key, no signature counts.
    let error = outcome(&Policy::parse("").unwrap(), &rootfs, "/signed.so").unwrap_err();
    assert!(error.contains("the policy trusts no key"), "{error}");
}

#[test]
fn webassembly_is_signed_if_the_policy_says_so() {
    let trust = Trust::new();
    let rootfs = Rootfs::new();
    rootfs
        .file("unsigned.wasm", WASM)
        .file("signed.wasm", WASM)
        .file("signed.wasm.minisig", &trust.sign(WASM))
        .file("changed.wasm", &[WASM, b"\0\x01a"].concat())
        .file("changed.wasm.minisig", &trust.sign(WASM));
    assert_eq!(outcome(&trust.policy(""), &rootfs, "/signed.wasm"), Ok(()));
    for name in ["/unsigned.wasm", "/changed.wasm"] {
        assert!(outcome(&trust.policy(""), &rootfs, name).is_err(), "{name}");
        assert_eq!(
            outcome(&trust.policy("wasm = \"any\""), &rootfs, name),
            Ok(())
        );
        assert_eq!(outcome(&Policy::parse("").unwrap(), &rootfs, name), Ok(()));
    }
}

#[test]
fn an_image_that_is_not_there_is_an_error() {
    assert!(Image::open(Path::new("/absent/rootfs")).is_err());
}
