//! Exceptions: a guest throws and catches a hundred times in each call. The guest without a throw
//! shows the cost of a `try_table` by itself.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pirn_benches::{instance, prepared, text};
use pirn_runtime::Reset;

/// Number of throws in a call.
const TIMES: u64 = 100;

/// Number of frames between the throw and the catch, in functions with several frames.
const DEPTH: u32 = 10;

/// A guest whose functions call `$deep` [`TIMES`] times, with or without a `try_table`.
fn guest() -> String {
    let repeated = |name: &str, once: &str| {
        format!(
            "(func (export \"{name}\") (param $throws i32) (local $n i32)
               (loop $again {once}
                 (br_if $again (i32.lt_u
                   (local.tee $n (i32.add (local.get $n) (i32.const 1)))
                   (i32.const {TIMES})))))"
        )
    };
    let call = |depth: u32, passes: u32| {
        format!("(call $deep (local.get $throws) (i32.const {depth}) (i32.const {passes}))")
    };
    let caught = |call: &str| {
        format!("(block $c (result i32) (try_table (catch $t $c) {call}) (i32.const 0)) (drop)")
    };
    let kept = format!(
        "(block $c (result i32 exnref) (try_table (catch_ref $t $c) {}) (i32.const 0) (ref.null exn))
         (drop) (drop)",
        call(0, 0)
    );
    format!(
        "(module (tag $t (param i32)) (tag $u)
           (func $deep (param $throws i32) (param $depth i32) (param $passes i32)
             (if (local.get $depth)
               (then
                 (if (local.get $passes)
                   (then (block $u (try_table (catch $u $u)
                     (call $deep (local.get $throws)
                       (i32.sub (local.get $depth) (i32.const 1)) (i32.const 1)))))
                   (else (call $deep (local.get $throws)
                     (i32.sub (local.get $depth) (i32.const 1)) (i32.const 0))))
                 (return)))
             (if (local.get $throws) (then (throw $t (i32.const 7)))))
           {} {} {} {} {})",
        repeated("plain", &call(0, 0)),
        repeated("caught", &caught(&call(0, 0))),
        repeated("deep", &caught(&call(DEPTH, 0))),
        repeated("passed", &caught(&call(DEPTH, 1))),
        repeated("kept", &kept),
    )
}

fn throw(c: &mut Criterion) {
    let mut group = c.benchmark_group("throw");
    group.throughput(Throughput::Elements(TIMES));
    let prepared = prepared(&text(&guest()), Reset::Auto);
    let mut instance = instance(&prepared);
    for (name, throws, what) in [
        ("plain", 0, "no throw, no body that catches"),
        ("caught", 0, "no throw, in a body that catches"),
        ("caught", 1, "caught by the caller"),
        ("deep", 1, "caught ten frames up"),
        (
            "passed",
            1,
            "caught ten frames up, each of which catches something else",
        ),
        ("kept", 1, "caught by the caller, by reference"),
    ] {
        let func = prepared.func::<i32, ()>(name).expect("it is exported");
        group.bench_function(what, |b| {
            b.iter(|| instance.call(&func, throws).expect("it returns"));
        });
    }
    group.finish();
}

criterion_group!(benches, throw);
criterion_main!(benches);
