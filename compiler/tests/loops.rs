//! Passes for loops and indices, stores of immediates, and the limits on passed values and on the
//! depth of loops.

use crate::common;

use pirn_compiler::{Options, Pass};
use pirn_format::cpu::Arch;

/// The instructions of a function with three parameters and a memory, with a pass or without.
fn listed(arch: Arch, body: &str, without: Option<Pass>) -> Vec<String> {
    let mut options = Options::new(arch);
    if let Some(pass) = without {
        options.passes = options.passes.without(pass);
    }
    let text = format!(
        "(module (memory 1) (func (export \"run\") (param i32 i32 i32) (result i32)
           (local $x i32) {body}))"
    );
    common::first_function(&text, &options)
}

/// The instructions with a pass, and without.
fn both(arch: Arch, body: &str, pass: Pass) -> [Vec<String>; 2] {
    [None, Some(pass)].map(|without| listed(arch, body, without))
}

/// Writes to memory up to a limit that a subtraction computes.
const LIMIT: &str = "(loop $again
    (i32.store (local.get 0) (local.get 1))
    (local.set 0 (i32.add (local.get 0) (local.get 1)))
    (br_if $again (i32.lt_u (local.get 0) (i32.sub (i32.const 20000) (local.get 2)))))
    (local.get 0)";

/// The positions of the first instruction that starts with `name`, and of the first store to
/// memory.
fn places(found: &[String], name: &str) -> (Option<usize>, Option<usize>) {
    let is_store = |each: &String| {
        let wide = each.starts_with("mov") && each.ends_with(')');
        (wide && !each.contains("%rsp")) || each.starts_with("str w")
    };
    let place = found.iter().position(|each| each.starts_with(name));
    (place, found.iter().position(is_store))
}

#[test]
fn an_operator_with_a_constant_moves_out_of_a_loop() {
    for arch in Arch::ALL {
        let after = |without| {
            let found = listed(arch, LIMIT, without);
            // A subtraction before the store may make the frame, or be the one that moved.
            let (Some(_), Some(store)) = places(&found, "sub") else {
                panic!("{found:?}");
            };
            found[store..].iter().any(|each| each.starts_with("sub"))
        };
        assert!(after(Some(Pass::Hoist)) && !after(None), "{arch}");
    }
}

/// The operand is used in the loop, so another register would be needed.
#[test]
fn an_operator_stays_in_a_loop_that_uses_its_operand() {
    let body = LIMIT.replace(
        "(i32.store (local.get 0) (local.get 1))",
        "(i32.store (local.get 0) (local.get 2))",
    );
    for arch in Arch::ALL {
        let [with, without] = both(arch, &body, Pass::Hoist);
        assert_eq!(with, without, "{arch}");
    }
}

/// Counts up to a number, and uses the counter only before it is increased.
const COUNT: &str = "(loop $again
    (local.set $x (i32.mul (local.get $x) (i32.add (local.get 0) (local.get 1))))
    (local.set 2 (local.get 0))
    (local.set 0 (i32.add (local.get 0) (i32.const 4)))
    (br_if $again (i32.ne (local.get 2) (i32.const 96))))
    (local.get $x)";

#[test]
fn a_loop_compares_the_next_value_of_its_counter() {
    for arch in Arch::ALL {
        let [with, without] = both(arch, COUNT, Pass::CompareNext);
        let has = |found: &[String], number: &str| found.iter().any(|each| each.contains(number));
        assert!(has(&with, "0x64") && !has(&without, "0x64"), "{with:?}");
        assert!(with.len() < without.len(), "{with:?} and {without:?}");
    }
}

/// The counter is a result, so both of its values are needed.
#[test]
fn a_loop_whose_counter_is_a_result_compares_it() {
    let body = COUNT.replace(
        "    (local.get $x)",
        "(i32.add (local.get $x) (local.get 2))",
    );
    for arch in Arch::ALL {
        let [with, without] = both(arch, &body, Pass::CompareNext);
        assert_eq!(with, without, "{arch}");
    }
}

/// A product is added to a sum that a loop carries, as the second operand.
#[test]
fn a_sum_overwrites_the_value_that_a_loop_carries() {
    let body = "(local $v v128) (local $w v128)
        (loop $again
          (local.set $v (f32x4.add (f32x4.mul (v128.load (local.get 0)) (local.get $w))
            (local.get $v)))
          (local.set $w (f32x4.add (f32x4.mul (v128.load offset=16 (local.get 0)) (local.get $v))
            (local.get $w)))
          (local.set 0 (i32.add (local.get 0) (i32.const 32)))
          (br_if $again (i32.ne (local.get 0) (i32.const 960))))
        (i32x4.extract_lane 0 (v128.xor (local.get $v) (local.get $w)))";
    let [with, without] = both(Arch::X86_64, body, Pass::TwoAddress).map(|found| found.len());
    assert!(with < without, "{with} of {without}");
}

/// Copies of the lower halves of registers, which clear the upper halves.
fn extensions(body: &str, without: Option<Pass>) -> usize {
    let found = listed(Arch::X86_64, body, without);
    let is_half = |name: &str| name.starts_with("%e") || name.ends_with('d');
    let copies = found.iter().filter(|each| {
        let operands = each.strip_prefix("mov ").and_then(|it| it.split_once(", "));
        operands.is_some_and(|(from, to)| is_half(from) && is_half(to) && from.starts_with('%'))
    });
    copies.count()
}

#[test]
fn indices_are_extended_by_the_instruction_that_makes_them() {
    let bodies = [
        // A load with two uses.
        "(local.set $x (i32.load (local.get 0)))
         (i32.add (i32.load (local.get $x)) (i32.mul (local.get $x) (local.get 1)))",
        // A byte.
        "(local.set $x (i32.load8_u (local.get 0)))
         (i32.add (i32.load8_u offset=64 (local.get $x)) (i32.mul (local.get $x) (local.get 1)))",
        // A counter.
        "(local.set 0 (i32.xor (local.get 0) (local.get 1)))
         (loop $again
           (local.set 1 (i32.mul (local.get 1) (i32.load (local.get 0))))
           (local.set 0 (i32.add (local.get 0) (i32.const 4)))
           (br_if $again (i32.ne (local.get 0) (local.get 2))))
         (local.get 1)",
        // A list, whose next element is read in the loop.
        "(local.set 0 (i32.xor (local.get 0) (local.get 1)))
         (loop $again
           (local.set 1 (i32.mul (local.get 1) (i32.load offset=8 (local.get 0))))
           (br_if $again (local.tee 0 (i32.load (local.get 0)))))
         (local.get 1)",
        // One of two addresses, in a loop.
        "(local.set 0 (i32.xor (local.get 0) (local.get 1)))
         (loop $again
           (local.set 1 (i32.mul (local.get 1) (i32.load (local.get 0))))
           (local.set 0 (select (i32.add (local.get 0) (i32.const 8))
             (i32.sub (local.get 0) (local.get 1)) (local.get 2)))
           (br_if $again (i32.ne (local.get 0) (local.get 2))))
         (local.get 1)",
    ];
    for body in bodies {
        let [with, without] = [None, Some(Pass::Widen)].map(|pass| extensions(body, pass));
        // Bodies without `xor` have a parameter of the function as an index, which is extended
        // once.
        let params = usize::from(!body.contains("xor"));
        assert!(
            with < without && with <= params,
            "{with} of {without}: {body}"
        );
    }
}

#[test]
fn a_stored_byte_that_is_a_constant_is_an_immediate() {
    for (store, instruction) in [
        ("i32.store8 (local.get 0) (i32.const 257)", "movb $0x1, "),
        ("i32.store8 (local.get 0) (i32.const -1)", "movb $0xff, "),
        (
            "i32.store16 (local.get 0) (i32.const 65535)",
            "movw $0xffff, ",
        ),
        ("i64.store8 (local.get 0) (i64.const 7)", "movb $0x7, "),
        (
            "i64.store32 (local.get 0) (i64.const -2)",
            "movl $0xfffffffe, ",
        ),
    ] {
        let found = listed(Arch::X86_64, &format!("({store}) (local.get 0)"), None);
        let is_there = found.iter().any(|each| each.starts_with(instruction));
        assert!(is_there, "{instruction}: {found:?}");
    }
}

/// Each of many calls passes all locals to a handler, which uses them as indices.
fn passing(calls: usize, locals: usize) -> String {
    let sets = |step: usize| -> String {
        let set = |at| {
            format!(
                "(local.set $a{at} (i32.add (local.get 0) (i32.const {})))",
                at + step
            )
        };
        (0..locals).map(set).collect()
    };
    let params: String = (0..locals)
        .map(|at| format!("(local $a{at} i32)"))
        .collect();
    let load =
        |at| format!("(local.set $x (i32.add (local.get $x) (i32.load8_u (local.get $a{at}))))");
    let loads: String = (0..locals).map(load).collect();
    format!(
        "{params} (block $handler (try_table (catch_all $handler)
           {} (call $throws) {} {} (return (i32.const 1))) unreachable) {loads} (local.get $x)",
        sets(1),
        sets(2),
        "(call $throws)".repeat(calls)
    )
}

/// The handler gets every local from every call.
#[test]
fn parameters_of_functions_that_pass_very_many_values_stay_as_they_are() {
    let code = |calls, pass: Option<Pass>| {
        let mut options = Options::new(Arch::X86_64);
        if let Some(pass) = pass {
            options.passes = options.passes.without(pass);
        }
        let text = format!(
            "(module (memory 1) (tag $e)
               (func (param i32) (result i32) (local $x i32) {})
               (func $throws (if (i32.load (i32.const 0)) (then (throw $e)))))",
            passing(calls, 128)
        );
        options.inline = false;
        common::first_function(&text, &options)
    };
    assert_ne!(code(100, None), code(100, Some(Pass::Widen)));
    // More than 65,536 values.
    assert_eq!(code(520, None), code(520, Some(Pass::Widen)));
}

/// Loops in loops, with a product by eight in the innermost one. The optimiser makes it a shift.
fn nest(depth: usize) -> String {
    let product = "(local.set 0 (i32.add (local.get 0) (i32.mul (local.get 1) (i32.const 8))))";
    let end = "(br_if 0 (i32.lt_u (local.get 0) (local.get 1))))";
    format!(
        "(module (func (param i32 i32) (result i32) {} {} {} (local.get 0)))",
        "(loop ".repeat(depth),
        product.repeat(100),
        end.repeat(depth)
    )
}

/// Cranelift's optimiser takes time with the square of the depth: 2,000 loops with 20,000 operators
/// took 25 seconds.
#[test]
fn loops_that_are_nested_too_deep_are_not_optimised() {
    for (depth, optimised) in [(100, true), (2500, false)] {
        let code = common::first_function(&nest(depth), &Options::new(Arch::X86_64));
        let has_product = code.iter().any(|each| each.starts_with("imul"));
        assert_eq!(has_product, !optimised, "{depth}");
    }
}
