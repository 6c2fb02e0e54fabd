//! State that a snapshot cannot have. The slot must be free after each refusal.

use super::common::retry::with_longer_limits;
use super::common::{self, values::region, values::shared_memory};
use pirn_compiler::Options;
use pirn_runtime::{
    CallError, CallState, Caller, ExternRef, HostError, Instance, Linker, Operation, Region,
    SnapshotError, Step, TypedFunc, Value,
};
use std::num::NonZeroU64;
use std::time::Duration;

const GUEST: &str = r#"(module
  (import "host" "ask" (func $ask (param i32) (result i32)))
  (import "host" "fail" (func $fail))
  (memory 1)
  (table (export "values") 4 externref)
  (global (export "value") (mut externref) (ref.null extern))
  (type $box (struct (field i32)))
  (global $object (mut anyref) (ref.null any))
  (table $objects 2 anyref)
  (tag $tag (param i32))
  (global $caught (mut exnref) (ref.null exn))
  (func (export "asks") (result i32) (call $ask (i32.const 1)))
  (func (export "fails") (call $fail))
  (func (export "traps") unreachable)
  (func (export "throws") (throw $tag (i32.const 1)))
  (func (export "forever") (loop $l (br $l)))
  (func (export "nothing"))
  (func (export "object") (global.set $object (struct.new $box (i32.const 1))))
  (func (export "element")
    (table.set $objects (i32.const 1) (struct.new $box (i32.const 1))))
  (func (export "forget")
    (global.set $object (ref.null any)) (table.set $objects (i32.const 1) (ref.null any)))
  (func (export "catch")
    (global.set $caught (block $handler (result exnref)
      (try_table (catch_all_ref $handler) (throw $tag (i32.const 1))) unreachable))))"#;

type Asking = Instance<(), i32, i32>;

struct Setup {
    region: Region,
    prepared: pirn_runtime::Prepared<(), i32, i32>,
}

impl Setup {
    fn new() -> Self {
        let region = Region::builder().slots(1).memories(2).tables(2);
        let region = region.build().expect("the region is built");
        let mut linker = Linker::asking();
        linker
            .func_ask(
                "host",
                "ask",
                |_: Caller<'_, ()>, n: i32| Ok(n),
                |_: Caller<'_, ()>, _: i32, answer: i32| Ok::<i32, HostError>(answer),
            )
            .expect("the name is free");
        let fail = |_: Caller<'_, ()>| -> Result<(), HostError> {
            Err(HostError::message("the host refuses"))
        };
        linker.func("host", "fail", fail).expect("the name is free");
        let prepared = region.prepare(&common::wat(GUEST), &linker);
        let prepared = prepared.expect("it links");
        Self { region, prepared }
    }

    fn fresh(&self) -> Asking {
        self.prepared.try_instantiate(()).expect("the slot is free")
    }

    /// The export that asks the host a question.
    fn asks(&self) -> TypedFunc<(), i32> {
        self.prepared.func("asks").expect("it is exported")
    }

    /// The error of a snapshot of this instance, which frees the slot.
    fn refused(&self, instance: Asking) -> SnapshotError {
        let error = instance.snapshot().expect_err("it has no snapshot");
        assert_eq!(self.region.slots_free(), 1);
        assert!(!error.to_string().contains('\n'), "{error}");
        error
    }
}

#[test]
fn a_suspended_instance_has_no_snapshot() {
    let setup = Setup::new();
    let asks = setup.asks();
    let mut instance = setup.fresh();
    let step = instance.start(&asks, ()).expect("the guest runs");
    assert_eq!(step, Step::Asked(1));
    match setup.refused(instance) {
        SnapshotError::State(error) => {
            let found = (error.operation(), error.state());
            assert_eq!(found, (Operation::Snapshot, CallState::Asked));
        }
        other => panic!("{other}"),
    }
    let forever = setup.prepared.func::<(), ()>("forever");
    let mut instance = setup.fresh();
    let sliced = instance.timeslice(Duration::from_millis(1));
    let step = sliced.start(&forever.expect("it is exported"), ());
    assert_eq!(step.expect("the guest runs"), Step::Preempted);
    let error = setup.refused(instance);
    assert!(
        matches!(&error, SnapshotError::State(error) if error.state() == CallState::Preempted),
        "{error}"
    );
}

/// After a failed call the guest may have stopped half-way through a change. A call that returned
/// later does not repair that.
#[test]
fn an_instance_has_no_snapshot_after_a_failed_call() {
    let setup = Setup::new();
    let asks = setup.asks();
    type Fail = fn(&mut Asking, &TypedFunc<(), i32>) -> bool;
    let ways: [(&str, Fail); 6] = [
        ("trap", |instance, _| {
            matches!(instance.call_values("traps", &[]), Err(CallError::Trap(_)))
        }),
        ("exception", |instance, _| {
            matches!(
                instance.call_values("throws", &[]),
                Err(CallError::Exception(_))
            )
        }),
        ("host error", |instance, _| {
            matches!(instance.call_values("fails", &[]), Err(CallError::Host(_)))
        }),
        ("deadline", |instance, _| {
            // A deadline that passes before the guest runs is no failure of the guest.
            with_longer_limits(Duration::from_millis(2), |limit| {
                let ended = instance.deadline(limit).call_values("forever", &[]);
                match ended {
                    Err(CallError::Deadline(ended)) => {
                        (!ended.backtrace().is_empty()).then_some(true)
                    }
                    _ => Some(false),
                }
            })
        }),
        ("cancelled question", |instance, asks| {
            let step = instance.start(asks, ()).expect("the guest runs");
            instance.cancel();
            step == Step::Asked(1)
        }),
        ("step", |instance, asks| {
            // Outside of `start`, the guest cannot ask.
            instance.call(asks, ()).is_err()
        }),
    ];
    for (name, fail) in ways {
        let mut instance = setup.fresh();
        assert!(fail(&mut instance, &asks), "{name}");
        instance.call_values("nothing", &[]).expect("it returns");
        let error = setup.refused(instance);
        assert!(matches!(error, SnapshotError::Failed), "{name}: {error}");
    }
    // An answered question is no failure, and neither is a refused call.
    let mut instance = setup.fresh();
    let step = instance.start(&asks, ()).expect("the guest runs");
    assert_eq!(step, Step::Asked(1));
    let step = instance.resume_with(&asks, 5).expect("the guest runs");
    assert_eq!(step, Step::Returned(5));
    let refused = instance.call_values("no such function", &[]);
    assert!(matches!(refused, Err(CallError::Invalid(_))), "{refused:?}");
    instance.snapshot().expect("it can be taken");
}

/// Values of the host, structs and exceptions are refused while a global or table has them.
#[test]
fn references_that_no_other_instance_can_have_are_refused() {
    let setup = Setup::new();
    let value = || Value::ExternRef(NonZeroU64::new(7).map(ExternRef::new));
    type Refer = fn(&mut Asking, Value);
    let cases: [(&str, Refer); 5] = [
        (
            "global 0 refers to a value of the host",
            |instance, value| {
                instance.set_global("value", value).expect("it is set");
            },
        ),
        (
            "element 2 of table 0 refers to a value of the host",
            |instance, value| {
                let mut table = instance.table_mut("values").expect("it is exported");
                table.set(2, value).expect("it is set");
            },
        ),
        ("global 1 refers to an object", |instance, _| {
            instance.call_values("object", &[]).expect("it returns");
        }),
        ("element 1 of table 1 refers to an object", |instance, _| {
            instance.call_values("element", &[]).expect("it returns");
        }),
        ("global 2 refers to an exception", |instance, _| {
            instance.call_values("catch", &[]).expect("it returns");
        }),
    ];
    for (wanted, refer) in cases {
        let mut instance = setup.fresh();
        refer(&mut instance, value());
        let error = setup.refused(instance).to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
    // Objects to which nothing refers any more are no part of the state.
    let mut instance = setup.fresh();
    for name in ["object", "element", "forget"] {
        instance.call_values(name, &[]).expect("it returns");
    }
    instance.snapshot().expect("it can be taken");
}

#[test]
fn objects_of_an_element_segment_are_refused_until_it_is_dropped() {
    let text = r#"(module
      (type $box (struct (field i32)))
      (table $t 1 anyref)
      (elem $objects anyref (item (struct.new $box (i32.const 1))))
      (func (export "use") (table.init $t $objects (i32.const 0) (i32.const 0) (i32.const 1)))
      (func (export "drop") (elem.drop $objects)))"#;
    let region = Region::builder().slots(1).memories(2);
    let region = region.build().expect("the region is built");
    let prepared = region.prepare(&common::wat(text), &Linker::<()>::new());
    let prepared = prepared.expect("it links");
    let instance = prepared.try_instantiate(()).expect("the slot is free");
    let error = instance.snapshot().expect_err("it has no snapshot");
    let wanted = "element segment 0 refers to objects";
    assert!(error.to_string().starts_with(wanted), "{error}");
    assert_eq!(region.slots_free(), 1);
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    instance.call_values("drop", &[]).expect("it returns");
    let snapshot = instance.snapshot().expect("it can be taken");
    let prepared = region.prepare(&snapshot, &Linker::<()>::new());
    let instance = prepared.expect("it links").try_instantiate(());
    let used = instance.expect("the slot is free").call_values("use", &[]);
    assert!(matches!(used, Err(CallError::Trap(_))), "{used:?}");
}

#[test]
fn a_shared_memory_is_refused() {
    let mut options = Options::default();
    options.opt_level = pirn_compiler::OptLevel::None;
    let module = common::wat_with(
        r#"(module (import "host" "memory" (memory 1 1 shared)))"#,
        &options,
    );
    let region = region(1);
    let mut linker = Linker::new();
    linker
        .memory("host", "memory", &shared_memory(1, 1))
        .expect("the name is free");
    let prepared = region.prepare(&module, &linker).expect("it links");
    let instance = prepared.try_instantiate(()).expect("the slot is free");
    let error = instance.snapshot().expect_err("it has no snapshot");
    assert!(
        matches!(error, SnapshotError::SharedMemory { index: 0 }),
        "{error}"
    );
    assert_eq!(region.slots_free(), 1);
}

/// A host function makes a nested call, and returns as usual although that call failed.
#[test]
fn an_instance_has_no_snapshot_after_a_failed_nested_call() {
    let text = r#"(module
      (import "host" "tries" (func $tries))
      (global $depth (mut i32) (i32.const 0))
      (func (export "fails")
        (global.set $depth (i32.add (global.get $depth) (i32.const 1)))
        unreachable)
      (func (export "go") (call $tries)))"#;
    let region = region(1);
    let mut linker = Linker::<()>::new();
    let tries = |mut caller: Caller<'_, ()>| {
        assert!(caller.call_values("fails", &[]).is_err());
    };
    linker
        .func("host", "tries", tries)
        .expect("the name is free");
    let prepared = region.prepare(&common::wat(text), &linker);
    let instance = prepared.expect("it links").try_instantiate(());
    let mut instance = instance.expect("the slot is free");
    instance
        .call_values("go", &[])
        .expect("the host function returns");
    let error = instance.snapshot().expect_err("its state is half changed");
    assert!(matches!(error, SnapshotError::Failed), "{error}");
}

/// Without the export of a memory, interfaces would use another one. Only functions can be removed.
#[test]
fn only_functions_are_removed_after_they_made_the_state() {
    let text = r#"(module
      (memory 1) (memory (export "memory") 1) (global (export "line\nbreak") i32 (i32.const 1))
      (func (export "two\nlines")))"#;
    let region = Region::builder().slots(1).memories(2);
    let region = region.build().expect("the region is built");
    let prepared = region.prepare(&common::wat(text), &Linker::<()>::new());
    let prepared = prepared.expect("it links");
    for name in ["memory", "line\nbreak", "absent"] {
        let instance = prepared.try_instantiate(()).expect("the slot is free");
        let error = instance.snapshot_after(&[name]).map(drop);
        let error = error.expect_err("it is no function").to_string();
        assert!(error.contains("only two\\nlines;"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let instance = prepared.try_instantiate(()).expect("the slot is free");
    let made = instance.snapshot_after(&["two\nlines"]);
    assert_eq!(made.expect("it is a function").exports().count(), 2);
}
