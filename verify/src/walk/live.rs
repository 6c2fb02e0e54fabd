//! [`Live`]: registers that later instructions read, and registers that loops change.
//!
//! At the start of a loop, a walk that guesses forgets the values of registers that no later
//! instruction reads. Otherwise these values would differ where the loop repeats, and each
//! difference makes the walk visit the loop again. For the same reason, such a walk forgets the
//! numbers that the loop changes. It need not visit the loop to find the changes.
//!
//! These two guesses only remove knowledge, so an error in this file cannot make the verifier
//! accept more. If the remaining knowledge is too little for the proof, another walk forgets
//! nothing.

use super::{Haste, Machine, Walk, block_symbol};
use crate::abi::{Convention, Place};
use crate::error::Proof;
use crate::state::State;
use crate::value::{Kind, Value};
use pirn_format::traps::CodeKind;
use pirn_format::types::ValType;
use std::collections::BTreeMap;

/// A set of registers: general registers from bit 0 on, vector registers from bit 32 on.
pub(crate) type Registers = u64;

/// The flags have the bit of the stack pointer of aarch64, which is never forgotten.
pub(crate) const FLAGS: Registers = 1 << 31;

const VECTOR: usize = 32;

pub(crate) const fn general(register: usize) -> Registers {
    1 << register
}

pub(crate) const fn vector(register: usize) -> Registers {
    1 << (VECTOR + register)
}

/// Which registers an instruction reads and writes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Effects {
    pub(crate) reads: Registers,
    /// Registers that may change.
    pub(crate) writes: Registers,
    /// Registers that the instruction replaces completely.
    pub(crate) replaces: Registers,
    /// The distance of a stored word of the frame from the stack pointer.
    pub(crate) stores: Option<i64>,
    pub(crate) transfer: Transfer,
}

/// How control leaves an instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// To the next instruction, or by a fault.
    #[default]
    None,
    /// By a call, perhaps of the code that starts at this text offset.
    Call(Option<u32>),
    /// By a jump to any target, or by a trap.
    Jump,
    Return,
}

/// Most passes over the blocks of a function to find which registers later instructions read.
const PASSES_MAX: usize = 16;

/// Instructions that are executed in turn, and where execution continues after the last
/// instruction.
struct Run {
    /// Text offset of the first instruction.
    at: u32,
    /// The number of the first instruction.
    number: usize,
    /// Registers that the instructions read before they replace them.
    reads: Registers,
    replaces: Registers,
    /// Registers that the instructions may change.
    writes: Registers,
    /// Registers that are read after the run, wherever it continues.
    after: Registers,
    /// Numbers of instructions where execution may continue, or [`NOWHERE`].
    next: [usize; 2],
}

/// The number of no instruction.
const NOWHERE: usize = usize::MAX;

#[derive(Default)]
pub(crate) struct Live {
    /// By number of an instruction that starts a run: registers that are read from this instruction
    /// on.
    live: Vec<Registers>,
    /// The runs of the function, the last run first.
    runs: Vec<Run>,
    /// Instructions that store words of the frame, the last instruction first: the text offset, and
    /// the distance of the word from the stack pointer.
    stores: Vec<(u32, i64)>,
    /// By text offset of a loop: the end of the last jump back to the loop.
    pub(super) loops: BTreeMap<u32, u32>,
    /// Number of times that a proof has found the live registers.
    updates: u32,
}

/// Most times that a proof finds the live registers. Computed jumps may reach further instructions.
const UPDATES_MAX: u32 = 4;

impl<'m, M: Machine<'m>> Walk<'m, M> {
    fn number(&self, at: u32) -> Option<usize> {
        let index = at.checked_sub(self.entry.start)? as usize;
        let number = *self.numbers.get(index)?;
        number
            .checked_sub(1)
            .filter(|_| number != u32::MAX)
            .map(|number| number as usize)
    }

    /// Finds which registers later instructions read, for a walk that guesses.
    fn find_live(&mut self) -> Proof<()> {
        let count = self.instructions.len();
        if self.live.live.len() == count || self.live.updates == UPDATES_MAX {
            return Ok(());
        }
        self.live.updates += 1;
        self.spend(count)?;
        self.find_runs();
        self.live.live.clear();
        self.live.live.resize(count, Registers::MAX);
        for run in &self.live.runs {
            self.live.live[run.number] = 0;
        }
        for _ in 0..PASSES_MAX {
            self.spend(self.live.runs.len())?;
            let mut changed = false;
            for run in &self.live.runs {
                let all = &mut self.live.live;
                let next = run.next.iter().filter(|next| **next != NOWHERE);
                let after = next.fold(run.after, |after, next| after | all[*next]);
                let live = run.reads | (after & !run.replaces);
                changed |= live != all[run.number];
                all[run.number] = live;
            }
            if !changed {
                return Ok(());
            }
        }
        self.live.live.fill(Registers::MAX);
        Ok(())
    }

    /// Finds the runs of the function.
    fn find_runs(&mut self) {
        let (mut runs, mut stores): (Vec<Run>, _) = (vec![], vec![]);
        let mut next = u32::MAX;
        for index in (0..self.numbers.len()).rev() {
            let number = self.numbers[index];
            if number == 0 || number == u32::MAX {
                continue;
            }
            let at = self.entry.start + index as u32;
            let number = number as usize - 1;
            let instruction = self.instructions[number];
            let mut effects = M::effects(instruction);
            let end = at + M::bytes(instruction) as u32;
            let mut is_end = next != end || self.leaders[(end - self.entry.start) as usize];
            next = at;
            if effects.transfer != Transfer::None {
                is_end |= self.leaves(&mut effects, end);
            }
            if is_end || effects.transfer == Transfer::Jump || effects.transfer == Transfer::Return
            {
                runs.push(self.run_before(end, instruction, &effects));
            }
            stores.extend(effects.stores.map(|distance| (at, distance)));
            if let Some(run) = runs.last_mut() {
                (run.at, run.number) = (at, number);
                run.writes |= effects.writes;
                run.reads = effects.reads | (run.reads & !effects.replaces);
                run.replaces |= effects.replaces;
            }
        }
        (self.live.runs, self.live.stores) = (runs, stores);
    }

    /// An empty run that ends after an instruction.
    fn run_before(&self, end: u32, instruction: M::Instruction, effects: &Effects) -> Run {
        let number = |at: u32| self.number(at).unwrap_or(NOWHERE);
        let target = M::jump_target(instruction);
        let inside = target.map_or(NOWHERE, number);
        let handler = match effects.transfer {
            Transfer::Call(_) => self
                .module
                .handlers
                .find(end)
                .map(|handler| handler.handler),
            _ => None,
        };
        let after = match effects.transfer {
            Transfer::Return => preserved(M::CONVENTION) | set(&self.places.results),
            _ if M::is_computed_jump(instruction) => Registers::MAX,
            // A tail call.
            _ if target.is_some() && inside == NOWHERE => {
                arguments(M::CONVENTION) | preserved(M::CONVENTION)
            }
            _ => 0,
        };
        let falls = match M::falls(instruction) {
            true => number(end),
            false => NOWHERE,
        };
        Run {
            at: end,
            number: 0,
            reads: 0,
            writes: 0,
            replaces: 0,
            after,
            next: [falls, handler.map_or(inside, number)],
        }
    }

    /// Adds the registers that a call reads and replaces. Returns whether the call may continue at
    /// a handler.
    fn leaves(&self, effects: &mut Effects, end: u32) -> bool {
        let Transfer::Call(callee) = effects.transfer else {
            return false;
        };
        effects.reads |=
            self.arguments(callee) | general(M::CONVENTION.stack) | general(M::CONVENTION.frame);
        effects.replaces |= !preserved(M::CONVENTION);
        self.module.handlers.find(end).is_some()
    }

    /// Registers that a call passes.
    fn arguments(&self, callee: Option<u32>) -> Registers {
        let entry = callee.and_then(|callee| self.module.entry(callee));
        match entry.map(|entry| entry.kind) {
            Some(CodeKind::Func(index)) => {
                let metadata = self.module.metadata;
                let ty = metadata.funcs[index as usize];
                let places = self.module.places(M::CONVENTION, ty);
                let area = places.area.map_or(0, general);
                set(&places.params) | general(places.context) | area
            }
            _ => arguments(M::CONVENTION),
        }
    }

    /// At the start of a loop, forgets the registers that no later instruction reads, and the
    /// numbers that the loop changes.
    pub(super) fn guess(&mut self, target: u32, state: &mut State) -> Proof<()> {
        if self.haste != Haste::Guesses || self.is_search {
            return Ok(());
        }
        // A block that starts no loop is visited once, after all paths to it.
        let Some(end) = self.live.loops.get(&target).copied() else {
            return Ok(());
        };
        self.find_live()?;
        let Some(live) = self
            .number(target)
            .and_then(|at| self.live.live.get(at).copied())
        else {
            return Ok(());
        };
        let (runs, stores) = (&self.live.runs, &self.live.stores);
        let runs = &runs[runs.partition_point(|run| run.at >= end)..];
        let runs = &runs[..runs.partition_point(|run| run.at >= target)];
        let stores = &stores[stores.partition_point(|(at, _)| *at >= end)..];
        let stores = &stores[..stores.partition_point(|(at, _)| *at >= target)];
        let writes = runs.iter().fold(0, |all, run| all | run.writes);
        let name = |at: usize| block_symbol(target, at);
        let changes = |register| writes & general(register) != 0;
        let pointer = state.registers[M::CONVENTION.stack];
        for (register, value) in state.registers.iter_mut().enumerate() {
            if register == M::CONVENTION.stack {
                continue;
            }
            if live & general(register) == 0 {
                *value = Value::JUNK;
            } else if changes(register) && value.kind == Kind::Number {
                *value = value.widened(name(register));
            }
        }
        if live & FLAGS == 0 {
            (state.flags, state.readable) = (None, 0);
        }
        state.forget_in_loop(
            |register| live & vector(register) == 0,
            |register| writes & vector(register) != 0,
            name,
        );
        if let Some(pointer) = pointer.stack_distance() {
            for (_, distance) in stores {
                state.widen_slot(i64::from(pointer).saturating_add(*distance), name);
            }
        }
        let words = runs.len() + stores.len();
        self.spend(words)
    }
}

/// Registers that a callee restores, with the stack pointer, the frame pointer and the link
/// register.
fn preserved(abi: &Convention) -> Registers {
    let all = abi
        .preserved
        .iter()
        .chain(&abi.link)
        .chain([&abi.stack, &abi.frame]);
    let vectors = abi.preserved_vectors.clone();
    all.map(|register| general(*register))
        .fold(0, |all, one| all | one)
        | vectors.map(vector).fold(0, |all, one| all | one)
}

/// Registers in which code of an unknown type may get arguments.
fn arguments(abi: &Convention) -> Registers {
    let all = abi.parameters.iter().chain(&abi.area).chain(&abi.host);
    let vectors = (0..crate::abi::VECTORS).map(vector);
    all.map(|register| general(*register))
        .chain(vectors)
        .fold(0, |all, one| all | one)
}

/// The registers among the places of some values.
fn set(places: &[(Place, ValType)]) -> Registers {
    let one = |place: &Place| match *place {
        Place::General(register) => general(register),
        Place::Vector(register) => vector(register),
        Place::Memory(_) => 0,
    };
    places.iter().fold(0, |all, (place, _)| all | one(place))
}
