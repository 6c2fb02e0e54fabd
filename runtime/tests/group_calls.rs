//! Calls of group members: typed calls, calls with limits, in steps, and by futures.

use crate::common;

use common::retry::{with_longer_limits, with_more_iterations};
use common::values::{Lend as _, invalid, region};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use pirn_runtime::{
    CallError, CallState, Caller, FlatParams, FuelError, Group, GroupError, HostError, InvalidCall,
    KillOutcome, LinkError, Linker, MemberId, NoMember, Operation, Region, Step, TypedFunc, Value,
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
        self.group
            .at(self.user)
            .func(name)
            .expect("the export exists")
    }

    /// Checks that both members still work.
    fn works(&mut self) {
        let sums = self.func("sums");
        let found = self.group.lend(self.user).call(&sums, 100);
        assert_eq!(found.expect("the member works"), 10_100);
        let sum = self
            .group
            .at(self.owner)
            .func::<i32, i32>("sum")
            .expect("the export exists");
        let found = self.group.lend(self.owner).call(&sum, 100);
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
    let missing = group.at(setup.user).func::<i32, i32>("nothing");
    assert!(matches!(missing, Err(LinkError::NoExport { .. })));
    let other = group.at(setup.user).func::<i32, i32>("long");
    assert!(matches!(other, Err(LinkError::FuncType { .. })));
    let long = group
        .at(setup.user)
        .func::<i64, i32>("long")
        .expect("the export exists");
    assert_eq!(
        group
            .lend(setup.user)
            .call(&long, 7)
            .expect("the call returns"),
        7
    );
    // A member refuses a function of another member.
    let called = group.lend(setup.owner).call(&long, 7);
    assert_eq!(invalid(called), InvalidCall::OtherPreparation);
    let stranger = Setup::new();
    let foreign = |count| NoMember { found: 1, count };
    assert_eq!(group.member(stranger.user).map(drop), Err(foreign(2)));
    assert_eq!(group.member_mut(stranger.user).map(drop), Err(foreign(2)));
    // `?` makes it the error of a call.
    let mut empty = Group::new(&region(1), 0);
    let mut call = || empty.member_mut(stranger.user)?.call(&long, 7);
    assert_eq!(invalid(call()), InvalidCall::NoMember(foreign(0)));
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
    let waits = group.at(user).func::<i32, i32>("waits").expect("it exists");
    let called = group.lend(user).call(&waits, 1);
    assert!(
        matches!(&called, Err(CallError::State(error))
            if (error.operation(), error.state()) == (Operation::Ask, CallState::Called)),
        "{called:?}"
    );
    let (called, _) = run(group.lend(user).call_async(&waits, 1));
    assert!(
        matches!(&called, Err(CallError::State(error))
            if (error.operation(), error.state()) == (Operation::Ask, CallState::Awaited)),
        "{called:?}"
    );
    // The host function did not run, and the group works.
    assert_eq!((*group.data(), group.is_suspended()), (0, false));
    let sums = group
        .at(user)
        .func_flat("sums")
        .expect("it is over numbers");
    let params = FlatParams::new(&[100]).expect("it is one");
    let found = group
        .lend(user)
        .call(&sums, params)
        .expect("the call returns");
    assert_eq!(found.0 as u32, 10_100);
    let missing = group.at(user).func_flat("memory");
    assert!(
        matches!(missing, Err(LinkError::NoExport { .. })),
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
        group
            .lend(setup.user)
            .call(&sum, 100)
            .expect("the call returns"),
        5050
    );
    let mut user = group.lend(setup.user);
    let limited = user.deadline(Duration::from_secs(3600));
    let (result, _) = run(limited.call_async(&sum, 100));
    assert_eq!(result.expect("the call returns"), 5050);
    let (result, _) = run(group.lend(setup.user).call_async(&wait, 7));
    assert_eq!(result.expect("the call returns"), 8);
    let lent = group.at(setup.owner);
    let memory = lent.memory();
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
            let error = group.lend(user).deadline(limit).call(&endless, 0);
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
        let error = group.lend(user).cpu_budget(limit).call(&endless, 0);
        assert!(matches!(error, Err(CallError::CpuBudget(_))), "{error:?}");
        let params = [Value::I32(0)];
        let error = group
            .lend(user)
            .deadline(limit)
            .call_values("endless", &params);
        assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
        let error = group.lend(user).deadline(Duration::ZERO).call(&endless, 0);
        assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
        let error = group.lend(user).timeslice(limit).call(&endless, 0);
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
        let (result, polls) = run(setup.group.lend(user).call_async(&waits, 10));
        assert_eq!(result.expect("the call returns"), 11 + 101);
        assert_eq!(polls, 7);
        assert_eq!(*setup.group.data(), 2 * n);
        // The host function wrote to the memory of the member that called it.
        let lent = setup.group.at(setup.owner);
        let memory = lent.memory();
        assert_eq!(memory.read_u32(0).expect("address in bounds"), 100);
        let lent = setup.group.at(user);
        let memory = lent.memory();
        assert_eq!(memory.read_u32(0).expect("address in bounds"), 0);
    }
    // A plain call cannot wait for an async host function.
    let error = setup
        .group
        .lend(user)
        .call(&waits, 10)
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
        let wanted = setup
            .group
            .lend(user)
            .call(&sums, n)
            .expect("the call returns");
        let mut user = setup.group.lend(user);
        let sliced = user.timeslice(Duration::from_micros(200));
        let (result, polls) = run(sliced.call_async(&sums, n));
        assert_eq!(result.expect("the call returns"), wanted);
        (polls > 1).then_some(())
    });
    let (fills, endless) = (setup.func("fills"), setup.func("endless"));
    let mut user = setup.group.lend(user);
    let sliced = user.timeslice(Duration::from_nanos(1));
    let (result, _) = run(sliced.call_async(&fills, 7));
    assert_eq!(result.expect("the call returns"), 7);
    let limit = Duration::from_millis(3);
    let limited = user.deadline(limit).timeslice(limit / 10);
    let (error, _) = run(limited.call_async(&endless, 0));
    assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
    let limited = user.cpu_budget(limit).timeslice(limit / 10);
    let (error, _) = run(limited.call_async(&endless, 0));
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
    let mut lent = setup.group.lend(user);
    let mut call = lent.call_async(&waits, -1);
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
        .lend(user)
        .call(&sums, 1)
        .expect_err("the guest was killed");
    assert!(matches!(error, CallError::Killed(_)), "{error:?}");
}

#[test]
fn a_dropped_future_ends_its_call() {
    let mut setup = Setup::new();
    let (waits, user) = (setup.func("waits"), setup.user);
    for polls in 0..6 {
        let mut lent = setup.group.lend(user);
        let mut call = lent.call_async(&waits, 10);
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
    let mut lent = setup.group.lend(user);
    let mut call = lent.call_async(&waits, 10);
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
        .lend(user)
        .call(&waits, 1)
        .expect_err("the group is suspended");
    assert_eq!(state(&error), refused);
    let error = group.lend(user).call_values("sums", &[Value::I32(1)]);
    assert_eq!(state(&error.expect_err("the group is suspended")), refused);
    let error = group
        .lend(user)
        .deadline(Duration::from_secs(1))
        .call(&waits, 1);
    assert_eq!(state(&error.expect_err("the group is suspended")), refused);
    let (error, _) = run(group.lend(user).call_async(&waits, 1));
    assert_eq!(state(&error.expect_err("the group is suspended")), refused);
    let module = common::wat("(module)");
    let error = group.instantiate(&module, &Linker::new());
    let Err(GroupError::State(error)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.operation(), Operation::Instantiate);
    let error = group
        .lend(user)
        .set_fuel(1)
        .expect_err("the group is suspended");
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
    let mut lent = setup.group.lend(user);
    let mut call = lent.call_async(&waits, 10);
    assert!(poll(&mut call).is_pending());
    core::mem::forget(call);
    assert_eq!(setup.group.kill_switch().kill(), Ok(KillOutcome::Suspended));
    setup.group.cancel();
    let error = setup
        .group
        .lend(user)
        .call(&waits, 1)
        .expect_err("the guest was killed");
    assert!(matches!(error, CallError::Killed(_)), "{error:?}");
}

/// Asserts that a step is refused in this state, and that the refusal is of this operation.
fn refused<R: core::fmt::Debug>(
    result: Result<R, CallError>,
    operation: Operation,
    state: CallState,
) {
    match result {
        Err(CallError::State(error)) => {
            assert_eq!((error.operation(), error.state()), (operation, state));
        }
        other => panic!("{other:?}"),
    }
}

/// A call of a member that is made in steps suspends the whole group. Only the member and the
/// function of the call can be resumed.
#[test]
fn a_preempted_member_suspends_the_group() {
    let mut setup = Setup::new();
    let again = setup.group.instantiate(&common::wat(USER), &Linker::new());
    let again = again.expect("the module links");
    let (sums, user) = (setup.func("sums"), setup.user);
    let sum = setup.func("sum");
    // The same function of another instance of the module.
    let other = setup.group.at(again).func::<i32, i32>("sums");
    let other = other.expect("the export exists");
    let slice = Duration::from_micros(200);
    with_more_iterations(30_000_000, |n| {
        let group = &mut setup.group;
        let wanted = group.lend(user).call(&sums, n).expect("the call returns");
        let mut step = group.lend(user).timeslice(slice).start(&sums, n);
        let mut steps = 0;
        while let Ok(Step::Preempted) = step {
            steps += 1;
            assert!(group.is_suspended() && group.at(again).is_suspended());
            let preempted = CallState::Preempted;
            refused(group.lend(user).call(&sums, 1), Operation::Call, preempted);
            refused(
                group.lend(again).call(&other, 1),
                Operation::Call,
                preempted,
            );
            refused(
                group.lend(again).start(&other, 1),
                Operation::Call,
                preempted,
            );
            let called = group.lend(again).call_values("sum", &[Value::I32(1)]);
            refused(called, Operation::Call, preempted);
            let another = CallState::Another;
            refused(group.lend(again).resume(&other), Operation::Resume, another);
            refused(group.lend(again).resume(&sums), Operation::Resume, another);
            refused(group.lend(user).resume(&sum), Operation::Resume, another);
            assert!(
                group
                    .instantiate(&common::wat("(module)"), &Linker::new())
                    .is_err()
            );
            // The state of all members can be read and written meanwhile.
            let mut lent = group.lend(again);
            lent.memory_mut().write_u32(8, steps).expect("inside");
            step = group.lend(user).timeslice(slice).resume(&sums);
        }
        assert_eq!(step.expect("the call returns"), Step::Returned(wanted));
        assert!(!group.is_suspended());
        (steps > 1).then_some(())
    });
    setup.works();
    // Another thread continues the call, and a dropped group gives its slots back.
    let mut step = setup
        .group
        .lend(user)
        .timeslice(Duration::from_nanos(1))
        .start(&sums, 100);
    let mut group = setup.group;
    let step = std::thread::spawn(move || {
        while let Ok(Step::Preempted) = step {
            step = group.lend(user).resume(&sums);
        }
        (step, group)
    });
    let (step, mut group) = step.join().expect("no panic");
    assert_eq!(step.expect("the call returns"), Step::Returned(10_100));
    let forever = group.at(user).func::<i32, i32>("endless");
    let forever = forever.expect("the export exists");
    let step = group.lend(user).timeslice(slice).start(&forever, 0);
    assert_eq!(step.expect("the call is preempted"), Step::Preempted);
    drop(group);
}

/// A group whose guests ask, with its members, and their function that asks twice.
fn asking(region: &Region) -> (Group<u32, i32, i32>, [MemberId; 2], TypedFunc<i32, i32>) {
    let mut linker = Linker::<u32, i32, i32>::asking();
    let ask = |mut caller: Caller<'_, u32>, (n,): (i32,)| {
        *caller.data_mut() += 1;
        Ok(n)
    };
    let answered = |mut caller: Caller<'_, u32>, (n,): (i32,), answer: i32| {
        caller.memory_mut().write_u32(0, n.cast_unsigned())?;
        match answer {
            -1 => Err(HostError::message("no answer")),
            _ => Ok(answer),
        }
    };
    linker
        .func_ask("h", "wait", ask, answered)
        .expect("the name is free");
    let mut group = Group::asking(region, 0);
    let owner = group.instantiate(&common::wat(OWNER), &linker);
    let owner = owner.expect("the module links");
    group.name("owner", owner);
    let user = group.instantiate(&common::wat(USER), &linker);
    let user = user.expect("the module links");
    let waits = group.at(user).func("waits").expect("it exists");
    (group, [owner, user], waits)
}

#[test]
fn members_ask_in_steps() {
    let region = region(2);
    let (mut group, [owner, user], waits) = asking(&region);
    for n in [5, 6] {
        let step = group.lend(user).start(&waits, n);
        assert_eq!(step.expect("it asks"), Step::Asked(n));
        assert!(group.is_suspended());
        // Only the member whose call has asked gets the answer.
        let wrong = group.lend(owner).resume_with(&waits, 1);
        refused(wrong, Operation::ResumeWith, CallState::Another);
        let wrong = group.lend(user).resume(&waits);
        refused(wrong, Operation::Resume, CallState::Asked);
        let step = group.lend(user).resume_with(&waits, 70);
        assert_eq!(step.expect("it asks again"), Step::Asked(100));
        // The host function saw the memory of the member that called it.
        let read = |member| group.at(member).memory().read_u32(0).expect("inside");
        assert_eq!((read(owner), read(user)), (n.cast_unsigned(), 0));
        let step = group.lend(user).resume_with(&waits, 7);
        assert_eq!(step.expect("it returns"), Step::Returned(77));
    }
    assert_eq!((*group.data(), group.is_suspended()), (4, false));
    // An answer that is an error ends the call, with the frames of both members.
    let step = group.lend(user).start(&waits, 1);
    assert_eq!(step.expect("it asks"), Step::Asked(1));
    let failed = group.lend(user).resume_with(&waits, -1);
    assert!(matches!(failed, Err(CallError::Host(_))), "{failed:?}");
    assert!(!group.is_suspended());
    let step = group.lend(user).start(&waits, 2);
    assert_eq!(step.expect("it asks"), Step::Asked(2));
    // Any member, and the group, can cancel the call.
    group.lend(owner).cancel();
    assert!(!group.is_suspended());
    let step = group.lend(user).start(&waits, 3);
    assert_eq!(step.expect("it asks"), Step::Asked(3));
    group.cancel();
    let step = group.lend(user).start(&waits, 4);
    assert_eq!(step.expect("it asks"), Step::Asked(4));
    let switch = group.lend(owner).kill_switch();
    assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
    let killed = group.lend(user).resume_with(&waits, 0);
    let Err(CallError::Killed(stop)) = killed else {
        panic!("{killed:?}");
    };
    assert_eq!(stop.backtrace().len(), 2);
    drop(group);
    assert_eq!(region.slots_free(), 2);
    // A suspended group can be dropped.
    let (mut group, [_, user], waits) = asking(&region);
    let step = group.lend(user).start(&waits, 4);
    assert_eq!(step.expect("it asks"), Step::Asked(4));
    drop(group);
    assert_eq!(region.slots_free(), 2);
}

/// Functions that were looked up before are called in their own members, whichever member is lent.
#[test]
fn any_member_calls_the_functions_of_its_group() {
    let mut setup = Setup::new();
    let (owner, user) = (setup.owner, setup.user);
    let group = &mut setup.group;
    let sums = group.at(user).func_values("sums").expect("it exists");
    for member in [owner, user] {
        let called = group.lend(member).call_func(&sums, &[Value::I32(100)]);
        assert_eq!(called.expect("the call returns"), [Value::I32(10_100)]);
    }
    // Members are read side by side through a shared borrow of the group.
    let (one, two) = (group.at(owner), group.at(user));
    assert_ne!(
        one.memory().as_slice().as_ptr(),
        two.memory().as_slice().as_ptr()
    );
    // Exchanged loans stay loans of their own groups.
    let mut stranger = Setup::new();
    let (mut one, mut two) = (group.lend(user), stranger.group.lend(stranger.owner));
    two.memory_mut().write_u32(0, 77).expect("inside");
    core::mem::swap(&mut one, &mut two);
    assert_eq!(one.memory().read_u32(0).expect("inside"), 77);
    assert_eq!(
        one.call_values("sum", &[Value::I32(2)])
            .expect("it returns"),
        [Value::I32(3)]
    );
    assert_eq!(
        two.call_values("sums", &[Value::I32(2)])
            .expect("it returns"),
        [Value::I32(6)]
    );
}
