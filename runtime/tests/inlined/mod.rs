//! Inlined functions. Each guest is compiled with inlining, without, and without optimisation.
//! Results, traps with code and all frames, remaining fuel, memory and globals must be equal.

use crate::common;

mod random;

use pirn_compiler::{Compilation, Emit, OptLevel, Options};
use pirn_runtime::{
    CallError, Instance, Linker, Module, Prepared, Region, Trap, TrapCode, TypedFunc, Value,
};
use std::time::Duration;

/// Fuel before each call, where it is counted.
const FUEL: u64 = 100_000;

/// Options that decide whether functions are inlined. The first ones inline.
fn options(fuel: bool) -> [Options; 4] {
    [
        (OptLevel::Speed, true),
        (OptLevel::SpeedAndSize, true),
        (OptLevel::Speed, false),
        (OptLevel::None, true),
    ]
    .map(|(level, inline)| {
        let mut options = Options::default();
        (options.opt_level, options.inline, options.fuel) = (level, inline, fuel);
        options
    })
}

/// The results of a call, or its trap's code and frames (function and offset).
type Outcome = Result<Vec<Value>, (TrapCode, Vec<(u32, Option<u32>)>)>;

fn frames(trap: &Trap) -> (TrapCode, Vec<(u32, Option<u32>)>) {
    let frames = trap.backtrace().iter();
    let frames = frames.map(|frame| (frame.func_index(), frame.wasm_offset()));
    (trap.code(), frames.collect())
}

/// What a call does to its guest.
#[derive(Debug, PartialEq)]
struct Effect {
    outcome: Outcome,
    fuel: Option<u64>,
    global: Option<Value>,
    memory: Vec<u8>,
}

struct Guest {
    /// Keeps the preparation alive as long as the instance.
    prepared: Prepared<()>,
    instance: Instance<()>,
}

impl Guest {
    fn new(region: &Region, text: &str, options: &Options) -> Self {
        Self::of(region, &common::wat_with(text, options))
    }

    fn of(region: &Region, module: &Module) -> Self {
        let mut linker = Linker::new();
        let traps = |x: u32| match x {
            7 => Err(Trap::new(TrapCode::Unreachable)),
            x => Ok(x.wrapping_mul(3)),
        };
        linker.func("h", "f", traps).expect("the name is free");
        let prepared = region.prepare(module, &linker).expect("it fits");
        let instance = prepared.try_instantiate(()).expect("a slot is free");
        Self { prepared, instance }
    }

    fn call(&mut self, name: &str, params: &[Value], fuel: Option<u64>) -> Effect {
        if let Some(fuel) = fuel {
            self.instance.set_fuel(fuel).expect("it counts");
        }
        let result = self.instance.call_values(name, params);
        let outcome = result.map_err(|error| match error {
            CallError::Trap(trap) => frames(&trap),
            other => panic!("{other}"),
        });
        Effect {
            outcome,
            fuel: self.instance.fuel(),
            global: self.instance.global("g"),
            memory: self.instance.memory().as_slice().to_vec(),
        }
    }
}

/// The functions that the listing says are inlined, by index.
fn inlined(text: &str, options: &Options) -> Vec<String> {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let listing = Compilation::new(options).emit(Emit::Asm).run(&wasm);
    let listing = String::from_utf8(listing.expect("it is valid").bytes).expect("text");
    let mut all: Vec<_> = listing
        .lines()
        .filter_map(|line| {
            Some(
                line.split_once(" inlines ")?
                    .1
                    .rsplit_once(" @")?
                    .0
                    .to_owned(),
            )
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn region() -> Region {
    let region = Region::builder().slots(4).memories(2);
    region.build().expect("a region")
}

/// Makes calls of `run` in all variants of a guest. Returns the effects.
fn compare(region: &Region, text: &str, calls: &[Vec<Value>]) -> Vec<Effect> {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let mut effects = vec![];
    for fuels in [&[None][..], &[Some(FUEL), Some(15)]] {
        let options = options(fuels[0].is_some());
        let modules = options
            .each_ref()
            .map(|options| common::open_with(&wasm, options).expect("it is valid"));
        for fuel in fuels {
            let mut guests = modules.each_ref().map(|module| Guest::of(region, module));
            for params in calls {
                let [first, others @ ..] = &mut guests;
                let effect = first.call("run", params, *fuel);
                for (other, options) in others.iter_mut().zip(&options[1..]) {
                    let other = other.call("run", params, *fuel);
                    // The stack of a fault may have an older count of fuel, equal in all variants.
                    assert_eq!(effect, other, "{params:?}, {options:?}: {text}");
                }
                effects.push(effect);
            }
        }
    }
    effects
}

fn i32s(values: impl IntoIterator<Item = u32>) -> Vec<Vec<Value>> {
    let values = values.into_iter();
    values
        .map(|value| vec![Value::I32(value.cast_signed())])
        .collect()
}

/// A guest with these functions; `run` has an i32 as parameter and result.
fn guest(functions: &str, run: &str) -> String {
    format!(
        r#"(module (import "h" "f" (func $host (param i32) (result i32)))
             (memory 1) (memory $other 1) (global $g (export "g") (mut i32) (i32.const 5))
             {functions}
             (func $run (export "run") (param $x i32) (result i32) {run}))"#
    )
}

/// Functions that are inlined, and a body of `run` that calls them.
const LEAVES: [(&str, &str); 14] = [
    // Parameters are copies, locals start at zero, in each iteration.
    (
        "(func $leaf (param i32) (result i32) (local i32)
           (local.set 0 (i32.add (local.get 0) (local.get 1)))
           (local.set 1 (i32.const 9))
           (i32.mul (local.get 0) (i32.const 3)))",
        "(local $n i32) (local $sum i32)
         (loop (local.set $sum (i32.add (local.get $sum) (call $leaf (local.get $x))))
           (br_if 0 (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 9))))
         (i32.add (local.get $sum) (local.get $x))",
    ),
    // `return`, branches out of the body, and the end.
    (
        "(func $leaf (param i32) (result i32)
           (if (i32.eq (local.get 0) (i32.const 3)) (then (return (i32.const 30))))
           (if (result i32) (i32.gt_u (local.get 0) (i32.const 6))
             (then (br 1 (i32.const 60))) (else (local.get 0))))",
        "(i32.add (call $leaf (local.get $x)) (i32.const 1000))",
    ),
    // Operands below the parameters stay.
    (
        "(func $leaf (param i32 i32) (result i32 i32)
           (br_if 0 (local.get 1) (local.get 0) (local.get 0)) (return))",
        "(i32.const 1000) (call $leaf (local.get $x) (i32.const 17)) (i32.sub) (i32.add)",
    ),
    // Memories, globals and their order.
    (
        "(func $leaf (param i32) (result i32)
           (i32.store (local.get 0) (global.get $g))
           (global.set $g (i32.add (global.get $g) (i32.const 1)))
           (i32.load $other (local.get 0)))",
        "(i32.store $other (i32.const 8) (i32.const 99))
         (i32.add (call $leaf (i32.const 4)) (call $leaf (i32.shl (local.get $x) (i32.const 3))))",
    ),
    // Traps of each kind.
    (
        "(func $leaf (param i32) (result i32) (i32.div_s (i32.const 100) (local.get 0)))",
        "(call $leaf (i32.sub (local.get $x) (i32.const 3)))",
    ),
    (
        "(func $leaf (param i32) (if (i32.eqz (local.get 0)) (then (unreachable))))",
        "(call $leaf (local.get $x)) (call $leaf (i32.sub (local.get $x) (i32.const 5)))
         (i32.const 8)",
    ),
    (
        "(func $leaf unreachable)",
        "(if (local.get $x) (then (call $leaf))) (i32.const 8)",
    ),
    ("(func $leaf (result i32) unreachable)", "(call $leaf)"),
    (
        "(func $leaf (param i32) (result i32)
           (i32.load offset=4 (i32.mul (local.get 0) (i32.const 21840))))",
        "(i32.add (call $leaf (i32.const 0)) (call $leaf (local.get $x)))",
    ),
    (
        "(func $leaf (param f64) (result i32) (i32.trunc_f64_s (local.get 0)))",
        "(call $leaf (f64.mul (f64.convert_i32_u (local.get $x)) (f64.const 500000000)))",
    ),
    // Leaves in leaves, each of which may trap.
    (
        "(func $inner (param i32) (result i32) (i32.rem_u (i32.const 50) (local.get 0)))
         (func $middle (param i32) (result i32)
           (i32.add (call $inner (local.get 0)) (i32.load (local.get 0))))
         (func $leaf (param i32) (result i32)
           (i32.add (call $middle (local.get 0)) (i32.const 1)))",
        "(i32.add (call $leaf (i32.const 7))
           (call $leaf (i32.mul (local.get $x) (i32.const 13104))))",
    ),
    // The load is the first instruction after the call of the host, which traps for 7.
    (
        "(func $leaf (param i32) (result i32) (i32.load (local.get 0)))",
        "(call $leaf (call $host (local.get $x)))",
    ),
    // Vectors and numbers of 64 bits.
    (
        "(func $leaf (param v128 i64) (result i64) (local v128)
           (local.set 2 (i64x2.add (local.get 0) (local.get 2)))
           (i64.div_u (i64x2.extract_lane 1 (local.get 2)) (local.get 1)))",
        "(i32.wrap_i64
           (call $leaf (i64x2.splat (i64.const 77)) (i64.extend_i32_u (local.get $x))))",
    ),
    // Through a table that is known.
    (
        "(type $t (func (param i32) (result i32))) (table 1 1 funcref) (elem (i32.const 0) $leaf)
         (func $leaf (type $t) (i32.div_u (i32.const 100) (local.get 0)))",
        "(call_indirect (type $t) (local.get $x) (i32.const 0))",
    ),
];

#[test]
fn inlined_functions_do_the_same() {
    let region = region();
    let (mut traps, mut outlasted) = (0, 0);
    for (functions, run) in LEAVES {
        let text = guest(functions, run);
        let options = options(false);
        for (options, inlines) in options.iter().zip([true, true, false, false]) {
            assert_eq!(!inlined(&text, options).is_empty(), inlines, "{text}");
        }
        for effect in compare(&region, &text, &i32s(0..9)) {
            match effect.outcome {
                Err((TrapCode::OutOfFuel, _)) => outlasted += 1,
                Err((_, frames)) => {
                    assert!(frames.iter().all(|(_, offset)| offset.is_some()));
                    traps += usize::from(frames.len() > 1);
                }
                Ok(_) => {}
            }
        }
    }
    assert!(traps >= 40 && outlasted >= 20, "{traps}, {outlasted}");
}

/// Three leaves in one another, the innermost of which traps: four frames.
#[test]
fn a_trap_names_each_inlined_function() {
    let (functions, run) = LEAVES[10];
    let text = guest(functions, run);
    let mut guest = Guest::new(&region(), &text, &Options::default());
    let effect = guest.call("run", &[Value::I32(0)], None);
    let (code, frames) = effect.outcome.expect_err("it traps");
    assert_eq!(code, TrapCode::IntegerDivideByZero);
    let functions: Vec<_> = frames.iter().map(|(func, _)| *func).collect();
    assert_eq!(functions, [1, 2, 3, 4]);
}

/// A callee that a tail call enters does not see its caller's frame.
#[test]
fn a_tail_call_of_a_small_function_leaves_its_caller() {
    let text = guest(
        "(func $leaf (param i32) (result i32) (i32.div_u (i32.const 100) (local.get 0)))
         (func $tail (param i32) (result i32) (return_call $leaf (local.get 0)))",
        "(i32.add (call $tail (local.get $x)) (i32.const 1))",
    );
    assert!(inlined(&text, &Options::default()).is_empty());
    let effects = compare(&region(), &text, &i32s(0..3));
    let (_, frames) = effects[0].outcome.as_ref().expect_err("it traps");
    let functions: Vec<_> = frames.iter().map(|(func, _)| *func).collect();
    assert_eq!(functions, [1, 3], "without the caller of the tail call");
}

/// Exceptions of other calls in the same `try` are caught, and traps of inlined functions are not.
#[test]
fn a_body_with_a_handler_inlines() {
    let text = guest(
        "(tag $e (param i32))
         (func $throws (param i32)
           (if (i32.eq (local.get 0) (i32.const 4)) (then (throw $e (i32.const 40)))))
         (func $leaf (param i32) (result i32) (i32.div_u (i32.const 100) (local.get 0)))",
        "(block (result i32)
           (try_table (catch $e 0)
             (local.set $x (call $leaf (local.get $x)))
             (call $throws (local.get $x))
             (local.set $x (i32.add (call $leaf (local.get $x)) (local.get $x)))
             (call $throws (local.get $x)))
           (local.get $x))",
    );
    assert_eq!(inlined(&text, &Options::default()), ["2 (leaf)"]);
    let effects = compare(&region(), &text, &i32s([0, 1, 5, 25, 50, 101]));
    let ended = effects.iter().map(|effect| effect.outcome.is_ok());
    assert!(ended.clone().any(|ok| ok) && ended.clone().any(|ok| !ok));
}

/// A loop that only calls an inlined function has no call left, and ends by a deadline, a kill and
/// a slice.
#[test]
fn a_loop_of_inlined_calls_can_be_stopped() {
    let text = guest(
        "(func $leaf (param i32) (result i32) (i32.add (local.get 0) (global.get $g)))",
        "(loop $l (local.set $x (call $leaf (local.get $x))) (br $l)) (unreachable)",
    );
    assert_eq!(inlined(&text, &Options::default()), ["1 (leaf)"]);
    let region = region();
    let Guest {
        prepared,
        mut instance,
    } = Guest::new(&region, &text, &Options::default());
    let run: TypedFunc<u32, u32> = prepared.func("run").expect("it is exported");
    let frames = common::retry::with_longer_limits(Duration::from_millis(20), |limit| {
        let ended = instance.deadline(limit).call(&run, 1);
        let Err(CallError::Deadline(stop)) = ended else {
            panic!("{ended:?}")
        };
        let frames = stop.backtrace().iter();
        let frames: Vec<_> = frames.map(pirn_runtime::Frame::func_index).collect();
        // Without frames, the deadline passed before the guest ran.
        (!frames.is_empty()).then_some(frames)
    });
    assert_eq!(frames.last(), Some(&2), "{frames:?}");
    let switch = instance.kill_switch();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| instance.call(&run, 1));
        while !switch.is_running() {
            std::thread::yield_now();
        }
        switch.kill().expect("it runs");
        let ended = running.join().expect("no panic");
        assert!(matches!(ended, Err(CallError::Killed(_))), "{ended:?}");
    });
}

/// Recursion through small functions overflows the stack where it does without inlining: in the
/// recursive function.
#[test]
fn recursion_with_inlined_calls_overflows_the_stack() {
    let text = guest(
        "(func $leaf (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
         (func $deep (param i32) (result i32)
           (local i64 i64 i64)
           (i32.add (call $deep (call $leaf (local.get 0))) (call $leaf (local.get 0))))",
        "(call $deep (local.get $x))",
    );
    let region = region();
    for options in options(false) {
        let mut guest = Guest::new(&region, &text, &options);
        let effect = guest.call("run", &[Value::I32(0)], None);
        let (code, frames) = effect.outcome.expect_err("it is endless");
        assert_eq!(code, TrapCode::StackOverflow);
        assert_eq!(frames.len(), 64);
        assert!(frames.iter().all(|(func, _)| *func == 2), "{frames:?}");
    }
}

/// A backtrace has at most 64 frames, and says if there are more, also if inlined functions make
/// it one longer.
#[test]
fn the_frames_of_inlined_functions_count() {
    let region = region();
    // 61 to 64 frames in total, and one more.
    for depth in 59..64 {
        let text = guest(
            "(func $leaf (param i32) (result i32) (i32.div_u (i32.const 100) (local.get 0)))
             (func $deep (param i32) (result i32)
               (if (result i32) (local.get 0)
                 (then (i32.add (call $deep (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
                 (else (call $leaf (i32.const 0)))))",
            "(i32.add (call $deep (local.get $x)) (i32.const 1))",
        );
        let reports = options(false).map(|options| {
            let mut guest = Guest::new(&region, &text, &options);
            let ended = guest.instance.call_values("run", &[Value::I32(depth)]);
            let Err(CallError::Trap(trap)) = ended else {
                panic!("{ended:?}")
            };
            trap.report()
        });
        assert!(
            reports.iter().all(|report| *report == reports[3]),
            "{reports:?}"
        );
        assert_eq!(reports[0].ends_with("... and more"), depth > 61, "{depth}");
    }
}

/// An inlined function that never returns ends the code after its call.
#[test]
fn code_after_a_call_that_never_returns_is_valid() {
    for run in [
        "(call $leaf) (call $host (local.get $x))",
        "(block (call $leaf) (br 0)) (i32.const 1)",
        "(if (result i32) (local.get $x) (then (call $leaf) (i32.const 1)) (else (i32.const 2)))",
        "(loop (call $leaf) (br 0)) (i32.const 1)",
        "(call $leaf) (loop (result i32) (if (local.get $x) (then (br 1))) (i32.const 5))",
    ] {
        let text = guest("(func $leaf (unreachable))", run);
        compare(&region(), &text, &i32s(0..2));
    }
}
