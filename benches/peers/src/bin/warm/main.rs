//! Cold and warm starts of language runtimes: pirn with a snapshot, and Wasmtime with the same
//! module processed by wizer, in one process and in turn.
//!
//! A cycle makes an instance, has it answer one request, and drops it. A cold instance first calls
//! its initialisation; a warm one begins where that ended.
//!
//! Run `cargo run --release --bin warm [rounds [rows [svg [folder]]]]` in `benches/peers`,
//! after `examples/guests/build.sh go js java ruby`. `rows` is a substring of the names of the
//! wanted rows, `svg` a file for the graph, and `folder` a place for the modules that wizer makes.
//! A guest that is not built is named.
//!
//! Each cycle makes a WASI context with two pipes, as a request does; the first row has none.
//! Before a guest is measured, the program compares the answers of both engines. At the end, the
//! program holds 1,000 instances of each guest, each of which has answered a request.

#![forbid(unsafe_code)]

mod cycles;
mod peer;
mod ruby;

use cycles::Cycles;
use pirn_compiler::{Options, compile, parse_text};
use pirn_peers::row::Run;
use pirn_peers::turns::measure;
use pirn_runtime::{ExternType, Instance, Linker, Module, Prepared, Region, Value};
use pirn_wasi::pipe::{ReadPipe, WritePipe};
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::path::Path;
use std::time::Instant;

/// Largest memory of a guest.
const MEMORY_BYTES_MAX: usize = 128 << 20;

/// A guest, its initialisation, and what answers a request.
#[derive(Clone)]
struct Case {
    name: &'static str,
    wasm: Vec<u8>,
    /// Exports that initialise it, in order.
    init: &'static [&'static str],
    /// Export that answers a request. [`ruby`] does for a guest without such an export.
    answer: Option<&'static str>,
    params: &'static [i32],
    /// Standard input of the initialisation.
    script: &'static str,
    /// Standard input of a request.
    body: &'static str,
    /// Whether each instance has a WASI context.
    wasi: bool,
}

/// What the host keeps for an instance.
type Data = Option<WasiCtx>;

/// What a guest has answered: its standard output, and the results of the export.
#[derive(Debug, PartialEq)]
struct Answer {
    output: String,
    results: Vec<i32>,
}

/// Name, file below `examples/guests`, initialisation, answer, its parameters, script, body.
type BuiltCase = (
    &'static str,
    &'static str,
    &'static [&'static str],
    Option<&'static str>,
    &'static [i32],
    &'static str,
    &'static str,
);

/// What a script does for each request of QuickJS.
const SCRIPT: &str = include_str!("../../../../../examples/guests/js/app.js");

/// The same for Ruby.
const RUBY_SCRIPT: &str = include_str!("../../../../../examples/guests/ruby/app.rb");

/// The guests that are built.
const BUILT: [BuiltCase; 8] = [
    (
        "C: one of 1,000 items",
        "warm-c.wasm",
        &["_initialize"],
        Some("handle"),
        &[],
        "",
        "item-7",
    ),
    (
        "Rust: one of 1,000 items",
        "warm-rust.wasm",
        &["wizer-initialize"],
        Some("handle"),
        &[],
        "",
        "item-7",
    ),
    (
        "Go: hello",
        "built/warm.wasm",
        &["_initialize"],
        Some("hello"),
        &[],
        "",
        "",
    ),
    (
        "Go: JSON of one of 10,000 items",
        "built/warm.wasm",
        &["_initialize"],
        Some("handle"),
        &[7],
        "",
        "",
    ),
    (
        "Java: hello",
        "built/warm-java.wasm",
        &["_start"],
        Some("hello"),
        &[],
        "",
        "",
    ),
    (
        "Java: one of 1,000 items",
        "built/warm-java.wasm",
        &["_start"],
        Some("handle"),
        &[],
        "",
        "item-7",
    ),
    (
        "QuickJS: one of 1,000 items",
        "built/quickjs.wasm",
        &["_initialize", "wizer-initialize", "load"],
        Some("handle"),
        &[],
        SCRIPT,
        "",
    ),
    (
        "Ruby: one of 1,000 items",
        "built/ruby.wasm",
        &["_initialize"],
        None,
        &[],
        RUBY_SCRIPT,
        "item-7",
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
        answer: Some("answer"),
        params: &[10],
        script: "",
        body: "",
        wasi: false,
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
                wasi: true,
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
    let (graph, folder) = (args.next(), args.next());
    let region = region(8);
    println!("pirn: {}", region.describe());
    println!("medians of {rounds} rounds, one thread, microseconds a cycle");
    println!(
        "{:<34} {:>10} {:>10} {:>10} {:>14} {:>14} {:>7}",
        "", "image MiB", "pirn cold", "pirn warm", "wasmtime cold", "wasmtime wizer", "ratio"
    );
    let peer = peer::WarmPeer::new();
    let (mut rows, mut held) = (vec![], vec![]);
    for case in cases() {
        if !case.name.contains(&only) {
            continue;
        }
        let (mut cold, mut warm, image, expected) = ours(&region, &case);
        let [mut peer_cold, mut peer_warm] = peer.runs(&case, &expected, folder.as_deref());
        let mut engines = [&mut cold, &mut warm, &mut peer_cold, &mut peer_warm];
        let us = measure(&mut engines, rounds).into_iter();
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
    let prepared = region.prepare(&snapshot, &linker(&snapshot));
    let prepared = prepared.expect("it links");
    let answer = answer(&prepared, case);
    let mut live = Vec::with_capacity(LIVE);
    let before = private_kib();
    let mut pages = 0;
    for _ in 0..LIVE {
        let mut instance = prepared.instantiate(data(case, case.body)).expect("a slot");
        answer(&mut instance);
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

/// WASI, and what Ruby imports beside it: handles of its values, and an interface to JavaScript,
/// which nothing calls.
fn linker(module: &Module) -> Linker<Data> {
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, context).expect("the names are free");
    for (interface, name, ty) in module.imports() {
        let ExternType::Func(ty) = ty else { continue };
        let defined = match interface {
            ruby::HANDLES => linker.func_values(interface, name, ty, |_, params, results| {
                results.clone_from_slice(&params[..results.len()]);
                Ok(())
            }),
            ruby::JAVASCRIPT => linker.func_values(interface, name, ty, |_, _, _| {
                Err(std::io::Error::other("there is no JavaScript").into())
            }),
            _ => continue,
        };
        defined.expect("the name is free");
    }
    linker
}

/// The module of a case.
fn open(case: &Case) -> (Module, usize) {
    let so = compile(&case.wasm, &Options::default()).expect("it is valid");
    (Module::from_bytes(&so).expect("it opens"), so.len())
}

/// Initialises an instance, which has the script as standard input.
fn initialise(instance: &mut Instance<Data>, module: &Module, case: &Case) {
    for init in case.init {
        instance.call_values(init, &[]).expect("it starts");
    }
    if case.answer.is_none() {
        ruby::start(&mut Ours { instance, module }, case.script);
    }
}

/// The snapshot of a case after its initialisation. Prints the time that it took.
fn snapshot(region: &Region, case: &Case) -> Module {
    let module = open(case).0;
    let cold = region.prepare(&module, &linker(&module)).expect("it links");
    let mut instance = cold.instantiate(data(case, case.script)).expect("a slot");
    initialise(&mut instance, &module, case);
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
        .stack_bytes(8 << 20)
        .tables(8)
        .table_elements(1 << 16)
        .build()
        .expect("a region")
}

/// What has an instance answer a request, and returns the results.
fn answer(
    prepared: &Prepared<Data>,
    case: &Case,
) -> impl Fn(&mut Instance<Data>) -> Vec<Value> + use<> {
    let func = case.answer.map(|name| prepared.func_values(name));
    let func = func.map(|func| func.expect("it is exported"));
    let params: Vec<Value> = case.params.iter().map(|n| Value::I32(*n)).collect();
    let module = prepared.module().clone();
    move |instance| match &func {
        Some(func) => instance.call_func(func, &params).expect("it answers"),
        None => {
            let module = &module;
            ruby::answer(&mut Ours { instance, module });
            vec![]
        }
    }
}

/// The standard input of an instance. A cold one reads a script, unless Ruby gets that as an
/// argument.
fn input(case: &Case, cold: bool) -> &'static str {
    match cold && !case.script.is_empty() && case.answer.is_some() {
        true => case.script,
        false => case.body,
    }
}

/// The cold and the warm cycle, the snapshot's image in MiB, and the answer of a warm instance.
fn ours(region: &Region, case: &Case) -> (Run<'static>, Run<'static>, f64, Answer) {
    let (module, so_bytes) = open(case);
    let linker = linker(&module);
    let cold = region.prepare(&module, &linker).expect("it links");
    let snapshot = snapshot(region, case);
    let bytes = snapshot.to_bytes().expect("it can be saved").len() - so_bytes;
    let warm = region.prepare(&snapshot, &linker).expect("it links");
    let expected = warm_answer(&warm, case);
    let cycle = |prepared: Prepared<Data>, cold: bool| -> Run<'static> {
        let answer = answer(&prepared, case);
        let (case, input) = (case.clone(), input(case, cold));
        Box::new(move |count| {
            for _ in 0..count {
                let mut instance = prepared.instantiate(data(&case, input)).expect("a slot");
                if cold {
                    initialise(&mut instance, prepared.module(), &case);
                }
                answer(&mut instance);
            }
        })
    };
    let mib = bytes as f64 / f64::from(1 << 20);
    (cycle(cold, true), cycle(warm, false), mib, expected)
}

/// The answer of a warm instance.
fn warm_answer(warm: &Prepared<Data>, case: &Case) -> Answer {
    let output = WritePipe::new_in_memory();
    let wasi = || {
        let wasi = WasiCtxBuilder::new().stdin(ReadPipe::from(case.body));
        wasi.stdout(output.clone()).build()
    };
    let mut instance = warm.instantiate(case.wasi.then(wasi)).expect("a slot");
    let results = answer(warm, case)(&mut instance);
    drop(instance);
    let output = output.try_into_inner().expect("nobody else has the pipe");
    let results = results.into_iter().map(|value| match value {
        Value::I32(value) => value,
        _ => panic!("no guest here returns anything but an i32"),
    });
    Answer {
        output: String::from_utf8(output.into_inner()).expect("it is text"),
        results: results.collect(),
    }
}

/// The WASI context of an instance whose module imports WASI.
fn context(data: &mut Data) -> &mut WasiCtx {
    data.as_mut().expect("it has a context")
}

fn data(case: &Case, input: &'static str) -> Data {
    case.wasi.then(|| {
        let out = WritePipe::new(std::io::sink());
        let input = ReadPipe::from(input);
        let wasi = WasiCtxBuilder::new().stdin(input);
        wasi.stdout(out).build()
    })
}

/// An instance of pirn, for what both engines do in the same way.
struct Ours<'a> {
    instance: &'a mut Instance<Data>,
    module: &'a Module,
}

impl ruby::RubyGuest for Ours<'_> {
    fn export(&mut self, prefix: &str) -> String {
        let exports = self.module.exports();
        let mut names = exports.map(|(name, _)| name.to_owned());
        let found = names.find(|name| name.starts_with(prefix));
        found.expect("it is exported")
    }

    fn call(&mut self, export: &str, params: &[i32]) -> Option<i32> {
        let params: Vec<Value> = params.iter().map(|n| Value::I32(*n)).collect();
        let results = self
            .instance
            .call_values(export, &params)
            .expect("it returns");
        results.first().map(|result| match result {
            Value::I32(result) => *result,
            _ => panic!("{export} returned {result:?}"),
        })
    }

    fn write(&mut self, at: u32, bytes: &[u8]) {
        let mut memory = self.instance.memory_mut();
        memory.write(at, bytes).expect("it was allocated");
    }

    fn read_u32(&mut self, at: u32) -> u32 {
        self.instance
            .memory()
            .read_u32(at)
            .expect("it was allocated")
    }
}
