//! Groups: instances that import from each other.

use crate::common;

use common::values::{Lend as _, group, number};
use pirn_runtime::{
    CallError, Group, GroupError, InstantiateError, LinkError, Linker, NoMember, Region, TrapCode,
    Value,
};

const OWNER: &str = r#"(module $owner
  (memory (export "memory") 1 3)
  (table (export "table") 4 8 funcref)
  (global (export "counter") (mut i32) (i32.const 5))
  (global (export "constant") i64 (i64.const 77))
  (func (export "peek") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "through") (param i32) (result i32)
    (call_indirect (result i32) (local.get 0)))
  (func (export "size") (result i32) (memory.size)))"#;

const USER: &str = r#"(module $user
  (import "owner" "memory" (memory 1))
  (import "owner" "table" (table $t 4 funcref))
  (import "owner" "counter" (global $counter (mut i32)))
  (import "owner" "constant" (global $constant i64))
  (import "owner" "peek" (func $peek (param i32) (result i32)))
  (data (i32.const 100) "shared")
  (elem (i32.const 2) func $seven)
  (func $seven (result i32) (i32.const 7))
  (func (export "count") (result i32)
    (global.set $counter (i32.add (global.get $counter) (i32.const 1)))
    (global.get $counter))
  (func (export "constant") (result i64) (global.get $constant))
  (func (export "peek") (param i32) (result i32) (call $peek (local.get 0)))
  (func (export "poke") (param i32 i32) (i32.store8 (local.get 0) (local.get 1)))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "grow table") (param i32) (result i32)
    (table.grow $t (ref.null func) (local.get 0)))
  (func (export "far") (param i32) (result i32) (call $peek (local.get 0))))"#;

#[test]
fn memories_tables_globals_and_functions_are_shared() {
    let mut group = group(2);
    let linker = Linker::new();
    let owner = group
        .instantiate(&common::wat(OWNER), &linker)
        .expect("it starts");
    group.name("owner", owner);
    let user = group
        .instantiate(&common::wat(USER), &linker)
        .expect("it links");
    let one = |n| [Value::I32(n)];

    assert_eq!(
        group.at(owner).memory().slice(100, 6).expect("in it"),
        b"shared"
    );
    assert_eq!(
        number(group.lend(owner).call_values("peek", &one(100))),
        i32::from(b's')
    );
    group
        .lend(user)
        .call_values("poke", &[Value::I32(3), Value::I32(200)])
        .expect("it returns");
    assert_eq!(number(group.lend(owner).call_values("peek", &one(3))), 200);
    assert_eq!(number(group.lend(user).call_values("peek", &one(3))), 200);

    assert_eq!(number(group.lend(user).call_values("count", &[])), 6);
    assert_eq!(group.at(owner).global("counter"), Some(Value::I32(6)));
    let constant = group
        .lend(user)
        .call_values("constant", &[])
        .expect("it returns");
    assert_eq!(constant, [Value::I64(77)]);

    assert_eq!(
        number(group.lend(owner).call_values("through", &one(2))),
        7,
        "the owner calls a function of the user"
    );
    match group.lend(owner).call_values("through", &one(1)) {
        Err(CallError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::UninitializedElement),
        other => panic!("{other:?}"),
    }

    // Both members observe the growth, which stops at the owner's maximum.
    assert_eq!(number(group.lend(user).call_values("grow", &one(2))), 1);
    assert_eq!(number(group.lend(owner).call_values("size", &[])), 3);
    assert_eq!(number(group.lend(user).call_values("grow", &one(1))), -1);
    assert_eq!(
        number(group.lend(user).call_values("grow table", &one(4))),
        4
    );
    assert_eq!(
        number(group.lend(user).call_values("grow table", &one(1))),
        -1
    );
}

#[test]
fn a_trap_in_another_member_names_both_members() {
    let mut group = group(2);
    let linker = Linker::new();
    // Either member's slot may be the lower one, next to the guard pages of the other member's
    // stack.
    for _ in 0..2 {
        let owner = group
            .instantiate(&common::wat(OWNER), &linker)
            .expect("it starts");
        group.name("owner", owner);
        let user = group
            .instantiate(&common::wat(USER), &linker)
            .expect("it links");
        for at in [65536, 1 << 20, u32::MAX] {
            match group
                .lend(user)
                .call_values("far", &[Value::I32(at.cast_signed())])
            {
                Err(CallError::Trap(trap)) => {
                    assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds, "{at:#x}");
                    let modules: Vec<_> = trap
                        .backtrace()
                        .iter()
                        .map(|frame| frame.module_name())
                        .collect();
                    assert_eq!(modules, [Some("owner"), Some("user")]);
                }
                other => panic!("{other:?}"),
            }
        }
        group = self::group(3);
        // Another instance in between changes the order of the slots in the next round.
        group
            .instantiate(&common::wat("(module (memory 1))"), &linker)
            .expect("it starts");
    }
}

#[test]
fn imports_that_do_not_match_are_refused() {
    let mut group = group(4);
    let linker = Linker::new();
    let owner = group
        .instantiate(&common::wat(OWNER), &linker)
        .expect("it starts");
    group.name("owner", owner);
    for (import, found) in [
        (
            "(import \"owner\" \"memory\" (memory 2))",
            "a memory of 1..3 pages",
        ),
        (
            "(import \"owner\" \"memory\" (memory 1 2))",
            "a memory of 1..3 pages",
        ),
        (
            "(import \"owner\" \"table\" (table 5 funcref))",
            "a table 4..8 funcref",
        ),
        (
            "(import \"owner\" \"table\" (table 1 externref))",
            "a table 4..8 funcref",
        ),
        (
            "(import \"owner\" \"counter\" (global i32))",
            "a global (mut i32)",
        ),
        (
            "(import \"owner\" \"constant\" (global (mut i64)))",
            "a global i64",
        ),
        (
            "(import \"owner\" \"peek\" (func))",
            "a function (i32) -> i32",
        ),
        (
            "(import \"owner\" \"peek\" (memory 1))",
            "a function (i32) -> i32",
        ),
    ] {
        let module = common::wat(&format!("(module {import})"));
        match group.instantiate(&module, &linker) {
            Err(GroupError::Link(error @ LinkError::Mismatch { .. })) => {
                assert!(
                    error.to_string().contains(&format!("is {found},")),
                    "{error}"
                );
            }
            other => panic!("{import}: {other:?}"),
        }
    }
    let missing = common::wat("(module (import \"owner\" \"none\" (func)))");
    match group.instantiate(&missing, &linker) {
        Err(GroupError::Link(LinkError::Missing { import, .. })) => {
            assert_eq!(import, "owner.none");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_instantiation_leaves_only_its_earlier_writes() {
    let mut group = group(3);
    let linker = Linker::new();
    let owner = group
        .instantiate(&common::wat(OWNER), &linker)
        .expect("it starts");
    group.name("owner", owner);
    // The second element segment does not fit: the first stays written, and the data segment is
    // never reached.
    let failing = common::wat(
        "(module (import \"owner\" \"table\" (table 4 funcref)) (memory 1)
           (elem (i32.const 0) func $look) (elem (i32.const 99) func $look)
           (data (i32.const 0) \"never\")
           (func $look (result i32) (i32.load8_u (i32.const 0))))",
    );
    match group.instantiate(&failing, &linker) {
        Err(GroupError::Instantiate(InstantiateError::Start(CallError::Trap(trap)))) => {
            assert_eq!(trap.code(), TrapCode::TableOutOfBounds);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        number(group.lend(owner).call_values("through", &[Value::I32(0)])),
        0
    );
}

#[test]
fn a_dropped_group_returns_all_its_slots_clean() {
    let region = Region::builder().slots(2).build().expect("a region");
    let linker = Linker::new();
    for _ in 0..3 {
        let mut group = Group::new(&region, ());
        let owner = group
            .instantiate(&common::wat(OWNER), &linker)
            .expect("it starts");
        group.name("owner", owner);
        let user = group
            .instantiate(&common::wat(USER), &linker)
            .expect("it links");
        assert_eq!(
            number(group.lend(user).call_values("count", &[])),
            6,
            "no state of the last group remains"
        );
        assert_eq!(
            number(group.lend(owner).call_values("peek", &[Value::I32(3)])),
            0
        );
        group
            .lend(user)
            .call_values("poke", &[Value::I32(3), Value::I32(9)])
            .expect("it returns");
        match group.instantiate(&common::wat("(module)"), &linker) {
            Err(GroupError::Instantiate(InstantiateError::Full { slots: 2 })) => {}
            other => panic!("{other:?}"),
        }
        drop(group);
        assert_eq!(region.slots_free(), 2);
    }
}

#[test]
fn a_member_id_is_refused_in_another_group() {
    let owner = common::wat(OWNER);
    let linker = Linker::new();
    let (mut one, mut other) = (group(4), group(4));
    let id = one.instantiate(&owner, &linker).expect("it fits");
    let own = other.instantiate(&owner, &linker).expect("it fits");
    assert_ne!(id, own);
    let error = NoMember { found: 0, count: 1 };
    assert_eq!(other.member(id).map(drop), Err(error));
    assert_eq!(other.member_mut(id).map(drop), Err(error));
    // A group cannot import from another group's member, whether or not the id's index exists here.
    let more = one.instantiate(&owner, &linker).expect("it fits");
    for id in [id, more] {
        other.name("owner", id);
        let user = other.instantiate(&common::wat(USER), &linker);
        let error = user.expect_err("no member has that name");
        assert!(
            matches!(error, GroupError::Link(LinkError::Missing { .. })),
            "{error}"
        );
    }
    other.name("owner", own);
    let user = other.instantiate(&common::wat(USER), &linker);
    user.expect("its owner is of the group");
}
