//! The cost of compiling a module, compared with its size: see `pirn_fuzz_checks::cost`.

use pirn_compiler::Options;
use pirn_fuzz_checks::cost::{Found, KINDS, Shape, measure, search, unlimited, ways};
use pirn_fuzz_checks::random::Random;

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
    let proceeds = |tried| tried < 150;
    let found = search(&mut random, &ways(), proceeds, Found::code_permille);
    let found = found.expect("each is valid");
    assert!(found.len() > 20 && found[0].code_bytes > 0);
    assert!(found[0].code_permille() < 1000, "{found:?}");
}

/// The first two expensive modules that the search found.
#[test]
fn known_expensive_modules_compile_in_time_or_are_refused() {
    let imports = measure(shape("imports", 490, 1000), &Options::default());
    let imports = imports.expect("it is valid");
    assert_eq!(imports.refused, None);
    assert!(imports.code_bytes < 200_000, "{imports:?}");
    let catches = shape("catches that return values", 300, 1000);
    let catches = measure(catches, &Options::default()).expect("it is valid");
    let refused = catches.refused.expect("it is over the limit");
    assert!(refused.contains("units of compile work"), "{refused}");
    assert!(!refused.contains('\n'), "{refused}");
}

/// Without the limit, the check finds an expensive module.
#[test]
fn an_expensive_module_exceeds_the_cost_without_the_limit() {
    let catches = shape("catches that return values", 150, 1000);
    let found = measure(catches, &unlimited()).expect("it is valid");
    assert!(found.code_permille() > 1000, "{found:?}");
    let limited = measure(catches, &Options::default()).expect("it is valid");
    assert!(limited.refused.is_some(), "{limited:?}");
}
