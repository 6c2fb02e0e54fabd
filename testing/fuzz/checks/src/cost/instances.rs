//! Components that instantiate, name and export: for each kind of [`ComponentShape`], the fields of
//! the component in the text format.

use super::component_shape::ComponentShape;
use core::fmt::Display;

/// A comment in components that import functions or instances, which only the host can give.
pub(super) const OUTERMOST: &str = "(; outermost ;)";

/// Concatenates the texts for the numbers from 0 to `end - 1`.
pub(super) fn each<T: Display>(end: u32, text: impl Fn(u32) -> T) -> String {
    (0..end).map(|at| text(at).to_string()).collect()
}

/// A name of `length` bytes and some more, which differs for each number.
pub(super) fn name(number: u32, length: u32) -> String {
    format!("n{number}-{}", "x".repeat(length as usize))
}

/// A function `$f` of the component.
pub(super) const LIFTED: &str = r#"(core module $m (func (export "f")))
    (core instance $i (instantiate $m))
    (func $f (canon lift (core func $i "f")))"#;

/// Types of instances: each level has `arity` instances of the level below. The last one is
/// `$TYPE` and the number of levels.
fn levels(shape: ComponentShape, types: &str) -> String {
    let leaf = match shape.variety % 4 {
        0 => r#"(export "f" (func))"#.to_owned(),
        1 => r#"(export "f" (type (sub resource)))"#.to_owned(),
        2 => each(shape.length.min(50), |at| {
            format!(r#"(export "f{at}" (func (param "x" string)))"#)
        }),
        _ => r#"(type $r (tuple string u8)) (export "t" (type (eq $r)))"#.to_owned(),
    };
    let level = |level: u32| {
        let exports = each(shape.arity, |at| {
            format!(r#"(export "a{at}" (instance (type $x)))"#)
        });
        format!(
            "(type ${types}{} (instance (alias outer 1 ${types}{level} (type $x)) {exports}))",
            level + 1
        )
    };
    format!(
        "(type ${types}0 (instance {leaf})) {}",
        each(shape.depth, level)
    )
}

/// Each of `count` instances gets an argument, whose type is compared with that of the import.
pub(super) fn arguments(shape: ComponentShape) -> String {
    let (depth, count) = (shape.depth, shape.count as usize);
    let instances = r#"(instance (instantiate $c (with "x" (instance $i))))"#.repeat(count);
    format!(
        r#"{OUTERMOST} {} (import "x" (instance $i (type $t{depth})))
        (component $c {} (import "x" (instance (type $u{depth}))))
        {instances}"#,
        levels(shape, "t"),
        levels(shape, "u")
    )
}

/// The component imports `count` instances that consist of instances.
pub(super) fn imports(shape: ComponentShape) -> String {
    let import = |at: u32| {
        let name = name(at, shape.length.min(100));
        format!(r#"(import "{name}" (instance (type $t{})))"#, shape.depth)
    };
    format!(
        "{OUTERMOST} {} {}",
        levels(shape, "t"),
        each(shape.count, import)
    )
}

/// A component `$c`, and components around it of `depth` levels. Each level has `arity` instances
/// of the level below. At the end are `count` instances of the last level.
fn around(shape: ComponentShape, component: &str) -> String {
    let (arity, count) = (shape.arity.min(100) as usize, shape.count as usize);
    let level = |at: u32| {
        let below = match at {
            0 => "c".to_owned(),
            at => format!("c{}", at - 1),
        };
        let instances = "(instance (instantiate $x))".repeat(arity);
        format!("(component $c{at} (alias outer 1 ${below} (component $x)) {instances})")
    };
    let levels = shape.depth.min(20);
    let instances = format!("(instance (instantiate $c{}))", levels - 1).repeat(count);
    format!("{component} {} {instances}", each(levels, level))
}

/// Instances of a component that has `repeats` functions that drop resources.
pub(super) fn drops(shape: ComponentShape) -> String {
    let function = ["resource.drop", "resource.rep", "resource.new"];
    let function = function[shape.variety as usize % 3];
    let drops = format!("(core func (canon {function} $r))").repeat(shape.repeats as usize);
    let component = format!("(component $c (type $r (resource (rep i32))) {drops})");
    around(shape, &component)
}

/// Instances of a component with `repeats` resource types that have destructors.
pub(super) fn destructors(shape: ComponentShape) -> String {
    let resources = each(shape.repeats, |at| {
        format!(
            r#"(type $r{at} (resource (rep i32) (dtor (core func $i "d"))))
            (core func $d{at} (canon resource.drop $r{at}))"#
        )
    });
    let imports = each(shape.repeats, |at| {
        format!(r#"(import "" "{at}" (func (param i32)))"#)
    });
    let given = each(shape.repeats, |at| {
        format!(r#"(export "{at}" (func $d{at}))"#)
    });
    let component = format!(
        r#"(component $c (core module $m (func (export "d") (param i32)))
        (core instance $i (instantiate $m)) {resources}
        (core module $n {imports})
        (core instance (instantiate $n (with "" (instance {given})))))"#
    );
    around(shape, &component)
}

/// Each level is an instance that exports the level below `arity` times.
pub(super) fn paths(shape: ComponentShape) -> String {
    let mut text = LIFTED.to_owned();
    let mut item = "(func $f)".to_owned();
    for level in 0..shape.depth.min(30) {
        let exports = each(shape.arity, |at| {
            format!(r#"(export "{}" {item})"#, name(at, shape.length))
        });
        text += &format!("(instance $l{level} {exports})");
        item = format!("(instance $l{level})");
    }
    format!(r#"{text} (export "r" {item})"#)
}

/// An instance of `repeats` functions, which the component exports `count` times.
pub(super) fn again(shape: ComponentShape) -> String {
    let items = each(shape.repeats, |at| {
        format!(r#"(export "{}" (func $f))"#, name(at, shape.length))
    });
    let exports = each(shape.count, |at| {
        format!(
            r#"(export "{}" (instance $b))"#,
            name(at, shape.length.min(10))
        )
    });
    format!("{LIFTED} (instance $b {items}) {exports}")
}

/// A chain of `count` instances of a component. Each gets the exports of the previous one, which
/// have `repeats` functions, and exports them again.
pub(super) fn bags(shape: ComponentShape) -> String {
    let decls = each(shape.repeats, |at| {
        format!(r#"(export "{}" (func))"#, name(at, shape.length))
    });
    let items = each(shape.repeats, |at| {
        format!(r#"(export "{}" (func $f))"#, name(at, shape.length))
    });
    let made = each(shape.count, |at| {
        let next = at + 1;
        format!(
            r#"(instance $c{next} (instantiate $c (with "x" (instance $b{at}))))
            (alias export $c{next} "y" (instance $b{next}))"#
        )
    });
    format!(
        r#"{LIFTED} (instance $b0 {items})
        (component $c (import "x" (instance $x {decls})) (export "y" (instance $x)))
        {made}"#
    )
}

/// Components in components, `count` deep.
pub(super) fn nested(shape: ComponentShape) -> String {
    // The text format's parser has a limit.
    let depth = shape.count.min(90) as usize;
    let mut text = each(shape.repeats, |_| "(type u8)");
    for _ in 0..depth {
        text = format!("(component {text})").repeat(1 + usize::from(shape.arity > 20));
        if text.len() > 100_000 {
            break;
        }
    }
    text
}

/// Components in components, each of which has `repeats` aliases of a type of the outermost one.
pub(super) fn outer(shape: ComponentShape) -> String {
    let depth = shape.depth.min(60);
    let mut text = String::new();
    for level in (1..=depth).rev() {
        let aliases = format!("(alias outer {level} $t (type))").repeat(shape.repeats as usize);
        text = format!("(component {aliases} {text})");
    }
    let fields = each(shape.arity, |at| format!(r#"(field "f{at}" string)"#));
    format!("(type $t (record {fields})) {text}")
}

/// Instances that are aliased `repeats` times, with an instance of `count` names.
pub(super) fn aliases(shape: ComponentShape) -> String {
    let items = each(shape.count, |at| {
        format!(r#"(export "{}" (func $f))"#, name(at, shape.length))
    });
    let alias = format!(
        r#"(alias export $b "{}" (func)) (alias export $o "b" (instance))"#,
        name(0, shape.length)
    );
    let aliases = alias.repeat(shape.repeats as usize);
    format!("{LIFTED} (instance $b {items}) (instance $o (export \"b\" (instance $b))) {aliases}")
}

/// A core module with `repeats` functions of `arity` operators each.
fn module(shape: ComponentShape) -> String {
    let operators = "(drop (i32.const 0))".repeat(shape.arity as usize);
    let functions = format!("(func {operators})").repeat(shape.repeats as usize);
    let start = match shape.variety % 3 {
        0 => "",
        1 => "(memory 1) (table 10 funcref)",
        _ => "(start 0)",
    };
    let exports = each(shape.length.min(100), |at| {
        format!(r#"(export "e{at}" (func 0))"#)
    });
    format!("(core module $m {functions} {start} {exports})")
}

/// `count` instances of a core module.
pub(super) fn modules(shape: ComponentShape) -> String {
    let instances = "(core instance (instantiate $m))".repeat(shape.count as usize);
    format!("{} {instances}", module(shape))
}

/// Instances of components that have one core module.
pub(super) fn tree(shape: ComponentShape) -> String {
    let module = module(ComponentShape { arity: 1, ..shape });
    let component = format!("(component $c {module} (core instance (instantiate $m)))");
    around(shape, &component)
}

/// `count` instances of a core module with `repeats` imports.
pub(super) fn core_arguments(shape: ComponentShape) -> String {
    let imports = each(shape.repeats, |at| {
        format!(r#"(import "a" "{}" (func))"#, name(at, shape.length))
    });
    let exports = each(shape.repeats, |at| {
        format!(r#"(export "{}" (func 0))"#, name(at, shape.length))
    });
    let instances = r#"(core instance (instantiate $m (with "a" (instance $a))))"#;
    let instances = instances.repeat(shape.count as usize);
    format!(
        r#"(core module $n (func) {exports}) (core instance $a (instantiate $n))
        (core module $m {imports}) {instances}"#
    )
}

/// `count` instances made of the exports of other instances, each with `repeats` functions.
pub(super) fn core_bags(shape: ComponentShape) -> String {
    let bag = |at: u32| {
        let items = each(shape.repeats.min(30), |item| {
            format!(r#"(export "{}" (func $f))"#, name(item, shape.length))
        });
        format!("(core instance $b{at} {items})")
    };
    let with = each(shape.count, |at| {
        format!(r#"(with "b{at}" (instance $b{at}))"#)
    });
    let instances = format!("(core instance (instantiate $n {with}))");
    let instances = instances.repeat(shape.arity.min(20) as usize);
    format!(
        r#"(core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (alias core export $i "f" (core func $f)) (core module $n) {} {instances}"#,
        each(shape.count, bag)
    )
}

/// `count` instances of a component that imports a core module with `repeats` exports.
pub(super) fn module_arguments(shape: ComponentShape) -> String {
    let values = "i64 ".repeat(shape.arity.min(100) as usize);
    let names = |field: &str, ty: &str| {
        each(shape.repeats, |at| {
            format!(r#"({field} "{}" {ty})"#, name(at, shape.length))
        })
    };
    let exports = names("export", "(func 0)");
    let wanted = names("export", &format!("(func (param {values}))"));
    let instances = r#"(instance (instantiate $c (with "m" (core module $m))))"#;
    let instances = instances.repeat(shape.count as usize);
    let used = match shape.variety % 2 {
        0 => "",
        _ => "(core instance (instantiate $m))",
    };
    format!(
        r#"(core module $m (func (param {values})) {exports})
        (component $c (import "m" (core module $m {wanted})) {used})
        {instances}"#
    )
}

/// `count` instances of a component that imports `repeats` functions.
pub(super) fn many_arguments(shape: ComponentShape) -> String {
    let imports = each(shape.repeats, |at| {
        format!(r#"(import "{}" (func))"#, name(at, shape.length))
    });
    let exports = each(shape.repeats, |at| {
        format!(r#"(export "{}" (func $f))"#, name(at, shape.length))
    });
    let with = each(shape.repeats, |at| {
        format!(r#"(with "{}" (func $f))"#, name(at, shape.length))
    });
    match shape.variety % 2 {
        // Each instance has its arguments.
        0 => {
            let instances = format!("(instance (instantiate $c {with}))");
            let instances = instances.repeat(shape.count.min(20) as usize);
            format!("{LIFTED} (component $c {imports}) {instances}")
        }
        // All have the same instance as an argument.
        _ => {
            let decls = imports.replace("(import", "(export");
            let instances = r#"(instance (instantiate $c (with "b" (instance $b))))"#;
            let instances = instances.repeat(shape.count as usize);
            format!(
                r#"{LIFTED} (instance $b {exports})
                (component $c (import "b" (instance $x {decls})) (export "e" (instance $x)))
                {instances}"#
            )
        }
    }
}

/// Types of components in types of components, each of which imports the one before `arity` times.
pub(super) fn component_types(shape: ComponentShape) -> String {
    let level = |level: u32| {
        let parts = each(shape.arity, |at| {
            format!(
                r#"(import "a{at}" (component (type $x))) (export "b{at}" (component (type $x)))"#
            )
        });
        format!(
            "(type $t{} (component (alias outer 1 $t{level} (type $x)) {parts}))",
            level + 1
        )
    };
    format!(
        r#"(type $t0 (component (export "f" (func)))) {}"#,
        each(shape.depth, level)
    )
}

/// Instances of a core module with tables, memories and segments.
pub(super) fn segments(shape: ComponentShape) -> String {
    let (count, repeats) = (shape.count as usize, shape.repeats as usize);
    let functions = "0 ".repeat(shape.arity as usize);
    let table = 1 + shape.length * 100;
    let parts = match shape.variety % 3 {
        0 => format!("(table {table} funcref) (elem (i32.const 0) func {functions})"),
        1 => format!(r#"(memory {}) (data (i32.const 0) "a")"#, shape.length),
        _ => format!(
            "(global $g i32 (i32.const 1)) {}",
            "(global i32 (global.get $g))".repeat(repeats)
        ),
    };
    let parts = match shape.variety % 3 {
        // A table has room for the functions.
        0 => parts.replacen(
            &format!("(table {table}"),
            &format!("(table {}", table + shape.arity),
            1,
        ),
        _ => parts,
    };
    let instances = "(core instance (instantiate $m))".repeat(count);
    format!("(core module $m (func) {parts}) {instances}")
}
