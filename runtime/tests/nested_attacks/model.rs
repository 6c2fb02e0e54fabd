//! Random trees of nested calls, compared with a model. Each tree runs as a plain call, in time
//! slices, and by a future, with and without fuel, at two optimisation levels.

use super::common::{self, SLICED_CALLS_MAX, random::Random};
use core::future::Future;
use core::task::{Context, Poll, Waker};
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{
    CallError, Caller, HostError, Instance, KillSwitch, Linker, Prepared, Region, Step, TrapCode,
    TypedFunc, Value,
};
use std::time::Duration;

/// A node computes values of all types from its seed, and stores an exception and bytes of memory.
/// It lets the host visit its children, and then combines all these values.
const GUEST: &str = r#"(module
  (import "h" "visit" (func $visit (param i64 i32) (result i64)))
  (memory (export "memory") 1 64)
  (tag $t (param i64))
  (type $s (struct (field i64)))
  (func $node (export "node") (param $seed i64) (param $depth i32) (result i64)
    (local $a i64) (local $b i64) (local $c i64) (local $d i64) (local $x f64) (local $y f32)
    (local $v v128)
    (local $kept exnref) (local $own (ref $s)) (local $place i32)
    (local.set $a (i64.mul (local.get $seed) (i64.const 0x9e3779b97f4a7c15)))
    (local.set $b (i64.rotl (local.get $a) (i64.const 17)))
    (local.set $c (i64.xor (local.get $a) (local.get $seed)))
    (local.set $d (i64.add (local.get $b) (i64.const 12345)))
    (local.set $x (f64.convert_i64_u (i64.and (local.get $a) (i64.const 0xffff))))
    (local.set $y (f32.convert_i64_u (i64.and (local.get $b) (i64.const 0xfff))))
    (local.set $v (i64x2.splat (local.get $c)))
    (local.set $own (struct.new $s (local.get $d)))
    (local.set $place (i32.shl (local.get $depth) (i32.const 3)))
    (i64.store (local.get $place) (local.get $b))
    (block $caught (result i64 exnref)
      (try_table (catch_ref $t $caught) (throw $t (local.get $seed)))
      unreachable)
    (local.set $kept) drop
    (local.set $a (i64.add (local.get $a) (call $visit (local.get $seed) (local.get $depth))))
    (block $again (result i64)
      (try_table (catch $t $again) (throw_ref (local.get $kept)))
      unreachable)
    (i64.xor (local.get $a))
    (i64.add (i64.mul (i64.load (local.get $place)) (i64.const 3)))
    (i64.xor (local.get $c))
    (i64.add (i64.add (local.get $d) (struct.get $s 0 (local.get $own))))
    (i64.xor (i64x2.extract_lane 1 (local.get $v)))
    (i64.add (i64.trunc_f64_u (local.get $x)))
    (i64.add (i64.trunc_f32_u (local.get $y))))
  (func $traps (export "traps") (param i64 i32) (result i64) unreachable)
  (func $faults (export "faults") (param i64 i32) (result i64) (i64.load (i32.const -9)))
  (func $throws (export "throws") (param i64 i32) (result i64) (throw $t (local.get 0)))
  (func $overflows (export "overflows") (param i64 i32) (result i64)
    (i64.add (call $overflows (local.get 0) (local.get 1)) (i64.const 1)))
  ;; Lets the host visit the children in nested calls, and then traps.
  (func (export "visits and traps") (param i64 i32) (result i64)
    (drop (call $visit (local.get 0) (local.get 1))) unreachable)
  (func (export "grows") (param i64 i32) (result i64)
    (drop (memory.grow (i32.const 1))) (i64.const 0))
  (func (export "wastes") (param $n i64) (param i32) (result i64)
    (loop $l
      (block $caught (result exnref)
        (try_table (catch_all_ref $caught) (throw $t (local.get $n)))
        unreachable)
      drop
      (br_if $l (i64.ne (local.tee $n (i64.sub (local.get $n) (i64.const 1))) (i64.const 0))))
    (i64.const 0)))"#;

/// The names of the guest's functions, in the order of [`Data::funcs`].
const NAMES: [&str; 8] = [
    "node",
    "traps",
    "faults",
    "throws",
    "overflows",
    "visits and traps",
    "grows",
    "wastes",
];

type Func = TypedFunc<(i64, i32), i64>;

struct Data {
    funcs: [Func; NAMES.len()],
    switch: Option<KillSwitch>,
    visits: u64,
}

/// Nodes at this depth have no children.
const DEPTH_MAX: i32 = 6;

/// Returns the children of a node. A child is an index in [`NAMES`] and the first parameter of that
/// function.
fn children(seed: i64, depth: i32) -> Vec<(usize, i64)> {
    let mut random = Random(seed.cast_unsigned() ^ u64::from(depth.cast_unsigned()) << 48);
    if depth == DEPTH_MAX {
        return vec![];
    }
    let count = random.below(6);
    let child = |_| {
        let func = match random.below(16) {
            n @ 0..=6 => n as usize + 1,
            _ => 0,
        };
        let number = match NAMES[func] {
            "wastes" => 20,
            _ => random.u64().cast_signed(),
        };
        (func, number)
    };
    (0..count).map(child).collect()
}

fn fold(sum: i64, more: i64) -> i64 {
    sum.rotate_left(5) ^ more
}

/// The result of a visit, computed by the model.
fn wanted_of_visit(seed: i64, depth: i32) -> i64 {
    children(seed, depth).iter().fold(0, |sum, (func, number)| {
        let more = match NAMES[*func] {
            "node" => wanted(*number, depth + 1),
            "throws" => *number,
            _ => *func as i64,
        };
        fold(sum, more)
    })
}

/// The result of a node, computed by the model.
fn wanted(seed: i64, depth: i32) -> i64 {
    let a = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
    let b = a.rotate_left(17);
    let (c, d) = (a ^ seed, b.wrapping_add(12345));
    let mut sum = seed ^ a.wrapping_add(wanted_of_visit(seed, depth));
    sum = sum.wrapping_add(b.wrapping_mul(3)) ^ c;
    sum = sum.wrapping_add(d.wrapping_mul(2)) ^ c;
    sum.wrapping_add(a & 0xffff).wrapping_add(b & 0xfff)
}

fn visit(mut caller: Caller<'_, Data>, seed: i64, depth: i32) -> Result<i64, HostError> {
    let mut sum = 0;
    caller.data_mut().visits += 1;
    for (at, number) in children(seed, depth) {
        let func = caller.data().funcs[at];
        // Sometimes end the time slice here. In a nested call, the runtime defers that end.
        if number & 31 == 5
            && let Some(switch) = &caller.data().switch
        {
            switch.preempt();
        }
        let ended = caller.call(&func, (number, depth + 1));
        let more = match (NAMES[at], ended) {
            ("node", Ok(result)) => result,
            ("grows" | "wastes", Ok(_)) => at as i64,
            ("throws", Err(CallError::Exception(exception))) => match exception.values() {
                [Value::I64(value)] => *value,
                other => panic!("{other:?}"),
            },
            (name, Err(CallError::Trap(trap))) => {
                let code = match name {
                    "traps" | "visits and traps" => TrapCode::Unreachable,
                    "faults" => TrapCode::MemoryOutOfBounds,
                    "overflows" => TrapCode::StackOverflow,
                    _ => panic!("{name}: {trap}"),
                };
                assert_eq!(trap.code(), code);
                at as i64
            }
            (_, Err(error)) => return Err(error.into()),
            (name, Ok(result)) => panic!("{name}: {result}"),
        };
        sum = fold(sum, more);
    }
    Ok(sum)
}

fn prepare(level: OptLevel, fuel: bool) -> Prepared<Data> {
    let mut linker = Linker::<Data>::new();
    linker.func("h", "visit", visit).expect("the name is free");
    let mut options = Options::default();
    (options.opt_level, options.fuel) = (level, fuel);
    let module = common::wat_with(GUEST, &options);
    let region = Region::builder().slots(1).memories(2).build();
    region
        .expect("the region is built")
        .prepare(&module, &linker)
        .expect("the module links")
}

fn instance(prepared: &Prepared<Data>) -> Instance<Data> {
    let funcs = NAMES.map(|name| prepared.func(name).expect("the export exists"));
    let data = Data {
        funcs,
        switch: None,
        visits: 0,
    };
    prepared.try_instantiate(data).expect("a slot is free")
}

/// Runs the tree of each seed by `call`, and returns the numbers of preemptions and visits.
fn run(
    prepared: &Prepared<Data>,
    seeds: core::ops::Range<i64>,
    mut call: impl FnMut(&mut Instance<Data>, &Func, i64, &mut u32) -> Result<i64, CallError>,
) -> (u32, u64) {
    let node = prepared.func(NAMES[0]).expect("the export exists");
    let (mut preempted, mut visits) = (0, 0);
    for seed in seeds {
        let mut instance = instance(prepared);
        let seed = seed.wrapping_mul(0x1234_5678_9abc_def1);
        for _ in 0..2 {
            let found = call(&mut instance, &node, seed, &mut preempted);
            assert_eq!(
                found.expect("the call returns"),
                wanted(seed, 0),
                "{seed:#x}"
            );
        }
        visits += instance.data().visits;
    }
    (preempted, visits)
}

/// As [`run`] with the first `count` seeds, and again until more than ten time slices have ended.
/// On a busy machine the timer is late. Returns the number of ended slices, and a run's visits.
fn run_sliced(
    prepared: &Prepared<Data>,
    count: i64,
    mut call: impl FnMut(&mut Instance<Data>, &Func, i64, &mut u32) -> Result<i64, CallError>,
) -> (u32, u64) {
    let (mut preempted, visits) = run(prepared, 0..count, &mut call);
    for _ in 0..SLICED_CALLS_MAX {
        if preempted > 10 {
            break;
        }
        preempted += run(prepared, 0..count, &mut call).0;
    }
    (preempted, visits)
}

fn stepped(
    instance: &mut Instance<Data>,
    node: &Func,
    seed: i64,
    preempted: &mut u32,
    slice: Duration,
) -> Result<i64, CallError> {
    instance.data_mut().switch = Some(instance.kill_switch());
    let mut step = instance.timeslice(slice).start(node, (seed, 0))?;
    loop {
        match step {
            Step::Returned(result) => return Ok(result),
            Step::Preempted => *preempted += 1,
            Step::Asked(none) => match none {},
        }
        step = instance.timeslice(slice).resume(node)?;
    }
}

fn polled(
    instance: &mut Instance<Data>,
    node: &Func,
    seed: i64,
    preempted: &mut u32,
) -> Result<i64, CallError> {
    instance.data_mut().switch = Some(instance.kill_switch());
    let slice = Duration::from_micros(30);
    let mut context = Context::from_waker(Waker::noop());
    let mut running = Box::pin(instance.timeslice(slice).call_async(node, (seed, 0)));
    loop {
        match running.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => *preempted += 1,
        }
    }
}

fn trees(count: i64) {
    for level in [OptLevel::None, OptLevel::Speed] {
        for fuel in [false, true] {
            let prepared = prepare(level, fuel);
            let (_, visits) = run(&prepared, 0..count, |instance, node, seed, _| {
                instance.call(node, (seed, 0))
            });
            let (preempted, stepped_visits) =
                run_sliced(&prepared, count, |instance, node, seed, sum| {
                    stepped(instance, node, seed, sum, Duration::from_micros(30))
                });
            let (pending, polled_visits) = run_sliced(&prepared, count, polled);
            assert_eq!((stepped_visits, polled_visits), (visits, visits));
            println!("{visits} visits, {preempted} preemptions of steps, {pending} of futures");
            assert!(visits > 20 * count as u64 && preempted > 10 && pending > 10);
        }
    }
}

#[test]
fn random_trees_of_nested_calls_are_those_of_the_model() {
    trees(25);
}

#[test]
#[ignore = "takes minutes"]
fn many_random_trees_of_nested_calls_are_those_of_the_model() {
    trees(2_000);
}
