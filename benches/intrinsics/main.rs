//! Intrinsics: a guest hashes, encrypts and computes checksums with hardware instructions. Compared
//! with native code that uses the same instructions, and with portable implementations in the
//! guest. The time is that of 256 KiB.
//!
//! At the end the bench prints the ratio of the guest to native code. It compares the fastest of
//! many alternating runs, to exclude other load of the machine.

mod native;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pirn_benches::{file, wasm};
use pirn_compiler::Options;
use pirn_format::cpu::{CpuFeatures, detect};
use pirn_runtime::{Instance, Linker, Module, Region, Value};
use std::time::{Duration, Instant};

/// Bytes of input: few enough for the level 2 cache, but many enough to hide the cost of a call.
const BYTES: u32 = 256 << 10;
/// Alternating runs of each.
const TURNS: u32 = 2000;
/// Offset of the keys in the guest's buffer; `INPUT` is the offset of the input.
const KEYS: u32 = 1024;
const INPUT: u32 = 4096;
/// CPU features that the guest's intrinsics need.
const FEATURES: [&str; 4] = ["sha", "aes", "pclmulqdq", "sse4.2"];

struct Guest {
    instance: Instance<()>,
    buffer: u32,
}

impl Guest {
    fn new(cpu: CpuFeatures) -> Self {
        let mut options = Options::default();
        options.cpu = cpu;
        let so = pirn_compiler::compile(&wasm("crypto.wasm"), &options).expect("it is valid");
        let module = Module::open(file(&so)).expect("this machine has what it needs");
        let region = Region::builder().slots(1).build().expect("address space");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let mut instance = prepared.instantiate(()).expect("a slot");
        let buffer = instance.call_values("buffer", &[]).expect("it returns");
        let [Value::I32(buffer)] = buffer[..] else {
            panic!("buffer gives an address")
        };
        let buffer = buffer.cast_unsigned();
        let mut guest = Self { instance, buffer };
        let input = vec![0xa5; BYTES as usize];
        let mut memory = guest.instance.memory_mut();
        memory
            .write(buffer + INPUT, &input)
            .expect("it is in memory");
        guest.call("aes128_keys", &[KEYS, 0]);
        guest
    }

    /// Calls a function. All parameters are offsets in the guest's buffer; [`work`](Self::work)
    /// encodes plain numbers as such offsets.
    fn call(&mut self, name: &str, params: &[u32]) {
        let params = params
            .iter()
            .map(|param| Value::I32((self.buffer + param).cast_signed()));
        let params: Vec<_> = params.collect();
        self.instance
            .call_values(name, &params)
            .expect("it returns");
    }

    fn work(&mut self, name: &str) {
        let number = |value: u32| value.wrapping_sub(self.buffer);
        match name {
            "sha1" | "sha256" => self.call(name, &[0, INPUT, number(BYTES / 64)]),
            "aes128_ctr" => self.call(name, &[KEYS, 64, INPUT, number(BYTES / 16)]),
            "ghash" => self.call(name, &[KEYS, 64, INPUT, number(BYTES / 16)]),
            _ => self.call(name, &[number(0), INPUT, number(BYTES)]),
        }
    }
}

fn intrinsics(c: &mut Criterion) {
    let machine = detect();
    let mut none = machine;
    for feature in FEATURES {
        none = none.without(feature).unwrap_or(none);
    }
    let (mut guest, mut portable) = (Guest::new(machine), Guest::new(none));
    let native = native::all();
    for name in ["sha1", "sha256", "aes128_ctr", "ghash", "crc32c"] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(u64::from(BYTES)));
        if let Some((_, work)) = native.iter().find(|(found, _)| *found == name) {
            let mut data = vec![0xa5; BYTES as usize];
            group.bench_function("native", |b| b.iter(|| work(&mut data)));
        }
        group.bench_function("guest", |b| b.iter(|| guest.work(name)));
        group.bench_function("portable", |b| b.iter(|| portable.work(name)));
        group.finish();
    }
    for (name, work) in native {
        let ratio = by_turns(&mut guest, name, work);
        println!("{name}: guest / native = {ratio:.3}");
    }
}

/// Ratio of the guest's fastest run to the fastest native run.
fn by_turns(guest: &mut Guest, name: &str, work: native::Work) -> f64 {
    let mut data = vec![0xa5; BYTES as usize];
    let (mut native, mut guests) = (Duration::MAX, Duration::MAX);
    for _ in 0..TURNS {
        let start = Instant::now();
        work(&mut data);
        native = native.min(start.elapsed());
        let start = Instant::now();
        guest.work(name);
        guests = guests.min(start.elapsed());
    }
    guests.as_secs_f64() / native.as_secs_f64()
}

criterion_group!(benches, intrinsics);
criterion_main!(benches);
