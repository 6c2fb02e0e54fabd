//! The compilation cache must not change the output, whatever its folder contains. The tests also
//! check which functions a later compilation finds in the cache.

use crate::common;

use common::campaign::sampled;
use common::{emit, guest, guests};
use pirn_compiler::{
    Cache, Compilation, Emit, OptLevel, Options, Pass, Passes, RelaxedSimd, compile, parse_text,
};
use pirn_format::cpu::Arch;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Bytes of a pack's header, and of the row of an entry. `compiler/src/cache/mod.rs` describes
/// both.
const HEAD_BYTES: usize = 8 + 4;
const ROW_BYTES: usize = 32 + 32 + 4;
const PACK_BYTES_MAX: usize = 16 << 20;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The options with a newly opened cache in this folder.
fn with(options: &Options, folder: &Path) -> (Options, Arc<Cache>) {
    let cache = Arc::new(Cache::open(folder).expect("it is private"));
    let mut options = options.clone();
    options.cache = Some(cache.clone());
    (options, cache)
}

fn make(wasm: &[u8], options: &Options, kind: Emit) -> Vec<u8> {
    emit(wasm, options, kind).expect("the module is valid")
}

/// Compiles with a cache; returns the output and the numbers of functions that were found and not
/// found.
fn cached(wasm: &[u8], options: &Options, kind: Emit, folder: &Path) -> (Vec<u8>, usize, usize) {
    let (options, cache) = with(options, folder);
    (make(wasm, &options, kind), cache.hits(), cache.misses())
}

/// Pairs of options and output kinds, no two of which may share a cache entry.
fn variants() -> Vec<(Options, Emit)> {
    let mut all = vec![];
    for arch in Arch::ALL {
        let plain = Options::new(arch);
        let mut change = |kind, change: &dyn Fn(&mut Options)| {
            let mut options = plain.clone();
            change(&mut options);
            all.push((options, kind));
        };
        change(Emit::So, &|_| ());
        change(Emit::Asm, &|_| ());
        change(Emit::So, &|options| options.debug_info = true);
        change(Emit::Asm, &|options| options.debug_info = true);
        change(Emit::So, &|options| options.fuel = true);
        change(Emit::So, &|options| options.spectre = false);
        change(Emit::So, &|options| options.inline = false);
        change(Emit::So, &|options| {
            options.passes = Passes::ALL.without(Pass::TwoAddress);
        });
        change(Emit::So, &|options| {
            options.relaxed_simd = RelaxedSimd::Deterministic;
        });
        change(Emit::So, &|options| options.opt_level = OptLevel::None);
        change(Emit::So, &|options| {
            options.opt_level = OptLevel::SpeedAndSize;
        });
        for feature in arch.features() {
            if let Some(cpu) = plain.cpu.with(feature.name).filter(|cpu| *cpu != plain.cpu) {
                change(Emit::So, &|options| options.cpu = cpu);
            }
        }
    }
    all
}

fn wat(text: &str) -> Vec<u8> {
    parse_text(text.as_bytes())
        .expect("it is well-formed")
        .into_owned()
}

/// A module of [`FUNCTIONS`] functions, after the functions in `before`. `constant` occurs in one
/// of them. The functions call each other, access memory and divide, so they have relocations and
/// traps.
fn module(before: &str, constant: u32) -> Vec<u8> {
    wat(&format!(
        r#"(module (memory 1) (table 4 funcref)
            (type $unary (func (param i32) (result i32)))
            {before}
            (func $load (param i32) (result i32) (i32.load offset=4 (local.get 0)))
            (func $divide (param i32) (result i32)
                (i32.div_s (call $load (local.get 0)) (call $sum (local.get 0) (i32.const {constant}))))
            (func $sum (param i32 i32) (result i32) (local i64)
                (local.set 2 (i64.extend_i32_u (local.get 1)))
                (i32.add (call $divide (local.get 0)) (i32.wrap_i64 (local.get 2))))
            (func (export "f") (param i32) (result i32)
                (drop (memory.grow (local.get 0)))
                (call_indirect (type $unary) (call $load (local.get 0)) (local.get 0))))"#
    ))
}

const FUNCTIONS: usize = 4;

#[test]
fn output_is_equal_without_a_cache_and_with_a_cold_or_warm_cache() {
    let all = folder();
    let mut names: Vec<_> = fs::read_dir(guests())
        .expect("the folder is there")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .filter(|name| name.ends_with(".wasm") || name.ends_with(".wat"))
        .collect();
    names.sort_unstable();
    assert!(names.len() > 10, "{names:?}");
    let one = rayon::ThreadPoolBuilder::new().num_threads(1);
    let one = one.build().expect("a thread");
    // The listing for aarch64 is left to the test of all options.
    let outputs = [
        (Arch::X86_64, true, Emit::So),
        (Arch::X86_64, false, Emit::So),
        (Arch::X86_64, true, Emit::Obj),
        (Arch::X86_64, true, Emit::Asm),
        (Arch::Aarch64, true, Emit::So),
        (Arch::Aarch64, false, Emit::So),
        (Arch::Aarch64, true, Emit::Obj),
    ];
    let of_guest = |name| outputs.map(|output| (name, output));
    // The next case is four or five guests on, with another output: seven cases by default.
    for (name, output) in sampled(names.iter().flat_map(of_guest), 31, 0) {
        let wasm = guest(name);
        let (arch, debug_info, kind) = output;
        let mut options = Options::new(arch);
        options.debug_info = debug_info;
        let what = format!("{name} for {arch}, {kind:?}, {debug_info}");
        let none = make(&wasm, &options, kind);
        let (cold, _, misses) = cached(&wasm, &options, kind, all.path());
        assert!(cold == none, "{what}: cold");
        let (warm, hits, missed) = one.install(|| cached(&wasm, &options, kind, all.path()));
        assert!(warm == none, "{what}: warm");
        assert_eq!(missed, 0, "{what}: {hits} hits, {misses} misses before");
    }
}

#[test]
fn different_options_share_no_cache_entries() {
    let all = folder();
    let wasm = guest("hello.wasm");
    let small = module("", 7);
    for (options, kind) in variants() {
        // A second copy of a function may be found in the cache, so `small` has none.
        let (cold, hits, misses) = cached(&small, &options, kind, all.path());
        assert_eq!((hits, misses), (0, FUNCTIONS), "{options:?}, {kind:?}");
        assert!(
            cold == make(&small, &options, kind),
            "{options:?}, {kind:?}"
        );
        let (warm, hits, misses) = cached(&small, &options, kind, all.path());
        assert_eq!((hits, misses), (FUNCTIONS, 0), "{options:?}, {kind:?}");
        assert!(warm == cold, "{options:?}, {kind:?}");
    }
    for (options, kind) in sampled(variants(), 10, 0) {
        let none = make(&wasm, &options, kind);
        for when in ["cold", "warm"] {
            let (some, ..) = cached(&wasm, &options, kind, all.path());
            assert!(some == none, "{when}: {options:?}, {kind:?}");
        }
    }
}

/// Only the imported name distinguishes the call of an intrinsic from another call, and the key
/// does not contain that name.
#[test]
fn calls_of_different_intrinsics_have_different_keys() {
    let of = |module, name| {
        wat(&format!(
            r#"(module (import "{module}" "{name}" (func $f (param i32 i32) (result i32)))
                (func (export "e") (param i32) (result i32) (call $f (local.get 0) (local.get 0))))"#
        ))
    };
    let modules = [
        of("hw", "x86.crc32_u8"),
        of("m", "f"),
        of("hw", "x86.crc32_u32"),
    ];
    let all = folder();
    let options = Options::new(Arch::X86_64);
    for (wasm, looked_for) in modules.iter().chain(&modules).zip([0, 1, 0, 0, 1, 0]) {
        let none = make(wasm, &options, Emit::So);
        let (bytes, hits, misses) = cached(wasm, &options, Emit::So, all.path());
        assert!(bytes == none);
        assert_eq!(hits + misses, looked_for);
    }
}

#[test]
fn intermediate_code_is_not_cached() {
    let empty = folder();
    let (_, hits, misses) = cached(
        &module("", 7),
        &Options::default(),
        Emit::Clif,
        empty.path(),
    );
    assert_eq!((hits, misses), (0, 0));
    assert_eq!(packs(empty.path()), [] as [PathBuf; 0]);
}

#[test]
fn only_a_changed_function_is_compiled_again() {
    for (options, kind) in variants() {
        let all = folder();
        cached(&module("", 7), &options, kind, all.path());
        let changed = module("", 8);
        let (bytes, hits, misses) = cached(&changed, &options, kind, all.path());
        assert_eq!((hits, misses), (FUNCTIONS - 1, 1), "{options:?}");
        assert!(
            bytes == make(&changed, &options, kind),
            "{options:?}, {kind:?}"
        );
    }
}

/// A new function moves all others in the file and changes their indices and those of their
/// callees.
#[test]
fn functions_after_a_new_one_are_found() {
    let before = r#"(func $new (param i32) (result i32)
        (if (i32.eqz (local.get 0)) (then unreachable)) (call $sum (local.get 0) (i32.const 3)))"#;
    for (options, kind) in variants() {
        let all = folder();
        let (old, ..) = cached(&module("", 7), &options, kind, all.path());
        let moved = module(before, 7);
        let (bytes, hits, misses) = cached(&moved, &options, kind, all.path());
        assert_eq!((hits, misses), (FUNCTIONS, 1), "{options:?}");
        assert!(
            bytes == make(&moved, &options, kind),
            "{options:?}, {kind:?}"
        );
        assert!(bytes != old);
    }
}

/// The exception tables of the functions that a thread has compiled before are not in the key.
#[test]
fn functions_that_catch_are_found_in_any_order() {
    let catches = |count: usize| {
        let blocks = "(block (try_table (catch 0 0) (call 0)))".repeat(count);
        format!("(func {blocks})")
    };
    let module = |counts: [usize; 3]| {
        let funcs = counts.map(catches).concat();
        wat(&format!(
            "(module (tag) (func (loop (br_if 0 (i32.const 0)))) {funcs})"
        ))
    };
    let folder = folder();
    let options = Options::default();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let pool = pool.expect("a thread");
    let compiled =
        |counts| pool.install(|| cached(&module(counts), &options, Emit::So, folder.path()));
    assert_eq!(compiled([1, 2, 3]).1, 0);
    for counts in [[3, 2, 1], [2, 2, 1], [1, 1, 1]] {
        let (_, hits, misses) = compiled(counts);
        assert_eq!((hits, misses), (4, 0), "{counts:?}");
    }
}

/// A function with an indirect call must be found if only the table's functions change or move in
/// the file. It must not be found if its own code would differ.
#[test]
fn knowledge_of_tables_is_in_the_key_if_the_code_uses_it() {
    let module = |types: &str, table: &str, items: &str| {
        wat(&format!(
            r#"(module {types} (type $many (func (param i32) (result i32))) (type $one (func (result i32)))
                {table} (elem (i32.const 1) func {items})
                (func (export "many") (param i32) (result i32) (call_indirect (type $many) (local.get 0) (local.get 0)))
                (func (export "one") (param i32) (result i32) (call_indirect (type $one) (local.get 0)))
                (func $a (type $many) (local.get 0)) (func $b (type $many) (i32.const 4)) (func $c (type $many) unreachable)
                (func $o (type $one) (i32.const 5)) (func $p (type $one) (i32.const 6)))"#
        ))
    };
    let table = "(table 6 funcref)";
    let others = [
        ("", table, "$a $b $o", 0),
        ("", table, "$b $c $o", 0),
        ("", table, "$a $b $p", 0),
        ("", table, "$a $b $c $o", 1),
        ("", table, "$a $o", 2),
        ("", "(table 7 funcref)", "$a $b $o", 2),
        ("(type (func (param f32)))", table, "$a $b $o", 1),
        ("", "(table (export \"t\") 6 funcref)", "$a $b $o", 2),
    ];
    let modules = others.map(|(types, table, items, _)| module(types, table, items));
    for (mut options, kind) in sampled(variants(), 5, 0) {
        options.inline = false;
        let all = folder();
        cached(&modules[0], &options, kind, all.path());
        for ((types, table, items, missed), other) in others.into_iter().zip(&modules) {
            let (bytes, _, misses) = cached(other, &options, kind, all.path());
            let what = format!("{types} {table} {items}: {options:?}, {kind:?}");
            assert_eq!(misses, missed, "{what}");
            assert!(bytes == make(other, &options, kind), "{what}");
        }
    }
}

/// A branch hint changes the layout of code, so the key of a function includes its hints.
#[test]
fn a_branch_hint_is_in_the_key() {
    let module = |hint: &str| {
        wat(&format!(
            r#"(module (func (export "run") (param i32) (result i32)
                 (local.get 0) {hint} (if (then (local.set 0 (i32.const 5)))) (local.get 0)))"#
        ))
    };
    let hint = |value| module(&format!(r#"(@metadata.code.branch_hint "\0{value}")"#));
    let (folder, options) = (folder(), Options::default());
    for (wasm, found) in [
        (module(""), 0),
        (hint(0), 0),
        (hint(1), 0),
        (hint(0), 1),
        (module(""), 1),
    ] {
        let (so, hits, misses) = cached(&wasm, &options, Emit::So, folder.path());
        assert_eq!((hits, misses), (found, 1 - found));
        assert_eq!(so, make(&wasm, &options, Emit::So));
    }
}

/// The valid functions of a module that fails to compile are kept in the cache.
#[test]
fn valid_functions_of_an_invalid_module_are_cached() {
    let all = folder();
    let (options, cache) = with(&Options::default(), all.path());
    compile(&module("(func (result i32) (i64.const 1))", 7), &options)
        .expect_err("the body has a wrong type");
    assert_eq!((cache.hits(), cache.misses()), (0, FUNCTIONS));
    compile(&module("", 7), &options).expect("it is valid");
    assert_eq!((cache.hits(), cache.misses()), (FUNCTIONS, FUNCTIONS));
}

/// The files of a cache.
fn packs(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).expect("the folder is there");
    let mut all: Vec<_> = all.map(|entry| entry.expect("an entry").path()).collect();
    all.sort_unstable();
    all
}

/// Checks that damage of a pack does no harm. The first compilation misses some functions and gives
/// the output `none`. The second finds all functions.
fn survives(what: &str, pack: &Path, damaged: &[u8], wasm: &[u8], none: &[u8]) {
    let folder = pack.parent().expect("it is in a folder");
    fs::write(pack, damaged).expect("it is ours");
    let options = Options::default();
    let (bytes, _, misses) = cached(wasm, &options, Emit::So, folder);
    assert!(bytes == none, "{what}");
    assert!(misses > 0, "{what} is not noticed");
    let (bytes, hits, misses) = cached(wasm, &options, Emit::So, folder);
    assert!(bytes == none, "{what}, again");
    assert_eq!((hits, misses), (FUNCTIONS, 0), "{what}, again");
}

#[test]
fn damage_of_any_byte_is_detected_and_repaired() {
    let all = folder();
    let wasm = module("", 7);
    let none = make(&wasm, &Options::default(), Emit::So);
    cached(&wasm, &Options::default(), Emit::So, all.path());
    for (number, pack) in packs(all.path()).into_iter().enumerate() {
        let whole = fs::read(&pack).expect("it was written");
        // Damage more bytes of the first pack than of the others.
        let sample = [29, 7][usize::from(number == 0)];
        for at in sampled(0..whole.len(), sample, 0) {
            let mut damaged = whole.clone();
            damaged[at] ^= [0x01, 0x80, 0xff][at % 3];
            survives(&format!("byte {at}"), &pack, &damaged, &wasm, &none);
        }
        for bytes in sampled(0..whole.len(), sample, 0) {
            survives(
                &format!("{bytes} bytes"),
                &pack,
                &whole[..bytes],
                &wasm,
                &none,
            );
        }
        for more in [&b"\0"[..], &[0xff; 100]] {
            // Bytes after the last entry are ignored.
            fs::write(&pack, [&whole[..], more].concat()).expect("it is ours");
            let (bytes, ..) = cached(&wasm, &Options::default(), Emit::So, all.path());
            assert!(bytes == none);
        }
    }
}

/// The rows of a pack, each with its content.
fn entries(pack: &[u8]) -> Vec<([u8; ROW_BYTES], Vec<u8>)> {
    let count = u32::from_le_bytes(pack[8..HEAD_BYTES].try_into().expect("4 bytes")) as usize;
    let (rows, mut rest) = pack[HEAD_BYTES..].split_at(count * ROW_BYTES);
    let mut all = vec![];
    for row in rows.chunks(ROW_BYTES) {
        let row: [u8; ROW_BYTES] = row.try_into().expect("as many");
        let bytes = u32::from_le_bytes(row[64..].try_into().expect("4 bytes")) as usize;
        let content;
        (content, rest) = rest.split_at(bytes);
        all.push((row, content.to_vec()));
    }
    all
}

fn pack(entries: &[([u8; ROW_BYTES], Vec<u8>)]) -> Vec<u8> {
    let mut pack = b"pirnpk01".to_vec();
    pack.extend((entries.len() as u32).to_le_bytes());
    pack.extend(entries.iter().flat_map(|(row, _)| row));
    pack.extend(entries.iter().flat_map(|(_, content)| content));
    pack
}

#[test]
fn a_swapped_entry_is_detected_and_repaired() {
    let all = folder();
    let wasm = module("", 7);
    let none = make(&wasm, &Options::default(), Emit::So);
    cached(&wasm, &Options::default(), Emit::So, all.path());
    let files = packs(all.path());
    let read = |path: &PathBuf| entries(&fs::read(path).expect("it was written"));
    let known: Vec<_> = files.iter().flat_map(read).collect();
    assert_eq!(known.len(), FUNCTIONS);
    for path in &files {
        for (other, content) in &known {
            let mut entries = read(path);
            if entries[0].0 == *other {
                continue;
            }
            entries[0].0[32..].copy_from_slice(&other[32..]);
            entries[0].1.clone_from(content);
            survives("another's entry", path, &pack(&entries), &wasm, &none);
        }
    }
}

#[test]
fn packs_grow_to_their_limit_and_no_further() {
    let wasm = wat("(module (func (export \"f\")))");
    for over in [0, 1] {
        let all = folder();
        cached(&wasm, &Options::default(), Emit::So, all.path());
        let path = packs(all.path()).remove(0);
        let own = fs::read(&path).expect("it was written");
        // A pack with only another module's function, such that the new entry just fits or is one
        // byte too long.
        let mut row = entries(&own)[0].0;
        row[31] ^= 1;
        let content = vec![7; PACK_BYTES_MAX - own.len() - ROW_BYTES + over];
        let checksum = blake3::hash(&[&row[..32], &content].concat());
        row[32..64].copy_from_slice(checksum.as_bytes());
        row[64..].copy_from_slice(&(content.len() as u32).to_le_bytes());
        fs::write(&path, pack(&[(row, content)])).expect("it is ours");
        let (_, hits, misses) = cached(&wasm, &Options::default(), Emit::So, all.path());
        assert_eq!((hits, misses), (0, 1));
        let bytes = fs::metadata(&path).expect("it is there").len() as usize;
        assert_eq!(bytes, [PACK_BYTES_MAX, own.len()][over]);
        let (_, hits, _) = cached(&wasm, &Options::default(), Emit::So, all.path());
        assert_eq!(hits, 1);
    }
}

/// A module of `count` different functions.
fn many(count: u32, first: u32) -> Vec<u8> {
    let func = |n: u32| format!("(func (export \"{n}\") (result i32) (i32.const {n}))");
    let funcs: String = (first..first + count).map(func).collect();
    wat(&format!("(module {funcs})"))
}

/// The sizes of the packs in a folder.
fn bytes(folder: &Path) -> Vec<u64> {
    let bytes = |path: &PathBuf| fs::metadata(path).expect("it is there").len();
    packs(folder).iter().map(bytes).collect()
}

#[test]
fn a_folder_stays_within_its_byte_limit() {
    const PACK: u64 = 2048;
    let all = folder();
    let run = |wasm: &[u8]| {
        let cache = Cache::open(all.path()).expect("it is private");
        let cache = Arc::new(cache.bytes_max(64 * PACK));
        let mut options = Options::default();
        options.cache = Some(cache.clone());
        make(wasm, &options, Emit::So);
        cache.hits()
    };
    // The functions exceed the folder's limit many times. One compilation fills at most a quarter
    // of each file.
    for round in 0..8 {
        run(&many(1000, round * 1000));
        let bytes = bytes(all.path());
        let most = (u64::from(round) + 1) * PACK / 4 + HEAD_BYTES as u64;
        assert!(
            bytes.iter().all(|bytes| *bytes <= most.min(PACK)),
            "{bytes:?}"
        );
    }
    // Most packs are more than half full.
    let full = bytes(all.path())
        .iter()
        .filter(|bytes| **bytes > PACK / 2)
        .count();
    assert!(full > 32, "{full}");
}

/// A module with far more functions than fit must not displace the entries of other modules.
#[test]
fn one_module_does_not_evict_the_entries_of_others() {
    const PACK: u64 = 4096;
    let all = folder();
    let run = |wasm: &[u8]| {
        let cache = Cache::open(all.path()).expect("it is private");
        let cache = Arc::new(cache.bytes_max(64 * PACK));
        let mut options = Options::default();
        options.cache = Some(cache.clone());
        make(wasm, &options, Emit::So);
        cache.hits()
    };
    let others = many(20, 0);
    run(&others);
    run(&many(5000, 1000));
    assert_eq!(run(&others), 20);
}

/// Opening a cache deletes temporary files that are older than an hour.
#[test]
fn temporary_files_of_a_killed_compiler_are_removed() {
    let all = folder();
    Cache::open(all.path()).expect("it is private");
    let (old, new) = (all.path().join(".aotc-old"), all.path().join(".aotc-new"));
    let other = all.path().join("other");
    for path in [&old, &new, &other] {
        fs::write(path, "half").expect("it is ours");
    }
    let long_ago = SystemTime::now() - Duration::from_secs(3601);
    for path in [&old, &other] {
        let file = File::options().write(true).open(path).expect("it is ours");
        file.set_modified(long_ago).expect("it is ours");
    }
    Cache::open(all.path()).expect("it is private");
    assert!(!old.exists() && new.exists() && other.exists());
}

/// The notes of a compilation, and its output.
fn noted(wasm: &[u8], folder: &Path) -> (Vec<String>, Vec<u8>) {
    let (options, _) = with(&Options::default(), folder);
    let emitted = Compilation::new(&options).run(wasm);
    let emitted = emitted.expect("the module is valid");
    (emitted.notes, emitted.bytes)
}

#[test]
fn a_folder_that_is_not_writable_is_reported() {
    let wasm = guest("hello.wasm");
    let none = make(&wasm, &Options::default(), Emit::So);
    let all = folder();
    for number in 0..64 {
        // A folder that is not empty cannot be replaced by rename(2), whatever the user's rights
        // are.
        fs::create_dir_all(all.path().join(format!("{number:02x}/in"))).expect("a folder");
    }
    let said = |(notes, bytes): (Vec<String>, Vec<u8>)| {
        assert!(bytes == none);
        assert_eq!(notes.len(), 1, "{notes:?}");
        let start = format!("cache {}: ", all.path().display());
        assert!(
            notes[0].starts_with(&start) && !notes[0].contains('\n'),
            "{notes:?}"
        );
        assert!(notes[0].ends_with("or name another"), "{notes:?}");
    };
    said(noted(&wasm, all.path()));
    fs::remove_dir_all(all.path())
        .and_then(|()| fs::create_dir(all.path()))
        .expect("it is ours");
    fs::set_permissions(all.path(), Permissions::from_mode(0o500)).expect("it is ours");
    match fs::create_dir(all.path().join("probe")) {
        Ok(()) => eprintln!(
            "not tested: a folder of mode 500, which root writes to; run this as another user"
        ),
        Err(_) => said(noted(&wasm, all.path())),
    }
    fs::set_permissions(all.path(), Permissions::from_mode(0o700)).expect("it is ours");
    // The folder may disappear while the cache is open.
    let (options, _) = with(&Options::default(), all.path());
    fs::remove_dir_all(all.path()).expect("it is ours");
    assert!(make(&wasm, &options, Emit::So) == none);
}

#[test]
fn a_folder_is_created_private_and_refused_if_others_can_write() {
    let all = folder();
    let made = all.path().join("a/b");
    Cache::open(&made).expect("it can be made");
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&made), 0o700);
    cached(&module("", 7), &Options::default(), Emit::So, &made);
    let files = packs(&made);
    assert!(files.iter().all(|path| mode(path) == 0o600));
    // A pack that others can write to is not read.
    for (mode, found) in [(0o644, FUNCTIONS), (0o620, 0), (0o602, 0)] {
        for path in &files {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
        }
        let (_, hits, _) = cached(&module("", 7), &Options::default(), Emit::So, &made);
        assert_eq!(hits, found, "{mode:o}");
    }
    for (mode, remedy) in [
        (0o755, None),
        (0o775, Some("755")),
        (0o1777, Some("755")),
        (0o702, Some("700")),
    ] {
        fs::set_permissions(&made, Permissions::from_mode(mode)).expect("it is ours");
        let refused = Cache::open(&made).err().map(|error| error.to_string());
        assert_eq!(refused.is_some(), remedy.is_some(), "{mode:o}: {refused:?}");
        if let (Some(refused), Some(remedy)) = (refused, remedy) {
            let bits = mode & 0o777;
            let wanted = format!(
                "cache {}: its mode {bits:o} lets other users put code into it; if nobody has, \
                 change the mode to {remedy}",
                made.display()
            );
            assert_eq!(refused, wanted);
        }
    }
}
