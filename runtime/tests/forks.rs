//! The process forks while an instance is live, inside a host function, and while other threads are
//! busy. Each case runs in a child process.
#![allow(unsafe_code, reason = "this test forks its own process")]

use crate::common;

use common::campaign::share;
use common::retry::with_longer_limits;
use common::setup::{
    GUEST, Setup, child, ended_well, ends_late, everywhere, fork, limit_run_time, load, store,
};
use pirn_compiler::Options;
use pirn_runtime::{CallError, Instance, Module, Reset, Value};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_live_instance_is_unchanged_or_refused_after_a_fork() {
    everywhere("held");
}

#[test]
fn a_host_function_that_forks_resumes_the_guest_or_fails() {
    everywhere("forking");
}

#[test]
fn deadlines_work_in_a_forked_child() {
    everywhere("late");
}

/// A child must not inherit a lock that another thread held, or data that another thread was
/// changing.
#[test]
fn a_fork_during_calls_of_other_threads_is_harmless() {
    common::exited_with("meanwhile decommitted", 0);
}

#[test]
fn a_fork_during_initialisation_by_another_thread_is_harmless() {
    for _ in 0..share(20, 2) {
        common::exited_with("beginning decommitted", 0);
    }
}

#[test]
fn a_guest_that_continues_in_a_child_is_stopped_at_its_deadline() {
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

/// Uses an instance of the parent in the child. It must be unchanged, or the runtime must refuse
/// it.
fn same_or_refused(instance: &mut Instance<()>, reset: Reset) {
    if reset == Reset::Tracked {
        for error in [
            load(instance, 8).unwrap_err(),
            load(instance, 1 << 16).unwrap_err(),
            store(instance, 8, 1).unwrap_err(),
        ] {
            let refused =
                "instance was made in another process, and a fork did not inherit its memory";
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
    let setup = Setup::new(reset, 4 << 16);
    let mut instance = setup.instance();
    store(&mut instance, 100, 7).unwrap();
    let pid = fork();
    if pid == 0 {
        let instance = std::panic::AssertUnwindSafe((instance, setup));
        child(move || {
            let std::panic::AssertUnwindSafe((mut instance, setup)) = { instance };
            same_or_refused(&mut instance, reset);
            drop(instance);
            // Instances that the child creates belong to the child.
            for _ in 0..6 {
                let mut own = [setup.instance(), setup.instance(), setup.instance()];
                for instance in &mut own {
                    assert_eq!(load(instance, 100), Ok(0));
                    assert_eq!(load(instance, 8), Ok(i32::from(b'i')));
                    store(instance, 100, 9).unwrap();
                    load(instance, 1 << 16).unwrap_err();
                }
            }
            assert_eq!(setup.region.slots_free(), 3);
        });
    }
    ended_well(pid);
    assert_eq!(load(&mut instance, 100), Ok(7));
    drop(instance);
    assert_eq!(load(&mut setup.instance(), 100), Ok(0));
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
    let setup = Setup::new(reset, 4 << 16);
    let mut instance = setup.instance();
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
                    error.starts_with("instance was made in another process"),
                    "{error}"
                );
            }
        });
    }
    assert_eq!(answer.unwrap(), [Value::I32(in_parent)]);
    let mut status = 0;
    // SAFETY: `status` is a valid `c_int` that wait(2) writes to. The child is the only one.
    assert!(unsafe { libc::wait(&raw mut status) } > 0);
    assert_eq!(status, 0, "exit status of the child");
}

fn late(reset: Reset) {
    let setup = Setup::new(reset, 1 << 20);
    ends_late(&setup);
    // Other threads have deadlines that a child must not wait for.
    let other = std::thread::spawn({
        let prepared = setup.prepared.clone();
        move || {
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            let limited = instance.deadline(Duration::from_millis(200));
            limited.call_values("forever", &[]).expect_err("it is late");
        }
    });
    for _ in 0..2 {
        let module = setup.prepared.module().clone();
        let pid = fork();
        if pid == 0 {
            let module = std::panic::AssertUnwindSafe(module);
            child(move || {
                let late = || ends_late(&Setup::of(&module, reset, 1 << 20));
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
    ends_late(&setup);
    other.join().expect("no panic");
}

/// Skips cases that fork while other threads are busy, if an emulator runs the test.
fn needs_whole_forks() {
    // An emulator may hold its own locks when a thread forks, like any process.
    if common::program::has_runner() {
        common::not_here("forks beside other threads, which an emulator does not always survive");
    }
}

/// Forks while other threads make limited calls, pass their deadlines, and are killed.
fn meanwhile(reset: Reset) {
    needs_whole_forks();
    let setup = Setup::of(&common::wat(GUEST), reset, 1 << 20);
    let module = setup.prepared.module().clone();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // `Done` ends the other threads even if this one panics.
        let _done = Done(&done);
        for limit in [Duration::from_micros(1), Duration::from_secs(3600)] {
            let (setup, done) = (&setup, &done);
            scope.spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    let mut instance = setup.instance();
                    let switch = instance.kill_switch();
                    let params = [Value::I32(8)];
                    let ended = instance.deadline(limit).call_values("load", &params);
                    drop(ended);
                    switch.kill().expect("it lives");
                }
            });
        }
        for _ in 0..share(60, 3) {
            let pid = fork();
            if pid == 0 {
                limit_run_time();
                let module = std::panic::AssertUnwindSafe(&module);
                child(move || {
                    let setup = Setup::of(&module, reset, 1 << 20);
                    ends_late(&setup);
                    // New threads of the child may reuse stacks and thread-local memory of the
                    // parent's threads.
                    std::thread::scope(|scope| {
                        scope.spawn(|| ends_late(&setup));
                    });
                    let budget = setup
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

/// Forks while another thread initialises the process-wide state. A child may find the state half
/// initialised, and must complete it.
fn beginning(reset: Reset) {
    needs_whole_forks();
    let wasm = pirn_compiler::parse_text(GUEST.as_bytes()).expect("the text is well-formed");
    let so = pirn_compiler::compile(&wasm, &Options::default()).expect("the module is valid");
    let all = || {
        let module = Module::from_bytes(&so).expect("the module is whole");
        let setup = Setup::of(&module, reset, 1 << 20);
        let mut instance = setup.instance();
        let limited = instance.deadline(Duration::from_secs(3600));
        let answer = limited.call_values("load", &[Value::I32(8)]);
        assert_eq!(answer.unwrap(), [Value::I32(i32::from(b'i'))]);
        drop(instance);
        setup
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
                limit_run_time();
                child(std::panic::AssertUnwindSafe(|| ends_late(&all())));
            }
            children.push_back(pid);
        }
        children.into_iter().for_each(ended_well);
    });
}

/// A host function forks, and the guest continues in the child until its deadline.
fn going_on(reset: Reset) {
    let setup = Setup::new(reset, 1 << 20);
    let parent = std::process::id();
    // Repeat the call until the guest forks before its limit.
    let forks = |cpu: bool, limit| {
        let mut instance = setup.instance();
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
        let forked = unsafe { libc::waitpid(-1, &raw mut status, 0) } > 0;
        assert_eq!(status, 0, "exit status of the child");
        forked.then_some(())
    };
    for cpu in [false, true] {
        with_longer_limits(Duration::from_millis(100), |limit| forks(cpu, limit));
    }
}
