//! The cost of compiling a module, compared with its size: see `pirn_fuzz_checks::cost`.

use pirn_compiler::{OptLevel, Options};
use pirn_fuzz_checks::cost::{
    COMPONENT_KINDS, ComponentShape, Found, HEAP_PER_UNIT, KINDS, Meter, Shape, measure, search,
    unlimited, ways,
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

/// Memory that a component may take besides that for its work: of any component, and for each byte.
const SMALL_BYTES: u64 = 256 << 10;
const SMALL_BYTES_PER_BYTE: u64 = 100;

/// A shape of which each kind makes a component that takes some megabytes, or as many as its kind
/// can take.
fn larger(name: &str) -> ComponentShape {
    let shape = component(name);
    let of = |count, repeats, arity, depth| ComponentShape {
        count,
        repeats,
        arity,
        depth,
        ..shape
    };
    match name {
        "adapters between instances" => of(20, 2, 2, 2),
        "types of imported functions" | "types of exported functions" => of(50, 1, 3, 3),
        "types with resources" | "instances exported again" => of(60, 50, 8, 2),
        "canonical options" => of(50, 1, 4, 2),
        "flags and enums" => of(200, 500, 1, 1),
        "exported types" => of(50, 50, 2, 2),
        "resources between instances" => of(10, 40, 2, 1),
        "arguments that are compared" => of(20, 1, 2, 5),
        "imported instances in instances" => of(20, 1, 2, 6),
        "exports of exports" => of(1, 1, 2, 10),
        "components in components" => of(50, 20, 1, 1),
        "components in a row" | "core modules in a row" => of(300, 1, 1, 1),
        "named types and components" => of(200, 400, 1, 1),
        "resources known to instances" => of(100, 1000, 1, 1),
        "functions of inner instances" => of(80, 50, 50, 1),
        "types of components" => of(1, 1, 2, 5),
        "large items in instances" => of(100, 200, 1, 1),
        "late segments" => of(20, 20, 1, 1),
        "destructors" => of(4, 20, 4, 2),
        "components instantiated again" => of(5, 30, 4, 2),
        "core modules given" => of(30, 100, 3, 1),
        "arguments of core modules" => of(50, 50, 1, 1),
        _ => of(20, 30, 4, 2),
    }
}

/// The memory of a component is part of its work, so it has the same limit.
#[test]
fn the_work_of_each_kind_of_component_pays_for_its_memory() {
    for name in COMPONENT_KINDS {
        for variety in 0..2 {
            let shape = ComponentShape {
                variety,
                ..larger(name)
            };
            let found = measure(shape, &unlimited(), METER).expect("no internal error");
            let small_bytes = SMALL_BYTES + SMALL_BYTES_PER_BYTE * found.bytes;
            let heap_bytes_max = small_bytes + HEAP_PER_UNIT * found.work;
            println!("{} of {heap_bytes_max}: {found}", found.heap_bytes);
            assert_eq!(found.refused, None, "{shape:?}");
            assert!(found.heap_bytes <= heap_bytes_max, "{found}");
        }
    }
}
