//! Small components that would take seconds and gigabytes to compile: their work is counted before
//! it is done, against the limit that follows the bytes of the file.

use crate::common::{guests, leb, work};
use pirn_compiler::{Compilation, CompileError, Emitted, OptLevel, Options, compile, parse_text};

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

/// Asserts that a component has at most `bytes_max` bytes, and is refused for its work.
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

/// Instances of which each exports the previous instance twice, by names of `letters` letters.
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
            r#"(instance $i{at} (instantiate $b (with "t" (type $t))
              (with "f" (func $i{last} "g"))))"#
        );
    }
    format!(
        r#"{text} (export $t2 "t" (type $t))
          (export "g" (func $i{count} "g") (func (param "x" $t2))))"#
    )
}

/// The types `$t0` to `$tN` of instances, each within the next.
fn chain(levels: usize) -> String {
    let mut text = "(type $t0 (instance))".to_owned();
    for level in 1..levels {
        let last = level - 1;
        text += &format!(
            r#"(type $t{level} (instance (alias outer 1 $t{last} (type $x))
                (export "a" (instance (type $x)))))"#
        );
    }
    text
}

/// The components `$c0` to `$cN`. Each captures the one before `count` times, and has `item`, in
/// which the captured one is `$x0`.
fn capturing(levels: usize, count: usize, item: &str) -> String {
    let mut text = "(component $c0)".to_owned();
    for level in 1..=levels {
        let last = level - 1;
        let alias = |at| format!("(alias outer 1 $c{last} (component $x{at}))");
        let aliases: String = (0..count).map(alias).collect();
        text += &format!("(component $c{level} {aliases} {item})");
    }
    text
}

/// Adds a custom section to a core module.
fn add_section(module: &mut Vec<u8>, name: &str, data: &[u8]) {
    let mut section = leb(name.len());
    section.extend(name.as_bytes());
    section.extend(data);
    module.push(0);
    module.extend(leb(section.len()));
    module.extend(section);
}

/// A core module with sections that each describe a world.
fn with_worlds(worlds: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut module = component("(module)");
    for (at, world) in worlds.into_iter().enumerate() {
        add_section(&mut module, &format!("component-type:{at}"), &world);
    }
    module
}

/// An empty world with this number in its name.
fn world(number: usize) -> Vec<u8> {
    component(&format!(
        r#"(component (@custom "wit-component-encoding" "\04\00")
          (type (component
            (type (component)) (export "a:p{number}/w" (component (type 0)))))
          (export "w" (type 0)))"#
    ))
}

/// Options for a component whose work is not what limits it.
fn generous() -> Options {
    let mut options = options();
    options.work_per_byte = 100_000;
    options
}

/// Asserts that a count of `found` is refused.
fn past_limit(wasm: &[u8], wanted: &str, found: u64, limit: u64) {
    match compile(wasm, &generous()) {
        Err(CompileError::Limit {
            what,
            found: count,
            limit: most,
        }) => assert_eq!((what, count, most), (wanted, found, limit)),
        Err(error) => panic!("{wanted}: {error}"),
        Ok(so) => panic!("{wanted}: it is compiled to {} bytes", so.len()),
    }
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

/// `count` times an item with a number.
fn each(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect()
}

/// `count` instances of a component.
fn instances_of(count: usize, component: &str) -> String {
    format!(
        "(component (component $c {component}) {})",
        "(instance (instantiate $c))".repeat(count)
    )
}

/// Each end of a component or core module keeps a list of all ends before it.
#[test]
fn many_components_and_core_modules_are_refused() {
    let core = each(900, |at| {
        let params = " i32".repeat(at % 5);
        format!("(core module (type (func (param{params}))) (func))")
    });
    refused("core modules", &format!("(component {core})"), 28_000);
    let part = "(component (type u8) (type (func)) (type (instance)) (instance))";
    let parts = format!("(component {})", part.repeat(500)).repeat(2);
    refused("components", &format!("(component {parts})"), 26_000);
    // The list has all types that were named before.
    let types = each(1500, |at| format!(r#"(export "t{at}" (type $t))"#));
    let text = format!(
        "(component (type $t u8) {types} {})",
        "(component)".repeat(900)
    );
    refused("named types", &text, 24_000);
}

/// Each instance in a chain of instances has a copy of what is known of resources.
#[test]
fn resources_that_are_known_to_many_instances_are_refused() {
    let resources = "(type (resource (rep i32)))".repeat(3000);
    let chain = each(300, |at| {
        format!(
            "(component $c{} (alias outer 1 $c{at} (component $x)) (instance (instantiate $x)))",
            at + 1
        )
    });
    let text =
        format!("(component {resources} (component $c0) {chain} (instance (instantiate $c300)))");
    refused("a chain", &text, 28_000);
}

/// Each copy of a function has a list of the instances around the function.
#[test]
fn functions_of_inner_instances_are_refused_in_many_copies() {
    let chain = each(200, |at| {
        format!(
            r#"(component $c{} (alias outer 1 $c{at} (component $x)) (instance $y (instantiate $x))
              (alias export $y "f" (func $g)) (export "f" (func $g)))"#,
            at + 1
        )
    });
    let items = each(80, |at| format!(r#"(export "f{at}" (func $f))"#));
    let text = format!(
        r#"(component (component $c0 {LIFTED} (export "f" (func $f))) {chain}
          (instance $i (instantiate $c200)) (alias export $i "f" (func $f)) (instance $b {items})
          (instance $o (export "b" (instance $b))) {})"#,
        r#"(alias export $o "b" (instance))"#.repeat(200)
    );
    refused("aliases", &text, 21_000);
}

/// Each instance has types of its own if the types contain its resource.
#[test]
fn types_with_resources_are_refused_in_many_instances() {
    let resource = r#"(type $r (resource (rep i32))) (export $e "r" (type $r)) (type $o (own $e))"#;
    let records = each(100, |at| {
        let record = r#"(record (field "a" $o) (field "b" $o))"#;
        format!(r#"(type $t{at} {record}) (export "t{at}" (type $t{at}))"#)
    });
    let text = instances_of(300, &format!("{resource} {records}"));
    refused("records", &text, 4_000);
    let fields = each(500, |at| format!(r#"(field "a{at}" $o)"#));
    let record = format!(r#"(type $t (record {fields})) (export "t" (type $t))"#);
    refused(
        "a record",
        &instances_of(300, &format!("{resource} {record}")),
        5_000,
    );
}

/// The exports of an instance are copied with their names and types.
#[test]
fn instances_with_many_exports_are_refused() {
    let functions = each(100, |at| format!(r#"(export "f{at}" (func $f))"#));
    refused(
        "functions",
        &instances_of(300, &format!("{LIFTED} {functions}")),
        2_000,
    );
    let resources = each(100, |at| {
        format!(r#"(type $r{at} (resource (rep i32))) (export "r{at}" (type $r{at}))"#)
    });
    refused("resources", &instances_of(200, &resources), 4_000);
    let exports = each(300, |at| format!(r#"(export "e{at}" (func 0))"#));
    let text = format!(
        "(component (core module $m (func) {exports}) {})",
        r#"(instance (export "m" (core module $m)))"#.repeat(300)
    );
    refused("core modules", &text, 5_000);
}

/// The price of a core module is the same whether a component gets the module or defines it.
#[test]
fn core_modules_that_are_given_to_many_instances_are_refused() {
    let module = format!("(core module $m {})", "(func)".repeat(300));
    let text = format!(
        r#"(component {module} (component $c (import "m" (core module $m))
          (core instance (instantiate $m))) {})"#,
        r#"(instance (instantiate $c (with "m" (core module $m))))"#.repeat(100)
    );
    refused("an argument", &text, 3_000);
    let text = format!(
        r#"(component {module} (component $c (import "m" (core module $m))
            (core instance (instantiate $m)))
          (component $d (alias outer 1 $c (component $c))
            (import "i" (instance $i (export "m" (core module)))) (alias export $i "m"
            (core module $x)) (instance (instantiate $c (with "m" (core module $x)))))
          (instance $j (export "m" (core module $m))) {})"#,
        r#"(instance (instantiate $d (with "i" (instance $j))))"#.repeat(100)
    );
    refused("an argument of an argument", &text, 3_000);
}

/// Each adapter between two instances may need a core module of its own.
#[test]
fn small_adapters_between_many_instances_are_refused() {
    const LIBC: &str = r#"(core module $l (memory (export "m") 1)
        (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
        (core instance $l (instantiate $l))"#;
    let options = r#"(memory (core memory $l "m")) (realloc (core func $l "r"))"#;
    let text = format!(
        r#"(component
          (component $a {LIBC} (core module $m (func (export "g") (param i32 i32)))
            (core instance $i (instantiate $m))
            (func (export "f") (param "a" string) (canon lift (core func $i "g") {options})))
          (component $b (import "f" (func $f (param "a" string))) {LIBC}
            (core func $g (canon lower (func $f) {options} string-encoding=utf16))
            (core module $u (import "" "f" (func (param i32 i32))))
            (core instance (instantiate $u (with "" (instance (export "f" (func $g)))))))
          (instance $a (instantiate $a)) {})"#,
        r#"(instance (instantiate $b (with "f" (func $a "f"))))"#.repeat(250)
    );
    refused("adapters", &text, 6_000);
}

/// The start function of the joined module writes each segment that follows a start function.
#[test]
fn many_late_segments_are_refused() {
    let text = format!(
        "(component (core module $s (func $f) (start $f)) (core instance (instantiate $s))
          (core module $m (func $f) (table 1 funcref) {}) {})",
        "(elem (i32.const 0) func $f)".repeat(50),
        "(core instance (instantiate $m))".repeat(60)
    );
    refused("segments", &text, 1_000);
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
          (core module $m {imports})
          (core instance (instantiate $m (with "" (instance {used})))))"#,
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
    let emitted = Compilation::new(&options).run(&wasm);
    let Emitted {
        bytes: so, work, ..
    } = emitted.expect("the work is far below the limit");
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

#[test]
fn types_of_many_levels_are_refused_on_a_small_stack() {
    const WHAT: &str = "levels of instances and components within each other";
    let of = |levels| component(&format!("(component {})", chain(levels)));
    compile(&of(100), &generous()).expect("the levels are allowed");
    past_limit(&of(101), WHAT, 101, 100);
    let many = of(100_000);
    let world = with_worlds([many.clone()]);
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let ended = small.spawn(move || {
        past_limit(&many, WHAT, 101, 100);
        past_limit(&world, WHAT, 101, 100);
    });
    ended.expect("a thread").join().expect("it is refused");
}

#[test]
fn instances_and_components_of_many_levels_are_refused() {
    const WHAT: &str = "levels of instances and components within each other";
    let instances = |levels: usize| {
        let mut text = "(component (instance $i0)".to_owned();
        for level in 1..levels {
            text += &format!(
                r#"(instance $i{level} (export "a" (instance $i{})))"#,
                level - 1
            );
        }
        component(&format!("{text})"))
    };
    compile(&instances(100), &generous()).expect("the levels are allowed");
    past_limit(&instances(101), WHAT, 101, 100);
    let components = |levels: usize| {
        let export = r#"(export "a" (component $x0))"#;
        component(&format!("(component {})", capturing(levels - 1, 1, export)))
    };
    compile(&components(100), &generous()).expect("the levels are allowed");
    past_limit(&components(101), WHAT, 101, 100);
}

#[test]
fn components_that_capture_components_are_refused() {
    let twice = |levels| format!("(component {})", capturing(levels, 2, ""));
    compile(&component(&twice(10)), &options()).expect("the captured ones are few");
    refused("a definition", &twice(24), 2_000);
    // Two components are between the innermost component, which captures, and the outermost one,
    // which defines what is captured.
    let inner = "(component (component (alias outer 3 $d (component)) (alias outer 3 $m
        (core module))))";
    let text = format!(
        "(component {} (component $d (alias outer 1 $c12 (component))) (core module $m)
          (component $e {}) {})",
        capturing(12, 2, ""),
        inner.repeat(50),
        "(instance (instantiate $e))".repeat(50)
    );
    refused("components between", &text, 4_000);
    // An instance captures nothing, but what is given to a component is copied with what it
    // captures.
    let text = format!(
        r#"(component {} (component $e) (instance $i (export "a" (component $c12))) {})"#,
        capturing(12, 2, ""),
        r#"(instance (instantiate $e (with "x" (instance $i))))"#.repeat(300)
    );
    refused("arguments", &text, 4_500);
}

#[test]
fn definitions_in_many_instances_are_refused() {
    let alias = "(alias outer 2 $c0 (component))".repeat(100);
    let child = format!("(component {alias})").repeat(100);
    let many = |item: &str| {
        let mut text = format!("(component $c0) (component $d0 {item})");
        for level in 0..4 {
            let instances = format!("(instance (instantiate $d{level}))").repeat(10);
            text += &format!("(component $d{} {instances})", level + 1);
        }
        format!("(component {text} (instance (instantiate $d4)))")
    };
    refused("components", &many(&child), 43_000);
    refused("core modules", &many(&"(core module)".repeat(900)), 12_000);
}

#[test]
fn long_names_that_are_copied_often_are_refused() {
    let name = "x".repeat(90_000);
    let wanted = r#"(type $t (instance)) (import "y" (instance $i (type $t)))"#;
    let instances = r#"(instance (instantiate $d (with "y" (instance $i))))"#.repeat(900);
    let text = format!(
        r#"(component (component $c {wanted} (export "{name}" (instance $i))) {})"#,
        format!("(component (alias outer 1 $c (component $d)) {wanted} {instances})").repeat(20)
    );
    refused("exports", &text, 250_000);
    let world = with_worlds([component(&text)]);
    let error = compile(&world, &options()).expect_err("the world is counted, too");
    assert!(matches!(error, CompileError::Work { .. }), "{error}");
    let imports: String = (0..990)
        .map(|at| format!(r#"(import "a{at}" (instance (type $t)))"#))
        .collect();
    let text = format!(
        r#"(component (type $t (instance (export "r" (type $r (sub resource)))
          (export "{name}" (type (eq $r))))) {imports})"#
    );
    refused("imports", &text, 110_000);
    // The names of the fields of a record with a resource are copied with it.
    let text = format!(
        r#"(component (type $t (instance (export "r" (type $r (sub resource)))
          (type $f (record (field "{name}" (own $r)))) (export "t" (type (eq $f))))) {imports})"#
    );
    refused("fields", &text, 110_000);
}

#[test]
fn long_paths_of_imports_are_refused() {
    let name = "x".repeat(1000);
    let all = |one: &dyn Fn(usize) -> String| (0..5000).map(one).collect::<String>();
    let functions = all(&|at| format!(r#"(export "f{at}" (func (type $f)))"#));
    let mut text = format!("(component (type $t0 (instance (type $f (func)) {functions}))");
    let mut aliases = String::new();
    for level in 1..95 {
        let last = level - 1;
        text += &format!(
            r#"(type $t{level} (instance (alias outer 1 $t{last} (type $x))
                (export "{name}" (instance (type $x)))))"#
        );
        aliases += &format!(r#"(alias export $i{last} "{name}" (instance $i{level}))"#);
    }
    let lowered = all(&|at| format!(r#"(core func (canon lower (func $i94 "f{at}")))"#));
    let whole = format!(r#"{text} (import "x" (instance $i0 (type $t94))) {aliases} {lowered})"#);
    refused("paths", &whole, 340_000);
}

#[test]
fn an_imported_core_module_is_refused_before_the_rest_is_read() {
    // The end is not valid, which nobody comes to.
    let end = r#"(alias export $i "none" (func))"#;
    let imports = [
        (r#"(import "m" (core module))"#, r#""m""#),
        (
            r#"(import "i" (instance (export "b" (instance (export "m" (core module))))))"#,
            r#""i#b#m""#,
        ),
    ];
    for (import, path) in imports {
        let text = format!("(component {import} (instance $i) {end})");
        let error = compile(&component(&text), &options()).expect_err("it is refused");
        let wanted = format!("an imported core module is not supported: {path}");
        assert!(error.to_string().contains(&wanted), "{error}");
    }
    let text = format!("(component (instance $i) {end})");
    let error = compile(&component(&text), &options()).expect_err("it is not valid");
    assert!(matches!(error, CompileError::Invalid { .. }), "{error}");
}

#[test]
fn worlds_are_counted_in_every_form() {
    let compared = component(&compared(17, 100));
    let old = [b"\x03\x00\x01w", &compared[..]].concat();
    let error = compile(&with_worlds([old]), &options()).expect_err("it is of an old form");
    let CompileError::Component(text) = error else {
        panic!("{error}");
    };
    assert!(
        text.contains("component-type") && text.contains("wasm-tools"),
        "{text}"
    );
    // What cannot be counted is refused, and the offset is that in the file.
    let mut cut = world(1);
    cut.truncate(cut.len() - 3);
    let bytes = cut.len();
    let wasm = with_worlds([world(0), cut]);
    let error = compile(&wasm, &options()).expect_err("it is cut");
    let CompileError::Invalid { offset, .. } = error else {
        panic!("{error}");
    };
    assert!(
        offset > bytes && offset <= wasm.len(),
        "{offset} of {}",
        wasm.len()
    );
}

#[test]
fn a_core_module_has_at_most_64_worlds() {
    let of = |count| with_worlds((0..count).map(world));
    compile(&of(64), &options()).expect("the worlds are allowed");
    past_limit(&of(65), "custom sections component-type", 65, 64);
}

#[test]
fn real_components_use_at_most_a_tenth_of_the_work_limit() {
    let names = ["hello-p2.wasm", "tour-rust-p2.wasm", "tour-c-p2.wasm"];
    let sockets = guests().join("../../wasi2/tests/guests/sockets.wasm");
    let guests = names.map(|name| guests().join(name));
    for path in guests.into_iter().chain([sockets]) {
        let wasm = std::fs::read(&path).expect("the guest is there");
        let options = options();
        let work = work(&wasm, &options);
        let limit = FREE + wasm.len() as u64 * options.work_per_byte;
        println!("{}: {work} of {limit}", path.display());
        assert!(work * 10 < limit, "{}: {work} of {limit}", path.display());
    }
}
