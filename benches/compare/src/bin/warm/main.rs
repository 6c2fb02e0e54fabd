//! Cold and warm starts of language runtimes: pirn with a snapshot, and Wasmtime with the same
//! module processed by wizer, in one process and in turn.
//!
//! A cycle makes an instance, has it answer one request, and drops it. A cold instance first calls
//! its initialisation; a warm one begins where that ended.
//!
//! Run `cargo run --release --bin warm [rounds [rows [svg]]]` in `benches/compare`,
//! after `examples/guests/build.sh go js java`. `rows` is a substring of the names of the wanted
//! rows, and `svg` a file for the graph. A guest that is not built is named.
//!
//! Each cycle makes a WASI context with two pipes, as a request does. At the end, the program holds
//! 1,000 instances of each guest, each of which has answered a request.

#![forbid(unsafe_code)]

#[path = "../../best.rs"]
mod best;
mod cycles;
#[path = "../../row.rs"]
#[expect(dead_code, reason = "the rows of the other table have more engines")]
mod row;
#[path = "../../turns.rs"]
mod turns;

use cycles::Cycles;
use pirn_compiler::{Options, compile, parse_text};
use pirn_runtime::{Linker, Module, Prepared, Region, Value};
use pirn_wasi::pipe::{ReadPipe, WritePipe};
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use row::Run;
use std::path::Path;
use std::time::Instant;
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, SinkOutputStream};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

/// Largest memory of a guest.
const MEMORY_BYTES_MAX: usize = 128 << 20;

/// A guest, its initialisation, and what answers a request.
struct Case {
    name: &'static str,
    wasm: Vec<u8>,
    /// Exports that initialise it, in order.
    init: &'static [&'static str],
    /// Export that answers a request.
    answer: &'static str,
    params: &'static [i32],
    /// Standard input of the initialisation.
    script: &'static str,
    /// Standard input of a request.
    body: &'static str,
}

/// Name, file below `examples/guests`, initialisation, answer, its parameters, script, body.
type Built = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static [i32],
    &'static str,
    &'static str,
);

/// What a script does for each request of QuickJS.
const SCRIPT: &str = include_str!("../../../../../examples/guests/js/app.js");

/// The guests that are built.
const BUILT: [Built; 7] = [
    (
        "C: one of 1,000 items",
        "warm-c.wasm",
        &["_initialize"],
        "handle",
        &[],
        "",
        "item-7",
    ),
    (
        "Rust: one of 1,000 items",
        "warm-rust.wasm",
        &["wizer-initialize"],
        "handle",
        &[],
        "",
        "item-7",
    ),
    (
        "Go: hello",
        "built/warm.wasm",
        &["_initialize"],
        "hello",
        &[],
        "",
        "",
    ),
    (
        "Go: JSON of one of 10,000 items",
        "built/warm.wasm",
        &["_initialize"],
        "handle",
        &[7],
        "",
        "",
    ),
    (
        "Java: hello",
        "built/warm-java.wasm",
        &["_start"],
        "hello",
        &[],
        "",
        "",
    ),
    (
        "Java: one of 1,000 items",
        "built/warm-java.wasm",
        &["_start"],
        "handle",
        &[],
        "",
        "item-7",
    ),
    (
        "QuickJS: one of 1,000 items",
        "built/quickjs.wasm",
        &["_initialize", "wizer-initialize", "load"],
        "handle",
        &[],
        SCRIPT,
        "",
    ),
];

/// A memory of 64 MiB that the initialisation fills; a request writes into ten of its pages.
const LARGE: &str = r#"(module (memory (export "memory") 1024)
  (func (export "_initialize") (local $at i32)
    (loop $next
      (i64.store (local.get $at) (i64.const 0x0123456789abcdef))
      (local.set $at (i32.add (local.get $at) (i32.const 64)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 0x4000000)))))
  (func (export "answer") (param $pages i32) (local $at i32)
    (loop $next
      (i64.store (local.get $at) (i64.add (i64.load (local.get $at)) (i64.const 1)))
      (local.set $at (i32.add (local.get $at) (i32.const 0x500000)))
      (local.set $pages (i32.sub (local.get $pages) (i32.const 1)))
      (br_if $next (local.get $pages)))))"#;

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests");
    let mut cases = vec![Case {
        name: "64 MiB image, 10 pages written",
        wasm: parse_text(LARGE.as_bytes())
            .expect("it is well-formed")
            .into_owned(),
        init: &["_initialize"],
        answer: "answer",
        params: &[10],
        script: "",
        body: "",
    }];
    for (name, file, init, answer, params, script, body) in BUILT {
        match std::fs::read(folder.join(file)) {
            Ok(wasm) => cases.push(Case {
                name,
                wasm,
                init,
                answer,
                params,
                script,
                body,
            }),
            Err(error) => eprintln!("NOT RUN: {name}: {file}: {error}"),
        }
    }
    cases
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds = args.next().and_then(|n| n.parse().ok()).unwrap_or(21);
    let only = args.next().unwrap_or_default();
    let graph = args.next();
    let region = region(8);
    println!("pirn: {}", region.describe());
    println!("medians of {rounds} rounds, one thread, microseconds a cycle");
    println!(
        "{:<34} {:>10} {:>10} {:>10} {:>14} {:>14} {:>7}",
        "", "image MiB", "pirn cold", "pirn warm", "wasmtime cold", "wasmtime wizer", "ratio"
    );
    let peer = peer::Engine::new();
    let (mut rows, mut held) = (vec![], vec![]);
    for case in cases() {
        if !case.name.contains(&only) {
            continue;
        }
        let (cold, warm, image) = ours(&region, &case);
        let [mut cold, mut warm] = [cold, warm];
        let [mut peer_cold, mut peer_warm] = peer.runs(&case);
        let mut engines = [&mut cold, &mut warm, &mut peer_cold, &mut peer_warm];
        let us = turns::measure(&mut engines, rounds).into_iter();
        let us: Vec<f64> = us.map(|ns| ns / 1e3).collect();
        println!(
            "{:<34} {:>10.1} {:>10.1} {:>10.2} {:>14.1} {:>14.2} {:>7.2}",
            case.name,
            image,
            us[0],
            us[1],
            us[2],
            us[3],
            us[3] / us[1]
        );
        held.push((case.name, live(&case)));
        rows.push(Cycles {
            guest: case.name,
            us,
        });
    }
    println!("{LIVE} live instances that have answered a request, KiB each");
    println!("{:<34} {:>14} {:>10}", "", "private memory", "written");
    for (name, [private, written]) in held {
        println!("{name:<34} {private:>14.1} {written:>10.1}");
    }
    if let Some(graph) = graph {
        let engines = [
            "pirn, cold",
            "pirn, snapshot",
            "Wasmtime, cold",
            "Wasmtime, wizer",
        ];
        cycles::draw(&rows, &engines, Path::new(&graph)).expect("the graph can be written");
    }
}

/// Number of live instances.
const LIVE: usize = 1000;

/// Private memory and written memory of each of many live instances, in KiB.
fn live(case: &Case) -> [f64; 2] {
    let snapshot = snapshot(&region(1), case);
    let region = region(LIVE as u32);
    let prepared = region.prepare(&snapshot, &linker()).expect("it links");
    let answer = prepared.func_values(case.answer).expect("it is exported");
    let params: Vec<Value> = case.params.iter().map(|n| Value::I32(*n)).collect();
    let mut live = Vec::with_capacity(LIVE);
    let before = private_kib();
    let mut pages = 0;
    for _ in 0..LIVE {
        let mut instance = prepared.instantiate(wasi(case.body)).expect("a slot");
        instance.call_func(&answer, &params).expect("it answers");
        pages += instance.usage().pages_written.unwrap_or(0);
        live.push(instance);
    }
    let private = private_kib() - before;
    [private / LIVE as f64, (pages * 4) as f64 / LIVE as f64]
}

/// Private memory of this process: `RssAnon` of proc_pid_status(5).
fn private_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is readable");
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    kib.and_then(|kib| kib.trim().parse().ok())
        .expect("a number")
}

fn linker() -> Linker<WasiCtx> {
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi).expect("the names are free");
    linker
}

/// The module of a case.
fn open(case: &Case) -> (Module, usize) {
    let so = compile(&case.wasm, &Options::default()).expect("it is valid");
    (Module::from_bytes(&so).expect("it opens"), so.len())
}

/// The snapshot of a case after its initialisation. Prints the time that it took.
fn snapshot(region: &Region, case: &Case) -> Module {
    let cold = region.prepare(&open(case).0, &linker()).expect("it links");
    let mut instance = cold.instantiate(wasi(case.script)).expect("a slot");
    for init in case.init {
        instance.call_values(init, &[]).expect("it starts");
    }
    let start = Instant::now();
    let snapshot = instance.snapshot_after(case.init).expect("it is whole");
    let ms = start.elapsed().as_secs_f64() * 1e3;
    println!("  {}: snapshot taken in {ms:.1} ms", case.name);
    snapshot
}

fn region(slots: u32) -> Region {
    Region::builder()
        .slots(slots)
        .memory_bytes_max(MEMORY_BYTES_MAX)
        .stack_bytes(1 << 20)
        .tables(8)
        .table_elements(1 << 16)
        .build()
        .expect("a region")
}

/// The cold and the warm cycle, and the snapshot's image in MiB.
fn ours(region: &Region, case: &Case) -> (Run<'static>, Run<'static>, f64) {
    let (module, so_bytes) = open(case);
    let linker = linker();
    let cold = region.prepare(&module, &linker).expect("it links");
    let snapshot = snapshot(region, case);
    let bytes = snapshot.to_bytes().expect("it can be saved").len() - so_bytes;
    let warm = region.prepare(&snapshot, &linker).expect("it links");
    let cycle = |prepared: Prepared<WasiCtx>, init: &'static [&'static str]| -> Run<'static> {
        let (script, body) = (case.script, case.body);
        let params: Vec<Value> = case.params.iter().map(|n| Value::I32(*n)).collect();
        let answer = prepared.func_values(case.answer).expect("it is exported");
        Box::new(move |count| {
            for _ in 0..count {
                // A cold script reads its source, and then nothing.
                let input = if init.is_empty() || script.is_empty() {
                    body
                } else {
                    script
                };
                let mut instance = prepared.instantiate(wasi(input)).expect("a slot");
                for init in init {
                    instance.call_values(init, &[]).expect("it starts");
                }
                instance.call_func(&answer, &params).expect("it answers");
            }
        })
    };
    let mib = bytes as f64 / f64::from(1 << 20);
    (cycle(cold, case.init), cycle(warm, &[]), mib)
}

fn wasi(input: &'static str) -> WasiCtx {
    let out = WritePipe::new(std::io::sink());
    let input = ReadPipe::from(input);
    let wasi = WasiCtxBuilder::new().stdin(Box::new(input));
    wasi.stdout(Box::new(out)).build()
}

/// Wasmtime with the settings that make a cycle fastest.
mod peer {
    use super::{
        Case, InstanceState, MEMORY_BYTES_MAX, MemoryInputPipe, Run, SinkOutputStream, SnapshotVal,
        ValType, WasiP1Ctx, Wizer, best, p1,
    };
    use std::future::Future;
    use wasmtime::{
        Config, Extern, Instance, InstanceAllocationStrategy, Linker, Module,
        PoolingAllocationConfig, Store, Val,
    };
    use wasmtime_wasi::WasiCtxBuilder;

    pub struct Engine(wasmtime::Engine);

    impl Engine {
        pub fn new() -> Self {
            let mut pool = PoolingAllocationConfig::new();
            pool.total_core_instances(8)
                .total_memories(8)
                .total_tables(8)
                .table_elements(1 << 16)
                .max_memory_size(MEMORY_BYTES_MAX);
            let mut config = Config::new();
            best::best(&mut pool, &mut config);
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
            Self(wasmtime::Engine::new(&config).expect("an engine"))
        }

        fn linker(&self) -> Linker<WasiP1Ctx> {
            let mut linker = Linker::new(&self.0);
            p1::add_to_linker_sync(&mut linker, |wasi| wasi).expect("the names are free");
            linker
        }

        /// The cold cycle, and the cycle of the module that wizer made.
        pub fn runs(&self, case: &Case) -> [Run<'static>; 2] {
            let warm = self.preinitialised(case);
            [
                self.cycle(&case.wasm, case.init, case),
                self.cycle(&warm, &[], case),
            ]
        }

        fn cycle(&self, wasm: &[u8], init: &'static [&'static str], case: &Case) -> Run<'static> {
            let module = Module::new(&self.0, wasm).expect("it is valid");
            let pre = self.linker().instantiate_pre(&module).expect("it links");
            let export = module
                .get_export_index(case.answer)
                .expect("it is exported");
            let engine = self.0.clone();
            let params: Vec<Val> = case.params.iter().map(|n| Val::I32(*n)).collect();
            let results = module
                .get_export(case.answer)
                .and_then(|ty| ty.func().map(|ty| ty.results().len()))
                .expect("it is a function");
            let (script, body) = (case.script, case.body);
            Box::new(move |count| {
                let mut results = vec![Val::I32(0); results];
                for _ in 0..count {
                    let input = if init.is_empty() || script.is_empty() {
                        body
                    } else {
                        script
                    };
                    let mut store = Store::new(&engine, wasi(input));
                    let instance = pre.instantiate(&mut store).expect("a slot");
                    for init in init {
                        call(&mut store, &instance, init);
                    }
                    let func = instance.get_module_export(&mut store, &export);
                    let func = func.and_then(Extern::into_func).expect("it is exported");
                    func.call(&mut store, &params, &mut results)
                        .expect("it answers");
                }
            })
        }

        /// The module as wizer writes it after its initialisation.
        fn preinitialised(&self, case: &Case) -> Vec<u8> {
            let mut wizer = Wizer::new();
            wizer.init_func(*case.init.last().expect("there is one"));
            let (context, instrumented) = wizer.instrument(&case.wasm).expect("wizer takes it");
            let module = Module::new(&self.0, &instrumented).expect("it is valid");
            let mut store = Store::new(&self.0, wasi(case.script));
            let instance = self.linker().instantiate(&mut store, &module);
            let instance = instance.expect("it links");
            for init in case.init {
                call(&mut store, &instance, init);
            }
            let mut state = State { store, instance };
            ready(wizer.snapshot(&context, &mut state)).expect("it can be taken")
        }
    }

    fn wasi(input: &'static str) -> WasiP1Ctx {
        let mut builder = WasiCtxBuilder::new();
        builder.stdin(MemoryInputPipe::new(input.as_bytes()));
        builder.stdout(SinkOutputStream).build_p1()
    }

    fn call(store: &mut Store<WasiP1Ctx>, instance: &Instance, name: &str) {
        let func = instance
            .get_func(&mut *store, name)
            .expect("it is exported");
        func.call(store, &[], &mut []).expect("it starts");
    }

    /// An initialised instance of a module that wizer has instrumented.
    struct State {
        store: Store<WasiP1Ctx>,
        instance: Instance,
    }

    impl InstanceState for State {
        async fn global_get(&mut self, name: &str, _: ValType) -> SnapshotVal {
            let global = self.instance.get_global(&mut self.store, name);
            match global.expect("wizer exports it").get(&mut self.store) {
                Val::I32(value) => SnapshotVal::I32(value),
                Val::I64(value) => SnapshotVal::I64(value),
                Val::F32(bits) => SnapshotVal::F32(bits),
                Val::F64(bits) => SnapshotVal::F64(bits),
                Val::V128(value) => SnapshotVal::V128(value.as_u128()),
                _ => panic!("wizer refuses globals of other types"),
            }
        }

        async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
            let memory = self.instance.get_memory(&mut self.store, name);
            contents(memory.expect("wizer exports it").data(&self.store));
        }
    }

    /// The result of a future that waits for nothing.
    fn ready<T>(future: impl Future<Output = T>) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(result) => result,
            std::task::Poll::Pending => panic!("it waits"),
        }
    }
}
