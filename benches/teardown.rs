//! Teardown: the drop of an instance, after which its slot serves another.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{RESETS, guest, hello, instance, phase, prepared, sink};

fn teardown(c: &mut Criterion) {
    let mut group = c.benchmark_group("teardown");
    let (null_module, touch_module) = (guest("null.wat"), guest("touch.wat"));
    for reset in RESETS {
        let null = prepared(&null_module, reset);
        group.bench_function(format!("null, {reset}"), |b| {
            b.iter_custom(|count| phase(count, || instance(&null), drop));
        });
        let touch = prepared(&touch_module, reset);
        let func = touch.func::<u32, u32>("touch").expect("it is exported");
        for pages in [0, 8, 64, 1024] {
            let used = || {
                let mut instance = instance(&touch);
                instance.call(&func, pages).expect("it returns");
                instance
            };
            group.bench_function(format!("{pages} pages written, {reset}"), |b| {
                b.iter_custom(|count| phase(count, used, drop));
            });
        }
        let hello = hello(reset);
        let start = hello.func::<(), ()>("_start").expect("it is exported");
        let used = || {
            let mut instance = hello.try_instantiate(sink()).expect("a slot is free");
            instance.call(&start, ()).expect("it returns");
            instance
        };
        group.bench_function(format!("hello, {reset}"), |b| {
            b.iter_custom(|count| phase(count, used, drop));
        });
    }
    group.finish();
}

criterion_group!(benches, teardown);
criterion_main!(benches);
