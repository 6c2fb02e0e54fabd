//! Bulk operations on few bytes. With a constant length the compiler expands them to loads and
//! stores; otherwise they call a trampoline. Each length, at each address near the memory's end and
//! in each overlap, must follow the specification.

use super::{FUNCS, MEMORY, Operation, common, options, returned};
use crate::common::campaign::sampled;
use crate::common::retry::with_more_iterations;
use crate::common::values::Lend as _;
use pirn_compiler::OptLevel;
use pirn_runtime::{Group, Instance, Linker, Prepared, Region, Step, Value};
use std::sync::LazyLock;
use std::time::Duration;

/// A length greater than the compiler expands.
const LENGTHS: usize = 130;

/// Number of rotations at first. They take a large part of a second.
const TIMES: i32 = 200_000;

const SLICE: Duration = Duration::from_micros(100);

/// Functions `copy-N` and `fill-N` for each length N, and those with the length as a parameter.
fn text() -> String {
    let each: String = (0..=LENGTHS)
        .map(|n| {
            format!(
                r#"(func (export "copy-{n}") (param i32 i32)
                     (memory.copy (local.get 0) (local.get 1) (i32.const {n})))
                   (func (export "fill-{n}") (param i32 i32)
                     (memory.fill (local.get 0) (local.get 1) (i32.const {n})))"#
            )
        })
        .collect();
    format!(r#"(module (memory (export "memory") 1) {each} {FUNCS})"#)
}

/// A pattern in which each byte differs from its neighbours.
static PATTERN: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..2048u32).map(|n| (n * 7 + n / 256) as u8).collect());

/// Writes the pattern at both ends of the memory.
fn write(instance: &mut Instance<()>) {
    let mut memory = instance.memory_mut();
    memory.write(0, &PATTERN).expect("inside");
    let end = (MEMORY - PATTERN.len()) as u32;
    memory.write(end, &PATTERN).expect("inside");
}

fn contents(instance: &Instance<()>) -> Vec<u8> {
    let mut bytes = vec![0; MEMORY];
    instance.memory().read(0, &mut bytes).expect("inside");
    bytes
}

/// Runs an operation with the constant length (if there is such a function) and with the length as
/// a parameter.
fn compare(prepared: &Prepared<()>, operation: Operation, n: usize, to: u32, source: u32) {
    let name = operation.name();
    let any = prepared.func::<(u32, u32, u32), ()>(name);
    let any = any.expect("it is exported");
    let few = prepared.func::<(u32, u32), ()>(&format!("{name}-{n}"));
    assert_eq!(few.is_ok(), n <= LENGTHS, "{name} {n}");
    let run = |instance: &mut Instance<()>, in_code: bool| match (&few, in_code) {
        (Ok(few), true) => instance.call(few, (to, source)),
        _ => instance.call(&any, (to, source, n as u32)),
    };
    for in_code in [true, false] {
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        write(&mut instance);
        let mut expected = contents(&instance);
        let wanted = operation.apply(&mut expected, to, source, n as u32);
        assert_eq!(
            returned(run(&mut instance, in_code)).is_some(),
            wanted,
            "{name} {n} at {to:#x}, {source:#x}"
        );
        let found = contents(&instance);
        assert!(
            found == expected,
            "{name} {n} at {to:#x}, {source:#x} leaves other bytes"
        );
    }
}

fn prepared(level: OptLevel) -> Prepared<()> {
    let module = common::wat_with(&text(), &options(level, false));
    let region = Region::builder().slots(2).build().expect("a region");
    region.prepare(&module, &Linker::new()).expect("it fits")
}

/// Addresses around boundaries: a range of `n` bytes just fits, is one byte too long, or starts or
/// ends at a page boundary.
fn places(n: usize) -> Vec<u32> {
    let end = MEMORY as u32;
    let fits = end - n as u32;
    vec![
        3,
        200,
        fits,
        fits + 1,
        end - 1,
        end,
        u32::MAX,
        u32::MAX - n as u32,
    ]
}

/// All constant lengths, and some around the limits at which the trampolines change their method.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=LENGTHS).chain([191, 192, 193, 300, 1000, 1023, 1024, 1025, 1100])
}

#[test]
fn copies_of_few_bytes_follow_the_specification() {
    for level in [OptLevel::None, OptLevel::Speed] {
        let prepared = prepared(level);
        // By default, the test tries each length at one optimisation level only.
        for n in sampled(lengths(), 2, usize::from(level == OptLevel::None)) {
            // By default half of the pairs: every other source, in turn for each target and length.
            for (row, to) in places(n).into_iter().enumerate() {
                for from in sampled(places(n), 2, row + n / 2) {
                    compare(&prepared, Operation::Copy, n, to, from);
                }
            }
            // Each overlap of the two ranges, or a sample of them.
            let overlaps = (0..=n as u32 + 1).step_by(1 + n / 40);
            for distance in sampled(overlaps, 2, n / 2) {
                compare(&prepared, Operation::Copy, n, 100, 100 + distance);
                compare(&prepared, Operation::Copy, n, 100 + distance, 100);
            }
        }
    }
}

#[test]
fn fills_of_few_bytes_follow_the_specification() {
    for level in [OptLevel::None, OptLevel::Speed] {
        let prepared = prepared(level);
        for n in lengths() {
            for to in places(n) {
                compare(&prepared, Operation::Fill, n, to, 0xffff_ff5a);
            }
        }
    }
}

/// A copy that the end of a time slice interrupts resumes exactly where it stopped.
#[test]
fn an_interrupted_copy_resumes_where_it_stopped() {
    // Rotates the first bytes of the memory `$times` times, and returns a checksum.
    let module = common::wat(
        r#"(module (memory 1)
          (func (export "rotate") (param $times i32) (result i64)
            (local $at i32) (local $sum i64)
            (loop $set
              (i32.store8 (local.get $at) (i32.mul (local.get $at) (i32.const 37)))
              (br_if $set (i32.lt_u
                (local.tee $at (i32.add (local.get $at) (i32.const 1))) (i32.const 1000))))
            (loop $again
              (i32.store8 (i32.const 1000) (i32.load8_u (i32.const 0)))
              (memory.copy (i32.const 0) (i32.const 1) (local.get $at))
              (memory.copy (i32.const 2001) (i32.const 0) (local.get $at))
              (memory.copy (i32.const 2003) (i32.const 2001) (local.get $at))
              (local.set $sum (i64.add
                (i64.mul (local.get $sum) (i64.const 31)) (i64.load (i32.const 2500))))
              (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1)))))
            (local.get $sum)))"#,
    );
    let region = Region::builder().slots(2).build().expect("a region");
    let prepared = region.prepare(&module, &Linker::<()>::new());
    let prepared = prepared.expect("it fits");
    let rotate = prepared.func::<i32, i64>("rotate").expect("exported");
    with_more_iterations(TIMES, |times| {
        let mut whole = prepared.try_instantiate(()).expect("a slot is free");
        let wanted = whole.call(&rotate, times).expect("it returns");
        let mut sliced = prepared.try_instantiate(()).expect("a slot is free");
        let mut slices = 0;
        let mut step = sliced.timeslice(SLICE).start(&rotate, times);
        while let Ok(Step::Preempted) = step {
            slices += 1;
            step = sliced.timeslice(SLICE).resume(&rotate);
        }
        match step {
            Ok(Step::Returned(found)) => assert_eq!(found, wanted, "after {slices} slices"),
            other => panic!("{other:?}"),
        }
        (slices > 0).then_some(())
    });
}

#[test]
fn bulk_operations_on_an_imported_memory_change_the_owners() {
    let owner = r#"(module (memory (export "memory") 1)
        (func (export "peek") (param i32) (result i32) (i32.load8_u (local.get 0))))"#;
    let user = r#"(module (import "owner" "memory" (memory 1))
        (func (export "fill") (param i32) (memory.fill (i32.const 100) (i32.const 7) (local.get 0)))
        (func (export "copy") (param i32)
          (memory.copy (i32.const 65436) (i32.const 100) (local.get 0))))"#;
    let region = Region::builder().slots(2).build().expect("a region");
    let mut group = Group::new(&region, ());
    let linker = Linker::new();
    let owner = group
        .instantiate(&common::wat(owner), &linker)
        .expect("it fits");
    group.name("owner", owner);
    let user = group
        .instantiate(&common::wat(user), &linker)
        .expect("it fits");
    group
        .lend(user)
        .call_values("fill", &[Value::I32(100)])
        .expect("inside");
    group
        .lend(user)
        .call_values("copy", &[Value::I32(100)])
        .expect("inside");
    assert!(
        group
            .lend(user)
            .call_values("copy", &[Value::I32(101)])
            .is_err()
    );
    for (at, wanted) in [
        (99, 0),
        (100, 7),
        (199, 7),
        (200, 0),
        (65435, 0),
        (65436, 7),
        (65535, 7),
    ] {
        let found = group
            .lend(owner)
            .call_values("peek", &[Value::I32(at)])
            .expect("inside");
        assert!(
            matches!(found[..], [Value::I32(found)] if found == wanted),
            "{at}: {found:?}"
        );
    }
}
