//! Alternatives to Cranelift's optimiser, for functions with high register pressure: when they are
//! tried, and which version of a function is kept. `optimize/mod.rs` compiles the versions.

pub(crate) mod schedule;
pub(crate) mod spill;
#[cfg(test)]
mod tests;

use crate::code::CompiledFunction;
use cranelift_codegen::ir::Function;

/// If the optimised code has a frame of at least this many bytes, the function is also compiled
/// without the optimiser. The optimiser moves instructions without effects to their first use. In
/// long blocks this raises the register pressure above the number of registers, and spills cost
/// more than the optimiser saves. Then the code without the optimiser is smaller.
pub(super) const TRIED_FRAME_BYTES: u32 = 128;

/// The function is also compiled without the optimiser only if its longest block has at least this
/// many IR instructions, and at least this percentage of the function's. Functions of many short
/// blocks gain as well, but account for most of the compile time: comparing all functions of a Ruby
/// interpreter makes it 5 % smaller and takes 1.36 times as long (bench `compare`, `compile`).
const TRIED_INSTRUCTIONS: usize = 100;
const TRIED_PERCENT: usize = 5;

/// The code without the optimiser is taken if its size is below this percentage of the optimised
/// code. When all functions were compared, every second one of libsodium's programs took 0.97 of
/// the time of optimised code with this value, and 0.98 with 100 (mean, bench `sodium`).
pub(super) const SMALLER_PERCENT: usize = 97;

/// If the smaller version has a frame of at least this many bytes, it is compared with the order of
/// `schedule`, which is taken if its size is below this percentage. An order for low register
/// pressure runs chains of computations one after another, which costs time where it saves little.
/// BLAKE2b took 1.03 of the time with 97 % of the bytes, Keccak 0.63 with 71.
pub(super) const SCHEDULED_FRAME_BYTES: u32 = 256;
pub(super) const SCHEDULED_PERCENT: usize = 90;

/// Whether a function has a frame of at least this many bytes. Also true if there is no function,
/// because a placeholder was not found.
pub(super) fn has_frame(function: &Option<CompiledFunction>, bytes: u32) -> bool {
    let needs = |function: &CompiledFunction| function.frame_bytes >= bytes;
    function.as_ref().is_none_or(needs)
}

/// The other function, if its size is below this percentage of the first one's, else the first.
pub(super) fn smaller(
    first: Option<CompiledFunction>,
    other: Option<CompiledFunction>,
    percent: usize,
) -> Option<CompiledFunction> {
    match (first, other) {
        (Some(first), Some(other)) => {
            let bytes_max = first.code.len() * percent / 100;
            let is_smaller = other.code.len() < bytes_max;
            Some(if is_smaller { other } else { first })
        }
        // Placeholders were found in only one of them, or in none.
        (first, other) => first.or(other),
    }
}

/// Whether the function has a block that is long in absolute terms and relative to the function.
pub(super) fn has_long_block(func: &Function) -> bool {
    let share = func.dfg.num_insts() * TRIED_PERCENT / 100;
    let least = share.max(TRIED_INSTRUCTIONS);
    let is_long = |block| func.layout.block_insts(block).nth(least - 1).is_some();
    func.layout.blocks().any(is_long)
}
