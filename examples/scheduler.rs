//! Guests that share one thread. Each runs for a time slice, is suspended at any instruction, and
//! is resumed on its next turn. The guests contain no code for this.
//!
//! A server would open guests that `aotc` has compiled. This example compiles its guest first, so
//! that it runs on its own.

use pirn_runtime::{CallError, Instance, Linker, Module, Prepared, Region, Step, TypedFunc};
use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

/// A guest that counts up to a limit, or forever.
const GUEST: &str = r#"(module
  (global $count (export "count") (mut i64) (i64.const 0))
  (func (export "run") (param $until i64) (result i64)
    (loop $next
      (global.set $count (i64.add (global.get $count) (i64.const 1)))
      (br_if $next (i64.ne (global.get $count) (local.get $until))))
    (global.get $count)))"#;

/// Time that a guest runs before another guest has its turn.
const SLICE: Duration = Duration::from_millis(2);

/// A guest, and how many turns it has had.
struct Task {
    name: &'static str,
    instance: Instance<()>,
    turns: u32,
}

/// Runs its tasks in turn on the calling thread.
struct Scheduler {
    run: TypedFunc<i64, i64>,
    ready: VecDeque<Task>,
}

impl Scheduler {
    fn new(prepared: &Prepared<()>) -> Result<Self, Box<dyn Error>> {
        let run = prepared.func("run")?;
        let ready = VecDeque::new();
        Ok(Self { run, ready })
    }

    /// Gives the next task its turn. Returns the task and its result if it has ended.
    fn turn(&mut self, until: i64) -> Option<(Task, Result<i64, CallError>)> {
        let mut task = self.ready.pop_front()?;
        task.turns += 1;
        let suspended = task.instance.is_suspended();
        let limited = task.instance.timeslice(SLICE);
        let step = if suspended {
            limited.resume(&self.run)
        } else {
            limited.start(&self.run, until)
        };
        match step {
            Ok(Step::Preempted) => {
                self.ready.push_back(task);
                None
            }
            Ok(Step::Returned(count)) => Some((task, Ok(count))),
            // The linker defines no function that asks, so `question` has no value.
            Ok(Step::Asked(question)) => match question {},
            Err(error) => Some((task, Err(error))),
        }
    }
}

fn compile() -> Result<Module, Box<dyn Error>> {
    let wasm = pirn_compiler::parse_text(GUEST.as_bytes())?;
    let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default())?;
    Ok(Module::from_bytes(&so)?)
}

/// How far a guest has counted.
fn count(task: &Task) -> Result<i64, String> {
    match task.instance.global("count") {
        Some(pirn_runtime::Value::I64(count)) => Ok(count),
        other => Err(format!("{} has a count of {other:?}", task.name)),
    }
}

/// Runs endless guests in turn until `enough` returns true. Returns how far each has counted.
fn share(
    names: &[&'static str],
    enough: impl Fn(&VecDeque<Task>) -> bool,
) -> Result<Vec<(Task, i64)>, Box<dyn Error>> {
    let region = Region::builder().slots(names.len().try_into()?).build()?;
    let prepared = region.prepare(&compile()?, &Linker::new())?;
    let mut scheduler = Scheduler::new(&prepared)?;
    for name in names {
        let instance = prepared.instantiate(())?;
        let turns = 0;
        scheduler.ready.push_back(Task {
            name,
            instance,
            turns,
        });
    }
    while !enough(&scheduler.ready) {
        if let Some((task, ended)) = scheduler.turn(-1) {
            return Err(format!("{} ended with {ended:?}", task.name).into());
        }
    }
    let mut counted = vec![];
    for task in scheduler.ready {
        let count = count(&task)?;
        counted.push((task, count));
    }
    Ok(counted)
}

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let second = |_: &VecDeque<Task>| start.elapsed() >= Duration::from_secs(1);
    for (task, count) in share(&["red", "green", "blue"], second)? {
        println!(
            "{:>5} counted to {count} in {} turns",
            task.name, task.turns
        );
    }
    Ok(())
}

#[test]
fn guests_that_never_end_take_turns() -> Result<(), Box<dyn Error>> {
    // On a busy machine a time slice may pass before its guest is entered. The scheduler counts
    // that turn, although the guest has not run.
    let enough = |tasks: &VecDeque<Task>| {
        let turned = |task: &Task| task.turns > 1 && count(task).is_ok_and(|count| count > 0);
        tasks.iter().all(turned) || tasks.iter().all(|task| task.turns >= 1000)
    };
    let tasks = share(&["one", "other"], enough)?;
    let [(one, first), (other, second)] = &tasks[..] else {
        return Err("two tasks were given".into());
    };
    assert!(one.turns > 1 && one.turns.abs_diff(other.turns) <= 1);
    assert!(*first > 0 && *second > 0);
    Ok(())
}

#[test]
fn a_guest_that_ends_gives_its_result() -> Result<(), Box<dyn Error>> {
    let region = Region::builder().slots(1).build()?;
    let prepared = region.prepare(&compile()?, &Linker::new())?;
    let mut scheduler = Scheduler::new(&prepared)?;
    let (name, turns) = ("ends", 0);
    let instance = prepared.instantiate(())?;
    scheduler.ready.push_back(Task {
        name,
        instance,
        turns,
    });
    let (task, result) = loop {
        if let Some(ended) = scheduler.turn(20_000_000) {
            break ended;
        }
    };
    assert_eq!((result?, task.name), (20_000_000, "ends"));
    Ok(())
}
