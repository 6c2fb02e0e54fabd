//! Bulk memory operations, compared with a model: constant and computed lengths, at the ends of
//! memories and of stacks, in any slot, and in groups.

use crate::common;

mod bases;
mod few;
mod fresh;
mod lengths;
mod stack;
mod stopped;
mod tables;

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, TrapCode};

/// Bytes of a guest's memory, which is one page.
const MEMORY: usize = 64 << 10;

/// Both operations with computed operands.
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
    /// The export's name in [`FUNCS`].
    fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Fill => "fill",
        }
    }

    /// The specified effect (4.4.7); returns whether the operation succeeds. `source` is the
    /// address to copy from, or the byte to fill with.
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

/// The result of a call; `None` if it trapped. The trap must be a memory trap.
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
