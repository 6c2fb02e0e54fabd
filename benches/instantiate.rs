//! Instantiation: from a prepared module to a callable instance, in a slot that is warm for the
//! module.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, hello, phase, prepared, sink};
use pirn_runtime::Reset;

fn instantiate(c: &mut Criterion) {
    let mut group = c.benchmark_group("instantiate");
    for reset in Reset::ALL {
        let null = prepared(&guest("null.wat"), reset);
        group.bench_function(format!("null, {reset}"), |b| {
            b.iter_custom(|count| phase(count, || (), |()| null.try_instantiate(())));
        });
        let hello = hello(reset);
        group.bench_function(format!("hello, {reset}"), |b| {
            b.iter_custom(|count| phase(count, sink, |wasi| hello.try_instantiate(wasi)));
        });
    }
    group.finish();
}

criterion_group!(benches, instantiate);
criterion_main!(benches);
