//! The limit of compile work for a whole module. The compiler refuses a module over the limit with
//! the same message each time. Real guests stay far below the limit.

use crate::common;

use common::campaign::{every, sampled};
use common::{guest, guests, work};
use pirn_compiler::{Cache, Compilation, CompileError, OptLevel, Options, compile, parse_text};
use pirn_format::cpu::Arch;
use std::fs;
use std::sync::{Arc, LazyLock};

/// Units of work that a module may use regardless of its size.
const FREE: u64 = 1_000_000;

/// `count` functions of 12 bytes that each catch a tag with 1,000 values and return them. The
/// function that they call has a loop, so that it is not inlined.
fn catches(count: usize) -> Vec<u8> {
    let values = "i32 ".repeat(1000);
    let func = "(func (type 1) (try_table (catch 0 0) (call 0)) unreachable)";
    let text = format!(
        "(module (type (func)) (type (func (result {values}))) (type (func (param {values})))
          (tag (type 2)) (func (type 0) (loop)) {})",
        func.repeat(count)
    );
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    wasm.into_owned()
}

/// The compiler charges the work before it optimises, so most tests leave the optimiser out.
fn plain(arch: Arch) -> Options {
    let mut options = Options::new(arch);
    options.opt_level = OptLevel::None;
    options
}

/// A module of slightly more than [`FREE`] units, compiled without a cache, and its work.
static LARGE: LazyLock<(Vec<u8>, Vec<u8>, u64)> = LazyLock::new(|| {
    let wasm = catches(25);
    let mut options = plain(Arch::X86_64);
    options.work_per_byte = 10_000;
    let emitted = Compilation::new(&options).run(&wasm);
    let emitted = emitted.expect("the work is far below the limit");
    assert!(emitted.work > FREE, "{}", emitted.work);
    (wasm, emitted.bytes, emitted.work)
});

/// The options with the lowest work per byte with which [`LARGE`] compiles. The limit is [`FREE`]
/// plus the number of the module's bytes times `work_per_byte`.
fn exact() -> Options {
    let (wasm, _, work) = &*LARGE;
    let mut options = plain(Arch::X86_64);
    options.work_per_byte = (work - FREE).div_ceil(wasm.len() as u64);
    options
}

/// The error of a module that exceeds its limit.
fn message(wasm: &[u8], options: &Options) -> String {
    let bytes = wasm.len() as u64;
    let limit = FREE + bytes * options.work_per_byte;
    format!(
        "module of {bytes} bytes needs more than {limit} units of compile work, the limit for its \
         size; use fewer parameters, results and locals, in a component also fewer instances and \
         smaller types, or raise the work per byte (`aotc --work-per-byte`)"
    )
}

fn refused(wasm: &[u8], options: &Options) -> String {
    match compile(wasm, options) {
        Err(error @ CompileError::Work { .. }) => error.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is compiled"),
    }
}

fn threads(count: usize) -> rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(count);
    builder.build().expect("threads")
}

/// The host evaluates constant expressions at run time, so their length is limited.
#[test]
fn constant_expressions_are_limited_to_a_number_of_operators() {
    let options = Options::default();
    let sums = "(i32.const 1) (i32.add) ".repeat(8192);
    let text = format!("(module (global i32 (i32.const 1) {sums}))");
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let error = compile(&wasm, &options).map(drop);
    assert_eq!(
        error.expect_err("it has one too many").to_string(),
        "module has 16385 operators in a constant expression, the limit is 16384; use fewer"
    );
    // Operators at the exact limit: a number, 8,191 sums of two operators each, and `ref.i31`.
    let text = format!(
        "(module (global i31ref (i32.const 1) {} (ref.i31)))",
        "(i32.const 1) (i32.add) ".repeat(8191)
    );
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    compile(&wasm, &options).expect("it has 16,384");
}

/// A module compiles at its exact limit. The compiler refuses it if the limit is one unit per byte
/// lower.
#[test]
fn a_module_compiles_at_its_exact_work_limit_only() {
    let (wasm, so, _) = &*LARGE;
    let mut options = exact();
    // By default, only `cached_code_is_charged_the_same_work` compiles it, first without an entry.
    if every(2) == 1 {
        assert!(compile(wasm, &options).expect("it is enough") == *so);
    }
    options.work_per_byte -= 1;
    assert_eq!(refused(wasm, &options), message(wasm, &options));
}

#[test]
fn many_expensive_functions_are_refused_together() {
    let wasm = catches(60);
    assert!(wasm.len() < 3_000);
    let ways = Arch::ALL.map(|arch| [1, 7].map(|count| (arch, count)));
    // The first way has the default limit. The others have the lowest one, which the test of other
    // errors has by default.
    for (at, (arch, count)) in sampled(ways.into_iter().flatten(), 4, 0).enumerate() {
        let mut options = plain(arch);
        if at > 0 {
            options.work_per_byte = 0;
        }
        let said = threads(count).install(|| refused(&wasm, &options));
        let wanted = message(&wasm, &options);
        assert_eq!(said, wanted, "{arch}, {count} threads");
    }
}

/// The compiler charges work during translation, also for functions whose code is in the cache.
#[test]
fn cached_code_is_charged_the_same_work() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (wasm, so, work) = &*LARGE;
    let mut options = exact();
    let cache = Arc::new(Cache::open(folder.path()).expect("it is private"));
    options.cache = Some(cache.clone());
    for hits in [0, 26] {
        let found = cache.hits();
        let emitted = Compilation::new(&options).run(wasm);
        let emitted = emitted.expect("it is enough");
        assert!(emitted.bytes == *so);
        assert_eq!(emitted.work, *work);
        assert_eq!(cache.hits() - found, hits);
    }
    for work_per_byte in [options.work_per_byte - 1, 0] {
        options.work_per_byte = work_per_byte;
        assert_eq!(refused(wasm, &options), message(wasm, &options));
    }
}

/// The error of the work limit has priority over errors in functions. Whether a thread has reached
/// an invalid function depends on timing, so those errors would not be reproducible.
#[test]
fn the_work_limit_is_reported_before_other_errors() {
    let damaged = |count| {
        let mut wasm = catches(count);
        let last = wasm.len() - 2;
        // `unreachable` at the end of the last function becomes `drop` on an empty stack.
        assert_eq!(wasm[last], 0);
        wasm[last] = 0x1a;
        wasm
    };
    let [wasm, small] = [32, 2].map(damaged);
    for (arch, count) in Arch::ALL.into_iter().zip([1, 7]) {
        let mut options = plain(arch);
        options.work_per_byte = 0;
        let said = threads(count).install(|| refused(&wasm, &options));
        assert_eq!(said, message(&wasm, &options), "{arch}, {count} threads");
        // Fewer of these functions are within the limit.
        let error = compile(&small, &options).expect_err("it is not valid");
        assert!(matches!(error, CompileError::Invalid { .. }), "{error}");
    }
}

/// Loops whose locals alone exceed the module's limit are refused during translation.
#[test]
fn expensive_loops_are_refused_during_translation() {
    let locals = "i32 ".repeat(1500);
    let uses: String = (0..1500)
        .map(|at| format!("(local.set {at} (i32.add (local.get {at}) (i32.const 1)))"))
        .collect();
    let (begin, end) = (
        "loop ".repeat(1900),
        "i32.const 1 br_if 0 end ".repeat(1900),
    );
    let text = format!("(module (func (local {locals}) {begin}{uses}{end}))");
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let options = Options::default();
    let limit = FREE + wasm.len() as u64 * options.work_per_byte;
    let said = refused(&wasm, &options);
    assert!(said.contains(&limit.to_string()), "{said}");
}

/// Register allocation takes time that grows with the square of locals times loops. A module may
/// have one function with 100 locals and 200 loops, but not two.
#[test]
fn two_functions_with_nested_loops_are_refused_together() {
    let uses: String = (0..100)
        .map(|at| format!("(local.set {at} (i32.add (local.get {at}) (i32.const 1)))"))
        .collect();
    let (begin, end) = ("loop ".repeat(200), "i32.const 1 br_if 0 end ".repeat(200));
    let locals = "i32 ".repeat(100);
    let func = format!("(func (local {locals}) {begin}{uses}{end})");
    let module = |count| {
        let text = format!("(module {})", func.repeat(count));
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        wasm.into_owned()
    };
    let mut options = Options::default();
    options.opt_level = OptLevel::None;
    assert!(compile(&module(1), &options).is_ok());
    refused(&module(2), &options);
}

#[test]
fn real_guests_use_at_most_a_tenth_of_the_work_limit() {
    let files = fs::read_dir(guests()).expect("the guests are there");
    let names = files.map(|file| file.expect("a file").file_name());
    let names = names.map(|name| name.into_string().expect("plain names"));
    let is_module = |name: &String| name.ends_with(".wasm") || name.ends_with(".wat");
    let mut names: Vec<_> = names.filter(is_module).collect();
    names.sort_unstable();
    let cases = names.iter().flat_map(|name| {
        let ways = Arch::ALL.map(|arch| [false, true].map(|fuel| (name, arch, fuel)));
        ways.into_iter().flatten()
    });
    // Each guest has four ways, so the next case is five guests on, with the next way.
    for (name, arch, fuel) in sampled(cases, 5 * 4 + 1, 0) {
        let wasm = guest(name);
        let mut options = Options::new(arch);
        options.fuel = fuel;
        let work = work(&wasm, &options);
        let limit = FREE + wasm.len() as u64 * options.work_per_byte;
        println!("{name} for {arch}, fuel {fuel}: {work} of {limit}");
        assert!(work * 10 < limit, "{name} for {arch}: {work} of {limit}");
    }
}
