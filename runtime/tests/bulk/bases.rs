//! The base address of a memory: code must use the base of the instance's own slot, whatever
//! instance had the slot before. In a group, code must use the base of the right member.

use super::common::random::Random;
use super::{common, options, returned};
use crate::common::values::Lend as _;
use pirn_compiler::OptLevel;
use pirn_runtime::{Group, Linker, Module, Region, Value};

/// A guest whose functions write, read and call each other, beginning with its start function.
fn tenant(start: bool, pages: u32, mark: u32) -> String {
    let start = if start { "(start $start)" } else { "" };
    format!(
        r#"(module (memory (export "memory") {pages} 4)
          (func $nothing)
          (func $start (call $nothing)
            (drop (memory.grow (i32.const 1)))
            (i32.store (i32.const 16) (i32.const {mark}))
            (call $nothing))
          {start}
          (func (export "grow") (result i32) (memory.grow (i32.const 1)))
          (func (export "go") (param $n i32) (result i32) (local $sum i32)
            (loop $l
              (call $nothing)
              (i32.store (i32.shl (local.get $n) (i32.const 2)) (local.get $n))
              (local.set $sum (i32.add (local.get $sum) (i32.load (i32.shl (local.get $n) (i32.const 2)))))
              (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $sum)))"#
    )
}

/// A guest without a memory.
const BARE: &str = r#"(module (func $f)
  (func (export "go") (param i32) (result i32) (call $f) (local.get 0)))"#;

/// Code must use the base address of its own slot, whatever instance used the slot before.
#[test]
fn the_base_address_is_that_of_the_instances_slot() {
    for reset in common::resets() {
        let region = Region::builder().slots(2).reset(reset).build();
        let region = region.expect("a region");
        let prepare = |text: &str| {
            let module = common::wat_with(text, &options(OptLevel::Speed, false));
            let prepared = region.prepare(&module, &Linker::<()>::new());
            prepared.expect("it fits")
        };
        // Initial pages, and the mark that the start function writes, if there is one.
        let tenants = [(1, Some(77)), (1, None), (0, Some(88)), (0, None)];
        let prepared = tenants.map(|(pages, mark)| {
            let text = tenant(mark.is_some(), pages, mark.unwrap_or(0));
            prepare(&text)
        });
        let bare = prepare(BARE);
        let mut random = Random(0x1357_9bdf_0246_8ace);
        for round in 0..600 {
            let which = random.below(5) as usize;
            let held = (random.below(3) == 0).then(|| bare.try_instantiate(()).expect("a slot"));
            let Some((pages, mark)) = tenants.get(which).copied() else {
                let mut instance = bare.try_instantiate(()).expect("a slot is free");
                let found = instance.call_values("go", &[Value::I32(3)]);
                assert_eq!(found.expect("it returns"), [Value::I32(3)]);
                continue;
            };
            let mut instance = prepared[which].try_instantiate(()).expect("a slot is free");
            if (pages, mark) == (0, None) {
                let outside = instance.call_values("go", &[Value::I32(3)]);
                assert_eq!(returned(outside), None, "it has no page");
                instance.call_values("grow", &[]).expect("it returns");
            }
            if let Some(mark) = mark {
                let found = instance.memory().read_u32(16).expect("inside");
                assert_eq!(found, mark, "{reset} {round}");
            }
            let sum = instance.call_values("go", &[Value::I32(100)]);
            let sum = sum.expect("it returns");
            assert_eq!(sum, [Value::I32(5050)], "{reset} {round}");
            let memory = instance.memory();
            let own = (1..=100).map(|n| memory.read_u32(n * 4).expect("inside"));
            assert!(own.eq(1..=100), "{reset} {round}");
            drop(held);
        }
    }
}

/// The owner stores and loads for other members.
const OWNER: &str = r#"(module (memory (export "memory") 1 3)
  (func $n)
  (func (export "put") (param i32 i32)
    (call $n) (i32.store (local.get 0) (local.get 1)) (call $n))
  (func (export "get") (param i32) (result i32) (call $n) (i32.load (local.get 0)))
  (func (export "grow") (result i32) (memory.grow (i32.const 1))))"#;

/// Uses its own memory directly, and the owner's by calls.
const NEIGHBOUR: &str = r#"(module
  (import "owner" "put" (func $put (param i32 i32)))
  (import "owner" "get" (func $get (param i32) (result i32)))
  (memory (export "memory") 1)
  (func $start (i32.store (i32.const 0) (i32.const 5)) (call $put (i32.const 0) (i32.const 6)))
  (start $start)
  (func (export "both") (result i32)
    (i32.store (i32.const 4) (i32.const 1))
    (call $put (i32.const 4) (i32.const 20))
    (i32.add (i32.add (i32.load (i32.const 4)) (call $get (i32.const 4)))
             (i32.add (i32.load (i32.const 0)) (call $get (i32.const 0))))))"#;

/// Imports the owner's memory, and makes the owner grow it between bulk operations.
const BORROWER: &str = r#"(module
  (import "owner" "memory" (memory 1))
  (import "owner" "grow" (func $grow (result i32)))
  (import "neighbour" "both" (func $both (result i32)))
  (func $n)
  (func (export "bulk") (param $len i32) (result i32)
    (memory.fill (i32.const 65000) (i32.const 1) (local.get $len))
    (drop (call $grow)) (drop (call $both))
    (memory.fill (i32.const 66000) (i32.const 2) (local.get $len))
    (memory.copy (i32.const 131000) (i32.const 66000) (local.get $len))
    (memory.copy (i32.const 130000) (i32.const 131000) (i32.const 72))
    (i32.add (i32.load8_u (i32.const 130071)) (i32.load8_u (i32.const 65000))))
  (func (export "out") (param $len i32)
    (call $n) (memory.copy (i32.const 131000) (i32.const 0) (local.get $len)))
  (func (export "few_out")
    (call $n) (memory.copy (i32.const 131000) (i32.const 0) (i32.const 73))
    (memory.fill (i32.const 131000) (i32.const 0) (i32.const 73))))"#;

#[test]
fn members_of_a_group_use_their_own_bases() {
    for (level, fuel) in [
        (OptLevel::None, false),
        (OptLevel::None, true),
        (OptLevel::Speed, false),
        (OptLevel::Speed, true),
    ] {
        let [owner, neighbour, borrower] =
            [OWNER, NEIGHBOUR, BORROWER].map(|text| common::wat_with(text, &options(level, fuel)));
        let region = Region::builder().slots(3).memory_bytes_max(4 << 16).build();
        let region = region.expect("a region");
        for _ in 0..3 {
            let mut group = Group::new(&region, ());
            group.start_fuel(1 << 40);
            let mut add = |name: &str, module: &Module| {
                let member = group.instantiate(module, &Linker::new());
                let member = member.expect("it fits");
                group.name(name, member);
                member
            };
            let owner = add("owner", &owner);
            let neighbour = add("neighbour", &neighbour);
            let borrower = add("borrower", &borrower);
            let found = group
                .lend(neighbour)
                .call_values("both", &[])
                .expect("inside");
            assert_eq!(found, [Value::I32(32)]);
            let found = group.lend(borrower).call_values("bulk", &[Value::I32(72)]);
            assert_eq!(found.expect("inside"), [Value::I32(3)]);
            let lent = group.at(owner);
            let before = lent.memory().as_slice().to_vec();
            assert!(
                group
                    .lend(borrower)
                    .call_values("out", &[Value::I32(73)])
                    .is_err()
            );
            assert!(group.lend(borrower).call_values("few_out", &[]).is_err());
            assert!(group.at(owner).memory().as_slice() == before);
            assert!(
                group
                    .lend(borrower)
                    .call_values("out", &[Value::I32(72)])
                    .is_ok()
            );
        }
    }
}
