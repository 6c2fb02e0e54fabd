//! Copies of states. They reuse the memory of states that are no longer needed.

use super::{Machine, Walk};
use crate::state::State;

/// Maximum number of states whose memory is kept for copies of others.
const SPARE_MAX: usize = 8;

impl<'m, M: Machine<'m>> Walk<'m, M> {
    /// What is known where a block starts, if a path has reached the block.
    pub(super) fn block_state(&mut self, start: u32) -> Option<State> {
        let index = (start - self.entry.start) as usize;
        let number = self.block_numbers[index].checked_sub(1)?;
        let state = &self.blocks[number as usize].state;
        Some(copy(&mut self.spare, state))
    }

    /// A copy of a state.
    pub(crate) fn copy(&mut self, state: &State) -> State {
        copy(&mut self.spare, state)
    }

    /// Keeps the memory of a state that is no longer needed.
    pub(super) fn recycle(&mut self, state: State) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(state);
        }
    }
}

/// A copy of a state, in the memory of a spare one if there is any.
fn copy(spare: &mut Vec<State>, state: &State) -> State {
    match spare.pop() {
        Some(mut copy) => {
            copy.clone_from(state);
            copy
        }
        None => state.clone(),
    }
}
