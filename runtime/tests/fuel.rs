//! Fuel: how much each operator uses, the trap without fuel, and isolation between instances.

use crate::common;
use crate::common::values::Lend as _;

use common::counting;
use common::retry::with_longer_limits;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{
    CallError, Caller, FuelError, Group, Instance, InstantiateError, Linker, NoMember, Region,
    Trap, TrapCode, Value,
};
use std::time::Duration;

const LEVELS: [OptLevel; 3] = [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize];

fn region() -> Region {
    Region::builder().slots(4).build().expect("address space")
}

fn instance(text: &str) -> Instance<()> {
    let module = counting(text, OptLevel::Speed);
    let prepared = region().prepare(&module, &Linker::new()).expect("it fits");
    prepared.instantiate(()).expect("there is a slot")
}

/// Calls a function with some fuel; returns the fuel that it used and the result.
fn used(
    instance: &mut Instance<()>,
    name: &str,
    params: &[Value],
    fuel: u64,
) -> (u64, Result<Vec<Value>, CallError>) {
    instance.set_fuel(fuel).expect("it counts");
    let result = instance.call_values(name, params);
    (fuel - instance.fuel().expect("it counts"), result)
}

/// The trap of a call, which must have run out of fuel.
#[track_caller]
fn out_of_fuel<T: std::fmt::Debug>(result: Result<T, CallError>) -> Trap {
    match result {
        Err(CallError::Trap(trap)) if trap.code() == TrapCode::OutOfFuel => trap,
        other => panic!("expected to be out of fuel, found {other:?}"),
    }
}

/// A guest with as many iterations as its parameter says, each of five operators.
const LOOP: &str = r#"(module (func (export "run") (param i32)
  (loop (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))))"#;

/// An expectation line of a fixture.
struct Expected<'a> {
    name: &'a str,
    params: Vec<Value>,
    fuel: u64,
    trap: Option<&'a str>,
}

/// The lines of a fixture that state expected fuel.
fn expectations(text: &str) -> Vec<Expected<'_>> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(";; "));
    lines
        .filter_map(|line| {
            let (call, expected) = line.split_once(" uses ")?;
            let (fuel, trap) = match expected.split_once(", traps: ") {
                Some((fuel, trap)) => (fuel, Some(trap)),
                None => (expected, None),
            };
            let mut words = call.split(' ');
            Some(Expected {
                name: words.next()?,
                params: words
                    .map(|word| word.parse().map(Value::I32))
                    .collect::<Result<_, _>>()
                    .ok()?,
                fuel: fuel.parse().ok()?,
                trap,
            })
        })
        .collect()
}

#[test]
fn each_operator_uses_the_fuel_in_the_fixture() {
    let text = include_str!("fuel/counts.wat");
    let expectations = expectations(text);
    assert!(expectations.len() > 50, "the fixture states the used fuel");
    for level in LEVELS {
        let module = counting(text, level);
        let prepared = region().prepare(&module, &Linker::new()).expect("it fits");
        for expected in &expectations {
            let Expected {
                name,
                params,
                fuel,
                trap,
            } = expected;
            let mut instance = prepared.instantiate(()).expect("there is a slot");
            let (found, result) = used(&mut instance, name, params, u64::MAX);
            assert_eq!(found, *fuel, "{name} {params:?}, {level:?}");
            match (trap, result) {
                (None, Ok(_)) => {}
                (Some(trap), Err(CallError::Trap(found))) => {
                    assert_eq!(found.code().message(), *trap, "{name} {params:?}");
                }
                (_, other) => panic!("{name} {params:?}: {other:?}"),
            }
        }
    }
}

/// The parameter of [`LOOP`].
fn passes(count: i32) -> [Value; 1] {
    [Value::I32(count)]
}

/// An iteration starts if any fuel is left, and may use more than is left.
#[test]
fn an_iteration_starts_if_any_fuel_is_left() {
    let mut guest = instance(LOOP);
    for (fuel, ends) in [(15, true), (11, true), (10, false), (6, false), (1, false)] {
        guest.set_fuel(fuel).expect("it counts");
        let result = guest.call_values("run", &passes(3));
        assert_eq!(result.is_ok(), ends, "{fuel}: {result:?}");
        if !ends {
            let trap = out_of_fuel(result);
            assert_eq!(trap.backtrace().len(), 1);
            assert!(trap.wasm_offset().is_some(), "{trap}");
            assert_eq!(
                trap.to_string().split(" in ").next(),
                Some("trap: out of fuel")
            );
        }
        // The guest may use more fuel than it has. It does not owe the excess later.
        assert_eq!(guest.fuel(), Some(0), "{fuel}");
    }
    let (fuel, result) = used(&mut guest, "run", &passes(3), 16);
    assert!(
        result.is_ok() && fuel == 15,
        "the instance stays usable: {fuel}, {result:?}"
    );
}

#[test]
fn without_fuel_no_function_is_entered() {
    let text = r#"(module (global $g (export "g") (mut i32) (i32.const 0))
      (func (export "set") (param i32) (global.set $g (local.get 0))))"#;
    let module = counting(text, OptLevel::Speed);
    let prepared = region().prepare(&module, &Linker::new()).expect("it fits");
    let set = prepared.func::<i32, ()>("set").expect("it is exported");
    let mut guest = prepared.instantiate(()).expect("there is a slot");
    guest.set_fuel(0).expect("it counts");
    out_of_fuel(guest.call(&set, 1));
    out_of_fuel(guest.call_values("set", &passes(1)));
    assert_eq!(guest.global("g"), Some(Value::I32(0)));
    guest.set_fuel(1).expect("it counts");
    guest
        .call(&set, 1)
        .expect("one unit of fuel lets the call start");
    assert_eq!(
        (guest.global("g"), guest.fuel()),
        (Some(Value::I32(1)), Some(0))
    );
}

#[test]
fn any_64_bit_number_is_a_valid_fuel_limit() {
    let mut guest = instance(LOOP);
    let half = 1_u64 << 63;
    assert_eq!(guest.fuel(), Some(u64::MAX), "a new instance has all");
    for fuel in [
        u64::MAX,
        u64::MAX - 1,
        half + 1,
        half,
        half - 1,
        half - 2,
        1 << 32,
    ] {
        guest.set_fuel(fuel).expect("it counts");
        assert_eq!(guest.fuel(), Some(fuel));
        guest
            .call_values("run", &passes(2))
            .expect("there is enough");
        assert_eq!(guest.fuel(), Some(fuel - 10));
    }
}

/// Every kind of loop and recursion runs out of fuel.
#[test]
fn endless_loops_and_recursion_run_out_of_fuel() {
    let mut guest = instance(
        r#"(module (type $f (func)) (table funcref (elem $indirect)) (memory 1)
          (func (export "loop") (loop (br 0)))
          (func (export "if") (loop (if (i32.const 1) (then (br 1)))))
          (func (export "table") (loop (br_table 0 0 (i32.const 7))))
          (func $direct (export "direct") (call $direct))
          (func $indirect (export "indirect") (call_indirect (type $f) (i32.const 0)))
          (func (export "fill") (loop
            (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br 0))))"#,
    );
    for name in ["loop", "if", "table", "direct", "indirect", "fill"] {
        for fuel in [1, 2, 999, 10_000] {
            let (found, result) = used(&mut guest, name, &[], fuel);
            out_of_fuel(result);
            assert_eq!(found, fuel, "{name}");
        }
    }
    // With more fuel, the stack overflows first.
    for name in ["direct", "indirect"] {
        match used(&mut guest, name, &[], u64::MAX) {
            (_, Err(CallError::Trap(trap))) => assert_eq!(trap.code(), TrapCode::StackOverflow),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn bulk_operations_are_charged_before_they_run() {
    let mut guest = instance(
        r#"(module (memory 1) (func (export "fill") (param i32)
          (memory.fill (i32.const 0) (i32.const 255) (local.get 0))))"#,
    );
    // Four operators, and 8192 units for the bytes.
    let (fuel, result) = used(&mut guest, "fill", &passes(65536), 8195);
    out_of_fuel(result);
    assert_eq!(fuel, 8195);
    assert!(
        guest
            .memory()
            .slice(0, 65536)
            .expect("a page")
            .iter()
            .all(|byte| *byte == 0)
    );
    let (fuel, result) = used(&mut guest, "fill", &passes(65536), 8196);
    result.expect("there is enough");
    assert_eq!(fuel, 8196);
    assert!(
        guest
            .memory()
            .slice(0, 65536)
            .expect("a page")
            .iter()
            .all(|byte| *byte == 255)
    );
}

#[test]
fn a_stopped_guest_reports_its_used_fuel() {
    let mut guest = instance("(module (func (export \"loop\") (loop (br 0))))");
    with_longer_limits(Duration::from_millis(1), |limit| {
        let call = guest.deadline(limit).call_values("loop", &[]);
        assert!(matches!(call, Err(CallError::Deadline(_))), "{call:?}");
        (guest.fuel() < Some(u64::MAX)).then_some(())
    });
}

const STARTS: &str = r#"(module (global $g (mut i32) (i32.const 200)) (start $start)
  (func $start (loop
    (global.set $g (i32.sub (global.get $g) (i32.const 1)))
    (br_if 0 (global.get $g))))
  (func (export "run")))"#;

#[test]
fn fuel_limits_a_start_function() {
    let (module, region) = (counting(STARTS, OptLevel::Speed), region());
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    // An iteration has six operators.
    let left = |fuel| {
        prepared
            .start_fuel(fuel)
            .expect("it counts")
            .instantiate(())
    };
    for fuel in [0, 1, 1193, 1194] {
        match left(fuel) {
            Err(InstantiateError::Start(error)) => out_of_fuel::<()>(Err(error)),
            other => panic!("{fuel}: {other:?}"),
        };
        assert_eq!(region.slots_free(), 4);
    }
    for (fuel, rest) in [(1195, 0), (1200, 0), (1201, 1), (5000, 3800)] {
        let instance = left(fuel).expect("it has started");
        assert_eq!(instance.fuel(), Some(rest));
    }
    let instance = prepared.instantiate(()).expect("it has started");
    assert_eq!(
        instance.fuel(),
        Some(u64::MAX - 1200),
        "another preparation is not limited"
    );
}

#[test]
fn a_module_without_counting_has_no_fuel() {
    let text = r#"(module (import "host" "f" (func $f)) (func (export "run") (call $f)))"#;
    let module = common::wat(text);
    assert!(!module.counts_fuel());
    let mut linker = Linker::<()>::new();
    let func = |mut caller: Caller<'_, ()>| {
        assert_eq!(caller.fuel(), None);
        assert_eq!(caller.set_fuel(1), Err(FuelError::NotCounted));
    };
    linker.func("host", "f", func).expect("the name is free");
    let prepared = region().prepare(&module, &linker).expect("it links");
    let error = prepared
        .start_fuel(1)
        .expect_err("the module does not count fuel");
    assert_eq!(
        error.to_string(),
        "module does not count fuel; compile it with `aotc --fuel`"
    );
    let mut instance = prepared.instantiate(()).expect("there is a slot");
    assert_eq!(
        (instance.fuel(), instance.set_fuel(1)),
        (None, Err(FuelError::NotCounted))
    );
    instance.call_values("run", &[]).expect("it runs without");
}

#[test]
fn no_instance_gets_the_fuel_of_another() {
    let counts = counting(LOOP, OptLevel::Speed);
    let (ignores, linker) = (common::wat(LOOP), Linker::new());
    for reset in common::resets() {
        let region = Region::builder()
            .slots(1)
            .reset(reset)
            .build()
            .expect("a region");
        let all = region.prepare(&counts, &linker).expect("it fits");
        let some = all.start_fuel(1000).expect("it counts");
        let none = region.prepare(&ignores, &linker).expect("it fits");
        for first in [&all, &some, &none] {
            // The next instance must not get the fuel that the previous one was given or had left.
            for fuel in [0, 7, 1 << 63, u64::MAX] {
                for (next, expected) in [(&all, Some(u64::MAX)), (&some, Some(1000)), (&none, None)]
                {
                    let mut tenant = first.instantiate(()).expect("the slot is free");
                    let given = tenant.set_fuel(fuel);
                    assert_eq!(given.is_ok(), first.module().counts_fuel());
                    let _ = tenant.call_values("run", &passes(3));
                    drop(tenant);
                    let tenant = next.instantiate(()).expect("the slot is free");
                    assert_eq!(tenant.fuel(), expected, "{reset}");
                }
            }
        }
    }
}

#[test]
fn a_host_function_may_charge_fuel() {
    let text = r#"(module (import "host" "work" (func $work (param i64)))
      (func (export "run") (param i64) (call $work (local.get 0)) (loop)))"#;
    let module = counting(text, OptLevel::Speed);
    let mut linker = Linker::<()>::new();
    let work = |mut caller: Caller<'_, ()>, cost: u64| {
        let left = caller.fuel().expect("it counts");
        caller
            .set_fuel(left.saturating_sub(cost))
            .expect("it counts");
    };
    linker.func("host", "work", work).expect("the name is free");
    let prepared = region().prepare(&module, &linker).expect("it links");
    let run = prepared.func::<u64, ()>("run").expect("it is exported");
    let mut guest = prepared.instantiate(()).expect("there is a slot");
    for (cost, left) in [(0, 98), (50, 48), (97, 1)] {
        guest.set_fuel(100).expect("it counts");
        guest.call(&run, cost).expect("there is enough");
        assert_eq!(guest.fuel(), Some(left));
    }
    for cost in [98, 99, u64::MAX] {
        guest.set_fuel(100).expect("it counts");
        out_of_fuel(guest.call(&run, cost));
    }
}

#[test]
fn each_member_of_a_group_has_its_own_fuel() {
    let owner = counting(
        r#"(module (func (export "three") (drop (i32.const 1)) (drop (i32.const 1))
          (drop (i32.const 1))))"#,
        OptLevel::Speed,
    );
    let user = r#"(module (import "owner" "three" (func $three))
      (func (export "run") (call $three) (call $three) (drop (i32.const 1))))"#;
    let (counts, ignores) = (counting(user, OptLevel::Speed), common::wat(user));
    let (region, linker) = (region(), Linker::new());
    let mut group = Group::new(&region, ());
    group.start_fuel(100);
    let owner = group.instantiate(&owner, &linker).expect("there is a slot");
    group.name("owner", owner);
    let counts = group
        .instantiate(&counts, &linker)
        .expect("there is a slot");
    let ignores = group
        .instantiate(&ignores, &linker)
        .expect("there is a slot");
    group
        .lend(counts)
        .call_values("run", &[])
        .expect("there is enough");
    assert_eq!(
        (group.at(owner).fuel(), group.at(counts).fuel()),
        (Some(94), Some(97))
    );
    group
        .lend(ignores)
        .call_values("run", &[])
        .expect("there is enough");
    assert_eq!(
        (group.at(owner).fuel(), group.at(ignores).fuel()),
        (Some(88), None)
    );
    // The owner's fuel ends between the two calls, so the user's call traps.
    group.lend(owner).set_fuel(3).expect("it counts");
    let trap = out_of_fuel(group.lend(ignores).call_values("run", &[]));
    assert_eq!(trap.backtrace().len(), 2);
    out_of_fuel(group.lend(counts).call_values("run", &[]));
    assert_eq!(
        (group.at(owner).fuel(), group.at(counts).fuel()),
        (Some(0), Some(96))
    );
    assert_eq!(group.lend(ignores).set_fuel(3), Err(FuelError::NotCounted));
    let mut other = Group::new(&region, ());
    let none = NoMember { found: 0, count: 0 };
    assert_eq!(other.member(owner).map(drop), Err(none));
    assert_eq!(other.member_mut(owner).map(drop), Err(none));
}

#[test]
fn fuel_is_equal_at_all_levels_and_for_all_entries() {
    let wasm = include_bytes!("../../examples/guests/fib.wasm");
    let mut found = vec![];
    for level in LEVELS {
        let mut options = Options::default();
        (options.fuel, options.opt_level) = (true, level);
        let module = common::open_with(wasm, &options).expect("the guest is valid");
        for reset in common::resets() {
            let region = Region::builder()
                .slots(1)
                .reset(reset)
                .build()
                .expect("a region");
            let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
            let fib = prepared.func::<i32, i32>("fib").expect("it is exported");
            for _ in 0..2 {
                let mut guest = prepared.instantiate(()).expect("the slot is free");
                let before = guest.fuel();
                assert_eq!(guest.call(&fib, 20).expect("it returns"), 6765);
                let between = guest.fuel();
                guest.call_values("fib", &passes(20)).expect("it returns");
                let used = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a - b);
                found.push(used(before, between));
                found.push(used(between, guest.fuel()));
            }
        }
    }
    assert!(found.iter().all(|fuel| *fuel == found[0]), "{found:?}");
    assert!(found[0] > Some(100_000), "{found:?}");
}
