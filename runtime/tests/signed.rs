//! Signed modules: what a wrong, changed or missing signature does, and that the bytes that were
//! checked are the bytes that run, whatever happens to the file.

use pirn_testing::signing;

use pirn_compiler::{Options, compile, parse_text};
use pirn_format::read::Checked;
use pirn_runtime::{Linker, Module, OpenError, Region, SignatureError};
use signing::{Pair, is_one_line};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// A module whose function `v` returns a number.
fn version(n: i32) -> Vec<u8> {
    let text = format!("(module (func (export \"v\") (result i32) (i32.const {n})))");
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    compile(&wasm, &Options::default()).expect("the module is valid")
}

/// What `v` returns.
fn ask(module: &Module) -> i32 {
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(module, &Linker::new()).expect("it fits");
    let v = prepared.func::<(), i32>("v").expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    instance.call(&v, ()).expect("it returns")
}

fn beside(module: &Path) -> PathBuf {
    pirn_signature::signature_path(module)
}

/// A folder with a module and its signature.
fn signed(module: &[u8], key: &Pair) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("module.so");
    fs::write(&path, module).expect("room");
    fs::write(beside(&path), key.sign(module)).expect("room");
    (folder, path)
}

fn open(path: &Path, key: &Pair) -> Result<Module, OpenError> {
    Module::open_signed(path, std::slice::from_ref(&key.public))
}

/// The reason for which the signature of a file is refused. Nothing of the file is mapped.
fn refusal(path: &Path, key: &Pair) -> SignatureError {
    let error = open(path, key).expect_err("it is refused");
    let line = error.to_string();
    assert!(
        line.starts_with(&path.display().to_string()) && !line.contains('\n'),
        "{line}"
    );
    let maps = fs::read_to_string("/proc/self/maps").expect("the mappings");
    assert!(!maps.contains(&path.display().to_string()), "{line}");
    match error {
        OpenError::Signature { error, .. } => {
            is_one_line(&error, &["; "]);
            error
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_signed_module_runs() {
    let (one, two) = (Pair::new(), Pair::new());
    let (_folder, path) = signed(&version(7), &one);
    let keys = [two.public.clone(), one.public.clone()];
    let module = Module::open_signed(&path, &keys).expect("it is signed");
    assert_eq!(ask(&module), 7);
    assert_eq!(module.to_bytes().expect("it is kept"), version(7));
}

#[test]
fn other_keys_and_other_bytes_are_refused() {
    let (key, other) = (Pair::new(), Pair::new());
    let good = version(1);
    let (_folder, path) = signed(&good, &key);
    assert!(matches!(
        refusal(&path, &other),
        SignatureError::OtherKey { .. }
    ));
    let error = Module::open_signed(&path, &[]).expect_err("no key is trusted");
    assert!(error.to_string().contains("no key is trusted"), "{error}");
    // Cut, in the middle of each part of the file and by one byte.
    for bytes in [0, 1, 63, 64, good.len() / 2, good.len() - 1] {
        fs::write(&path, &good[..bytes]).expect("room");
        assert!(matches!(
            refusal(&path, &key),
            SignatureError::Length { .. }
        ));
    }
    // Compiled again, and not signed again.
    fs::write(&path, version(2)).expect("room");
    assert!(matches!(
        refusal(&path, &key),
        SignatureError::Content { .. }
    ));
    // Changed, with a content hash that fits, which is no signature.
    fs::write(&path, &good).expect("room");
    fs::write(beside(&path), key.sign(&version(2))).expect("room");
    assert!(matches!(
        refusal(&path, &key),
        SignatureError::Content { .. }
    ));
    fs::write(beside(&path), "").expect("room");
    assert!(matches!(
        refusal(&path, &key),
        SignatureError::Malformed { .. }
    ));
    fs::remove_file(beside(&path)).expect("it is there");
    assert!(matches!(
        refusal(&path, &key),
        SignatureError::Unsigned { .. }
    ));
    // The file itself is a good module.
    assert_eq!(ask(&Module::open(&path).expect("it is whole")), 1);
}

#[test]
fn a_signature_makes_no_module_of_other_files() {
    let key = Pair::new();
    for bytes in [&b""[..], b"\0asm\x01\0\0\0", b"#!/bin/sh\n", b"\x7fELF"] {
        let (_folder, path) = signed(bytes, &key);
        let error = open(&path, &key).expect_err("it is no module");
        assert!(matches!(error, OpenError::Format { .. }), "{error}");
    }
    // The content hash is still checked: who signs a damaged module gets a damaged module.
    let mut damaged = version(1);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let (folder, path) = signed(&damaged, &key);
    let error = open(&path, &key).expect_err("it is damaged");
    assert!(matches!(error, OpenError::Format { .. }), "{error}");
    for missing in [folder.path(), &folder.path().join("none.so")] {
        let error = open(missing, &key).expect_err("it is no file");
        assert!(matches!(error, OpenError::Read { .. }), "{error}");
    }
}

#[test]
fn a_file_that_changes_after_the_check_changes_nothing() {
    let key = Pair::new();
    let (good, evil) = (version(11), version(12));
    assert_eq!(good.len(), evil.len());
    let (_folder, path) = signed(&good, &key);
    let module = open(&path, &key).expect("it is signed");
    // In place: a mapping of the file would have the new bytes.
    fs::write(&path, &evil).expect("it may be written");
    assert_eq!(ask(&module), 11);
    fs::write(&path, "").expect("it may be cut");
    assert_eq!(ask(&module), 11);
    fs::remove_file(&path).expect("it may be removed");
    assert_eq!(module.to_bytes().expect("it is kept"), good);
    assert_eq!(ask(&module), 11);
}

#[test]
fn a_module_that_was_opened_without_a_check_does_not_stand_for_a_signed_one() {
    let key = Pair::new();
    let (good, evil) = (version(21), version(22));
    let (_folder, path) = signed(&good, &key);
    let unchecked = Module::open(&path).expect("it is whole");
    let module = open(&path, &key).expect("it is signed");
    // The mapping of the file changes with it; the signed module has one of its own.
    fs::write(&path, &evil).expect("it may be written");
    assert_eq!(ask(&module), 21);
    drop(unchecked);
    // A signed module may stand for any other, and for another signed one.
    let (_other, path) = signed(&good, &key);
    let equal = [
        open(&path, &key).expect("it is signed"),
        Module::from_bytes(&good).expect("it is whole"),
    ];
    for equal in equal {
        assert_eq!(format!("{equal:?}"), format!("{module:?}"));
    }
}

/// Ends the other thread, also if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_module_that_is_replaced_again_and_again_never_runs_unsigned() {
    let key = Pair::new();
    let (good, evil) = (version(31), version(32));
    let (folder, path) = signed(&good, &key);
    let next = folder.path().join("next");
    let done = AtomicBool::new(false);
    let (mut opened, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut versions = [&evil, &good].into_iter().cycle();
            while !done.load(Ordering::Relaxed) {
                let version = versions.next().expect("a cycle");
                fs::write(&next, version).expect("room");
                fs::rename(&next, &path).expect("the same folder");
            }
        });
        let _stop = Stop(&done);
        // Both outcomes come soon: the file is the other one half of the time.
        while opened < 20 || refused < 20 {
            match open(&path, &key) {
                Ok(module) => {
                    assert_eq!(ask(&module), 31);
                    opened += 1;
                }
                Err(OpenError::Signature { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn a_snapshot_of_a_signed_module_is_signed_by_nobody() {
    let key = Pair::new();
    let (_folder, path) = signed(&version(41), &key);
    let module = open(&path, &key).expect("it is signed");
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    let instance = prepared.instantiate(()).expect("a slot");
    let snapshot = instance.snapshot().expect("it is idle");
    assert_eq!(ask(&snapshot), 41);
    let bytes = snapshot.to_bytes().expect("it is kept");
    // It still says what its code was compiled from.
    let source = |file: &[u8]| Checked::new(file).expect("it is whole").metadata.source;
    assert_eq!(source(&bytes), source(&version(41)));
    assert_ne!(source(&bytes), source(&version(42)));
    fs::write(&path, &bytes).expect("room");
    refusal(&path, &key);
    fs::write(beside(&path), key.sign(&bytes)).expect("room");
    assert_eq!(ask(&open(&path, &key).expect("it is signed now")), 41);
}
