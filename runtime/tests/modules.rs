//! Opening compiled modules: the runtime reports any defect in one line, and runs no code of the
//! file.
#![allow(unsafe_code, reason = "this test reads names from the loader")]

use crate::common;

use pirn_compiler::{Options, compile, parse_text};
use pirn_format::FORMAT_VERSION;
use pirn_format::cpu::{self, Arch, CpuFeatures};
use pirn_format::read::Checked;
use pirn_runtime::{Linker, Module, OpenError, Region};
use std::fs;
use std::path::Path;

const SMALL: &str = r#"(module (memory 1) (data (i32.const 8) "data") (data "more")
  (func (export "f") (param i32) (result i32) (i32.load (local.get 0))))"#;

fn so(text: &str, options: &Options) -> Vec<u8> {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    compile(&wasm, options).expect("the module is valid")
}

/// The one-line reason for which a file is refused.
fn refusal(path: &Path) -> String {
    let error = Module::open(path).expect_err("it is refused").to_string();
    assert!(!error.contains('\n'), "{error}");
    assert!(error.contains(&path.display().to_string()), "{error}");
    error
}

/// Nobody writes to the pipe, so reading it would wait for ever.
#[test]
fn pipes_and_devices_are_refused_at_once() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let pipe = folder.path().join("module.so");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("coreutils are installed").success());
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        let error = refusal(path);
        assert!(
            error.contains("it is a pipe, a socket or a device"),
            "{error}"
        );
    }
}

#[test]
fn any_changed_byte_is_detected() {
    let good = so(SMALL, &Options::default());
    let file = common::file(&good);
    // The padding between segments is long on machines with large pages, so it is sampled.
    let tells = |at: &usize| {
        at.is_multiple_of(499) || good[at - at % 64..].iter().take(64).any(|b| *b != 0)
    };
    for at in (0..good.len()).filter(tells) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&file, &bad).expect("room for a module");
        refusal(&file);
    }
    fs::write(&file, &good).expect("room for a module");
    Module::open(&file).expect("it is whole again");
}

#[test]
fn any_truncation_is_detected() {
    let good = so(SMALL, &Options::default());
    let file = common::file(&[]);
    // All short lengths, and a sample of about two thousand longer ones.
    let lengths = (0..1024)
        .chain((1024..good.len()).step_by((good.len() / 2000) | 1))
        .chain([good.len() - 1]);
    for len in lengths {
        fs::write(&file, &good[..len]).expect("room for a module");
        refusal(&file);
    }
    fs::write(&file, [&good[..], b"x"].concat()).expect("room for a module");
    assert!(refusal(&file).contains("bytes, its header says"));
}

#[test]
fn files_that_are_no_modules_are_described() {
    let refused = |bytes: &[u8], part: &str| {
        let file = common::file(bytes);
        let error = refusal(&file);
        assert!(error.contains(part), "{part}: {error}");
    };
    refused(b"", "it is empty");
    refused(
        b"\0asm\x01\0\0\0",
        "it is a WebAssembly module; make one with `aotc module.wasm`",
    );
    refused(b"#!/bin/sh\n", "it is not an ELF file");
    refused(b"\x7fELF", "damaged or truncated");
    let program = fs::read(std::env::current_exe().expect("this program")).expect("readable");
    refused(&program, "without the note of aotc");
    let missing = Path::new("/no/such/module.so");
    assert!(matches!(Module::open(missing), Err(OpenError::Read { .. })));
    assert!(refusal(missing).contains("cannot read"));
    assert!(refusal(Path::new("/")).contains("cannot read"));
}

#[test]
fn modules_for_other_machines_are_refused() {
    let here = Arch::from_name(std::env::consts::ARCH).expect("a target of ours");
    for arch in Arch::ALL.into_iter().filter(|arch| *arch != here) {
        let file = common::file(&so(SMALL, &Options::new(arch)));
        let error = refusal(&file);
        let says = format!(
            "module is for {arch}, this machine is {here}; compile it with --target {here}"
        );
        assert!(error.ends_with(&says), "{error}");
    }
    // A processor without any feature, which therefore lacks those of the baseline.
    let checked = Checked::new(&so(SMALL, &Options::new(here))).expect("it is sound");
    let (none, needs) = (CpuFeatures::none(here), Options::new(here).cpu);
    let refusal = checked.runs_on(none).err().map(|error| error.to_string());
    let says = format!(
        "module is for cpu baseline, this machine is {}: it lacks {needs}; compile it with --cpu baseline",
        none.name()
    );
    assert_eq!(refusal, (!needs.is_empty()).then_some(says));
    checked
        .runs_on(cpu::detect())
        .expect("this machine has its baseline");
}

#[test]
fn another_format_version_is_refused() {
    let mut other = so(SMALL, &Options::default());
    let note = other
        .windows(4)
        .position(|bytes| bytes == b"pirn")
        .expect("the note's name");
    other[note + 8] ^= 0x40;
    let error = refusal(&common::file(&other));
    let (found, reads) = (FORMAT_VERSION ^ 0x40, FORMAT_VERSION);
    let says = format!("format version {found}, this runtime reads {reads}; compile it again");
    assert!(error.contains(&says), "{error}");
}

#[test]
fn equal_files_share_one_module() {
    let bytes = so(SMALL, &Options::default());
    let (a, b) = (common::file(&bytes), common::file(&bytes));
    let (a, b) = (
        Module::open(&a).expect("it opens"),
        Module::open(&b).expect("it opens"),
    );
    let region = Region::builder().slots(1).build().expect("a region");
    // The modules are equal, so the slot is warm for both.
    for module in [&a, &b, &a] {
        let prepared = region
            .prepare(module, &Linker::<()>::new())
            .expect("it fits");
        prepared.try_instantiate(()).expect("the slot is free");
    }
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
}

#[test]
fn modules_in_memory_are_checked_like_files() {
    let bytes = so(
        "(module (func (export \"in memory\") (result i32) (i32.const 3)))",
        &Options::default(),
    );
    let file = common::file(&bytes);
    let module = Module::from_bytes(&bytes).expect("it opens");
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let func = prepared
        .func::<(), i32>("in memory")
        .expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    assert_eq!(instance.call(&func, ()).expect("it returns"), 3);
    // A file with equal content opens as the same module.
    assert_eq!(
        format!("{:?}", Module::open(&file).expect("it opens")),
        format!("{module:?}")
    );
    for bad in [&b""[..], b"\0asm", &bytes[1..], &bytes[..bytes.len() - 1]] {
        let error = Module::from_bytes(bad)
            .expect_err("it is refused")
            .to_string();
        assert!(
            error.starts_with("a module in memory: ") && !error.contains('\n'),
            "{error}"
        );
    }
}

/// The names of all objects that the dynamic loader has loaded (dl_iterate_phdr(3)).
fn loaded() -> Vec<String> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _bytes: libc::size_t,
        names: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid description with a C string. `names` points to the list
        // in `loaded`, which only this callback uses during the call.
        let (name, names) = unsafe {
            let name = core::ffi::CStr::from_ptr((*info).dlpi_name);
            (name, &mut *names.cast::<Vec<String>>())
        };
        names.push(name.to_string_lossy().into_owned());
        0
    }
    let mut names = vec![];
    // SAFETY: `names` outlives the call, and `note` keeps no pointer to it.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names
}

#[test]
fn another_process_can_open_a_module_in_memory_by_its_name() {
    common::exited_with("found", 0);
}

/// Not a test: a child process runs this, because no other test may close modules and so reuse
/// descriptors.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    assert_eq!(common::case(), "found");
    let bytes = so("(module (func (export \"debugged\")))", &Options::default());
    let _module = Module::from_bytes(&bytes).expect("it opens");
    let names = loaded();
    let name = names.iter().find(|name| name.contains("/fd/"));
    let name = name.expect("the loader knows the module by a descriptor");
    assert!(!name.starts_with("/proc/self/"), "{name}");
    // Read the file as a debugger does. It is padded to whole pages.
    let cat = std::process::Command::new("cat").arg(name).output();
    assert!(cat.expect("the program starts").stdout.starts_with(&bytes));
}

#[test]
fn a_replaced_file_opens_as_the_new_version() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("module.so");
    let version = |n: i32| {
        let text = format!("(module (func (export \"v\") (result i32) (i32.const {n})))");
        let next = folder.path().join("next");
        fs::write(&next, so(&text, &Options::default())).expect("room for a module");
        fs::rename(next, &path).expect("renamed over the old version");
        Module::open(&path).expect("it opens")
    };
    let region = Region::builder().slots(1).build().expect("a region");
    let ask = |module: &Module| {
        let prepared = region.prepare(module, &Linker::new()).expect("it fits");
        let v = prepared.func::<(), i32>("v").expect("it is exported");
        prepared
            .try_instantiate(())
            .expect("a slot")
            .call(&v, ())
            .expect("it returns")
    };
    // Old versions keep working while a handle exists.
    let held: Vec<_> = (0..5).map(version).collect();
    for (n, module) in (0..).zip(&held) {
        assert_eq!(ask(module), n);
    }
    drop(held);
    for n in 10..13 {
        assert_eq!(ask(&version(n)), n);
    }
}

#[test]
fn a_file_changed_in_place_while_its_module_is_open_is_refused() {
    let file = common::file(&so(SMALL, &Options::default()));
    let held = Module::open(&file).expect("it opens");
    let other = so(
        "(module (memory 2) (func (export \"g\")))",
        &Options::default(),
    );
    fs::write(&file, &other).expect("room for a module");
    let error = Module::open(&file).expect_err("it is refused").to_string();
    assert!(
        error.contains("changed in place while it was in use"),
        "{error}"
    );
    drop(held);
    Module::open(&file).expect("no handle of the old module exists");
}
