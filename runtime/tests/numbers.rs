//! Type numbers: closing a module frees its numbers for reuse. Modules open and close while guests
//! compare types, on two threads and in a forked child. Resident memory must not grow.
#![allow(unsafe_code, reason = "a test that forks its own process")]

use crate::common;

use common::campaign::share;
use common::random::Random;
use common::setup::{child, ended_well, fork, limit_run_time};
use pirn_compiler::{Options, compile, parse_text};
use pirn_runtime::{CallError, Instance, InvalidCall, Linker, Module, Region, Value};
use std::fmt::Write as _;

/// A struct type of this test, as the number of fields that each type adds, from the root supertype
/// down.
type Node = Vec<u64>;

/// Fields that encode a number, so that different numbers give different types.
fn fields(number: u64) -> String {
    let kinds = ["i32", "i64", "f32", "f64"];
    let digits = (0..10).map(|at| kinds[(number >> (2 * at)) as usize & 3]);
    digits.fold(String::new(), |text, kind| text + "(field " + kind + ") ")
}

/// A module of random types, some of which other modules have too. Its function `wrong` creates
/// objects on the first call, and returns how many type checks of these objects give a wrong
/// answer.
fn guest(random: &mut Random, salt: u64) -> String {
    let mut nodes: Vec<Node> = vec![];
    let count = 4 + random.below(8);
    for _ in 0..count {
        let mut node = match random.below(nodes.len() as u64 + 1) {
            0 => vec![],
            above => nodes[above as usize - 1].clone(),
        };
        node.push(match random.below(2) {
            0 => random.below(6),
            _ => 1000 + salt * 16 + random.below(16),
        });
        nodes.push(node);
    }
    let (mut types, mut globals, mut make, mut ask) = <(String, String, String, String)>::default();
    for (at, node) in nodes.iter().enumerate() {
        let above = nodes
            .iter()
            .position(|other| other[..] == node[..node.len() - 1]);
        let above = above.map_or(String::new(), |above| format!("$t{above}"));
        let fields: String = node.iter().map(|number| fields(*number)).collect();
        let _ = write!(types, "(type $t{at} (sub {above} (struct {fields})))");
        let _ = write!(
            types,
            "(type $f{at} (func (param (ref $t{at})) (result i32)))"
        );
        let _ = write!(globals, "(global $o{at} (mut anyref) (ref.null any))");
        let _ = write!(globals, "(func $g{at} (type $f{at}) (i32.const {at}))");
        let _ = write!(make, "(global.set $o{at} (struct.new_default $t{at}))");
        for (other, wanted) in nodes.iter().enumerate() {
            let is_it = i32::from(node.starts_with(wanted));
            let same = i32::from(node == wanted);
            let _ = write!(
                ask,
                "(ref.test (ref $t{other}) (global.get $o{at})) (i32.const {is_it}) (i32.ne) (call $count)
                 (ref.test (ref $f{other}) (table.get $t (i32.const {at}))) (i32.const {same}) (i32.ne) (call $count)"
            );
        }
    }
    let all: String = (0..nodes.len()).map(|at| format!(" $g{at}")).collect();
    let (last, len) = (nodes.len() - 1, nodes.len());
    format!(
        r#"(module {types} {globals}
  (global $made (mut i32) (i32.const 0)) (global $wrong (mut i32) (i32.const 0))
  (table $t (export "t") {len} funcref) (elem (table $t) (i32.const 0) func {all})
  (func $count (param i32) (global.set $wrong (i32.add (global.get $wrong) (local.get 0))))
  (func (export "wrong") (result i32)
    (if (i32.eqz (global.get $made)) (then {make} (global.set $made (i32.const 1))))
    {ask} (global.get $wrong))
  (func (export "first") (result anyref) (global.get $o0))
  (func (export "take") (param (ref null $t{last})))
  (func (export "call") (param i32) (result i32)
    (call_indirect $t (type $f{last}) (ref.cast (ref $t{last}) (global.get $o{last})) (local.get 0))))"#
    )
}

fn compiled(text: &str) -> Vec<u8> {
    let wasm = parse_text(text.as_bytes()).expect("it is well-formed");
    compile(&wasm, &Options::default()).expect("it is valid")
}

fn wrong(instance: &mut Instance<()>) -> Value {
    let values = instance.call_values("wrong", &[]);
    values.expect("it returns")[0]
}

/// Opens and closes modules in random order, with instances that check the types of their objects.
fn come_and_go(region: &Region, modules: &[Vec<u8>], random: &mut Random) {
    let mut open: Vec<Instance<()>> = vec![];
    let mut gone: Option<Value> = None;
    for bytes in modules {
        let module = Module::from_bytes(bytes).expect("type numbers are free");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        assert_eq!(wrong(&mut instance), Value::I32(0));
        // A reference to an object of a dropped guest must be refused here, even if this guest
        // reuses its type numbers.
        if let Some(value) = gone.take() {
            let error = instance
                .call_values("take", &[value])
                .expect_err("a stranger's");
            let CallError::Invalid(why) = error else {
                panic!("{error}")
            };
            assert_eq!(*why, InvalidCall::ForeignRef);
        }
        open.push(instance);
        for _ in 0..2 {
            let at = random.below(open.len() as u64) as usize;
            assert_eq!(wrong(&mut open[at]), Value::I32(0));
        }
        if open.len() > 5 {
            let mut instance = open.swap_remove(random.below(6) as usize);
            gone = Some(instance.call_values("first", &[]).expect("it returns")[0]);
        }
    }
}

/// Resident bytes of the process, from `/proc/self/statm` (proc(5)).
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("it is a number of pages") * 4096
}

#[test]
fn guests_distinguish_types_while_numbers_are_reused() {
    let mut random = Random(19);
    let mut modules = |from: u64| -> Vec<Vec<u8>> {
        let texts = (from..from + share(40, 5)).map(|salt| guest(&mut random, salt));
        texts.map(|text| compiled(&text)).collect()
    };
    let (one, two, three) = (modules(0), modules(40), modules(80));
    let region = || {
        Region::builder()
            .slots(8)
            .memories(2)
            .build()
            .expect("a region")
    };
    std::thread::scope(|scope| {
        for (seed, modules) in [(1, &one), (2, &two)] {
            scope.spawn(move || {
                let region = region();
                for _ in 0..6 {
                    come_and_go(&region, modules, &mut Random(seed));
                }
            });
        }
    });
    // A fork inherits the type numbers of its parent, and then allocates its own.
    let kept: Vec<_> = one[..3]
        .iter()
        .map(|bytes| Module::from_bytes(bytes))
        .collect();
    let pid = fork();
    if pid == 0 {
        limit_run_time();
        child(std::panic::AssertUnwindSafe(|| {
            let region = region();
            drop(kept);
            come_and_go(&region, &three, &mut Random(3));
            come_and_go(&region, &one, &mut Random(4));
        }));
    }
    come_and_go(&region(), &three, &mut Random(5));
    ended_well(pid);
    assert!(kept.iter().all(Result::is_ok));
}

/// Opens modules in sequence. Each has 4,000 types of its own, half of which have subtypes.
#[test]
fn closed_modules_release_the_memory_of_their_types() {
    common::alone(modules_come_and_go);
}

fn modules_come_and_go() {
    const TYPES: u64 = 4000;
    let cycle = |round: u64| {
        let mut text = "(module ".to_owned();
        for at in 0..TYPES / 2 {
            let fields = fields(2000 + round * TYPES + at);
            let _ = write!(text, "(type $a{at} (sub (struct {fields})))");
            let _ = write!(text, "(type (sub $a{at} (struct {fields} (field v128))))");
        }
        let module = Module::from_bytes(&compiled(&(text + ")"))).expect("type numbers are free");
        assert_eq!(module.imports().count(), 0);
    };
    // The default sample measures 5 modules. They exceed the limit if each type leaks 210 bytes.
    let count = share(60, 8);
    (0..count / 3).for_each(cycle);
    let before = resident();
    (count / 3..count).for_each(cycle);
    let after = resident();
    assert!(after < before + (4 << 20), "resident: {before} {after}");
}
