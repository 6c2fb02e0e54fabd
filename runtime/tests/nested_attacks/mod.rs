//! Attacks on nested calls. Guests and careless embedders try to escape the sandbox, crash the
//! process, exceed a limit, or resume a guest at a wrong place.

use crate::common;

mod callers;
mod errors;
mod forks;
mod groups;
mod model;
mod places;
mod stops;

use common::values::region;
use pirn_runtime::{
    CallError, CallState, Caller, HostError, Instance, KillSwitch, Linker, Operation, Prepared,
    Region, TypedFunc, Value,
};
use std::sync::Arc;

/// The closure that the host function `act` runs.
type Act = Arc<dyn Fn(Caller<'_, Data>, i32) -> Result<i32, HostError> + Send + Sync>;

/// The host's data of an instance.
struct Data {
    act: Act,
    /// Numbers that host functions record.
    notes: Vec<i32>,
    switch: Option<KillSwitch>,
}

impl Data {
    fn new(
        act: impl Fn(Caller<'_, Self>, i32) -> Result<i32, HostError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            act: Arc::new(act),
            notes: vec![],
            switch: None,
        }
    }
}

type P = Prepared<Data, i32, i32>;
type I = Instance<Data, i32, i32>;

/// The import of the host function `act`.
const ACT: &str = r#"(import "h" "act" (func $act (param i32) (result i32)))"#;

/// Defines the host function `act`, which runs the closure of its instance.
fn linker() -> Linker<Data, i32, i32> {
    let mut linker = Linker::asking();
    linker
        .func("h", "act", |caller: Caller<'_, Data>, n: i32| {
            let act = Arc::clone(&caller.data().act);
            act(caller, n)
        })
        .expect("the name is free");
    linker
}

fn prepare_in(region: &Region, text: &str) -> P {
    region
        .prepare(&common::wat(text), &linker())
        .expect("the module links")
}

fn prepare(text: &str) -> P {
    prepare_in(&region(2), text)
}

fn instance(prepared: &P, data: Data) -> I {
    let mut instance = prepared.try_instantiate(data).expect("a slot is free");
    let switch = instance.kill_switch();
    instance.data_mut().switch = Some(switch);
    instance
}

fn func(prepared: &P, name: &str) -> TypedFunc<i32, i32> {
    prepared.func(name).expect("the export exists")
}

fn by_name(caller: &mut Caller<'_, Data>, name: &str, n: i32) -> Result<i32, CallError> {
    match caller.call_values(name, &[Value::I32(n)])?.as_slice() {
        [Value::I32(result)] => Ok(*result),
        other => panic!("{other:?}"),
    }
}

/// Checks that the runtime refused a nested call, because the guest does not wait for the caller's
/// host function.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the callers have no other use for the result"
)]
fn refused<R: std::fmt::Debug>(result: Result<R, CallError>) {
    let Err(CallError::State(error)) = &result else {
        panic!("expected a state error, found {result:?}");
    };
    let found = (error.operation(), error.state());
    assert_eq!(found, (Operation::Nest, CallState::NotWaiting));
}

/// The names of the functions in a backtrace, innermost first.
fn names(frames: &[pirn_runtime::Frame]) -> Vec<&str> {
    let names = frames.iter().map(pirn_runtime::Frame::func_name);
    names.map(|name| name.unwrap_or("?")).collect()
}

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    let (case, reset) = common::case_and_reset();
    match case.as_str() {
        "forks" => forks::case(reset),
        other => panic!("{other}"),
    }
}
