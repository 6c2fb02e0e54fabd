//! [`Tenant`]: an instance in a slot, and the state that the check expects of it.

use super::modules::{FRESH, FUEL, Funcs, PAGE, Shape, is_initial};
use crate::random::Random;
use pirn_runtime::{
    CallError, Instance, KillError, KillOutcome, KillSwitch, Operation, Step, TrapCode, TypedFunc,
    Value,
};
use std::time::Duration;

/// The host's data of an instance: the kill switch with which a host function stops its own guest.
#[derive(Debug, Default)]
pub(super) struct Wire(Option<KillSwitch>);

impl Wire {
    pub(super) fn switch(&self) -> &KillSwitch {
        self.0
            .as_ref()
            .expect("the kill switch is set with the tenant")
    }
}

/// The state of an instance.
#[derive(Debug, Clone, Copy)]
enum State {
    Idle,
    /// Preempted in this function. The second field is the function's result, if it will return.
    Preempted(TypedFunc<u32, u32>, Option<u32>),
    /// Suspended by a question with this value.
    Asked(u32),
    Killed,
}

/// How an operation ended, for the tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Suspended,
    Stopped,
}

/// An instance, and the state that the check expects.
#[derive(Debug)]
pub(super) struct Tenant {
    instance: Instance<Wire, u32, u32>,
    switch: KillSwitch,
    funcs: Funcs,
    shape: &'static Shape,
    state: State,
    /// Its memory after the last operation.
    memory: Vec<u8>,
}

type Result<T> = std::result::Result<T, String>;

impl Tenant {
    pub(super) fn new(
        mut instance: Instance<Wire, u32, u32>,
        funcs: Funcs,
        shape: &'static Shape,
    ) -> Self {
        let switch = instance.kill_switch();
        instance.data_mut().0 = Some(switch.clone());
        Self {
            instance,
            switch,
            funcs,
            shape,
            state: State::Idle,
            memory: vec![],
        }
    }

    /// Checks that the state is as the module defines it.
    pub(super) fn check_initial_state(&mut self) -> Result<()> {
        let (shape, memory) = (self.shape, self.instance.memory());
        let (found, expected) = (memory.as_slice(), &shape.memory);
        if found.len() != expected.len() {
            return Err(format!(
                "memory has {} bytes, not {}",
                found.len(),
                expected.len()
            ));
        }
        if found != expected.as_slice() {
            let at = found
                .iter()
                .zip(expected)
                .take_while(|(a, b)| a == b)
                .count();
            return Err(format!(
                "byte {at:#x} is {}, not {}",
                found[at], expected[at]
            ));
        }
        if self.instance.global("a") != Some(Value::I64(shape.global)) {
            return Err("global a is another".to_owned());
        }
        for name in ["v", "f", "x"] {
            if !is_initial(name, self.instance.global(name)) {
                return Err(format!("global {name} is another"));
            }
        }
        if self.instance.is_suspended() || self.switch.is_running() {
            return Err("it runs already".to_owned());
        }
        if self.instance.fuel().is_some_and(|fuel| fuel != FUEL) {
            return Err("it has used fuel".to_owned());
        }
        let fresh = self.instance.call(&self.funcs.fresh, ());
        if !matches!(fresh, Ok(FRESH)) {
            return Err(format!(
                "tables or segments are others: {fresh:?}, not {FRESH}"
            ));
        }
        let len = shape.memory.len() as u32;
        for beyond in [len, len + 4096, (shape.pages_max * PAGE) as u32, u32::MAX] {
            let loaded = self.instance.call(&self.funcs.load, beyond);
            if !matches!(&loaded, Err(CallError::Trap(trap)) if trap.code() == TrapCode::MemoryOutOfBounds)
            {
                return Err(format!("byte {beyond:#x} is beyond the memory: {loaded:?}"));
            }
        }
        self.copy_memory();
        Ok(())
    }

    /// Copies the whole memory. Unoptimised code copies and compares far faster than it hashes.
    fn copy_memory(&mut self) {
        self.memory.clear();
        let memory = self.instance.memory();
        self.memory.extend_from_slice(memory.as_slice());
    }

    /// Performs an operation and checks its result.
    pub(super) fn act(&mut self, act: u8, random: &mut Random) -> Result<Outcome> {
        if self.memory.as_slice() != self.instance.memory().as_slice() {
            return Err("somebody else has changed its memory".to_owned());
        }
        let outcome = match self.state {
            State::Idle => self.act_idle(act, random),
            State::Killed => self.refuses(|error| matches!(error, CallError::Killed(_))),
            State::Preempted(func, end) => self.act_preempted(act, func, end),
            State::Asked(said) => self.act_asked(act, said, random),
        }?;
        self.copy_memory();
        Ok(outcome)
    }

    fn act_idle(&mut self, act: u8, random: &mut Random) -> Result<Outcome> {
        let (funcs, number) = (self.funcs, random.below(256) as u32);
        match act % 16 {
            0 | 1 => self.returns(&funcs.dirty, number, number),
            2 => self.grows(random.below(10) as u32),
            3 => self.traps(&funcs.unreachable, TrapCode::Unreachable),
            4 => self.traps(&funcs.deep, TrapCode::StackOverflow),
            5 => self.host_writes(random),
            6 => match self.instance.call(&funcs.fails, number) {
                Err(CallError::Host(_)) => Ok(Outcome::Done),
                other => Err(format!("the host fails: {other:?}")),
            },
            7 => {
                self.state = State::Killed;
                match self.instance.call(&funcs.kills, number) {
                    Err(CallError::Killed(_)) => Ok(Outcome::Stopped),
                    other => Err(format!("killed by a host function: {other:?}")),
                }
            }
            8 => {
                let limit = Duration::from_micros(20 + random.below(200) as u64);
                match self.instance.deadline(limit).call(&funcs.forever, number) {
                    Err(CallError::Deadline(_)) => Ok(Outcome::Stopped),
                    other => Err(format!("past its deadline: {other:?}")),
                }
            }
            9 => self.kill(KillOutcome::Idle),
            10 => self.runs_out_of_fuel(number),
            11 => {
                let slice = Duration::from_micros(20 + random.below(200) as u64);
                let step = self.instance.timeslice(slice).start(&funcs.forever, number);
                self.preempted(step, funcs.forever, None)
            }
            12 | 13 => {
                let slice = Duration::from_secs(600);
                let step = self.instance.timeslice(slice).start(&funcs.yields, number);
                self.preempted(step, funcs.yields, Some(number * 3))
            }
            _ => match self.instance.start(&funcs.ask, number) {
                Ok(Step::Asked(said)) if said == number => {
                    self.state = State::Asked(said);
                    Ok(Outcome::Suspended)
                }
                other => Err(format!("asks {number}: {other:?}")),
            },
        }
    }

    fn act_preempted(
        &mut self,
        act: u8,
        func: TypedFunc<u32, u32>,
        end: Option<u32>,
    ) -> Result<Outcome> {
        match act % 4 {
            0 => self.refuses(|error| is_state(error, Operation::Call)),
            1 => {
                self.kill(KillOutcome::Suspended)?;
                self.ended(|instance| instance.resume(&func))
            }
            2 => Ok(self.cancel()),
            _ => match end {
                Some(end) => match self.instance.resume(&func) {
                    Ok(Step::Returned(value)) if value == end => {
                        self.state = State::Idle;
                        Ok(Outcome::Done)
                    }
                    other => Err(format!("goes on to return {end}: {other:?}")),
                },
                None => {
                    let step = self
                        .instance
                        .timeslice(Duration::from_micros(50))
                        .resume(&func);
                    self.preempted(step, func, None)
                }
            },
        }
    }

    fn act_asked(&mut self, act: u8, said: u32, random: &mut Random) -> Result<Outcome> {
        match act % 4 {
            0 => self.refuses(|error| is_state(error, Operation::Call)),
            1 => {
                let ask = self.funcs.ask;
                self.kill(KillOutcome::Suspended)?;
                self.ended(|instance| instance.resume_with(&ask, 1))
            }
            2 => Ok(self.cancel()),
            _ => {
                let answer = random.any() as u32;
                self.state = State::Idle;
                match self.instance.resume_with(&self.funcs.ask, answer) {
                    Ok(Step::Returned(value)) if value == said.wrapping_add(answer) => {
                        Ok(Outcome::Done)
                    }
                    other => Err(format!("{said} is answered {answer}: {other:?}")),
                }
            }
        }
    }

    /// Handles a call that the end of a time slice suspended at an unknown instruction.
    fn preempted(
        &mut self,
        step: std::result::Result<Step<u32, u32>, CallError>,
        func: TypedFunc<u32, u32>,
        end: Option<u32>,
    ) -> Result<Outcome> {
        match step {
            Ok(Step::Preempted) => {
                self.state = State::Preempted(func, end);
                Ok(Outcome::Suspended)
            }
            other => Err(format!("preempted: {other:?}")),
        }
    }

    fn returns(&mut self, func: &TypedFunc<u32, u32>, param: u32, result: u32) -> Result<Outcome> {
        match self.instance.call(func, param) {
            Ok(value) if value == result => Ok(Outcome::Done),
            other => Err(format!("returns {result}: {other:?}")),
        }
    }

    fn traps(&mut self, func: &TypedFunc<u32, u32>, code: TrapCode) -> Result<Outcome> {
        match self.instance.call(func, 1) {
            Err(CallError::Trap(trap)) if trap.code() == code => Ok(Outcome::Done),
            other => Err(format!("traps with {code}: {other:?}")),
        }
    }

    fn grows(&mut self, by: u32) -> Result<Outcome> {
        let pages = (self.instance.memory().len() / PAGE) as u32;
        let fits = (pages + by) as usize <= self.shape.pages_max;
        let before = if fits { pages } else { u32::MAX };
        self.returns(&self.funcs.grow.to_owned(), by, before)?;
        let (memory, fresh) = (self.instance.memory(), pages as usize * PAGE);
        if memory.as_slice()[fresh..].iter().any(|byte| *byte != 0) {
            return Err("new pages are not zero".to_owned());
        }
        if memory.len() != fresh + if fits { by as usize * PAGE } else { 0 } {
            return Err(format!("grown by {by} pages to {} bytes", memory.len()));
        }
        Ok(Outcome::Done)
    }

    fn host_writes(&mut self, random: &mut Random) -> Result<Outcome> {
        let mut memory = self.instance.memory_mut();
        if !memory.is_empty() {
            let (at, value) = (random.below(memory.len()), random.any() as u8);
            memory.as_mut_slice()[at] = value;
            let read = self.instance.call(&self.funcs.load, at as u32);
            if !matches!(read, Ok(read) if read == u32::from(value)) {
                return Err(format!("the guest reads another byte at {at:#x}"));
            }
        }
        Ok(Outcome::Done)
    }

    fn runs_out_of_fuel(&mut self, number: u32) -> Result<Outcome> {
        if self.instance.set_fuel(20).is_err() {
            return Ok(Outcome::Done);
        }
        let ended = self.traps(&self.funcs.forever.clone(), TrapCode::OutOfFuel);
        self.instance
            .set_fuel(FUEL)
            .map_err(|error| format!("{number}: {error}"))?;
        ended
    }

    fn kill(&mut self, met: KillOutcome) -> Result<Outcome> {
        self.state = State::Killed;
        match self.switch.kill() {
            Ok(found) if found == met => Ok(Outcome::Stopped),
            other => Err(format!("killed while {met:?}: {other:?}")),
        }
    }

    /// Checks that a call that was killed while suspended ends when it is resumed.
    fn ended(
        &mut self,
        go_on: impl FnOnce(
            &mut Instance<Wire, u32, u32>,
        ) -> std::result::Result<Step<u32, u32>, CallError>,
    ) -> Result<Outcome> {
        match go_on(&mut self.instance) {
            Err(CallError::Killed(_)) => Ok(Outcome::Stopped),
            other => Err(format!("killed while it was suspended: {other:?}")),
        }
    }

    fn cancel(&mut self) -> Outcome {
        self.instance.cancel();
        self.state = State::Idle;
        Outcome::Done
    }

    fn refuses(&mut self, as_expected: impl Fn(&CallError) -> bool) -> Result<Outcome> {
        match self.instance.call(&self.funcs.dirty, 1) {
            Err(error) if as_expected(&error) => Ok(Outcome::Done),
            other => Err(format!("in state {:?}: {other:?}", self.state)),
        }
    }

    /// Drops the instance, here or on another thread, and checks that its kill switch no longer has
    /// an effect.
    pub(super) fn drop_checked(self, random: &mut Random) -> Result<()> {
        let Self {
            instance, switch, ..
        } = self;
        if random.once_in(4) {
            std::thread::scope(|scope| scope.spawn(move || drop(instance)).join())
                .map_err(|_| "dropped on another thread: a panic".to_owned())?;
        } else {
            drop(instance);
        }
        match switch.kill() {
            Err(KillError::Gone) => Ok(()),
            other => Err(format!("killed when it is gone: {other:?}")),
        }
    }
}

fn is_state(error: &CallError, operation: Operation) -> bool {
    matches!(error, CallError::State(error) if error.operation() == operation)
}
