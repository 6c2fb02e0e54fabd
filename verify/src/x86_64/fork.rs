//! Conditions whose answers the walk follows on two separate paths.

use super::Step;
use crate::comparison::Relation;
use crate::error::Proof;
use crate::value::{Kind, Value};
use crate::walk::fork::Split;
use iced_x86::OpKind;

impl Step<'_, '_> {
    /// Sets the lowest byte of a register by a condition. Returns whether the byte was set; if not,
    /// it may be any number.
    pub(super) fn set_condition(&mut self, relation: Option<Relation>) -> Proof<bool> {
        let Some(sides) = self.sides(relation)? else {
            return Ok(false);
        };
        match sides {
            (Some(yes), Some(no)) => {
                if !self.walk.forks.may_split() {
                    return Ok(false);
                }
                let next = self.instruction.next_ip() as u32;
                self.fork((yes, no), Split::Answer, next, |step, bit| {
                    step.set_bit(bit);
                    Ok(())
                })?;
            }
            (yes, _) => self.set_bit(yes.is_some()),
        }
        Ok(true)
    }

    fn set_bit(&mut self, bit: bool) {
        let register = self.instruction.op0_register().full_register();
        let old = &mut self.state.registers[register.number()];
        *old = match old.as_constant() {
            Some(0..=0xff) => Value::constant(i64::from(bit)),
            _ => Value::of(Kind::Bit(bit)),
        };
    }

    /// Splits the walk at a conditional move whose condition compares objects or constants. Returns
    /// whether the walk has split.
    pub(super) fn fork_move(&mut self, relation: Option<Relation>) -> Proof<bool> {
        // The instruction loads a memory operand whether the condition holds or not.
        if self.instruction.op1_kind() != OpKind::Register {
            return Ok(false);
        }
        let Some((Some(moved), Some(kept))) = self.sides(relation)? else {
            return Ok(false);
        };
        if !self.walk.forks.may_split() {
            return Ok(false);
        }
        let next = self.instruction.next_ip() as u32;
        self.fork((moved, kept), Split::Selection, next, |step, moves| {
            let value = step.read(u32::from(moves))?;
            step.write(value)
        })?;
        Ok(true)
    }
}
