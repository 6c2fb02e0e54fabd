//! A `Caller` may make nested calls only while its guest waits for that caller's host function, on
//! the same thread. An embedder also uses callers at other times and on other threads. The runtime
//! must refuse those nested calls.

use super::common::values::region;
use super::{ACT, Data, I, P, by_name, common, func, instance, linker, prepare, refused};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use pirn_runtime::{CallError, Caller, HostError, Step, TypedFunc};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

/// Calls the guest when it is dropped, and notes the result. The note is -1 if the runtime refuses
/// the call because the guest does not wait.
struct CallsLast<'a>(Caller<'a, Data>);

impl Drop for CallsLast<'_> {
    fn drop(&mut self) {
        let note = match by_name(&mut self.0, "add", 1) {
            Ok(n) => n,
            other => {
                refused(other);
                -1
            }
        };
        self.0.data_mut().notes.push(note);
    }
}

/// A future that is pending at its first poll and ready at its second. It panics at poll
/// number `panics_at`, or never if `panics_at` is 0.
struct Once {
    polls: u32,
    panics_at: u32,
}

impl Future for Once {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.polls += 1;
        assert_ne!(self.polls, self.panics_at, "this poll must panic");
        if self.polls == 2 {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An async host function that keeps its caller until its future is dropped. `how` is [`READY`],
/// [`FAILS`], [`NEVER_PANICS`], or the number of the poll that panics.
async fn waits(caller: Caller<'_, Data>, how: i32) -> Result<i32, HostError> {
    let mut last = CallsLast(caller);
    refused(last.0.func::<i32, i32>("add"));
    match how {
        READY => {}
        FAILS => return Err(HostError::message("the host function fails")),
        how => {
            let (polls, panics_at) = (0, how as u32);
            Once { polls, panics_at }.await;
        }
    }
    refused(by_name(&mut last.0, "add", 1));
    Ok(7)
}

/// Values of the parameter `how` of [`waits`]. Any other value is the number of the poll that
/// panics.
const READY: i32 = -1;
const FAILS: i32 = -2;
const NEVER_PANICS: i32 = 0;

fn text() -> String {
    format!(
        r#"(module {ACT}
          (import "h" "wait" (func $wait (param i32) (result i32)))
          (import "h" "ask" (func $ask (param i32) (result i32)))
          (func (export "add") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
          (func (export "run") (param i32) (result i32) (call $act (local.get 0)))
          (func (export "waits") (param i32) (result i32) (call $wait (local.get 0)))
          (func (export "asks") (param i32) (result i32) (call $ask (local.get 0)))
          (func (export "acts and waits") (param i32) (result i32)
            (call $wait (call $act (local.get 0)))))"#
    )
}

/// Prepares the guest with a synchronous, an async, and an asking host function.
fn prepare_all() -> P {
    let mut linker = linker();
    linker
        .func_async("h", "wait", |caller, how: i32| Box::pin(waits(caller, how)))
        .and_then(|linker| {
            linker.func_ask(
                "h",
                "ask",
                |caller, n: i32| {
                    let mut last = CallsLast(caller);
                    Ok(by_name(&mut last.0, "add", n)?)
                },
                |caller, _: i32, answer| {
                    let mut last = CallsLast(caller);
                    refused(last.0.func::<i32, i32>("add"));
                    refused(by_name(&mut last.0, "add", 1));
                    answer
                },
            )
        })
        .expect("the names are free");
    let region = region(3);
    let prepared = region.prepare(&common::wat(&text()), &linker);
    prepared.expect("the module links")
}

/// Polls a call until it is ready, and returns its result.
fn finish<R>(mut running: Pin<&mut impl Future<Output = R>>) -> R {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = running.as_mut().poll(&mut context) {
            return result;
        }
    }
}

/// Checks that the instance still works: a host function makes a nested call in it.
fn works(prepared: &P, instance: &mut I) {
    instance.data_mut().act = Data::new(|mut caller, n| Ok(by_name(&mut caller, "add", n)?)).act;
    let run = func(prepared, "run");
    assert_eq!(instance.call(&run, 4).expect("the instance works"), 5);
    instance.data_mut().notes.clear();
}

/// A host function drops a value whose destructor calls the guest. The call must succeed, also
/// while a panic unwinds the host function.
#[test]
fn a_host_function_calls_while_it_is_unwound() {
    let prepared = prepare_all();
    let run = func(&prepared, "run");
    let data = Data::new(|caller, n| {
        let last = CallsLast(caller);
        assert_ne!(n, 1, "parameter 1 must panic");
        match n {
            2 => Err(HostError::message("the host function fails")),
            _ => Ok(last.0.data().notes.len() as i32),
        }
    });
    let mut instance = instance(&prepared, data);
    for turn in 0..3 {
        assert_eq!(
            instance.call(&run, 0).expect("the call returns"),
            3 * turn,
            "number of notes before the drop"
        );
        let error = instance
            .call(&run, 1)
            .expect_err("the host function panics");
        assert!(matches!(error, CallError::Panic(_)), "{error:?}");
        let error = instance.call(&run, 2).expect_err("the call fails");
        assert!(matches!(error, CallError::Host(_)), "{error:?}");
    }
    assert_eq!(instance.data().notes, [2; 9]);
    works(&prepared, &mut instance);
}

/// The future of an async host function tries nested calls in its polls and in its destructor. The
/// runtime must refuse all of them, however the call ends.
#[test]
fn the_future_of_a_host_function_never_calls() {
    let prepared = prepare_all();
    let waits = func(&prepared, "waits");
    let mut instance = instance(&prepared, Data::new(|_, n| Ok(n)));
    for how in [READY, NEVER_PANICS] {
        let mut running = Box::pin(instance.call_async(&waits, how));
        assert_eq!(finish(running.as_mut()).expect("the call returns"), 7);
        drop(running);
        assert_eq!(instance.data().notes, [-1]);
        works(&prepared, &mut instance);
    }
    for how in [FAILS, 1, 2] {
        let mut running = Box::pin(instance.call_async(&waits, how));
        let error = finish(running.as_mut()).expect_err("the call fails");
        let as_asked = match how {
            FAILS => matches!(error, CallError::Host(_)),
            _ => matches!(error, CallError::Panic(_)),
        };
        assert!(as_asked, "{error:?}");
        drop(running);
        assert_eq!(instance.data().notes, [-1]);
        works(&prepared, &mut instance);
    }
    // The embedder drops or kills the call while it is pending.
    let mut context = Context::from_waker(Waker::noop());
    let switch = instance.kill_switch();
    for killed in [false, true] {
        let mut running = Box::pin(instance.call_async(&waits, NEVER_PANICS));
        assert!(running.as_mut().poll(&mut context).is_pending());
        if killed {
            switch.kill().expect("the instance exists");
            let error = finish(running.as_mut()).expect_err("the guest was killed");
            assert!(matches!(error, CallError::Killed(_)), "{error:?}");
        }
        drop(running);
        assert_eq!(instance.data().notes, [-1]);
        instance.data_mut().notes.clear();
    }
}

/// An asking host function has two parts. The part that asks may make nested calls. The part that
/// receives the answer may not.
#[test]
fn an_answer_is_given_without_calls() {
    let prepared = prepare_all();
    let asks = func(&prepared, "asks");
    let mut instance = instance(&prepared, Data::new(|_, n| Ok(n)));
    for _ in 0..3 {
        assert_eq!(
            instance.start(&asks, 3).expect("the guest asks"),
            Step::Asked(4)
        );
        assert_eq!(instance.data().notes, [2]);
        let step = instance.resume_with(&asks, 9).expect("the call returns");
        assert_eq!(step, Step::Returned(9));
        assert_eq!(instance.data().notes, [2, -1]);
        works(&prepared, &mut instance);
    }
}

/// A host function of one instance runs a second instance, which asks, waits, and returns. Each
/// caller can call its own guest only while that guest waits for the caller's host function.
#[test]
fn an_instance_inside_a_host_function_has_its_own_callers() {
    let prepared = prepare_all();
    let inner = instance(
        &prepared,
        Data::new(|mut caller, n| Ok(by_name(&mut caller, "add", n)?)),
    );
    let (inner, funcs) = (Mutex::new(inner), prepared.clone());
    let data = Data::new(move |mut caller, n| {
        let mut inner = inner.lock().expect("no thread panicked");
        let (asks, waits) = (func(&funcs, "asks"), func(&funcs, "waits"));
        assert_eq!(
            inner.start(&asks, 3).expect("the guest asks"),
            Step::Asked(4)
        );
        assert_eq!(by_name(&mut caller, "add", n)?, n + 1);
        let step = inner.resume_with(&asks, 9).expect("the call returns");
        assert_eq!(step, Step::Returned(9));
        let run = func(&funcs, "acts and waits");
        let mut running = Box::pin(inner.call_async(&run, READY - 1));
        assert_eq!(finish(running.as_mut()).expect("the call returns"), 7);
        drop(running);
        // This host function makes a nested call, then polls the future again and drops it.
        let mut running = Box::pin(inner.call_async(&waits, NEVER_PANICS));
        let mut context = Context::from_waker(Waker::noop());
        assert!(running.as_mut().poll(&mut context).is_pending());
        assert_eq!(by_name(&mut caller, "add", n)?, n + 1);
        assert_eq!(finish(running.as_mut()).expect("the call returns"), 7);
        drop(running);
        let mut running = Box::pin(inner.call_async(&waits, NEVER_PANICS));
        assert!(running.as_mut().poll(&mut context).is_pending());
        drop(running);
        assert_eq!(inner.data().notes, [2, -1, -1, -1, -1]);
        inner.data_mut().notes.clear();
        Ok(by_name(&mut caller, "add", n)?)
    });
    let mut outer = instance(&prepared, data);
    let run = func(&prepared, "run");
    for n in 0..3 {
        assert_eq!(outer.call(&run, n).expect("the call returns"), n + 1);
    }
    // Repeat this inside a nested call: the inner host function runs the second instance.
    let deep = outer.data().act.clone();
    outer.data_mut().act = Data::new(move |mut caller, n| match n {
        0 => deep(caller, n),
        n => Ok(by_name(&mut caller, "run", n - 1)?),
    })
    .act;
    assert_eq!(outer.call(&run, 3).expect("the call returns"), 1);
}

/// The embedder leaks a future while its async host function is pending. The runtime must never
/// poll the host function's future again. After a cancel, the instance must make nested calls
/// again.
#[test]
fn a_forgotten_future_leaves_nothing_that_calls() {
    let prepared = prepare_all();
    let waits = func(&prepared, "waits");
    let mut instance = instance(&prepared, Data::new(|_, n| Ok(n)));
    for _ in 0..3 {
        let mut running = Box::pin(instance.call_async(&waits, NEVER_PANICS));
        let mut context = Context::from_waker(Waker::noop());
        assert!(running.as_mut().poll(&mut context).is_pending());
        std::mem::forget(running);
        let error = instance
            .call(&waits, READY)
            .expect_err("the instance is suspended");
        assert!(matches!(error, CallError::State(_)), "{error:?}");
        instance.cancel();
        works(&prepared, &mut instance);
    }
}

/// A host function gives its caller to another thread and waits for that thread. The runtime must
/// refuse look-ups and nested calls there, but not memory accesses. Later nested calls on the
/// first thread must succeed, even after a panic on the other thread.
#[test]
fn another_thread_reads_and_does_not_call() {
    let prepared = prepare(&format!(
        r#"(module {ACT} (memory (export "memory") 1)
          (func (export "add") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
          (func (export "run") (param i32) (result i32)
            (i32.add (call $act (local.get 0)) (i32.load8_u (i32.const 9)))))"#
    ));
    let run = func(&prepared, "run");
    let data = Data::new(|mut caller, n| {
        let add: TypedFunc<i32, i32> = caller.func("add")?;
        let done = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|scope| {
                let there = scope.spawn(|| {
                    refused(caller.func::<i32, i32>("add"));
                    refused(caller.call(&add, n));
                    caller
                        .memory_mut()
                        .write(9, &[n as u8])
                        .expect("the memory has a page");
                    assert_ne!(n, 1, "parameter 1 must panic");
                });
                there.join().expect("only parameter 1 panics");
            });
        }));
        assert_eq!(done.is_err(), n == 1);
        Ok(caller.call(&add, n)?)
    });
    let mut instance = instance(&prepared, data);
    for n in [0, 1, 2] {
        assert_eq!(instance.call(&run, n).expect("the call returns"), 2 * n + 1);
    }
}

/// A caller is `Send` if the host's data is `Send`, and `Sync` if the data is `Sync`.
#[test]
fn callers_are_as_movable_as_their_data() {
    fn sent<T: Send>() {}
    fn shared<T: Sync>() {}
    sent::<Caller<'static, std::cell::Cell<i32>>>();
    shared::<Caller<'static, Data>>();
    sent::<TypedFunc<i32, i32>>();
    shared::<TypedFunc<i32, i32>>();
}
