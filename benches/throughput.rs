//! Throughput: cycles by several threads over one region, and a loop that only computes, which says
//! what the processors give. The time is that of one cycle of each thread.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, instance, prepared};
use pirn_runtime::Reset;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Time until each of so many threads has done its work, all starting at once.
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

fn throughput(c: &mut Criterion) {
    let mut group = c.benchmark_group("throughput");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let null = prepared(&guest("null.wat"), Reset::Auto);
    let run = null.func::<(), ()>("run").expect("it is exported");
    let touch = prepared(&guest("touch.wat"), Reset::Auto);
    let func = touch.func::<u32, u32>("touch").expect("it is exported");
    for threads in [1, processors] {
        group.bench_function(format!("computing, {threads} threads"), |b| {
            b.iter_custom(|count| {
                together(threads, || {
                    (0..count * 100).fold(0_u64, |sum, n| black_box(sum ^ n));
                })
            });
        });
        group.bench_function(format!("null, {threads} threads"), |b| {
            b.iter_custom(|count| {
                together(threads, || {
                    for _ in 0..count {
                        instance(&null).call(&run, ()).expect("it returns");
                    }
                })
            });
        });
        for pages in [4, 64] {
            group.bench_function(format!("{pages} pages written, {threads} threads"), |b| {
                b.iter_custom(|count| {
                    together(threads, || {
                        for _ in 0..count {
                            instance(&touch).call(&func, pages).expect("it returns");
                        }
                    })
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, throughput);
criterion_main!(benches);
