//! The instructions of aarch64, and their effects on a state.

mod compute;
mod decode;
mod effects;
mod instruction;
mod loads;
mod memory;
mod select;
mod step;
mod vectors;
mod word;

use crate::abi::{self, Convention};
use crate::error::{Proof, Property, refuse};
use crate::module::Module;
use crate::walk::live::Effects;
use crate::walk::{self, Machine, Next};
use instruction::{Binary, Instruction};

/// The decoder of one function's code.
pub(crate) struct A64<'m> {
    code: &'m [u8],
    start: u32,
}

/// One instruction, and the state before it.
type Step<'w, 'm> = walk::Step<'w, 'm, A64<'m>>;

/// Bytes of an instruction.
const BYTES: u32 = 4;

impl<'m> Machine<'m> for A64<'m> {
    type Instruction = Instruction;

    const CONVENTION: &'static Convention = &abi::AARCH64;

    fn new(code: &'m [u8], start: u32) -> Self {
        Self { code, start }
    }

    fn decode(&mut self, module: &Module<'m>, index: usize) -> Proof<Instruction> {
        let at = self.start + index as u32;
        if !at.is_multiple_of(BYTES) {
            return refuse(
                Property::Instructions,
                format!("an instruction at {at:#x}, which is no multiple of {BYTES}"),
            );
        }
        let rest = self.code.get(index..).unwrap_or_default();
        let Some(bytes) = rest.first_chunk::<4>() else {
            return refuse(
                Property::Instructions,
                "an instruction ends after the end of the function",
            );
        };
        let word = u32::from_le_bytes(*bytes);
        let Some(instruction) = decode::decode(word, at) else {
            return refuse(
                Property::Instructions,
                format!("{word:#010x} is not on the verifier's list"),
            );
        };
        match extension(instruction, word).filter(|name| !module.cpu.has(name)) {
            None => Ok(instruction),
            Some(name) => refuse(
                Property::Instructions,
                format!(
                    "{word:#010x} needs the cpu feature {name}, which the file's header does not \
                     name"
                ),
            ),
        }
    }

    fn bytes(_: Instruction) -> usize {
        BYTES as usize
    }

    fn falls(instruction: Instruction) -> bool {
        !matches!(
            instruction,
            Instruction::Jump(_) | Instruction::JumpTo(_) | Instruction::Return | Instruction::Trap
        )
    }

    fn is_plain(instruction: Instruction) -> bool {
        !matches!(
            instruction,
            Instruction::Call(_)
                | Instruction::CallTo(_)
                | Instruction::Jump(_)
                | Instruction::JumpBit { .. }
                | Instruction::JumpIf { .. }
                | Instruction::JumpTo(_)
                | Instruction::JumpZero { .. }
                | Instruction::Return
                | Instruction::Trap
        )
    }

    fn jump_target(instruction: Instruction) -> Option<u32> {
        match instruction {
            Instruction::Jump(target)
            | Instruction::JumpIf { target, .. }
            | Instruction::JumpZero { target, .. }
            | Instruction::JumpBit { target, .. } => Some(target),
            _ => None,
        }
    }

    fn is_computed_jump(instruction: Instruction) -> bool {
        matches!(instruction, Instruction::JumpTo(_))
    }

    fn effects(instruction: Instruction) -> Effects {
        effects::effects(instruction)
    }

    fn step(step: Step<'_, 'm>) -> Proof<Next> {
        step.run()
    }
}

/// The processor extension that an instruction needs.
fn extension(instruction: Instruction, word: u32) -> Option<&'static str> {
    match instruction {
        Instruction::Atomic { .. } | Instruction::Exchange { .. } => Some("lse"),
        Instruction::Binary {
            binary: Binary::Checksum,
            ..
        } => Some("crc"),
        Instruction::Vectors(_) => vectors::extension(word),
        _ => None,
    }
}
