//! `memory.copy` and `memory.fill` of many lengths: on pirn, on Wasmtime, and by libc in memory of
//! the host, in one process and in turn. Prints nanoseconds for each operation, medians of the
//! rounds.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml --bin bulk [rounds [steps
//! [reset]]]`, where `steps` is the number of lengths between two powers of two, and `reset` the
//! reset strategy of the slot, such as `tracked`.

#![forbid(unsafe_code)]

use pirn_peers::open::open;
use pirn_peers::row::Run;
use pirn_peers::turns::measure;
use pirn_runtime::{Linker, Module, Region, Reset};
use std::hint::black_box;
use wasmtime::{Engine, Store};

/// Each function performs `count` operations, so that the call of the function does not count.
const GUEST: &str = r#"(module (memory (export "memory") 128)
  (func (export "copy") (param $to i32) (param $from i32) (param $len i32) (param $count i32)
    (loop $next
      (memory.copy (local.get $to) (local.get $from) (local.get $len))
      (br_if $next (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))
  (func (export "fill") (param $to i32) (param $byte i32) (param $len i32) (param $count i32)
    (loop $next
      (memory.fill (local.get $to) (local.get $byte) (local.get $len))
      (br_if $next (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))))"#;

const MIB: i32 = 1 << 20;
/// The largest length in bytes.
const LEN_MAX: f64 = (1 << 20) as f64;

/// A kind of operation: its name, the function, its first two arguments.
const KINDS: [(&str, &str, i32, i32); 5] = [
    ("copy", "copy", 4 * MIB, 0),
    ("copy, unaligned", "copy", 4 * MIB + 1000 + 5, 3),
    ("copy, up by 8", "copy", 8, 0),
    ("copy, down by 8", "copy", 0, 8),
    ("fill", "fill", 0, 7),
];

type Arguments = (i32, i32, i32, i32);

/// pirn's operation with a function of the guest.
fn ours<'a>(region: &Region, module: &Module, func: &str, [to, from, len]: [i32; 3]) -> Run<'a> {
    let prepared = region.prepare(module, &Linker::new()).expect("it fits");
    let func = prepared
        .func::<Arguments, ()>(func)
        .expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    Box::new(move |count| {
        instance
            .call(&func, (to, from, len, count as i32))
            .expect("it returns");
    })
}

fn theirs<'a>(
    engine: &Engine,
    module: &wasmtime::Module,
    func: &str,
    [to, from, len]: [i32; 3],
) -> Run<'a> {
    let mut store = Store::new(engine, ());
    let instance = wasmtime::Instance::new(&mut store, module, &[]).expect("it fits");
    let func = instance
        .get_typed_func::<Arguments, ()>(&mut store, func)
        .expect("it is exported");
    Box::new(move |count| {
        func.call(&mut store, (to, from, len, count as i32))
            .expect("it returns");
    })
}

/// The operation of libc, in a memory of the host.
fn native<'a>(func: &'static str, [to, from, len]: [i32; 3]) -> Run<'a> {
    let mut memory = vec![1_u8; 8 << 20];
    let [to, from, len] = [to, from, len].map(|number| number as usize);
    Box::new(move |count| {
        for _ in 0..count {
            let (to, len) = (black_box(to), black_box(len));
            match func {
                "copy" => {
                    let from = black_box(from);
                    memory.copy_within(from..from + len, to);
                }
                _ => memory[to..to + len].fill(black_box(from as u8)),
            }
            black_box(&mut memory);
        }
    })
}

/// The lengths: some small ones, and `steps` between two powers of two.
fn lengths(steps: u32) -> Vec<i32> {
    let mut all: Vec<i32> = vec![0, 1, 2, 3, 4, 7, 8, 12, 15];
    let mut len = 16.0_f64;
    while len <= LEN_MAX {
        all.push(len as i32);
        len *= 2_f64.powf(1.0 / f64::from(steps));
    }
    all.extend([65, 1025, 4097]);
    all.sort_unstable();
    all.dedup();
    all
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(11);
    let steps = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let reset = arguments.next().unwrap_or_default();
    let reset = Reset::ALL
        .into_iter()
        .find(|known| known.to_string() == reset);
    let region = Region::builder()
        .slots(64)
        .memory_bytes_max(80 << 20)
        .reset(reset.unwrap_or_default())
        .build()
        .expect("a region");
    println!("pirn: {}", region.describe());
    let wasm = pirn_compiler::parse_text(GUEST.as_bytes()).expect("it is well-formed");
    let our_module = open(&wasm);
    let engine = Engine::default();
    let their_module = wasmtime::Module::new(&engine, &wasm).expect("it is valid");
    println!(
        "{:<16} {:>8} {:>10} {:>10} {:>10} {:>14} {:>10}",
        "", "bytes", "pirn", "wasmtime", "libc", "of wasmtime's", "of libc's"
    );
    let (mut worst, mut late) = (0.0_f64, 0);
    for (name, func, to, from) in KINDS {
        for len in lengths(steps) {
            let numbers = [to, from, len];
            let mut engines = [
                ours(&region, &our_module, func, numbers),
                theirs(&engine, &their_module, func, numbers),
                native(func, numbers),
            ];
            let mut engines: Vec<_> = engines.iter_mut().collect();
            let [ours, theirs, libc] = measure(&mut engines, rounds)[..] else {
                unreachable!("three engines")
            };
            worst = worst.max(ours / theirs);
            late += i32::from(ours > theirs);
            println!(
                "{name:<16} {len:>8} {ours:>10.1} {theirs:>10.1} {libc:>10.1} {:>14.2} {:>10.2}",
                ours / theirs,
                ours / libc
            );
        }
    }
    println!("slower than wasmtime in {late} rows, at most {worst:.2} of its time");
}
