//! Calls of components: pirn and Wasmtime, in one process and in turn.
//!
//! Run `cargo run --release --bin component [rounds]` in `benches/peers`.

#![forbid(unsafe_code)]

use pirn_compiler::{Options, compile, parse_text};
use pirn_component::{Component, Linker, Prepared, Value};
use pirn_peers::best::best;
use pirn_peers::row::Run;
use pirn_peers::turns::measure;
use pirn_runtime::{Module, Region};
use wasmtime::component as peer;

/// Adds two numbers, and returns a string as it is. A call's memory is used again for the next.
const GUEST: &str = r#"(component
  (core module $m
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 1024))
    (func (export "add") (param i32 i32) (result i32)
      (i32.add (local.get 0) (local.get 1)))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.get $next)
      (global.set $next (i32.add (global.get $next) (local.get 3))))
    (func (export "echo") (param i32 i32) (result i32)
      (i32.store (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1))
      (i32.const 16))
    (func (export "done") (param i32) (global.set $next (i32.const 1024))))
  (core instance $i (instantiate $m))
  (func (export "add") (param "a" u32) (param "b" u32) (result u32)
    (canon lift (core func $i "add")))
  (func (export "echo") (param "s" string) (result string)
    (canon lift (core func $i "echo") (memory (core memory $i "memory"))
      (realloc (core func $i "realloc")) (post-return (core func $i "done")))))"#;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let rounds = rounds.unwrap_or(21);
    let wasm = parse_text(GUEST.as_bytes()).expect("it is well-formed");
    let prepared = ours(&wasm);
    let peer = Peer::new(&wasm);
    let text = "a kibibyte of text, sixteen times".repeat(32)[..1024].to_owned();
    println!("medians of {rounds} rounds, one thread, nanoseconds");
    println!(
        "{:<44} {:>10} {:>10} {:>7}",
        "", "pirn", "wasmtime", "ratio"
    );
    let borrowed: &'static str = text.clone().leak();
    let rows: [(&str, Run<'_>, Run<'_>); 5] = [
        ("add(u32, u32) -> u32", add(&prepared), peer.add()),
        (
            "string of 1 KiB in and out",
            echo(&prepared, text.clone()),
            peer.echo(text),
        ),
        (
            "borrowed string of 1 KiB in, a string out",
            echo_borrowed(&prepared, borrowed),
            peer.echo_borrowed(borrowed),
        ),
        (
            "cycle: instantiate, add, drop",
            cycle(&prepared),
            peer.cycle(),
        ),
        (
            "add by values of types known at run time",
            add_values(&prepared),
            peer.add_values(),
        ),
    ];
    for (name, mut one, mut other) in rows {
        let ns = measure(&mut [&mut one, &mut other], rounds);
        let ratio = ns[1] / ns[0];
        println!("{name:<44} {:>10.1} {:>10.1} {ratio:>7.2}", ns[0], ns[1]);
    }
}

fn ours(wasm: &[u8]) -> Prepared<()> {
    let so = compile(wasm, &Options::default()).expect("it is valid");
    let component = Component::new(&Module::from_bytes(&so).expect("it opens"));
    let region = Region::builder().slots(8).build().expect("a region");
    let component = component.expect("it is a component");
    Linker::new()
        .prepare(&region, &component)
        .expect("it links")
}

fn add(prepared: &Prepared<()>) -> Run<'static> {
    let func = prepared.typed::<(u32, u32), u32>("add").expect("its types");
    let mut instance = prepared.instantiate(()).expect("a slot");
    Box::new(move |count| {
        for n in 0..count {
            let sum = instance.call_typed(&func, (n as u32, 1));
            assert_eq!(sum.expect("it returns"), n as u32 + 1);
        }
    })
}

fn add_values(prepared: &Prepared<()>) -> Run<'static> {
    let func = prepared.func("add").expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    Box::new(move |count| {
        for n in 0..count {
            let params = [Value::U32(n as u32), Value::U32(1)];
            let sum = instance.call(&func, &params).expect("it returns");
            assert_eq!(sum, Some(Value::U32(n as u32 + 1)));
        }
    })
}

fn echo(prepared: &Prepared<()>, text: String) -> Run<'static> {
    let func = prepared
        .typed::<(String,), String>("echo")
        .expect("its types");
    let mut instance = prepared.instantiate(()).expect("a slot");
    Box::new(move |count| {
        for _ in 0..count {
            let found = instance.call_typed(&func, (text.clone(),));
            assert_eq!(found.expect("it returns"), text);
        }
    })
}

fn echo_borrowed(prepared: &Prepared<()>, text: &'static str) -> Run<'static> {
    let func = prepared.typed::<(&str,), String>("echo");
    let func = func.expect("its types");
    let mut instance = prepared.instantiate(()).expect("a slot");
    Box::new(move |count| {
        for _ in 0..count {
            let found = instance.call_typed(&func, (text,));
            assert_eq!(found.expect("it returns"), text);
        }
    })
}

fn cycle(prepared: &Prepared<()>) -> Run<'static> {
    let func = prepared.typed::<(u32, u32), u32>("add").expect("its types");
    let prepared = prepared.clone();
    Box::new(move |count| {
        for n in 0..count {
            let mut instance = prepared.instantiate(()).expect("a slot");
            let sum = instance.call_typed(&func, (n as u32, 1));
            assert_eq!(sum.expect("it returns"), n as u32 + 1);
        }
    })
}

/// Wasmtime with the settings that make a cycle fastest.
struct Peer {
    engine: wasmtime::Engine,
    pre: peer::InstancePre<()>,
}

impl Peer {
    fn new(wasm: &[u8]) -> Self {
        let mut pool = wasmtime::PoolingAllocationConfig::new();
        pool.total_core_instances(16)
            .total_component_instances(16)
            .total_memories(16)
            .total_tables(16);
        let mut config = wasmtime::Config::new();
        best(&mut pool, &mut config);
        let pool = wasmtime::InstanceAllocationStrategy::Pooling(pool);
        config.allocation_strategy(pool);
        let engine = wasmtime::Engine::new(&config).expect("an engine");
        let component = peer::Component::new(&engine, wasm).expect("it is valid");
        let linker = peer::Linker::new(&engine);
        let pre = linker.instantiate_pre(&component).expect("it links");
        Self { engine, pre }
    }

    fn instance(&self) -> (wasmtime::Store<()>, peer::Instance) {
        let mut store = wasmtime::Store::new(&self.engine, ());
        let instance = self.pre.instantiate(&mut store).expect("a slot");
        (store, instance)
    }

    fn add(&self) -> Run<'static> {
        let (mut store, instance) = self.instance();
        let func = instance.get_typed_func::<(u32, u32), (u32,)>(&mut store, "add");
        let func = func.expect("its types");
        Box::new(move |count| {
            for n in 0..count {
                let sum = func.call(&mut store, (n as u32, 1)).expect("it returns");
                assert_eq!(sum, (n as u32 + 1,));
            }
        })
    }

    fn add_values(&self) -> Run<'static> {
        let (mut store, instance) = self.instance();
        let func = instance
            .get_func(&mut store, "add")
            .expect("it is exported");
        Box::new(move |count| {
            for n in 0..count {
                let params = [peer::Val::U32(n as u32), peer::Val::U32(1)];
                let mut results = [peer::Val::U32(0)];
                let called = func.call(&mut store, &params, &mut results);
                called.expect("it returns");
                assert_eq!(results, [peer::Val::U32(n as u32 + 1)]);
            }
        })
    }

    fn echo(&self, text: String) -> Run<'static> {
        let (mut store, instance) = self.instance();
        let func = instance.get_typed_func::<(String,), (String,)>(&mut store, "echo");
        let func = func.expect("its types");
        Box::new(move |count| {
            for _ in 0..count {
                let found = func.call(&mut store, (text.clone(),));
                assert_eq!(found.expect("it returns").0, text);
            }
        })
    }

    fn echo_borrowed(&self, text: &'static str) -> Run<'static> {
        let (mut store, instance) = self.instance();
        let func = instance.get_typed_func::<(&str,), (String,)>(&mut store, "echo");
        let func = func.expect("its types");
        Box::new(move |count| {
            for _ in 0..count {
                let found = func.call(&mut store, (text,));
                assert_eq!(found.expect("it returns").0, text);
            }
        })
    }

    fn cycle(&self) -> Run<'static> {
        let (engine, pre) = (self.engine.clone(), self.pre.clone());
        Box::new(move |count| {
            for n in 0..count {
                let mut store = wasmtime::Store::new(&engine, ());
                let instance = pre.instantiate(&mut store).expect("a slot");
                let func = instance.get_typed_func::<(u32, u32), (u32,)>(&mut store, "add");
                let sum = func.expect("its types").call(&mut store, (n as u32, 1));
                assert_eq!(sum.expect("it returns"), (n as u32 + 1,));
            }
        })
    }
}
