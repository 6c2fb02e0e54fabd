//! Errors of nested calls. Each error must reach the outer call unchanged, through every level of
//! host functions that return it.

use super::{ACT, Data, I, by_name, func, instance, names, prepare};
use pirn_runtime::{CallError, Caller, HostBytesError, HostError, Measure, Step, TrapCode, Value};
use std::fmt;
use std::panic::panic_any;

fn text() -> String {
    format!(
        r#"(module {ACT}
          (tag $t (export "t") (param i32))
          (func (export "add") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
          (func $run (export "run") (param i32) (result i32)
            (block $caught (result i32)
              (try_table (catch $t $caught) (return (call $act (local.get 0))))
              unreachable))
          (func $traps (export "traps") (param i32) (result i32) unreachable)
          (func $throws (export "throws") (param i32) (result i32) (throw $t (local.get 0))))"#
    )
}

/// An error type of the embedder.
#[derive(Debug)]
struct Own(i32);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "own error {}", self.0)
    }
}

impl std::error::Error for Own {}

/// Calls the guest, and returns the error of that call. Host functions make nested calls down to a
/// depth of `levels`. The innermost host function runs `end`. Each other host function returns the
/// error of its nested call.
fn ended(
    levels: i32,
    end: impl Fn(Caller<'_, Data>) -> Result<i32, HostError> + Send + Sync + 'static,
) -> CallError {
    let prepared = prepare(&text());
    let run = func(&prepared, "run");
    let mut instance = instance(
        &prepared,
        Data::new(move |mut caller, n| match n {
            0 => end(caller),
            n => Ok(by_name(&mut caller, "run", n - 1)?),
        }),
    );
    let error = instance.call(&run, levels).expect_err("the call fails");
    if matches!(error, CallError::Killed(_)) {
        return error;
    }
    // A host function must still be able to make a nested call in the instance.
    instance.data_mut().act = Data::new(|mut caller, n| Ok(by_name(&mut caller, "add", n)?)).act;
    assert_eq!(instance.call(&run, 1).expect("the instance works"), 2);
    error
}

#[test]
fn each_error_arrives_as_it_was() {
    for levels in [0, 1, 3, 30] {
        let error = ended(levels, |mut caller| Ok(by_name(&mut caller, "traps", 1)?));
        let CallError::Trap(trap) = &error else {
            panic!("expected a trap, found {error:?}");
        };
        assert_eq!(trap.code(), TrapCode::Unreachable);
        assert_eq!(names(trap.backtrace()), ["traps"]);
        // No exception handler of a waiting guest catches the exception.
        let error = ended(levels, |mut caller| Ok(by_name(&mut caller, "throws", 7)?));
        let CallError::Exception(exception) = &error else {
            panic!("expected an exception, found {error:?}");
        };
        assert_eq!(
            (exception.tag(), exception.values()),
            (Some("t"), &[Value::I32(7)][..])
        );
        let error = ended(levels, |_| Err(Own(8).into()));
        let CallError::Host(error) = &error else {
            panic!("expected a host error, found {error:?}");
        };
        assert_eq!(
            error
                .downcast_ref::<Own>()
                .expect("`end` returns this error")
                .0,
            8
        );
        let error = ended(levels, |_| panic_any(Own(9)));
        let CallError::Panic(panic) = error else {
            panic!("expected a panic, found {error:?}");
        };
        assert_eq!(names(panic.backtrace()), ["run"]);
        let payload = panic.into_payload().downcast::<Own>();
        assert_eq!(payload.expect("`end` panics with this payload").0, 9);
        let error = ended(levels, |mut caller| Ok(by_name(&mut caller, "nothing", 1)?));
        assert!(matches!(error, CallError::Invalid(_)), "{error:?}");
        let error = ended(levels, |caller| {
            caller.func::<i64, i64>("add")?;
            Ok(0)
        });
        assert!(matches!(error, CallError::Lookup(_)), "{error:?}");
        let error = ended(levels, |caller| {
            let switch = caller.data().switch.clone();
            switch.expect("the kill switch is stored").kill()?;
            Ok(0)
        });
        assert!(matches!(error, CallError::Killed(_)), "{error:?}");
        let error = ended(levels, |mut caller| {
            caller.hold_host_bytes(usize::MAX)?;
            Ok(0)
        });
        let CallError::Trap(trap) = &error else {
            panic!("expected a trap, found {error:?}");
        };
        assert_eq!(trap.code(), TrapCode::HostMemoryExhausted);
        let refused: HostBytesError = trap
            .host_bytes()
            .expect("the trap reports the number of bytes");
        assert_eq!(refused.asked, usize::MAX);
        // The host function extracts the trap from the error and returns the trap itself. The
        // backtrace then shows the waiting guest.
        let error = ended(levels, |mut caller| {
            match by_name(&mut caller, "traps", 1) {
                Err(CallError::Trap(trap)) => Err(trap.into()),
                other => panic!("{other:?}"),
            }
        });
        let CallError::Trap(trap) = &error else {
            panic!("expected a trap, found {error:?}");
        };
        assert_eq!(names(trap.backtrace()), ["run"]);
    }
}

/// A host function discards the errors of nested calls. Later results must not report them.
#[test]
fn an_error_that_is_swallowed_leaves_nothing() {
    let prepared = prepare(&text());
    let run = func(&prepared, "run");
    let mut instance = instance(
        &prepared,
        Data::new(|mut caller, n| {
            for name in ["traps", "throws", "nothing"] {
                by_name(&mut caller, name, n).expect_err("the call fails");
            }
            assert_eq!(by_name(&mut caller, "add", n)?, n + 1);
            match n {
                3 => Ok(by_name(&mut caller, "throws", n)?),
                n => Ok(n),
            }
        }),
    );
    assert_eq!(instance.call(&run, 1).expect("the call returns"), 1);
    let error = instance.call(&run, 3).expect_err("the guest throws");
    assert!(matches!(error, CallError::Exception(_)), "{error:?}");
    assert_eq!(
        instance.start(&run, 1).expect("the guest runs"),
        Step::Returned(1)
    );
}

/// An instance counts the time and the host calls of nested calls once, as part of the outer call.
#[test]
fn usage_is_counted_once() {
    let prepared = prepare(&text()).measured(Measure::CpuTime);
    let run = func(&prepared, "run");
    let mut instance: I = instance(
        &prepared,
        Data::new(|mut caller, n| match n {
            0 => Ok(0),
            n => Ok(by_name(&mut caller, "run", n - 1)?),
        }),
    );
    let begun = std::time::Instant::now();
    for turn in 1..=10 {
        assert_eq!(instance.call(&run, 9).expect("the call returns"), 0);
        assert_eq!(instance.usage().host_calls, Some(10 * turn));
    }
    let running = instance.usage().running_time.expect("the time is measured");
    assert!(
        running <= begun.elapsed(),
        "running time above elapsed time: {running:?}"
    );
    let cpu = instance.usage().cpu_time.expect("the time is measured");
    // The kernel corrects the rate of the monotonic clock, but not that of processor time.
    let elapsed = begun.elapsed();
    assert!(
        cpu <= elapsed + elapsed / 100 + std::time::Duration::from_micros(10),
        "CPU time above elapsed time: {cpu:?}"
    );
}
