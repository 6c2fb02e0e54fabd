//! Forks with a live instance, from within a guest, and while other threads are busy. Each case
//! runs in a child process.
#![allow(unsafe_code, reason = "this test forks its own process")]

mod common;

use common::house::{
    GUEST, House, child, ended_well, ends_late, everywhere, fork, impatient, load, store,
};
use pirn_compiler::Options;
use pirn_runtime::{CallError, Instance, Module, Reset, Value};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn an_instance_that_is_held_over_a_fork_is_the_same_or_refused() {
    everywhere("held");
}

#[test]
fn a_host_function_that_forks_comes_back_to_the_same_guest_or_to_none() {
    everywhere("forking");
}

#[test]
fn a_fork_has_deadlines_of_its_own() {
    everywhere("late");
}

/// A fork must not inherit a held lock or half a change of another thread.
#[test]
fn a_fork_is_not_harmed_by_what_other_threads_were_doing() {
    common::exited_with("meanwhile decommitted", 0);
}

#[test]
fn a_fork_is_not_harmed_by_a_thread_that_was_about_to_begin() {
    for _ in 0..20 {
        common::exited_with("beginning decommitted", 0);
    }
}

#[test]
fn a_guest_that_goes_on_in_a_fork_is_stopped_there() {
    common::exited_with("going-on decommitted", 0);
}

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    let (case, reset) = common::case_and_reset();
    match case.as_str() {
        "held" => held(reset),
        "forking" => forking(reset),
        "late" => late(reset),
        "meanwhile" => meanwhile(reset),
        "beginning" => beginning(reset),
        "going-on" => going_on(reset),
        other => panic!("{other}"),
    }
}

/// Checks an instance of the parent in the child: it is unchanged, or the runtime refuses to use
/// it.
fn same_or_refused(instance: &mut Instance<()>, reset: Reset) {
    if reset == Reset::Tracked {
        for error in [
            load(instance, 8).unwrap_err(),
            load(instance, 1 << 16).unwrap_err(),
            store(instance, 8, 1).unwrap_err(),
        ] {
            let refused = "instance was made by the process that this one is a fork of";
            assert!(
                error.starts_with(refused) && !error.contains('\n'),
                "{error}"
            );
        }
        assert_eq!(instance.memory().len(), 0);
        assert_eq!(instance.memory_mut().len(), 0);
    } else {
        assert_eq!(load(instance, 100), Ok(7));
        assert_eq!(load(instance, 8), Ok(i32::from(b'i')));
        assert_eq!(instance.memory().slice(100, 1).unwrap(), [7]);
    }
    load(instance, 1 << 16).unwrap_err();
    store(instance, (4 << 16) - 1, 9).unwrap_err();
}

fn held(reset: Reset) {
    let house = House::new(reset, 4 << 16);
    let mut instance = house.instance();
    store(&mut instance, 100, 7).unwrap();
    let pid = fork();
    if pid == 0 {
        let instance = std::panic::AssertUnwindSafe((instance, house));
        child(move || {
            let std::panic::AssertUnwindSafe((mut instance, house)) = { instance };
            same_or_refused(&mut instance, reset);
            drop(instance);
            // Instances that the child creates belong to the child.
            for _ in 0..6 {
                let mut own = [house.instance(), house.instance(), house.instance()];
                for instance in &mut own {
                    assert_eq!(load(instance, 100), Ok(0));
                    assert_eq!(load(instance, 8), Ok(i32::from(b'i')));
                    store(instance, 100, 9).unwrap();
                    load(instance, 1 << 16).unwrap_err();
                }
            }
            assert_eq!(house.region.slots_free(), 3);
        });
    }
    ended_well(pid);
    assert_eq!(load(&mut instance, 100), Ok(7));
    drop(instance);
    assert_eq!(load(&mut house.instance(), 100), Ok(0));
}

fn forking(reset: Reset) {
    for (name, in_child, in_parent) in [("fork", 7, 8), ("grow", 8, 8)] {
        for watched in [false, true] {
            forks(reset, name, watched, [in_child, in_parent]);
        }
    }
}

/// Calls a function that forks. The last parameter is the expected result in the child and in the
/// parent.
fn forks(reset: Reset, name: &str, watched: bool, [in_child, in_parent]: [i32; 2]) {
    let house = House::new(reset, 4 << 16);
    let mut instance = house.instance();
    if watched {
        let _ = instance.kill_switch();
    }
    let parent = std::process::id();
    let answer = instance.call_values(name, &[]);
    if std::process::id() != parent {
        let answer = answer.map_err(|error| error.to_string());
        child(|| match answer {
            Ok(answer) => {
                assert_ne!(reset, Reset::Tracked);
                assert_eq!(answer, [Value::I32(in_child)]);
            }
            Err(error) => {
                assert_eq!(reset, Reset::Tracked);
                assert!(
                    error.starts_with("instance was made by the process"),
                    "{error}"
                );
            }
        });
    }
    assert_eq!(answer.unwrap(), [Value::I32(in_parent)]);
    let mut status = 0;
    // SAFETY: `status` is a valid `c_int` that wait(2) writes to. The child is the only one.
    assert!(unsafe { libc::wait(&raw mut status) } > 0);
    assert_eq!(status, 0, "in the child");
}

fn late(reset: Reset) {
    let house = House::new(reset, 1 << 20);
    ends_late(&house);
    // Other threads have deadlines that a child must not wait for.
    let other = std::thread::spawn({
        let prepared = house.prepared.clone();
        move || {
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            let limited = instance.deadline(Duration::from_millis(200));
            limited.call_values("forever", &[]).expect_err("it is late");
        }
    });
    for _ in 0..2 {
        let module = house.prepared.module().clone();
        let pid = fork();
        if pid == 0 {
            let module = std::panic::AssertUnwindSafe(module);
            child(move || {
                let late = || ends_late(&House::of(&module, reset, 1 << 20));
                late();
                // The deadline must also work in a grandchild.
                let pid = fork();
                if pid == 0 {
                    child(std::panic::AssertUnwindSafe(late));
                }
                ended_well(pid);
            });
        }
        ended_well(pid);
    }
    ends_late(&house);
    other.join().expect("no panic");
}

/// For cases that fork while other threads are busy.
fn needs_whole_forks() {
    // An emulator may hold its own locks when a thread forks, like any process.
    if common::program::has_runner() {
        common::not_here("forks beside other threads, which an emulator does not always survive");
    }
}

/// Forks while other threads make limited calls, pass their deadlines, and are killed.
fn meanwhile(reset: Reset) {
    needs_whole_forks();
    let house = House::of(&common::wat(GUEST), reset, 1 << 20);
    let module = house.prepared.module().clone();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // `Done` ends the other threads even if this one panics.
        let _done = Done(&done);
        for limit in [Duration::from_micros(1), Duration::from_secs(3600)] {
            let (house, done) = (&house, &done);
            scope.spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    let mut instance = house.instance();
                    let switch = instance.kill_switch();
                    let params = [Value::I32(8)];
                    let ended = instance.deadline(limit).call_values("load", &params);
                    drop(ended);
                    switch.kill().expect("it lives");
                }
            });
        }
        for _ in 0..60 {
            let pid = fork();
            if pid == 0 {
                impatient();
                let module = std::panic::AssertUnwindSafe(&module);
                child(move || {
                    let house = House::of(&module, reset, 1 << 20);
                    ends_late(&house);
                    // New threads of the child may reuse stacks and thread-local memory of the
                    // parent's threads.
                    std::thread::scope(|scope| {
                        scope.spawn(|| ends_late(&house));
                    });
                    let budget = house
                        .instance()
                        .cpu_budget(Duration::from_millis(2))
                        .call_values("forever", &[]);
                    assert!(matches!(budget, Err(CallError::CpuBudget(_))), "{budget:?}");
                });
            }
            ended_well(pid);
        }
    });
}

/// Sets a flag when it is dropped.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Forks while another thread initialises everything that the process creates once. In some
/// children that state is half made, and each child must complete it.
fn beginning(reset: Reset) {
    needs_whole_forks();
    let wasm = pirn_compiler::parse_text(GUEST.as_bytes()).expect("the text is well-formed");
    let so = pirn_compiler::compile(&wasm, &Options::default()).expect("the module is valid");
    let all = || {
        let module = Module::from_bytes(&so).expect("the module is whole");
        let house = House::of(&module, reset, 1 << 20);
        let mut instance = house.instance();
        let limited = instance.deadline(Duration::from_secs(3600));
        let answer = limited.call_values("load", &[Value::I32(8)]);
        assert_eq!(answer.unwrap(), [Value::I32(i32::from(b'i'))]);
        drop(instance);
        house
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _done = Done(&done);
            drop(all());
        });
        let mut children = VecDeque::new();
        while !done.load(Ordering::SeqCst) {
            if children.len() == 4 {
                children.pop_front().into_iter().for_each(ended_well);
            }
            let pid = fork();
            if pid == 0 {
                impatient();
                child(std::panic::AssertUnwindSafe(|| ends_late(&all())));
            }
            children.push_back(pid);
        }
        children.into_iter().for_each(ended_well);
    });
}

/// A host function forks, and the guest continues in the child until its deadline.
fn going_on(reset: Reset) {
    let house = House::new(reset, 1 << 20);
    let parent = std::process::id();
    for cpu in [false, true] {
        let mut instance = house.instance();
        let limit = Duration::from_millis(100);
        let limited = if cpu {
            instance.cpu_budget(limit)
        } else {
            instance.deadline(limit)
        };
        let ended = limited.call_values("fork_and_loop", &[]);
        let late = matches!(ended, Err(CallError::Deadline(_) | CallError::CpuBudget(_)));
        if std::process::id() != parent {
            // SAFETY: _exit(2) takes no pointers. It ends the child without the parent's exit
            // handlers.
            unsafe { libc::_exit(i32::from(!late)) };
        }
        assert!(late, "{ended:?}");
        let mut status = 0;
        // SAFETY: `status` is a valid `c_int` that waitpid(2) writes to.
        assert!(unsafe { libc::waitpid(-1, &raw mut status, 0) } > 0);
        assert_eq!(status, 0, "in the child");
    }
}
