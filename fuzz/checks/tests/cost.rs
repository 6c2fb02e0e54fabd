//! The cost of compiling a module, compared with its size: see `pirn_fuzz_checks::cost`.

use pirn_compiler::{OptLevel, Options};
use pirn_fuzz_checks::cost::{
    COMPONENT_KINDS, ComponentShape, Found, KINDS, Meter, Shape, measure, search, unlimited, ways,
};
use pirn_fuzz_checks::random::Random;
use pirn_testing::allocator;
use pirn_testing::campaign::{every, share};

fn shape(name: &str, count: u32, arity: u32) -> Shape {
    let kind = KINDS.iter().position(|kind| *kind == name);
    Shape {
        kind: kind.expect("a kind"),
        count,
        repeats: 1,
        arity,
        depth: 1,
        locals: 1,
        value: 0,
    }
}

#[test]
fn no_module_makes_more_code_than_its_work_limit() {
    let mut random = Random::new(1);
    let tries = share(150, 4) as usize;
    let proceeds = |tried| tried < tries;
    let ways = ways();
    let measured = |shape: Shape, way: usize| measure(shape, &ways[way], Meter::NONE);
    let found = search(
        &mut random,
        ways.len(),
        proceeds,
        measured,
        Found::code_permille,
    );
    let found = found.expect("each is valid");
    // The tries must reach many kinds of modules.
    assert!(found.len() > (tries / 4).min(20) && found[0].code_bytes > 0);
    assert!(found[0].code_permille() < 1000, "{found:?}");
}

/// Functions of a module that exceeds the cost without the limit.
const EXPENSIVE: u32 = 150;

fn catches(count: u32) -> Shape {
    shape("catches that return values", count, 1000)
}

/// The first two expensive modules that the search found.
#[test]
fn known_expensive_modules_compile_in_time_or_are_refused() {
    let imports = measure(
        shape("imports", 490, 1000),
        &Options::default(),
        Meter::NONE,
    );
    let imports = imports.expect("it is valid");
    assert_eq!(imports.refused, None);
    assert!(imports.code_bytes < 200_000, "{imports:?}");
    // The compiler charges the work before it optimises.
    let mut plain = Options::default();
    plain.opt_level = OptLevel::None;
    let catches = measure(catches(EXPENSIVE), &plain, Meter::NONE).expect("it is valid");
    let refused = catches.refused.expect("it is over the limit");
    assert!(refused.contains("units of compile work"), "{refused}");
    assert!(!refused.contains('\n'), "{refused}");
}

/// Without the limit, the check finds an expensive module. Its functions are equal. So by default
/// the test computes the size of the module from two small ones.
#[test]
fn an_expensive_module_exceeds_the_cost_without_the_limit() {
    let measured = |count| measure(catches(count), &unlimited(), Meter::NONE).expect("it is valid");
    let found = if every(2) == 1 {
        measured(EXPENSIVE)
    } else {
        let (few, more) = (measured(4), measured(12));
        let steps = u64::from(EXPENSIVE - 4) / 8;
        Found {
            code_bytes: few.code_bytes + steps * (more.code_bytes - few.code_bytes),
            bytes: few.bytes + steps * (more.bytes - few.bytes),
            ..few
        }
    };
    assert_eq!(found.refused, None);
    assert!(found.code_permille() > 1000, "{found:?}");
}

/// Counts what the compiling thread allocates: it reads the component and joins its core modules.
/// Other threads make machine code.
const METER: Meter = Meter {
    start: allocator::start,
    peak: || allocator::peak_bytes().max(0).cast_unsigned() as u64,
};

fn component(name: &str) -> ComponentShape {
    let kind = COMPONENT_KINDS.iter().position(|kind| *kind == name);
    ComponentShape::new(kind.expect("a kind"))
}

/// Whether a component is within its bounds, or the compiler says in one line why it refuses it.
fn is_bounded(found: &Found<ComponentShape>) -> bool {
    let one_line = found.refused.as_ref().is_none_or(|why| !why.contains('\n'));
    one_line && found.bound_permille() < 1000
}

#[test]
fn each_kind_of_component_compiles() {
    for name in COMPONENT_KINDS {
        let shape = ComponentShape {
            count: 2,
            repeats: 2,
            arity: 2,
            ..component(name)
        };
        let found = measure(shape, &Options::default(), METER).expect("no internal error");
        assert_eq!(found.refused, None, "{name}: {}", shape.text());
        assert!(is_bounded(&found), "{found}");
    }
}

/// Without the limit, the check finds an expensive component.
#[test]
fn an_expensive_component_exceeds_its_bounds_without_the_limit() {
    let shape = ComponentShape {
        arity: 2,
        depth: 12,
        length: 30,
        ..component("exports of exports")
    };
    let found = measure(shape, &unlimited(), METER).expect("no internal error");
    assert_eq!(found.refused, None);
    assert!(!is_bounded(&found), "{found}");
}
