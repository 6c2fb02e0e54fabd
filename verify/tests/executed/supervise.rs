//! [`Run`]: one execution of a function, and the checks at each executed instruction.

use crate::context::{Event, Next, Registers, Supervisor};
use crate::places::{PRESERVED, Place, Places, RBP, RDI, RSI, RSP};
use crate::random::Random;
use crate::rules::{Allowed, Rules, StackRange, accesses, is_foreign};
use crate::world::{REACH, STACK_BYTES, World};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use pirn_format::exit::{self, Builtin, CELL_BYTES};
use pirn_format::read::Checked;
use pirn_format::traps::{CodeEntry, CodeKind, CodeTable, TrapTable};
use pirn_format::types::{FuncType, ValType};
use pirn_verify::Property;

/// Most instructions of a run whose instructions are checked.
const STEPS_MAX: u32 = 3_000;

/// Numbers that differ between worlds, and that a guest must not learn.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) Random, pub(crate) usize);

impl Secret {
    pub(crate) fn next(&mut self) -> u64 {
        let (first, third) = (self.0.next(), self.0.next());
        [first, !first, third][self.1]
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Returned,
    /// At this text offset.
    Trapped(u32),
    /// By the exit routine, with this reason.
    Exited(u64),
    /// At the guard below the stack.
    Overflowed,
    /// The run needs too many instructions, or an instruction that this processor does not have.
    Unknown,
    Violated(Violation),
}

impl End {
    /// The name of the kind.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Returned => "returned",
            Self::Trapped(_) => "trapped",
            Self::Exited(_) => "exited",
            Self::Overflowed => "overflowed",
            Self::Unknown => "unknown",
            Self::Violated(_) => "violated",
        }
    }
}

/// An action of the code against the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) property: Property,
    pub(crate) message: String,
}

/// A module, as runs use it.
pub(crate) struct Program<'a> {
    pub(crate) checked: &'a Checked,
    pub(crate) text: &'a [u8],
    pub(crate) code: CodeTable<'a>,
    pub(crate) traps: TrapTable<'a>,
    pub(crate) rules: &'a Rules,
}

/// The registers and the stack of a run's start.
pub(crate) struct Start<'a> {
    pub(crate) entry: CodeEntry,
    pub(crate) places: &'a Places,
    pub(crate) registers: [u64; 16],
    pub(crate) vectors: [[u64; 2]; 16],
    pub(crate) flags: u64,
    pub(crate) secret: Secret,
    /// Numbers that the host gives the guest, equal in all worlds.
    pub(crate) answers: Random,
    /// Whether each instruction is checked.
    pub(crate) steps: bool,
}

/// A call that has not returned.
struct Call {
    entry: CodeEntry,
    returns_to: u64,
}

/// How the last instruction continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Falls,
    Jumps,
    Calls(u64),
    Returns,
}

pub(crate) struct Run<'a> {
    world: &'a mut World,
    program: &'a Program<'a>,
    start: Start<'a>,
    factory: InstructionInfoFactory,
    calls: Vec<Call>,
    flow: Flow,
    touched: u64,
    /// By byte of the function: the start of the executed instruction that contains the byte, plus
    /// 1.
    executed: Vec<u32>,
    steps: u32,
    pub(crate) end: Option<End>,
    /// Values that the guest can see at the end, and values that it has passed to the host.
    pub(crate) visible: Vec<u64>,
    /// The path, as a hash of text offsets.
    pub(crate) path: u64,
}

impl<'a> Run<'a> {
    pub(crate) fn new(world: &'a mut World, program: &'a Program<'a>, start: Start<'a>) -> Self {
        Self {
            touched: start.registers[RSP],
            calls: vec![Call {
                entry: start.entry,
                returns_to: world.caller,
            }],
            executed: vec![0; start.entry.len as usize],
            world,
            program,
            start,
            factory: InstructionInfoFactory::new(),
            flow: Flow::Falls,
            steps: 0,
            end: None,
            visible: vec![],
            path: 0,
        }
    }

    fn violates(&mut self, property: Property, message: impl Into<String>) -> Next {
        let message = message.into();
        self.ends(End::Violated(Violation { property, message }))
    }

    fn ends(&mut self, end: End) -> Next {
        self.end = Some(end);
        Next::Leave
    }

    fn enters(&mut self, registers: &mut Registers<'_>) -> Next {
        for (number, value) in self.start.registers.into_iter().enumerate() {
            registers.set(number, value);
        }
        for (number, value) in self.start.vectors.into_iter().enumerate() {
            registers.set_vector(number, value);
        }
        registers.set_flags(self.start.flags);
        registers.set_stepping(self.start.steps);
        registers.set_rip(self.world.text + u64::from(self.start.entry.start));
        match self.start.steps {
            true => self.step(registers),
            false => Next::Continue,
        }
    }

    /// Checks the next instruction before the processor executes it.
    fn step(&mut self, registers: &mut Registers<'_>) -> Next {
        let rip = registers.rip();
        if let Some(next) = self.outside(registers) {
            return next;
        }
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return self.ends(End::Unknown);
        }
        if !(self.world.text..self.world.text + self.world.text_bytes).contains(&rip) {
            return self.violates(Property::Targets, format!("continues at {rip:#x}"));
        }
        let at = (rip - self.world.text) as u32;
        if let Err(message) = self.follow(registers, rip, at) {
            return self.violates(Property::Targets, message);
        }
        match self.executes(registers, rip, at) {
            Ok(flow) => self.flow = flow,
            Err(violation) => return self.ends(End::Violated(violation)),
        }
        self.path = (self.path ^ u64::from(at))
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(17);
        Next::Continue
    }

    /// Checks the instruction at an address. Returns how it continues.
    fn executes(
        &mut self,
        registers: &Registers<'_>,
        rip: u64,
        at: u32,
    ) -> Result<Flow, Violation> {
        let bytes = &self.program.text[at as usize..];
        let bytes = &bytes[..bytes.len().min(15)];
        let mut decoder = Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if is_foreign(&instruction) {
            let what = format!("executes {:?} at {at:#x}", instruction.code());
            return violation(Property::Instructions, what);
        }
        if let Some(first) = at.checked_sub(self.start.entry.start)
            && let Some(bytes) = self
                .executed
                .get_mut(first as usize..first as usize + instruction.len())
        {
            if bytes.iter().any(|of| *of != 0 && *of != first + 1) {
                let what = format!("executes overlapping instructions at {at:#x}");
                return violation(Property::Instructions, what);
            }
            bytes.fill(first + 1);
        }
        self.uses_memory(registers, &instruction, at)?;
        Ok(match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => {
                if let Err(message) = self.chain(registers) {
                    return violation(Property::Stack, message);
                }
                Flow::Calls(instruction.next_ip())
            }
            FlowControl::Return => Flow::Returns,
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Flow::Jumps,
            _ => Flow::Falls,
        })
    }

    /// Checks the accesses of an instruction.
    fn uses_memory(
        &mut self,
        registers: &Registers<'_>,
        instruction: &Instruction,
        at: u32,
    ) -> Result<(), Violation> {
        let pushed = instruction.stack_pointer_increment().min(0);
        let pointer = registers.get(RSP);
        let stack = StackRange {
            pointer: pointer.wrapping_add_signed(pushed.into()),
            top: self.top(),
            area_end: self.top() + self.start.places.area_bytes as u64,
            touched: self.touched,
        };
        let rules = self.program.rules;
        if let Err(message) = rules.near(&stack, pointer) {
            return violation(Property::Stack, message);
        }
        let value = |number: usize| registers.get(number);
        for (address, bytes, reads, writes) in accesses(&mut self.factory, instruction, &value) {
            match rules.access(self.world, &stack, (address, bytes), (reads, writes)) {
                Err(message) => {
                    return violation(Property::Accesses, format!("{message}, at {at:#x}"));
                }
                Ok(Allowed::WithTrap) if self.program.traps.code(at).is_none() => {
                    let what = format!("accesses memory without a trap at {at:#x}");
                    return violation(Property::Accesses, what);
                }
                Ok(_) => {}
            }
            if (stack.pointer..stack.top).contains(&address) {
                self.touched = self.touched.min(address);
            }
        }
        Ok(())
    }

    /// Checks the place to which the last instruction led.
    fn follow(&mut self, registers: &mut Registers<'_>, rip: u64, at: u32) -> Result<(), String> {
        let flow = std::mem::replace(&mut self.flow, Flow::Falls);
        match flow {
            Flow::Calls(next) => {
                let entry = self.program.code.find(at).filter(|entry| entry.start == at);
                let entry = entry.ok_or_else(|| format!("calls {at:#x}, no function"))?;
                if self.calls.len() == 1 {
                    self.passes(registers, entry.kind)?;
                }
                self.calls.push(Call {
                    entry,
                    returns_to: next,
                });
            }
            Flow::Returns => {
                let call = self.calls.pop().ok_or("returns twice")?;
                if rip != call.returns_to {
                    return Err(format!("returns to {at:#x}"));
                }
                if self.calls.len() == 1 {
                    self.scramble(registers, &self.results(call.entry));
                }
            }
            Flow::Jumps | Flow::Falls => {}
        }
        let call = self.calls.last_mut().ok_or("returned before")?;
        let range = call.entry.start..call.entry.start + call.entry.len;
        if range.contains(&at) {
            return Ok(());
        }
        let entry = self.program.code.find(at).filter(|entry| entry.start == at);
        match (flow, entry) {
            (Flow::Jumps, Some(entry)) if matches!(entry.kind, CodeKind::Func(_)) => {
                call.entry = entry;
                match self.calls.len() {
                    1 => self.passes(registers, entry.kind),
                    _ => Ok(()),
                }
            }
            _ => Err(format!("leaves its function to {at:#x}")),
        }
    }

    /// Notes the values that a function passes to the function that it has entered.
    fn passes(&mut self, registers: &Registers<'_>, kind: CodeKind) -> Result<(), String> {
        let places = match kind {
            CodeKind::Func(function) => {
                let metadata = &self.program.checked.metadata;
                Places::of(metadata.func_type(metadata.funcs[function as usize]))
            }
            CodeKind::Builtin(number) => match Builtin::from_number(number) {
                // A parameter of `throw` is the address of its values.
                None | Some(Builtin::Throw) => return Ok(()),
                Some(builtin) => Places::of(&FuncType {
                    params: vec![ValType::I64; builtin.params()],
                    results: vec![],
                }),
            },
            // Trampolines of imports get the record of a function, and stubs of traps a number that
            // not all stubs use.
            _ => return Ok(()),
        };
        let context = registers.get(places.context);
        if context != self.world.vmctx {
            return Err(format!("passes {context:#x} as the context"));
        }
        let first = registers.get(RSP) + 8;
        for (place, ty) in &places.params {
            let words = match *place {
                Place::General(register) => [registers.get(register), 0],
                Place::Vector(register) => registers.vector(register),
                Place::Memory(at) => {
                    let at = first + at as u64;
                    self.holds(at)?;
                    [self.world.word(at), self.world.word(at + 8)]
                }
            };
            let seen = self.seen(whole(*place, *ty), words)?;
            self.visible.extend(seen);
        }
        Ok(())
    }

    /// Checks that the frame pointer leads to the caller's frame at a call.
    fn chain(&self, registers: &Registers<'_>) -> Result<(), String> {
        let (frame, pointer) = (registers.get(RBP), registers.get(RSP));
        let first = self.start.registers[RSP];
        let [.., last] = &self.calls[..] else {
            return Err("calls after its return".to_owned());
        };
        if pointer % 16 != 0 {
            return Err(format!("calls with the stack pointer {pointer:#x}"));
        }
        // The frames of called functions are not followed.
        if self.calls.len() > 1 {
            return Ok(());
        }
        let is_frame = frame >= pointer && frame < first && frame % 8 == 0;
        let saved = is_frame.then(|| (self.world.word(frame), self.world.word(frame + 8)));
        match saved == Some((self.start.registers[RBP], last.returns_to)) {
            true => Ok(()),
            false => Err(format!("calls with the frame pointer {frame:#x}")),
        }
    }

    /// End of the arguments on the stack.
    fn top(&self) -> u64 {
        self.start.registers[RSP] + 8 + self.start.places.argument_bytes as u64
    }

    fn results(&self, entry: CodeEntry) -> Vec<(Place, ValType)> {
        match entry.kind {
            CodeKind::Func(function) => {
                let metadata = &self.program.checked.metadata;
                Places::of(metadata.func_type(metadata.funcs[function as usize])).results
            }
            CodeKind::Import(ty) => Places::of(self.program.checked.metadata.func_type(ty)).results,
            CodeKind::Builtin(number) => {
                let has_result = Builtin::from_number(number).is_some_and(Builtin::has_result);
                let result = (Place::General(0), ValType::I64);
                has_result.then_some(result).into_iter().collect()
            }
            _ => vec![],
        }
    }

    /// Writes secrets to the registers, flags and stack words that a call may change, except to its
    /// results.
    fn scramble(&mut self, registers: &mut Registers<'_>, results: &[(Place, ValType)]) {
        let secret = &mut self.start.secret;
        for number in (0..16).filter(|number| *number != RSP && !PRESERVED.contains(number)) {
            if !results
                .iter()
                .any(|(place, _)| *place == Place::General(number))
            {
                registers.set(number, secret.next());
            }
        }
        for number in 0..16 {
            let of = results
                .iter()
                .find(|(place, _)| *place == Place::Vector(number));
            let old = registers.vector(number);
            let new = [secret.next(), secret.next()];
            registers.set_vector(number, partly(old, new, of.map(|(_, ty)| *ty)));
        }
        registers.set_flags(secret.next());
        let low = self.world.stack - STACK_BYTES;
        for word in 1..=32 {
            let at = registers.get(RSP) - 8 * word;
            if at >= low {
                self.world.push(at, self.start.secret.next());
            }
        }
    }

    /// Handles an address outside of the text that code may reach. `None` for other addresses.
    fn outside(&mut self, registers: &mut Registers<'_>) -> Option<Next> {
        let rip = registers.rip();
        let has_called = !self.start.steps || matches!(self.flow, Flow::Calls(_));
        if rip == self.world.caller {
            return Some(self.returned(registers));
        }
        let &mut World {
            exit, host, bulk, ..
        } = self.world;
        if ![exit, host, bulk].contains(&rip) || !has_called {
            return None;
        }
        self.flow = Flow::Falls;
        Some(match rip {
            at if at == exit => self.exits(registers),
            at if at == host => self.calls_host(registers),
            _ => self.copies(registers),
        })
    }

    fn returned(&mut self, registers: &Registers<'_>) -> Next {
        if self.start.steps && (self.calls.len() != 1 || self.flow != Flow::Returns) {
            return self.violates(Property::Targets, "jumps to its caller");
        }
        if registers.get(RSP) != self.top() {
            let by = registers.get(RSP).wrapping_sub(self.top()).cast_signed();
            return self.violates(Property::Stack, format!("returns with {by} bytes too many"));
        }
        for register in PRESERVED {
            if registers.get(register) != self.start.registers[register] {
                let what = format!("returns with another value in register {register}");
                return self.violates(Property::Stack, what);
            }
        }
        for (place, ty) in &self.start.places.results {
            let words = match *place {
                Place::General(register) => [registers.get(register), 0],
                Place::Vector(register) => registers.vector(register),
                Place::Memory(at) => {
                    let at = self.top() + at as u64;
                    [0, 8].map(|more| match *ty {
                        ValType::V128 => self.world.word(at + more),
                        _ => self.world.word(at),
                    })
                }
            };
            match self.seen(whole(*place, *ty), words) {
                Ok(seen) => self.visible.extend(seen),
                Err(message) => return self.violates(Property::Types, message),
            }
        }
        self.ends(End::Returned)
    }

    /// The part of a value that a guest can see.
    fn seen(&self, ty: ValType, words: [u64; 2]) -> Result<[u64; 2], String> {
        let wrong = || format!("passes {:#x} as {ty}", words[0]);
        Ok(match ty {
            ValType::I32 | ValType::F32 => [words[0] & 0xffff_ffff, 0],
            ValType::I64 | ValType::F64 => [words[0], 0],
            ValType::V128 => words,
            ValType::Ref(of) => {
                let number = self.world.number_of(words[0]).ok_or_else(wrong)?;
                match number == 0 && !of.nullable {
                    true => return Err(wrong()),
                    false => [number, 0],
                }
            }
        })
    }

    /// The exit routine: builtins without effect return, and all other exits end the run.
    fn exits(&mut self, registers: &mut Registers<'_>) -> Next {
        let (context, reason, cells) = (registers.get(RDI), registers.get(RSI), registers.get(2));
        if context != self.world.vmctx {
            return self.violates(
                Property::Types,
                format!("exits with the context {context:#x}"),
            );
        }
        match exit::split(reason) {
            Some((exit::Kind::Builtin, number)) => {
                let Some(builtin) = Builtin::from_number(number) else {
                    return self.violates(Property::Types, format!("exits for builtin {number}"));
                };
                self.visible.push(reason);
                let answer = match builtin {
                    Builtin::MemoryGrow => Some(u64::from(u32::MAX)),
                    Builtin::MemoryCopy | Builtin::MemoryFill | Builtin::TableCopy => None,
                    _ => return self.ends(End::Exited(reason)),
                };
                self.answers(registers, cells, answer)
            }
            Some((exit::Kind::Trap, code))
                if pirn_format::exit::TrapCode::from_number(code).is_some() =>
            {
                self.ends(End::Exited(reason))
            }
            _ => self.violates(Property::Types, format!("exits with reason {reason:#x}")),
        }
    }

    /// The routine that copies and fills: does nothing, and leaves all to the caller.
    fn copies(&mut self, registers: &mut Registers<'_>) -> Next {
        let context = registers.get(RDI);
        if context != self.world.vmctx {
            let what = format!("copies with the context {context:#x}");
            return self.violates(Property::Types, what);
        }
        let [to, from, len] = [RSI, 2, 1].map(|register| registers.get(register));
        self.visible.extend([to, from, len]);
        let results = [(0, 0), (2, len)];
        let places = results.map(|(register, _)| (Place::General(register), ValType::I64));
        self.resumes(registers, &places);
        for (register, value) in results {
            registers.set(register, value);
        }
        self.proceeds(registers)
    }

    /// The routine of host calls: gives the host's number as each result.
    fn calls_host(&mut self, registers: &mut Registers<'_>) -> Next {
        let (context, host, cells) = (registers.get(RDI), registers.get(RSI), registers.get(2));
        let metadata = &self.program.checked.metadata;
        let mut imports = 0..metadata.imported_funcs();
        let import = imports.find(|import| self.world.host_number(*import) == host);
        let Some(import) = import.filter(|_| context == self.world.vmctx) else {
            let what = format!("calls the host with {context:#x} and {host:#x}");
            return self.violates(Property::Targets, what);
        };
        let ty: &FuncType = metadata.func_type(metadata.funcs[import as usize]);
        for (number, ty) in ty.params.iter().enumerate() {
            let at = cells + number as u64 * u64::from(CELL_BYTES);
            if let Err(message) = self.holds(at) {
                return self.violates(Property::Stack, message);
            }
            match self.seen(*ty, [self.world.word(at), self.world.word(at + 8)]) {
                Ok(seen) => self.visible.extend(seen),
                Err(message) => return self.violates(Property::Types, message),
            }
        }
        if ty.results.iter().any(|ty| matches!(ty, ValType::Ref(_))) || ty.results.len() > 1 {
            return self.ends(End::Exited(0));
        }
        let answer = (!ty.results.is_empty()).then(|| self.start.answers.number());
        self.answers(registers, cells, answer)
    }

    /// Checks that cells at an address are on the stack.
    fn holds(&self, at: u64) -> Result<(), String> {
        let low = self.world.stack - STACK_BYTES;
        match (low..=self.world.stack - 16).contains(&at) {
            true => Ok(()),
            false => Err(format!("passes cells at {at:#x}")),
        }
    }

    /// Returns from a routine of the runtime.
    fn answers(&mut self, registers: &mut Registers<'_>, cells: u64, answer: Option<u64>) -> Next {
        if let Some(answer) = answer {
            if let Err(message) = self.holds(cells) {
                return self.violates(Property::Stack, message);
            }
            self.world.push(cells, answer);
            self.world.push(cells + 8, self.start.secret.next());
        }
        self.resumes(registers, &[]);
        self.proceeds(registers)
    }

    /// Goes to the return address of a routine of the runtime.
    fn resumes(&mut self, registers: &mut Registers<'_>, results: &[(Place, ValType)]) {
        let pointer = registers.get(RSP);
        let next = self.world.word(pointer);
        registers.set(RSP, pointer + 8);
        registers.set_rip(next);
        self.scramble(registers, results);
    }

    fn proceeds(&mut self, registers: &mut Registers<'_>) -> Next {
        registers.set_stepping(self.start.steps);
        match self.start.steps {
            true => self.step(registers),
            false => Next::Continue,
        }
    }

    fn fault(&mut self, signal: i32, address: Option<u64>, registers: &mut Registers<'_>) -> Next {
        if signal == libc::SIGALRM {
            return self.ends(End::Unknown);
        }
        if let Some(next) = self.outside(registers) {
            return next;
        }
        let rip = registers.rip();
        let world = &self.world;
        let at = rip.wrapping_sub(world.text);
        if at >= world.text_bytes {
            return self.violates(Property::Targets, format!("continues at {rip:#x}"));
        }
        let at = at as u32;
        let has_trap = self.program.traps.code(at).is_some();
        let low = world.stack - STACK_BYTES;
        let is_memory =
            |address: u64| address < 4096 || (world.vmctx..world.vmctx + REACH).contains(&address);
        match (signal, address) {
            (libc::SIGSEGV, Some(address)) if (low - (64 << 10)..low).contains(&address) => {
                self.ends(End::Overflowed)
            }
            (libc::SIGSEGV, Some(address)) if is_memory(address) && has_trap => {
                self.ends(End::Trapped(at))
            }
            (libc::SIGFPE, _) if has_trap => self.ends(End::Trapped(at)),
            (libc::SIGILL, _) => {
                let is_trap = self.program.text[at as usize..].starts_with(&[0x0f, 0x0b]);
                match (is_trap, has_trap) {
                    (true, true) => self.ends(End::Trapped(at)),
                    (true, false) => self.violates(Property::Instructions, "ud2 without a trap"),
                    (false, _) => self.ends(End::Unknown),
                }
            }
            (signal, address) => {
                let context = world.vmctx;
                let by = address.map(|address| address.wrapping_sub(context).cast_signed());
                let what = format!("signal {signal} at {at:#x}, {by:x?} from the context");
                self.violates(Property::Accesses, what)
            }
        }
    }
}

impl Supervisor for Run<'_> {
    fn event(&mut self, event: Event, registers: &mut Registers<'_>) -> Next {
        match event {
            Event::Enter => self.enters(registers),
            Event::Step => self.step(registers),
            Event::Fault(signal, address) => self.fault(signal, address, registers),
        }
    }
}

fn violation<T>(property: Property, message: String) -> Result<T, Violation> {
    Err(Violation { property, message })
}

/// The type of a value's bits that code may use. For an i32 this is the whole word, which is a
/// number.
fn whole(place: Place, ty: ValType) -> ValType {
    match (place, ty) {
        (Place::General(_) | Place::Memory(_), ValType::I32) => ValType::I64,
        (_, ty) => ty,
    }
}

/// A vector register whose bits of the type are the value, and whose other bits are a secret.
pub(crate) fn partly(value: [u64; 2], secret: [u64; 2], ty: Option<ValType>) -> [u64; 2] {
    const LOW: u64 = 0xffff_ffff;
    match ty {
        None => secret,
        Some(ValType::F32) => [value[0] & LOW | secret[0] & !LOW, secret[1]],
        Some(ValType::F64) => [value[0], secret[1]],
        Some(_) => value,
    }
}
