//! Host functions that fork the process before, inside, and after a nested call.

use super::common::setup::{child, ended_well, fork};
use super::{ACT, Data, by_name, common, func};
use pirn_runtime::{CallError, Region, Reset};

/// The points at which a host function forks the process.
const PLACES: [&str; 4] = ["before", "inside", "after", "twice"];

#[test]
fn a_process_that_forks_around_a_nested_call_has_the_same_guest_or_none() {
    common::setup::everywhere("forks");
}

/// A child process runs this function. Host functions fork at each point, in instances with and
/// without a kill switch.
pub(super) fn case(reset: Reset) {
    let text = format!(
        r#"(module {ACT} (memory (export "memory") 1)
          (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0)))
          (func (export "inner") (param i32) (result i32)
            (i32.store8 (i32.const 101) (i32.const 5))
            (i32.add (call $act (i32.const 9)) (i32.load8_u (i32.const 101))))
          (func (export "run") (param i32) (result i32)
            (i32.store8 (i32.const 100) (i32.const 7))
            (i32.add (call $act (local.get 0)) (i32.load8_u (i32.const 100)))))"#
    );
    let module = common::wat(&text);
    for (place, watched) in PLACES
        .into_iter()
        .flat_map(|place| [(place, false), (place, true)])
    {
        let region = Region::builder().slots(2).reset(reset).build();
        let prepared = region
            .expect("the region is built")
            .prepare(&module, &super::linker());
        let prepared = prepared.expect("the module links");
        let run = func(&prepared, "run");
        let parent = std::process::id();
        let here = move || std::process::id() == parent;
        let data = Data::new(move |mut caller, n| {
            // The outer host function gets the parameter 0, and the inner host function gets 9. In
            // a forked process, both add 1000 to their results.
            let told = |n| if here() { n } else { n + 1000 };
            if n == 9 {
                if place == "inside" || place == "twice" {
                    forks(here());
                }
                return Ok(told(20));
            }
            if place == "before" {
                forks(here());
            }
            let inner = by_name(&mut caller, "inner", 0);
            if place == "after" || place == "twice" {
                forks(here());
            }
            let whole = here() || reset != Reset::Tracked;
            if whole {
                let inner = inner?;
                assert!(inner == 25 || inner == 1025, "wrong result: {inner}");
                return Ok(told(inner % 1000));
            }
            // A tracked region does not give its memory to a forked process. So no guest may
            // continue there, whatever the host function does.
            let ended =
                by_name(&mut caller, "load", 100).expect_err("the forked process lacks the memory");
            is_refused(&ended);
            match inner {
                Ok(_) => assert!(["after", "twice"].contains(&place), "{place}"),
                Err(error) => {
                    assert_ne!(place, "after");
                    is_refused(&error);
                }
            }
            assert_eq!(caller.memory().len(), 0);
            Ok(1)
        });
        let mut instance = prepared.try_instantiate(data).expect("a slot is free");
        if watched {
            let _ = instance.kill_switch();
        }
        let ended = instance.call(&run, 0);
        if std::process::id() != parent {
            let checked = std::panic::AssertUnwindSafe((ended, instance, prepared));
            child(move || {
                let std::panic::AssertUnwindSafe((ended, mut instance, prepared)) = { checked };
                match (reset, ended) {
                    (Reset::Tracked, Err(error)) => is_refused(&error),
                    (_, Ok(result)) => {
                        assert_eq!(result, 1000 + 25 + 7, "{place}");
                        // The instance makes nested calls in the forked process, too.
                        let data = Data::new(|mut caller, n| Ok(by_name(&mut caller, "load", n)?));
                        instance.data_mut().act = data.act;
                        assert_eq!(instance.call(&run, 101).expect("the instance works"), 5 + 7);
                    }
                    (_, Err(error)) => panic!("{place}: {error}"),
                }
                drop(instance);
                let data = Data::new(|mut caller, n| Ok(by_name(&mut caller, "load", n)?));
                let mut own = prepared.try_instantiate(data).expect("a slot is free");
                assert_eq!(own.call(&run, 101).expect("the instance works"), 7);
            });
        }
        assert_eq!(ended.expect("the call returns"), 25 + 7, "{place}");
    }
}

/// Forks in the parent process and waits there for the child. Does nothing in a child.
fn forks(is_parent: bool) {
    if is_parent {
        let pid = fork();
        if pid != 0 {
            ended_well(pid);
        }
    }
}

fn is_refused(error: &CallError) {
    let refused = "instance was made in another process";
    assert!(error.to_string().starts_with(refused), "{error}");
}
