//! The public API of instances: typed calls, host functions, limits, waits, and every misuse that
//! the API permits.

use crate::common;

use common::values::invalid;
use pirn_format::text::is_plain;
use pirn_runtime::{
    CallError, Caller, ExternRef, ExternType, FuncRef, FuncType, HostError, Instance,
    InstantiateError, InvalidCall, LinkError, Linker, Module, Prepared, Region, Trap, TrapCode,
    TypedFunc, ValType, Value,
};
use std::num::NonZeroU64;
use std::sync::mpsc;
use std::time::Duration;

fn region(slots: u32) -> Region {
    Region::builder().slots(slots).build().expect("a region")
}

fn prepare(module: &Module) -> Prepared<()> {
    region(1).prepare(module, &Linker::new()).expect("it fits")
}

#[test]
fn values_of_every_type_survive_a_round_trip() {
    let module = common::wat(
        r#"(module
          (func (export "i32") (param i32) (result i32) (local.get 0))
          (func (export "i64") (param i64) (result i64) (local.get 0))
          (func (export "f32") (param f32) (result f32) (local.get 0))
          (func (export "f64") (param f64) (result f64) (local.get 0))
          (func (export "v128") (param v128) (result v128) (local.get 0))
          (func (export "func") (param funcref) (result funcref) (local.get 0))
          (func $own (export "own") (result funcref) (ref.func $own))
          (func (export "extern") (param externref) (result externref) (local.get 0)))"#,
    );
    let prepared = prepare(&module);
    let mut instance = prepared.instantiate(()).expect("a slot");
    macro_rules! same {
        ($name:literal, $ty:ty, $($value:expr),+) => {{
            let func = prepared.func::<$ty, $ty>($name).expect("it is exported");
            $(assert_eq!(instance.call(&func, $value).expect("it returns"), $value);)+
        }};
    }
    same!("i32", i32, 0, -1, i32::MIN, i32::MAX);
    same!("i32", u32, 0, u32::MAX);
    same!("i64", i64, 0, -1, i64::MIN, i64::MAX);
    same!("i64", u64, u64::MAX);
    same!("f32", f32, 0.5, f32::INFINITY, f32::MIN_POSITIVE);
    same!("f64", f64, -0.5, f64::NEG_INFINITY);
    same!(
        "v128",
        u128,
        0,
        1,
        u128::MAX,
        0x0123_4567_89ab_cdef_0011_2233_4455_6677
    );
    let external = ExternRef::new(NonZeroU64::new(u64::MAX).expect("it is not 0"));
    same!("extern", Option<ExternRef>, None, Some(external));
    let own = prepared
        .func::<(), Option<FuncRef>>("own")
        .expect("it is exported");
    let reference = instance.call(&own, ()).expect("it returns");
    assert!(reference.is_some());
    same!("func", Option<FuncRef>, None, reference);
    // A NaN keeps its payload if no arithmetic touches it.
    let nan = Value::F64(0x7ff4_0000_dead_beef);
    assert_eq!(
        instance.call_values("f64", &[nan]).expect("it returns"),
        [nan]
    );
}

#[test]
fn many_parameters_and_results_keep_their_order() {
    let params = "(param i32 i64 f32 f64 i32 i64 f32 f64 i32 i64 f32 f64 i32 i64 f32 f64)";
    let results = params.replace("param", "result");
    let gets: String = (0..16).map(|i| format!("(local.get {i})")).collect();
    let module = common::wat(&format!(
        "(module (func (export \"f\") {params} {results} {gets}))"
    ));
    let prepared = prepare(&module);
    type Four<A, B, C, D> = (A, B, C, D, A, B, C, D, A, B, C, D, A, B, C, D);
    type Sixteen = Four<i32, i64, f32, f64>;
    let func = prepared
        .func::<Sixteen, Sixteen>("f")
        .expect("it is exported");
    let values: Sixteen = (
        1, 2, 3., 4., 5, 6, 7., 8., 9, 10, 11., 12., 13, 14, 15., 16.,
    );
    let mut instance = prepared.instantiate(()).expect("a slot");
    let answer = instance.call(&func, values).expect("it returns");
    let halves = |v: Sixteen| {
        (
            (v.0, v.1, v.2, v.3, v.4, v.5, v.6, v.7),
            (v.8, v.9, v.10, v.11, v.12, v.13, v.14, v.15),
        )
    };
    assert_eq!(halves(answer), halves(values));
}

#[test]
fn host_functions_reach_memory_and_data() {
    let module = common::wat(
        r#"(module
          (import "host" "read" (func $read (param i32 i32) (result i32)))
          (import "host" "note" (func $note (param i32 i32)))
          (memory (export "memory") 1)
          (func (export "copy") (param i32) (result i32)
            (local $len i32)
            (local.set $len (call $read (i32.const 1000) (local.get 0)))
            (call $note (i32.const 1000) (local.get $len))
            (local.get $len)))"#,
    );
    struct Request {
        body: &'static [u8],
        notes: Vec<u8>,
    }
    let mut linker = Linker::<Request>::new();
    linker
        .func(
            "host",
            "read",
            |mut caller: Caller<'_, Request>, ptr: u32, cap: u32| {
                let (mut memory, request) = caller.split();
                memory.write_prefix(ptr, cap, request.body)
            },
        )
        .expect("the name is free")
        .func(
            "host",
            "note",
            |mut caller: Caller<'_, Request>, ptr: u32, len: u32| -> Result<(), Trap> {
                let (memory, request) = caller.split();
                request.notes.extend_from_slice(memory.slice(ptr, len)?);
                Ok(())
            },
        )
        .expect("the name is free");
    let prepared = region(1).prepare(&module, &linker).expect("it links");
    let copy = prepared.func::<u32, u32>("copy").expect("it is exported");
    let request = || Request {
        body: b"a body",
        notes: vec![],
    };
    let mut instance = prepared.instantiate(request()).expect("a slot");
    assert_eq!(instance.call(&copy, 100).expect("it returns"), 6);
    assert_eq!(instance.call(&copy, 3).expect("it returns"), 3);
    assert_eq!(instance.into_data().notes, b"a bodya b");
    // The guest claims a buffer larger than its memory, so the guest traps.
    let mut instance = prepared.instantiate(request()).expect("the slot came back");
    match instance.call(&copy, 65_536) {
        Err(CallError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds),
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_of_host_functions_are_returned_unchanged() {
    let module = common::wat(
        "(module (import \"host\" \"fail\" (func $fail (param i32) (result i32)))
           (func (export \"f\") (param i32) (result i32)
             (i32.add (call $fail (local.get 0)) (i32.const 1))))",
    );
    let mut linker = Linker::<()>::new();
    let fail = |how: i32| -> Result<i32, HostError> {
        match how {
            0 => Ok(41),
            1 => Err(std::io::Error::other("no such thing"))?,
            _ => Err(HostError::message("only words")),
        }
    };
    linker.func("host", "fail", fail).expect("the name is free");
    let prepared = region(1).prepare(&module, &linker).expect("it links");
    let f = prepared.func::<i32, i32>("f").expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    for _ in 0..2 {
        match instance.call(&f, 1) {
            Err(CallError::Host(error)) => {
                assert!(error.downcast_ref::<std::io::Error>().is_some());
                assert_eq!(error.to_string(), "no such thing");
            }
            other => panic!("{other:?}"),
        }
        match instance.call(&f, 2) {
            Err(error @ CallError::Host(_)) => assert_eq!(error.to_string(), "only words"),
            other => panic!("{other:?}"),
        }
        assert_eq!(instance.call(&f, 0).expect("it returns"), 42);
    }
}

#[test]
fn a_panic_in_a_host_function_is_an_error_and_frees_the_slot() {
    let module = common::wat(
        "(module (import \"h\" \"p\" (func $p (param i32)))
           (func $f (export \"f\") (param i32) (call $p (local.get 0))))",
    );
    let mut linker = Linker::<u32>::new();
    let panics = |mut caller: Caller<'_, u32>, how: i32| {
        *caller.data_mut() += 1;
        match how {
            0 => {}
            1 => panic!("as asked for"),
            2 => panic!("as asked for\nby {how}"),
            _ => std::panic::panic_any(how),
        }
    };
    linker.func("h", "p", panics).expect("the name is free");
    let region = region(1);
    let prepared = region.prepare(&module, &linker).expect("it links");
    let f = prepared.func::<i32, ()>("f").expect("it is exported");
    let mut instance = prepared.instantiate(0).expect("a slot");
    for (how, text) in [
        (1, "host function panicked: as asked for"),
        (2, "host function panicked: as asked for\\nby 2"),
        (3, "host function panicked"),
    ] {
        let error = instance.call(&f, how).expect_err("it panics");
        assert_eq!(error.to_string(), text);
        let CallError::Panic(panic) = error else {
            panic!("{error}")
        };
        let names: Vec<_> = panic.backtrace().iter().map(|f| f.func_name()).collect();
        assert_eq!(names, [Some("f")]);
        let payload = panic.into_payload();
        assert_eq!(
            payload.downcast_ref::<i32>().copied(),
            (how == 3).then_some(3)
        );
        instance.call(&f, 0).expect("it returns");
    }
    assert_eq!(instance.into_data(), 6);
    assert_eq!(region.slots_free(), 1);
}

/// A backtrace in a host function continues past the guest to the frames that called it.
#[test]
fn a_backtrace_in_a_host_function_reaches_the_caller_of_the_guest() {
    #[inline(never)]
    fn caller_of_the_guest(instance: &mut Instance<String>, f: &TypedFunc<(), ()>) {
        instance.call(f, ()).expect("it returns");
        // This statement prevents a tail call.
        instance.data_mut().push('\n');
    }
    let wat = r#"(module (import "h" "f" (func $f)) (func (export "f") (call $f)))"#;
    let mut linker = Linker::<String>::new();
    let trace = |mut caller: Caller<'_, String>| {
        *caller.data_mut() = std::backtrace::Backtrace::force_capture().to_string();
    };
    linker.func("h", "f", trace).expect("the name is free");
    let prepared = region(1)
        .prepare(&common::wat(wat), &linker)
        .expect("it is linked");
    let f = prepared.func("f").expect("it is exported");
    let mut instance = prepared
        .try_instantiate(String::new())
        .expect("a slot is free");
    caller_of_the_guest(&mut instance, &f);
    let trace = instance.into_data();
    assert!(trace.contains("caller_of_the_guest"), "{trace}");
    assert!(
        trace.contains("a_backtrace_in_a_host_function_reaches"),
        "{trace}"
    );
}

/// A warm slot may have served the host functions of another linker before.
#[test]
fn a_warm_slot_calls_the_host_functions_of_its_own_preparation() {
    let wat = r#"(module
        (import "h" "f" (func $f (param i32) (result i32)))
        (func (export "f") (param i32) (result i32) (call $f (local.get 0))))"#;
    let (module, region) = (common::wat(wat), region(1));
    let prepared = |add: i32| {
        let mut linker = Linker::<i32>::new();
        let func = move |caller: Caller<'_, i32>, n: i32| n + add + *caller.data();
        linker.func("h", "f", func).expect("the name is free");
        region.prepare(&module, &linker).expect("it is linked")
    };
    let call = |prepared: &Prepared<i32>, data: i32| {
        let f = prepared.func::<i32, i32>("f").expect("it is exported");
        let mut instance = prepared.try_instantiate(data).expect("the slot is free");
        instance.call(&f, 1000).expect("it returns")
    };
    let first = prepared(1);
    assert_eq!(call(&first, 10), 1011);
    let second = prepared(2);
    for _ in 0..3 {
        assert_eq!(call(&second, 20), 1022);
        assert_eq!(call(&first, 30), 1031);
    }
    // Dropping the first preparation frees its host functions, and their memory may be reused.
    drop(first);
    let others: Vec<_> = (3..100).map(prepared).collect();
    for (add, prepared) in (3..).zip(&others) {
        assert_eq!(call(prepared, 0), 1000 + add);
    }
    assert_eq!(call(&second, 20), 1022);
}

/// A host call must preserve live values, even if the host function uses all registers.
#[test]
fn live_values_in_registers_survive_host_calls() {
    let locals: Vec<String> = (0..12).map(|n| format!("(local $i{n} i64)")).collect();
    let floats: Vec<String> = (0..12).map(|n| format!("(local $f{n} f64)")).collect();
    let mut body = String::new();
    for n in 0..12 {
        body += &format!(
            "(local.set $i{n} (i64.mul (local.get $n) (i64.const {})))",
            n + 3
        );
        body += &format!(
            "(local.set $f{n} (f64.mul (f64.convert_i64_s (local.get $n)) (f64.const {}.5)))",
            n + 1
        );
    }
    let mut sum = String::from("(i64.const 0)");
    for n in 0..12 {
        sum = format!(
            "(i64.add {sum} (i64.add (local.get $i{n}) (i64.trunc_f64_s (local.get $f{n}))))"
        );
    }
    let wat = format!(
        r#"(module (import "h" "f" (func $f (param i64) (result i64)))
        (func (export "f") (param $n i64) (result i64) (local $r i64) {} {} {body}
          (local.set $r (call $f (local.get $n)))
          (i64.add (local.get $r) {sum})))"#,
        locals.join(" "),
        floats.join(" ")
    );
    let mut linker = Linker::<()>::new();
    // This code uses nearly every register.
    let busy = |n: i64| {
        let parts = std::hint::black_box([n; 16]);
        let mut mixed = [1.5f64; 16];
        for _ in 0..3 {
            for (at, part) in parts.iter().enumerate() {
                mixed[at] = mixed[(at + 5) % 16] + std::hint::black_box(*part as f64);
            }
        }
        std::hint::black_box(mixed);
        n
    };
    linker.func("h", "f", busy).expect("the name is free");
    let prepared = region(1)
        .prepare(&common::wat(&wat), &linker)
        .expect("it is linked");
    let f = prepared.func::<i64, i64>("f").expect("it is exported");
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    for n in [2i64, 100, 4000] {
        let whole: i64 = (0..12).map(|at| n * (at + 3)).sum();
        let halves: i64 = (0..12)
            .map(|at| (n as f64 * (f64::from(at) + 1.5)) as i64)
            .sum();
        assert_eq!(
            instance.call(&f, n).expect("it returns"),
            n + whole + halves
        );
    }
}

#[test]
fn results_of_untyped_host_functions_are_checked() {
    let module = common::wat(
        "(module (import \"h\" \"f\" (func $f (param i32) (result i64 f32)))
           (func (export \"f\") (param i32) (result i64 f32) (call $f (local.get 0))))",
    );
    let mut linker = Linker::<()>::new();
    let ty = FuncType {
        params: vec![ValType::I32],
        results: vec![ValType::I64, ValType::F32],
    };
    linker
        .func_values("h", "f", ty, |_, params, results| {
            assert_eq!(results, [Value::I64(0), Value::F32(0)]);
            results[0] = if params[0] == Value::I32(0) {
                Value::I64(9)
            } else {
                Value::I32(9)
            };
            Ok(())
        })
        .expect("the name is free");
    let prepared = region(1).prepare(&module, &linker).expect("it links");
    let mut instance = prepared.instantiate(()).expect("a slot");
    let answer = instance
        .call_values("f", &[Value::I32(0)])
        .expect("it returns");
    assert_eq!(answer, [Value::I64(9), Value::F32(0)]);
    let error = instance
        .call_values("f", &[Value::I32(1)])
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "host function returned i32, its type says i64; return a value of that type"
    );
}

#[test]
fn invalid_calls_are_refused() {
    let module = common::wat(
        "(module (func (export \"f\") (param i32) (result i32) (local.get 0))
           (func $own (export \"own\") (result funcref) (ref.func $own))
           (func (export \"take\") (param funcref)) (global (export \"g\") i32 (i32.const 3)))",
    );
    let region = region(2);
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it links");
    let wrong = prepared.func::<i64, i32>("f").unwrap_err().to_string();
    assert_eq!(
        wrong,
        "function \"f\" has type (i32) -> i32, the caller wants (i64) -> i32; ask for the type \
         that it has"
    );
    for name in ["none", "g"] {
        let missing = prepared.func::<(), ()>(name).unwrap_err().to_string();
        assert_eq!(
            missing,
            format!("module has no exported function {name:?}; it exports f, own, take, g")
        );
    }
    let mut instance = prepared.instantiate(()).expect("a slot");
    let mut refused = |name: &str, params: &[Value]| invalid(instance.call_values(name, params));
    for name in ["none", "g"] {
        let missing = InvalidCall::NoExport {
            name: name.to_owned(),
            found: "f, own, take, g".to_owned(),
        };
        assert_eq!(refused(name, &[]), missing);
    }
    for found in [0, 2] {
        let count = InvalidCall::Count {
            name: "f".to_owned(),
            ty: FuncType {
                params: vec![ValType::I32],
                results: vec![ValType::I32],
            },
            wanted: 1,
            found,
        };
        assert_eq!(refused("f", &vec![Value::I32(1); found]), count);
    }
    let of_type = InvalidCall::Type {
        name: "f".to_owned(),
        position: 0,
        wanted: ValType::I32,
        found: "i64".to_owned(),
    };
    assert_eq!(refused("f", &[Value::I64(1)]), of_type);
    let again = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it links");
    let other = again.func::<i32, i32>("f").expect("it is exported");
    let called = instance.call(&other, 1);
    assert_eq!(invalid(called), InvalidCall::OtherPreparation);
    // A reference of one instance is refused by another.
    let mut stranger = prepared.instantiate(()).expect("a slot");
    let own = prepared
        .func::<(), Option<FuncRef>>("own")
        .expect("it is exported");
    let take = prepared
        .func::<Option<FuncRef>, ()>("take")
        .expect("it is exported");
    let reference = stranger.call(&own, ()).expect("it returns");
    stranger
        .call(&take, reference)
        .expect("the reference belongs to this instance");
    let called = instance.call(&take, reference);
    assert_eq!(invalid(called), InvalidCall::ForeignRef);
}

#[test]
fn imports_are_checked_before_the_first_request() {
    let module = common::wat(
        "(module (import \"env\" \"f\" (func (param i32) (result i64)))
           (import \"env\" \"g\" (global f64)))",
    );
    let linker = |wrong: bool| {
        let mut linker = Linker::<()>::new();
        if wrong {
            linker
                .func("env", "f", |_: i64| 0_i64)
                .expect("the name is free");
        } else {
            linker
                .func("env", "f", |_: i32| 0_i64)
                .expect("the name is free");
        }
        linker
    };
    let region = region(1);
    let refused = |linker: &Linker<()>| region.prepare(&module, linker).unwrap_err().to_string();
    assert_eq!(
        refused(&Linker::new()),
        "import env.f (a function (i32) -> i64) is not defined; define it in the linker"
    );
    assert_eq!(
        refused(&linker(true)),
        "import env.f is a function (i64) -> i64, the module wants a function (i32) -> i64; define \
         the function with that type"
    );
    assert!(refused(&linker(false)).contains("import env.g (a global f64) is not defined"));
    let mut all = linker(false);
    all.global("env", "g", Value::F32(0))
        .expect("the name is free");
    assert!(refused(&all).contains("import env.g is a global f32, the module wants a global f64"));
    match all.global("env", "g", Value::F64(0)) {
        Err(LinkError::Duplicate { import }) => assert_eq!(import, "env.g"),
        other => panic!("{:?}", other.err()),
    }
    let imports: Vec<_> = module
        .imports()
        .map(|(m, n, ty)| format!("{m}.{n}: {ty}"))
        .collect();
    assert_eq!(imports, ["env.f: func (i32) -> i64", "env.g: global f64"]);
}

#[test]
fn names_of_imports_cannot_add_lines_to_errors() {
    for module in ["(func)", "(global i32)", "(memory 1)"] {
        let module = common::wat(&format!(
            "(module (import \"a\\nb\" \"c\\1b[31m\\u{{202e}}\" {module}))"
        ));
        let linked = region(1).prepare(&module, &Linker::<()>::new());
        let error = linked.expect_err("nothing is defined").to_string();
        assert!(
            error.starts_with("import a\\nb.c\\u{1b}[31m\\u{202e} (a ")
                && error.chars().all(is_plain),
            "{error:?}"
        );
    }
}

#[test]
fn imported_globals_have_the_hosts_values() {
    let module = common::wat(
        "(module (import \"env\" \"base\" (global $base i32))
           (global (export \"next\") i32 (i32.add (global.get $base) (i32.const 1)))
           (memory (export \"memory\") 1) (data (global.get $base) \"here\"))",
    );
    let mut linker = Linker::<()>::new();
    linker
        .global("env", "base", Value::I32(500))
        .expect("the name is free");
    let prepared = region(1).prepare(&module, &linker).expect("it links");
    for _ in 0..2 {
        let mut instance = prepared.instantiate(()).expect("a slot");
        assert_eq!(instance.global("next"), Some(Value::I32(501)));
        assert_eq!(
            instance.memory().slice(500, 4).expect("it is there"),
            b"here"
        );
        instance.memory_mut().as_mut_slice().fill(1);
    }
}

#[test]
fn modules_are_refused_exactly_past_the_limits_of_a_region() {
    let refused = |builder: pirn_runtime::RegionBuilder, text: &str| -> Option<String> {
        let region = builder.slots(1).build().expect("a region");
        region
            .prepare(&common::wat(text), &Linker::<()>::new())
            .err()
            .map(|e| e.to_string())
    };
    let b = Region::builder;
    assert_eq!(
        refused(b().memory_bytes_max(1 << 17), "(module (memory 2))"),
        None
    );
    assert_eq!(
        refused(b().memory_bytes_max(1 << 17), "(module (memory 3))").expect("it is refused"),
        "module needs 3 pages of memory, slots hold 2; raise `memory_bytes_max`"
    );
    assert_eq!(
        refused(b().table_elements(8), "(module (table 8 funcref))"),
        None
    );
    assert_eq!(
        refused(b().table_elements(8), "(module (table 9 funcref))").expect("it is refused"),
        "module needs 9 elements of a table, slots hold 8; raise `table_elements`"
    );
    let two = "(module (table 1 funcref) (table 1 externref))";
    assert_eq!(refused(b().tables(2), two), None);
    assert!(
        refused(b().tables(1), two)
            .expect("it is refused")
            .contains("raise `tables`")
    );
    // The largest permitted number of parameters fits on the smallest stack.
    let params = format!("(module (func (param {})))", "i32 ".repeat(1000));
    assert_eq!(refused(b().stack_bytes(16 << 10), &params), None);
    let globals = |n: usize| format!("(module {})", "(global i32 (i32.const 0))".repeat(n));
    // 64 KiB hold 4096 cells. The context takes 36 cells.
    assert_eq!(refused(b().instance_bytes(65536), &globals(4060)), None);
    assert_eq!(
        refused(b().instance_bytes(65536), &globals(4061)).expect("it is refused"),
        "module needs 65 KiB of globals and imports, slots hold 64; raise `instance_bytes`"
    );
}

#[test]
fn growth_stops_at_the_limits_of_region_and_module() {
    let module = common::wat(
        "(module (memory (export \"memory\") 1) (table $t 1 externref)
           (func (export \"memory.grow\") (param i32) (result i32) (memory.grow (local.get 0)))
           (func (export \"table.grow\") (param i32) (result i32)
             (table.grow $t (ref.null extern) (local.get 0))))",
    );
    let region = Region::builder()
        .memory_bytes_max(4 << 16)
        .table_elements(10)
        .build()
        .expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let mut instance = prepared.instantiate(()).expect("a slot");
    for (name, most) in [("memory.grow", 4), ("table.grow", 10)] {
        let grow = prepared.func::<u32, i32>(name).expect("it is exported");
        assert_eq!(
            instance.call(&grow, most).expect("no trap"),
            -1,
            "one too many"
        );
        assert_eq!(instance.call(&grow, u32::MAX).expect("no trap"), -1);
        assert_eq!(instance.call(&grow, most - 1).expect("no trap"), 1);
        assert_eq!(instance.call(&grow, 1).expect("no trap"), -1);
        assert_eq!(instance.call(&grow, 0).expect("no trap"), most as i32);
    }
    assert_eq!(instance.memory().len(), 4 << 16);
}

#[test]
fn recursion_depth_is_proportional_to_the_stack_size() {
    let module = common::wat(
        "(module (func $deep (export \"deep\") (param i32) (result i32)
           (if (result i32) (local.get 0)
             (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get 0) (i32.const 1)))))
             (else (i32.const 1)))))",
    );
    // The deepest recursion that a stack has room for. One call more must overflow.
    let most = |bytes: usize| {
        let region = Region::builder().slots(1).stack_bytes(bytes).build();
        let prepared = region
            .expect("a region")
            .prepare(&module, &Linker::<()>::new());
        let prepared = prepared.expect("it fits");
        let deep = prepared.func::<i32, i32>("deep").expect("it is exported");
        let mut instance = prepared.instantiate(()).expect("a slot");
        let mut fits = |calls: i32| match instance.call(&deep, calls - 1) {
            Ok(returned) => returned == calls,
            Err(CallError::Trap(trap)) if trap.code() == TrapCode::StackOverflow => false,
            Err(other) => panic!("{bytes}, {calls}: {other}"),
        };
        let (mut fitting, mut past) = (1, bytes as i32);
        while past - fitting > 1 {
            let calls = i32::midpoint(fitting, past);
            if fits(calls) {
                fitting = calls;
            } else {
                past = calls;
            }
        }
        assert!(fits(fitting) && !fits(past), "{bytes}: {fitting} calls");
        fitting
    };
    let (small, middle, large) = (most(64 << 10), most(128 << 10), most(256 << 10));
    // Each call takes an equal amount of stack.
    let (first, second) = (middle - small, large - middle);
    assert!(
        (second - 2 * first).abs() <= 2,
        "{small}, {middle}, {large} calls"
    );
    let frame = (64 << 10) / first;
    assert!(
        (16..=128).contains(&frame) && small > 500,
        "{small} calls of {frame} bytes"
    );
}

#[test]
fn a_full_region_refuses_or_makes_the_caller_wait() {
    let module = common::wat("(module (func (export \"f\")))");
    let region = region(1);
    let prepared = region
        .prepare(&module, &Linker::<u32>::new())
        .expect("it fits");
    let first = prepared.try_instantiate(0).expect("the slot is free");
    match prepared.try_instantiate(0) {
        Err(error @ InstantiateError::Full { slots: 1 }) => {
            assert!(
                error
                    .to_string()
                    .starts_with("all 1 slots of the region are taken")
            );
        }
        other => panic!("{other:?}"),
    }
    match prepared.instantiate_timeout(0, Duration::from_millis(1)) {
        Err(InstantiateError::Timeout { slots: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let instance = prepared.instantiate(7).expect("a slot becomes free");
            tell.send(()).expect("the test waits");
            assert_eq!(instance.into_data(), 7);
        });
        assert!(told.try_recv().is_err(), "the slot is taken");
        drop(first);
        told.recv().expect("the waiting thread got the slot");
    });
    assert_eq!(region.slots_free(), 1);
}

#[test]
fn an_instance_is_used_and_dropped_on_other_threads() {
    let module = common::wat(include_str!("../../examples/guests/add.wat"));
    let region = region(2);
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let add = prepared
        .func::<(i32, i32), i32>("add")
        .expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    let instance = std::thread::spawn(move || {
        assert_eq!(instance.call(&add, (20, 22)).expect("it returns"), 42);
        instance
    });
    let instance = instance.join().expect("no panic");
    std::thread::spawn(move || drop(instance))
        .join()
        .expect("no panic");
    assert_eq!(region.slots_free(), 2);
}

#[test]
fn a_failed_start_function_returns_the_slot() {
    let region = region(1);
    for text in [
        "(module (func $s unreachable) (start $s))",
        "(module (memory 1) (data (i32.const 65535) \"xx\"))",
        "(module (table 1 funcref) (func $f) (elem (i32.const 1) $f))",
    ] {
        let prepared = region
            .prepare(&common::wat(text), &Linker::<()>::new())
            .expect("it fits");
        for _ in 0..3 {
            match prepared.try_instantiate(()) {
                Err(InstantiateError::Start(CallError::Trap(_))) => {}
                other => panic!("{text}: {other:?}"),
            }
            assert_eq!(region.slots_free(), 1, "{text}");
        }
    }
}

#[test]
fn a_module_lists_its_imports_and_exports() {
    let module = common::wat(
        "(module $named (memory (export \"m\") 1 2) (table (export \"t\") 3 funcref)
           (global (export \"g\") (mut i32) (i32.const 0)) (func (export \"f\") (param i32)))",
    );
    assert_eq!(module.name(), Some("named"));
    let exports: Vec<_> = module
        .exports()
        .map(|(name, ty)| format!("{name}: {ty}"))
        .collect();
    assert_eq!(
        exports,
        [
            "m: memory 1..2 pages",
            "t: table 3.. funcref",
            "g: global (mut i32)",
            "f: func (i32) -> ()"
        ]
    );
    assert!(
        module
            .exports()
            .any(|(_, ty)| matches!(ty, ExternType::Memory(_)))
    );
}
