//! Conditional selects.

use super::instruction::{Select, Selection};
use super::step::{OTHER, ZERO, flags, relation, word};
use super::word::Number;
use super::{BYTES, Step};
use crate::casts;
use crate::error::Proof;
use crate::state::{Fact, State};
use crate::value::Value;
use crate::walk::fork::Split;
use crate::widening::Widening;

impl Step<'_, '_> {
    /// A conditional select.
    pub(super) fn select(&mut self, selection: Selection) -> Proof<()> {
        let Selection {
            is_wide,
            select,
            to,
            first,
            second,
            condition,
        } = selection;
        self.reads_flags(flags(condition))?;
        if self.fork_select(selection)? {
            return Ok(());
        }
        if select != Select::Plain {
            let left = self.number(first, is_wide)?;
            let changed = self.changed(selection)?;
            let value = match left == changed {
                true => left,
                false => left.join(changed, self.fresh(0), Widening::None),
            };
            return self.write(to, is_wide, value);
        }
        let (value, bounds) = self.selected(is_wide, first, second, condition)?;
        self.write(to, is_wide, value)?;
        // The lowest bits may have bounds that the whole number does not have.
        if let Some((low, high)) = bounds
            && value.is_number()
        {
            let word = value.low_word(self.named(OTHER + 8));
            if word.symbol.is_word() && word.shift == 0 && word.constant == 0 {
                self.state.add(Fact::Bounds(word.symbol, low, high));
            }
        }
        Ok(())
    }

    /// The value that a select chooses if its condition does not hold.
    fn changed(&self, selection: Selection) -> Proof<Value> {
        let Selection {
            is_wide, second, ..
        } = selection;
        if selection.select == Select::Plain {
            return self.read(second, is_wide);
        }
        let right = self.number(second, is_wide)?;
        let changed = match (selection.select, right.as_constant()) {
            (Select::Increment, Some(constant)) => Value::constant(constant.wrapping_add(1)),
            (Select::Invert, Some(constant)) => Value::constant(!constant),
            (Select::Negate, Some(constant)) => Value::constant(constant.wrapping_neg()),
            _ => Value::any(self.fresh(1)),
        };
        Ok(self.narrowed(changed, is_wide))
    }

    /// Splits the walk at a conditional select whose condition compares objects or constants.
    /// Returns whether the select is done.
    fn fork_select(&mut self, selection: Selection) -> Proof<bool> {
        let Selection {
            is_wide, to, first, ..
        } = selection;
        let Some(sides) = self.sides(relation(selection.condition))? else {
            return Ok(false);
        };
        let write = |step: &mut Self, holds: bool| {
            let value = match holds {
                true => step.read(first, is_wide)?,
                false => step.changed(selection)?,
            };
            step.write(to, is_wide, value)
        };
        match sides {
            (Some(yes), Some(no)) if self.walk.forks.may_split() => {
                // `cset` and `csetm`: the answer is not 0 if the condition does not hold.
                let is_answer = first == ZERO && selection.second == ZERO;
                let split = match is_answer {
                    true => Split::Answer,
                    false => Split::Selection,
                };
                let write = |step: &mut Self, is_first: bool| write(step, !is_first);
                self.fork((no, yes), split, self.at + BYTES, write)?;
            }
            (Some(_), Some(_)) => return Ok(false),
            (yes, _) => write(self, yes.is_some())?,
        }
        Ok(true)
    }

    /// The value that a select chooses, and bounds of its lowest 32 bits.
    fn selected(
        &self,
        is_wide: bool,
        first: Number,
        second: Number,
        condition: u8,
    ) -> Proof<(Value, Option<(i64, i64)>)> {
        let (fresh, module) = (self.fresh(0), self.walk.module);
        let joined = |first: Value, second: Value| match first == second {
            true => first,
            false => casts::joined(module, second, first, fresh),
        };
        let Some((comparison, relation)) = self.state.flags.zip(relation(condition)) else {
            let (first, second) = (self.read(first, is_wide)?, self.read(second, is_wide)?);
            return Ok((joined(first, second), None));
        };
        let concerns =
            |register: Number| comparison.concerns(&self.state.registers[usize::from(register)]);
        // Fast path: most comparisons tell nothing about the operands.
        if !module.has_objects && !concerns(first) && !concerns(second) {
            let takes = self.state.allows(comparison, relation);
            let keeps = self.state.allows(comparison, relation.negated());
            let (first, second) = (self.read(first, is_wide)?, self.read(second, is_wide)?);
            return Ok(self.chosen((takes, self.state, first), (keeps, self.state, second)));
        }
        // The operands may be the compared values.
        let mut taken = self.state.without_frame();
        let mut other = self.state.without_frame();
        let (takes, keeps) = (
            casts::assume(module, &mut taken, comparison, relation),
            casts::assume(module, &mut other, comparison, relation.negated()),
        );
        let read = |state: &State, register| match register {
            ZERO => Ok(Value::constant(0)),
            _ => self.read_in(state, register, is_wide),
        };
        let (first, second) = (read(&taken, first)?, read(&other, second)?);
        Ok(self.chosen((takes, &taken, first), (keeps, &other, second)))
    }

    /// The value that a select chooses, and bounds of its lowest 32 bits. A triple describes an
    /// operand: whether the select may choose it, the state in that case, and its value.
    fn chosen(
        &self,
        (takes, taken, first): (bool, &State, Value),
        (keeps, other, second): (bool, &State, Value),
    ) -> (Value, Option<(i64, i64)>) {
        let fresh = self.fresh(0);
        let bounds = |state: &State, value: Value| {
            let word = word(state, value, self.named(OTHER + 9));
            value.is_number().then_some((word.low, word.high))
        };
        match (takes, keeps) {
            (true, false) => (first, bounds(taken, first)),
            (false, _) => (second, bounds(other, second)),
            (true, true) => {
                let pair = bounds(taken, first).zip(bounds(other, second));
                let both = pair.map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
                let mut value = match first == second {
                    true => first,
                    false => casts::joined(self.walk.module, second, first, fresh),
                };
                // The bounds need a symbol that names the whole number.
                let is_wider = value.low < 0 || value.high > i64::from(u32::MAX);
                if both.is_some() && first != second && is_wider {
                    value = Value::any(fresh);
                }
                (value, both)
            }
        }
    }
}
