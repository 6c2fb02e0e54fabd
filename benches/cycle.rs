//! The whole life of an instance: instantiate, one call, teardown, always in the most recently used
//! slot.

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, hello, instance, phase, prepared, sink};
use pirn_runtime::{Measure, Prepared, Reset, TypedFunc};

/// Times the cycle of a guest without arguments. Not inlined, so that all variants run the same
/// code.
#[inline(never)]
fn call(b: &mut Bencher<'_>, prepared: &Prepared<()>, run: &TypedFunc<(), ()>) {
    b.iter(|| instance(prepared).call(run, ()).expect("it returns"));
}

fn cycle(c: &mut Criterion) {
    let mut group = c.benchmark_group("cycle");
    let (null_module, touch_module) = (guest("null.wat"), guest("touch.wat"));
    for reset in Reset::ALL {
        let null = prepared(&null_module, reset);
        let run = null.func::<(), ()>("run").expect("it is exported");
        group.bench_function(format!("null, {reset}"), |b| {
            call(b, &null, &run);
        });
        // The cost of measuring an instance's resources, except for its times.
        let counted = null.measured(Measure::Counters);
        group.bench_function(format!("null, counted, {reset}"), |b| {
            call(b, &counted, &run);
        });
        let touch = prepared(&touch_module, reset);
        let func = touch.func::<u32, u32>("touch").expect("it is exported");
        for pages in [8, 64, 1024] {
            group.bench_function(format!("{pages} pages written, {reset}"), |b| {
                b.iter(|| instance(&touch).call(&func, pages).expect("it returns"));
            });
        }
        let hello = hello(reset);
        let start = hello.func::<(), ()>("_start").expect("it is exported");
        group.bench_function(format!("hello, {reset}"), |b| {
            b.iter_custom(|count| {
                phase(count, sink, |wasi| {
                    let mut instance = hello.try_instantiate(wasi).expect("a slot is free");
                    instance.call(&start, ()).expect("it returns");
                    instance.into_data()
                })
            });
        });
        // Like a request: with its own WASI context.
        group.bench_function(format!("hello and its context, {reset}"), |b| {
            b.iter(|| {
                let mut instance = hello.try_instantiate(sink()).expect("a slot is free");
                instance.call(&start, ()).expect("it returns");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, cycle);
criterion_main!(benches);
