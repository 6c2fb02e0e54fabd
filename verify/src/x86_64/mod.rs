//! The instructions of x86_64, and their effects on a state.

mod compute;
mod effects;
mod fork;
mod list;
mod operands;
mod references;
mod registers;
mod select;
mod step;
mod vectors;

use crate::abi::{self, Convention};
use crate::error::{Proof, Property, refuse};
use crate::module::Module;
use crate::walk::live::Effects;
use crate::walk::{self, Machine, Next};
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic};

/// The decoder of one function's code.
pub(crate) struct X86<'m> {
    code: &'m [u8],
    start: u32,
    decoder: Decoder<'m>,
    factory: InstructionInfoFactory,
    /// Whether the current path may hold a value of [`Kind::Found`].
    ///
    /// [`Kind::Found`]: crate::value::Kind::Found
    has_found: bool,
}

/// One instruction, and the state before it.
type Step<'w, 'm> = walk::Step<'w, 'm, X86<'m>>;

impl<'m> Machine<'m> for X86<'m> {
    type Instruction = Instruction;

    const CONVENTION: &'static Convention = &abi::X86_64;

    fn new(code: &'m [u8], start: u32) -> Self {
        Self {
            code,
            start,
            decoder: Decoder::with_ip(64, code, u64::from(start), DecoderOptions::NONE),
            factory: InstructionInfoFactory::new(),
            has_found: false,
        }
    }

    fn decode(&mut self, module: &Module<'m>, index: usize) -> Proof<Instruction> {
        // After an instruction, the decoder is at the next instruction.
        let ip = u64::from(self.start) + index as u64;
        let is_next = self.decoder.position() == index && self.decoder.ip() == ip;
        let is_there = is_next || self.decoder.set_position(index).is_ok();
        if !is_next {
            self.decoder.set_ip(ip);
        }
        let instruction = self.decoder.decode();
        let rest = self.code.get(index..).unwrap_or_default();
        if !is_there || instruction.is_invalid() || !list::is_allowed(&instruction, rest) {
            let shown = &rest[..rest.len().min(15)];
            return refuse(
                Property::Instructions,
                format!(
                    "{:?} is not on the verifier's list; bytes {shown:02x?}",
                    instruction.code()
                ),
            );
        }
        match list::absent(&instruction, module.cpu) {
            None => Ok(instruction),
            Some(name) => refuse(
                Property::Instructions,
                format!(
                    "{:?} needs the cpu feature {name}, which the file's header does not name",
                    instruction.code()
                ),
            ),
        }
    }

    fn bytes(instruction: Instruction) -> usize {
        instruction.len()
    }

    fn falls(instruction: Instruction) -> bool {
        !matches!(
            instruction.mnemonic(),
            Mnemonic::Jmp | Mnemonic::Ret | Mnemonic::Ud2
        )
    }

    fn is_plain(instruction: Instruction) -> bool {
        list::is_plain(&instruction)
    }

    fn jump_target(instruction: Instruction) -> Option<u32> {
        let is_branch = instruction.is_jcc_short_or_near() || instruction.is_jmp_short_or_near();
        is_branch.then(|| instruction.near_branch_target() as u32)
    }

    fn is_computed_jump(instruction: Instruction) -> bool {
        instruction.is_jmp_near_indirect()
    }

    fn effects(instruction: Instruction) -> Effects {
        effects::effects(&instruction)
    }

    fn step(step: Step<'_, 'm>) -> Proof<Next> {
        step.run()
    }
}
