//! Conditions of which the walk follows both answers on paths of their own.

use super::Step;
use crate::casts;
use crate::comparison::{Comparison, Relation};
use crate::error::Proof;
use crate::state::State;
use crate::value::{Kind, Value};
use iced_x86::OpKind;
use pirn_format::types::HeapType;

/// Whether a comparison says what a reference is, or whether there is room for an object.
fn is_of_objects(comparison: &Comparison) -> bool {
    let is_it = |left: Value, right: Value| {
        matches!(
            (left.kind, right.kind),
            (Kind::HeapNext, Kind::HeapEnd)
                | (Kind::TypeOf(_) | Kind::Ancestor(..), Kind::TypeId(_))
                | (Kind::RowLen(_) | Kind::Tag(..), Kind::Number)
        ) || matches!(left.kind, Kind::Reference(heap) if heap.top() == HeapType::Any)
    };
    is_it(comparison.left, comparison.right) || is_it(comparison.right, comparison.left)
}

impl Step<'_, '_> {
    /// The states in which the current comparison has a relation, and in which it has not; `None`
    /// if no comparison of objects was made.
    pub(super) fn sides(&mut self, relation: Option<Relation>) -> Proof<Option<Sides>> {
        let Some((comparison, relation)) = self.state.flags.zip(relation) else {
            return Ok(None);
        };
        let is_constant =
            comparison.left.as_constant().is_some() && comparison.right.as_constant().is_some();
        if !self.walk.module.has_objects || !(is_constant || is_of_objects(&comparison)) {
            return Ok(None);
        }
        self.walk.spend(2 * self.state.words())?;
        let side = |relation| {
            let mut state = self.state.clone();
            casts::assume(self.walk.module, &mut state, comparison, relation).then_some(state)
        };
        Ok(Some((side(relation), side(relation.negated()))))
    }

    /// Sets the lowest byte of a register by a condition. Returns whether the condition compares
    /// objects or constants; otherwise, the byte is any number.
    pub(super) fn set_condition(&mut self, relation: Option<Relation>) -> Proof<bool> {
        let Some(sides) = self.sides(relation)? else {
            return Ok(false);
        };
        match sides {
            (Some(yes), Some(no)) => {
                if !self.walk.forks.may_split() {
                    return Ok(false);
                }
                *self.state = yes;
                self.set_bit(true);
                let next = self.instruction.next_ip() as u32;
                let yes = std::mem::replace(self.state, no);
                self.walk.forks.split_apart(next, yes);
                self.set_bit(false);
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

    /// A conditional move of which the condition compares objects: the walk splits.
    pub(super) fn fork_move(&mut self, relation: Option<Relation>) -> Proof<bool> {
        // A memory operand is loaded whether the condition holds or not.
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
        *self.state = moved;
        let source = self.read(1)?;
        self.write(source)?;
        let moved = std::mem::replace(self.state, kept);
        self.walk.forks.split(next, moved);
        let target = self.read(0)?;
        self.write(target)?;
        Ok(true)
    }
}

/// What is known on both sides of a condition; `None` for a side that is never reached.
pub(super) type Sides = (Option<State>, Option<State>);
