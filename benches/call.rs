//! Calls of one instance from the host, with different parameters and functions.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, instance, prepared, text};
use pirn_runtime::Reset;
use std::hint::black_box;

type Twelve = (i32, i64, f32, f64, i32, i64, f32, f64, i32, i64, f32, f64);

const TWELVE: &str = "(module (func (export \"sum\")
  (param i32 i64 f32 f64 i32 i64 f32 f64 i32 i64 f32 f64) (result i64)
  (i64.add (i64.extend_i32_s (i32.add (local.get 0) (i32.add (local.get 4) (local.get 8))))
    (i64.add (local.get 1) (i64.add (local.get 5) (local.get 9))))))";

fn call(c: &mut Criterion) {
    let mut group = c.benchmark_group("call");
    let null = prepared(&guest("null.wat"), Reset::Auto);
    let run = null.func::<(), ()>("run").expect("it is exported");
    let mut guest_null = instance(&null);
    group.bench_function("null", |b| {
        b.iter(|| guest_null.call(&run, ()).expect("it returns"));
    });

    let add = prepared(&guest("add.wat"), Reset::Auto);
    let func = add.func::<(i32, i32), i32>("add").expect("it is exported");
    let mut guest_add = instance(&add);
    group.bench_function("add", |b| {
        b.iter(|| {
            guest_add
                .call(&func, black_box((2, 3)))
                .expect("it returns")
        });
    });

    let twelve = prepared(&text(TWELVE), Reset::Auto);
    let func = twelve.func::<Twelve, i64>("sum").expect("it is exported");
    let mut guest_twelve = instance(&twelve);
    let values: Twelve = (1, 2, 3., 4., 5, 6, 7., 8., 9, 10, 11., 12.);
    group.bench_function("12 parameters", |b| {
        b.iter(|| {
            guest_twelve
                .call(&func, black_box(values))
                .expect("it returns")
        });
    });

    let fib = prepared(&guest("fib.wasm"), Reset::Auto);
    let func = fib.func::<i32, i32>("fib").expect("it is exported");
    let mut guest_fib = instance(&fib);
    group.bench_function("fib of 20", |b| {
        b.iter(|| guest_fib.call(&func, black_box(20)).expect("it returns"));
    });
    group.finish();
}

criterion_group!(benches, call);
criterion_main!(benches);
