//! Structured control (spec 3.4.8): blocks, branches and unreachable code.
//!
//! A `block`, an `if` and the function itself have a branch target at their end, whose parameters
//! are their results. A `loop` has a branch target at its start, whose parameters are the loop's
//! parameters. Code after an unconditional branch is validated but not translated; only its nesting
//! is tracked.

use super::frame::{BlockKind, Frame};
use super::function::FuncTranslator;
use crate::error::CompileError;
use crate::ir::types;
use crate::parse::types::value_type;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, JumpTableData, Value};
use pirn_format::types::ValType;
use std::collections::BTreeMap;
use wasmparser::{BlockType, BrTable, Operator};

/// If a `br_table` has more distinct targets, each target gets a block of its own, so that the
/// entries have no arguments. Cranelift's builder walks all entries to add an argument to one
/// entry.
const TARGETS_MAX: usize = 1 << 8;

fn arguments(values: &[Value]) -> Vec<BlockArg> {
    values.iter().map(|value| BlockArg::Value(*value)).collect()
}

impl FuncTranslator<'_, '_> {
    /// Enters the function body as a block.
    pub(super) fn enter_function(&mut self, ty: u32) {
        let results = self.env.metadata.func_type(ty).results.clone();
        self.enter(BlockKind::Block, 0, &results);
    }

    /// Enters a block that ends in a new IR block. `params` operands on the stack are the block's
    /// parameters.
    pub(super) fn enter(&mut self, kind: BlockKind, params: usize, results: &[ValType]) {
        let target = self.block_with(results);
        self.frames.push(Frame {
            kind,
            target,
            height: self.stack.len() - params,
            branch_values: results.len(),
            results: results.len(),
            end_reachable: false,
            end_likely: false,
            is_table_target: false,
            loop_table: None,
        });
    }

    /// A new block with parameters of these types.
    fn block_with(&mut self, params: &[ValType]) -> Block {
        let block = self.builder.create_block();
        for ty in params {
            self.builder
                .append_block_param(block, types::value_type(*ty));
        }
        block
    }

    /// The types of a block's parameters and results.
    pub(super) fn block_type(
        &self,
        ty: BlockType,
    ) -> Result<(Vec<ValType>, Vec<ValType>), CompileError> {
        match ty {
            BlockType::Empty => Ok((vec![], vec![])),
            BlockType::Type(ty) => {
                let kinds = |index| self.env.metadata.kind(index);
                let ty = value_type(ty, kinds).map_err(|()| CompileError::Invalid {
                    message: "a block of that type is not supported".to_owned(),
                    offset: self.offset as usize,
                })?;
                Ok((vec![], vec![ty]))
            }
            BlockType::FuncType(index) => {
                let ty = self.env.metadata.func_type(index);
                Ok((ty.params.clone(), ty.results.clone()))
            }
        }
    }

    /// Enters a block, loop or if in unreachable code.
    pub(super) fn enter_unreachable(&mut self) {
        self.frames.push(Frame {
            kind: BlockKind::Unreachable,
            // Unreachable code is not translated, so nothing branches here.
            target: self.frames[0].target,
            height: self.stack.len(),
            branch_values: 0,
            results: 0,
            end_reachable: false,
            end_likely: false,
            is_table_target: false,
            loop_table: None,
        });
    }

    pub(super) fn block(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let (params, results) = self.block_type(ty)?;
        self.enter(BlockKind::Block, params.len(), &results);
        Ok(())
    }

    pub(super) fn r#loop(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let (params, results) = self.block_type(ty)?;
        let header = self.block_with(&params);
        if self.is_cold() {
            self.builder.set_cold_block(header);
        }
        let height = self.stack.len() - params.len();
        let values = arguments(self.peek(params.len()));
        self.builder.ins().jump(header, &values);
        self.stack.truncate(height);
        self.builder.switch_to_block(header);
        let values = self.builder.block_params(header);
        self.stack.extend_from_slice(values);
        self.frames.push(Frame {
            kind: BlockKind::Loop,
            target: header,
            height,
            branch_values: params.len(),
            results: results.len(),
            end_reachable: false,
            end_likely: false,
            is_table_target: false,
            loop_table: None,
        });
        Ok(())
    }

    pub(super) fn r#if(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let (params, results) = self.block_type(ty)?;
        let condition = self.pop();
        let likely = self.hint();
        let then = self.successor(likely == Some(false));
        let otherwise = self.successor(likely == Some(true));
        self.builder.ins().brif(condition, then, [], otherwise, []);
        self.builder.seal_block(then);
        self.builder.seal_block(otherwise);
        self.builder.switch_to_block(then);
        let values = self.peek(params.len()).to_vec();
        self.enter(BlockKind::If(otherwise, values), params.len(), &results);
        Ok(())
    }

    pub(super) fn r#else(&mut self) {
        let at = self.frames.len() - 1;
        let kind = std::mem::replace(&mut self.frames[at].kind, BlockKind::Block);
        match kind {
            BlockKind::If(otherwise, params) => {
                if self.reachable {
                    self.branch(0);
                }
                self.stack.truncate(self.frames[at].height);
                self.stack.extend(params);
                self.builder.switch_to_block(otherwise);
                self.reachable = true;
            }
            other => self.frames[at].kind = other,
        }
    }

    /// The numbers of values that a loop carries, if the operator ends a loop; otherwise empty. The
    /// first number counts the values carried to the loop's start, also if the loop does not change
    /// them. Each target of the loop's `br_table` inside the loop carries at most all locals.
    pub(super) fn carried_at_end(&self, op: &Operator<'_>) -> Vec<usize> {
        match (op, self.frames.last()) {
            (Operator::End, Some(frame)) if matches!(frame.kind, BlockKind::Loop) => {
                let carried = self.builder.func.dfg.num_block_params(frame.target);
                let inside = frame.table_targets().iter().map(|_| self.locals.len());
                [carried].into_iter().chain(inside).collect()
            }
            _ => vec![],
        }
    }

    /// Leaves the innermost block.
    pub(super) fn end(&mut self) {
        if let Some(Frame {
            kind: BlockKind::If(..),
            ..
        }) = self.frames.last()
        {
            // Without an `else`, the parameters are the results.
            self.r#else();
        }
        if let Some(Frame {
            kind: BlockKind::Inlined,
            end_reachable: false,
            height,
            ..
        }) = self.frames.last()
        {
            // Nothing branches to the end, so the code after it stays in the same block.
            if !self.reachable {
                self.stack.truncate(*height);
            }
            self.frames.pop();
            return;
        }
        if self.reachable
            && !matches!(
                self.frames.last(),
                Some(Frame {
                    kind: BlockKind::Loop,
                    ..
                })
            )
        {
            self.branch(0);
        }
        let frame = self
            .frames
            .pop()
            .expect("validated: every end closes a block");
        match frame.kind {
            BlockKind::Unreachable => {}
            BlockKind::Loop => {
                self.seal_loop(&frame);
                if self.reachable {
                    self.leave_loop(frame.target);
                } else {
                    self.stack.truncate(frame.height);
                }
            }
            BlockKind::Block | BlockKind::Inlined | BlockKind::If(..) | BlockKind::Try(_) => {
                if let BlockKind::Try(try_block) = frame.kind {
                    self.leave_body(self.frames.len());
                    self.stack.truncate(frame.height);
                    self.end_try(&try_block);
                }
                if !frame.is_table_target {
                    self.builder.seal_block(frame.target);
                }
                self.stack.truncate(frame.height);
                self.reachable = frame.end_reachable;
                if frame.end_reachable {
                    if !frame.end_likely {
                        self.builder.set_cold_block(frame.target);
                    }
                    self.builder.switch_to_block(frame.target);
                    let results = self.builder.block_params(frame.target);
                    debug_assert_eq!(results.len(), frame.results);
                    self.stack.extend_from_slice(results);
                }
            }
        }
        if self.frames.is_empty() && self.reachable {
            self.store_fuel();
            let results = self.stack.split_off(0);
            self.builder.ins().return_(&results);
            self.reachable = false;
        }
    }

    /// The target of a branch of this depth, and the values that the branch passes.
    fn target(&mut self, depth: u32) -> (Block, Vec<BlockArg>) {
        let at = self.frames.len() - 1 - depth as usize;
        if let Some(block) = self.threaded(at) {
            return (block, vec![]);
        }
        let values = arguments(self.peek(self.frames[at].branch_values));
        let is_cold = self.is_cold();
        let frame = &mut self.frames[at];
        frame.end_reachable = true;
        frame.end_likely |= !is_cold;
        (frame.target, values)
    }

    /// The branch hint for the current branch: whether its condition is likely true.
    fn hint(&mut self) -> Option<bool> {
        self.hints.take(self.offset)
    }

    /// Continues after a loop in a block that is not cold. A hint that few iterations leave the
    /// loop does not mean that the loop is rarely left.
    fn leave_loop(&mut self, header: Block) {
        if !self.is_cold() || self.builder.func.layout.is_cold(header) {
            return;
        }
        let next = self.builder.create_block();
        self.builder.ins().jump(next, []);
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
    }

    /// Branches. The code after the branch is unreachable.
    pub(super) fn branch(&mut self, depth: u32) {
        let (target, values) = self.target(depth);
        self.builder.ins().jump(target, &values);
        self.reachable = false;
    }

    pub(super) fn branch_if(&mut self, depth: u32) {
        let condition = self.pop();
        let likely = self.hint();
        self.branch_where(condition, likely, depth);
    }

    /// Branches if the last operand, a reference, is null; the branch drops the operand.
    pub(super) fn branch_on_null(&mut self, depth: u32) {
        let reference = self.pop();
        let null = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
        self.branch_where(null, None, depth);
        self.push(reference);
    }

    /// Branches with the last operand, a reference, if it is not null; otherwise drops the operand.
    pub(super) fn branch_on_non_null(&mut self, depth: u32) {
        let reference = self.peek(1)[0];
        self.branch_where(reference, None, depth);
        self.pop();
    }

    /// Branches if `condition` is not zero. `likely` is the module's hint, if any.
    pub(super) fn branch_where(&mut self, condition: Value, likely: Option<bool>, depth: u32) {
        let next = self.successor(likely == Some(true));
        if likely == Some(false) {
            // Other branches may share the target, so only the edge to the target is cold.
            let way = self.successor(true);
            self.builder.ins().brif(condition, way, [], next, []);
            self.builder.seal_block(way);
            self.builder.switch_to_block(way);
            self.branch(depth);
            self.reachable = true;
        } else {
            let (target, values) = self.target(depth);
            self.builder
                .ins()
                .brif(condition, target, &values, next, []);
        }
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
    }

    /// Branches by a table. Entries with the same target share one block.
    ///
    /// The code generator treats each entry as an edge. An edge to a block with other predecessors
    /// is split, and its block holds the moves for that edge. Without sharing, these moves would be
    /// repeated for each entry of a target.
    pub(super) fn branch_table(&mut self, table: &BrTable<'_>) -> Result<(), CompileError> {
        let index = self.pop();
        let mut depths = table.targets().collect::<Result<Vec<_>, _>>()?;
        depths.push(table.default());
        let mut times = BTreeMap::new();
        for depth in &depths {
            *times.entry(*depth).or_insert(0_usize) += 1;
        }
        let has_many = times.len() > TARGETS_MAX;
        // Ordered by depth, so that the same input gives the same code.
        let shared: BTreeMap<u32, Block> = times
            .into_iter()
            .filter(|(_, times)| has_many || *times > 1)
            .map(|(depth, _)| (depth, self.successor(false)))
            .collect();
        let mut calls = Vec::with_capacity(depths.len());
        for depth in depths {
            calls.push(match shared.get(&depth) {
                Some(block) => self.builder.func.dfg.block_call(*block, &[]),
                None => {
                    let (target, values) = self.target(depth);
                    self.builder.func.dfg.block_call(target, &values)
                }
            });
        }
        let default = calls.pop().expect("a table has its default");
        let table = JumpTableData::new(default, &calls);
        let table = self.builder.create_jump_table(table);
        self.builder.ins().br_table(index, table);
        for (depth, block) in shared {
            self.builder.seal_block(block);
            self.builder.switch_to_block(block);
            self.branch(depth);
        }
        self.reachable = false;
        Ok(())
    }

    /// Returns from the function, or branches to the end of the inlined leaf.
    pub(super) fn r#return(&mut self) {
        if self.body_frame > 0 {
            self.branch((self.frames.len() - 1 - self.body_frame) as u32);
            return;
        }
        let results = self.peek(self.frames[0].results).to_vec();
        self.builder.ins().return_(&results);
        self.reachable = false;
    }
}
