//! Host calls: a guest calls a host function a thousand times. The time is that of all calls.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pirn_benches::{guest, region};
use pirn_runtime::{Caller, Linker, Reset};

const CALLS: u32 = 1000;

fn hostcall(c: &mut Criterion) {
    let mut group = c.benchmark_group("hostcall");
    group.throughput(Throughput::Elements(u64::from(CALLS)));
    let module = guest("hostcalls.wat");
    let mut bench = |name: &str, linker: &Linker<u32>| {
        let prepared = region(Reset::Auto)
            .prepare(&module, linker)
            .expect("it links");
        let calls = prepared.func::<u32, u32>("calls").expect("it is exported");
        let mut instance = prepared.try_instantiate(0).expect("a slot is free");
        group.bench_function(name, |b| {
            b.iter(|| instance.call(&calls, CALLS).expect("it returns"));
        });
    };
    let mut plain = Linker::new();
    plain
        .func("host", "f", |n: u32| n)
        .expect("the name is free");
    bench("a number", &plain);
    let mut memory = Linker::new();
    let read = |mut caller: Caller<'_, u32>, n: u32| {
        *caller.data_mut() += n;
        caller.memory().read_u32(n)
    };
    memory.func("host", "f", read).expect("the name is free");
    bench("memory and data", &memory);
    group.finish();
}

criterion_group!(benches, hostcall);
criterion_main!(benches);
