//! Alternatives to Cranelift's optimiser, for functions with high register pressure: when to try an
//! alternative, and which version of a function to keep. `optimize/mod.rs` compiles the versions.

pub(crate) mod schedule;
pub(crate) mod spill;
#[cfg(test)]
mod tests;

use crate::code::CompiledFunction;
use cranelift_codegen::ir::Function;
use pirn_format::cpu::Arch;

/// If the optimised code has a frame of at least this many bytes, the function may also be compiled
/// without the optimiser. The optimiser moves instructions without effects to their first use. In
/// long blocks this raises the register pressure above the number of registers, and spills cost
/// more than the optimiser saves. Then the code without the optimiser is smaller.
pub(super) const TRIED_FRAME_BYTES: u32 = 128;

/// The version without the optimiser is tried only if the longest block has at least this many IR
/// instructions, and this percentage of all instructions. Functions of many short blocks gain as
/// well, but account for most of the compile time. If all functions of a Ruby interpreter are
/// compared, the code is 5 % smaller, and compilation takes 1.36 times as long (bench `compare`,
/// `compile`).
const TRIED_INSTRUCTIONS: usize = 100;
const TRIED_PERCENT: usize = 5;

/// A function with more IR instructions is compiled once. In CPython such functions are
/// initialisers that run once: the alternatives of the largest, with 217,000 instructions, took
/// 0.3 s, and none was kept. The next largest function of CPython and QuickJS with alternatives has
/// 4,400 instructions.
const TRIED_INSTRUCTIONS_MAX: usize = 1 << 14;

/// The code without the optimiser is taken if its size is below this percentage of the optimised
/// code. When all functions were compared, half of libsodium's programs took on average 0.97 of the
/// time of optimised code with this value, and 0.98 with 100 (bench `sodium`).
pub(super) const SMALLER_PERCENT: usize = 97;

/// Optimised code with a frame of at least this many bytes is compared with code in the order of
/// `schedule`. The scheduled code is taken if its size is below this percentage. An order for low
/// register pressure runs chains of computations one after another, which costs time where the
/// order saves little. BLAKE2b took 1.03 of the time with 97 % of the bytes, Keccak 0.63 with 71.
pub(super) const SCHEDULED_FRAME_BYTES: u32 = 256;
pub(super) const SCHEDULED_PERCENT: usize = 90;

/// The order of `schedule` is tried only if this many live values have no register at an average
/// instruction. 70 functions in 25 programs have such a frame; only the functions of Keccak gain.
/// Keccak's functions have 24 and 53 such values. A form of Keccak in one block without calls has
/// 16.5, and gains as well.
const EXCESS: u64 = 16;

/// A function may be smaller without the optimiser unless the optimiser removed many instructions,
/// and the rest shows few spills. On x86_64, this means that at most half of the instructions are
/// left, and that the code is dense. Dense code has at most this many quarters of a byte for each
/// translated instruction. In 25 programs two such functions would be smaller without the
/// optimiser, by 157 and 72 bytes.
const DENSE_QUARTERS: usize = 11;

/// On aarch64, where lowering folds less, the optimised code is kept if at most this percentage of
/// the instructions is left. In 15 programs all such functions are 1.07 to 1.26 times as large
/// without the optimiser.
const LEFT_PERCENT: usize = 62;

/// Whether a function has a frame of at least this many bytes. Also true if there is no function,
/// because a placeholder was not found.
pub(super) fn has_frame(function: &Option<CompiledFunction>, bytes: u32) -> bool {
    let needs = |function: &CompiledFunction| function.frame_bytes >= bytes;
    function.as_ref().is_none_or(needs)
}

/// Returns `other` if its size is below this percentage of the size of `first`, else `first`.
pub(super) fn smaller(
    first: Option<CompiledFunction>,
    other: Option<CompiledFunction>,
    percent: usize,
) -> Option<CompiledFunction> {
    match is_smaller(&first, &other, percent) {
        true => other,
        false => first,
    }
}

/// Whether the size of `other` is below this percentage of the size of `first`. A function is
/// `None` if its placeholders were not found, or if estimates excluded the version.
pub(super) fn is_smaller(
    first: &Option<CompiledFunction>,
    other: &Option<CompiledFunction>,
    percent: usize,
) -> bool {
    match (first, other) {
        (Some(first), Some(other)) => other.code.len() < first.code.len() * percent / 100,
        (first, other) => first.is_none() && other.is_some(),
    }
}

/// Whether enough live values have no register that another order may help.
pub(super) fn is_crowded(excess: u64, instructions: usize) -> bool {
    excess >= EXCESS * instructions as u64
}

/// Whether the code without the optimiser may be smaller than the optimised code. `translated` and
/// `left` are the numbers of instructions before and after the optimiser.
pub(super) fn may_be_smaller(
    arch: Arch,
    translated: usize,
    left: usize,
    optimised: &Option<CompiledFunction>,
) -> bool {
    let Some(optimised) = optimised else {
        return true;
    };
    match arch {
        Arch::X86_64 => {
            let is_dense = optimised.code.len() * 4 <= translated * DENSE_QUARTERS;
            left * 2 > translated || !is_dense
        }
        Arch::Aarch64 => left * 100 > translated * LEFT_PERCENT,
    }
}

/// The number of instructions in a function's blocks.
pub(super) fn instructions(func: &Function) -> usize {
    let blocks = func.layout.blocks();
    blocks
        .map(|block| func.layout.block_insts(block).count())
        .sum()
}

/// Whether alternatives of a function may be compiled: the function is not huge, and has a block
/// that is long in absolute terms and relative to the function.
pub(super) fn has_alternatives(func: &Function) -> bool {
    let all = func.dfg.num_insts();
    if all > TRIED_INSTRUCTIONS_MAX {
        return false;
    }
    let share = all * TRIED_PERCENT / 100;
    let least = share.max(TRIED_INSTRUCTIONS);
    let is_long = |block| func.layout.block_insts(block).nth(least - 1).is_some();
    func.layout.blocks().any(is_long)
}
