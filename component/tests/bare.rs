//! Core modules that have the names of a component's functions and their world in a custom section.

use pirn_compiler::{Options, compile, parse_text};
use pirn_component::{Component, Linker, Value};
use pirn_runtime::{Module, Region};
use pirn_testing::campaign;
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const WIT: &str = "
    package test:bare;
    interface log {
        line: func(text: string);
    }
    interface api {
        resource counter {
            constructor(start: u32);
            next: func() -> u32;
        }
        shout: func(text: string) -> string;
    }
    world program {
        import log;
        export api;
        export add: func(a: u32, b: u32) -> u32;
    }";

/// Names of the two conventions.
struct Names {
    log: &'static str,
    new: &'static str,
    api: &'static str,
    root: &'static str,
    post: [&'static str; 2],
    memory: &'static str,
    realloc: &'static str,
    initialize: &'static str,
}

const PLAIN: Names = Names {
    log: "test:bare/log",
    new: "[export]test:bare/api",
    api: "test:bare/api#",
    root: "",
    post: ["cabi_post_", ""],
    memory: "memory",
    realloc: "cabi_realloc",
    initialize: "_initialize",
};

const CM32P2: Names = Names {
    log: "cm32p2|test:bare/log",
    new: "cm32p2|_ex_test:bare/api",
    api: "cm32p2|test:bare/api|",
    root: "cm32p2||",
    post: ["", "_post"],
    memory: "cm32p2_memory",
    realloc: "cm32p2_realloc",
    initialize: "cm32p2_initialize",
};

/// A module that logs what it shouts, and that has been initialised if `add` is right.
fn module(names: &Names) -> Vec<u8> {
    let Names {
        log,
        new,
        api,
        root,
        post: [before, after],
        memory,
        realloc,
        initialize,
    } = names;
    let new_name = "counter_new";
    let new_name = match *root {
        "" => "[resource-new]counter",
        _ => new_name,
    };
    let wat = format!(
        r#"(module
          (import "{log}" "line" (func $line (param i32 i32)))
          (import "{new}" "{new_name}" (func $new (param i32) (result i32)))
          (memory (export "{memory}") 1)
          (global $end (mut i32) (i32.const 1024))
          (global $ready (mut i32) (i32.const 7))
          (global $posts (mut i32) (i32.const 0))
          (func (export "{initialize}") (global.set $ready (i32.const 0)))
          (func (export "{realloc}") (param i32 i32 i32 i32) (result i32)
            (global.set $end (i32.and
              (i32.add (global.get $end) (i32.add (local.get 3) (i32.const 7)))
              (i32.const -8)))
            (i32.sub (global.get $end)
              (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8))))
          (func (export "{root}add") (param i32 i32) (result i32)
            (i32.add (global.get $posts)
              (i32.add (global.get $ready) (i32.add (local.get 0) (local.get 1)))))
          (func (export "{api}shout") (param i32 i32) (result i32)
            (call $line (local.get 0) (local.get 1))
            (i32.store8 (local.get 0) (i32.const 33))
            (i32.store (i32.const 16) (local.get 0))
            (i32.store (i32.const 20) (local.get 1))
            (i32.const 16))
          (func (export "{before}{api}shout{after}") (param i32)
            (global.set $posts (i32.const 100)))
          (func (export "{api}[constructor]counter") (param i32) (result i32)
            (i32.store (i32.const 32) (local.get 0))
            (call $new (i32.const 32)))
          (func (export "{api}[method]counter.next") (param i32) (result i32)
            (i32.store (local.get 0) (i32.add (i32.load (local.get 0)) (i32.const 1)))
            (i32.load (local.get 0))))"#
    );
    let mut wasm = parsed(&wat);
    embed(&mut wasm);
    wasm
}

/// The module of a text.
fn parsed(wat: &str) -> Vec<u8> {
    let wasm = parse_text(wat.as_bytes()).expect("it is well-formed");
    wasm.into_owned()
}

/// Adds the world.
fn embed(wasm: &mut Vec<u8>) {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("bare.wit", WIT).expect("it is WIT");
    let world = resolve
        .select_world(&[package], None)
        .expect("there is one");
    embed_component_metadata(wasm, &resolve, world, StringEncoding::UTF8).expect("it fits");
}

fn refused(wasm: &[u8]) -> String {
    let error = compile(wasm, &Options::default()).expect_err("it is refused");
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text
}

#[test]
fn names_of_both_conventions_make_components() {
    for names in [PLAIN, CM32P2] {
        let so = compile(&module(&names), &Options::default()).expect("it compiles");
        let component = Component::new(&Module::from_bytes(&so).expect("it opens"));
        let component = component.expect("it is a component");
        let mut linker = Linker::<Vec<Value>>::new();
        let line = |state: &mut pirn_component::State<Vec<Value>>, params: Vec<Value>| {
            state.data_mut().extend(params);
            Ok(None)
        };
        linker
            .func_values("test:bare/log", "line", line)
            .expect("it is new");
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = linker.prepare(&region, &component).expect("it links");
        let mut instance = prepared.instantiate(vec![]).expect("a slot is free");
        let mut call = |name: &str, params: &[Value]| {
            let func = prepared.func(name).expect("it is exported");
            let result = instance.call(&func, params).expect("it returns");
            (result, instance.data().len())
        };
        let two = [Value::U32(2), Value::U32(3)];
        assert_eq!(call("add", &two).0, Some(Value::U32(5)));
        let text = Value::String("hush".to_owned());
        let shouted = Value::String("!ush".to_owned());
        assert_eq!(call("test:bare/api#shout", &[text]), (Some(shouted), 1));
        // The function after the result has run.
        assert_eq!(call("add", &two).0, Some(Value::U32(105)));
        let counter = call("test:bare/api#[constructor]counter", &[Value::U32(8)]).0;
        let Some(Value::Own(counter)) = counter else {
            panic!("{counter:?} is no resource");
        };
        let next = call(
            "test:bare/api#[method]counter.next",
            &[Value::Borrow(counter)],
        );
        assert_eq!(next.0, Some(Value::U32(9)));
    }
}

#[test]
fn a_module_without_its_world_is_refused_by_name() {
    let wat = r#"(module (func (export "cm32p2||run")))"#;
    let text = refused(&parsed(wat));
    assert!(text.contains("no custom section component-type"), "{text}");
}

#[test]
fn a_missing_function_is_refused_by_its_name() {
    let mut wasm = parsed("(module)");
    embed(&mut wasm);
    let text = refused(&wasm);
    assert!(text.contains("add") || text.contains("shout"), "{text}");
}

#[test]
fn an_unknown_import_is_refused_by_its_name() {
    let wat = r#"(module (import "test:bare/other" "f" (func)))"#;
    let mut wasm = parsed(wat);
    embed(&mut wasm);
    let text = refused(&wasm);
    assert!(text.contains("test:bare/other"), "{text}");
}

#[test]
fn a_module_that_needs_an_adapter_is_refused_by_the_name_of_its_import() {
    let wat = r#"(module
      (import "wasi_snapshot_preview1" "proc_exit" (func (param i32))))"#;
    let mut wasm = parsed(wat);
    embed(&mut wasm);
    let text = refused(&wasm);
    assert!(text.contains("wasi_snapshot_preview1"), "{text}");
}

#[test]
fn a_damaged_world_is_refused() {
    let good = module(&PLAIN);
    let section = good
        .windows(14)
        .position(|bytes| bytes == b"component-type");
    let section = section.expect("it has the section");
    let bytes = (section + 14)..good.len();
    let changes = bytes.flat_map(|at| [(at, 1_u8), (at, 0x80)]);
    // The sample is odd, so that it has changes of both bits.
    for (at, bit) in campaign::sampled(changes, 3, 0) {
        let mut bad = good.clone();
        bad[at] ^= bit;
        // Some changes only change names.
        if let Err(error) = compile(&bad, &Options::default()) {
            let text = error.to_string();
            assert!(!text.contains('\n'), "one line: {text}");
        }
    }
}
