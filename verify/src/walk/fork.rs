//! [`Forks`]: paths that are walked apart from other paths.
//!
//! A cast computes its answer in a register, and a later branch tests the register. Between the
//! cast and the branch, paths meet. The joined state does not know that the reference has the type
//! if the answer is yes. So where a comparison of types or tags sets a register, the walk splits:
//! one path has the answer yes, the other no. The path with a nonzero answer is walked apart. It
//! does not join states of blocks until a branch tests a constant, or for [`BLOCKS_MAX`] blocks.
//!
//! A path that is walked apart only goes forward. Symbols rely on this rule: no instruction runs
//! twice without a join, so a symbol never names two values. For the same reason, the values of a
//! block get new symbols if the first path to the block goes backward.

use super::{Machine, Step, Walk};
use crate::casts;
use crate::comparison::{Comparison, Relation};
use crate::error::Proof;
use crate::state::State;
use crate::value::Kind;
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

/// How far a path is walked apart from other paths.
#[derive(Clone, Copy, Default)]
struct Apart {
    /// Number of blocks left; 0 if the path joins other paths.
    left: u32,
    depth: u32,
}

/// Paths that start in the middle of a block, and the state of the current path.
#[derive(Default)]
pub(crate) struct Forks {
    todo: Vec<Fork>,
    apart: Apart,
    /// Whether the path started in the middle of a block.
    pub(super) is_fork: bool,
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
        block <= self.at
    }

    /// Makes the path join other paths from here on.
    pub(super) fn joins(&mut self) {
        self.apart.left = 0;
    }

    /// Whether the path may split again.
    pub(crate) fn may_split(&self) -> bool {
        self.apart.depth < DEPTH_MAX
    }

    /// Adds a path that starts at an instruction, and is walked apart.
    fn split_apart(&mut self, at: u32, state: State) {
        let apart = Apart {
            left: BLOCKS_MAX,
            depth: self.apart.depth + 1,
        };
        self.push(at, state, apart);
    }

    /// Adds a path that starts at an instruction, and is walked apart as far as the current path.
    fn split(&mut self, at: u32, state: State) {
        let apart = Apart {
            depth: self.apart.depth + 1,
            ..self.apart
        };
        self.push(at, state, apart);
    }

    fn push(&mut self, at: u32, state: State, apart: Apart) {
        self.todo.push(Fork { at, state, apart });
    }
}

impl<'m, M: Machine<'m>> Walk<'m, M> {
    /// The next path: the text offset of its first instruction, and the state there.
    pub(super) fn next_path(&mut self) -> Option<(u32, State)> {
        if let Some(fork) = self.forks.todo.pop() {
            (self.forks.apart, self.forks.is_fork) = (fork.apart, true);
            return Some((fork.at, fork.state));
        }
        (self.forks.apart, self.forks.is_fork) = (Apart::default(), false);
        while let Some(block) = self.todo.pop_first() {
            if let Some(state) = self.block_state(block) {
                return Some((block, state));
            }
        }
        None
    }

    /// Follows the taken side of a branch. The target starts a block even if the path is walked
    /// apart.
    pub(super) fn taken(&mut self, target: u32, state: State) -> Proof<()> {
        self.lead(target)?;
        if self.forks.apart.left == 0 || target <= self.forks.at {
            return self.flow(target, Cow::Owned(state));
        }
        self.spend(state.words())?;
        let apart = self.forks.apart;
        self.forks.push(target, state, apart);
        Ok(())
    }
}

/// The states on both sides of a condition; `None` for a side that no path reaches.
pub(crate) type Sides = (Option<State>, Option<State>);

/// The use that an instruction makes of a condition that the walk follows on two paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    /// Writes the answer, which a later branch tests. The first side, with a nonzero answer, is
    /// walked apart until that branch.
    Answer,
    /// Selects a value.
    Selection,
}

/// Whether a comparison tells something about a reference, or about the room for an object.
fn is_of_objects(comparison: &Comparison) -> bool {
    let is_it = |left: Kind, right: Kind| {
        matches!(
            (left, right),
            (Kind::HeapNext, Kind::HeapEnd)
                | (Kind::TypeOf(_) | Kind::Ancestor(..), Kind::TypeId(_))
                | (
                    Kind::RowLen(_) | Kind::Tag(..) | Kind::Part(..),
                    Kind::Number
                )
        ) || matches!(left, Kind::Reference(heap)
            if matches!(heap.top(), HeapType::Any | HeapType::Func | HeapType::Extern))
    };
    let (left, right) = (comparison.left.kind, comparison.right.kind);
    is_it(left, right) || is_it(right, left)
}

impl<'m, M: Machine<'m>> Step<'_, 'm, M> {
    /// The states in which the relation of the current comparison holds and does not hold. `None`
    /// if the comparison is not of objects or constants.
    pub(crate) fn sides(&mut self, relation: Option<Relation>) -> Proof<Option<Sides>> {
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

    /// Follows each side of a condition on its own path, which continues at `next`. `write` applies
    /// the instruction to a side. Its argument is true for the first side.
    pub(crate) fn fork(
        &mut self,
        (first, other): (State, State),
        split: Split,
        next: u32,
        write: impl Fn(&mut Self, bool) -> Proof<()>,
    ) -> Proof<()> {
        *self.state = first;
        write(self, true)?;
        let first = std::mem::replace(self.state, other);
        match split {
            Split::Answer => self.walk.forks.split_apart(next, first),
            Split::Selection => self.walk.forks.split(next, first),
        }
        write(self, false)
    }
}
