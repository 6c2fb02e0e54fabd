//! Jump threading: a branch to a loop that only branches on goes to the last target at once.
//!
//! WebAssembly has no jump to any place. Toolchains that need one write a loop that starts with a
//! table of blocks, and a local variable that says which block is next. Go's compiler does so for
//! every jump, and LLVM for control flow that is not reducible:
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
//! If the local is a constant at such a branch, the branch goes to the target that the table has
//! for it. The table's branch is all that happens between the start of the loop and that target,
//! and the operand stack is the same. Only fuel is counted at the start of a loop, so branches are
//! not threaded in modules that count fuel.
//!
//! A branch may thus go to the end of a block that was translated before. So the predecessors of
//! such a block are complete only at the end of the loop.

use super::frame::{BlockKind, Dispatch, Frame, LoopStart};
use super::function::FuncTranslator;
use cranelift_codegen::ir::Block;
use cranelift_codegen::settings::OptLevel;
use cranelift_frontend::Variable;
use wasmparser::{BlockType, BrTable, Operator};

/// In functions with more locals than these, no branch is threaded.
const LOCALS_MAX: usize = 1 << 9;

/// How many parameters the blocks of tables in a function of so many bytes may have. Each block may
/// get a parameter for each local. Functions of Go need at most 0.6 for each of their bytes.
pub(super) fn dispatch_params(body_bytes: u64) -> u64 {
    (PARAMS_FREE + body_bytes).min(PARAMS_MAX)
}

const PARAMS_FREE: u64 = 1 << 10;
const PARAMS_MAX: u64 = 1 << 15;

/// The most units of the budget that a function of so many bytes may cost with jump threading. If
/// it costs more, it is translated without.
///
/// Blocks outside the loop may get more parameters, too, and their price grows with their square.
/// Functions of Go cost at most 7 units for each byte.
pub(super) fn cost_max(body_bytes: u64) -> u64 {
    COST_FREE + COST_PER_BYTE * body_bytes
}

const COST_FREE: u64 = 1 << 10;
const COST_PER_BYTE: u64 = 1 << 5;

impl FuncTranslator<'_, '_> {
    /// Notes an operator before it is translated, if it is at the start of a loop.
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
                self.note_dispatch(frame, local, targets);
                LoopStart::Other
            }
            _ => LoopStart::Other,
        };
    }

    /// Whether branches are threaded.
    fn threads_jumps(&self) -> bool {
        let is_optimised = self.env.isa.flags().opt_level() != OptLevel::None;
        is_optimised && self.fuel.is_none() && self.locals.len() <= LOCALS_MAX
    }

    /// Notes the table that the loop at `at` in `self.frames` starts with.
    fn note_dispatch(&mut self, at: usize, local: Variable, table: &BrTable<'_>) {
        let blocks = self.frames.len() - at - 1;
        let params = (blocks * self.locals.len()) as u64;
        let left = self
            .dispatch_params
            .and_then(|left| left.checked_sub(params));
        let Some(left) = left else {
            return;
        };
        self.dispatch_params = Some(left);
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
                is_dispatched,
                ..
            } = &mut self.frames[frame]
            else {
                targets.push(None);
                continue;
            };
            targets.push(Some(*target));
            if frame > at && !std::mem::replace(is_dispatched, true) {
                inside.push(*target);
            }
        }
        self.frames[at].dispatch = Some(Dispatch {
            local,
            targets,
            inside,
        });
    }

    /// The target that a branch to a frame reaches, if the frame is a loop that starts with a table
    /// and the table's local is a constant here.
    pub(super) fn threaded(&mut self, frame: usize) -> Option<Block> {
        let local = self.frames[frame].dispatch.as_ref()?.local;
        let value = self.builder.use_var(local);
        let value = self.constant_value(value)?;
        let dispatch = self.frames[frame].dispatch.as_ref()?;
        let default = dispatch.targets.len() - 1;
        let entry = usize::try_from(value).map_or(default, |value| value.min(default));
        dispatch.targets[entry]
    }

    /// Ends a loop: neither its start nor a block of its table gets more predecessors.
    pub(super) fn seal_loop(&mut self, frame: &Frame) {
        self.builder.seal_block(frame.target);
        for block in frame.dispatched() {
            self.builder.seal_block(*block);
        }
    }
}
