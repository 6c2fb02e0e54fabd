//! `Module::open_verified`: the runtime runs exactly the proven bytes, and maps no unproven bytes.

use crate::common;

use common::{forge, section};
use pirn_compiler::{Options, compile, parse_text};
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_runtime::{Linker, Module, OpenError, Region};
use pirn_verify::VerifyError;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A module whose function `v` returns a number from its memory.
fn module(options: &Options) -> Vec<u8> {
    let text = br#"(module (memory 1) (data (i32.const 8) "\07")
        (func (export "v") (param i32) (result i32) (i32.load (local.get 0))))"#;
    let wasm = parse_text(text).expect("the text is well-formed");
    compile(&wasm, options).expect("the module is valid")
}

fn write(module: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("module.so");
    fs::write(&path, module).expect("room");
    (folder, path)
}

fn ask(module: &Module) -> i32 {
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region
        .prepare(module, &Linker::new())
        .expect("the module fits");
    let v = prepared
        .func::<i32, i32>("v")
        .expect("the function is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    instance.call(&v, 8).expect("the call returns")
}

/// The refusal of a file, in one line that begins with the path. The process has no mapping of the
/// file.
fn refusal(path: &Path) -> VerifyError {
    let error = Module::open_verified(path).expect_err("the file is refused");
    let line = error.to_string();
    let is_line = line.starts_with(&path.display().to_string()) && !line.contains('\n');
    assert!(is_line, "{line}");
    let maps = fs::read_to_string("/proc/self/maps").expect("the mappings");
    assert!(!maps.contains(&path.display().to_string()), "{line}");
    match error {
        OpenError::Unproven { error, .. } => error,
        other => panic!("{other}"),
    }
}

/// Changes bytes of the text, and updates the hash, so that the format's check finds nothing.
fn forge_text(file: &mut [u8], change: impl FnOnce(&mut [u8])) {
    let checked = Checked::new(file).expect("the compiler wrote the file");
    let text = section(&checked, Section::Text);
    forge(file, |file| change(&mut file[text]));
}

#[test]
fn a_proven_module_runs_and_its_file_no_longer_matters() {
    let (_folder, path) = write(&module(&Options::default()));
    let module = Module::open_verified(&path).expect("the code is proven");
    fs::write(&path, b"another file").expect("room");
    assert_eq!(ask(&module), 7);
}

#[test]
fn forged_code_is_refused_though_its_hash_is_right() {
    let mut file = module(&Options::default());
    forge_text(&mut file, |text| {
        // After the prologue, in which two instructions set up the frame. The word is no
        // instruction of aarch64, and its first byte is `hlt` of x86_64.
        let after = if std::env::consts::ARCH == "x86_64" {
            4
        } else {
            8
        };
        text[after..after + 4].copy_from_slice(&0x0000_00f4_u32.to_le_bytes());
    });
    Checked::new(&file).expect("the format's check finds nothing");
    let (_folder, path) = write(&file);
    let error = refusal(&path);
    let line = error.to_string();
    assert!(
        line.starts_with("instructions: function 0, text offset 0x"),
        "{line}"
    );
    // `Module::open` does not verify the code, because its caller trusts the file.
    Module::open(&path).expect("the file is not damaged");
}

#[test]
fn a_mapping_of_an_unproven_path_does_not_stand_for_a_proven_module() {
    let (_folder, path) = write(&module(&Options::default()));
    let mappings = || {
        let maps = fs::read_to_string("/proc/self/maps").expect("the mappings");
        let name = path.display().to_string();
        maps.lines().filter(|line| line.contains(&name)).count()
    };
    let unproven = Module::open(&path).expect("the file is a module");
    let before = mappings();
    let proven = Module::open_verified(&path).expect("the code is proven");
    // A write to the file changes the mappings of the first module, and not the mappings of the
    // second module.
    assert!(before > 0, "the unproven bytes are mapped from the file");
    assert_eq!(
        mappings(),
        before,
        "the proven bytes are mapped from a copy"
    );
    assert_eq!((ask(&unproven), ask(&proven)), (7, 7));
}

/// On each architecture, the verifier proves modules of all architectures. The runtime opens only
/// modules of its own architecture.
#[test]
fn a_proven_module_of_another_architecture_is_not_opened() {
    for arch in Arch::ALL {
        let file = module(&Options::new(arch));
        pirn_verify::verify(&file).expect("the compiler's code is proven");
        let (_folder, path) = write(&file);
        match Module::open_verified(&path) {
            Ok(_) => assert_eq!(arch.name(), std::env::consts::ARCH),
            Err(OpenError::Unproven { error, .. }) => panic!("{error}"),
            Err(error) => {
                assert_ne!(arch.name(), std::env::consts::ARCH, "{error}");
                assert!(error.to_string().contains(arch.name()), "{error}");
            }
        }
    }
}

#[test]
fn files_that_are_no_modules_are_refused() {
    for bytes in [&b""[..], b"\x7fELF", b"\0asm\x01\0\0\0"] {
        let (_folder, path) = write(bytes);
        assert!(matches!(refusal(&path), VerifyError::Format(_)));
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let error = Module::open_verified(folder.path()).expect_err("the path is a folder");
    assert!(matches!(error, OpenError::Read { .. }), "{error}");
    let error = Module::open_verified("/dev/zero").expect_err("the file never ends");
    assert!(
        error.to_string().contains("; name a regular file"),
        "{error}"
    );
    let missing = Path::new("/no such folder/module.so");
    let error = Module::open_verified(missing).expect_err("there is no file");
    assert!(matches!(error, OpenError::Read { .. }), "{error}");
}

/// The program header about stacks (elf(5)).
const PT_GNU_STACK: u32 = 0x6474_e551;

/// The offset of the first place where a file has these bytes.
fn find(file: &[u8], bytes: &[u8]) -> usize {
    let mut places = file
        .windows(bytes.len())
        .enumerate()
        .filter(|(_, found)| *found == bytes);
    let (at, _) = places.next().expect("the file has these bytes");
    at
}

#[test]
fn a_file_that_makes_the_loader_run_other_code_is_refused() {
    // A module without a memory has no image, so one program header is unused.
    let wasm = parse_text(b"(module (func (export \"f\")))").expect("the text is well-formed");
    let module = compile(&wasm, &Options::default()).expect("the module is valid");
    let checked = Checked::new(&module).expect("the compiler wrote the file");
    let text = section(&checked, Section::Text);
    let symbol = find(&module, &[1, 0, 0, 0, 0x11, 0, 1, 0]);
    let segment = |number: usize| 64 + 56 * number;
    let dynamic = {
        let at = segment(5) + 8;
        u64::from_le_bytes(module[at..at + 8].try_into().expect("eight bytes")) as usize
    };
    type Change<'a> = (&'a str, &'a dyn Fn(&mut [u8]));
    let stack = find(&module, &PT_GNU_STACK.to_le_bytes());
    let changes: [Change<'_>; 10] = [
        ("a symbol that is resolved by a call", &|file| {
            file[symbol + 4] = 0x1a;
        }),
        ("a symbol at another place", &|file| file[symbol + 8] += 4),
        ("a symbol of another size", &|file| file[symbol + 16] += 1),
        ("a dynamic section without an end", &|file| {
            file[dynamic + 80] = 11;
        }),
        ("strings at another place", &|file| file[dynamic + 24] += 1),
        ("a second executable segment", &|file| {
            file[segment(3)] = 1;
            file[segment(3) + 4] = 5;
        }),
        ("a page of the text that is made read only", &|file| {
            let start = (text.start as u64).to_le_bytes();
            file[segment(8) + 8..segment(8) + 16].copy_from_slice(&start);
            file[segment(8) + 16..segment(8) + 24].copy_from_slice(&start);
        }),
        (
            "stacks that the loader makes executable, as it is not told",
            &|file| {
                file[stack..stack + 4].fill(0);
            },
        ),
        ("a note outside of the first segment", &|file| {
            let start = (text.start as u64).to_le_bytes();
            file[segment(6) + 8..segment(6) + 16].copy_from_slice(&start);
            file[segment(6) + 16..segment(6) + 24].copy_from_slice(&start);
        }),
        ("a hash table that ends at another symbol", &|file| {
            let table = find(file, &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0]);
            file[table + 24] = 9;
        }),
    ];
    pirn_verify::verify(&module).expect("the module is proven before the changes");
    for (what, change) in changes {
        let mut file = module.clone();
        forge(&mut file, change);
        Checked::new(&file).expect("the format's check finds nothing");
        let (_folder, path) = write(&file);
        let error = refusal(&path);
        assert!(
            matches!(error, VerifyError::Container(_)),
            "{what}: {error}"
        );
    }
    // More program headers than the ELF header can count: the loader reads another number of
    // headers.
    let mut file = module.clone();
    forge(&mut file, |file| {
        file[56..58].copy_from_slice(&[0xff, 0xff]);
    });
    let (_folder, path) = write(&file);
    refusal(&path);
}

/// Kernels for aarch64 may have pages of 64 KiB. Segments in different pages of 4 KiB could then
/// share a page. The loader maps this page with the access rights of the last segment.
#[test]
fn segments_of_aarch64_start_at_pages_of_64_kib() {
    let mut file = module(&Options::new(Arch::Aarch64));
    let mut segments = (0..9).map(|number| 64 + 56 * number);
    let at = segments.find(|at| file[*at..at + 8] == [1, 0, 0, 0, 6, 0, 0, 0]);
    // The segment's offset in the file, followed by its address.
    let at = at.expect("a segment is writable") + 8;
    let start = u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    forge(&mut file, |file| {
        file[at..at + 8].copy_from_slice(&(start + 4096).to_le_bytes());
        file[at + 8..at + 16].copy_from_slice(&(start + 4096).to_le_bytes());
    });
    match pirn_verify::verify(&file) {
        Err(VerifyError::Container(what)) => {
            assert!(what.contains("two segments share a page"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}
