//! Warm starts: an instance starts the runtime of a language once, and each request gets an
//! instance of its snapshot.

#[path = "../../runtime/tests/common/campaign.rs"]
mod campaign;
mod common;

use pirn_compiler::{Options, compile};
use pirn_runtime::{Instance, Linker, Module, Prepared, Region, Value};
use pirn_wasi::pipe::WritePipe;
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::fs;

/// Number of requests of the whole campaign. Each gets an instance of its own.
const REQUESTS: u64 = 10_000;

/// A context whose standard output is this pipe.
fn context(output: &WritePipe<std::io::Cursor<Vec<u8>>>) -> WasiCtx {
    let builder = WasiCtxBuilder::new().stdout(Box::new(output.clone()));
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

#[test]
fn each_request_to_a_warm_go_program_is_its_first() {
    let Some(path) = common::built("warm.wasm") else {
        return;
    };
    let wasm = fs::read(path).expect("the guest is readable");
    let so = compile(&wasm, &Options::default()).expect("the guest is valid");
    let module = Module::from_bytes(&so).expect("it opens");
    let region = Region::builder()
        .slots(2)
        .memory_bytes_max(64 << 20)
        .table_elements(20_000)
        .build()
        .expect("a region");
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi).expect("the names are free");
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

    for n in 0..campaign::share(REQUESTS, 5) as i32 {
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
