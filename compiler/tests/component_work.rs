//! Small components that would take seconds and gigabytes to compile: their work is counted before
//! it is done, against the limit that follows the bytes of the file.

use pirn_compiler::{CompileError, OptLevel, Options, compile, compile_counting, parse_text};

/// Units of work that a module may use regardless of its size.
const FREE: u64 = 1_000_000;

fn component(text: &str) -> Vec<u8> {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    wasm.into_owned()
}

fn options() -> Options {
    let mut options = Options::default();
    options.opt_level = OptLevel::None;
    options
}

/// Asserts that a component of at most so many bytes is refused for its work.
fn refused(what: &str, text: &str, bytes_max: usize) {
    let wasm = component(text);
    assert!(wasm.len() <= bytes_max, "{what}: {} bytes", wasm.len());
    let limit = FREE + 100 * wasm.len() as u64;
    match compile(&wasm, &options()) {
        Err(error @ CompileError::Work { .. }) => {
            let error = error.to_string();
            let wanted = format!(
                "module of {} bytes needs more than {limit} units",
                wasm.len()
            );
            assert!(error.starts_with(&wanted), "{what}: {error}");
        }
        Err(error) => panic!("{what}: {error}"),
        Ok(so) => panic!("{what}: it is compiled to {} bytes", so.len()),
    }
}

/// A lifted function `$f`.
const LIFTED: &str = r#"(core module $m (func (export "f"))) (core instance $i (instantiate $m))
    (func $f (canon lift (core func $i "f")))"#;

/// Instances that each export the one before twice, by names with so many letters.
fn names(levels: usize, letters: usize) -> String {
    let name = "x".repeat(letters - 1);
    let mut text = format!("(component {LIFTED}");
    let mut item = "func $f".to_owned();
    for level in 0..levels {
        text += &format!(
            r#"(instance $i{level} (export "a{name}" ({item})) (export "b{name}" ({item})))"#
        );
        item = format!("instance $i{level}");
    }
    format!(r#"{text} (export "r" ({item})))"#)
}

/// 10^`levels` instances of a component with `count` times `item`.
fn nested(levels: usize, count: usize, item: &str) -> String {
    let mut text = format!(
        "(component $c0 (type $r (resource (rep i32))) {})",
        item.repeat(count)
    );
    for level in 0..levels {
        let instances = format!("(instance (instantiate $c{level}))").repeat(10);
        text += &format!("(component $c{} {instances})", level + 1);
    }
    format!("(component {text} (instance (instantiate $c{levels})))")
}

/// The types `$p0` to `$pN` of instances. Each has twice the functions of the one before.
fn doubled(prefix: &str, levels: usize) -> String {
    let mut text = format!(r#"(type ${prefix}0 (instance (export "f" (func))))"#);
    for level in 1..=levels {
        let last = level - 1;
        text += &format!(
            r#"(type ${prefix}{level} (instance (alias outer 1 ${prefix}{last} (type $x))
                (export "a" (instance (type $x))) (export "b" (instance (type $x)))))"#
        );
    }
    text
}

/// `count` instantiations, each with an argument whose type has 2^`levels` functions.
fn compared(levels: usize, count: usize) -> String {
    let (given, wanted) = (doubled("t", levels), doubled("u", levels));
    let instances = r#"(instance (instantiate $c (with "x" (instance $i))))"#.repeat(count);
    format!(
        r#"(component {given} (import "x" (instance $i (type $t{levels})))
          (component $c {wanted} (import "x" (instance (type $u{levels})))) {instances})"#
    )
}

/// A chain of `count` instances: each calls the one before with a record of `fields` fields of
/// different types. Their strings are converted.
fn called(count: usize, fields: usize) -> String {
    const PRIMITIVES: [&str; 10] = [
        "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "char", "string",
    ];
    let field = |at: usize| {
        let of = |divisor| PRIMITIVES[at / divisor % PRIMITIVES.len()];
        let (a, b, c) = (of(1), of(10), of(100));
        format!(r#"(field "f{at}" (tuple {a} string {b} string {c} string))"#)
    };
    let fields: String = (0..fields).map(field).collect();
    let core = r#"(memory (export "m") 1)
        (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 1024))"#;
    let lift = r#"(canon lift (core func $i "g") (memory (core memory $l "m"))
        string-encoding=utf16 (realloc (core func $l "r")))"#;
    let mut text = format!(
        r#"(component (type $t (record {fields}))
          (component $a (import "t" (type $r (eq $t)))
            (core module $l {core}) (core instance $l (instantiate $l))
            (core module $m (func (export "g") (param i32))) (core instance $i (instantiate $m))
            (func (export "g") (param "x" $r) {lift}))
          (component $b (import "t" (type $r (eq $t))) (import "f" (func $f (param "x" $r)))
            (core module $l {core}) (core instance $l (instantiate $l))
            (core func $f (canon lower (func $f) (memory (core memory $l "m"))
              (realloc (core func $l "r"))))
            (core module $m (import "" "f" (func $f (param i32)))
              (func (export "g") (param i32) (call $f (local.get 0))))
            (core instance $i (instantiate $m (with "" (instance (export "f" (func $f))))))
            (func (export "g") (param "x" $r) {lift}))
          (instance $i0 (instantiate $a (with "t" (type $t))))"#
    );
    for at in 1..=count {
        let last = at - 1;
        text += &format!(
            r#"(instance $i{at} (instantiate $b (with "t" (type $t)) (with "f" (func $i{last} "g"))))"#
        );
    }
    format!(
        r#"{text} (export $t2 "t" (type $t))
          (export "g" (func $i{count} "g") (func (param "x" $t2))))"#
    )
}

#[test]
fn instances_that_export_each_other_are_refused() {
    refused("long names", &names(14, 1000), 29_000);
    refused("many names", &names(19, 1), 700);
}

#[test]
fn many_instances_of_many_items_are_refused() {
    let drop = "(core func (canon resource.drop $r))";
    refused("resource.drop", &nested(4, 10_000, drop), 31_000);
    let alias = "(alias outer 0 $r (type))";
    refused("aliases", &nested(4, 10_000, alias), 51_000);
    let empty = "(instance)";
    refused("empty instances", &nested(4, 10_000, empty), 31_000);
    // Each instance of the core module has its imports again.
    let imports = r#"(import "" "f" (func))"#.repeat(3000);
    let text = format!(
        r#"(component {LIFTED} (core instance $x (export "f" (func $i "f")))
          (core module $n {imports}) {})"#,
        r#"(core instance (instantiate $n (with "" (instance $x))))"#.repeat(3000)
    );
    refused("imports of core modules", &text, 39_000);
}

#[test]
fn large_types_that_are_compared_often_are_refused() {
    refused("arguments", &compared(17, 990), 8_000);
    let types = doubled("t", 17);
    let imports: String = (0..200)
        .map(|at| format!(r#"(import "x{at}" (instance (type $t17)))"#))
        .collect();
    refused("imports", &format!("(component {types} {imports})"), 3_000);
    let declared = r#"(type (instance (alias outer 1 $t17 (type $x))
        (export "a" (instance (type $x)))))"#
        .repeat(200);
    refused("types", &format!("(component {types} {declared})"), 5_000);
    let nested = "(component (alias outer 1 $t17 (type)))".repeat(200);
    refused("aliases", &format!("(component {types} {nested})"), 5_000);
    let mut values = "(type $v0 (tuple u8 u8))".to_owned();
    for level in 1..=17 {
        let last = level - 1;
        values += &format!("(type $v{level} (tuple $v{last} $v{last}))");
    }
    let funcs: String = (0..200)
        .map(|at| format!(r#"(import "f{at}" (func (param "x" $v17)))"#))
        .collect();
    refused("values", &format!("(component {values} {funcs})"), 5_000);
}

#[test]
fn adapters_between_many_instances_are_refused() {
    refused("at once", &called(90, 300), 9_000);
    // Fewer pass the first count. Their code is charged against the file's bytes, too.
    refused("by their code", &called(12, 300), 9_000);
}

#[test]
fn a_long_name_of_an_import_with_many_functions_is_refused() {
    let all = |one: &dyn Fn(u32) -> String| (0..1000).map(one).collect::<String>();
    let text = format!(
        r#"(component (import "{name}" (instance $i {funcs})) {lowered}
          (core module $m {imports}) (core instance (instantiate $m (with "" (instance {used})))))"#,
        name = "x".repeat(60_000),
        funcs = all(&|at| format!(r#"(export "f{at}" (func))"#)),
        lowered = all(&|at| format!(r#"(core func (canon lower (func $i "f{at}")))"#)),
        imports = all(&|at| format!(r#"(import "" "f{at}" (func))"#)),
        used = all(&|at| format!(r#"(export "f{at}" (func {at}))"#)),
    );
    refused("names", &text, 130_000);
}

/// A component compiles at its exact limit, and not if that is one unit a byte lower.
#[test]
fn a_component_compiles_at_its_exact_work_limit_only() {
    let wasm = component(&names(11, 60));
    let mut options = options();
    options.work_per_byte = 10_000;
    let (so, work) = compile_counting(&wasm, &options).expect("the work is far below the limit");
    assert!(work > FREE, "{work}");
    options.work_per_byte = (work - FREE).div_ceil(wasm.len() as u64);
    assert!(compile(&wasm, &options).expect("it is enough") == so);
    options.work_per_byte -= 1;
    let error = compile(&wasm, &options).expect_err("it is too much");
    assert!(matches!(error, CompileError::Work { .. }), "{error}");
    // The file follows the work: each path is in it a few times.
    assert!(
        (so.len() as u64) < 5 * work,
        "{} bytes, {work} units",
        so.len()
    );
}
