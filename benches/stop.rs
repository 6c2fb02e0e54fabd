//! Stopping guests: what it costs a call that it could be stopped, and how long a loop goes on after it was
//! told to end.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, instance, prepared, text};
use pirn_runtime::Reset;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const FOREVER: &str = "(module (func (export \"run\") (loop $l (br $l))))";
/// Reached by no call that returns.
const LONG: Duration = Duration::from_secs(3600);

fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("stop");
    let null = prepared(&guest("null.wat"), Reset::Auto);
    let run = null.func::<(), ()>("run").expect("it is exported");
    let mut guest = instance(&null);
    group.bench_function("call, not watched", |b| {
        b.iter(|| guest.call(&run, ()).expect("it returns"));
    });
    group.bench_function("call with a deadline", |b| {
        b.iter(|| guest.deadline(LONG).call(&run, ()).expect("in time"));
    });
    group.bench_function("call with a budget", |b| {
        b.iter(|| guest.cpu_budget(LONG).call(&run, ()).expect("in time"));
    });
    let _switch = guest.kill_switch();
    group.bench_function("call with a kill switch", |b| {
        b.iter(|| guest.call(&run, ()).expect("it returns"));
    });
    group.bench_function("cycle with a deadline", |b| {
        b.iter(|| {
            let mut guest = instance(&null);
            guest.deadline(LONG).call(&run, ()).expect("in time");
        });
    });
    group.finish();
}

/// From the moment that somebody tells a looping guest to end until its thread says that it has.
fn loops(c: &mut Criterion) {
    let mut group = c.benchmark_group("stop");
    let endless = prepared(&text(FOREVER), Reset::Auto);
    let run = endless.func::<(), ()>("run").expect("it is exported");
    group.bench_function("kill of a loop", |b| {
        b.iter_custom(|rounds| {
            let mut total = Duration::ZERO;
            for _ in 0..rounds {
                let mut guest = instance(&endless);
                let switch = guest.kill_switch();
                let (say, ended) = mpsc::channel();
                let running = thread::spawn(move || {
                    guest.call(&run, ()).expect_err("it is killed");
                    // Nobody listens if the bench was given up.
                    let _ = say.send(Instant::now());
                });
                while !switch.is_running() {
                    std::hint::spin_loop();
                }
                let start = Instant::now();
                switch.kill().expect("it runs");
                total += ended.recv().expect("it ends") - start;
                running.join().expect("no panic");
            }
            total
        });
    });
    let mut guest = instance(&endless);
    let limit = Duration::from_millis(1);
    group.bench_function("a loop past its deadline", |b| {
        b.iter_custom(|rounds| {
            let mut total = Duration::ZERO;
            for _ in 0..rounds {
                let start = Instant::now();
                guest
                    .deadline(limit)
                    .call(&run, ())
                    .expect_err("it is late");
                total += start.elapsed().saturating_sub(limit);
            }
            total
        });
    });
    group.finish();
}

criterion_group!(benches, calls, loops);
criterion_main!(benches);
