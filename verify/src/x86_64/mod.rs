//! Proves the properties of one function's x86_64 code.
//!
//! The proof is an abstract interpretation: each instruction changes a [`State`], which says what
//! registers and the frame hold. Where paths meet, the state keeps what both know. Instructions
//! that no path reaches are not checked: every jump is checked, so they never run.

mod builtins;
mod calls;
mod compute;
mod fork;
mod list;
mod operands;
mod step;
mod vectors;

use crate::abi::{self, Place, Places};
use crate::access::typed;
use crate::casts;
use crate::error::{Proof, Property, Refusal, Unproven, refuse};
use crate::module::Module;
use crate::state::{Extent, Slot, State};
use crate::value::{Kind, Symbol, Value};
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory};
use pirn_format::exit::{Builtin, CELL_BYTES};
use pirn_format::traps::{CodeEntry, CodeKind};
use pirn_format::types::{FuncType, ValType};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// Joins of a block's state before intervals are widened.
const PRECISE_JOINS: u32 = 2;

/// Maximum number of restarts of a walk. The walk restarts when a computed jump or a handler splits
/// a block that was walked already. After the last restart, a split block starts without known
/// relations between values.
const RESTARTS_MAX: u32 = 16;

/// Most words of registers and frames that the states of a function's blocks hold together: 2 GB.
/// A function of several megabytes needs a hundredth.
const WORDS_MAX: usize = 1 << 25;

/// Maximum number of words that the proof of a function compares or copies: some ten seconds.
const WORK_MAX: usize = 1 << 30;

/// Maximum number of such words for a module, per byte of its text, but at least [`WORK_MAX`].
const WORK_PER_BYTE_MAX: usize = 1 << 10;

/// The walk over one function.
pub(crate) struct Walk<'m> {
    module: &'m Module<'m>,
    entry: CodeEntry,
    /// Places of the function's own parameters and results.
    places: Places,
    decoder: Decoder<'m>,
    factory: InstructionInfoFactory,
    /// By byte of the function: the number of the instruction that starts there, plus 1.
    numbers: Vec<u32>,
    instructions: Vec<Instruction>,
    /// By byte of the function: whether an instruction that starts there was proven.
    walked: Vec<bool>,
    /// Number of restarts so far.
    restarts: u32,
    /// Whether the walk must restart.
    is_stale: bool,
    /// By byte of the function: whether a block starts there.
    leaders: Vec<bool>,
    blocks: BTreeMap<u32, Block>,
    todo: BTreeSet<u32>,
    /// Paths that are walked apart from others, see `fork.rs`.
    forks: fork::Forks,
    /// Words of all states in `blocks`, at most [`WORDS_MAX`].
    held: usize,
    /// Words compared or copied so far, at most [`WORK_MAX`].
    work: usize,
}

struct Block {
    state: State,
    joins: u32,
}

/// One instruction, and what is known before it.
struct Step<'w, 'm> {
    walk: &'w mut Walk<'m>,
    state: &'w mut State,
    instruction: Instruction,
    /// Text offset of the instruction.
    at: u32,
}

/// Where execution continues after an instruction.
enum Next {
    /// With the next instruction.
    Falls,
    /// At this text offset, in place of the next instruction.
    Jumps(u32),
    /// Nowhere in this function.
    Ends,
}

/// Proves all properties of the code of one entry. Returns the number of instructions.
pub(crate) fn prove(module: &Module<'_>, entry: CodeEntry) -> Result<usize, Refusal> {
    prove_with(module, entry, true)
}

/// Proves all properties of a trap stub for any value in the register of its argument.
pub(crate) fn prove_without_argument(
    module: &Module<'_>,
    stub: CodeEntry,
) -> Result<usize, Refusal> {
    prove_with(module, stub, false)
}

fn prove_with(module: &Module<'_>, entry: CodeEntry, has_argument: bool) -> Result<usize, Refusal> {
    let mut at = entry.start;
    let proof = Walk::new(module, entry, has_argument).and_then(|mut walk| {
        let result = walk.run(&mut at);
        module.work.fetch_add(walk.work, Ordering::Relaxed);
        result.map(|()| walk.instructions.len())
    });
    proof.map_err(|Unproven { property, message }| Refusal {
        property,
        code: entry.kind,
        offset: at,
        message,
    })
}

impl<'m> Walk<'m> {
    fn new(module: &'m Module<'m>, entry: CodeEntry, has_argument: bool) -> Proof<Self> {
        let work_max = WORK_MAX.max(module.text.len().saturating_mul(WORK_PER_BYTE_MAX));
        if module.work.load(Ordering::Relaxed) > work_max {
            return refuse(
                Property::Instructions,
                format!("needs more work than {work_max} words with all functions before it"),
            );
        }
        let end = entry.start as usize + entry.len as usize;
        let Some(code) = module.text.get(entry.start as usize..end) else {
            return refuse(
                Property::Instructions,
                format!("ends at {end}; the text has {} bytes", module.text.len()),
            );
        };
        let mut signature = signature(module, entry.kind);
        if !has_argument {
            signature.params.clear();
        }
        Ok(Self {
            module,
            entry,
            places: Places::of(&signature),
            decoder: Decoder::with_ip(64, code, u64::from(entry.start), DecoderOptions::NONE),
            factory: InstructionInfoFactory::new(),
            numbers: vec![0; code.len()],
            walked: vec![false; code.len()],
            restarts: 0,
            is_stale: false,
            instructions: vec![],
            leaders: vec![false; code.len()],
            blocks: BTreeMap::new(),
            todo: BTreeSet::new(),
            forks: fork::Forks::default(),
            held: 0,
            work: 0,
        })
    }

    /// Walks over all paths. `at` is the instruction that is being proven.
    fn run(&mut self, at: &mut u32) -> Proof<()> {
        let entry = self.entry_state()?;
        self.flow(self.entry.start, Cow::Borrowed(&entry))?;
        while let Some((start, mut state)) = self.next_path() {
            *at = start;
            loop {
                let instruction = self.instruction(*at)?;
                self.forks.at = *at;
                if !self.forks.is_fork {
                    self.walked[(*at - self.entry.start) as usize] = true;
                }
                let next = instruction.next_ip() as u32;
                let step = Step {
                    at: *at,
                    instruction,
                    walk: self,
                    state: &mut state,
                };
                let (continues, is_jump) = match step.run()? {
                    Next::Falls => (next, false),
                    Next::Jumps(target) => (target, true),
                    Next::Ends => break,
                };
                let is_leader = is_jump || self.is_leader(continues);
                if is_leader && !self.forks.passes(continues) {
                    self.flow(continues, Cow::Owned(state))?;
                    break;
                }
                self.spend(usize::from(is_leader) * state.words())?;
                *at = continues;
            }
            if std::mem::take(&mut self.is_stale) {
                self.blocks.clear();
                self.held = 0;
                self.todo.clear();
                self.forks = fork::Forks::default();
                self.walked.fill(false);
                self.flow(self.entry.start, Cow::Borrowed(&entry))?;
            }
        }
        Ok(())
    }

    /// Whether a block starts at a text offset.
    fn is_leader(&self, at: u32) -> bool {
        let index = at.checked_sub(self.entry.start).map(|index| index as usize);
        index.is_some_and(|index| self.leaders.get(index) == Some(&true))
    }

    /// Counts words that the proof compares or copies. Enforces the limit of a function.
    fn spend(&mut self, words: usize) -> Proof<()> {
        self.work += words;
        match self.work > WORK_MAX {
            true => refuse(
                Property::Instructions,
                format!("needs more work than {WORK_MAX} words to be proven"),
            ),
            false => Ok(()),
        }
    }

    /// Adds a path to a block.
    fn flow(&mut self, target: u32, state: Cow<'_, State>) -> Proof<()> {
        let end = self.entry.start + self.entry.len;
        if !(self.entry.start..end).contains(&target) {
            return refuse(
                Property::Targets,
                format!("jumps to text offset {target:#x}, outside of the function"),
            );
        }
        let index = (target - self.entry.start) as usize;
        if !std::mem::replace(&mut self.leaders[index], true) {
            self.discover(target);
        }
        let name = |at: usize| Symbol(1 << 63 | u64::from(target) << 24 | at as u64);
        // The target splits a block that was walked already, perhaps this one.
        let is_late =
            self.walked[(target - self.entry.start) as usize] && !self.blocks.contains_key(&target);
        if self.is_stale || (is_late && self.restarts < RESTARTS_MAX) {
            self.restarts += u32::from(!self.is_stale);
            self.is_stale = true;
            return Ok(());
        }
        let words = state.words();
        self.spend(words)?;
        let is_renamed = is_late || self.forks.closes_loop(target);
        match self.blocks.get_mut(&target) {
            None => {
                self.held += words;
                if self.held > WORDS_MAX {
                    return refuse(
                        Property::Stack,
                        format!("has blocks and a frame of more than {WORDS_MAX} words"),
                    );
                }
                let mut state = state.into_owned();
                if is_renamed {
                    state.rename(name);
                }
                self.blocks.insert(target, Block { state, joins: 0 });
            }
            Some(block) => {
                block.joins += 1;
                let widen = block.joins > PRECISE_JOINS;
                let changed = match self.module.has_objects {
                    false => block.state.join(&state, widen, name),
                    true => {
                        let mut state = state.into_owned();
                        let changed =
                            casts::unite_states(self.module, &mut block.state, &mut state);
                        block.state.join(&state, widen, name) || changed
                    }
                };
                if !changed {
                    return Ok(());
                }
            }
        }
        self.todo.insert(target);
        Ok(())
    }

    /// Decodes from an offset to the next end of a path, and finds the targets of jumps. An
    /// instruction that cannot be decoded is refused when a path reaches it.
    fn discover(&mut self, from: u32) {
        let mut todo = vec![from];
        while let Some(mut at) = todo.pop() {
            while let Some(index) = at.checked_sub(self.entry.start)
                && let Some(number) = self.numbers.get(index as usize)
                && *number == 0
            {
                let Ok(instruction) = self.decode(at) else {
                    break;
                };
                let end = self.entry.start + self.entry.len;
                let target = instruction.near_branch_target() as u32;
                let is_branch =
                    instruction.is_jcc_short_or_near() || instruction.is_jmp_short_or_near();
                if is_branch && (self.entry.start..end).contains(&target) {
                    self.leaders[(target - self.entry.start) as usize] = true;
                    todo.push(target);
                }
                let falls = !matches!(
                    instruction.mnemonic(),
                    iced_x86::Mnemonic::Jmp | iced_x86::Mnemonic::Ret | iced_x86::Mnemonic::Ud2
                );
                if !falls {
                    break;
                }
                at = instruction.next_ip() as u32;
            }
        }
    }

    /// Decodes the instruction at an offset. It must not overlap another one.
    fn decode(&mut self, at: u32) -> Proof<Instruction> {
        let index = (at - self.entry.start) as usize;
        let placed = self.decoder.set_position(index);
        self.decoder.set_ip(u64::from(at));
        let instruction = self.decoder.decode();
        let (start, left) = (at as usize, self.numbers.len() - index);
        let bytes = &self.module.text[start..start + instruction.len().min(left)];
        if placed.is_err() || instruction.is_invalid() || !list::is_allowed(&instruction, bytes) {
            let shown = &self.module.text[start..start + left.min(15)];
            return refuse(
                Property::Instructions,
                format!(
                    "{:?} is not on the verifier's list; bytes {shown:02x?}",
                    instruction.code()
                ),
            );
        }
        if let Some(name) = list::absent(&instruction, self.module.cpu) {
            return refuse(
                Property::Instructions,
                format!(
                    "{:?} needs the cpu feature {name}, which the file's header does not name",
                    instruction.code()
                ),
            );
        }
        let bytes = &mut self.numbers[index..index + instruction.len()];
        if bytes.iter().any(|number| *number != 0) {
            return refuse(
                Property::Instructions,
                "overlaps another instruction that is reached, too",
            );
        }
        // Bytes inside an instruction have a number that is none.
        bytes.fill(u32::MAX);
        self.instructions.push(instruction);
        bytes[0] = self.instructions.len() as u32;
        Ok(instruction)
    }

    /// The instruction at an offset, if it was decoded.
    fn known_instruction(&self, at: u32) -> Option<Instruction> {
        let index = at.checked_sub(self.entry.start)? as usize;
        let number = self.numbers.get(index)?.checked_sub(1)? as usize;
        self.instructions.get(number).copied()
    }

    /// The instruction at an offset.
    fn instruction(&mut self, at: u32) -> Proof<Instruction> {
        let index = at.checked_sub(self.entry.start).map(|index| index as usize);
        match index.and_then(|index| self.numbers.get(index).copied()) {
            Some(u32::MAX) => refuse(
                Property::Instructions,
                "jumps into the middle of an instruction",
            ),
            Some(0) => {
                let instruction = self.decode(at)?;
                self.discover(instruction.next_ip() as u32);
                Ok(instruction)
            }
            Some(number) => Ok(self.instructions[number as usize - 1]),
            None => refuse(
                Property::Targets,
                format!("continues at text offset {at:#x}, past the end of the function"),
            ),
        }
    }

    /// What is known when the function is entered.
    fn entry_state(&self) -> Proof<State> {
        let module = self.module;
        let places = &self.places;
        if let CodeKind::Entry(ty) = self.entry.kind {
            return Ok(host_entry(module.metadata.func_type(ty)));
        }
        let mut state = State::new(8 + places.argument_bytes, places.area_bytes);
        for (register, value) in state.registers.iter_mut().enumerate() {
            *value = Value::named(Symbol(1 << 58 | register as u64), Kind::Junk);
        }
        state.registers[abi::RSP] = Value::of(Kind::Stack);
        for register in abi::PRESERVED {
            state.registers[register] = Value::of(Kind::Saved(register as u8));
        }
        let return_address = Value::of(Kind::ReturnAddress);
        state.set_slot(0, Slot::whole(return_address));
        let context = match self.entry.kind {
            CodeKind::Import(ty) => Kind::Import(ty),
            _ => Kind::Instance,
        };
        state.registers[places.context] = Value::of(context);
        if let Some(area) = places.area {
            state.registers[area] = Value::of(Kind::ResultArea);
        }
        for (number, (place, ty)) in places.params.iter().enumerate() {
            let value = match self.entry.kind {
                CodeKind::Builtin(builtin) => builtin_parameter(module, builtin, number),
                _ => typed(*ty, argument(number)),
            };
            match place {
                Place::General(register) => state.registers[*register] = value,
                Place::Vector(register) => state.vector_mut(*register).extent = Extent::of(*ty),
                Place::Memory(offset) => state.set_cell(8 + offset, *ty, value),
            }
        }
        Ok(state)
    }
}

/// The state at the start of an entry trampoline: C's registers `(context, code, cells)`, and the
/// cells above the return address.
fn host_entry(ty: &FuncType) -> State {
    let cells = calls::cell_count(ty) as u32;
    let mut state = State::new(8 + (cells * CELL_BYTES) as i32, 0);
    state.registers[abi::RSP] = Value::of(Kind::Stack);
    for register in abi::PRESERVED {
        state.registers[register] = Value::of(Kind::Saved(register as u8));
    }
    state.set_slot(0, Slot::whole(Value::of(Kind::ReturnAddress)));
    state.registers[abi::RDI] = Value::of(Kind::EntryContext);
    state.registers[abi::RSI] = Value::of(Kind::EntryCode);
    state.registers[abi::RDX] = Value::at(Kind::Stack, 8);
    for (number, ty) in ty.params.iter().enumerate() {
        let at = 8 + number as i32 * CELL_BYTES as i32;
        state.set_cell(at, *ty, typed(*ty, argument(number)));
    }
    state
}

/// The signature of a piece of code, with words for what is no value of a guest.
fn signature(module: &Module<'_>, kind: CodeKind) -> FuncType {
    let metadata = module.metadata;
    match kind {
        CodeKind::Func(index) => metadata.func_type(metadata.funcs[index as usize]).clone(),
        CodeKind::Import(ty) | CodeKind::Entry(ty) => metadata.func_type(ty).clone(),
        CodeKind::Builtin(number) => match Builtin::from_number(number) {
            Some(builtin) => builtins::signature(builtin),
            None => FuncType {
                params: vec![],
                results: vec![],
            },
        },
        // The stub of calls by dispatch tables has a second argument: the type number of the entry.
        CodeKind::Trap(_) => FuncType {
            params: vec![ValType::I64],
            results: vec![],
        },
    }
}

/// The symbol of an argument.
fn argument(number: usize) -> Symbol {
    Symbol(1 << 62 | number as u64)
}

/// A parameter of a builtin. Addresses of copies and fills have 32 bits, unless a memory has 64-bit
/// addresses: calls are checked for that.
fn builtin_parameter(module: &Module<'_>, builtin: u32, number: usize) -> Value {
    let symbol = argument(number);
    match Builtin::from_number(builtin) {
        Some(builtin) if builtins::is_word(module, builtin, number) => Value::word(symbol),
        Some(builtin) if builtins::is_address(builtin, number) => Value::named(symbol, Kind::Junk),
        _ => Value::any(symbol),
    }
}
