//! Branches that skip the `br_table` at the start of a loop: which ones, on both targets, and how
//! much a function may grow by it. `runtime/tests/threading.rs` runs such guests.

use crate::common::{emit, work};
use pirn_compiler::{Emit, OptLevel, Options, parse_text};
use pirn_format::cpu::Arch;
use pirn_testing::campaign::sampled;

/// A sum by a loop of three blocks, as Go's compiler writes it. `start` is before the table,
/// `second` is the way after the first block, and `back` ends the second one.
fn module(start: &str, second: &str, back: &str) -> String {
    format!(
        "(module (func (param $way i32) (param $n i32) (result i32) (local $sum i32) (local $x i32)
           (loop $next (result i32)
             {start}
             (block $done (block $body (block $test
               (br_table $test $body $done (local.get $way)))
               (local.set $way (i32.const {second}))
               (br_if $next (local.get $n))
               (local.set $way (i32.const 9))
               (br $next))
               (local.set $sum (i32.add (local.get $sum) (local.get $n)))
               (local.set $n (i32.sub (local.get $n) (i32.const 1)))
               {back})
             (return (local.get $sum)))))"
    )
}

const BACK: &str = "(local.set $way (i32.const 0)) (br $next)";

/// How many branches go to the block that branches by a table, besides the one that enters the
/// loop.
fn dispatched(text: &str, options: &Options) -> usize {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let clif = emit(&wasm, options, Emit::Clif).expect("it is valid");
    let clif = String::from_utf8(clif).expect("text");
    // The first jump enters the loop.
    let mut lines = clif.lines().map(str::trim);
    let header = lines.find_map(|line| line.split_once("jump ")?.1.split('(').next());
    let header = header.expect("there is a loop");
    let names = clif.split(|c: char| !c.is_alphanumeric());
    // The block itself, and the jump that enters the loop.
    names.filter(|name| *name == header).count() - 2
}

#[test]
fn known_ways_are_taken_at_once() {
    for arch in Arch::ALL {
        for level in [OptLevel::Speed, OptLevel::SpeedAndSize] {
            let mut options = Options::new(arch);
            options.opt_level = level;
            assert_eq!(dispatched(&module("", "1", BACK), &options), 0, "{arch}");
        }
    }
}

/// Fuel is counted at each loop. Code that is not optimised is what the tests compare with.
#[test]
fn other_branches_go_to_the_loop() {
    let known = module("", "1", BACK);
    for arch in Arch::ALL {
        let plain = Options::new(arch);
        let mut fuel = plain.clone();
        fuel.fuel = true;
        let mut none = plain.clone();
        none.opt_level = OptLevel::None;
        let computed = "(local.set $way (i32.and (local.get $n) (i32.const 1))) (br $next)";
        for (what, text, options, count) in [
            ("fuel", known.clone(), &fuel, 3),
            ("no optimiser", known.clone(), &none, 3),
            ("a computed way", module("", "1", computed), &plain, 1),
            // The loop does something before the table.
            (
                "another operator",
                module("(drop (memory.size))", "1", BACK).replace("(module", "(module (memory 1)"),
                &plain,
                3,
            ),
        ] {
            assert_eq!(dispatched(&text, options), count, "{arch}: {what}");
        }
    }
}

/// A table of `blocks` blocks in a function of `locals` locals. Each block changes a local and goes
/// on to one of two others. `start` is before the table.
fn large(blocks: usize, locals: usize, start: &str) -> String {
    let open = "(block ".repeat(blocks);
    let table: String = (0..blocks).map(|at| format!("{at} ")).collect();
    let mut body = format!("{start} {open} (br_table {table} (local.get 0))");
    for at in 0..blocks {
        let (next, other, depth) = (at * 7 % blocks, at * 5 % blocks, blocks - 1 - at);
        let local = 1 + at % locals;
        body += &format!(
            ") (local.set {local} (i32.add (local.get {local}) (local.get {})))
             (local.set 0 (i32.const {next})) (br_if {depth} (local.get {local}))
             (local.set 0 (i32.const {other})) (br {depth})",
            1 + (at + 1) % locals
        );
    }
    let declared = "i32 ".repeat(locals);
    format!("(module (func (param i32) (local {declared}) (loop {body})))")
}

/// A table of two blocks in `blocks` outer blocks, to which both branch. The locals are used before
/// and after. `start` is before the table.
fn in_blocks(blocks: usize, locals: usize, start: &str) -> String {
    let each = |text: &dyn Fn(usize) -> String| (0..locals).map(text).collect::<String>();
    let leave = |first: usize| {
        let branch = |at| format!("(br_if {} (local.get {}))", first + at, 1 + at % locals);
        (0..blocks).map(branch).collect::<String>()
    };
    let (declared, open) = ("i32 ".repeat(locals), "(block ".repeat(blocks));
    format!(
        "(module (memory 1) (func (param i32) (local {declared}) {} {open}
           (loop $next {start} (block $a (block $b (br_table $b $a (local.get 0)))
             {} (local.set 0 (i32.const 1)) (br $next))
             {} (local.set 0 (i32.const 0)) (br $next)) {} {}))",
        each(&|at| format!("(local.set {} (i32.load8_u (i32.const {at})))", 1 + at)),
        leave(2),
        leave(1),
        ")".repeat(blocks),
        each(&|at| format!("(i32.store8 (i32.const {at}) (local.get {}))", 1 + at)),
    )
}

/// The work of a function whose branches are threaded, and of the same function with a `nop` before
/// the table, where they are not.
fn works(text: &dyn Fn(&str) -> String) -> [u64; 2] {
    ["", "(nop)"].map(|start| {
        let text = text(start);
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        work(&wasm, &Options::default())
    })
}

/// Each block of a table may get a parameter for each local, and so may the blocks around the loop.
/// A function that gets too many for its size is compiled with branches to the loop.
#[test]
fn a_function_grows_by_a_bounded_amount() {
    // Some functions are threaded, some would get too many parameters, and some have too many
    // locals. By default, one of the large functions is compiled.
    let large_sizes = [(1000, 20), (2000, 10), (2000, 60), (300, 5000)];
    let sizes = [(10, 2), (10, 500), (50, 30), (100, 100), (100, 600)];
    for (blocks, locals) in sizes.into_iter().chain(sampled(large_sizes, 4, 0)) {
        let [with, without] = works(&|start| large(blocks, locals, start));
        assert!(
            with < 5 * without,
            "{blocks} blocks, {locals} locals: {with}, {without}"
        );
    }
    // The first is threaded. The others would be too costly, and the large ones run only in the
    // whole campaign.
    let sizes = [(10, 10), (100, 60), (300, 100)];
    let large_sizes = sampled([(1000, 60), (1000, 500)], 3, 2);
    for (blocks, locals) in sizes.into_iter().chain(large_sizes) {
        let [with, without] = works(&|start| in_blocks(blocks, locals, start));
        assert!(
            with < 5 * without,
            "in {blocks} blocks, {locals} locals: {with}, {without}"
        );
    }
}

/// Cranelift's builder takes quadratic time to add arguments to the entries of a table.
#[test]
fn entries_of_large_tables_have_no_arguments() {
    for (blocks, has_arguments) in [(250, true), (300, false)] {
        let text = large(blocks, 10, "");
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        let clif = emit(&wasm, &Options::default(), Emit::Clif);
        let clif = String::from_utf8(clif.expect("it is valid")).expect("text");
        let mut lines = clif.lines();
        let table = lines.find(|line| line.contains("br_table"));
        let table = table.expect("there is a table");
        assert_eq!(table.contains('('), has_arguments, "{blocks}: {table}");
    }
}
