//! Copies of states. A copy reuses the memory of a state that is no longer needed, perhaps of an
//! earlier proof on the same thread.

use super::{Block, Machine, Walk};
use crate::state::State;
use std::cell::RefCell;

/// Maximum number of states whose memory is kept for copies of other states.
const SPARE_MAX: usize = 64;

/// Most words of a state whose memory is kept.
const SPARE_WORDS_MAX: usize = 1 << 10;

/// Most bytes of a function whose memory is kept.
const BYTES_MAX: usize = 1 << 17;

/// Memory that the proofs of one thread use in turn. Otherwise, the allocator would return the
/// memory to the kernel after each large function.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) numbers: Vec<u32>,
    pub(super) walked: Vec<bool>,
    pub(super) leaders: Vec<bool>,
    pub(super) block_numbers: Vec<u32>,
    pub(super) blocks: Vec<Block>,
    pub(super) states: Vec<State>,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

impl Memory {
    /// Memory for the proof of a function of `bytes` bytes.
    pub(super) fn take(bytes: usize) -> Self {
        let mut memory = MEMORY.take();
        for words in [&mut memory.numbers, &mut memory.block_numbers] {
            words.clear();
            words.resize(bytes, 0);
        }
        for flags in [&mut memory.walked, &mut memory.leaders] {
            flags.clear();
            flags.resize(bytes, false);
        }
        memory
    }
}

impl<'m, M: Machine<'m>> Walk<'m, M> {
    /// A copy of the state where a block starts, if a path has reached the block.
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
        if self.spare.len() < SPARE_MAX && state.words() <= SPARE_WORDS_MAX {
            self.spare.push(state);
        }
    }

    /// Forgets all blocks, and keeps the memory of their states.
    pub(super) fn recycle_blocks(&mut self) {
        while let Some(block) = self.blocks.pop() {
            self.recycle(block.state);
        }
    }

    /// Keeps the memory of the walk for the next walk on this thread.
    pub(super) fn release(mut self) {
        if self.numbers.len() > BYTES_MAX {
            return;
        }
        self.recycle_blocks();
        MEMORY.set(Memory {
            numbers: self.numbers,
            walked: self.walked,
            leaders: self.leaders,
            block_numbers: self.block_numbers,
            blocks: self.blocks,
            states: self.spare,
        });
    }
}

/// A copy of a state, in the memory of a spare state if there is one.
fn copy(spare: &mut Vec<State>, state: &State) -> State {
    match spare.pop() {
        Some(mut copy) => {
            copy.clone_from(state);
            copy
        }
        None => state.clone(),
    }
}
