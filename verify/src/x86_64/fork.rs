//! [`Forks`]: paths that are walked apart from others.
//!
//! A cast computes its answer in a register, and a later branch tests the register. Between the
//! two, paths meet: a state that joins them does not know that the reference has the type if the
//! answer is yes. So where a comparison of types or tags sets a register, the walk splits: on one
//! path the answer is 1, on the other 0. The former is walked apart, and does not join states of
//! blocks, until a branch tests a constant, or for [`BLOCKS_MAX`] blocks.
//!
//! Such a path only goes forward. The symbols of values rely on that: no instruction runs twice
//! without a join, so a symbol never names two values. For the same reason, a block gets new names
//! if the first path to it goes backward.

use super::{Step, Walk};
use crate::casts;
use crate::error::Proof;
use crate::state::{Comparison, Relation, State};
use crate::value::{Kind, Value};
use iced_x86::OpKind;
use pirn_format::types::HeapType;
use std::borrow::Cow;

/// Maximum number of blocks of a path that is walked apart.
const BLOCKS_MAX: u32 = 32;

/// Maximum number of forks that lead to a path. Otherwise, the number of paths could double at each
/// condition.
const DEPTH_MAX: u32 = 3;

/// A path that starts in the middle of a block.
struct Fork {
    at: u32,
    state: State,
    apart: Apart,
}

/// How far a path is walked apart from others.
#[derive(Clone, Copy, Default)]
struct Apart {
    /// Number of blocks left; 0 if the path joins others.
    left: u32,
    depth: u32,
}

/// Paths that start in the middle of a block, and the state of the current path.
#[derive(Default)]
pub(super) struct Forks {
    todo: Vec<Fork>,
    apart: Apart,
    /// Whether the path started in the middle of a block.
    pub(super) is_fork: bool,
    /// Whether any path did.
    has_forks: bool,
    /// Text offset of the current instruction.
    pub(super) at: u32,
}

impl Forks {
    /// Whether the path continues at a block without a join. Counts the block.
    pub(super) fn passes(&mut self, block: u32) -> bool {
        self.apart.left = self.apart.left.saturating_sub(1);
        self.apart.left > 0 && block > self.at
    }

    /// Whether a first path to a block may contain values of instructions after the block.
    pub(super) fn closes_loop(&self, block: u32) -> bool {
        self.has_forks && block <= self.at
    }

    /// The path joins others from here on.
    pub(super) fn joins(&mut self) {
        self.apart.left = 0;
    }

    fn push(&mut self, at: u32, state: State, apart: Apart) {
        self.has_forks = true;
        self.todo.push(Fork { at, state, apart });
    }
}

impl Walk<'_> {
    /// The next path: where it starts, and what is known there.
    pub(super) fn next_path(&mut self) -> Option<(u32, State)> {
        if let Some(fork) = self.forks.todo.pop() {
            (self.forks.apart, self.forks.is_fork) = (fork.apart, true);
            return Some((fork.at, fork.state));
        }
        (self.forks.apart, self.forks.is_fork) = (Apart::default(), false);
        while let Some(block) = self.todo.pop_first() {
            if let Some(found) = self.blocks.get(&block) {
                return Some((block, found.state.clone()));
            }
        }
        None
    }

    /// The taken side of a branch.
    pub(super) fn taken(&mut self, target: u32, state: State) -> Proof<()> {
        if self.forks.apart.left == 0 || target <= self.forks.at {
            return self.flow(target, Cow::Owned(state));
        }
        self.spend(state.words())?;
        let apart = self.forks.apart;
        self.forks.push(target, state, apart);
        Ok(())
    }
}

/// Whether a comparison says what a reference is, or whether there is room for an object.
fn is_of_objects(comparison: &Comparison) -> bool {
    let is_it = |left: Value, right: Value| {
        matches!(
            (left.kind, right.kind),
            (Kind::HeapNext, Kind::HeapEnd)
                | (Kind::TypeOf(_) | Kind::Ancestor(_), Kind::TypeId(_))
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
        let depth = self.walk.forks.apart.depth;
        match sides {
            (Some(yes), Some(no)) => {
                if depth >= DEPTH_MAX {
                    return Ok(false);
                }
                *self.state = yes;
                self.set_bit(true);
                let apart = Apart {
                    left: BLOCKS_MAX,
                    depth: depth + 1,
                };
                let next = self.instruction.next_ip() as u32;
                let yes = std::mem::replace(self.state, no);
                self.walk.forks.push(next, yes, apart);
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
        let apart = self.walk.forks.apart;
        if apart.depth >= DEPTH_MAX {
            return Ok(false);
        }
        let apart = Apart {
            depth: apart.depth + 1,
            ..apart
        };
        let next = self.instruction.next_ip() as u32;
        *self.state = moved;
        let source = self.read(1)?;
        self.write(source)?;
        let moved = std::mem::replace(self.state, kept);
        self.walk.forks.push(next, moved, apart);
        let target = self.read(0)?;
        self.write(target)?;
        Ok(true)
    }
}

/// What is known on both sides of a condition; `None` for a side that is never reached.
pub(super) type Sides = (Option<State>, Option<State>);
