//! Stopping guests. Measures the cost for a call that can be stopped, and the delay between a
//! request to stop and the end of a loop or a builtin.
//!
//! For each builtin, the longest delay of [`KILLS`] kills is printed too: the runtime promises a
//! bound, not a mean.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, instance, prepared, text};
use pirn_runtime::{Linker, Prepared, Region, Reset, TypedFunc};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const FOREVER: &str = "(module (func (export \"run\") (loop $l (br $l))))";
/// Longer than any call that returns.
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

/// Time from the kill of a looping guest until its thread reports the end.
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
                    // The receiver is gone if the bench was aborted.
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

/// Kills of each builtin, spread over its running time.
const KILLS: u32 = 40;

/// Pages of memory 0: 1 GiB. `ELEMENTS` is the maximum number of table elements.
const PAGES: u64 = 16_384;
const ELEMENTS: u32 = 10_000_000;

/// Each builtin that can run long, at its largest size: its name and the operators. The guest
/// repeats the operators, except those in [`MAKERS`].
const BUILTINS: &[(&str, &str)] = &[
    ("a loop, for comparison", ""),
    (
        "memory.fill",
        "(memory.fill (i32.const 0) (i32.const 7) (i32.const 0x40000000))",
    ),
    (
        "memory.copy",
        "(memory.copy (i32.const 0) (i32.const 0x20000000) (i32.const 0x20000000))",
    ),
    (
        "memory.copy, overlapping",
        "(memory.copy (i32.const 1) (i32.const 0) (i32.const 0x3fffffff))",
    ),
    (
        "memory.init",
        "(memory.init $d (i32.const 0) (i32.const 0) (i32.const 0x1000000))",
    ),
    (
        "memory.grow",
        "(drop (memory.grow $small (i32.const 16380)))",
    ),
    (
        "memory.atomic.wait32",
        "(drop (memory.atomic.wait32 $shared (i32.const 0) (i32.const 0) (i64.const -1)))",
    ),
    (
        "table.fill",
        "(table.fill $t (i32.const 0) (ref.func $f) (i32.const 5000000))",
    ),
    (
        "table.copy",
        "(table.copy $t $t (i32.const 1) (i32.const 0) (i32.const 4999999))",
    ),
    (
        "table.init",
        "(table.init $t $e (i32.const 0) (i32.const 0) (i32.const 100000))",
    ),
    (
        "table.grow",
        "(drop (table.grow $t (ref.func $f) (i32.const 5000000)))",
    ),
    (
        "array.new_default",
        "(drop (array.new_default $bytes (i32.const 0x3f000000)))",
    ),
    (
        "array.new",
        "(drop (array.new $bytes (i32.const 7) (i32.const 0x3f000000)))",
    ),
    (
        "array.new_data",
        "(drop (array.new_data $bytes $d (i32.const 0) (i32.const 0x1000000)))",
    ),
    (
        "array.new_elem",
        "(drop (array.new_elem $refs $e (i32.const 0) (i32.const 100000)))",
    ),
    (
        "array.fill",
        "(array.fill $bytes (call $made) (i32.const 0) (i32.const 7) (i32.const 0x3f000000))",
    ),
    (
        "array.copy",
        "(array.copy $bytes $bytes (call $made) (i32.const 1) (call $made) (i32.const 0) (i32.const 0x3effffff))",
    ),
    (
        "array.init_data",
        "(array.init_data $bytes $d (call $made) (i32.const 0) (i32.const 0) (i32.const 0x1000000))",
    ),
    (
        "array.init_elem",
        "(array.init_elem $refs $e (call $listed) (i32.const 0) (i32.const 0) (i32.const 100000))",
    ),
    (
        "throw past 10,000 frames",
        "(block $caught (try_table (catch_all $caught) (call $deep (i32.const 10000))))",
    ),
    (
        "throw_ref past 10,000 frames",
        "(block $caught (result exnref)
          (try_table (catch_all_ref $caught) (call $deep (i32.const 10000))) (ref.null exn))
        (drop)",
    ),
    (
        "exceptions that are looked for in 60 MiB of arrays",
        "(drop (call $holding))
        (drop (block $caught (result exnref)
          (try_table (catch_all_ref $caught) (throw $tag)) (ref.null exn)))",
    ),
];

/// Operators that grow something or use up the heap: the guest executes them once, before an empty
/// loop.
const MAKERS: [&str; 3] = ["(memory.grow", "(table.grow", "(array.new"];

/// A guest that executes the operators and never ends.
fn builtin(operators: &str) -> String {
    let run = match MAKERS.iter().any(|maker| operators.contains(maker)) {
        true => format!("{operators} (loop $l (br $l))"),
        false => format!("(loop $l {operators} (br $l))"),
    };
    let data = "x".repeat(0x100_0000);
    let elements = "$f ".repeat(100_000);
    format!(
        r#"(module
          (type $bytes (array (mut i8)))
          (type $refs (array (mut funcref)))
          (type $exceptions (array (mut exnref)))
          (memory {PAGES} {PAGES})
          (memory $small 1 {PAGES})
          (memory $shared 1 1 shared)
          (table $t 5000000 {ELEMENTS} funcref)
          (tag $tag)
          (global $made (mut (ref null $bytes)) (ref.null $bytes))
          (global $listed (mut (ref null $refs)) (ref.null $refs))
          (global $holding (mut (ref null $exceptions)) (ref.null $exceptions))
          (data $d "{data}")
          (elem $e func {elements})
          (func $f)
          (func $made (result (ref null $bytes))
            (if (ref.is_null (global.get $made))
              (then (global.set $made (array.new_default $bytes (i32.const 0x3f000000)))))
            (global.get $made))
          (func $listed (result (ref null $refs))
            (if (ref.is_null (global.get $listed))
              (then (global.set $listed (array.new_default $refs (i32.const 100000)))))
            (global.get $listed))
          (func $holding (result (ref null $exceptions))
            (if (ref.is_null (global.get $holding))
              (then (global.set $holding
                (array.new_default $exceptions (i32.const 7864320)))))
            (global.get $holding))
          (func $deep (param i32)
            (if (i32.eqz (local.get 0)) (then (throw $tag)))
            (call $deep (i32.sub (local.get 0) (i32.const 1))))
          (func (export "once") {operators})
          (func (export "run") {run}))"#
    )
}

/// Time from the kill of a guest that has run for `delay`, usually in a builtin, until its thread
/// reports the end.
fn killed(prepared: &Prepared<()>, run: &TypedFunc<(), ()>, delay: Duration) -> Duration {
    let mut guest = prepared.instantiate(()).expect("the slot is free");
    let switch = guest.kill_switch();
    let (say, ended) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            guest.call(run, ()).expect_err("it is killed");
            // The receiver is gone if the bench was aborted.
            let _ = say.send(Instant::now());
        });
        while !switch.is_running() {
            std::hint::spin_loop();
        }
        thread::sleep(delay);
        let start = Instant::now();
        switch.kill().expect("it runs");
        ended.recv().expect("it ends") - start
    })
}

/// Prints medians and maxima. It does not use criterion, which reports means.
fn builtins(_: &mut Criterion) {
    let region = Region::builder()
        .slots(1)
        .memories(5)
        .memory_bytes_max(PAGES as usize * 65_536)
        .table_elements(ELEMENTS);
    let region = region.build().expect("a region");
    for (name, operators) in BUILTINS {
        let module = text(&builtin(operators));
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let run = prepared.func::<(), ()>("run").expect("it is exported");
        let once = prepared.func::<(), ()>("once").expect("it is exported");
        let start = Instant::now();
        let mut guest = prepared.instantiate(()).expect("the slot is free");
        // The wait never ends by itself, so a deadline stops it.
        let _ = guest.deadline(Duration::from_secs(10)).call(&once, ());
        let takes = start.elapsed().min(Duration::from_secs(1));
        drop(guest);
        let mut times: Vec<_> = (1..=KILLS)
            .map(|nth| killed(&prepared, &run, takes * nth / (KILLS + 1)))
            .collect();
        times.sort();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "kill in {name}: median {median:.0?}, longest {longest:.0?} of {KILLS}; takes {takes:.0?}"
        );
    }
}

criterion_group!(benches, calls, loops, builtins);
criterion_main!(benches);
