//! Jump threading: a branch to a loop that starts with a `br_table` goes straight to the target, if
//! the operand of the `br_table` is a constant.
//!
//! WebAssembly has no goto. A toolchain that needs a goto writes a loop that starts with a
//! `br_table`, whose operand is a local variable. A jump sets the local and branches to the loop.
//! Go's compiler makes such a loop for every jump, and LLVM for irreducible control flow:
//!
//! ```text
//! loop $next
//!   block $b block $a
//!     (br_table $a $b (local.get $block))
//!   end                                     ;; $a
//!     ...
//!     (local.set $block (i32.const 1))
//!     (br $next)                            ;; goes to the end of $b
//!   end                                     ;; $b
//!     ...
//! end
//! ```
//!
//! Such a branch skips a `local.get` and a `br_table`, and neither the loop nor the target takes
//! operands. Modules that count fuel are not threaded, because fuel is counted for both operators
//! and checked at the loop. Code without optimisation is not threaded either; tests compare results
//! with that code.
//!
//! A branch may thus go to the end of a block that was translated before. So the predecessors of
//! such a block are complete only at the end of the loop.

use super::frame::{BlockKind, Frame, LoopStart, LoopTable};
use super::function::FuncTranslator;
use cranelift_codegen::ir::Block;
use cranelift_codegen::settings::OptLevel;
use cranelift_frontend::Variable;
use wasmparser::{BlockType, BrTable, Operator};

/// Functions with more locals are not threaded. Go's functions have at most 21.
const LOCALS_MAX: usize = 1 << 9;

/// The most block parameters that threading may add to a function of `body_bytes` bytes. Each
/// target of a `br_table` may get a parameter for each local. Go's functions need at most 0.6
/// parameters for each byte.
pub(super) fn target_params(body_bytes: u64) -> u64 {
    (PARAMS_FREE + body_bytes).min(PARAMS_MAX)
}

const PARAMS_FREE: u64 = 1 << 10;
const PARAMS_MAX: u64 = 1 << 15;

/// The most units of the budget that a function of `body_bytes` bytes may cost with jump threading.
/// A function that costs more is translated without jump threading.
///
/// Blocks outside the loop may get more parameters, too, and the price of parameters grows with the
/// square of their number. Functions of Go cost at most 7 units for each byte.
pub(super) fn cost_max(body_bytes: u64) -> u64 {
    COST_FREE + COST_PER_BYTE * body_bytes
}

const COST_FREE: u64 = 1 << 10;
const COST_PER_BYTE: u64 = 1 << 5;

impl FuncTranslator<'_, '_> {
    /// Advances the search for `loop`, `block`s, `local.get` and `br_table` by an operator that
    /// will be translated next.
    pub(super) fn note_loop_start(&mut self, op: &Operator<'_>) {
        let before = std::mem::take(&mut self.loop_start);
        self.loop_start = match (op, before) {
            // The loop's frame will be the next one.
            (
                Operator::Loop {
                    blockty: BlockType::Empty | BlockType::Type(_),
                },
                _,
            ) if self.threads_jumps() => LoopStart::Blocks(self.frames.len()),
            (
                Operator::Block {
                    blockty: BlockType::Empty,
                },
                LoopStart::Blocks(_),
            ) => before,
            (Operator::LocalGet { local_index }, LoopStart::Blocks(frame)) => {
                LoopStart::Local(frame, self.locals[*local_index as usize].0)
            }
            (Operator::BrTable { targets }, LoopStart::Local(frame, local)) => {
                self.note_table(frame, local, targets);
                LoopStart::Other
            }
            _ => LoopStart::Other,
        };
    }

    /// Whether the options and the number of locals allow jump threading.
    fn threads_jumps(&self) -> bool {
        let is_optimised = self.env.isa.flags().opt_level() != OptLevel::None;
        is_optimised && self.fuel.is_none() && self.locals.len() <= LOCALS_MAX
    }

    /// Notes the `br_table` that the loop at `at` in `self.frames` starts with, unless its targets
    /// could get too many parameters.
    fn note_table(&mut self, at: usize, local: Variable, table: &BrTable<'_>) {
        let blocks = self.frames.len() - at - 1;
        let params = (blocks * self.locals.len()) as u64;
        let left = self.target_params.and_then(|left| left.checked_sub(params));
        let Some(left) = left else {
            return;
        };
        self.target_params = Some(left);
        self.is_threaded = true;
        let mut targets = vec![];
        let mut inside = vec![];
        let depths = table.targets().chain([Ok(table.default())]);
        // The validator has read the table.
        for depth in depths.flatten() {
            let frame = self.frames.len() - 1 - depth as usize;
            let Frame {
                kind: BlockKind::Block,
                branch_values: 0,
                target,
                is_table_target,
                ..
            } = &mut self.frames[frame]
            else {
                targets.push(None);
                continue;
            };
            targets.push(Some(*target));
            if frame > at && !std::mem::replace(is_table_target, true) {
                inside.push(*target);
            }
        }
        self.frames[at].loop_table = Some(LoopTable {
            local,
            targets,
            inside,
        });
    }

    /// The destination of a branch to this frame with jump threading. `None` if the branch goes to
    /// the frame.
    pub(super) fn threaded(&mut self, frame: usize) -> Option<Block> {
        let local = self.frames[frame].loop_table.as_ref()?.local;
        let value = self.builder.use_var(local);
        let value = self.constant_value(value)?;
        let table = self.frames[frame].loop_table.as_ref()?;
        let default = table.targets.len() - 1;
        let entry = usize::try_from(value).map_or(default, |value| value.min(default));
        table.targets[entry]
    }

    /// Seals the start of a loop, and the targets of its `br_table` that are in the loop. No branch
    /// reaches these blocks after the end of the loop.
    pub(super) fn seal_loop(&mut self, frame: &Frame) {
        self.builder.seal_block(frame.target);
        for block in frame.table_targets() {
            self.builder.seal_block(*block);
        }
    }
}
