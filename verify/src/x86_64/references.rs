//! Instructions that compute with the bits of a reference: its tag, and conversions.

use super::Step;
use super::operands::is_high_byte;
use crate::casts;
use crate::comparison::Comparison;
use crate::error::Proof;
use crate::external::Operation;
use crate::value::Value;
use iced_x86::{Mnemonic, OpKind};

impl Step<'_, '_> {
    /// An instruction that reads the tag bits of a reference: `test` or `and` with a mask. Returns
    /// whether the instruction reads these bits.
    pub(super) fn reference_tag(&mut self) -> Proof<bool> {
        let instruction = self.instruction;
        let mnemonic = instruction.mnemonic();
        if !matches!(mnemonic, Mnemonic::Test | Mnemonic::And)
            || instruction.op0_kind() != OpKind::Register
            || !instruction.op0_register().is_gpr()
            || matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory)
            || is_high_byte(instruction.op0_register())
        {
            return Ok(false);
        }
        let register = instruction.op0_register();
        let value = self.state.registers[register.full_register().number()];
        let mask = Value::constant(instruction.immediate(1).cast_signed());
        let whole = register.size() >= 4 || mnemonic == Mnemonic::Test;
        let Some(tag) = casts::tag(value, mask, self.fresh(0)).filter(|_| whole) else {
            return Ok(false);
        };
        self.change_flags(true);
        // The flags are as after a comparison of the tag with 0.
        self.state.flags = Some(Comparison {
            left: tag,
            right: Value::constant(0),
            is_word: true,
        });
        if mnemonic == Mnemonic::And {
            self.write_register(register.full_register(), tag)?;
        }
        Ok(true)
    }

    /// The result of an instruction that converts a reference between externref and anyref.
    pub(super) fn converted(
        &mut self,
        mnemonic: Mnemonic,
        left: Value,
        right: Value,
    ) -> Option<Value> {
        let operation = match mnemonic {
            Mnemonic::And => Operation::And,
            Mnemonic::Or => Operation::Or,
            Mnemonic::Shl => Operation::ShiftLeft,
            Mnemonic::Shr => Operation::ShiftRight,
            _ => return None,
        };
        let (fresh, is_wide) = (self.fresh(0), self.bytes(0) == 8);
        is_wide.then(|| self.part(operation, left, right, fresh))?
    }
}
