//! Bulk operations on memory against a model of them: where the code says how many bytes and where it computes
//! that, at every length, at the ends of memories and of stacks, in whichever slot and in groups.

#[path = "../common/mod.rs"]
mod common;

mod bases;
mod few;
mod lengths;
mod stack;
mod stopped;

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, TrapCode};

/// Bytes of a guest's memory, which is one page.
const MEMORY: usize = 64 << 10;

/// Both operations by their names, with operands that are computed.
const FUNCS: &str = r#"
  (func (export "copy") (param i32 i32 i32)
    (memory.copy (local.get 0) (local.get 1) (local.get 2)))
  (func (export "fill") (param i32 i32 i32)
    (memory.fill (local.get 0) (local.get 1) (local.get 2)))"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Copy,
    Fill,
}

impl Operation {
    /// Its name in [`FUNCS`].
    fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Fill => "fill",
        }
    }

    /// What the specification says (4.4.7): whether it is done, and what the memory holds then. `source`: where
    /// it copies from, or the byte that it fills with.
    fn apply(self, memory: &mut [u8], to: u32, source: u32, length: u32) -> bool {
        let inside = |at: u32| u64::from(at) + u64::from(length) <= memory.len() as u64;
        if !inside(to) || (self == Self::Copy && !inside(source)) {
            return false;
        }
        let (to, from, length) = (to as usize, source as usize, length as usize);
        match self {
            Self::Copy => memory.copy_within(from..from + length, to),
            Self::Fill => memory[to..to + length].fill(source as u8),
        }
        true
    }
}

/// What a call returned, if it did not trap; a trap must be the one of memory.
fn returned<T>(result: Result<T, CallError>) -> Option<T> {
    match result {
        Ok(returned) => Some(returned),
        Err(CallError::Trap(trap)) => {
            assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn options(level: OptLevel, fuel: bool) -> Options {
    let mut options = Options::default();
    (options.opt_level, options.fuel) = (level, fuel);
    options
}
