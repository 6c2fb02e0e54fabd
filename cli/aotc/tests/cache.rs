//! `aotc --cache`: compilers that share a folder, and folders that cannot be one.

use crate::common::command;
use pirn_compiler::{Options, compile};
use pirn_testing::guests::guest;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A compilation of a guest with a cache.
fn cached(name: &str, cache: &Path, out: &Path) -> Command {
    let mut command = command([guest(name)]);
    command.args([Path::new("--cache"), cache, Path::new("-o"), out]);
    command
}

/// What the library makes of a guest without a cache.
fn uncached(name: &str) -> Vec<u8> {
    let wasm = fs::read(guest(name)).expect("the guest is there");
    compile(&wasm, &Options::default()).expect("the guest is valid")
}

#[test]
fn concurrent_compilers_share_a_folder() {
    let all = folder();
    let (cache, out) = (all.path().join("cache"), all.path().join("out"));
    fs::create_dir(&out).expect("a folder");
    for round in ["cold", "warm"] {
        let running: Vec<_> = (0..6)
            .map(|number| {
                let name = ["hello.wasm", "fib.wasm"][number % 2];
                let path = out.join(number.to_string());
                let child = cached(name, &cache, &path).spawn();
                (name, path, child.expect("it starts"))
            })
            .collect();
        for (name, path, mut child) in running {
            assert!(child.wait().expect("it ends").success(), "{round}: {name}");
            assert!(
                fs::read(path).expect("it is written") == uncached(name),
                "{round}: {name}"
            );
        }
    }
    // Only packs are left.
    for pack in fs::read_dir(&cache).expect("the folder is there") {
        let name = pack.expect("an entry").file_name();
        assert_eq!(name.len(), 2, "{}", name.display());
    }
}

#[test]
fn a_folder_that_is_not_writable_is_reported() {
    let (all, elsewhere) = (folder(), folder());
    let out = elsewhere.path().join("out");
    for number in 0..64 {
        // A folder that is not empty cannot be replaced by rename(2), whatever the user's rights
        // are.
        fs::create_dir_all(all.path().join(format!("{number:02x}/in"))).expect("a folder");
    }
    let output = cached("hello.wasm", all.path(), &out).output();
    let output = output.expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success()
            && errors.starts_with("aotc: warning: ")
            && errors.lines().count() == 1,
        "{errors}"
    );
    assert!(fs::read(&out).expect("it is written") == uncached("hello.wasm"));
}

#[test]
fn a_path_that_is_no_folder_is_refused_in_one_line() {
    let all = folder();
    let file = all.path().join("file");
    fs::write(&file, "").expect("a file");
    for (cache, part) in [
        (
            file.clone(),
            "it is not a folder; name a folder, or a path where one can be made",
        ),
        (file.join("below"), "not a directory; name another folder"),
    ] {
        let output = cached("null.wat", &cache, &all.path().join("out")).output();
        let output = output.expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, format!("aotc: cache {}: {part}\n", cache.display()));
        assert_eq!(output.status.code(), Some(1));
    }
    assert!(!all.path().join("out").exists());
}
