//! Every trap must report the right code, function and offset, also if two threads trap
//! concurrently. The instance and its slot stay usable.

use crate::common;

use pirn_compiler::{OptLevel, Options};
use pirn_format::text::is_plain;
use pirn_runtime::{CallError, HostError, Instance, Linker, Module, Region, Trap, TrapCode};
use std::sync::Barrier;

const TRAPS: &str = include_str!("../../examples/guests/traps.wat");

/// Exports, each with the expected message of its trap.
fn expectations() -> Vec<(&'static str, &'static str)> {
    let expect = |line: &'static str| {
        let (name, what) = line.strip_prefix(";; expect: ")?.split_once(" -> trap: ")?;
        Some((name, what.split(", in ").next().unwrap_or(what)))
    };
    let all: Vec<_> = TRAPS.lines().filter_map(expect).collect();
    assert!(
        all.len() > 20,
        "the guest has an expectation for each export: {all:?}"
    );
    all
}

fn instance(region: &Region, module: &Module) -> Instance<()> {
    let prepared = region
        .prepare(module, &Linker::new())
        .expect("it imports nothing");
    prepared.instantiate(()).expect("there is a slot")
}

fn trap(instance: &mut Instance<()>, name: &str) -> Trap {
    match instance.call_values(name, &[]) {
        Err(CallError::Trap(trap)) => trap,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_trap_is_reported_and_the_instance_stays_usable() {
    let module = common::wat(TRAPS);
    for reset in common::resets() {
        let region = Region::builder()
            .slots(1)
            .reset(reset)
            .build()
            .expect("a region");
        for (name, message) in expectations() {
            let mut instance = instance(&region, &module);
            for _ in 0..3 {
                let trap = trap(&mut instance, name);
                assert_eq!(trap.code().message(), message, "{name}");
                assert!(!trap.backtrace().is_empty(), "{name}");
                let fine = instance.call_values("fine", &[]);
                assert_eq!(fine.expect("it returns after any trap"), []);
            }
        }
        assert_eq!(region.slots_free(), 1);
    }
}

#[test]
fn the_backtrace_names_functions_and_offsets() {
    let wasm = pirn_compiler::parse_text(TRAPS.as_bytes()).expect("the text is well-formed");
    let module = common::wat(TRAPS);
    let region = Region::builder().slots(1).build().expect("a region");
    let trap = trap(&mut instance(&region, &module), "nested");
    let names: Vec<_> = trap
        .backtrace()
        .iter()
        .map(|frame| frame.func_name())
        .collect();
    assert_eq!(names, [Some("inner"), Some("middle"), Some("outer")]);
    let byte = |frame: usize| {
        let offset = trap.backtrace()[frame].wasm_offset().expect("it is known");
        wasm[offset as usize]
    };
    // The bytes at these offsets are the trapping instructions: `unreachable`, `call`, `call` (spec
    // 5.4.1).
    assert_eq!([byte(0), byte(1), byte(2)], [0x00, 0x10, 0x10]);
    assert_eq!(trap.wasm_offset(), trap.backtrace()[0].wasm_offset());
    assert_eq!(trap.to_string().lines().count(), 1);
    assert!(
        trap.to_string()
            .starts_with("trap: unreachable in inner at 0x"),
        "{trap}"
    );
}

#[test]
fn a_deep_backtrace_is_truncated_and_says_so() {
    let region = Region::builder().slots(1).build().expect("a region");
    let trap = trap(
        &mut instance(&region, &common::wat(TRAPS)),
        "stack_overflow",
    );
    assert_eq!(trap.backtrace().len(), 64);
    assert!(trap.report().ends_with("... and more"), "{}", trap.report());
}

/// Functions leave by a stub, or call a host function themselves: both begin with their frame.
#[test]
fn a_backtrace_of_64_frames_is_whole() {
    let module = common::wat(
        r#"(module
          (import "h" "f" (func $host (param i32) (result i32)))
          (func $traps (export "traps") (param $more i32) (result i32)
            (if (result i32) (local.get $more)
              (then (i32.add (i32.const 1)
                (call $traps (i32.sub (local.get $more) (i32.const 1)))))
              (else (unreachable))))
          (func $panics (export "panics") (param $more i32) (result i32)
            (if (result i32) (local.get $more)
              (then (i32.add (i32.const 1)
                (call $panics (i32.sub (local.get $more) (i32.const 1)))))
              (else (call $host (i32.const 7))))))"#,
    );
    let mut linker = Linker::new();
    let panics = |_: i32| -> i32 { std::panic::resume_unwind(Box::new("on purpose")) };
    linker.func("h", "f", panics).expect("the name is free");
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&module, &linker).expect("it is linked");
    let mut instance = prepared.instantiate(()).expect("there is a slot");
    let mut ends = |name: &str, frames: i32| {
        let func = prepared.func::<i32, i32>(name).expect("it is exported");
        instance.call(&func, frames - 1).expect_err("it ends early")
    };
    for (frames, shown) in [(1, 1), (2, 2), (63, 63), (64, 64), (65, 64), (66, 64)] {
        let CallError::Trap(trap) = ends("traps", frames) else {
            panic!("it traps");
        };
        assert_eq!(trap.backtrace().len(), shown, "{frames}");
        let names: Vec<_> = trap.backtrace().iter().map(|f| f.func_name()).collect();
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
        let says_more = trap.report().ends_with("... and more");
        assert_eq!(says_more, frames > 64, "{frames}: {}", trap.report());
        let CallError::Panic(panic) = ends("panics", frames) else {
            panic!("the host function panics");
        };
        assert_eq!(panic.backtrace().len(), shown, "{frames}");
        let offsets = panic
            .backtrace()
            .iter()
            .map(pirn_runtime::Frame::wasm_offset);
        let offsets: Vec<_> = offsets.collect();
        assert!(
            offsets[1..].iter().all(|at| *at != offsets[0]),
            "{offsets:?}"
        );
    }
}

#[test]
fn an_overflow_in_a_prologue_has_all_frames() {
    let module = common::wat(
        "(module $m (func $even (export \"f\") (call $odd) (call $nothing))
           (func $odd (call $even) (call $nothing)) (func $nothing))",
    );
    // Each slot's stack starts at a different offset, so over all slots the overflow hits each kind
    // of push.
    for extra in 0..32 {
        let region = Region::builder()
            .slots(1 + extra)
            .build()
            .expect("a region");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let mut instances: Vec<_> = (0..=extra)
            .map(|_| prepared.instantiate(()).expect("a slot"))
            .collect();
        let trap = trap(
            instances
                .last_mut()
                .expect("there is at least one instance"),
            "f",
        );
        let names: Vec<_> = trap
            .backtrace()
            .iter()
            .map(|frame| frame.func_name())
            .collect();
        assert!(
            names.windows(2).all(|pair| pair[0] != pair[1]),
            "{}",
            trap.report()
        );
    }
}

#[test]
fn function_names_print_no_control_characters() {
    let name = "\u{1b}[2Jgone\n\u{9b}\u{202e}\u{2028}";
    let text = r#"(module (func (export "\1b[2Jgone\0a\u{9b}\u{202e}\u{2028}") unreachable))"#;
    let module = common::wat(text);
    let region = Region::builder().slots(1).build().expect("a region");
    let trap = trap(&mut instance(&region, &module), name);
    let line = trap.to_string();
    assert!(
        line.chars().all(is_plain) && line.contains("gone"),
        "{line:?}"
    );
    assert_eq!(trap.report().lines().count(), 2);
}

#[test]
fn concurrent_traps_are_reported_to_their_own_threads() {
    let module = common::wat(TRAPS);
    let region = Region::builder().slots(2).build().expect("a region");
    let all = expectations();
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (module, region, all, start) = (&module, &region, &all, &start);
            scope.spawn(move || {
                for round in 0..50 {
                    // Each thread uses another order, so that every pair of traps occurs at once.
                    for at in 0..all.len() {
                        let (name, message) = all[(at * (thread + 1) + round) % all.len()];
                        let mut instance = instance(region, module);
                        start.wait();
                        let trap = trap(&mut instance, name);
                        assert_eq!(trap.code().message(), message, "{name}");
                    }
                }
            });
        }
    });
    assert_eq!(region.slots_free(), 2);
}

#[test]
fn a_frame_larger_than_the_stack_is_a_trap() {
    // 2,500 live values need a frame of 20,000 bytes. The region has the smallest stack: 16 KiB.
    // The optimiser would take seconds for this function, and its frame has the same prologue.
    let mut text = String::from("(module (func $f (export \"f\") (param i64) (result i64) ");
    for _ in 0..2500 {
        text.push_str("(i64.mul (local.get 0) (local.get 0)) ");
        text.push_str("(local.set 0 (i64.add (local.get 0) (i64.const 1))) ");
    }
    text.push_str("(call $f (local.get 0)) ");
    text.push_str(&"i64.add ".repeat(2500));
    text.push_str("))");
    let mut options = Options::default();
    options.opt_level = OptLevel::None;
    let module = common::wat_with(&text, &options);
    let region = Region::builder()
        .slots(2)
        .stack_bytes(16 << 10)
        .build()
        .expect("a region");
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    // Another instance has the slot below; the overflow must not write to it.
    let mut below = prepared.instantiate(()).expect("a slot");
    let f = prepared.func::<i64, i64>("f").expect("it is exported");
    for _ in 0..3 {
        let mut above = prepared.instantiate(()).expect("a slot");
        for instance in [&mut above, &mut below] {
            match instance.call(&f, 1) {
                Err(CallError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::StackOverflow),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_trap_in_a_nested_guest_is_reported_to_its_caller() {
    let inner = common::wat(TRAPS);
    let region = Region::builder().slots(2).build().expect("a region");
    let outer = common::wat(
        "(module (import \"host\" \"run\" (func $run (param i32) (result i32)))
           (func (export \"go\") (param i32) (result i32)
             (i32.add (call $run (local.get 0)) (i32.load (i32.const -4))))
           (memory 1))",
    );
    let mut linker = Linker::<()>::new();
    let inner_region = region.clone();
    linker
        .func("host", "run", move |which: i32| -> Result<i32, HostError> {
            let (name, message) = expectations()[which as usize];
            let found = trap(&mut instance(&inner_region, &inner), name);
            assert_eq!(found.code().message(), message);
            Ok(which)
        })
        .expect("the name is free");
    let prepared = region.prepare(&outer, &linker).expect("it links");
    let go = prepared.func::<i32, i32>("go").expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    for which in 0..expectations().len() as i32 {
        match instance.call(&go, which) {
            Err(CallError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_error_with_a_trap_code_traps_the_guest() {
    let module = common::wat(
        "(module (import \"host\" \"no\" (func $no)) (func $f (export \"f\") (call $no)))",
    );
    let mut linker = Linker::<()>::new();
    linker
        .func("host", "no", || -> Result<(), Trap> {
            Err(Trap::new(TrapCode::NullReference))
        })
        .expect("the name is free");
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&module, &linker).expect("it links");
    let mut instance = prepared.instantiate(()).expect("a slot");
    let trap = trap(&mut instance, "f");
    assert_eq!(trap.code(), TrapCode::NullReference);
    assert_eq!(trap.backtrace()[0].func_name(), Some("f"));
}
