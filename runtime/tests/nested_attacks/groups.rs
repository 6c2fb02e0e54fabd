//! Nested calls in groups, and nested calls of functions that an instance imports and exports
//! again.

use super::common::values::region;
use super::{ACT, Data, common};
use crate::common::values::Lend as _;
use pirn_runtime::{CallError, CallState, Caller, Group, Linker, Operation, TrapCode, Value};

/// The member that defines the functions which the other member imports.
const OWNER: &str = r#"(module $owner
  (import "h" "act" (func $act (param i32) (result i32)))
  (import "h" "plus" (func $plus (param i32) (result i32)))
  (memory (export "memory") 1)
  (global $n (mut i32) (i32.const 100))
  (export "plus" (func $plus))
  (export "act" (func $act))
  (func (export "add") (param i32) (result i32)
    (global.set $n (i32.add (global.get $n) (i32.const 1)))
    (i32.add (local.get 0) (global.get $n)))
  (func $traps (export "traps") (param i32) (result i32) unreachable))"#;

/// A member that exports its imports: functions of another member and of the host.
const USER: &str = r#"(module $user
  (import "owner" "add" (func $add (param i32) (result i32)))
  (import "owner" "traps" (func $traps (param i32) (result i32)))
  (import "h" "act" (func $act (param i32) (result i32)))
  (import "owner" "plus" (func $plus (param i32) (result i32)))
  (import "h" "plus" (func $own_plus (param i32) (result i32)))
  (import "owner" "act" (func $owner_act (param i32) (result i32)))
  (memory (export "memory") 2)
  (export "add" (func $add)) (export "plus" (func $plus)) (export "own plus" (func $own_plus))
  (export "traps" (func $traps))
  (func (export "twice") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
  (func (export "run") (param i32) (result i32) (call $act (local.get 0)))
  (func (export "run owner") (param i32) (result i32) (call $owner_act (local.get 0))))"#;

type Act = fn(Caller<'_, Host>, i32) -> Result<i32, CallError>;

struct Host {
    act: Act,
    pages: Vec<usize>,
}

/// Calls an exported function by a typed handle and by its name, and returns both results. The
/// results may differ only by the side effects of the calls.
fn both(caller: &mut Caller<'_, Host>, name: &str, n: i32) -> Result<[i32; 2], CallError> {
    let func = caller.func::<i32, i32>(name)?;
    let typed = caller.call(&func, n)?;
    match caller.call_values(name, &[Value::I32(n)])?.as_slice() {
        [Value::I32(untyped)] => Ok([typed, *untyped]),
        other => panic!("{other:?}"),
    }
}

/// A member exports functions that it imports, and the host makes nested calls of them. A function
/// of another member must run in the member that defines it. A host function must run for the
/// member that imports it from the host.
#[test]
fn an_import_of_another_member_is_called_in_that_member() {
    let region = region(2);
    let mut linker = Linker::<Host>::new();
    linker
        .func("h", "act", |caller: Caller<'_, Host>, n: i32| {
            (caller.data().act)(caller, n)
        })
        .and_then(|linker| {
            linker.func("h", "plus", |mut caller: Caller<'_, Host>, n: i32| {
                let pages = caller.memory().len() >> 16;
                caller.data_mut().pages.push(pages);
                n + pages as i32
            })
        })
        .expect("the names are free");
    let act: Act = |mut caller, n| {
        assert_eq!(
            caller.memory().len() >> 16,
            2,
            "the caller must have the user's memory"
        );
        assert_eq!(both(&mut caller, "twice", n)?, [2 * n; 2]);
        // A global of the owner counts the calls.
        let [first, second] = both(&mut caller, "add", n)?;
        assert_eq!(first + 1, second);
        // The host function sees the memory of the member that imports it from the host.
        assert_eq!(both(&mut caller, "plus", n)?, [n + 1; 2]);
        assert_eq!(both(&mut caller, "own plus", n)?, [n + 2; 2]);
        assert_eq!(caller.data().pages, [1, 1, 2, 2]);
        let traps = caller.func::<i32, i32>("traps")?;
        let error = caller.call(&traps, n).expect_err("the guest traps");
        let CallError::Trap(trap) = &error else {
            panic!("expected a trap, found {error:?}");
        };
        assert_eq!(trap.code(), TrapCode::Unreachable);
        let frames: Vec<_> = trap.backtrace().iter().map(ToString::to_string).collect();
        assert!(
            frames.len() == 1 && frames[0].starts_with("owner!traps"),
            "{frames:?}"
        );
        // The user cannot look up functions that only the owner exports.
        let error = caller
            .func::<i32, i32>("act")
            .expect_err("the user does not export `act`");
        assert!(matches!(error, CallError::Lookup(_)), "{error:?}");
        Ok(second)
    };
    let host = Host { act, pages: vec![] };
    let mut group = Group::new(&region, host);
    let owner = group.instantiate(&common::wat(OWNER), &linker);
    group.name("owner", owner.expect("the module links"));
    let user = group
        .instantiate(&common::wat(USER), &linker)
        .expect("the module links");
    let result = group.lend(user).call_values("run", &[Value::I32(5)]);
    assert_eq!(result.expect("the call returns"), [Value::I32(5 + 102)]);
    // The owner calls the same host function. That function's `Caller` then finds only the
    // functions of the owner.
    group.data_mut().act = |mut caller, n| {
        assert_eq!(
            caller.memory().len() >> 16,
            1,
            "the caller must have the owner's memory"
        );
        let error = caller
            .func::<i32, i32>("twice")
            .expect_err("the owner does not export `twice`");
        assert!(matches!(error, CallError::Lookup(_)), "{error:?}");
        let [first, second] = both(&mut caller, "add", n)?;
        assert_eq!(first + 1, second);
        Ok(second)
    };
    let result = group.lend(user).call_values("run owner", &[Value::I32(5)]);
    assert_eq!(result.expect("the call returns"), [Value::I32(5 + 104)]);
}

/// A member refuses a function handle that another member looked up, even if both have the same
/// module.
#[test]
fn a_function_of_one_member_is_refused_by_another() {
    const TEXT: &str = r#"(module
      (import "h" "act" (func $act (param i32) (result i32)))
      (func (export "id") (param i32) (result i32) (local.get 0))
      (func (export "run") (param i32) (result i32) (call $act (local.get 0))))"#;
    let region = region(2);
    let mut linker = Linker::<Option<pirn_runtime::TypedFunc<i32, i32>>>::new();
    linker
        .func(
            "h",
            "act",
            |mut caller: Caller<'_, Option<pirn_runtime::TypedFunc<i32, i32>>>, n: i32| {
                let own = caller.func::<i32, i32>("id")?;
                match *caller.data() {
                    None => *caller.data_mut() = Some(own),
                    Some(other) => {
                        let error = caller
                            .call(&other, n)
                            .expect_err("the handle belongs to another member");
                        assert!(error.to_string().contains("another preparation"), "{error}");
                    }
                }
                caller.call(&own, n)
            },
        )
        .expect("the name is free");
    let mut group = Group::new(&region, None);
    let module = common::wat(TEXT);
    for n in 0..2 {
        let member = group
            .instantiate(&module, &linker)
            .expect("the module links");
        let result = group.lend(member).call_values("run", &[Value::I32(n)]);
        assert_eq!(result.expect("the call returns"), [Value::I32(n)]);
    }
}

/// A host function makes nested calls of host functions that the instance exports. The host
/// function may call itself. The runtime must refuse host functions that would suspend the guest.
#[test]
fn exported_imports_of_the_host_are_called() {
    let text = format!(
        r#"(module {ACT}
          (import "h" "ask" (func $ask (param i32) (result i32)))
          (import "h" "wait" (func $wait (param i32) (result i32)))
          (export "act" (func $act)) (export "ask" (func $ask)) (export "wait" (func $wait))
          (func (export "run") (param i32) (result i32) (call $act (local.get 0))))"#
    );
    let mut linker = super::linker();
    linker
        .func_ask("h", "ask", |_, n: i32| Ok(n), |_, _, n| n)
        .and_then(|linker| linker.func_async("h", "wait", |_, n: i32| Box::pin(async move { n })))
        .expect("the names are free");
    let region = region(1);
    let prepared = region.prepare(&common::wat(&text), &linker);
    let prepared = prepared.expect("the module links");
    let data = Data::new(|mut caller, n| {
        if n == 0 {
            return Ok(40);
        }
        for (name, operation) in [("ask", Operation::Ask), ("wait", Operation::Await)] {
            let func = caller.func::<i32, i32>(name)?;
            let error = caller.call(&func, 1).expect_err("the call is nested");
            let CallError::State(error) = error else {
                panic!("expected a state error, found {error:?}");
            };
            let found = (error.operation(), error.state());
            assert_eq!(found, (operation, CallState::Nested));
        }
        let act = caller.func::<i32, i32>("act")?;
        Ok(caller.call(&act, n - 1)? + super::by_name(&mut caller, "act", 0)?)
    });
    let mut instance = prepared.try_instantiate(data).expect("a slot is free");
    for name in ["run", "act"] {
        let run = prepared.func::<i32, i32>(name).expect("the export exists");
        assert_eq!(instance.call(&run, 3).expect("the call returns"), 160);
    }
}
