//! Traps of each kind, from the call until the error with its backtrace.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, instance, prepared};
use pirn_runtime::Reset;

fn trap(c: &mut Criterion) {
    let mut group = c.benchmark_group("trap");
    let prepared = prepared(&guest("traps.wat"), Reset::Auto);
    let mut instance = instance(&prepared);
    for name in [
        "unreachable",
        "divide_by_zero",
        "load_out_of_bounds",
        "call_null",
        "stack_overflow",
    ] {
        let func = prepared.func::<(), ()>(name).expect("it is exported");
        group.bench_function(name, |b| {
            b.iter(|| instance.call(&func, ()).expect_err("it traps"));
        });
    }
    group.finish();
}

criterion_group!(benches, trap);
criterion_main!(benches);
