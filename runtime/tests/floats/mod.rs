//! Guests compute by WebAssembly's rules, whatever floating-point mode the calling thread has. The
//! thread gets its own mode back, however the guest's call ends.

mod arch;
use crate::common;

use arch as control;
use common::retry::with_more_iterations;
use core::cell::Cell;
use core::hint::black_box;
use pirn_runtime::{CallError, HostError, Instance, Linker, Prepared, Region, Step, TrapCode};
use std::thread;
use std::time::Duration;

const GUEST: &str = r#"(module
  (import "h" "f" (func $f (param f64) (result f64)))
  (import "h" "ask" (func $ask (param f64) (result f64)))
  ;; Not constants, which the compiler would compute with.
  (global $one (mut f64) (f64.const 1)) (global $three (mut f64) (f64.const 3))
  (global $small (mut f64) (f64.const 0x1p-1000)) (global $zero (mut f64) (f64.const 0))
  (func $third (result f64) (f64.div (global.get $one) (global.get $three)))
  (func $tiny (result f64) (f64.mul (global.get $small) (f64.const 0x1p-60)))
  (func $endless (result f64) (f64.div (global.get $one) (global.get $zero)))
  (func $all (result f64 f64 f64) (call $third) (call $tiny) (call $endless))
  (func (export "all") (result f64 f64 f64) (call $all))
  (func (export "hosts") (result f64 f64 f64) (drop (call $f (f64.const 1))) (call $all))
  (func (export "asks") (result f64 f64 f64) (drop (call $ask (f64.const 1))) (call $all))
  (func (export "traps") (drop (call $all)) (drop) (drop) unreachable)
  (func (export "outside") (drop (f64.load (i32.const 65536))))
  (func (export "forever") (loop (br 0)))
  ;; Turns first, so that it is preempted.
  (func (export "turns") (param $n i32) (result f64 f64 f64)
    (loop (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (call $all))
  (memory 1))"#;

type All = (f64, f64, f64);

thread_local! {
    /// Code that the next call of the host function on this thread runs.
    static NESTED: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// 1/3 rounded to nearest, a denormal, and infinity.
const ALL: All = (
    0.333_333_333_333_333_3,
    f64::from_bits(1 << 14),
    f64::INFINITY,
);

/// Runs code with these control bits, and checks that they are unchanged afterwards.
fn set_to<R>(bits: impl Into<u64>, run: impl FnOnce() -> R) -> R {
    control::set(
        bits.into()
            .try_into()
            .expect("the control register has this width"),
    );
    let (wanted, result) = (control::get(), run());
    let found = control::get();
    control::set(control::PLAIN);
    assert_eq!(found, wanted, "the control register is restored");
    result
}

fn prepared() -> Prepared<(), f64, f64> {
    let mut linker = Linker::asking();
    let f = |x: f64| -> Result<f64, HostError> {
        // Host functions run with WebAssembly's mode, as Rust code expects.
        assert_eq!(control::get(), control::PLAIN);
        if let Some(nested) = NESTED.take() {
            nested();
        }
        Ok(black_box(x) / 3.0)
    };
    linker.func("h", "f", f).expect("the name is free");
    let ask = linker.func_ask("h", "ask", |_, x: f64| Ok(x), |_, _: f64, y: f64| y);
    ask.expect("the name is free");
    let region = Region::builder().slots(2).build().expect("a region");
    let module = common::wat(GUEST);
    region.prepare(&module, &linker).expect("it is linked")
}

/// An instance, created with the thread's default mode.
fn instance(prepared: &Prepared<(), f64, f64>) -> Instance<(), f64, f64> {
    prepared.try_instantiate(()).expect("a slot is free")
}

#[test]
fn guests_ignore_the_hosts_floating_point_mode() {
    let prepared = prepared();
    for name in ["all", "hosts"] {
        let func = prepared.func::<(), All>(name).expect("it is exported");
        for bits in [control::PLAIN, control::ODD, control::FAULTING] {
            let result = set_to(bits, || instance(&prepared).call(&func, ()));
            assert_eq!(result.expect("it returns"), ALL, "{name}, {bits:#x}");
        }
    }
}

#[test]
fn the_host_gets_its_floating_point_mode_back() {
    let prepared = prepared();
    let mut guest = set_to(control::FAULTING, || instance(&prepared));
    let traps = [
        ("traps", TrapCode::Unreachable),
        ("outside", TrapCode::MemoryOutOfBounds),
    ];
    for (name, code) in traps {
        let func = prepared.func::<(), ()>(name).expect("it is exported");
        match set_to(control::FAULTING, || guest.call(&func, ())) {
            Err(CallError::Trap(trap)) => assert_eq!(trap.code(), code, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let forever = prepared.func::<(), ()>("forever").expect("it is exported");
    let ended = set_to(control::FAULTING, || {
        guest.deadline(Duration::from_millis(2)).call(&forever, ())
    });
    assert!(matches!(ended, Err(CallError::Deadline(_))), "{ended:?}");
}

/// A resumed guest has WebAssembly's mode, whatever mode the resuming thread has.
#[test]
fn a_resumed_guest_has_its_own_floating_point_mode() {
    let prepared = prepared();
    let asks = prepared.func::<(), All>("asks").expect("it is exported");
    // The threads that start and that resume a call may have different modes.
    for (first, then) in [
        (control::PLAIN, control::FAULTING),
        (control::FAULTING, control::PLAIN),
        (control::FAULTING, control::ODD),
    ] {
        let (mut guest, step) = set_to(first, || {
            let mut guest = instance(&prepared);
            let step = guest.start(&asks, ());
            (guest, step)
        });
        assert_eq!(step.expect("it asks"), Step::Asked(1.0));
        let gone_on = thread::spawn(move || set_to(then, || guest.resume_with(&asks, 2.0)));
        let step = gone_on.join().expect("no panic");
        assert_eq!(step.expect("it returns"), Step::Returned(ALL));
    }
}

/// A preempted guest has WebAssembly's mode on every thread that resumes it.
#[test]
fn a_preempted_guest_has_its_own_floating_point_mode() {
    let prepared = prepared();
    let turns = prepared.func::<i32, All>("turns").expect("it is exported");
    let slice = Duration::from_millis(1);
    let mut guest = instance(&prepared);
    with_more_iterations(100_000_000, |iterations| {
        let (mut steps, mut step) = (0, None);
        while step.is_none_or(|step| step == Step::Preempted) {
            let bits = [control::FAULTING, control::PLAIN, control::ODD][steps % 3];
            steps += 1;
            let guest = &mut guest;
            let run = move || {
                set_to(bits, || match step {
                    None => guest.timeslice(slice).start(&turns, iterations),
                    Some(_) => guest.timeslice(slice).resume(&turns),
                })
            };
            // A new thread, which has called no guest yet.
            let stepped = thread::scope(|scope| scope.spawn(run).join().expect("no panic"));
            step = Some(stepped.expect("the guest resumes"));
        }
        assert_eq!(step, Some(Step::Returned(ALL)));
        (steps > 1).then_some(())
    });
}

#[test]
fn instantiation_reads_the_threads_mode_again() {
    let prepared = prepared();
    let all = prepared.func::<(), All>("all").expect("it is exported");
    let call = || instance(&prepared).call(&all, ()).expect("it returns");
    // Default mode, two changed modes, and the default mode again.
    assert_eq!(call(), ALL);
    assert_eq!(set_to(control::ODD, call), ALL);
    assert_eq!(set_to(control::FAULTING, call), ALL);
    assert_eq!(call(), ALL);
    // A new thread inherits the mode.
    let inherited = set_to(control::FAULTING, || {
        thread::scope(|scope| {
            let made = scope.spawn(|| (call(), control::get()));
            made.join().expect("no panic")
        })
    });
    assert_eq!(inherited.0, ALL);
}

#[test]
fn a_nested_call_does_not_change_the_detected_mode() {
    let prepared = prepared();
    let hosts = prepared.func::<(), All>("hosts").expect("it is exported");
    let all = prepared.func::<(), All>("all").expect("it is exported");
    for bits in [control::ODD, control::FAULTING] {
        set_to(bits, || {
            let (mut outer, mut inner) = (instance(&prepared), instance(&prepared));
            let nested = move || assert_eq!(inner.call(&all, ()).expect("it returns"), ALL);
            NESTED.set(Some(Box::new(nested)));
            assert_eq!(
                outer.call(&hosts, ()).expect("it returns"),
                ALL,
                "{bits:#x}"
            );
            assert_eq!(outer.call(&all, ()).expect("it returns"), ALL, "{bits:#x}");
        });
    }
}
