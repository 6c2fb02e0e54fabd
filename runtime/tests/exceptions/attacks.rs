//! Attacks on exceptions by guests, groups and hosts: wrong handlers, wrong stacks, stale
//! references, and stops during unwinding.

use crate::common::{self, SLICED_CALLS_MAX};
use common::campaign::{sampled, share};
use common::file::File;
use common::values::{instance, levels, number};
use futures::executor::block_on;
use futures::future::poll_immediate;
use pirn_compiler::{Cache, Options};
use pirn_format::sections::Section;
use pirn_format::traps::HandlerEntry;
use pirn_runtime::{
    CallError, HostError, Instance, Linker, Prepared, Region, Step, Trap, TrapCode, Value,
};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

/// Repeats `what`, with the numbers from 0 on in place of `N`.
fn each(count: usize, what: &str) -> String {
    (0..count)
        .map(|n| what.replace('N', &n.to_string()))
        .collect()
}

/// A call with `outer` parameters. The callee tail-calls a function with `inner` parameters. That
/// function throws, or returns if its last parameter is 0.
fn tail_called(outer: usize, inner: usize) -> String {
    let (params, give) = (|n| "i64 ".repeat(n), |n| each(n, "(i64.const N)"));
    let call = |throws: i32| {
        format!(
            "(call $outer {}(i32.const {throws}))",
            each(outer, "(i64.add (local.get $n) (i64.const N))")
        )
    };
    format!(
        r#"(module
      (tag $t (param i64))
      (func $inner (param {}) (param $throws i32) (result i64)
        (if (local.get $throws) (then (throw $t (i64.const 7))))
        (i64.const 1))
      (func $outer (param {}) (param $throws i32) (result i64)
        (return_call $inner {} (local.get $throws)))
      (func (export "run") (param $n i64) (param $throws i32) (result i64)
        (local $sum i64) (local $i i32) (local $a i64) (local $b i64)
        (local.set $a (i64.mul (local.get $n) (i64.const 3)))
        (local.set $b (i64.mul (local.get $n) (i64.const 5)))
        (loop $again
          (block $done
            (block $caught (result i64)
              (try_table (catch $t $caught)
                (local.set $sum (i64.add (local.get $sum) {}))
                (local.set $sum (i64.add (local.get $sum) {})))
              (br $done))
            (local.set $sum (i64.add (local.get $sum)))
          )
          (local.set $sum (i64.add (local.get $sum) (i64.add (local.get $a) (local.get $b))))
          (br_if $again (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100))))
        (local.get $sum)))"#,
        params(inner),
        params(outer),
        give(inner),
        call(0),
        call(0).replace("(i32.const 0)", "(local.get $throws)"),
    )
}

/// A tail call may change the size of the stack arguments. The caller's frame must stay intact,
/// whether the tail-called function returns or throws.
#[test]
fn tail_calls_with_other_stack_arguments_keep_the_callers_frame() {
    const COUNTS: [usize; 7] = [0, 1, 5, 6, 7, 20, 300];
    for (level, options) in levels().iter().enumerate() {
        let pairs = COUNTS
            .iter()
            .flat_map(|outer| COUNTS.map(|inner| (*outer, inner)));
        // By default each pair has one of the three levels.
        for (outer, inner) in sampled(pairs, 3, level) {
            let mut guest = instance(&tail_called(outer, inner), options);
            for (throws, of_calls) in [(0, 2), (1, 8)] {
                let sum = guest.call_values("run", &[Value::I64(1), Value::I32(throws)]);
                let sum = sum.unwrap_or_else(|e| panic!("{outer} {inner} {throws}: {e}"));
                assert_eq!(sum, [Value::I64(100 * (8 + of_calls))], "{outer} {inner}");
            }
        }
    }
}

/// A host function runs in the middle of a body that catches everything.
const HOST: &str = r#"(module
  (import "h" "does" (func $does (param i32) (result i32)))
  (tag $t (param i32))
  (global $caught (export "caught") (mut i32) (i32.const 0))
  (func $deeper (param i32) (result i32)
    (try_table (result i32) (catch $t 0) (call $does (local.get 0))))
  (func (export "run") (param $what i32) (result i32)
    (block $all (result exnref)
      (return (try_table (result i32) (catch_all_ref $all) (call $deeper (local.get $what)))))
    (global.set $caught (i32.const 1))
    (throw_ref))
  (func (export "throws") (param i32) (result i32)
    (block $t (result i32)
      (try_table (result i32) (catch $t $t)
        (drop (call $deeper (i32.const 0)))
        (throw $t (local.get 0))))
    (i32.add (i32.const 1)))
  (func (export "traps") (param i32) (result i32) (local $null i32)
    (block $all
      (try_table (catch_all $all)
        (drop (i32.div_s (local.get 0) (local.get $null)))
        (throw $t (i32.const 1)))
      (unreachable))
    (global.set $caught (i32.const 1))
    (i32.const 1))
  (memory 1)
  (func (export "faults") (param i32) (result i32)
    (block $all (result exnref)
      (try_table (catch_all_ref $all)
        (drop (i32.load (i32.const -1)))
        (drop (call $deeper (i32.const 0))))
      (unreachable))
    (global.set $caught (i32.const 1))
    (throw_ref))
  (func $deep (param i32) (result i32)
    (block $all
      (return (try_table (result i32) (catch_all $all) (call $deep (i32.add (local.get 0) (i32.const 1))))))
    (global.set $caught (i32.const 1))
    (i32.const 1))
  (func (export "overflows") (param i32) (result i32) (call $deep (local.get 0)))
  (func (export "null") (param i32) (result i32)
    (block $all
      (try_table (catch_all $all) (throw_ref (ref.null exn))))
    (global.set $caught (i32.const 1))
    (i32.const 1)))"#;

fn host_instance(options: &Options) -> Instance<()> {
    let mut linker = Linker::new();
    linker
        .func("h", "does", |what: i32| match what {
            0 => Ok(5),
            1 => Err(HostError::message("refused")),
            2 => Err(Trap::new(TrapCode::IntegerOverflow).into()),
            _ => panic!("by the host"),
        })
        .expect("the name is free");
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&common::wat_with(HOST, options), &linker);
    let prepared = prepared.expect("it is linked");
    prepared.try_instantiate(()).expect("the slot is free")
}

#[test]
fn traps_errors_and_panics_are_not_caught() {
    for options in levels() {
        let mut guest = host_instance(&options);
        for _ in 0..3 {
            let mut call = |name, n| guest.call_values(name, &[Value::I32(n)]);
            assert_eq!(number(call("run", 0)), 5);
            assert!(matches!(call("run", 1), Err(CallError::Host(_))));
            trapped(call("run", 2), TrapCode::IntegerOverflow);
            assert!(matches!(call("run", 3), Err(CallError::Panic(_))));
            trapped(call("traps", 1), TrapCode::IntegerDivideByZero);
            trapped(call("faults", 1), TrapCode::MemoryOutOfBounds);
            trapped(call("overflows", 1), TrapCode::StackOverflow);
            trapped(call("null", 1), TrapCode::NullExceptionReference);
            assert_eq!(guest.global("caught"), Some(Value::I32(0)));
            let mut call = |name, n| guest.call_values(name, &[Value::I32(n)]);
            assert_eq!(number(call("throws", 9)), 10);
        }
    }
}

#[track_caller]
fn trapped(result: Result<Vec<Value>, CallError>, code: TrapCode) {
    match result {
        Err(CallError::Trap(trap)) if trap.code() == code => {}
        other => panic!("expected {code}, found {other:?}"),
    }
}

/// A guest that throws and catches for ever, in deep frames with many live values. It sums the
/// values that it catches.
const BUSY: &str = r#"(module
  (import "h" "next" (func $next (param i32) (result i32)))
  (tag $a (param i32)) (tag $b (param i64 i32))
  (func $thrower (param $n i32) (param $depth i32)
    (if (local.get $depth) (then
      (call $thrower (local.get $n) (i32.sub (local.get $depth) (i32.const 1)))))
    (if (i32.and (local.get $n) (i32.const 1))
      (then (throw $a (call $next (local.get $n))))
      (else (throw $b (i64.const 3) (call $next (local.get $n))))))
  (func $middle (param $n i32)
    (block $b (result i64 i32)
      (try_table (catch $b $b) (call $thrower (local.get $n) (i32.const 3)))
      (unreachable))
    (throw $b))
  (func (export "sums") (param $n i32) (result i64)
    (local $x i64) (local $y i64) (local $z i64) (local $f f64) (local $i i32)
    (local.set $x (i64.const 1)) (local.set $y (i64.const 2)) (local.set $f (f64.const 0.5))
    (loop $l
      (block $done
        (block $b (result i64 i32 exnref)
          (block $a (result i32)
            (try_table (catch $a $a) (catch_ref $b $b)
              (call $middle (local.get $i)))
            (unreachable))
          (local.set $x (i64.add (i64.extend_i32_s) (local.get $x)))
          (br $done))
        (drop)
        (local.set $y (i64.add (i64.extend_i32_s) (local.get $y)))
        (local.set $z (i64.add (local.get $z))))
      (local.set $f (f64.add (local.get $f) (f64.const 1.5)))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (i64.add (i64.add (local.get $x) (i64.mul (local.get $y) (i64.const 1000)))
             (i64.add (i64.mul (local.get $z) (i64.const 7)) (i64.trunc_f64_s (local.get $f))))))"#;

/// The sum of [`BUSY`] if the host function `next` doubles.
fn sum(n: i64) -> i64 {
    let (mut x, mut y, mut z) = (1, 2, 0);
    for i in 0..n {
        if i % 2 == 1 {
            x += 2 * i;
        } else {
            y += 2 * i;
            z += 3;
        }
    }
    x + y * 1000 + z * 7 + (1 + 3 * n) / 2
}

fn busy(options: &Options) -> Prepared<()> {
    let mut linker = Linker::new();
    linker
        .func("h", "next", |n: i32| 2 * n)
        .expect("the name is free");
    let region = Region::builder().slots(2).build().expect("a region");
    let prepared = region.prepare(&common::wat_with(BUSY, options), &linker);
    prepared.expect("it is linked")
}

#[test]
fn time_slices_end_during_unwinding() {
    for options in levels() {
        let prepared = busy(&options);
        let sums = prepared.func::<i32, i64>("sums").expect("it is exported");
        let mut guest = prepared.try_instantiate(()).expect("a slot is free");
        let (mut slices, mut us) = (0, 20);
        // The longest call is repeated until enough slices end.
        let longest = share(100_000, 6) as i32 + 1;
        let longest = std::iter::repeat_n(longest, SLICED_CALLS_MAX);
        for (call, n) in [1, 2000].into_iter().chain(longest).enumerate() {
            if call > 2 && slices > 20 {
                break;
            }
            let mut step = guest.timeslice(Duration::from_micros(us)).start(&sums, n);
            loop {
                match step.expect("the guest resumes") {
                    Step::Returned(found) => {
                        assert_eq!(found, sum(n.into()));
                        break;
                    }
                    _ => slices += 1,
                }
                us = 5 + (us * 7 + 13) % 60;
                step = guest.timeslice(Duration::from_micros(us)).resume(&sums);
            }
        }
        assert!(slices > 20, "{slices}");
        guest.call(&sums, 100).expect("it returns");
    }
}

/// A kill or a deadline can stop the guest at any point of a throw or a catch. After a deadline the
/// instance stays usable.
#[test]
fn a_guest_that_throws_endlessly_can_be_stopped() {
    let prepared = busy(&Options::default());
    let sums = prepared.func::<i32, i64>("sums").expect("it is exported");
    for n in 0..200 {
        let mut guest = prepared.try_instantiate(()).expect("a slot is free");
        let late = guest
            .deadline(Duration::from_micros(50 + n))
            .call(&sums, i32::MAX);
        assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
        let late = guest
            .cpu_budget(Duration::from_micros(50 + n))
            .call(&sums, i32::MAX);
        assert!(matches!(late, Err(CallError::CpuBudget(_))), "{late:?}");
        assert_eq!(guest.call(&sums, 10).expect("it returns"), sum(10));
        let switch = guest.kill_switch();
        let killer = thread::spawn(move || {
            thread::sleep(Duration::from_micros(100 + 3 * n));
            switch.kill()
        });
        let killed = guest.call(&sums, i32::MAX);
        assert!(matches!(killed, Err(CallError::Killed(_))), "{killed:?}");
        assert!(killer.join().is_ok());
        let mut guest = prepared.try_instantiate(()).expect("a slot is free");
        let step = guest
            .timeslice(Duration::from_micros(50 + n))
            .start(&sums, i32::MAX);
        assert!(matches!(step, Ok(Step::Preempted)), "{step:?}");
        guest.cancel();
        assert_eq!(guest.call(&sums, 10).expect("it returns"), sum(10));
    }
    assert_eq!(prepared.region().slots_free(), 2);
}

/// A guest with an array of 32 MiB in which the runtime searches for exceptions. Its first element
/// is a chain of exceptions that refer to each other.
const SEARCHED: &str = r#"(module
  (type $refs (array (mut exnref)))
  (tag $n (param i32))
  (tag $e (param exnref))
  (global $refs (mut (ref null $refs)) (ref.null $refs))
  (func $make (param i32) (result exnref)
    (block $c (result i32 exnref)
      (try_table (catch_ref $n $c) (throw $n (local.get 0)))
      (unreachable))
    (return) (unreachable))
  (func $wrap (param exnref) (result exnref)
    (block $c (result exnref exnref)
      (try_table (catch_ref $e $c) (throw $e (local.get 0)))
      (unreachable))
    (return) (unreachable))
  (func (export "begin") (local $i i32) (local $chain exnref)
    (global.set $refs (array.new_default $refs (i32.const 4000000)))
    (local.set $chain (call $make (i32.const 7)))
    (loop $l
      (local.set $chain (call $wrap (local.get $chain)))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 500))))
    (array.set $refs (global.get $refs) (i32.const 0) (local.get $chain)))
  (func (export "waste") (param $n i32)
    (loop $l
      (drop (call $make (i32.const -1)))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "value") (result i32) (local $c exnref)
    (local.set $c (array.get $refs (global.get $refs) (i32.const 0)))
    (block $n (result i32)
      (loop $l
        (block $e (result exnref)
          (try_table (catch $n $n) (catch $e $e) (throw_ref (local.get $c)))
          (unreachable))
        (local.set $c)
        (br $l))
      (unreachable))))"#;

/// The runtime's search for unreferenced exceptions takes nearly all of this guest's time. If the
/// search is stopped, the runtime must not free an exception that the guest refers to.
#[test]
fn a_stop_during_the_search_for_exceptions_frees_none_in_use() {
    let region = Region::builder().slots(1).memories(2).build();
    let module = common::wat_with(SEARCHED, &Options::default());
    let prepared = region
        .expect("a region")
        .prepare(&module, &Linker::<()>::new())
        .expect("it is linked");
    let begin = prepared.func::<(), ()>("begin").expect("it is exported");
    let waste = prepared.func::<i32, ()>("waste").expect("it is exported");
    let value = prepared.func::<(), i32>("value").expect("it is exported");
    let mut guest = prepared.try_instantiate(()).expect("the slot is free");
    guest.call(&begin, ()).expect("it returns");
    for n in sampled(0..30, 6, 0) {
        let limit = Duration::from_micros(500 * (n + 1));
        let late = guest.deadline(limit).call(&waste, i32::MAX);
        assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
        guest.call(&waste, 1500).expect("it returns");
        assert_eq!(guest.call(&value, ()).expect("it returns"), 7, "{n}");
    }
}

/// Suspensions inside a `try_table` body must not change which exceptions it catches.
#[test]
fn suspensions_in_a_try_body_keep_its_handlers() {
    for options in levels() {
        let module = common::wat_with(BUSY, &options);
        let region = Region::builder().slots(2).build().expect("a region");
        let mut linker = Linker::<()>::new();
        linker
            .func_async("h", "next", |_, (n,): (i32,)| {
                let mut polls = n % 3;
                Box::pin(poll_fn(move |context| {
                    polls -= 1;
                    if polls < 0 {
                        return Poll::Ready(2 * n);
                    }
                    context.waker().wake_by_ref();
                    Poll::Pending
                }))
            })
            .expect("the name is free");
        let prepared = region.prepare(&module, &linker).expect("it is linked");
        let sums = prepared.func::<i32, i64>("sums").expect("it is exported");
        let mut guest = prepared.try_instantiate(()).expect("a slot is free");
        assert_eq!(
            block_on(guest.call_async(&sums, 500)).expect("it returns"),
            sum(500)
        );
        let sliced = guest
            .timeslice(Duration::from_micros(30))
            .call_async(&sums, 5000);
        assert_eq!(block_on(sliced).expect("it returns"), sum(5000));
        // The call is dropped before its end.
        let mut dropped = guest.call_async(&sums, 500);
        assert!(block_on(poll_immediate(&mut dropped)).is_none());
        drop(dropped);
        assert_eq!(
            block_on(guest.call_async(&sums, 11)).expect("it returns"),
            sum(11)
        );

        let mut linker = Linker::<(), i32, i32>::asking();
        linker
            .func_ask(
                "h",
                "next",
                |_, (n,): (i32,)| Ok(n),
                |_, _: (i32,), answer| answer,
            )
            .expect("the name is free");
        let prepared = region.prepare(&module, &linker).expect("it is linked");
        let sums = prepared.func::<i32, i64>("sums").expect("it is exported");
        let mut guest = prepared.try_instantiate(()).expect("a slot is free");
        let mut step = guest.start(&sums, 300).expect("it asks");
        let result = loop {
            match step {
                Step::Asked(n) => {
                    step = guest.resume_with(&sums, 2 * n).expect("the guest resumes");
                }
                Step::Returned(result) => break result,
                _ => unreachable!("it has no slice of time"),
            }
        };
        assert_eq!(result, sum(300));
    }
}

/// Fuel must run out after the same number of operators at every level, also with handlers.
#[test]
fn fuel_with_exceptions_is_equal_at_every_level() {
    let text = BUSY.replace(
        "(import \"h\" \"next\" (func $next (param i32) (result i32)))",
        "",
    );
    let next = "(func $next (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2))) (func (export \"sums\")";
    let text = text.replace("(func (export \"sums\")", next);
    let region = Region::builder().slots(1).build().expect("a region");
    let mut used = vec![];
    for options in levels() {
        let module = common::counting(&text, options.opt_level);
        let prepared = region
            .prepare(&module, &Linker::<()>::new())
            .expect("it is linked");
        let mut ends = vec![];
        for fuel in (0..700).chain([1_000_000]) {
            let prepared = prepared.start_fuel(fuel).expect("it counts");
            let mut guest = prepared.try_instantiate(()).expect("the slot is free");
            let result = guest.call_values("sums", &[Value::I32(10)]);
            let returned = result.is_ok();
            match result {
                Ok(values) => assert_eq!(values, [Value::I64(sum(10))]),
                trap => trapped(trap, TrapCode::OutOfFuel),
            }
            ends.push((returned, guest.fuel()));
        }
        used.push(ends);
    }
    assert!(used[0].last().is_some_and(|(ok, _)| *ok));
    assert!(used[0] == used[1] && used[0] == used[2]);
}

#[test]
fn large_exceptions_are_caught_with_and_without_the_code_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        r#"(module
          (type $all (func (param {0})))
          (tag $t (type $all))
          (func $throw (param i64) (throw $t {1}))
          (func (export "run") (param $n i64) (result i64) (local $sum i64)
            (loop $l
              (block $c (result {0})
                (try_table (catch $t $c) (call $throw (local.get $n)))
                (unreachable))
              {2}
              (local.set $sum (i64.add (local.get $sum)))
              (br_if $l (i64.ne (local.tee $n (i64.sub (local.get $n) (i64.const 1))) (i64.const 0))))
            (local.get $sum)))"#,
        "i64 ".repeat(1000),
        "(local.get 0) ".repeat(1000),
        "(i64.add) ".repeat(999),
    );
    for mut options in levels() {
        for round in 0..3 {
            if round > 0 {
                options.cache = Some(Arc::new(Cache::open(folder.path()).expect("a cache")));
            }
            let mut guest = instance(&text, &options);
            let sum = guest
                .call_values("run", &[Value::I64(1000)])
                .expect("it returns");
            assert_eq!(sum, [Value::I64(1000 * 500_500)], "{round}");
        }
    }
}

/// Legacy operators: clauses inside clauses, rethrow, and delegate.
#[test]
fn legacy_clauses_catch_only_their_own_tags() {
    const TEXT: &str = r#"(module
      (tag $a (param i32))
      (tag $b (param i32))
      (func $throws (param $which i32)
        (if (i32.eq (local.get $which) (i32.const 1)) (then (throw $a (i32.const 10))))
        (if (i32.eq (local.get $which) (i32.const 2)) (then (throw $b (i32.const 20)))))
      (func (export "in_clauses") (param $n i32) (param $m i32) (result i32)
          try (result i32) try (result i32) (call $throws (local.get $n)) (i32.const 1)
          catch $a (drop) try (result i32) (call $throws (local.get $m)) (i32.const 2)
          catch $b (drop) (rethrow 1) end
          catch $b (call $throws (local.get $m)) end
          catch $a (i32.add (i32.const 100))
          catch_all (i32.const 7) end)
      (func (export "delegates") (param $n i32) (result i32)
          try $outer (result i32) try $inner (result i32) try (call $throws (local.get $n))
          delegate $outer (i32.const 3)
          catch_all (i32.const -1) end
          catch $a
          catch $b (i32.add (i32.const 1)) end)
      (func (export "delegates_out") (param $n i32) (result i32)
          try (result i32) try (result i32) (call $throws (local.get $n)) (i32.const 4)
          delegate 1
          catch_all (i32.const -1) end)
      (func (export "all_again") (param $n i32) (result i32)
          try (result i32) try (call $throws (local.get $n))
          catch_all try (throw $b (i32.const 5))
          catch_all end (rethrow 0) end (i32.const 6)
          catch $a
          catch $b end))"#;
    for options in levels() {
        let mut guest = instance(TEXT, &options);
        let mut call = |name: &str, params: &[i32]| {
            let params: Vec<_> = params.iter().copied().map(Value::I32).collect();
            guest.call_values(name, &params)
        };
        // Rows: no exception; `$a` thrown in the inner body, and then nothing, `$a` or `$b` thrown
        // in its clause; `$b` thrown in the inner body, with the same three.
        let clauses = [
            (0, 0, 1),
            (1, 0, 2),
            (1, 1, 110),
            (1, 2, 110),
            (2, 0, 20),
            (2, 1, 110),
            (2, 2, 7),
        ];
        for (n, m, found) in clauses {
            assert_eq!(number(call("in_clauses", &[n, m])), found, "{n} {m}");
        }
        for (n, found) in [(0, 3), (1, 10), (2, 21)] {
            assert_eq!(number(call("delegates", &[n])), found, "{n}");
        }
        assert_eq!(number(call("delegates_out", &[0])), 4);
        assert!(matches!(
            call("delegates_out", &[1]),
            Err(CallError::Exception(_))
        ));
        for (n, found) in [(0, 6), (1, 10), (2, 20)] {
            assert_eq!(number(call("all_again", &[n])), found, "{n}");
        }
    }
}

/// The test changes the handler of a call in a file, and makes the hash match. The runtime must
/// refuse the file unless the handler is in the same function.
#[test]
fn handlers_of_another_function_are_refused() {
    const TEXT: &str = r#"(module (tag $t)
      (func $f (throw $t))
      (func (export "a") (block $c (try_table (catch $t $c) (call $f))))
      (func (export "b") (block $c (try_table (catch $t $c) (call $f)))))"#;
    let file = File::new(TEXT);
    let bytes = file.section(Section::Handlers);
    let [a, b] = [0, HandlerEntry::BYTES].map(|at| bytes.start + at);
    assert_eq!(bytes.len(), 2 * HandlerEntry::BYTES);
    let word =
        |at: usize| u32::from_le_bytes(file.bytes[at..][..4].try_into().expect("four bytes"));
    let text_bytes = file.checked.header.section(Section::Text).len as u32;
    for (at, value) in [
        (a + 4, word(b + 4)),
        (a + 4, text_bytes),
        (a + 4, u32::MAX),
        (b, text_bytes + 1),
        (b, word(a)),
        (a, 0),
    ] {
        let error = file.open(&[(at, &value.to_le_bytes())]);
        let error = error.expect_err("it is damaged");
        let parts = ["are caught at", "not ascending"];
        assert!(parts.iter().any(|part| error.contains(part)), "{error}");
    }
}
