//! Warm starts: an instance starts the runtime of a language once, and each request gets an
//! instance of its snapshot.

use crate::common::setup::linker;
use pirn_testing::campaign;
use pirn_testing::guests::{built, guest};

use pirn_compiler::{OptLevel, Options, compile};
use pirn_runtime::{Instance, Module, Prepared, Region, Value};
use pirn_wasi::pipe::{ReadPipe, WritePipe};
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::fs;
use std::path::Path;

/// Number of requests of the whole campaign. Each gets an instance of its own.
const REQUESTS: u64 = 10_000;

/// By default, one of this number of requests runs. It is a prime, so that the requests that run
/// differ in everything that repeats.
const SAMPLE: usize = 47;

/// A context whose standard output is this pipe.
fn context(output: &WritePipe<std::io::Cursor<Vec<u8>>>) -> WasiCtx {
    let builder = WasiCtxBuilder::new().stdout(output.clone());
    builder.build()
}

/// One request to a fresh instance. Returns what it printed.
fn request(prepared: &Prepared<WasiCtx>, item: i32) -> String {
    let output = WritePipe::new_in_memory();
    let instance = prepared.try_instantiate(context(&output));
    let mut instance = instance.expect("a slot is free");
    handle(&mut instance, item);
    drop(instance);
    let bytes = output.try_into_inner().expect("nobody else has the pipe");
    String::from_utf8(bytes.into_inner()).expect("JSON is UTF-8")
}

fn handle(instance: &mut Instance<WasiCtx>, item: i32) {
    let code = instance.call_values("handle", &[Value::I32(item)]);
    assert_eq!(format!("{code:?}"), "Ok([I32(0)])");
}

/// The answer to the first request of an instance.
fn answer(item: i32) -> String {
    let known = (0..10_000).contains(&item);
    let cents = if known { 100 + item * item % 9973 } else { 0 };
    format!("{{\"cents\":{cents},\"item\":{item},\"known\":{known},\"requests\":1}}\n")
}

fn open(path: &Path) -> Module {
    open_with(path, &Options::default())
}

fn open_with(path: &Path, options: &Options) -> Module {
    let wasm = fs::read(path).expect("the guest is readable");
    let so = compile(&wasm, options).expect("the guest is valid");
    Module::from_bytes(&so).expect("it opens")
}

fn region() -> Region {
    let region = Region::builder().slots(2).memory_bytes_max(64 << 20);
    region.table_elements(20_000).build().expect("a region")
}

/// A context with one variable and this standard input.
fn with_input(variable: &str, body: &str, output: &WritePipe<std::io::Cursor<Vec<u8>>>) -> WasiCtx {
    let builder = WasiCtxBuilder::new().env("QUERY_STRING", variable);
    let builder = builder.expect("it is a variable");
    let builder = builder.stdin(ReadPipe::from(body));
    builder.stdout(output.clone()).build()
}

/// The module after these exports were called, each with its standard input. Each export has an
/// instance of the snapshot that the one before left.
fn warmed(region: &Region, module: Module, steps: &[(&str, &str)]) -> Module {
    steps.iter().fold(module, |module, (export, input)| {
        let prepared = region.prepare(&module, &linker()).expect("it links");
        let output = WritePipe::new_in_memory();
        let instance = prepared.try_instantiate(with_input("", input, &output));
        let mut instance = instance.expect("a slot is free");
        let done = instance.call_values(export, &[]);
        done.unwrap_or_else(|error| panic!("{export}: {error}"));
        instance
            .snapshot_after(&[*export])
            .expect("it can be taken")
    })
}

/// Each request gets the answer that a new program gives.
fn check(region: &Region, warm: &Module, request: impl Fn(u64) -> [String; 3]) {
    let prepared = region.prepare(warm, &linker()).expect("it links");
    // Request 143 is for an item that does not exist.
    for n in campaign::sampled(0..REQUESTS, SAMPLE, 143) {
        let [variable, body, wanted] = request(n);
        let output = WritePipe::new_in_memory();
        let instance = prepared.try_instantiate(with_input(&variable, &body, &output));
        let mut instance = instance.expect("a slot is free");
        instance.call_values("handle", &[]).expect("it answers");
        drop(instance);
        let bytes = output.try_into_inner().expect("nobody else has the pipe");
        let answer = String::from_utf8(bytes.into_inner()).expect("it is text");
        assert_eq!(answer, wanted, "request {n}");
    }
    assert_eq!(region.slots_free(), 2);
}

/// The price of an item in the guests of all languages but Go.
fn price(item: u64) -> Option<u64> {
    (item < 1000).then_some(100 + item * item % 9973)
}

fn json(item: u64, more: &str) -> String {
    let (status, cents) = match price(item) {
        Some(cents) => (200, cents.to_string()),
        None => (404, "null".to_owned()),
    };
    format!(
        "Status: {status}\nContent-Type: application/json\n\n\
         {{\"item\":\"item-{item}\",\"cents\":{cents},{more}\"requests\":1}}\n"
    )
}

#[test]
fn each_request_to_a_warm_script_is_its_first() {
    let Some(path) = built("quickjs.wasm") else {
        return;
    };
    let script = fs::read_to_string(guest("js/app.js")).expect("the script is there");
    let region = region();
    // The engine, and then the tenant's script: two snapshots.
    let steps = [
        ("_initialize", ""),
        ("wizer-initialize", ""),
        ("load", &script),
    ];
    let warm = warmed(&region, open(&path), &steps);
    check(&region, &warm, |n| {
        let (item, body) = (n * 7 % 1009, "x".repeat(n as usize % 100));
        let bytes = format!("\"bytes\":{},", body.len());
        [format!("item=item-{item}"), body, json(item, &bytes)]
    });
}

#[test]
fn each_request_to_a_warm_c_or_rust_program_is_its_first() {
    for (name, init) in [
        ("warm-c.wasm", "_initialize"),
        ("warm-rust.wasm", "wizer-initialize"),
    ] {
        let region = region();
        let warm = warmed(&region, open(&guest(name)), &[(init, "")]);
        check(&region, &warm, |n| {
            let item = n * 7 % 1009;
            [String::new(), format!("item-{item}"), json(item, "")]
        });
    }
}

#[test]
fn each_request_to_a_program_that_wizer_made_is_its_first() {
    for name in ["warm-c-wizer.wasm", "warm-rust-wizer.wasm"] {
        let (region, module) = (region(), open(&guest(name)));
        let mut exports = module.exports().map(|(name, _)| name);
        assert!(!exports.any(|name| name.ends_with("initialize")), "{name}");
        check(&region, &module, |n| {
            let item = n * 7 % 1009;
            [String::new(), format!("item-{item}"), json(item, "")]
        });
    }
}

#[test]
fn each_request_to_a_warm_java_program_is_its_first() {
    let Some(path) = built("warm-java.wasm") else {
        return;
    };
    let region = region();
    let warm = warmed(&region, open(&path), &[("_start", "")]);
    check(&region, &warm, |n| {
        let item = n * 7 % 1009;
        [String::new(), format!("item-{item}"), json(item, "")]
    });
}

#[test]
fn each_request_to_a_warm_go_program_is_its_first() {
    let Some(path) = built("warm.wasm") else {
        return;
    };
    let mut options = Options::default();
    // It has 3 MB. The suite `guests` compiles another program in Go with optimisation.
    options.opt_level = OptLevel::None;
    let (module, region, linker) = (open_with(&path, &options), region(), linker());
    let cold = region.prepare(&module, &linker).expect("it links");

    // What the program prints while it starts goes to the context of that time.
    let output = WritePipe::new_in_memory();
    let mut instance = cold
        .try_instantiate(context(&output))
        .expect("a slot is free");
    let started = instance.call_values("_initialize", &[]);
    started.expect("the runtime starts");
    let snapshot = instance.snapshot().expect("it can be taken");
    let warm = region.prepare(&snapshot, &linker).expect("it links");

    // Request 1429 is for an item that does not exist.
    for n in campaign::sampled(0..REQUESTS as i32, SAMPLE, 1429) {
        let item = n * 7 % 10_007;
        assert_eq!(request(&warm, item), answer(item), "request {n}");
    }

    // A second snapshot, of an instance that has answered a request, counts on from there.
    let mut instance = warm.try_instantiate(context(&output));
    handle(instance.as_mut().expect("a slot is free"), 1);
    let snapshot = instance.expect("it is one").snapshot();
    let later = region.prepare(&snapshot.expect("it can be taken"), &linker);
    let later = later.expect("it links");
    for _ in 0..2 {
        let second = answer(5).replace("\"requests\":1", "\"requests\":2");
        assert_eq!(request(&later, 5), second);
    }
    assert_eq!(region.slots_free(), 2);
}
