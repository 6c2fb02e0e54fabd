//! Stops within `table.fill`, `table.copy`, `table.init` and `table.grow`: deadlines and cancelled
//! calls. Afterwards each element is an old or a new one. No element of a table without
//! null is null, because guests call such elements without a check. The next instance in the slot
//! has its own elements.

use crate::common;
use crate::common::retry::{Passed, with_fitting_limit};
use pirn_runtime::{CallError, Instance, Linker, Prepared, Region, Step, TypedFunc, Value};
use std::time::Duration;

/// Elements of each table at first.
const ELEMENTS: usize = 200_000;
/// Elements of the segment.
const ITEMS: usize = 60_000;

/// The tables that are written: one whose elements may be null, and one whose may not.
const TABLES: [&str; 2] = ["nullable", "typed"];

fn text() -> String {
    let items = "(ref.func $new)".repeat(ITEMS);
    let mut functions = String::new();
    for table in TABLES {
        functions += &format!(
            r#"
          (func (export "{table} fill")
            (table.fill ${table} (i32.const 0) (ref.func $new) (i32.const {ELEMENTS})))
          (func (export "{table} copy")
            (table.copy ${table} $source (i32.const 0) (i32.const 0) (i32.const {ELEMENTS})))
          (func (export "{table} init")
            (table.init ${table} $items (i32.const 0) (i32.const 0) (i32.const {ITEMS})))
          (func (export "{table} grow")
            (global.set $began (i32.const 1))
            (drop (table.grow ${table} (ref.func $new) (i32.const {ELEMENTS}))))"#
        );
    }
    format!(
        r#"(module
          (type $f (func (result i32)))
          (table $nullable (export "nullable") {ELEMENTS} 8000000 funcref)
          (table $typed (export "typed") {ELEMENTS} 8000000 (ref $f) (ref.func $old))
          (table $source {ELEMENTS} {ELEMENTS} (ref $f) (ref.func $new))
          (elem $items (ref $f) {items})
          (global $began (export "began") (mut i32) (i32.const 0))
          (global (export "new") funcref (ref.func $new))
          (global (export "old") funcref (ref.func $old))
          (func $old (type $f) (i32.const 0))
          (func $new (type $f) (i32.const 1))
          {functions}
          ;; Calls each element of a table, and returns how many are new.
          (func (export "nullable new") (result i32) (local $i i32) (local $n i32)
            (loop $l
              (if (i32.eqz (ref.is_null (table.get $nullable (local.get $i))))
                (then (local.set $n (i32.add (local.get $n)
                  (call_indirect $nullable (type $f) (local.get $i))))))
              (local.set $i (i32.add (local.get $i) (i32.const 1)))
              (br_if $l (i32.lt_u (local.get $i) (table.size $nullable))))
            (local.get $n))
          (func (export "typed new") (result i32) (local $i i32) (local $n i32)
            (loop $l
              (local.set $n (i32.add (local.get $n)
                (call_ref $f (table.get $typed (local.get $i)))))
              (local.set $i (i32.add (local.get $i) (i32.const 1)))
              (br_if $l (i32.lt_u (local.get $i) (table.size $typed))))
            (local.get $n)))"#
    )
}

/// A bulk operation on a table, with a region whose only slot it uses.
struct Case<'a> {
    prepared: &'a Prepared<()>,
    table: &'static str,
    operation: &'static str,
    run: TypedFunc<(), ()>,
    count: TypedFunc<(), i32>,
}

impl Case<'_> {
    fn instance(&self) -> Instance<()> {
        self.prepared.try_instantiate(()).expect("the slot is free")
    }

    /// The number of elements, and of new ones, as the host reads them. All others are old.
    fn found(&self, instance: &Instance<()>) -> (usize, usize) {
        let table = instance.table(self.table).expect("it is exported");
        let value = |name| instance.global(name).expect("it is exported");
        let (new, mut old) = (value("new"), value("old"));
        if self.table == "nullable" {
            old = Value::FuncRef(None);
        }
        let elements = (0..table.len()).map(|at| table.get(at).expect("inside"));
        let count = elements.fold(0, |count, element| {
            assert!(element == new || element == old, "{self}: {element:?}");
            count + usize::from(element == new)
        });
        (table.len() as usize, count)
    }

    /// Checks the numbers of an operation that was stopped within its writes.
    fn check(&self, (len, count): (usize, usize)) {
        assert_eq!(len, ELEMENTS, "{self}");
        let whole = match self.operation {
            "init" => 1..ITEMS,
            "grow" => 0..1,
            _ => 1..ELEMENTS,
        };
        assert!(whole.contains(&count), "{self}: {count} elements");
    }

    /// As [`check`](Self::check), after the guest has called each element. Returns the numbers.
    fn check_called(&self, instance: &mut Instance<()>) -> (usize, usize) {
        let count = instance.call(&self.count, ()).expect("no element traps");
        let found = self.found(instance);
        assert_eq!(found.1, count as usize, "{self}");
        self.check(found);
        found
    }

    /// When the stop came, by the first and the last element that the operation writes.
    fn passed(&self, instance: &Instance<()>) -> Passed<()> {
        let table = instance.table(self.table).expect("it is exported");
        let new = instance.global("new").expect("it is exported");
        let last = match self.operation {
            "init" => ITEMS - 1,
            "grow" if instance.global("began") == Some(Value::I32(0)) => return Passed::TooEarly,
            // A table that has not grown does not show how many elements were written.
            "grow" if table.len() == ELEMENTS as u64 => return Passed::Within(()),
            "grow" => return Passed::TooLate,
            _ => ELEMENTS - 1,
        };
        match [0, last].map(|at| table.get(at as u64).expect("inside") == new) {
            [false, false] => Passed::TooEarly,
            [true, true] => Passed::TooLate,
            _ => Passed::Within(()),
        }
    }
}

impl std::fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.table, self.operation)
    }
}

/// Runs a test with each operation on each table, under every reset.
fn each(test: impl Fn(&Case<'_>)) {
    let module = common::wat(&text());
    for reset in common::resets() {
        let region = Region::builder()
            .slots(1)
            .tables(3)
            .table_elements(8_000_000)
            .reset(reset);
        let region = region.build().expect("a region");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        for table in TABLES {
            for operation in ["fill", "copy", "init", "grow"] {
                let name = format!("{table} {operation}");
                let case = Case {
                    prepared: &prepared,
                    table,
                    operation,
                    run: prepared.func(&name).expect("it is exported"),
                    count: prepared
                        .func(&format!("{table} new"))
                        .expect("it is exported"),
                };
                test(&case);
                assert_eq!(region.slots_free(), 1, "{case}, {reset}");
                let next = case.found(&case.instance());
                assert_eq!(next, (ELEMENTS, 0), "{case}, {reset}");
            }
        }
    }
}

#[test]
fn a_deadline_ends_an_operation_on_a_table() {
    each(|case| {
        with_fitting_limit(Duration::from_micros(100), |limit| {
            let mut instance = case.instance();
            match instance.deadline(limit).call(&case.run, ()) {
                Err(CallError::Deadline(_)) => {}
                Err(error) => panic!("{case}: {error}"),
                Ok(()) => return Passed::TooLate,
            }
            let passed = case.passed(&instance);
            if let Passed::Within(()) = passed {
                case.check_called(&mut instance);
            }
            passed
        });
    });
}

#[test]
fn a_cancelled_operation_on_a_table_does_not_continue() {
    each(|case| {
        with_fitting_limit(Duration::from_micros(100), |slice| {
            let mut instance = case.instance();
            let step = instance.timeslice(slice).start(&case.run, ());
            if step.expect("no trap") != Step::Preempted {
                return Passed::TooLate;
            }
            let passed = case.passed(&instance);
            if let Passed::Within(()) = passed {
                // The host sees no half-grown table while the call is suspended.
                let suspended = case.found(&instance);
                instance.cancel();
                assert_eq!(case.check_called(&mut instance), suspended, "{case}");
            }
            passed
        });
    });
}
