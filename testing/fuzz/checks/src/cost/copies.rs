//! Components of which the readers keep copies: of types, resources, core modules and snapshots.
//! For each kind of [`ComponentShape`], the fields of the component in the text format.

use super::component_shape::ComponentShape;
use super::instances::{LIFTED, each, name};

/// The most components or core modules that a component may define is 1,000.
const GROUP: u32 = 500;

/// `count` times a component or core module, in components of [`GROUP`].
fn grouped(count: u32, item: impl Fn(u32) -> String) -> String {
    each(count.div_ceil(GROUP), |group| {
        let first = group * GROUP;
        let items = each(GROUP.min(count - first), |at| item(first + at));
        format!("(component {items})")
    })
}

/// `count` components with types and instances. Each ends with a snapshot of all types.
pub(super) fn components(shape: ComponentShape) -> String {
    let kinds = [
        "(type u8)",
        "(type (func))",
        "(type (instance))",
        "(instance)",
    ];
    let kinds = kinds[..=shape.variety as usize % 4].concat();
    grouped(shape.count, |_| format!("(component {kinds})"))
}

/// `count` core modules with a function type each.
pub(super) fn core_modules(shape: ComponentShape) -> String {
    grouped(shape.count, |at| {
        let params = "i32 ".repeat(at as usize % 100);
        let function = match shape.variety % 2 {
            0 => "",
            _ => "(func)",
        };
        format!("(core module (type (func (param {params}))) {function})")
    })
}

/// `repeats` named types, and then `count` components.
pub(super) fn named_types(shape: ComponentShape) -> String {
    let types = each(shape.repeats, |at| {
        format!(r#"(export "{}" (type $t))"#, name(at, 1))
    });
    let ends = grouped(shape.count, |_| "(component)".to_owned());
    format!("(type $t u8) {types} {ends}")
}

/// A chain of `count` components, each of which instantiates the one before. `$c` and the number is
/// the last one. `first` and `next` are the fields of the first one and of the others, which have
/// the instance `$y`.
fn chain(count: u32, first: &str, next: &str) -> String {
    let level = |at: u32| {
        format!(
            "(component $c{} (alias outer 1 $c{at} (component $x)) (instance $y (instantiate $x))
              {next})",
            at + 1
        )
    };
    format!("(component $c0 {first}) {}", each(count, level))
}

/// `repeats` resource types, and then a chain of `count` instances.
pub(super) fn known_resources(shape: ComponentShape) -> String {
    let resources = "(type (resource (rep i32)))".repeat(shape.repeats as usize);
    let count = shape.count.min(GROUP);
    let chain = chain(count, "", "");
    format!("{resources} {chain} (instance (instantiate $c{count}))")
}

/// An instance has a function of the innermost instance of a chain of `count` `repeats` times. The
/// instance is aliased `arity` times.
pub(super) fn levels(shape: ComponentShape) -> String {
    let count = shape.count.min(GROUP);
    let first = format!(r#"{LIFTED} (export "f" (func $f))"#);
    let next = r#"(alias export $y "f" (func $g)) (export "f" (func $g))"#;
    let exports = each(shape.repeats, |at| format!(r#"(export "f{at}" (func $f))"#));
    format!(
        r#"{} (instance $i (instantiate $c{count})) (alias export $i "f" (func $f))
        (instance $b {exports}) (instance $o (export "b" (instance $b))) {}"#,
        chain(count, &first, next),
        r#"(alias export $o "b" (instance))"#.repeat(shape.arity as usize)
    )
}

/// `count` instances of a component that exports `repeats` types of `arity` handles.
pub(super) fn types_with_resources(shape: ComponentShape) -> String {
    let fields = each(shape.arity.min(50), |at| {
        format!(r#"(field "{}" $o)"#, name(at, shape.length.min(50)))
    });
    let handles = "$o ".repeat(shape.arity as usize);
    let types = each(shape.repeats.min(500), |at| {
        let ty = match shape.variety % 3 {
            0 => format!("(record {fields})"),
            1 => format!("(tuple {handles})"),
            _ => "(list $o)".to_owned(),
        };
        format!(r#"(type $t{at} {ty}) (export "t{at}" (type $t{at}))"#)
    });
    format!(
        r#"(component $c (type $r (resource (rep i32))) (export $e "r" (type $r))
          (type $o (own $e)) {types})
        {}"#,
        "(instance (instantiate $c))".repeat(shape.count as usize)
    )
}

/// A core module with `repeats` functions is given to `count` instances, each of which instantiates
/// it `arity` times.
pub(super) fn given_modules(shape: ComponentShape) -> String {
    let functions = "(func)".repeat(shape.repeats as usize);
    let instances = "(core instance (instantiate $m))".repeat(shape.arity as usize);
    let given = match shape.variety % 2 {
        0 => r#"(with "m" (core module $m))"#,
        _ => r#"(with "i" (instance $i))"#,
    };
    let import = match shape.variety % 2 {
        0 => r#"(import "m" (core module $m))"#,
        _ => {
            r#"(import "i" (instance $i (export "m" (core module))))
            (alias export $i "m" (core module $m))"#
        }
    };
    format!(
        r#"(core module $m {functions}) (instance $i (export "m" (core module $m)))
        (component $c {import} {instances}) {}"#,
        format!("(instance (instantiate $c {given}))").repeat(shape.count as usize)
    )
}

/// `count` instances that have a core module or a component with `repeats` exports.
pub(super) fn large_items(shape: ComponentShape) -> String {
    let exports = |item: &str| {
        each(shape.repeats, |at| {
            format!(r#"(export "{}" {item})"#, name(at, shape.length.min(50)))
        })
    };
    let (defined, item) = match shape.variety % 2 {
        0 => (
            format!("(core module $m (func) {})", exports("(func 0)")),
            "(core module $m)",
        ),
        _ => (
            format!("(component $m (type $t u8) {})", exports("(type $t)")),
            "(component $m)",
        ),
    };
    let instance = format!(r#"(instance (export "m" {item}))"#);
    format!("{defined} {}", instance.repeat(shape.count as usize))
}

/// `count` instances of a core module with `repeats` segments, after one with a start function.
pub(super) fn late_segments(shape: ComponentShape) -> String {
    let segments = match shape.variety % 2 {
        0 => "(elem (i32.const 0) func $f)",
        _ => r#"(elem (i32.const 0) func $f) (elem func $f)"#,
    };
    format!(
        "(core module $s (func $f) (start $f)) (core instance (instantiate $s))
        (core module $m (func $f) (table 1 funcref) {}) {}",
        segments.repeat(shape.repeats as usize),
        "(core instance (instantiate $m))".repeat(shape.count as usize)
    )
}
