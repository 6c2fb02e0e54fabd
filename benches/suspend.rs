//! Suspending and resuming guests: questions, async host functions, time slices.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::executor::block_on;
use pirn_benches::{guest, instance, prepared, region, text};
use pirn_runtime::{Linker, Reset, Step};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Number of host calls in one call.
const CALLS: u32 = 1000;

/// A future that is pending once and wakes no task.
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Host calls that suspend the guest. The time is that of all host calls of one call.
fn hostcalls(c: &mut Criterion) {
    let mut group = c.benchmark_group("suspend");
    group.throughput(Throughput::Elements(u64::from(CALLS)));
    let module = guest("hostcalls.wat");

    let mut asking = Linker::<(), u32, u32>::asking();
    asking
        .func_ask("host", "f", |_, n: u32| Ok(n), |_, _: u32, n: u32| n)
        .expect("the name is free");
    let prepared = region(Reset::Auto)
        .prepare(&module, &asking)
        .expect("it links");
    let calls = prepared.func::<u32, u32>("calls").expect("it is exported");
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    group.bench_function("a question and its answer", |b| {
        b.iter(|| {
            let mut step = instance.start(&calls, CALLS).expect("it asks");
            while let Step::Asked(n) = step {
                step = instance.resume_with(&calls, n).expect("it goes on");
            }
            step
        });
    });

    let mut pending = Linker::<()>::new();
    pending
        .func_async("host", "f", |_, n: u32| {
            Box::pin(async move {
                Once(false).await;
                n
            })
        })
        .expect("the name is free");
    let prepared = region(Reset::Auto)
        .prepare(&module, &pending)
        .expect("it links");
    let calls = prepared.func::<u32, u32>("calls").expect("it is exported");
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    let mut polls = |context: &mut Context<'_>| {
        let mut call = pin!(instance.call_async(&calls, CALLS));
        loop {
            if let Poll::Ready(result) = call.as_mut().poll(context) {
                break result.expect("it returns");
            }
        }
    };
    group.bench_function("an async host function that is pending once", |b| {
        b.iter(|| polls(&mut Context::from_waker(Waker::noop())));
    });

    let mut ready = Linker::<()>::new();
    ready
        .func_async("host", "f", |_, n: u32| Box::pin(std::future::ready(n)))
        .expect("the name is free");
    let prepared = region(Reset::Auto)
        .prepare(&module, &ready)
        .expect("it links");
    let calls = prepared.func::<u32, u32>("calls").expect("it is exported");
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    group.bench_function("an async host function that is ready", |b| {
        b.iter(|| block_on(instance.call_async(&calls, CALLS)).expect("it returns"));
    });
    group.finish();
}

/// Calls that could be suspended but are not.
fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("suspend");
    let null = prepared(&guest("null.wat"), Reset::Auto);
    let run = null.func::<(), ()>("run").expect("it is exported");
    let mut guest = instance(&null);
    group.bench_function("start of null", |b| {
        b.iter(|| guest.start(&run, ()).expect("it returns"));
    });
    group.bench_function("async call of null", |b| {
        let mut context = Context::from_waker(Waker::noop());
        b.iter(|| {
            pin!(guest.call_async(&run, ()))
                .poll(&mut context)
                .is_ready()
        });
    });
    group.bench_function("cycle of null by an async call", |b| {
        let mut context = Context::from_waker(Waker::noop());
        b.iter_batched(
            || (),
            |()| {
                let mut guest = instance(&null);
                pin!(guest.call_async(&run, ()))
                    .poll(&mut context)
                    .is_ready()
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// A loop that is preempted and resumed. Measures the time outside the guest.
fn slices(c: &mut Criterion) {
    let mut group = c.benchmark_group("suspend");
    let endless = prepared(
        &text("(module (func (export \"run\") (loop $l (br $l))))"),
        Reset::Auto,
    );
    let run = endless.func::<(), ()>("run").expect("it is exported");
    let mut guest = instance(&endless);
    let slice = Duration::from_millis(1);
    group.bench_function("a loop past its slice of time", |b| {
        b.iter_custom(|rounds| {
            guest.cancel();
            let mut step = guest
                .timeslice(slice)
                .start(&run, ())
                .expect("it is preempted");
            let start = Instant::now();
            for _ in 0..rounds {
                assert_eq!(step, Step::Preempted);
                step = guest
                    .timeslice(slice)
                    .resume(&run)
                    .expect("it is preempted");
            }
            let slices = slice * u32::try_from(rounds).expect("few rounds");
            start.elapsed().saturating_sub(slices)
        });
    });
    group.finish();
}

criterion_group!(benches, hostcalls, calls, slices);
criterion_main!(benches);
