//! Components with types of values and functions that convert them: for each kind of
//! [`ComponentShape`], the fields of the component in the text format.

use super::component_shape::ComponentShape;
use super::instances::{OUTERMOST, each, name};

/// How a component names its types. Functions that a component exports may use only named records
/// and variants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// Not at all.
    No,
    /// By imports.
    Imports,
    /// By exports.
    Exports,
}

/// The type of a level: it has `arity` parts of the level below, `$t` and the number below.
fn level(shape: ComponentShape, below: u32) -> String {
    let part = format!("$t{below}");
    let parts = |field: &str| {
        each(shape.arity, |at| match field {
            "" => format!("{part} "),
            _ => format!(r#"({field} "p{at}" {part})"#),
        })
    };
    // Levels differ, so that each is a type of its own.
    match (shape.variety / 4 + below * (shape.variety / 16)) % 8 {
        0 => format!("(record {})", parts("field")),
        1 => format!("(variant {})", parts("case")),
        2 => format!("(tuple {})", parts("")),
        3 => format!("(list {part})"),
        4 => format!("(option {part})"),
        5 => format!("(result {part} (error {part}))"),
        6 => format!("(tuple (list {part}) {})", parts("")),
        _ => format!(r#"(variant (case "none") {})"#, parts("case")),
    }
}

/// The types `$t0` to `$t` and the number of levels.
fn types(shape: ComponentShape, named: Named) -> String {
    let leaf = ["string", "u8", "char", "(list string)"][shape.variety as usize % 4];
    let ty = |at: u32, text: String| match named {
        Named::No => format!("(type $t{at} {text})"),
        Named::Imports => {
            format!(r#"(type $d{at} {text}) (import "t{at}" (type $t{at} (eq $d{at})))"#)
        }
        Named::Exports => format!(r#"(type $d{at} {text}) (export $t{at} "t{at}" (type $d{at}))"#),
    };
    let levels = each(depth(shape), |at| ty(at + 1, level(shape, at)));
    // Only records and the like are named.
    format!("(type $t0 {leaf}) {levels}")
}

fn depth(shape: ComponentShape) -> u32 {
    shape.depth.min(30)
}

/// A string encoding.
fn encoding(number: u32) -> &'static str {
    ["utf8", "utf16", "latin1+utf16"][number as usize % 3]
}

/// A core module with a memory and an allocator, and its instance.
const LIBC: &str = r#"(core module $libc (memory (export "m") 1)
    (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
    (core instance $l (instantiate $libc))
    (alias core export $l "m" (core memory $mem)) (alias core export $l "r" (core func $r))"#;

/// The options of a function of such a component.
fn conversion(number: u32) -> String {
    format!(
        "(memory $mem) (realloc $r) string-encoding={}",
        encoding(number)
    )
}

/// Arguments of an instance that imports the types.
fn with_types(shape: ComponentShape) -> String {
    each(depth(shape), |at| {
        let at = at + 1;
        format!(r#"(with "t{at}" (type $t{at}))"#)
    })
}

/// Whether values of the type are passed in memory: the type is one core parameter then.
fn parameters(shape: ComponentShape) -> String {
    // Seventeen parameters are passed in memory, whatever their types.
    each(17, |at| format!(r#"(param "p{at}" $t{})"#, depth(shape)))
}

/// A chain of `count` instances. Each has `repeats` functions that call those of the previous one.
pub(super) fn adapters(shape: ComponentShape) -> String {
    let shape = ComponentShape {
        repeats: shape.repeats.min(100),
        ..shape
    };
    let params = parameters(shape);
    let imports = each(shape.repeats, |at| {
        format!(r#"(import "f{at}" (func $f{at} {params}))"#)
    });
    let lowered = each(shape.repeats, |at| {
        let conversion = conversion(shape.variety + at);
        format!("(core func $l{at} (canon lower (func $f{at}) {conversion}))")
    });
    let core = each(shape.repeats, |at| {
        format!(r#"(import "" "f{at}" (func $f{at} (param i32)))"#)
    });
    let core_exports = each(shape.repeats, |at| {
        format!(r#"(export "g{at}" (func $f{at}))"#)
    });
    let given = each(shape.repeats, |at| {
        format!(r#"(export "f{at}" (func $l{at}))"#)
    });
    let lifted = each(shape.repeats, |at| {
        let conversion = conversion(shape.length + at);
        format!(
            r#"(func (export "g{at}") {params} (canon lift (core func $i "g{at}") {conversion}))"#
        )
    });
    let types_inside = types(shape, Named::Imports);
    let made = each(shape.count, |at| {
        let aliases = each(shape.repeats, |func| {
            format!(r#"(with "f{func}" (func $i{at} "g{func}"))"#)
        });
        format!(
            "(instance $i{} (instantiate $b {} {aliases}))",
            at + 1,
            with_types(shape)
        )
    });
    let first = each(shape.repeats, |at| {
        format!(r#"(func (export "g{at}") (param i32))"#)
    });
    format!(
        r#"{}
        (component $b {types_inside} {imports} {LIBC} {lowered}
          (core module $m {core} {core_exports})
          (core instance $i (instantiate $m (with "" (instance {given})))) {lifted})
        (component $a {types_inside} {LIBC} (core module $m {first})
          (core instance $i (instantiate $m)) {lifted})
        (instance $i0 (instantiate $a {}))
        {made}"#,
        types(shape, Named::No),
        with_types(shape)
    )
}

/// The component imports `count` functions and lowers them.
pub(super) fn imports(shape: ComponentShape) -> String {
    let params = parameters(shape);
    let imports = each(shape.count, |at| {
        format!(
            r#"(import "{}" (func $f{at} {params}))
            (core func $l{at} (canon lower (func $f{at}) {}))"#,
            name(at, shape.length.min(100)),
            conversion(shape.variety + at)
        )
    });
    let core = each(shape.count, |at| {
        format!(r#"(import "" "f{at}" (func (param i32)))"#)
    });
    let given = each(shape.count, |at| {
        format!(r#"(export "f{at}" (func $l{at}))"#)
    });
    format!(
        r#"{OUTERMOST} {} {LIBC} {imports} (core module $m {core})
        (core instance (instantiate $m (with "" (instance {given}))))"#,
        types(shape, Named::Imports)
    )
}

/// The component exports `count` functions.
pub(super) fn exports(shape: ComponentShape) -> String {
    let params = parameters(shape);
    let result = match shape.variety % 2 {
        0 => String::new(),
        _ => format!("(result $t{})", depth(shape)),
    };
    // The core function has a result in any case.
    let flat = match shape.variety % 2 {
        0 => "(func (export \"g\") (param i32))",
        _ => "(func (export \"g\") (param i32) (result i32) (i32.const 0))",
    };
    // One string or list needs memory for its two words; one byte or char does not.
    let exports = each(shape.count, |at| {
        format!(
            r#"(func (export "{}") {params} {result}
            (canon lift (core func $i "g") {}))"#,
            name(at, shape.length.min(100)),
            conversion(shape.variety + at)
        )
    });
    format!(
        "{} {LIBC} (core module $m {flat}) (core instance $i (instantiate $m)) {exports}",
        types(shape, Named::Exports)
    )
}

/// One imported function is lowered `count` times with several options, for `repeats` imports.
pub(super) fn options(shape: ComponentShape) -> String {
    let params = parameters(shape);
    let memories = each(shape.arity, |at| {
        format!(
            r#"(core instance $l{at} (instantiate $libc))
            (alias core export $l{at} "m" (core memory $m{at}))
            (alias core export $l{at} "r" (core func $r{at}))"#
        )
    });
    let lowered = each(shape.count, |at| {
        let (memory, realloc) = (at % shape.arity, at / shape.arity % shape.arity);
        format!(
            "(core func $f{at} (canon lower (func $f) (memory $m{memory}) (realloc $r{realloc}) \
             string-encoding={}))",
            encoding(at)
        )
    });
    let core = each(shape.count, |at| {
        format!(r#"(import "" "f{at}" (func (param i32)))"#)
    });
    let given = each(shape.count, |at| {
        format!(r#"(export "f{at}" (func $f{at}))"#)
    });
    format!(
        r#"{OUTERMOST} {} {LIBC} {memories} (import "f" (func $f {params})) {lowered}
        (core module $m {core}) (core instance (instantiate $m (with "" (instance {given}))))"#,
        types(shape, Named::Imports)
    )
}

/// `count` functions with flags and enums of `repeats` names.
pub(super) fn labels(shape: ComponentShape) -> String {
    let labels = |end: u32| {
        each(end, |at| {
            format!(r#""{}" "#, name(at, shape.length.min(200)))
        })
    };
    let (flags, cases) = (labels(shape.repeats.min(32)), labels(shape.repeats));
    let exports = each(shape.count, |at| {
        format!(
            r#"(func (export "g{at}") (param "a" $f) (param "b" $e)
            (canon lift (core func $i "g")))"#
        )
    });
    format!(
        r#"(type $f' (flags {flags})) (type $e' (enum {cases}))
        (export $f "f" (type $f')) (export $e "e" (type $e'))
        (core module $m (func (export "g") (param i32 i32))) (core instance $i (instantiate $m))
        {exports}"#
    )
}

/// The component exports a type `count` times, and again in instances.
pub(super) fn exported_types(shape: ComponentShape) -> String {
    let exports = each(shape.count, |at| {
        format!(
            r#"(export "{}" (type $t{}))"#,
            name(at, shape.length),
            depth(shape)
        )
    });
    let instances = each(shape.repeats.min(1000), |at| {
        format!(r#"(export "i{at}" (instance $i))"#)
    });
    format!(
        "{} (instance $i {exports}) {instances}",
        types(shape, Named::Exports)
    )
}

/// A component defines `repeats` resource types. Each of `count` instances imports them, and has
/// functions with handles of each.
pub(super) fn resources(shape: ComponentShape) -> String {
    let repeats = shape.repeats.min(300);
    let defined = each(repeats, |at| {
        format!(r#"(type $d{at} (resource (rep i32))) (export $r{at} "r{at}" (type $d{at}))"#)
    });
    let imported = each(repeats, |at| {
        format!(r#"(import "r{at}" (type $r{at} (sub resource)))"#)
    });
    let drops = each(repeats, |at| {
        format!("(core func (canon resource.drop $r{at}))")
    });
    let functions = |imports: bool| {
        each(repeats, |at| match imports {
            true => format!(r#"(import "f{at}" (func $f{at} (param "x" (own $r{at}))))"#),
            false => format!(
                r#"(func (export "f{at}") (param "x" (own $r{at}))
                (canon lift (core func $i "g")))"#
            ),
        })
    };
    let lowered = each(repeats, |at| {
        format!("(core func $l{at} (canon lower (func $f{at})))")
    });
    let core = each(repeats, |at| {
        format!(r#"(import "" "f{at}" (func (param i32)))"#)
    });
    let given = each(repeats, |at| format!(r#"(export "f{at}" (func $l{at}))"#));
    let with = each(repeats, |at| {
        format!(r#"(with "r{at}" (type $i "r{at}")) (with "f{at}" (func $i "f{at}"))"#)
    });
    let (drops, calls) = match shape.variety % 2 {
        0 => (drops, String::new()),
        _ => (
            String::new(),
            format!(
                r#"{lowered} (core module $m {core})
                (core instance (instantiate $m (with "" (instance {given}))))"#
            ),
        ),
    };
    let instances = match shape.variety / 2 % 2 {
        // Each instance has its arguments.
        0 => format!("(instance (instantiate $c {with}))").repeat(shape.count.min(30) as usize),
        // One component has all instances.
        _ => {
            let inner = each(repeats, |at| {
                format!(r#"(with "r{at}" (type $r{at})) (with "f{at}" (func $f{at}))"#)
            });
            let instance = format!("(instance (instantiate $x {inner}))");
            let instance = instance.repeat(shape.arity.min(30) as usize);
            let outer = format!(
                "(component $y (alias outer 1 $c (component $x)) {imported} {} {instance})",
                functions(true)
            );
            let all = format!("(instance (instantiate $y {with}))");
            format!("{outer} {}", all.repeat(shape.count.min(30) as usize))
        }
    };
    format!(
        r#"(component $d {defined} (core module $m (func (export "g") (param i32)))
          (core instance $i (instantiate $m)) {})
        (instance $i (instantiate $d))
        (component $c {imported} {} {drops} {calls})
        {instances}"#,
        functions(false),
        functions(true)
    )
}
