//! Tests of the folder of compiled modules: one compilation for each module, the size limit, and
//! root as the only writer.

use pirn_shim::cache::{Cache, Key};
use pirn_shim::compile::{compiled, stored};
use pirn_shim::policy::Policy;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn policy(folder: &TempDir, more: &str) -> Policy {
    let cache = folder.path().join("cache");
    Policy::parse(&format!("cache = {cache:?}\n{more}")).unwrap()
}

fn files(folder: &TempDir, ending: &str) -> usize {
    let all = fs::read_dir(folder.path().join("cache")).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(ending)).count()
}

#[test]
fn keys_differ_if_any_part_differs() {
    let keys = [
        Key::of(&[]),
        Key::of(&[b""]),
        Key::of(&[b"", b""]),
        Key::of(&[b"ab"]),
        Key::of(&[b"a", b"b"]),
        Key::of(&[b"", b"ab"]),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{key:?}");
    }
    assert_eq!(Key::of(&[b"ab"]), Key::of(&[b"ab"]));
}

#[test]
fn a_module_is_made_once_by_all_that_want_it() {
    let folder = tempfile::tempdir().unwrap();
    let policy = policy(&folder, "");
    let made = AtomicUsize::new(0);
    let key = Key::of(&[b"module"]);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let cache = Cache::open(&policy).unwrap();
                let path = cache.get(&key, |scratch| {
                    made.fetch_add(1, Ordering::Relaxed);
                    Ok(scratch.output().write_all(b"code")?)
                });
                assert_eq!(fs::read(path.unwrap()).unwrap(), b"code");
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
    assert_eq!((files(&folder, ".so"), files(&folder, ".new")), (1, 0));
    assert_eq!(files(&folder, ".lock"), 0);
}

#[test]
fn a_failure_leaves_nothing_and_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&policy(&folder, "")).unwrap();
    let key = Key::of(&[b"module"]);
    let failed = cache.get(&key, |scratch| {
        scratch.output().write_all(b"half")?;
        anyhow::bail!("no")
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    assert_eq!((files(&folder, ".so"), files(&folder, ".new")), (0, 0));
    let path = cache.get(&key, |scratch| Ok(scratch.output().write_all(b"whole")?));
    assert_eq!(fs::read(path.unwrap()).unwrap(), b"whole");
}

#[test]
fn the_oldest_modules_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&policy(&folder, "cache_max = 100")).unwrap();
    let put = |name: &[u8], bytes: usize| {
        cache.get(&Key::of(&[name]), |scratch| {
            Ok(scratch.output().write_all(&vec![0; bytes])?)
        })
    };
    let age = |path: &Path, hours: u64| {
        let then = SystemTime::now() - Duration::from_secs(hours * 3600);
        File::open(path).unwrap().set_modified(then).unwrap();
    };
    let (a, b) = (put(b"a", 50).unwrap(), put(b"b", 50).unwrap());
    assert!(a.exists() && b.exists(), "100 bytes fit");
    age(&a, 2);
    age(&b, 1);
    // This use makes `a` the most recently used module.
    put(b"a", 50).unwrap();
    let c = put(b"c", 50).unwrap();
    assert!(a.exists() && !b.exists() && c.exists());
    let error = put(b"d", 101).unwrap_err().to_string();
    assert!(
        error.contains("has 101 bytes, and cache_max is 100"),
        "{error}"
    );
    assert!(
        a.exists() && c.exists(),
        "a module that never fits evicts nothing"
    );
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let policy = policy(&folder, "");
    Cache::open(&policy).unwrap();
    for mode in [0o770, 0o707, 0o777] {
        fs::set_permissions(&policy.cache, PermissionsExt::from_mode(mode)).unwrap();
        let error = format!("{:#}", Cache::open(&policy).unwrap_err());
        assert!(error.contains(&format!("its mode is {mode:o}")), "{error}");
    }
    fs::remove_dir(&policy.cache).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &policy.cache).unwrap();
    assert!(Cache::open(&policy).is_err(), "a link may be changed");
    fs::remove_file(&policy.cache).unwrap();
    fs::write(&policy.cache, "").unwrap();
    assert!(Cache::open(&policy).is_err());
}

#[test]
fn a_module_that_others_may_write_to_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&policy(&folder, "")).unwrap();
    let path = stored(&cache, b"code").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let error = format!("{:#}", stored(&cache, b"code").unwrap_err());
    assert!(error.contains("its mode is 666"), "{error}");
}

/// A policy whose compiler is a script.
fn with_compiler(folder: &TempDir, script: &str, more: &str) -> Policy {
    let path = folder.path().join("compiler");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    // If the test runs as root, the compiler runs as nobody and must read this folder.
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    policy(folder, &format!("[compile]\ncompiler = {path:?}\n{more}"))
}

#[test]
fn the_compiler_gets_the_module_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cat /dev/stdin; echo; echo \"$@\"; id -u; env | grep -c CARGO; :";
    let policy = with_compiler(&folder, script, "cpu = \"x86-64-v3\"");
    let cache = Cache::open(&policy).unwrap();
    let path = compiled(&cache, &policy, b"\0asm...").unwrap();
    let output = fs::read_to_string(path).unwrap();
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[..2], ["\0asm...", "/dev/stdin -o - --cpu x86-64-v3"]);
    assert_ne!(lines[2], "0", "the compiler does not run as root");
    assert_eq!(lines[3], "0", "it does not get the variables of the shim");
}

#[test]
fn another_compiler_or_another_module_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let policy = with_compiler(&folder, "cat /dev/stdin", "");
    let cache = Cache::open(&policy).unwrap();
    let first = compiled(&cache, &policy, b"a").unwrap();
    assert_eq!(compiled(&cache, &policy, b"a").unwrap(), first);
    assert_ne!(compiled(&cache, &policy, b"b").unwrap(), first);
    let policy = with_compiler(&folder, "cat /dev/stdin #", "");
    assert_ne!(compiled(&cache, &policy, b"a").unwrap(), first);
}

#[test]
fn a_compiler_that_fails_is_an_error_of_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (script, more, why) in [
        ("echo bad >&2; echo worse >&2; exit 1", "", "bad worse"),
        ("kill -9 $$", "", "signal 9 ended the compiler"),
        (
            "while :; do :; done",
            "time_max = \"1s\"",
            "ended the compiler",
        ),
    ] {
        let policy = with_compiler(&folder, script, more);
        let cache = Cache::open(&policy).unwrap();
        let error = format!("{:#}", compiled(&cache, &policy, b"a").expect_err(script));
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
        assert_eq!((files(&folder, ".so"), files(&folder, ".new")), (0, 0));
    }
    let absent = policy(&folder, "[compile]\ncompiler = \"/absent/aotc\"");
    let cache = Cache::open(&absent).unwrap();
    let error = format!("{:#}", compiled(&cache, &absent, b"a").unwrap_err());
    assert!(error.contains("compiler /absent/aotc"), "{error}");
}
