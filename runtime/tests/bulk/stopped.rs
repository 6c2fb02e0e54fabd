//! Builtins that are preempted, cancelled and stopped in the middle of their writes.

use super::common::retry::{Passed, with_fitting_limit};
use super::common::{self, SLICED_CALLS_MAX};
use pirn_runtime::{
    CallError, Instance, InstantiateError, Linker, Prepared, Region, Step, TypedFunc,
};
use std::time::Duration;

/// Pages of the memory and elements of the table: enough for each builtin to take milliseconds.
const PAGES: usize = 1024;
const ELEMENTS: usize = 2_000_000;
const BYTES: usize = PAGES << 16;

const GUEST: &str = r#"(module
  (type $bytes (array (mut i8)))
  (memory (export "memory") 1024)
  (table $t (export "t") 2000000 8000000 funcref)
  (global $a (mut (ref null $bytes)) (ref.null $bytes))
  (elem declare func $f)
  (func $f)
  (func (export "noop") (result i32) (i32.const 0))
  (func (export "fill") (result i32)
    (memory.fill (i32.const 0) (i32.const 7) (i32.const 0x4000000)) (i32.const 1))
  (func (export "forward") (result i32)
    (memory.copy (i32.const 0) (i32.const 1) (i32.const 0x3ffffff)) (i32.const 2))
  (func (export "backward") (result i32)
    (memory.copy (i32.const 1) (i32.const 0) (i32.const 0x3ffffff)) (i32.const 3))
  (func (export "apart") (result i32)
    (memory.copy (i32.const 0x2000000) (i32.const 0x123) (i32.const 0x1ff0000)) (i32.const 4))
  (func (export "table_fill") (result i32)
    (table.fill $t (i32.const 0) (ref.func $f) (i32.const 2000000)) (i32.const 5))
  (func (export "table_copy") (result i32)
    (table.set $t (i32.const 0) (ref.func $f))
    (table.copy $t $t (i32.const 1) (i32.const 0) (i32.const 1999999)) (i32.const 6))
  (func (export "table_grow") (result i32)
    (table.grow $t (ref.func $f) (i32.const 2000000)))
  (func (export "array_copy") (result i32)
    (global.set $a (array.new_default $bytes (i32.const 60000000)))
    (array.set $bytes (global.get $a) (i32.const 0) (i32.const 9))
    (array.copy $bytes $bytes (global.get $a) (i32.const 30000000) (global.get $a) (i32.const 0)
      (i32.const 30000000))
    (array.get_u $bytes (global.get $a) (i32.const 30000000)))
  (func (export "size") (result i32) (table.size $t))
  (func (export "count") (result i32) (local $i i32) (local $n i32)
    (loop $l
      (local.set $n (i32.add (local.get $n)
        (i32.eqz (ref.is_null (table.get $t (local.get $i))))))
      (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (table.size $t))))
    (local.get $n)))"#;

fn each(test: impl Fn(&Prepared<()>)) {
    let module = common::wat(GUEST);
    for reset in common::resets() {
        let region = Region::builder()
            .slots(1)
            .memories(2)
            .memory_bytes_max(BYTES)
            .table_elements(8_000_000)
            .reset(reset);
        let region = region.build().expect("a region");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        test(&prepared);
    }
}

fn func(prepared: &Prepared<()>, name: &str) -> TypedFunc<(), i32> {
    prepared.func(name).expect("it is exported")
}

fn call(prepared: &Prepared<()>, instance: &mut Instance<()>, name: &str) -> i32 {
    let result = instance.call(&func(prepared, name), ());
    result.expect("it returns")
}

/// Bytes that repeat after a prime number of bytes, which is the distance of no copy.
fn pattern() -> Vec<u8> {
    const PERIOD: usize = 65_537;
    let byte = |n: usize| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8;
    let period: Vec<u8> = (0..PERIOD).map(byte).collect();
    let mut bytes = period.repeat(BYTES.div_ceil(PERIOD));
    bytes.truncate(BYTES);
    bytes
}

/// Runs a function in time slices; returns the result and the number of preemptions.
fn sliced(instance: &mut Instance<()>, func: &TypedFunc<(), i32>) -> (i32, u32) {
    let slice = Duration::from_micros(20);
    let mut step = instance.timeslice(slice).start(func, ());
    let mut preempted = 0;
    loop {
        match step.expect("no trap") {
            Step::Returned(result) => return (result, preempted),
            Step::Preempted => preempted += 1,
            Step::Asked(never) => match never {},
        }
        step = instance.timeslice(slice).resume(func);
    }
}

/// Preemption inside a builtin must not change its effect.
#[test]
fn preemption_does_not_change_the_effect_of_a_builtin() {
    each(|prepared| {
        let mut instance = prepared.try_instantiate(()).expect("the slot is free");
        let mut total = 0;
        for _ in 0..SLICED_CALLS_MAX {
            let mut model = pattern();
            instance.memory_mut().write(0, &model).expect("it fits");
            for name in ["apart", "forward", "backward", "fill"] {
                let (_, preempted) = sliced(&mut instance, &func(prepared, name));
                match name {
                    "forward" => model.copy_within(1.., 0),
                    "backward" => model.copy_within(..BYTES - 1, 1),
                    "apart" => model.copy_within(0x123..0x1ff_0123, 0x200_0000),
                    _ => model.fill(7),
                }
                assert!(instance.memory().as_slice() == model, "{name}");
                total += preempted;
            }
            if total > 0 {
                break;
            }
        }
        assert!(total > 0, "no builtin was preempted");
        assert_eq!(
            sliced(&mut instance, &func(prepared, "table_grow")).0,
            ELEMENTS as i32
        );
        assert_eq!(call(prepared, &mut instance, "size"), 2 * ELEMENTS as i32);
        assert_eq!(call(prepared, &mut instance, "count"), ELEMENTS as i32);
        assert_eq!(sliced(&mut instance, &func(prepared, "table_copy")).0, 6);
        assert_eq!(call(prepared, &mut instance, "count"), ELEMENTS as i32 + 2);
        assert_eq!(sliced(&mut instance, &func(prepared, "table_fill")).0, 5);
        assert_eq!(call(prepared, &mut instance, "count"), 2 * ELEMENTS as i32);
        assert_eq!(sliced(&mut instance, &func(prepared, "array_copy")).0, 9);
    });
}

/// Runs a function under a deadline, in one instance after another, until the deadline passes
/// inside the builtin.
fn late(prepared: &Prepared<()>, name: &str, partial: impl Fn(&mut Instance<()>) -> Passed<()>) {
    with_fitting_limit(Duration::from_micros(300), |limit| {
        let mut instance = prepared.try_instantiate(()).expect("the slot is free");
        assert!(instance.memory().slice(0, 64).expect("inside") == [0; 64]);
        let last = instance.memory().read_u64(BYTES as u32 - 8);
        assert_eq!(last.expect("inside"), 0);
        assert_eq!(call(prepared, &mut instance, "size"), ELEMENTS as i32);
        assert_eq!(call(prepared, &mut instance, "count"), 0, "{name}");
        match instance.deadline(limit).call(&func(prepared, name), ()) {
            // The deadline passed before the guest was entered.
            Err(CallError::Deadline(stop)) if stop.backtrace().is_empty() => {
                return Passed::TooEarly;
            }
            Err(CallError::Deadline(_)) => {}
            Err(error) => panic!("{name}: {error}"),
            Ok(_) => return Passed::TooLate,
        }
        // The instance stays usable after it was stopped.
        assert_eq!(call(prepared, &mut instance, "noop"), 0);
        partial(&mut instance)
    });
}

#[test]
fn a_deadline_ends_a_builtin_in_the_middle() {
    each(|prepared| {
        late(prepared, "fill", |instance| {
            let memory = instance.memory();
            let ends = [0, BYTES as u32 - 8].map(|at| memory.read_u64(at).expect("inside"));
            match ends.map(|end| end == u64::MAX / 255 * 7) {
                [false, _] => Passed::TooEarly,
                [true, false] => Passed::Within(()),
                [true, true] => Passed::TooLate,
            }
        });
        late(prepared, "table_fill", |instance| {
            match call(prepared, instance, "count") as usize {
                0 => Passed::TooEarly,
                ELEMENTS => Passed::TooLate,
                _ => Passed::Within(()),
            }
        });
        // The table is unchanged, unless the deadline passed when the growth was complete.
        late(prepared, "table_grow", |instance| {
            let [size, count] = ["size", "count"].map(|name| call(prepared, instance, name));
            match (size as usize, count as usize) {
                (ELEMENTS, 0) => Passed::Within(()),
                found => {
                    assert_eq!(found, (2 * ELEMENTS, ELEMENTS));
                    Passed::TooLate
                }
            }
        });
        late(prepared, "array_copy", |_| Passed::Within(()));
    });
}

/// An element's initial value may be a long expression. So the runtime counts operators, not
/// elements, between two checks for a deadline.
#[test]
fn a_deadline_ends_a_copy_of_expensive_elements() {
    let item = "(item (i32.const 5) ".to_owned() + &"(i32.const 0) (i32.add) ".repeat(8000);
    let items = (item + "(ref.i31))").repeat(16);
    let module = common::wat(&format!(
        r#"(module (table $t (export "t") 16 i31ref) (elem $e i31ref {items})
          (func (export "noop") (result i32) (i32.const 0))
          (func (export "init") (result i32)
            (table.init $t $e (i32.const 0) (i32.const 0) (i32.const 16)) (i32.const 1))
          (func (export "is_null") (param i32) (result i32)
            (ref.is_null (table.get $t (local.get 0)))))"#
    ));
    let region = Region::builder()
        .slots(1)
        .memories(2)
        .build()
        .expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let (init, noop) = (func(&prepared, "init"), func(&prepared, "noop"));
    let is_null = prepared
        .func::<i32, i32>("is_null")
        .expect("it is exported");
    with_fitting_limit(Duration::from_micros(300), |limit| {
        let mut instance = prepared.try_instantiate(()).expect("the slot is free");
        match instance.deadline(limit).call(&init, ()) {
            Err(CallError::Deadline(_)) => {}
            Err(error) => panic!("{error}"),
            Ok(_) => return Passed::TooLate,
        }
        assert_eq!(instance.call(&noop, ()).expect("it returns"), 0);
        match [0, 15].map(|at| instance.call(&is_null, at).expect("inside")) {
            [0, 0] => Passed::TooLate,
            [0, _] => Passed::Within(()),
            _ => Passed::TooEarly,
        }
    });
}

#[test]
fn a_cancelled_call_does_not_continue_its_builtin() {
    each(|prepared| {
        let (fill, noop) = (func(prepared, "fill"), func(prepared, "noop"));
        with_fitting_limit(Duration::from_micros(50), |slice| {
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            let step = instance.timeslice(slice).start(&fill, ());
            if step.expect("no trap") != Step::Preempted {
                return Passed::TooLate;
            }
            let is_filled = |instance: &Instance<()>, at| {
                let found = instance.memory().read_u64(at).expect("inside");
                found == u64::MAX / 255 * 7
            };
            let filled = [0, BYTES as u32 - 8].map(|at| is_filled(&instance, at));
            instance.cancel();
            let long = Duration::from_secs(3600);
            let step = instance.timeslice(long).start(&noop, ());
            assert_eq!(step.expect("no trap"), Step::Returned(0));
            // The fill has not continued.
            let now = [0, BYTES as u32 - 8].map(|at| is_filled(&instance, at));
            assert_eq!(now, filled);
            match filled {
                [false, _] => Passed::TooEarly,
                [true, false] => Passed::Within(()),
                [true, true] => Passed::TooLate,
            }
        });
    });
}

/// The start deadline also covers initial values of globals, arrays and tables.
#[test]
fn a_start_deadline_covers_initialisation() {
    for start in [
        "(global (ref $bytes) (array.new $bytes (i32.const 7) (i32.const 60000000)))",
        "(table 8000000 funcref (ref.func $f)) (func $f)",
        "(table 8000000 arrayref (array.new_default $bytes (i32.const 1)))",
        "(table 8000000 funcref) (elem (i32.const 0) $f) (func $f)",
        "(table 8000000 funcref) (elem (i32.const 7999999) $f) (func $f)",
    ] {
        starts_in_time(start);
    }
}

/// The writes before the start function take milliseconds, and a deadline must end them.
fn starts_in_time(start: &str) {
    let module = common::wat(&format!(
        r#"(module (type $bytes (array (mut i8))) (memory (export "memory") 1) {start})"#
    ));
    for reset in common::resets() {
        let region = Region::builder()
            .slots(1)
            .memories(2)
            .memory_bytes_max(BYTES);
        let region = region.table_elements(8_000_000).reset(reset);
        let region = region.build().expect("a region");
        let prepared = region
            .prepare(&module, &Linker::<()>::new())
            .expect("it fits");
        drop(prepared.try_instantiate(()).expect("there is time"));
        let late = |limit| match prepared.start_deadline(limit).try_instantiate(()) {
            Err(InstantiateError::Start(CallError::Deadline(_))) => true,
            Err(error) => panic!("{error}"),
            Ok(_) => false,
        };
        assert!(late(Duration::ZERO), "{reset}");
        // On a busy machine the timer is late, and the writes may end first.
        let limit = Duration::from_micros(500);
        let has_stopped = (0..SLICED_CALLS_MAX).any(|_| late(limit));
        assert!(has_stopped, "{reset}: {start}");
        assert!(!late(Duration::from_secs(3600)), "{reset}: {start}");
        assert_eq!(region.slots_free(), 1, "{reset}: {start}");
    }
}

/// The runtime initialises large tables in chunks. All elements must be right, also if another
/// instance left elements in the slot.
#[test]
fn large_tables_have_their_initial_elements() {
    let module = common::wat(
        r#"(module
          (type $number (struct (field i32)))
          (func $f) (func $g)
          (table $null (export "null") 100000 funcref)
          (table $f (export "f") 100000 funcref (ref.func $f))
          (table $made (export "made") 100000 structref (struct.new $number (i32.const 5)))
          (table $empty 0 structref (struct.new $number (i32.const 6)))
          (elem (table $null) (i32.const 8000) func $g $g)
          (elem (table $f) (i32.const 50000) func $g $g)
          (elem declare func $f)
          (func (export "spoil") (param i32)
            (table.fill $null (local.get 0) (ref.func $f) (i32.sub (i32.const 100000) (local.get 0)))
            (table.fill $f (local.get 0) (ref.null func) (i32.sub (i32.const 100000) (local.get 0)))
            (table.fill $made (local.get 0) (ref.null struct) (i32.sub (i32.const 100000) (local.get 0))))
          ;; 1 for null, 2 for the function that was named, 4 for what was made.
          (func (export "at") (param i32) (result i32)
            (i32.add (i32.add
              (ref.is_null (table.get $null (local.get 0)))
              (i32.shl (i32.eqz (ref.is_null (table.get $f (local.get 0)))) (i32.const 1)))
              (i32.shl (i32.eqz (ref.is_null (table.get $made (local.get 0)))) (i32.const 2)))))"#,
    );
    for reset in common::resets() {
        let region = Region::builder().slots(1).memories(2).reset(reset);
        let region = region.table_elements(100_000).build().expect("a region");
        let prepared = region
            .prepare(&module, &Linker::<()>::new())
            .expect("it fits");
        let at = prepared.func::<i32, i32>("at").expect("it is exported");
        let spoil = prepared.func::<i32, ()>("spoil").expect("it is exported");
        for _ in 0..3 {
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            for index in 0..100_000 {
                let expected = if [8000, 8001].contains(&index) { 6 } else { 7 };
                let found = instance.call(&at, index).expect("it is inside");
                assert_eq!(found, expected, "{reset}: element {index}");
            }
            instance.call(&spoil, 0).expect("it is inside");
        }
    }
}
