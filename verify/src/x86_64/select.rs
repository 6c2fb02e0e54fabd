//! Conditional moves.

use super::registers::general;
use super::{Step, step};
use crate::casts;
use crate::comparison::Comparison;
use crate::error::Proof;
use crate::value::{Kind, Value};
use iced_x86::{Mnemonic, OpKind};

impl Step<'_, '_> {
    /// A conditional move.
    pub(super) fn conditional_move(&mut self) -> Proof<()> {
        self.reads_flags(self.instruction.rflags_read())?;
        if std::mem::take(&mut self.walk.machine.has_found) {
            self.select_found();
        }
        let relation = step::relation(self.instruction.condition_code());
        if self.fork_move(relation)? {
            return Ok(());
        }
        let old = self.read(0)?;
        let new = self.read(1)?;
        let module = self.walk.module;
        let value = match self.state.flags.zip(relation) {
            None if old == new => old,
            None => casts::joined(module, old, new, self.fresh(0)),
            // The comparison tells nothing about the operands.
            Some((comparison, relation))
                if !module.has_objects && !self.is_compared(comparison) =>
            {
                let moves = self.state.allows(comparison, relation);
                let keeps = self.state.allows(comparison, relation.negated());
                self.selected((moves, new), (keeps, old))
            }
            Some((comparison, relation)) => {
                // The operands may be the compared values.
                let mut moved = self.state.without_frame();
                let mut kept = self.state.without_frame();
                let moves = casts::assume(module, &mut moved, comparison, relation);
                let keeps = casts::assume(module, &mut kept, comparison, relation.negated());
                let source = match self.instruction.op1_kind() {
                    OpKind::Register => {
                        self.read_register_in(&moved, self.instruction.op1_register())
                    }
                    _ => new,
                };
                let target = self.read_register_in(&kept, self.instruction.op0_register());
                self.selected((moves, source), (keeps, target))
            }
        };
        self.write(value)
    }

    /// Whether a comparison may tell something about a register operand.
    fn is_compared(&self, comparison: Comparison) -> bool {
        let instruction = self.instruction;
        let mut registers = [instruction.op0_register(), instruction.op1_register()].into_iter();
        registers.any(|register| {
            let (number, _) = general(register);
            register.is_gpr() && comparison.concerns(&self.state.registers[number])
        })
    }

    /// The result of a conditional move that may move or keep a value.
    fn selected(&self, (moves, source): (bool, Value), (keeps, target): (bool, Value)) -> Value {
        match (moves, keeps) {
            (true, false) => source,
            (false, _) => target,
            (true, true) if source == target => source,
            (true, true) => casts::joined(self.walk.module, target, source, self.fresh(0)),
        }
    }

    /// The first `cmov` after `bsf` or `bsr`. If a `cmove` replaces a value of [`Kind::Found`], its
    /// destination becomes a number. All other values of this kind become unknown bits, because
    /// later instructions change the zero flag.
    fn select_found(&mut self) {
        let register = self.instruction.op0_register().full_register().number();
        let old = self.state.registers[register];
        let is_wanted = |value: &Value| value.kind == Kind::Found;
        self.walk.count(self.state.words());
        self.state.update(is_wanted, |value| *value = Value::JUNK);
        // A `cmove` of a register to itself replaces nothing.
        let replaces = self.instruction.mnemonic() == Mnemonic::Cmove
            && self.instruction.op1_register() != self.instruction.op0_register();
        if is_wanted(&old) && replaces {
            // If the zero flag is set, the instruction replaces this value.
            self.state.registers[register] = Value::number(self.fresh(1), old.low, old.high);
        }
    }
}
