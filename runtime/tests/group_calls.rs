//! Calls of group members: typed calls, calls with limits, and calls by futures.

use crate::common;

use common::retry::{with_longer_limits, with_more_iterations};
use common::values::{invalid, region};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use pirn_runtime::{
    CallError, CallState, Caller, FlatParams, FuelError, Group, GroupError, InvalidCall,
    KillOutcome, LinkError, Linker, MemberId, NoMember, Operation, TypedFunc, Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

/// The owner calls the host functions, and the user calls the owner.
const OWNER: &str = r#"(module $owner
  (import "h" "wait" (func $wait (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "wait") (param i32) (result i32) (call $wait (local.get 0)))
  (func $forever (export "forever") (param i32) (result i32) (loop $l (br $l)) (i32.const 0))
  (func (export "fill") (param i32) (result i32)
    (memory.fill (i32.const 0) (local.get 0) (i32.const 65536)) (i32.load8_u (i32.const 65535)))
  (func (export "sum") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (local.set $sum (i32.add (local.get $sum) (local.get $n)))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum)))"#;

const USER: &str = r#"(module $user
  (import "owner" "wait" (func $wait (param i32) (result i32)))
  (import "owner" "forever" (func $forever (param i32) (result i32)))
  (import "owner" "sum" (func $sum (param i32) (result i32)))
  (import "owner" "fill" (func $fill (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "waits") (param i32) (result i32)
    (i32.add (call $wait (local.get 0)) (call $wait (i32.const 100))))
  (func (export "endless") (param i32) (result i32) (call $forever (local.get 0)))
  (func (export "sums") (param i32) (result i32) (i32.mul (call $sum (local.get 0)) (i32.const 2)))
  (func (export "fills") (param i32) (result i32) (call $fill (local.get 0)))
  (export "sum" (func $sum)) (export "wait" (func $wait))
  (func (export "long") (param i64) (result i32) (i32.wrap_i64 (local.get 0))))"#;

/// A future that is pending at its first `self.0` polls.
struct Times(u32);

impl Future for Times {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A group with two members. The host's data counts the completed waits.
struct Setup {
    group: Group<u32>,
    owner: MemberId,
    user: MemberId,
}

impl Setup {
    fn new() -> Self {
        let region = region(3);
        let mut linker = Linker::<u32>::new();
        linker
            .func_async("h", "wait", |mut caller: Caller<'_, u32>, n: i32| {
                Box::pin(async move {
                    Times(3).await;
                    *caller.data_mut() += 1;
                    caller.memory_mut().write_u32(0, n as u32)?;
                    if n < 0 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, pirn_runtime::Trap>(n + 1)
                })
            })
            .expect("the name is free");
        let mut group = Group::new(&region, 0);
        let owner = group.instantiate(&common::wat(OWNER), &linker);
        let owner = owner.expect("the module links");
        group.name("owner", owner);
        let user = group.instantiate(&common::wat(USER), &linker);
        let user = user.expect("the module links");
        Self { group, owner, user }
    }

    fn func(&self, name: &str) -> TypedFunc<i32, i32> {
        self.group.func(self.user, name).expect("the export exists")
    }

    /// Checks that both members still work.
    fn works(&mut self) {
        let sums = self.func("sums");
        let found = self.group.call(self.user, &sums, 100);
        assert_eq!(found.expect("the member works"), 10_100);
        let sum = self
            .group
            .func::<i32, i32>(self.owner, "sum")
            .expect("the export exists");
        let found = self.group.call(self.owner, &sum, 100);
        assert_eq!(found.expect("the member works"), 5050);
    }
}

/// Polls until the future is ready, and returns its output and the number of polls.
fn run<F: Future>(future: F) -> (F::Output, u32) {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    for polls in 1.. {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return (output, polls);
        }
    }
    unreachable!("the loop has no end");
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn functions_are_looked_up_by_type_and_called() {
    let mut setup = Setup::new();
    setup.works();
    let group = &mut setup.group;
    let missing = group.func::<i32, i32>(setup.user, "nothing");
    assert!(matches!(
        missing,
        Err(GroupError::Link(LinkError::NoExport { .. }))
    ));
    let other = group.func::<i32, i32>(setup.user, "long");
    assert!(matches!(
        other,
        Err(GroupError::Link(LinkError::FuncType { .. }))
    ));
    let long = group
        .func::<i64, i32>(setup.user, "long")
        .expect("the export exists");
    assert_eq!(
        group.call(setup.user, &long, 7).expect("the call returns"),
        7
    );
    // A member refuses a function of another member.
    let called = group.call(setup.owner, &long, 7);
    assert_eq!(invalid(called), InvalidCall::OtherPreparation);
    let stranger = Setup::new();
    let error = group.func::<i32, i32>(stranger.user, "sums");
    assert!(
        matches!(
            error,
            Err(GroupError::NoMember(NoMember { found: 1, count: 2 }))
        ),
        "{error:?}"
    );
    let foreign = |count| InvalidCall::NoMember(NoMember { found: 1, count });
    let called = group.call(stranger.user, &long, 7);
    assert_eq!(invalid(called), foreign(2));
    let (called, _) = run(group.call_async(stranger.user, &long, 7));
    assert_eq!(invalid(called), foreign(2));
    let mut empty = Group::new(&region(1), 0);
    let (called, _) = run(empty.call_async(stranger.user, &long, 7));
    assert_eq!(invalid(called), foreign(0));
    setup.works();
}

/// A linker for guests that ask serves groups, too. A member's question ends the call.
#[test]
fn members_ask_nobody() {
    let mut linker = Linker::<u32, i32, i32>::asking();
    let ask = |mut caller: Caller<'_, u32>, (n,): (i32,)| {
        *caller.data_mut() += 1;
        Ok(n)
    };
    linker
        .func_ask("h", "wait", ask, |_, _, answer: i32| answer)
        .expect("the name is free");
    let mut group = Group::asking(&region(2), 0);
    let owner = group.instantiate(&common::wat(OWNER), &linker);
    let owner = owner.expect("the module links");
    group.name("owner", owner);
    let user = group.instantiate(&common::wat(USER), &linker);
    let user = user.expect("the module links");
    let waits = group.func::<i32, i32>(user, "waits").expect("it exists");
    let called = group.call(user, &waits, 1);
    assert!(
        matches!(&called, Err(CallError::State(error))
            if (error.operation(), error.state()) == (Operation::Ask, CallState::Called)),
        "{called:?}"
    );
    let (called, _) = run(group.call_async(user, &waits, 1));
    assert!(
        matches!(&called, Err(CallError::State(error))
            if (error.operation(), error.state()) == (Operation::Ask, CallState::Awaited)),
        "{called:?}"
    );
    // The host function did not run, and the group works.
    assert_eq!((*group.data(), group.is_suspended()), (0, false));
    let sums = group.func_flat(user, "sums").expect("it is over numbers");
    let params = FlatParams::new(&[100]).expect("it is one");
    let found = group.call(user, &sums, params).expect("the call returns");
    assert_eq!(found.0 as u32, 10_100);
    let missing = group.func_flat(user, "memory");
    assert!(
        matches!(missing, Err(GroupError::Link(LinkError::NoExport { .. }))),
        "{missing:?}"
    );
}

/// A member exports functions that it imports from another member. They run in that other member.
#[test]
fn functions_of_another_member_are_called_there() {
    let mut setup = Setup::new();
    let (sum, wait) = (setup.func("sum"), setup.func("wait"));
    let group = &mut setup.group;
    assert_eq!(
        group.call(setup.user, &sum, 100).expect("the call returns"),
        5050
    );
    let limited = group.deadline(Duration::from_secs(3600));
    let (result, _) = run(limited.call_async(setup.user, &sum, 100));
    assert_eq!(result.expect("the call returns"), 5050);
    let (result, _) = run(group.call_async(setup.user, &wait, 7));
    assert_eq!(result.expect("the call returns"), 8);
    let memory = group.memory(setup.owner).expect("the member has a memory");
    assert_eq!(memory.read_u32(0).expect("address in bounds"), 7);
}

#[test]
fn limits_end_calls_of_members() {
    let mut setup = Setup::new();
    let (endless, user) = (setup.func("endless"), setup.user);
    let limit = Duration::from_millis(3);
    for _ in 0..2 {
        let group = &mut setup.group;
        let stop = with_longer_limits(limit, |limit| {
            let error = group.deadline(limit).call(user, &endless, 0);
            let Err(CallError::Deadline(stop)) = error else {
                panic!("{error:?}");
            };
            assert_eq!(stop.limit(), Some(limit));
            // With fewer frames, the deadline passed before the user called the owner.
            (stop.backtrace().len() >= 2).then_some(stop)
        });
        let modules = stop.backtrace().iter().map(|frame| frame.module_name());
        let modules: Vec<_> = modules.collect();
        assert_eq!(modules, [Some("owner"), Some("user")]);
        let error = group.cpu_budget(limit).call(user, &endless, 0);
        assert!(matches!(error, Err(CallError::CpuBudget(_))), "{error:?}");
        let params = [Value::I32(0)];
        let error = group.deadline(limit).call_values(user, "endless", &params);
        assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
        let error = group.deadline(Duration::ZERO).call(user, &endless, 0);
        assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
        let error = group.timeslice(limit).call(user, &endless, 0);
        let Err(CallError::State(error)) = error else {
            panic!("{error:?}");
        };
        assert_eq!(error.operation(), Operation::Slice);
        // A limit applies to one call only.
        setup.works();
    }
}

#[test]
fn async_host_functions_suspend_the_members() {
    let mut setup = Setup::new();
    let (waits, user) = (setup.func("waits"), setup.user);
    for n in 1..4 {
        let (result, polls) = run(setup.group.call_async(user, &waits, 10));
        assert_eq!(result.expect("the call returns"), 11 + 101);
        assert_eq!(polls, 7);
        assert_eq!(*setup.group.data(), 2 * n);
        // The host function wrote to the memory of the member that called it.
        let memory = setup
            .group
            .memory(setup.owner)
            .expect("the member has a memory");
        assert_eq!(memory.read_u32(0).expect("address in bounds"), 100);
        let memory = setup.group.memory(user).expect("the member has a memory");
        assert_eq!(memory.read_u32(0).expect("address in bounds"), 0);
    }
    // A plain call cannot wait for an async host function.
    let error = setup
        .group
        .call(user, &waits, 10)
        .expect_err("a plain call cannot wait");
    let CallError::State(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (error.operation(), error.state()),
        (Operation::Await, CallState::Called)
    );
    setup.works();
}

#[test]
fn slices_and_limits_apply_to_futures() {
    let mut setup = Setup::new();
    let (sums, user) = (setup.func("sums"), setup.user);
    with_more_iterations(30_000_000, |n| {
        let wanted = setup.group.call(user, &sums, n).expect("the call returns");
        let sliced = setup.group.timeslice(Duration::from_micros(200));
        let (result, polls) = run(sliced.call_async(user, &sums, n));
        assert_eq!(result.expect("the call returns"), wanted);
        (polls > 1).then_some(())
    });
    let (fills, endless) = (setup.func("fills"), setup.func("endless"));
    let sliced = setup.group.timeslice(Duration::from_nanos(1));
    let (result, _) = run(sliced.call_async(user, &fills, 7));
    assert_eq!(result.expect("the call returns"), 7);
    let limit = Duration::from_millis(3);
    let limited = setup.group.deadline(limit).timeslice(limit / 10);
    let (error, _) = run(limited.call_async(user, &endless, 0));
    assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
    let limited = setup.group.cpu_budget(limit).timeslice(limit / 10);
    let (error, _) = run(limited.call_async(user, &endless, 0));
    assert!(matches!(error, Err(CallError::CpuBudget(_))), "{error:?}");
    setup.works();
}

/// Counts how often the waker is woken.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_kill_wakes_and_ends_a_future() {
    let mut setup = Setup::new();
    let (waits, user) = (setup.func("waits"), setup.user);
    let switch = setup.group.kill_switch();
    let mut call = setup.group.call_async(user, &waits, -1);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    for _ in 0..4 {
        assert!(Pin::new(&mut call).poll(&mut context).is_pending());
    }
    let before = count.0.load(Ordering::SeqCst);
    assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
    assert_eq!(count.0.load(Ordering::SeqCst), before + 1);
    let ended = Pin::new(&mut call).poll(&mut context);
    assert!(matches!(ended, Poll::Ready(Err(CallError::Killed(_)))));
    drop(call);
    let sums = setup.func("sums");
    let error = setup
        .group
        .call(user, &sums, 1)
        .expect_err("the guest was killed");
    assert!(matches!(error, CallError::Killed(_)), "{error:?}");
}

#[test]
fn a_dropped_future_ends_its_call() {
    let mut setup = Setup::new();
    let (waits, user) = (setup.func("waits"), setup.user);
    for polls in 0..6 {
        let mut call = setup.group.call_async(user, &waits, 10);
        for _ in 0..polls {
            assert!(poll(&mut call).is_pending());
        }
        drop(call);
        assert!(!setup.group.is_suspended());
        setup.works();
    }
}

/// A leaked future leaves a suspended call. The group must refuse everything until the embedder
/// cancels that call.
#[test]
fn a_forgotten_future_leaves_the_group_suspended() {
    let mut setup = Setup::new();
    let (waits, user) = (setup.func("waits"), setup.user);
    let mut call = setup.group.call_async(user, &waits, 10);
    assert!(poll(&mut call).is_pending());
    core::mem::forget(call);
    let group = &mut setup.group;
    assert!(group.is_suspended());
    let state = |error: &CallError| match error {
        CallError::State(error) => (error.operation(), error.state()),
        error => panic!("{error:?}"),
    };
    let refused = (Operation::Call, CallState::Forgotten);
    let error = group
        .call(user, &waits, 1)
        .expect_err("the group is suspended");
    assert_eq!(state(&error), refused);
    let error = group.call_values(user, "sums", &[Value::I32(1)]);
    assert_eq!(state(&error.expect_err("the group is suspended")), refused);
    let error = group.deadline(Duration::from_secs(1)).call(user, &waits, 1);
    assert_eq!(state(&error.expect_err("the group is suspended")), refused);
    let (error, _) = run(group.call_async(user, &waits, 1));
    assert_eq!(state(&error.expect_err("the group is suspended")), refused);
    let module = common::wat("(module)");
    let error = group.instantiate(&module, &Linker::new());
    let Err(GroupError::State(error)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.operation(), Operation::Instantiate);
    let error = group.set_fuel(user, 1).expect_err("the group is suspended");
    assert!(matches!(error, FuelError::State(_)), "{error:?}");
    let switch = group.kill_switch();
    assert!(!switch.is_running());
    group.cancel();
    assert!(!group.is_suspended());
    group.cancel();
    group
        .instantiate(&module, &Linker::new())
        .expect("the module links");
    setup.works();
    assert_eq!(switch.kill(), Ok(KillOutcome::Idle));
}

#[test]
fn a_killed_suspended_group_says_so() {
    let mut setup = Setup::new();
    let (waits, user) = (setup.func("waits"), setup.user);
    let mut call = setup.group.call_async(user, &waits, 10);
    assert!(poll(&mut call).is_pending());
    core::mem::forget(call);
    assert_eq!(setup.group.kill_switch().kill(), Ok(KillOutcome::Suspended));
    setup.group.cancel();
    let error = setup
        .group
        .call(user, &waits, 1)
        .expect_err("the guest was killed");
    assert!(matches!(error, CallError::Killed(_)), "{error:?}");
}
