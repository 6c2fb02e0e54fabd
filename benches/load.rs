//! Opening a module that is not open yet, which checks and maps the file; and building a region.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{compiled, file};
use pirn_runtime::{Module, Region};

fn load(c: &mut Criterion) {
    let mut group = c.benchmark_group("load");
    for guest in ["null.wat", "hello.wasm", "tour-rust.wasm"] {
        let path = file(&compiled(guest));
        group.bench_function(guest, |b| b.iter(|| Module::open(&path).expect("it opens")));
    }
    group.finish();
}

fn region(c: &mut Criterion) {
    let mut group = c.benchmark_group("region");
    for slots in [1, 1_000, 10_000] {
        let make = || {
            Region::builder()
                .slots(slots)
                .build()
                .expect("address space")
        };
        group.bench_function(format!("{slots} slots"), |b| b.iter(make));
    }
    group.finish();
}

criterion_group!(benches, load, region);
criterion_main!(benches);
