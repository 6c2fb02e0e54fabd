//! Small functions are compiled into their callers: which calls disappear, on both targets, and how
//! much a caller may grow. `runtime/tests/inlined` checks that guests observe no difference.

use crate::common;

use common::{emit, listing, work};
use pirn_compiler::{Cache, Emit, OptLevel, Options, compile, parse_text};
use pirn_format::cpu::Arch;
use pirn_testing::campaign::share;
use std::sync::Arc;

/// The instructions of the function `run` of a listing, with comments.
fn run(listing: &str) -> Vec<&str> {
    let function = listing.split("\n\n").find(|part| part.contains(" (run)"));
    function.expect("it is there").lines().skip(1).collect()
}

/// How many calls of functions with this name `run` makes, and how many it has inlined.
fn calls(text: &str, options: &Options, name: &str) -> (usize, bool) {
    let listing = listing(text, options);
    let lines = run(&listing);
    let call = format!(" ({name})");
    let calls = lines
        .iter()
        .filter(|line| line.ends_with(&call) && line.contains(" -> "));
    let inlines = format!(" ({name}) @");
    (
        calls.count(),
        lines.iter().any(|line| line.contains(&inlines)),
    )
}

fn module(leaf: &str, body: &str) -> String {
    format!(
        r#"(module (memory 1) (tag $e) (global $g (mut i32) (i32.const 0))
             (func $leaf (param i32) (result i32) {leaf})
             (func $middle (param i32) (result i32) (call $leaf (call $leaf (local.get 0))))
             (func $run (export "run") (param i32) (result i32) {body}))"#
    )
}

const LEAF: &str = "(i32.add (i32.load (local.get 0)) (i32.const 77))";

#[test]
fn calls_of_small_functions_disappear() {
    for arch in Arch::ALL {
        let options = Options::new(arch);
        for (body, calls_left, inlined) in [
            ("(call $leaf (local.get 0))", 0, true),
            ("(call $middle (local.get 0))", 0, true),
            (
                "(loop (result i32) (call $leaf (local.get 0)) (br_if 0 (local.get 0)))",
                0,
                true,
            ),
            (
                "(try_table (result i32) (call $leaf (local.get 0)))",
                0,
                true,
            ),
            // The callee must not see the frame of a tail call.
            ("(return_call $leaf (local.get 0))", 1, false),
            // Cold code stays small.
            (
                "(@metadata.code.branch_hint \"\\00\")
                 (if (local.get 0) (then (return (call $leaf (local.get 0))))) (i32.const 1)",
                1,
                false,
            ),
        ] {
            let text = module(LEAF, body);
            assert_eq!(
                calls(&text, &options, "leaf"),
                (calls_left, inlined),
                "{arch}: {body}"
            );
        }
    }
}

#[test]
fn calls_remain_without_the_optimiser_and_if_the_option_says_so() {
    let text = module(LEAF, "(call $leaf (local.get 0))");
    for arch in Arch::ALL {
        let mut options = Options::new(arch);
        options.inline = false;
        assert_eq!(calls(&text, &options, "leaf"), (1, false));
        options = Options::new(arch);
        options.opt_level = OptLevel::None;
        assert_eq!(calls(&text, &options, "leaf"), (1, false));
        options.opt_level = OptLevel::SpeedAndSize;
        assert_eq!(calls(&text, &options, "leaf"), (0, true));
    }
}

/// A recursive function calls itself, and a function with a loop is called.
#[test]
fn other_functions_are_called() {
    for leaf in [
        "(call $leaf (local.get 0))",
        "(loop (br_if 0 (local.get 0))) (local.get 0)",
        "(memory.grow (local.get 0))",
        "(throw $e)",
    ] {
        let text = module(leaf, "(call $leaf (local.get 0))");
        for arch in Arch::ALL {
            assert_eq!(
                calls(&text, &Options::new(arch), "leaf"),
                (1, false),
                "{leaf}"
            );
        }
    }
}

/// TeaVM rounds up by a division. The divisor is a constant at each call, so nothing is divided.
#[test]
fn constants_reach_the_inlined_operators() {
    let text = r#"(module
         (func $up (param i32 i32) (result i32)
           (i32.mul (local.get 1)
             (i32.div_u
               (i32.sub (i32.add (local.get 0) (local.get 1)) (i32.const 1)) (local.get 1))))
         (func $run (export "run") (param i32) (result i32)
           (call $up (local.get 0) (i32.const 8))))"#;
    for arch in Arch::ALL {
        let listing = listing(text, &Options::new(arch));
        let lines = run(&listing);
        assert!(lines.iter().all(|line| !line.contains("div")), "{lines:#?}");
        assert!(lines.len() < 14, "{lines:#?}");
    }
}

/// Leaves that make much code of few operators: checks, and blocks with parameters.
const COSTLY: [&str; 3] = [
    "(i32.div_s (i32.div_s (i32.div_s (local.get 0) (local.get 0)) (local.get 0)) (local.get 0))",
    "(i32.div_s (i32.div_s (local.get 0) (i32.const 5)) (local.get 0))",
    "(if (local.get 0) (then
       (local.set 0 (i32.const 1)) (br_if 1 (i32.const 5) (local.get 0)) (drop)))
     (if (i32.load (local.get 0)) (then (return (i32.const 7)))) (local.get 0)",
];

/// A function of many calls inlines some of them. It draws at most six times the work, and no
/// limit that it kept is exceeded.
#[test]
fn a_function_grows_by_a_bounded_amount() {
    for leaf in COSTLY {
        for count in [1, 10, 1000, share(100_000, 12) as usize] {
            let body = format!("(local.get 0) {}", "(call $leaf) ".repeat(count));
            let text = module(leaf, &body);
            let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
            let mut plain = Options::default();
            plain.inline = false;
            let (with, without) = (work(&wasm, &Options::default()), work(&wasm, &plain));
            assert!(
                with <= 6 * without + 1000,
                "{leaf} {count}: {with}, {without}"
            );
        }
    }
}

/// Any function may inline some bytes, however small it is. A module of such functions stays far
/// below its limit of work.
#[test]
fn many_small_functions_grow_by_a_bounded_amount() {
    for leaf in COSTLY {
        for calls in [1, 4, 20] {
            let calls = "(call $leaf) ".repeat(calls);
            let func = format!("(func (param i32) (result i32) (local.get 0) {calls})");
            let count = share(3000, 10) as usize;
            let body = format!("(local.get 0)) {} (func", func.repeat(count));
            let text = module(leaf, &body);
            let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
            let options = Options::default();
            let work = work(&wasm, &options);
            let limit = wasm.len() as u64 * options.work_per_byte;
            assert!(work * 3 < limit * 2, "{leaf}, {calls}: {work}, {limit}");
        }
    }
}

/// Chains of leaves, each of which calls the next twice, do not grow exponentially.
#[test]
fn leaves_of_leaves_are_bounded() {
    let mut functions = "(func $f0 (param i32) (result i32) (i32.load (local.get 0)))".to_owned();
    for at in 1..40 {
        let callee = at - 1;
        functions += &format!(
            "(func $f{at} (param i32) (result i32)
               (i32.add (call $f{callee} (local.get 0)) (call $f{callee} (local.get 0))))"
        );
    }
    let text = format!("(module (memory 1) {functions})");
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let so = compile(&wasm, &Options::default()).expect("it is valid");
    assert!(so.len() < 40_000, "{}", so.len());
}

/// A function that has moved is found in the cache, and so are the places of inlined functions.
#[test]
fn the_cache_knows_inlined_functions() {
    let text = |before: &str, leaf: &str| {
        format!(
            r#"(module (memory 1) {before}
                 (func $leaf (param i32) (result i32) {leaf} (i32.load (local.get 0)))
                 (func $run (export "run") (param i32) (result i32)
                   (i32.div_u (call $leaf (local.get 0)) (call $leaf (i32.const 8)))))"#
        )
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let moved = [
        text("", ""),
        text("(func (drop (i64.const 5)))", ""),
        text("", "(nop) (nop)"),
        text("(global i32 (i32.const 5))", "(nop)"),
    ];
    for (at, text) in moved.iter().enumerate() {
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        let cache = Arc::new(Cache::open(folder.path()).expect("it is private"));
        let mut options = Options::default();
        for kind in [Emit::So, Emit::Asm] {
            options.cache = None;
            let plain = emit(&wasm, &options, kind).expect("it is valid");
            options.cache = Some(cache.clone());
            let cached = emit(&wasm, &options, kind).expect("it is valid");
            assert!(plain == cached, "{text}, {kind:?}");
        }
        // The second module has `leaf` and `run` at another place. In the others, operators of
        // `leaf` are at other offsets in it.
        assert_eq!(cache.hits() > 0, at == 1, "{text}");
    }
}

/// An invalid leaf is the error of the module, and its callers are not.
#[test]
fn an_invalid_leaf_is_reported() {
    for (leaf, message) in [
        ("(i64.const 1)", "type mismatch"),
        ("(local.get 7)", "unknown local"),
        ("(br 5)", "unknown label"),
        ("", "type mismatch"),
    ] {
        let text = module(leaf, "(call $leaf (local.get 0))");
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        let error = compile(&wasm, &Options::default()).expect_err("it is invalid");
        assert!(error.to_string().contains(message), "{error}");
    }
}
