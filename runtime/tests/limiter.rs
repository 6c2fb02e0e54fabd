//! The limiters that an embedder sets for growing memories and tables, and the reports of failed
//! growth.

use crate::common;
use crate::common::values::Lend as _;

use pirn_runtime::{
    CallError, ExternType, Group, Growing, Growth, Instance, KillOutcome, KillSwitch, Linker,
    Module, Prepared, Region, SharedMemory, Step, Value,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const PAGE: u64 = 64 << 10;

const GROWS: &str = r#"(module (memory (export "mem") 1 5) (table 2 20 funcref)
  (func (export "memory") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "table") (param i32) (result i32)
    (table.grow (ref.null func) (local.get 0)))
  (func (export "sizes") (result i32 i32) (memory.size) (table.size)))"#;

/// The limiter's calls (kind, current size, desired size, maximum), and the reports of failed
/// growth.
#[derive(Debug, Default)]
struct Requests {
    asked: Vec<(&'static str, u64, u64, Option<u64>)>,
    failed: Vec<(u64, u64, String)>,
    /// The largest size that the limiter permits.
    allows: u64,
}

impl Requests {
    fn allowing(allows: u64) -> Self {
        Self {
            allows,
            ..Self::default()
        }
    }

    fn ask(&mut self, what: &'static str, growth: Growth) -> bool {
        let Growth {
            current,
            desired,
            maximum,
            ..
        } = growth;
        self.asked.push((what, current, desired, maximum));
        desired <= self.allows
    }
}

fn linker() -> Linker<Requests> {
    let mut linker = Linker::new();
    linker
        .memory_limiter(|requests: &mut Requests, growth| requests.ask("memory", growth))
        .table_limiter(|requests: &mut Requests, growth| requests.ask("table", growth))
        .growth_failed(|requests: &mut Requests, growth, error| {
            requests
                .failed
                .push((growth.current, growth.desired, error.to_string()));
        });
    linker
}

fn region() -> Region {
    let region = Region::builder()
        .slots(3)
        .memory_bytes_max(4 * PAGE as usize);
    region.table_elements(16).build().expect("address space")
}

fn prepared(linker: &Linker<Requests>) -> Prepared<Requests> {
    let module = common::wat(GROWS);
    region().prepare(&module, linker).expect("it fits")
}

/// Calls `memory.grow` or `table.grow` and returns its result.
fn grow(instance: &mut Instance<Requests>, what: &str, delta: i32) -> i32 {
    match instance
        .call_values(what, &[Value::I32(delta)])
        .expect("it returns")[..]
    {
        [Value::I32(previous)] => previous,
        ref other => panic!("{other:?}"),
    }
}

fn sizes(instance: &mut Instance<Requests>) -> Vec<Value> {
    instance.call_values("sizes", &[]).expect("it returns")
}

#[test]
fn the_limiter_is_asked_up_to_the_limit_and_not_past_it() {
    let prepared = prepared(&linker());
    let mut guest = prepared
        .instantiate(Requests::allowing(3 * PAGE))
        .expect("there is a slot");
    assert!(
        guest.data().asked.is_empty(),
        "the limiter is not asked about the initial size"
    );
    assert_eq!(grow(&mut guest, "memory", 1), 1);
    assert_eq!(grow(&mut guest, "memory", 2), -1, "one page past");
    assert_eq!(grow(&mut guest, "memory", 1), 2, "at the limit");
    assert_eq!(grow(&mut guest, "memory", 1), -1);
    assert_eq!(
        grow(&mut guest, "memory", 0),
        3,
        "growth by zero does not ask the limiter"
    );
    assert_eq!(sizes(&mut guest), [Value::I32(3), Value::I32(2)]);
    assert_eq!(guest.memory().len() as u64, 3 * PAGE);
    let most = Some(5 * PAGE);
    let asked = [(1, 2), (2, 4), (2, 3), (3, 4)];
    let asked = asked.map(|(from, to)| ("memory", from * PAGE, to * PAGE, most));
    assert_eq!(guest.data().asked, asked);
    assert!(
        guest.data().failed.is_empty(),
        "a limiter's refusal is no failure"
    );
}

#[test]
fn the_limiter_is_asked_for_tables() {
    let prepared = prepared(&linker());
    let mut guest = prepared
        .instantiate(Requests::allowing(5))
        .expect("there is a slot");
    assert_eq!(grow(&mut guest, "table", 3), 2, "at the limit");
    assert_eq!(grow(&mut guest, "table", 1), -1, "one past");
    assert_eq!(grow(&mut guest, "table", 0), 5);
    assert_eq!(sizes(&mut guest), [Value::I32(1), Value::I32(5)]);
    let asked = [("table", 2, 5, Some(20)), ("table", 5, 6, Some(20))];
    assert_eq!(guest.data().asked, asked);
}

/// The runtime does not ask the limiter about growth past a fixed limit. It only reports that the
/// growth failed.
#[test]
fn impossible_growth_is_reported_without_asking_the_limiter() {
    let prepared = prepared(&linker());
    let mut guest = prepared
        .instantiate(Requests::allowing(u64::MAX))
        .expect("there is a slot");
    // These exceed the region's limits, which are less than the maxima of the types.
    assert_eq!(grow(&mut guest, "memory", 4), -1);
    assert_eq!(grow(&mut guest, "table", 15), -1);
    assert_eq!(grow(&mut guest, "memory", -1), -1);
    assert_eq!(grow(&mut guest, "table", -1), -1);
    assert!(guest.data().asked.is_empty());
    let failure = |current: u64, desired: u64, says: &str| (current, desired, says.to_owned());
    assert_eq!(
        guest.data().failed,
        [
            failure(
                PAGE,
                5 * PAGE,
                "memory cannot grow to 327680 bytes, its limit is 262144; raise its maximum or \
                 `memory_bytes_max`"
            ),
            failure(
                2,
                17,
                "table cannot grow to 17 elements, its limit is 16; raise its maximum or \
                 `table_elements`"
            ),
            failure(
                PAGE,
                PAGE << 32,
                "memory cannot grow to 281474976710656 bytes, its limit is 262144; raise its \
                 maximum or `memory_bytes_max`"
            ),
            failure(
                2,
                (1 << 32) + 1,
                "table cannot grow to 4294967297 elements, its limit is 16; raise its maximum or \
                 `table_elements`"
            ),
        ]
    );
    // These reach the limits exactly.
    assert_eq!(grow(&mut guest, "memory", 3), 1);
    assert_eq!(grow(&mut guest, "table", 14), 2);
    assert_eq!(guest.data().asked.len(), 2);
}

#[test]
fn without_a_limiter_the_regions_limit_applies() {
    let prepared = prepared(&Linker::new());
    let mut guest = prepared
        .instantiate(Requests::default())
        .expect("there is a slot");
    assert_eq!(grow(&mut guest, "memory", 4), -1);
    assert_eq!(grow(&mut guest, "memory", 3), 1);
    assert_eq!(grow(&mut guest, "table", 15), -1);
    assert_eq!(grow(&mut guest, "table", 14), 2);
}

#[test]
fn each_linker_has_its_own_limiter() {
    let (module, region) = (common::wat(GROWS), region());
    let mut strict = Linker::new();
    strict.memory_limiter(|_: &mut Requests, _| false);
    let mut mild = strict.clone();
    mild.memory_limiter(|_: &mut Requests, _| true);
    for (linker, answer) in [
        (&strict, -1),
        (&mild, 1),
        (&Linker::new(), 1),
        (&strict, -1),
    ] {
        let prepared = region.prepare(&module, linker).expect("it fits");
        let mut guest = prepared
            .instantiate(Requests::default())
            .expect("there is a slot");
        assert_eq!(grow(&mut guest, "memory", 1), answer);
        drop(guest);
    }
}

#[test]
fn a_panic_in_a_limiter_ends_the_call_without_growth() {
    let mut linker = Linker::new();
    linker.memory_limiter(|requests: &mut Requests, _| match requests.allows {
        0 => panic!("a limiter's bug"),
        _ => true,
    });
    linker.growth_failed(|_: &mut Requests, _, _| panic!("another"));
    let prepared = prepared(&linker);
    let mut guest = prepared
        .instantiate(Requests::default())
        .expect("there is a slot");
    for (delta, message) in [(1, "a limiter's bug"), (9, "another")] {
        match guest.call_values("memory", &[Value::I32(delta)]) {
            Err(CallError::Panic(panic)) => {
                assert_eq!(panic.message().as_deref(), Some(message));
                assert_eq!(panic.backtrace().len(), 1);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(sizes(&mut guest)[0], Value::I32(1));
    }
    guest.data_mut().allows = 1;
    assert_eq!(
        grow(&mut guest, "memory", 1),
        1,
        "the instance stays usable"
    );
}

#[test]
fn the_limiter_is_asked_during_start_functions() {
    let text = r#"(module (memory 1) (start $start)
      (func $start (if (i32.ne (memory.grow (i32.const 1)) (i32.const -1)) (then unreachable))))"#;
    let module = common::wat(text);
    let prepared = region().prepare(&module, &linker()).expect("it fits");
    let guest = prepared
        .instantiate(Requests::default())
        .expect("it was refused");
    assert_eq!(guest.data().asked, [("memory", PAGE, 2 * PAGE, None)]);
    let allowed = prepared.instantiate(Requests::allowing(2 * PAGE));
    assert!(
        allowed.is_err(),
        "the start function traps if the growth succeeds"
    );
}

#[test]
fn the_limiter_of_an_imported_memorys_owner_is_asked() {
    let owner = common::wat(GROWS);
    let user = r#"(module (import "owner" "mem" (memory 1))
      (func (export "memory") (param i32) (result i32) (memory.grow (local.get 0))))"#;
    let (user, region) = (common::wat(user), region());
    let grown = |group: &mut Group<Requests>, member| {
        group
            .lend(member)
            .call_values("memory", &[Value::I32(1)])
            .expect("it returns")
    };
    let add = |group: &mut Group<Requests>, module: &Module, linker: &Linker<Requests>| {
        group.instantiate(module, linker).expect("there is a slot")
    };
    // Either member may grow the memory. In both cases, the runtime asks only the limiter of the
    // owner's linker.
    for (of_owner, of_user, asked) in [(linker(), Linker::new(), 2), (Linker::new(), linker(), 0)] {
        let mut group = Group::new(&region, Requests::allowing(u64::MAX));
        let owner = add(&mut group, &owner, &of_owner);
        group.name("owner", owner);
        let user = add(&mut group, &user, &of_user);
        assert_eq!(grown(&mut group, user), [Value::I32(1)]);
        assert_eq!(grown(&mut group, owner), [Value::I32(2)]);
        assert_eq!(group.data().asked.len(), asked);
    }
}

#[test]
fn a_guest_is_stopped_in_a_limiter() {
    let mut linker = Linker::new();
    linker.memory_limiter(|stop: &mut Option<(KillSwitch, bool)>, _| {
        match stop {
            Some((switch, true)) => assert_eq!(switch.kill(), Ok(KillOutcome::Host)),
            Some((switch, false)) => assert!(switch.preempt(), "it has a slice of time"),
            None => panic!("no kill switch was given"),
        }
        true
    });
    let prepared = region()
        .prepare(&common::wat(GROWS), &linker)
        .expect("it fits");
    let memory = prepared.func::<i32, i32>("memory").expect("it is exported");
    let mut guest = prepared.instantiate(None).expect("there is a slot");
    let switch = guest.kill_switch();
    *guest.data_mut() = Some((switch, false));
    let step = guest.timeslice(Duration::MAX).start(&memory, 1);
    assert_eq!(step.expect("the guest resumes"), Step::Preempted);
    let step = guest.resume(&memory).expect("it returns");
    assert_eq!(step, Step::Returned(1));
    if let Some((_, kills)) = guest.data_mut() {
        *kills = true;
    }
    let error = guest.call(&memory, 1).expect_err("it is killed");
    assert!(matches!(error, CallError::Killed(_)), "{error}");
}

#[test]
fn a_group_can_be_killed_after_a_limiter_panicked() {
    let region = Region::builder().slots(2).memories(2);
    let region = region.build().expect("address space");
    let mut group = Group::new(&region, ());
    let first = group.instantiate(
        &common::wat("(module (func (export \"run\")))"),
        &Linker::new(),
    );
    let first = first.expect("there is a slot");
    let switch = group.kill_switch();
    // An array that is created before any code runs.
    let array = r#"(module (type $a (array i8))
      (global (ref $a) (array.new_default $a (i32.const 100))))"#;
    let array = common::wat(array);
    let mut linker = Linker::new();
    linker.memory_limiter(|(): &mut (), _| panic!("the limiter panics"));
    let instantiated = catch_unwind(AssertUnwindSafe(|| group.instantiate(&array, &linker)));
    instantiated.expect_err("the limiter panics");
    group
        .lend(first)
        .call_values("run", &[])
        .expect("it is not killed yet");
    switch.kill().expect("the group lives");
    let error = group
        .lend(first)
        .call_values("run", &[])
        .expect_err("it is killed");
    assert!(matches!(error, CallError::Killed(_)), "{error}");
}

/// Records the kinds of growth that the limiter is asked for, and permits all of them.
fn asks(linker: &mut Linker<Vec<Growing>>) {
    linker
        .memory_limiter(|asked: &mut Vec<Growing>, growth| {
            asked.push(growth.what);
            true
        })
        .table_limiter(|asked: &mut Vec<Growing>, growth| {
            asked.push(growth.what);
            true
        });
}

#[test]
fn a_growth_names_the_memory_table_or_heap() {
    let text = r#"(module
      (type $a (array i8))
      (import "host" "shared" (memory 1 9 shared))
      (memory 1) (memory 1) (table 1 funcref) (table 1 externref)
      (func (export "run")
        (drop (memory.grow 2 (i32.const 1)))
        (drop (memory.grow 0 (i32.const 1)))
        (drop (memory.grow 1 (i32.const 1)))
        (drop (table.grow 1 (ref.null extern) (i32.const 1)))
        (drop (table.grow 0 (ref.null func) (i32.const 1)))
        (drop (array.new_default $a (i32.const 100)))))"#;
    let mut linker = Linker::new();
    asks(&mut linker);
    let module = common::wat(text);
    let ty = module.imports().find_map(|(_, _, ty)| match ty {
        ExternType::Memory(ty) => Some(ty),
        _ => None,
    });
    let shared = SharedMemory::new(&ty.expect("it imports a memory")).expect("there is memory");
    linker
        .memory("host", "shared", &shared)
        .expect("the name is free");
    let region = Region::builder().slots(1).memories(3).tables(2);
    let region = region.build().expect("address space");
    let prepared = region.prepare(&module, &linker).expect("it fits");
    let mut guest = prepared.instantiate(vec![]).expect("there is a slot");
    guest.call_values("run", &[]).expect("it returns");
    let expected = [
        Growing::Memory(2),
        Growing::SharedMemory(0),
        Growing::Memory(1),
        Growing::Table(1),
        Growing::Table(0),
        Growing::Objects,
    ];
    assert_eq!(*guest.data(), expected);
}

/// The limiter gets the owner's index of an imported memory or table.
#[test]
fn a_growth_of_an_import_has_the_owners_index() {
    let owner = r#"(module (memory 1) (table 1 funcref)
      (memory (export "memory") 1) (table (export "table") 1 funcref))"#;
    let user = r#"(module (import "owner" "memory" (memory 1)) (import "owner" "table" (table 1 funcref))
      (func (export "run")
        (drop (memory.grow 0 (i32.const 1)))
        (drop (table.grow 0 (ref.null func) (i32.const 1)))))"#;
    let region = Region::builder().slots(2).memories(2).tables(2);
    let region = region.build().expect("address space");
    let mut linker = Linker::new();
    asks(&mut linker);
    let mut group = Group::new(&region, vec![]);
    let owner = group.instantiate(&common::wat(owner), &linker);
    group.name("owner", owner.expect("there is a slot"));
    let user = group.instantiate(&common::wat(user), &Linker::new());
    let user = user.expect("there is a slot");
    group
        .lend(user)
        .call_values("run", &[])
        .expect("it returns");
    assert_eq!(*group.data(), [Growing::Memory(1), Growing::Table(1)]);
}
