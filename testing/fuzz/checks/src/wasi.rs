//! A guest calls WASI with hostile arguments. Every call must stay within its limits: host memory,
//! time past its deadline, descriptors, and access only inside the guest's directory.

mod functions;
mod world;
mod bounds;
mod arguments;
mod guest;

use crate::process::{descriptors, held, time_without_processor, watched};
use crate::random::Random;
use bounds::CANARY_DEADLINE;
use guest::PreparedGuest;
use pirn_runtime::{CallError, Value};
use pirn_wasi::Exit;
use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use world::World;

pub use bounds::{Canary, DEADLINE, DESCRIPTORS_MAX, HOST_BYTES_MAX, LATE_MAX};
pub use functions::FUNCTIONS;

/// Most calls of one case.
const CALLS_MAX: usize = 60;
/// Number of times that some cases open a descriptor. It exceeds the limit.
const REPEATS: usize = DESCRIPTORS_MAX + 20;

/// Measures the allocations of the current thread. The program that runs the check provides the
/// allocator.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    /// Starts a measurement.
    pub start: fn(),
    /// The maximum of live bytes since the start, minus the bytes that were live at the start.
    pub peak: fn() -> usize,
}

/// Counts of calls, and of how they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases, each with a context of its own.
    pub cases: usize,
    /// Calls.
    pub calls: usize,
    /// Calls that gave success.
    pub successes: usize,
    /// Calls that trapped, or were refused for a pointer.
    pub traps: usize,
    /// Calls that their deadline ended.
    pub stopped: usize,
    /// Calls of `proc_exit` that ended the guest.
    pub exits: usize,
    /// The most bytes that the host allocated during one call.
    pub bytes_peak: usize,
    /// The longest time that a call took, without the time in which its thread waited for a
    /// processor.
    pub longest: Duration,
    /// Each function with each errno that it gave.
    pub answers: BTreeSet<(&'static str, i32)>,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.calls += other.calls;
        self.successes += other.successes;
        self.traps += other.traps;
        self.stopped += other.stopped;
        self.exits += other.exits;
        self.bytes_peak = self.bytes_peak.max(other.bytes_peak);
        self.longest = self.longest.max(other.longest);
        self.answers.extend(other.answers);
    }
}

impl Tally {
    /// How many functions gave an errno.
    #[must_use]
    pub fn functions(&self) -> usize {
        let names: BTreeSet<_> = self.answers.iter().map(|(name, _)| name).collect();
        names.len()
    }
}

/// Makes the WASI calls that the bytes encode. They run on a thread that the check watches, so that
/// it can report an endless call. Cases do not run in parallel, because the check counts
/// descriptors of the whole process.
///
/// # Errors
///
/// The broken limit, and the call that broke it.
pub fn check(data: &[u8], meter: Meter, canary: Option<Canary>) -> Result<Tally, String> {
    let data = data.to_vec();
    // Prepare the guests first: they keep descriptors that belong to no case.
    guest::prepared_guests();
    watched(move |now| case(&data, meter, canary, now))
}

/// Runs one case: one context, and the calls of its guest.
fn case(
    data: &[u8],
    meter: Meter,
    canary: Option<Canary>,
    now: &Mutex<String>,
) -> Result<Tally, String> {
    let mut random = Random::of_input(data);
    let prepared_guests = guest::prepared_guests();
    let guest = &prepared_guests[random.below(prepared_guests.len())];
    let world = World::new()?;
    let before = descriptors();
    let mut tally = Tally {
        cases: 1,
        ..Tally::default()
    };
    let mut tenant = Tenant {
        guest,
        meter,
        now,
        before,
        instance: guest.instance(&world)?,
        deadline: canary.map_or(DEADLINE, |_| CANARY_DEADLINE),
        time_max: match canary {
            None | Some(Canary::Time) => DEADLINE + LATE_MAX,
            Some(Canary::Memory | Canary::Descriptors) => CANARY_DEADLINE,
        },
    };
    if let Some(canary) = canary {
        let name = match canary {
            Canary::Memory => "canary_memory",
            Canary::Time => "canary_time",
            Canary::Descriptors => "canary_descriptors",
        };
        tenant.call(name, &[], &mut tally)?;
        return Ok(tally);
    }
    tenant.open(&mut tally)?;
    if random.once_in(5) {
        let (name, arguments) = arguments::openers().swap_remove(random.below(4));
        for _ in 0..REPEATS {
            tenant.call(name, &arguments, &mut tally)?;
        }
    }
    let calls = 1 + random.below(CALLS_MAX);
    for _ in 0..calls {
        let (name, arguments) = arguments::any(&mut random, guest.bytes());
        let opens = matches!(name, "path_open" | "sock_accept");
        let times = if opens && random.once_in(8) {
            REPEATS
        } else {
            1
        };
        for _ in 0..times {
            if !tenant.call(name, &arguments, &mut tally)? {
                // A call that ended its guest also ends its context.
                drop(tenant.instance);
                tenant.instance = guest.instance(&world)?;
                tenant.open(&mut tally)?;
                break;
            }
        }
    }
    drop(tenant);
    world.untouched()?;
    Ok(tally)
}

/// A guest, and the means to measure its calls.
struct Tenant<'a> {
    guest: &'a PreparedGuest,
    meter: Meter,
    now: &'a Mutex<String>,
    /// Open descriptors of the process before the context was made.
    before: usize,
    instance: guest::Guest,
    /// Deadline of each call.
    deadline: Duration,
    /// Most time that a call may take.
    time_max: Duration,
}

impl Tenant<'_> {
    /// Opens a file, a file that appends, a FIFO and a directory.
    fn open(&mut self, tally: &mut Tally) -> Result<(), String> {
        for (name, arguments) in arguments::openers() {
            self.call(name, &arguments, tally)?;
        }
        Ok(())
    }

    /// Makes one call. Returns whether the guest may make another.
    fn call(
        &mut self,
        name: &'static str,
        arguments: &[Value],
        tally: &mut Tally,
    ) -> Result<bool, String> {
        let what = format!("{} calls {name}{arguments:?}", self.guest);
        held(self.now).clone_from(&what);
        (self.meter.start)();
        let (started, delayed) = (Instant::now(), time_without_processor());
        let limited = self.instance.deadline(self.deadline);
        let result = limited.call_values(name, arguments);
        let delayed = time_without_processor().saturating_sub(delayed);
        let took = started.elapsed().saturating_sub(delayed);
        let peak = (self.meter.peak)();
        let open = descriptors().saturating_sub(self.before);
        tally.calls += 1;
        tally.bytes_peak = tally.bytes_peak.max(peak);
        tally.longest = tally.longest.max(took);
        if peak > HOST_BYTES_MAX {
            return Err(format!(
                "{what}: the host allocated {peak} bytes, the bound is {HOST_BYTES_MAX}"
            ));
        }
        if took > self.time_max {
            return Err(format!(
                "{what}: it took {took:?} under a deadline of {DEADLINE:?}"
            ));
        }
        if open > DESCRIPTORS_MAX {
            return Err(format!(
                "{what}: {open} descriptors are open, the bound is {DESCRIPTORS_MAX}"
            ));
        }
        match result {
            Ok(values) => {
                if let [Value::I32(errno)] = values[..] {
                    if !(0..=76).contains(&errno) {
                        return Err(format!("{what}: {errno} is no errno"));
                    }
                    tally.successes += usize::from(errno == 0);
                    tally.answers.insert((name, errno));
                }
                Ok(true)
            }
            Err(error) => {
                ended(&error, tally).map_err(|error| format!("{what}: {error}"))?;
                Ok(false)
            }
        }
    }
}

/// Counts how a call ended that did not return.
fn ended(error: &CallError, tally: &mut Tally) -> Result<(), String> {
    match error {
        CallError::Deadline(_) => tally.stopped += 1,
        CallError::Trap(_) => tally.traps += 1,
        error if Exit::of(error).is_some() => tally.exits += 1,
        CallError::Host(error) => {
            let text = error.to_string();
            // Preview 1 traps for invalid pointers; `proc_raise` is not implemented.
            let known = ["Pointer", "pointer", "proc_raise"];
            if text.contains('\n') || !known.iter().any(|part| text.contains(part)) {
                return Err(format!("an error that is no trap of preview 1: {text}"));
            }
            tally.traps += 1;
        }
        error => return Err(error.to_string()),
    }
    Ok(())
}
