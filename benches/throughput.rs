//! Throughput: cycles on several threads over one region. For comparison, a loop that only computes
//! shows how much the processors scale with the number of threads. Each case also runs with such
//! loops in the background. The time is that of one cycle on each thread. The groups `par_...` have
//! the names of Lucet's graphs.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, instance, prepared};
use pirn_runtime::Reset;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time until each of `threads` threads has finished its work. All start at the same time.
fn together(threads: usize, work: impl Fn() + Sync) -> Duration {
    let (start, work) = (Barrier::new(threads + 1), &work);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                work();
            });
        }
        start.wait();
        Instant::now()
    })
    .elapsed()
}

/// Computes for about 35 ns.
fn compute() {
    black_box((0..100).fold(0_u64, |sum, n| black_box(sum ^ n)));
}

fn threads() -> Vec<usize> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = vec![1, 2, processors];
    all.sort_unstable();
    all.dedup();
    all
}

fn throughput(c: &mut Criterion) {
    let mut bench = |name: &str, work: &(dyn Fn() + Sync)| {
        let mut group = c.benchmark_group(name);
        for threads in threads() {
            group.bench_function(BenchmarkId::new("threads", threads), |b| {
                b.iter_custom(|count| together(threads, || (0..count).for_each(|_| work())));
            });
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in threads() {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        compute();
                    }
                });
            }
            group.bench_function("1 thread, all processors busy", |b| {
                b.iter_custom(|count| together(1, || (0..count).for_each(|_| work())));
            });
            stop.store(true, Ordering::Relaxed);
        });
        group.finish();
    };
    bench("computing", &compute);

    let null = prepared(&guest("null.wat"), Reset::Auto);
    bench("par_instantiate", &|| drop(instance(&null)));
    let run = null.func::<(), ()>("run").expect("it is exported");
    bench("par_run_null", &|| {
        instance(&null).call(&run, ()).expect("it returns");
    });
    let fib = prepared(&guest("fib.wasm"), Reset::Auto);
    let func = fib.func::<i32, i32>("fib").expect("it is exported");
    bench("par_run_fib", &|| {
        instance(&fib).call(&func, 10).expect("it returns");
    });
    let touch = prepared(&guest("touch.wat"), Reset::Auto);
    let func = touch.func::<u32, u32>("touch").expect("it is exported");
    for pages in [4, 64] {
        bench(&format!("par_write_{pages}_pages"), &|| {
            instance(&touch).call(&func, pages).expect("it returns");
        });
    }
}

criterion_group!(benches, throughput);
criterion_main!(benches);
