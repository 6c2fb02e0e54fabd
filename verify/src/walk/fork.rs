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

use super::{Machine, Walk};
use crate::error::Proof;
use crate::state::State;
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

    /// The path joins others from here on.
    pub(super) fn joins(&mut self) {
        self.apart.left = 0;
    }

    /// Whether the path may split again.
    pub(crate) fn may_split(&self) -> bool {
        self.apart.depth < DEPTH_MAX
    }

    /// Adds a path that starts at an instruction, and is walked apart.
    pub(crate) fn split_apart(&mut self, at: u32, state: State) {
        let apart = Apart {
            left: BLOCKS_MAX,
            depth: self.apart.depth + 1,
        };
        self.push(at, state, apart);
    }

    /// Adds a path that starts at an instruction, and is walked apart as far as the current one.
    pub(crate) fn split(&mut self, at: u32, state: State) {
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
    /// The next path: where it starts, and what is known there.
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
