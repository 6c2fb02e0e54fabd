//! The stack switch: into an empty guest function and back, compared with corosensei, which
//! switches to a coroutine and back. pirn also announces the guest to the signal handler, and
//! checks the function.

use corosensei::{Coroutine, CoroutineResult};
use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, instance, prepared};
use pirn_runtime::Reset;
use std::hint::black_box;

fn switch(c: &mut Criterion) {
    let mut group = c.benchmark_group("context");
    let null = prepared(&guest("null.wat"), Reset::Auto);
    let run = null.func::<(), ()>("run").expect("it is exported");
    let mut guest = instance(&null);
    group.bench_function("into a guest and back", |b| {
        b.iter(|| guest.call(&run, ()).expect("it returns"));
    });
    let mut coroutine = Coroutine::new(|yielder, mut input: u32| -> u32 {
        loop {
            input = yielder.suspend(input);
        }
    });
    group.bench_function("corosensei, into a coroutine and back", |b| {
        b.iter(|| match coroutine.resume(black_box(1)) {
            CoroutineResult::Yield(value) | CoroutineResult::Return(value) => value,
        });
    });
    // The coroutine never ends, and dropping it would unwind it.
    std::mem::forget(coroutine);
    group.finish();
}

criterion_group!(benches, switch);
criterion_main!(benches);
