//! Dispatches each operator to the module that translates it.

use super::call::Returns;
use super::function::FuncTranslator;
use super::simd;
use crate::error::CompileError;
use cranelift_codegen::ir::InstBuilder;
use pirn_format::exit::TrapCode;
use wasmparser::Operator;

impl FuncTranslator<'_, '_> {
    /// Translates one validated operator.
    ///
    /// # Errors
    ///
    /// [`CompileError::Invalid`] for an operator of a feature that the validator should have
    /// refused.
    pub(super) fn operator(&mut self, op: &Operator<'_>) -> Result<(), CompileError> {
        if !self.reachable {
            self.unreachable_operator(op);
            return Ok(());
        }
        self.note_loop_start(op);
        let length = self.fuel_before(op);
        self.reachable_operator(op)?;
        self.fuel_after(op, length);
        Ok(())
    }

    fn reachable_operator(&mut self, op: &Operator<'_>) -> Result<(), CompileError> {
        match op {
            Operator::Nop => {}
            Operator::Unreachable => {
                self.trap(TrapCode::Unreachable);
                self.reachable = false;
            }
            Operator::Block { blockty } => self.block(*blockty)?,
            Operator::Loop { blockty } => self.r#loop(*blockty)?,
            Operator::TryTable { try_table } => self.try_table(try_table)?,
            Operator::Throw { tag_index } => self.throw(*tag_index),
            Operator::ThrowRef => self.throw_ref(),
            Operator::Try { blockty } => self.r#try(*blockty)?,
            Operator::Catch { tag_index } => self.catch(*tag_index),
            Operator::CatchAll => self.catch_all(),
            Operator::Delegate { relative_depth } => self.delegate(*relative_depth),
            Operator::Rethrow { relative_depth } => self.rethrow(*relative_depth),
            Operator::If { blockty } => self.r#if(*blockty)?,
            Operator::Else => self.r#else(),
            Operator::End => self.end(),
            Operator::Br { relative_depth } => self.branch(*relative_depth),
            Operator::BrIf { relative_depth } => self.branch_if(*relative_depth),
            Operator::BrTable { targets } => self.branch_table(targets)?,
            Operator::Return => self.r#return(),
            Operator::Call { function_index } => self.call(*function_index, Returns::Here)?,
            Operator::CallIndirect {
                type_index,
                table_index,
            } => self.call_indirect(*type_index, *table_index, Returns::Here)?,
            Operator::ReturnCall { function_index } => {
                self.call(*function_index, Returns::ToCaller)?;
            }
            Operator::ReturnCallIndirect {
                type_index,
                table_index,
            } => self.call_indirect(*type_index, *table_index, Returns::ToCaller)?,
            Operator::CallRef { type_index } => self.call_ref(*type_index, Returns::Here),
            Operator::ReturnCallRef { type_index } => self.call_ref(*type_index, Returns::ToCaller),
            Operator::BrOnNull { relative_depth } => self.branch_on_null(*relative_depth),
            Operator::BrOnNonNull { relative_depth } => self.branch_on_non_null(*relative_depth),
            Operator::BrOnCast {
                relative_depth,
                to_ref_type,
                ..
            } => self.branch_on_cast(*relative_depth, *to_ref_type, true)?,
            Operator::BrOnCastFail {
                relative_depth,
                to_ref_type,
                ..
            } => self.branch_on_cast(*relative_depth, *to_ref_type, false)?,
            Operator::Drop => {
                self.pop();
            }
            Operator::Select | Operator::TypedSelect { .. } => {
                let (a, b, condition) = self.pop3();
                let value = self.builder.ins().select(condition, a, b);
                self.push(value);
            }
            Operator::LocalGet { local_index } => self.local_get(*local_index),
            Operator::LocalSet { local_index } => self.local_set(*local_index),
            Operator::LocalTee { local_index } => self.local_tee(*local_index),
            Operator::GlobalGet { global_index } => self.global_get(*global_index),
            Operator::GlobalSet { global_index } => self.global_set(*global_index),
            _ => return self.operand_operator(op),
        }
        Ok(())
    }

    /// Translates an operator that only takes operands and returns results.
    fn operand_operator(&mut self, op: &Operator<'_>) -> Result<(), CompileError> {
        if self.numeric(op)
            || self.wide(op)
            || self.memory(op)
            || self.atomic(op)
            || self.table(op)
            || simd::translate(self, op)
            || self.gc(op)?
        {
            return Ok(());
        }
        let name = format!("{op:?}");
        Err(CompileError::Invalid {
            message: format!("operator {name} is not supported"),
            offset: self.offset as usize,
        })
    }

    /// Tracks the nesting of unreachable code.
    fn unreachable_operator(&mut self, op: &Operator<'_>) {
        match op {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::TryTable { .. }
            | Operator::Try { .. } => self.enter_unreachable(),
            Operator::Catch { tag_index } => self.catch(*tag_index),
            Operator::CatchAll => self.catch_all(),
            Operator::Delegate { relative_depth } => self.delegate(*relative_depth),
            Operator::Else => self.r#else(),
            Operator::End => self.end(),
            _ => {}
        }
    }
}
