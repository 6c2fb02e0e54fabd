//! The walk over one function. Each architecture supplies its instructions.
//!
//! The proof is an abstract interpretation: each instruction changes a [`State`], the knowledge
//! about registers and the frame. Where paths meet, the joined state keeps what holds on both
//! paths. The walk does not check instructions that no path reaches. Every jump is checked, so
//! these instructions never run.

mod builtins;
mod calls;
mod code;
pub(crate) mod fork;
pub(crate) mod live;
mod references;
mod spare;
mod todo;

use crate::abi::{Convention, Place, Places};
use crate::access::{self, typed};
use crate::address::Access;
use crate::casts;
use crate::comparison::{Comparison, Relation};
use crate::error::{Proof, Property, Refusal, refuse};
use crate::frame::reach;
use crate::module::Module;
use crate::objects;
use crate::state::{Slot, State};
use crate::value::{Kind, Symbol, Value};
use crate::vector::Extent;
use crate::widening::Widening;
use live::{Effects, Live};
use pirn_format::exit::{Builtin, CELL_BYTES};
use pirn_format::traps::{CodeEntry, CodeKind};
use pirn_format::types::{FuncType, ValType};
use spare::Memory;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use todo::Todo;

/// The instructions of an architecture.
pub(crate) trait Machine<'m>: Sized {
    type Instruction: Copy;

    const CONVENTION: &'static Convention;

    /// Reads the code of a function that starts at a text offset.
    fn new(code: &'m [u8], start: u32) -> Self;

    /// Decodes the instruction at a byte of the function. Refuses an instruction that is not on the
    /// verifier's list, or needs a cpu feature that the module's header does not name.
    fn decode(&mut self, module: &Module<'m>, index: usize) -> Proof<Self::Instruction>;

    fn bytes(instruction: Self::Instruction) -> usize;

    /// Whether the next instruction may follow.
    fn falls(instruction: Self::Instruction) -> bool;

    /// Whether an instruction is no jump, no call and no trap, so that the next instruction always
    /// follows.
    fn is_plain(instruction: Self::Instruction) -> bool;

    /// The target of a jump, if the instruction names it. Calls are no jumps.
    fn jump_target(instruction: Self::Instruction) -> Option<u32>;

    /// Whether an instruction jumps to an address in a register or in memory. Calls are no jumps.
    fn is_computed_jump(instruction: Self::Instruction) -> bool;

    /// Which registers an instruction reads and writes.
    fn effects(instruction: Self::Instruction) -> Effects;

    /// Proves an instruction, and changes the state as the instruction does.
    fn step(step: Step<'_, 'm, Self>) -> Proof<Next>;
}

/// Words of work charged for the search of the common supertype of two references. A type has at
/// most 63 supertypes.
const UNITE_WORK: usize = 1 << 10;

/// Joins of a block with paths that jump back to the block, before these joins widen intervals.
/// Each loop has such a jump, so intervals stop growing. Other joins need no widening.
const PRECISE_JOINS: u32 = 2;

/// Maximum number of restarts of a walk. The walk restarts when a computed jump or a handler splits
/// a block that was walked already. After the last restart, a split block starts without known
/// relations between values.
const RESTARTS_MAX: u32 = 16;

/// Most walks that begin with states of the previous walk.
const SEEDED_WALKS_MAX: u32 = 4;

/// Most words of registers and frames that the states of a function's blocks hold together: 2 GB.
/// A function of several megabytes needs a hundredth.
const WORDS_MAX: usize = 1 << 25;

/// Maximum number of words that the proof of a function compares or copies: some ten seconds.
const WORK_MAX: usize = 1 << 30;

/// Maximum number of compared or copied words for a module, per byte of its text. The limit is at
/// least [`WORK_MAX`].
const WORK_PER_BYTE_MAX: usize = 1 << 10;

/// Work charged per visited instruction, in words. Bounds forked paths that visit a long block
/// again and again.
const INSTRUCTION_WORK: usize = 16;

/// Lower bound of the mean size of an instruction in bytes: exact for aarch64, too low for x86_64.
const INSTRUCTION_BYTES: usize = 4;

/// The walk over one function.
pub(crate) struct Walk<'m, M: Machine<'m>> {
    pub(crate) module: &'m Module<'m>,
    pub(crate) entry: CodeEntry,
    pub(crate) machine: M,
    /// Places of the function's own parameters and results.
    places: Places,
    /// By byte of the function: the number of the instruction that starts at the byte, plus 1.
    numbers: Vec<u32>,
    instructions: Vec<M::Instruction>,
    /// By byte of the function: whether an instruction that starts at the byte was proven.
    walked: Vec<bool>,
    /// Number of restarts so far.
    restarts: u32,
    /// Whether the walk must restart.
    is_stale: bool,
    /// Whether a jump goes to an address that code has computed.
    has_computed_jumps: bool,
    haste: Haste,
    /// Live registers and loops of the function, for a walk that guesses.
    live: Live,
    /// Number of walks so far that began with states of the previous walk, see [`Walk::seeds`].
    seeded_walks: u32,
    /// Whether this walk only searches the starts of blocks. Such a walk visits each block once.
    is_search: bool,
    /// By byte of the function: whether a block starts at the byte.
    leaders: Vec<bool>,
    /// Blocks that a path has reached.
    blocks: Vec<Block>,
    /// By byte of the function: the number of the block that starts at the byte, plus 1.
    block_numbers: Vec<u32>,
    todo: Todo,
    /// States of paths that have ended. A copy of another state reuses their memory.
    spare: Vec<State>,
    /// Paths that are walked apart from other paths, see `fork.rs`.
    pub(crate) forks: fork::Forks,
    /// Words of all states in `blocks`, at most [`WORDS_MAX`].
    held: usize,
    /// Words compared or copied so far, at most [`WORK_MAX`].
    work: usize,
}

/// The knowledge that a walk gives up to need few visits. If a walk cannot prove the function, the
/// next walk gives up less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Haste {
    /// At the start of a loop, forgets values that no later instruction reads or that the loop
    /// seems to change. Widens intervals as far as possible.
    Guesses,
    /// Widens intervals as far as possible.
    Widens,
    None,
}

struct Block {
    /// Text offset.
    start: u32,
    state: State,
    /// Number of joins with paths that jump back to the block.
    back_joins: u32,
    /// Greatest text offset of a jump back to the block.
    last_back: u32,
    /// Whether the state comes from the previous walk, and no path of this walk has reached the
    /// block.
    is_seed: bool,
}

/// One instruction, and the state before it.
pub(crate) struct Step<'w, 'm, M: Machine<'m>> {
    pub(crate) walk: &'w mut Walk<'m, M>,
    pub(crate) state: &'w mut State,
    pub(crate) instruction: M::Instruction,
    /// Text offset of the instruction.
    pub(crate) at: u32,
}

/// Where execution continues after an instruction.
pub(crate) enum Next {
    /// With the next instruction.
    Falls,
    /// At this text offset, in place of the next instruction.
    Jumps(u32),
    /// Nowhere in this function.
    Ends,
}

/// Proves all properties of the code of one entry. Returns the number of instructions. Without
/// `has_argument`, the code is a trap stub, and the register of its argument may hold anything.
pub(crate) fn prove<'m, M: Machine<'m>>(
    module: &'m Module<'m>,
    entry: CodeEntry,
    has_argument: bool,
) -> Result<usize, Refusal> {
    let mut at = entry.start;
    let proof = Walk::<M>::new(module, entry, has_argument).and_then(|mut walk| {
        let result = walk.run(&mut at);
        module.work.fetch_add(walk.work, Ordering::Relaxed);
        let count = walk.instructions.len();
        walk.release();
        result.map(|()| count)
    });
    proof.map_err(|unproven| Refusal {
        property: unproven.property,
        code: entry.kind,
        offset: at,
        message: unproven.message,
    })
}

impl<'m, M: Machine<'m>> Walk<'m, M> {
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
        let memory = Memory::take(code.len());
        Ok(Self {
            module,
            entry,
            places: Places::of(M::CONVENTION, &signature),
            machine: M::new(code, entry.start),
            numbers: memory.numbers,
            walked: memory.walked,
            restarts: 0,
            is_stale: false,
            has_computed_jumps: false,
            haste: Haste::Guesses,
            live: Live::default(),
            seeded_walks: 0,
            is_search: false,
            instructions: Vec::with_capacity(code.len() / INSTRUCTION_BYTES),
            leaders: memory.leaders,
            blocks: memory.blocks,
            block_numbers: memory.block_numbers,
            todo: Todo::new(entry.start, code.len()),
            spare: memory.states,
            forks: fork::Forks::default(),
            held: 0,
            work: 0,
        })
    }

    /// Proves the function, in one or several walks. `at` is the instruction that is being proven.
    fn run(&mut self, at: &mut u32) -> Proof<()> {
        let entry = self.entry_state()?;
        self.lead(self.entry.start)?;
        let mut first_refusal = None;
        loop {
            self.flow(self.entry.start, Cow::Borrowed(&entry))?;
            let proof = self.paths(at);
            let mut seeds = vec![];
            match proof {
                Ok(()) if self.is_stale => self.is_search = true,
                Ok(()) if self.is_search => self.is_search = false,
                Err(_) if self.haste == Haste::Guesses => self.haste = Haste::Widens,
                Err(_) if self.haste == Haste::Widens => self.haste = Haste::None,
                Err(refusal) => {
                    seeds = self.seeds();
                    // The refusal of the walk without seeds is the easiest to understand.
                    let (refusal, found_at) = first_refusal.take().unwrap_or((refusal, *at));
                    if seeds.is_empty() || self.seeded_walks == SEEDED_WALKS_MAX {
                        *at = found_at;
                        return Err(refusal);
                    }
                    first_refusal = Some((refusal, found_at));
                    self.seeded_walks += 1;
                }
                proof => return proof,
            }
            self.is_stale = false;
            self.recycle_blocks();
            self.block_numbers.fill(0);
            self.held = 0;
            for (start, state) in seeds {
                self.held += state.words();
                self.add_block(start, state, true);
            }
            self.todo.clear();
            self.forks = fork::Forks::default();
            self.walked.fill(false);
        }
    }

    /// The states at the starts of loops, as seeds of the next walk. Takes only loops whose nesting
    /// depth is at most the number of seeded walks so far.
    ///
    /// The state that enters a loop relates values of the first iteration only. Inside the loop, a
    /// join with the next iteration loses such a relation, even if a similar relation holds in each
    /// iteration. A seeded walk starts from facts of each iteration, so it finds the similar
    /// relation. Any initial state is sound, because the walk joins it with the states of all
    /// paths.
    fn seeds(&mut self) -> Vec<(u32, State)> {
        let is_loop = |block: &Block| block.back_joins > 0;
        let index = |at: u32| (at - self.entry.start) as usize;
        // By byte of the function: the number of loops around the byte, minus the number around the
        // previous byte.
        let mut around = vec![0_i64; self.leaders.len() + 1];
        for block in self.blocks.iter().filter(|block| is_loop(block)) {
            let (inside, end) = (index(block.start) + 1, index(block.last_back));
            if inside < end {
                around[inside] += 1;
                around[end] -= 1;
            }
        }
        let mut depth = 0;
        for count in &mut around {
            depth += *count;
            *count = depth;
        }
        let deepest = i64::from(self.seeded_walks);
        let is_reached = |start: u32| around[index(start)] <= deepest;
        let blocks = self.blocks.drain(..);
        blocks
            .filter(|block| is_loop(block) && is_reached(block.start))
            .map(|block| (block.start, block.state))
            .collect()
    }

    /// Walks over all paths, or until the walk must restart.
    fn paths(&mut self, at: &mut u32) -> Proof<()> {
        while !self.is_stale
            && let Some((start, state)) = self.next_path()
        {
            *at = start;
            match self.path(at, state) {
                // A search ignores refusals, because the next walk repeats the proof.
                Err(_) if self.is_search => {}
                proof => proof?,
            }
        }
        Ok(())
    }

    /// Walks over one path, up to where the path joins other paths or ends.
    fn path(&mut self, at: &mut u32, mut state: State) -> Proof<()> {
        loop {
            let instruction = self.instruction(*at)?;
            self.forks.at = *at;
            if !self.forks.is_fork {
                self.walked[(*at - self.entry.start) as usize] = true;
            }
            let next = *at + M::bytes(instruction) as u32;
            let step = Step {
                at: *at,
                instruction,
                walk: self,
                state: &mut state,
            };
            let (continues, is_jump) = match M::step(step)? {
                Next::Falls => (next, false),
                Next::Jumps(target) => {
                    // `flow` notes the start of a block, but a path that is walked apart does not
                    // call it.
                    self.lead(target)?;
                    (target, true)
                }
                Next::Ends => {
                    self.recycle(state);
                    return Ok(());
                }
            };
            let is_leader = is_jump || self.is_leader(continues);
            if is_leader && !self.forks.passes(continues) {
                return self.flow(continues, Cow::Owned(state));
            }
            self.spend(INSTRUCTION_WORK + usize::from(is_leader) * state.words())?;
            *at = continues;
        }
    }

    /// Whether a block starts at a text offset.
    pub(crate) fn is_leader(&self, at: u32) -> bool {
        let index = at.checked_sub(self.entry.start).map(|index| index as usize);
        index.is_some_and(|index| self.leaders.get(index) == Some(&true))
    }

    /// Counts words that the proof compares or copies. The next instruction enforces the limit.
    pub(crate) fn count(&mut self, words: usize) {
        self.work += words;
    }

    /// Counts words that the proof compares or copies. Enforces the limit of a function.
    pub(crate) fn spend(&mut self, words: usize) -> Proof<()> {
        self.work += words;
        match self.work > WORK_MAX {
            true => refuse(
                Property::Instructions,
                format!("needs more work than {WORK_MAX} words to be proven"),
            ),
            false => Ok(()),
        }
    }

    /// Notes that a block starts at the target of a jump. Returns the target's offset in the
    /// function.
    fn lead(&mut self, target: u32) -> Proof<usize> {
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
        Ok(index)
    }

    /// Adds a path to a block.
    pub(crate) fn flow(&mut self, target: u32, state: Cow<'_, State>) -> Proof<()> {
        let index = self.lead(target)?;
        let name = |at: usize| block_symbol(target, at);
        // The target splits a block that was walked already, perhaps the current block.
        let is_late = self.walked[index] && self.block_numbers[index] == 0;
        let restarts = is_late && !self.is_search && self.restarts < RESTARTS_MAX;
        if self.is_stale || restarts {
            self.restarts += u32::from(!self.is_stale);
            self.is_stale = true;
            return Ok(());
        }
        let words = state.words();
        self.spend(words)?;
        let is_renamed = is_late || (self.module.has_objects && self.forks.closes_loop(target));
        let Some(number) = self.block_numbers[index].checked_sub(1) else {
            self.held += words;
            if self.held > WORDS_MAX {
                return refuse(
                    Property::Stack,
                    format!("has blocks and a frame of more than {WORDS_MAX} words"),
                );
            }
            let mut state = match state {
                Cow::Owned(state) => state,
                Cow::Borrowed(state) => self.copy(state),
            };
            if is_renamed {
                state.rename(name);
            }
            self.guess(target, &mut state)?;
            self.add_block(target, state, false);
            self.todo.insert(target);
            return Ok(());
        };
        if self.is_search {
            return Ok(());
        }
        let is_back = self.forks.closes_loop(target);
        let block = &mut self.blocks[number as usize];
        block.back_joins += u32::from(is_back);
        block.last_back = block.last_back.max(self.forks.at);
        let widening = match is_back {
            true if self.haste != Haste::None => Widening::Whole,
            true if block.back_joins > PRECISE_JOINS => Widening::Bounds,
            _ => Widening::None,
        };
        let (changed, joined) = match self.module.has_objects {
            false => (block.state.join(&state, widening, name), state),
            true => {
                let mut state = state.into_owned();
                let (changed, different) =
                    casts::unite_states(self.module, &mut block.state, &mut state);
                // The search of a common supertype walks over the supertypes of a reference.
                self.work += different * UNITE_WORK;
                let joins = block.state.join(&state, widening, name);
                (joins || changed, Cow::Owned(state))
            }
        };
        if let Cow::Owned(state) = joined {
            self.recycle(state);
        }
        let block = &mut self.blocks[number as usize];
        if std::mem::take(&mut block.is_seed) || changed {
            self.todo.insert(target);
        }
        Ok(())
    }

    fn add_block(&mut self, start: u32, state: State, is_seed: bool) {
        self.blocks.push(Block {
            start,
            state,
            back_joins: 0,
            last_back: start,
            is_seed,
        });
        let index = (start - self.entry.start) as usize;
        self.block_numbers[index] = self.blocks.len() as u32;
    }

    /// The state at the function's entry.
    fn entry_state(&self) -> Proof<State> {
        let module = self.module;
        let places = &self.places;
        if let CodeKind::Entry(ty) = self.entry.kind {
            return Ok(host_entry(M::CONVENTION, module.metadata.func_type(ty)));
        }
        let abi = M::CONVENTION;
        let mut state = State::new(abi, abi.pushed + places.argument_bytes, places.area_bytes);
        for (register, value) in state.registers.iter_mut().enumerate() {
            *value = Value::named(Symbol(1 << 58 | register as u64), Kind::Junk);
        }
        preserved(abi, &mut state);
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
                Place::Memory(offset) => state.set_cell(abi.pushed + offset, *ty, value),
            }
        }
        Ok(state)
    }
}

/// Sets the registers that each caller relies on, in the state at the start of a function.
fn preserved(abi: &Convention, state: &mut State) {
    state.registers[abi.stack] = Value::of(Kind::Stack);
    for register in abi.preserved {
        state.registers[*register] = Value::of(Kind::Saved(*register as u8));
    }
    for vector in abi.preserved_vectors.clone() {
        state.vector_mut(vector).saved = Some(vector as u8);
    }
    let return_address = Value::of(Kind::ReturnAddress);
    match abi.link {
        Some(link) => state.registers[link] = return_address,
        None => state.set_slot(0, Slot::whole(return_address)),
    }
}

/// The state at the start of an entry trampoline: the host's registers `(context, code, cells)`,
/// and the cells. The cells lie above the return address, if a call pushes the address.
fn host_entry(abi: &'static Convention, ty: &FuncType) -> State {
    let cells = calls::cell_count(ty) as u32;
    let mut state = State::new(abi, abi.pushed + (cells * CELL_BYTES) as i32, 0);
    preserved(abi, &mut state);
    let [context, code, address] = abi.host;
    state.registers[context] = Value::of(Kind::EntryContext);
    state.registers[code] = Value::of(Kind::EntryCode);
    state.registers[address] = Value::at(Kind::Stack, i64::from(abi.pushed));
    for (number, ty) in ty.params.iter().enumerate() {
        let at = abi.pushed + number as i32 * CELL_BYTES as i32;
        state.set_cell(at, *ty, typed(*ty, argument(number)));
    }
    state
}

/// The signature of a piece of code. Values that are not a guest's have the type of a word.
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

/// The symbol of a location whose values differ between paths to a block.
fn block_symbol(block: u32, location: usize) -> Symbol {
    Symbol(1 << 63 | u64::from(block) << Symbol::LOCATION_BITS | location as u64)
}

/// The symbol of an argument.
fn argument(number: usize) -> Symbol {
    Symbol(1 << 62 | number as u64)
}

/// A parameter of a builtin. Addresses of copies and fills have 32 bits, unless a memory has 64-bit
/// addresses. `takes_number` checks the addresses at each call.
fn builtin_parameter(module: &Module<'_>, builtin: u32, number: usize) -> Value {
    let symbol = argument(number);
    match Builtin::from_number(builtin) {
        Some(builtin) if builtins::is_word(module, builtin, number) => Value::word(symbol),
        Some(builtin) if builtins::is_address(builtin, number) => Value::named(symbol, Kind::Junk),
        _ => Value::any(symbol),
    }
}

impl<'m, M: Machine<'m>> Step<'_, 'm, M> {
    /// A symbol for a value that this instruction makes.
    pub(crate) fn fresh(&self, number: u64) -> Symbol {
        Symbol(u64::from(self.at) << 4 | 8 | number)
    }

    /// Refuses an instruction that may fault but is not in the trap table.
    pub(crate) fn needs_trap(&self, what: &str) -> Proof<()> {
        if self.walk.module.traps.code(self.at).is_some() {
            return Ok(());
        }
        refuse(
            Property::Instructions,
            format!("{what} without an entry in the trap table"),
        )
    }

    /// Refuses an instruction that reads flags that tell the guest more than the guest may know.
    pub(crate) fn reads_flags(&self, flags: u32) -> Proof<()> {
        if flags & !self.state.readable == 0 {
            return Ok(());
        }
        let compared = self
            .state
            .flags
            .map(|flags| (flags.left.kind, flags.right.kind));
        refuse(
            Property::Types,
            format!("reads flags that tell more than the order of numbers; compared: {compared:?}"),
        )
    }

    /// Refuses an instruction of an entry trampoline that copies the return address, or uses this
    /// address for anything but the return. The runtime replaces the return address when it resumes
    /// the call, so a copy may point into a host frame that no longer exists. On aarch64, one word
    /// of the frame may have the copy that the runtime replaces, see `keeps_return_address`.
    pub(crate) fn leaves_return_address(&self) -> Proof<()> {
        match self.walk.entry.kind {
            CodeKind::Entry(_) => refuse(
                Property::Stack,
                "an entry trampoline uses its return address but to return",
            ),
            _ => Ok(()),
        }
    }

    /// The stack pointer's distance from its value at entry.
    pub(crate) fn stack_pointer(&self) -> Proof<i32> {
        match self.state.registers[M::CONVENTION.stack].stack_distance() {
            Some(at) => Ok(at),
            None => refuse(
                Property::Stack,
                "the stack pointer is unknown, or no multiple of 8",
            ),
        }
    }

    /// Changes the stack pointer.
    pub(crate) fn write_stack_pointer(&mut self, value: Value) -> Proof<()> {
        let Some(at) = value.exact().filter(|_| value.kind == Kind::Stack) else {
            return refuse(
                Property::Stack,
                format!("sets the stack pointer to {:?}", value.kind),
            );
        };
        // A signal handler without a stack of its own writes below the stack pointer at any time.
        reach(self.state, i32::try_from(at).unwrap_or(i32::MIN))?;
        if value.high > i64::from(self.state.top()) {
            return refuse(
                Property::Stack,
                format!(
                    "moves the stack pointer to {}, above the arguments, which end at {}",
                    value.high,
                    self.state.top()
                ),
            );
        }
        self.state.registers[M::CONVENTION.stack] = value;
        Ok(())
    }

    /// Checks an access. Returns the loaded value.
    pub(crate) fn checked(&mut self, access: Access) -> Proof<Value> {
        let is_frame = access.address.base.kind == Kind::Stack;
        if self.is_heap_grow() && access.usage.writes() && !is_frame {
            return refuse(
                Property::Accesses,
                "the trampoline of heap.grow writes beside its frame",
            );
        }
        // A write to a new object searches the new objects and their missing fields.
        if self.walk.module.has_objects && !is_frame {
            self.walk.count(self.state.heap.words());
        }
        match objects::access(self.walk.module, self.state, &access)? {
            Some(value) => Ok(value),
            None => access::access(self.walk.module, self.state, &access),
        }
    }

    /// Follows both ways of a conditional branch.
    pub(crate) fn branch_on(
        &mut self,
        target: u32,
        compared: Option<(Comparison, Relation)>,
    ) -> Proof<Next> {
        let Some((comparison, relation)) = compared else {
            self.walk.forks.joins();
            self.walk.flow(target, Cow::Borrowed(self.state))?;
            return Ok(Next::Falls);
        };
        self.walk.spend(self.state.words())?;
        let module = self.walk.module;
        let mut taken = self.walk.copy(self.state);
        let takes = casts::assume(module, &mut taken, comparison, relation);
        let falls = casts::assume(module, self.state, comparison, relation.negated());
        // A path is walked apart up to the branch that tests its answer.
        if takes == falls || comparison.left.as_constant().is_some() {
            self.walk.forks.joins();
        }
        // A search follows branches that only later visits of a loop take.
        let is_search = self.walk.is_search;
        if is_search && !takes {
            taken.widen(|at| block_symbol(target, at));
        }
        if is_search && !falls {
            self.state.widen(|at| block_symbol(target, at));
        }
        if takes || is_search {
            self.walk.taken(target, taken)?;
        }
        match falls || is_search {
            true => Ok(Next::Falls),
            false => Ok(Next::Ends),
        }
    }

    /// Follows a computed jump within the function, by a jump table or by its entry with a constant
    /// index. `None` for another address.
    pub(crate) fn computed_jump(&mut self, target: Value) -> Proof<Option<Next>> {
        let entry = self.walk.entry;
        let (table, entries) = match target.kind {
            Kind::JumpTarget(table, entries) => (table, entries),
            Kind::Text if target.exact().is_some() => {
                let target = target.exact().and_then(|at| u32::try_from(at).ok());
                return Ok(Some(Next::Jumps(target.unwrap_or(u32::MAX))));
            }
            _ => return Ok(None),
        };
        let function_end = entry.start + entry.len;
        if table < entry.start || entries.first < table || entries.last >= function_end {
            return refuse(
                Property::Targets,
                format!(
                    "jumps by entries {:#x} to {:#x} of the table at {table:#x}, outside of the \
                     function",
                    entries.first, entries.last
                ),
            );
        }
        for at in (entries.first..=entries.last).step_by(4) {
            let Some(offset) = self.walk.module.word(at) else {
                return refuse(
                    Property::Targets,
                    "jumps by a table that ends after the text",
                );
            };
            let target = table.wrapping_add(offset);
            self.walk.flow(target, Cow::Borrowed(self.state))?;
        }
        Ok(Some(Next::Ends))
    }
}
