//! A component calls WASI 0.2 with hostile arguments: numbers at boundaries, handles of other types
//! and of dropped resources, huge lengths, overlapping areas, allocators that trap, loop or lie.
//! The host must not panic, must stay within its bounds of memory and descriptors, must stop a
//! killed guest at its next step, and must keep nothing once the instance is dropped.

mod ledger;
mod bounds;
mod interfaces;
mod world;
mod guest;
mod arguments;

use crate::process::{descriptors, held, time_without_processor, watched};
use crate::random::Random;
use arguments::{Arguments, Handles};
use guest::{ALLOCATORS, Allocator, HEAD_WORDS, PreparedGuest, RESULT_AT};
use http::Request;
use http_body_util::Full;
use interfaces::{Function, Shape};
use ledger::Ledger;
use pirn_component::{CallError, Instance, Limits};
use pirn_runtime::CallError as CoreError;
use pirn_wasi2::http::{Answer, begin};
use pirn_wasi2::{Exit, View, WasiConfig};
use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use world::{Host, World};

pub use bounds::Canary;
use bounds::{
    CALL_BYTES_MAX, CANARY_DEADLINE, CLOSE_MAX, DEADLINE, DESCRIPTORS_MAX, KEPT_BYTES_MAX,
    KILLED_BYTES_MAX, KILLED_USES_MAX, LEFT_BYTES_MAX,
};
pub use ledger::Meter;

/// Most calls of one case.
const CALLS_MAX: usize = 120;
/// Most instances of one case. A call that fails ends its instance.
const INSTANCES_MAX: usize = 8;
/// How often a guest repeats a call without end.
const ENDLESS: u64 = i64::MAX as u64;

/// Counts of calls, and of how they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases.
    pub cases: usize,
    /// Instances.
    pub instances: usize,
    /// Calls of the guest.
    pub calls: usize,
    /// How often host functions used the host's data.
    pub host_uses: u64,
    /// Calls that returned.
    pub returned: usize,
    /// Calls that trapped, broke a rule of the canonical ABI, or were ended by a host function.
    pub traps: usize,
    /// Calls that their deadline ended.
    pub stopped: usize,
    /// Calls that ended because their guest was killed.
    pub killed: usize,
    /// Calls that ended the guest by `exit`.
    pub exits: usize,
    /// Handles that the guest got.
    pub handles: usize,
    /// The most bytes that the host allocated during one call.
    pub call_bytes: usize,
    /// The most bytes that the host allocated in a call after its guest was killed.
    pub killed_bytes: usize,
    /// The most bytes that the host kept between two calls.
    pub kept_bytes: isize,
    /// The most bytes that were left after an instance.
    pub left_bytes: isize,
    /// The longest time that a call took past its deadline, without the time in which its thread
    /// waited for a processor. No bound is checked.
    pub late: Duration,
    /// The functions that returned at least once, by their numbers.
    pub functions: BTreeSet<usize>,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.instances += other.instances;
        self.calls += other.calls;
        self.host_uses += other.host_uses;
        self.returned += other.returned;
        self.traps += other.traps;
        self.stopped += other.stopped;
        self.killed += other.killed;
        self.exits += other.exits;
        self.handles += other.handles;
        self.call_bytes = self.call_bytes.max(other.call_bytes);
        self.killed_bytes = self.killed_bytes.max(other.killed_bytes);
        self.kept_bytes = self.kept_bytes.max(other.kept_bytes);
        self.left_bytes = self.left_bytes.max(other.left_bytes);
        self.late = self.late.max(other.late);
        self.functions.extend(other.functions);
    }
}

/// Makes the calls that the bytes encode. `wit` is the folder of WIT files of the crate `wasip2`.
///
/// # Errors
///
/// The broken bound, and the call that broke it.
pub fn check(
    data: &[u8],
    meter: Meter,
    wit: &Path,
    canary: Option<Canary>,
) -> Result<Tally, String> {
    let random = Random::of_input(data);
    // Prepare the guest first: it keeps descriptors that belong to no case.
    let guest = guest::prepared_guest(wit)?;
    // cap-std opens descriptors once in a process. A first case, which is not checked, does so.
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let first = move || {
            let random = Random::new(0);
            case(
                random,
                guest,
                meter,
                None,
                Duration::ZERO,
                &Mutex::default(),
            )
            .map(drop)
        };
        let _ = thread::spawn(first).join();
    });
    let close_max = canary.map_or(CLOSE_MAX, |_| Duration::ZERO);
    watched(move |now| case(random, guest, meter, canary, close_max, now))
}

/// The number of functions that the guest can call. `wit` is the folder for [`check`].
///
/// # Errors
///
/// If the guest cannot be made.
pub fn functions(wit: &Path) -> Result<usize, String> {
    Ok(guest::prepared_guest(wit)?.interfaces.functions.len())
}

/// Runs one case: the instances of one configuration, one after the other. Waits at most
/// `close_max` until the descriptors of an instance are closed.
fn case(
    mut random: Random,
    guest: &'static PreparedGuest,
    meter: Meter,
    canary: Option<Canary>,
    close_max: Duration,
    now: &Mutex<String>,
) -> Result<Tally, String> {
    let world = World::new()?;
    let config = world.config(random.once_in(2))?;
    let ports = world.ports()?;
    let mut tally = Tally {
        cases: 1,
        ..Tally::default()
    };
    let mut calls_left = 1 + random.below(CALLS_MAX);
    for _ in 0..INSTANCES_MAX {
        let before = descriptors();
        // Everything that the tenant makes is dropped before the bytes are counted.
        let ledger = Arc::new(Ledger::new(meter));
        let mut tenant = Tenant::new(guest, &config, &ledger, random.once_in(2), before)?;
        let run = match canary {
            Some(canary) => {
                tenant.deadline = CANARY_DEADLINE;
                tenant.canary(canary, now, &mut tally)
            }
            None => tenant.run(&mut random, ports, &mut calls_left, now, &mut tally),
        };
        let seen = tenant.end(&mut tally);
        let left = ledger.live();
        run?;
        tally.instances += 1;
        tally.left_bytes = tally.left_bytes.max(left);
        let what = held(now).clone();
        if seen != 1 {
            return Err(format!("{what}: the slot is not free after the instance"));
        }
        if left > LEFT_BYTES_MAX {
            return Err(format!(
                "{what}: {left} bytes are left after the instance, the bound is {LEFT_BYTES_MAX}"
            ));
        }
        let dropped = Instant::now();
        loop {
            let open = descriptors();
            if open <= before {
                break;
            }
            if dropped.elapsed() >= close_max {
                return Err(format!(
                    "{what}: {open} descriptors are open after the instance, {before} were before"
                ));
            }
            thread::yield_now();
        }
        if calls_left == 0 || canary.is_some() {
            break;
        }
    }
    world.untouched()?;
    Ok(tally)
}

/// An instance, and what drives and measures it.
struct Tenant<'a> {
    // The instance is dropped before the runtime, which drops its tasks.
    instance: Instance<Host>,
    _answer: Answer,
    runtime: Runtime,
    guest: &'a PreparedGuest,
    ledger: &'a Ledger,
    handles: Handles,
    /// Open descriptors of the process before the instance.
    descriptors: usize,
    /// Deadline of each call.
    deadline: Duration,
}

impl<'a> Tenant<'a> {
    fn new(
        guest: &'a PreparedGuest,
        config: &Arc<WasiConfig>,
        ledger: &'a Arc<Ledger>,
        silent: bool,
        descriptors: usize,
    ) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let host = Host::new(World::wasi(config, silent), Arc::clone(ledger));
        let instance = guest.prepared.try_instantiate(host);
        let mut instance = instance.map_err(|error| error.to_string())?;
        let request = Request::post("http://localhost/path")
            .header("name", "value")
            .body(Full::from("the body of a request"))
            .map_err(|error| error.to_string())?;
        let begun = begin(instance.data_mut().wasi(), request);
        let (params, answer) = begun.map_err(|error| error.to_string())?;
        let taken = instance.call_typed_async(Limits::default(), &guest.take, params);
        let taken = runtime.block_on(taken);
        let taken = taken.map_err(|error| error.to_string())?;
        let mut handles = Handles::new();
        for (name, handle) in [
            ("incoming-request", taken),
            ("response-outparam", taken >> 32),
        ] {
            let drop = format!("[resource-drop]{name}");
            let mut functions = guest.interfaces.functions.iter();
            let resource = functions.find(|function| function.name == drop);
            if let Some(resource) = resource.and_then(|function| function.drops) {
                handles.entry(resource).or_default().push(handle as u32);
            }
        }
        let switch = instance.kill_switch();
        instance.data_mut().switch = Some(switch);
        Ok(Self {
            instance,
            _answer: answer,
            runtime,
            guest,
            ledger,
            handles,
            descriptors,
            deadline: DEADLINE,
        })
    }

    /// Drops the instance and its tasks. Returns the number of free slots.
    fn end(self, tally: &mut Tally) -> usize {
        tally.host_uses += self.instance.data().uses;
        let region = &self.guest.region;
        drop(self);
        region.slots_free()
    }

    /// Calls the function that breaks a bound.
    fn canary(
        &mut self,
        canary: Canary,
        now: &Mutex<String>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let mut functions = self.guest.interfaces.functions.iter();
        let number = functions.position(|function| function.interface == "canary");
        let number = number.ok_or("the guest has no canary")?;
        let words = vec![0, 1, u64::from(canary.number())];
        self.call(number, words, now, tally).map(drop)
    }

    /// Makes calls as long as they end well and calls are left.
    fn run(
        &mut self,
        random: &mut Random,
        ports: [u16; 2],
        calls_left: &mut usize,
        now: &Mutex<String>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let guest = self.guest;
        let functions = &guest.interfaces.functions;
        for name in OPENERS {
            let number = functions.iter().position(|function| function.name == name);
            let number = number.ok_or_else(|| format!("the guest has no function {name}"))?;
            let words = [vec![0, 1], self.arguments(random, ports, None, number)].concat();
            if !self.call(number, words, now, tally)? {
                return Ok(());
            }
        }
        while *calls_left > 0 {
            *calls_left -= 1;
            let number = self.any(random);
            if functions[number].interface == "canary" {
                continue;
            }
            let wild = random.once_in(12).then_some(4);
            let allocator = match random.once_in(15) {
                true => ALLOCATORS[random.below(ALLOCATORS.len())],
                false => Allocator::Works,
            };
            let times = match random.below(40) {
                0 => ENDLESS,
                1..=3 => 1 + random.below(300) as u64,
                _ => 1,
            };
            if random.once_in(15) {
                let host = self.instance.data_mut();
                let later = if times > 1 {
                    random.below(200) as u64
                } else {
                    0
                };
                host.kill_at = Some(host.uses + 1 + later);
            }
            let mut words = vec![allocator as u64, times];
            words.extend(self.arguments(random, ports, wild, number));
            let goes_on = self.call(number, words, now, tally)?;
            self.instance.data_mut().kill_at = None;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// A function. Those whose handles the guest has are more frequent.
    fn any(&self, random: &mut Random) -> usize {
        let functions = &self.guest.interfaces.functions;
        let mut number = random.below(functions.len());
        for _ in 0..6 {
            let function = &functions[number];
            let this = match (function.drops, function.params.first()) {
                // Most resources stay.
                (Some(_), _) if !random.once_in(8) => None,
                (Some(resource), _) => Some(resource),
                (None, Some(first)) => match self.guest.interfaces.shape(first) {
                    Shape::Handle(resource, _) => Some(resource),
                    _ => return number,
                },
                (None, None) if function.name == "exit" && !random.once_in(8) => None,
                (None, None) => return number,
            };
            let has = |resource| {
                self.handles
                    .get(&resource)
                    .is_some_and(|all| !all.is_empty())
            };
            if this.is_some_and(has) {
                return number;
            }
            number = random.below(functions.len());
        }
        number
    }

    fn arguments(
        &mut self,
        random: &mut Random,
        ports: [u16; 2],
        wild: Option<usize>,
        number: usize,
    ) -> Vec<u64> {
        let interfaces = &self.guest.interfaces;
        let arguments = Arguments::new(random, interfaces, &mut self.handles, ports, wild);
        arguments.of(&interfaces.functions[number])
    }

    /// Makes one call. Returns whether the instance can be called again.
    fn call(
        &mut self,
        number: usize,
        words: Vec<u64>,
        now: &Mutex<String>,
        tally: &mut Tally,
    ) -> Result<bool, String> {
        let function = &self.guest.interfaces.functions[number];
        let (head, params) = words.split_at(HEAD_WORDS.min(words.len()));
        let shown = &params[..params.len().min(function.signature.params.len())];
        let what = format!(
            "{}{shown:?}, allocator {:?}, {} times",
            function.path(),
            ALLOCATORS[head[0] as usize % ALLOCATORS.len()],
            head[1]
        );
        held(now).clone_from(&what);
        let limits = Limits {
            deadline: Some(self.deadline),
            timeslice: None,
        };
        self.ledger.mark();
        let (started, delayed) = (Instant::now(), time_without_processor());
        let called =
            self.instance
                .call_typed_async(limits, &self.guest.call, (number as u32, words));
        let result = self.runtime.block_on(called);
        let delayed = time_without_processor().saturating_sub(delayed);
        let took = started.elapsed().saturating_sub(delayed);
        let (peak, kept) = (self.ledger.peak(), self.ledger.live());
        tally.calls += 1;
        tally.late = tally.late.max(took.saturating_sub(self.deadline));
        tally.kept_bytes = tally.kept_bytes.max(kept);
        self.bounded(peak, kept, tally)
            .map_err(|error| format!("{what}: {error}"))?;
        match result {
            Ok(word) => {
                tally.returned += 1;
                tally.functions.insert(number);
                self.found(function, word, tally);
                Ok(self.instance.data().killed_at.is_none())
            }
            Err(error) => {
                ended(&error, tally).map_err(|error| format!("{what}: {error}"))?;
                Ok(false)
            }
        }
    }

    /// Checks the bounds of one call.
    fn bounded(&self, peak: usize, kept: isize, tally: &mut Tally) -> Result<(), String> {
        let host = self.instance.data();
        if let Some(killed_at) = host.killed_at {
            tally.killed_bytes = tally.killed_bytes.max(peak);
            let after = host.uses - killed_at;
            if after > KILLED_USES_MAX {
                return Err(format!(
                    "the host's data was used {after} times after the guest was killed, the bound \
                     is {KILLED_USES_MAX}"
                ));
            }
            if peak > KILLED_BYTES_MAX {
                return Err(format!(
                    "the host allocated {peak} bytes after the guest was killed, the bound is \
                     {KILLED_BYTES_MAX}"
                ));
            }
        } else {
            tally.call_bytes = tally.call_bytes.max(peak);
            if peak > KEPT_BYTES_MAX + CALL_BYTES_MAX {
                return Err(format!(
                    "the host allocated {peak} bytes, the bound is {}",
                    KEPT_BYTES_MAX + CALL_BYTES_MAX
                ));
            }
        }
        if kept > KEPT_BYTES_MAX.cast_signed() {
            return Err(format!(
                "the host keeps {kept} bytes, the bound is {KEPT_BYTES_MAX}"
            ));
        }
        let open = descriptors().saturating_sub(self.descriptors);
        if open > DESCRIPTORS_MAX {
            return Err(format!(
                "{open} descriptors are open, the bound is {DESCRIPTORS_MAX}"
            ));
        }
        Ok(())
    }

    /// Remembers the handles of a result.
    fn found(&mut self, function: &Function, word: u64, tally: &mut Tally) {
        let Some(ty) = &function.result else {
            return;
        };
        let interfaces = &self.guest.interfaces;
        let found = match (function.signature.retptr, interfaces.shape(ty)) {
            (true, _) => {
                let memory = self.instance.core().memory();
                interfaces.handles(memory.as_slice(), ty, RESULT_AT as usize)
            }
            (false, Shape::Handle(resource, _)) => vec![(resource, word as u32)],
            (false, _) => vec![],
        };
        tally.handles += found.len();
        for (resource, handle) in found {
            self.handles.entry(resource).or_default().push(handle);
        }
    }
}

/// Functions that each guest calls first, because their resources have the most methods.
const OPENERS: [&str; 8] = [
    "get-directories",
    "get-stdout",
    "get-stderr",
    "get-stdin",
    "instance-network",
    "[constructor]fields",
    "create-tcp-socket",
    "create-udp-socket",
];

/// Counts how a call ended that did not return.
fn ended(error: &CallError, tally: &mut Tally) -> Result<(), String> {
    if Exit::of(error).is_some() {
        tally.exits += 1;
        return Ok(());
    }
    let text = error.to_string();
    if text.contains('\n') {
        return Err(format!("not a line: {text}"));
    }
    match error {
        CallError::Core(CoreError::Deadline(_)) => tally.stopped += 1,
        CallError::Core(CoreError::Killed(_)) => tally.killed += 1,
        CallError::Core(CoreError::Trap(_) | CoreError::Host(_)) | CallError::Abi(_) => {
            tally.traps += 1;
        }
        // A panic of the host, and whatever else the guest cannot cause.
        _ => return Err(text),
    }
    Ok(())
}
