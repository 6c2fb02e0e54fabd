//! The cost of counting fuel: the same guests compiled without `--fuel` and with it.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{instance, prepared, sink};
use pirn_compiler::{Options, compile, parse_text};
use pirn_runtime::{Linker, Module, Reset};
use std::hint::black_box;
use std::path::Path;

/// Mispredicted branches and nothing else: steps of Collatz sequences below n.
/// expect: collatz(1000) -> 59542
const COLLATZ: &str = r#"(module (func (export "run") (param $n i32) (result i32)
  (local $x i32) (local $steps i32)
  (loop $next
    (local.set $x (local.get $n))
    (block $done (loop $step
      (br_if $done (i32.le_u (local.get $x) (i32.const 1)))
      (local.set $steps (i32.add (local.get $steps) (i32.const 1)))
      (if (i32.and (local.get $x) (i32.const 1))
        (then (local.set $x (i32.add (i32.mul (local.get $x) (i32.const 3)) (i32.const 1))))
        (else (local.set $x (i32.shr_u (local.get $x) (i32.const 1)))))
      (br $step)))
    (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
  (local.get $steps)))"#;

/// The tightest possible loop.
const TURNS: &str = r#"(module (func (export "run") (param $n i32) (result i32)
  (loop $next (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
  (local.get $n)))"#;

/// Compiles a module, with or without fuel.
fn module(bytes: &[u8], fuel: bool) -> Module {
    let mut options = Options::default();
    options.fuel = fuel;
    let wasm = parse_text(bytes).expect("the guest is well-formed");
    let so = compile(&wasm, &options).expect("the guest is valid");
    Module::from_bytes(&so).expect("it opens")
}

fn guest(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
    std::fs::read(folder.join(name)).expect("the guest is there")
}

fn fuel(c: &mut Criterion) {
    let (fib, sieve) = (guest("fib.wasm"), guest("sieve.wat"));
    for (name, text, export, n, expected) in [
        ("fib of 20", &fib[..], "fib", 20, 6765),
        ("sieve of 65536", &sieve, "sieve", 65536, 6542),
        ("collatz of 1000", COLLATZ.as_bytes(), "run", 1000, 59542),
        ("10000 turns", TURNS.as_bytes(), "run", 10_000, 0),
    ] {
        let mut group = c.benchmark_group(name);
        for (kind, fuel) in [("plain", false), ("counting", true)] {
            let prepared = prepared(&module(text, fuel), Reset::Auto);
            let func = prepared.func::<i32, i32>(export).expect("it is exported");
            let mut guest = instance(&prepared);
            assert_eq!(guest.call(&func, n).expect("it returns"), expected);
            group.bench_function(kind, |b| {
                b.iter(|| guest.call(&func, black_box(n)).expect("it returns"));
            });
        }
        group.finish();
    }
    simd(c);
}

/// Ten SIMD kernels, each of which the guest compares with the same kernel in plain C. Each sample
/// is a new instance.
fn simd(c: &mut Criterion) {
    let (wasm, mut linker) = (guest("simd.wasm"), Linker::new());
    pirn_wasi::link(&mut linker, |wasi| wasi).expect("the names are free");
    let mut group = c.benchmark_group("simd.wasm");
    for (kind, fuel) in [("plain", false), ("counting", true)] {
        let region = pirn_benches::region(Reset::Auto);
        let prepared = region
            .prepare(&module(&wasm, fuel), &linker)
            .expect("it links");
        let start = prepared.func::<(), ()>("_start").expect("it is exported");
        group.bench_function(kind, |b| {
            b.iter(|| {
                let mut guest = prepared.try_instantiate(sink()).expect("a slot is free");
                // The guest exits or returns.
                guest.call(&start, ()).err()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, fuel);
criterion_main!(benches);
