//! Inlines leaves (`analysis/leaves.rs`): translates a leaf's operators again, in the place of a
//! call.
//!
//! The leaf's body becomes a block whose branch target is its end, and `return` branches there. The
//! leaf's parameters and locals are variables of the caller's function. Inlining changes nothing
//! that the guest or the host can observe: traps and their order, their backtraces, and the count
//! of fuel. A tail call is not inlined, because the callee must not see its caller's frame.

use super::frame::BlockKind;
use super::function::FuncTranslator;
use crate::analysis::leaves::Leaf;
use crate::error::CompileError;
use crate::ir::types::value_type;
use crate::parse::hints::Hints;
use cranelift_codegen::ir::{self, Type};
use cranelift_frontend::Variable;
use pirn_format::types::ValType;

impl<'e> FuncTranslator<'_, 'e> {
    /// Continues at the operator at an offset in the module's bytes.
    pub(super) fn locate(&mut self, offset: u32) {
        self.offset = offset;
        let location = self.inlining.location(offset);
        self.builder.set_srcloc(ir::SourceLoc::new(location));
    }

    /// The leaf to inline for a call of a function, if there is one, and if the function being
    /// translated may grow by the leaf. Calls in cold blocks remain calls.
    pub(super) fn leaf(&mut self, index: u32) -> Option<&'e Leaf<'e>> {
        let leaf = self.env.leaves.get(index)?;
        let is_cold = self.is_cold();
        self.inlining.draw(leaf, is_cold).then_some(leaf)
    }

    /// Translates a leaf in place of a call. The last operands are the leaf's parameters.
    pub(super) fn inline(&mut self, index: u32, leaf: &'e Leaf<'e>) -> Result<(), CompileError> {
        let metadata = self.env.metadata;
        let ty = metadata.func_type(metadata.funcs[index as usize]);
        let at = self.offset;
        let parent = self.inlining.enter(index, leaf, at);
        let mut operators = leaf.body.get_operators_reader()?;
        // Checks at the entry report the location of the first operator.
        self.locate(operators.original_position() as u32);
        let locals = self.leaf_locals(leaf, &ty.params);
        let locals = std::mem::replace(&mut self.locals, locals);
        let hints = Hints::of(leaf.hints.clone(), &leaf.body);
        let hints = std::mem::replace(&mut self.hints, hints);
        let body_frame = std::mem::replace(&mut self.body_frame, self.frames.len());
        self.check_fuel();
        self.enter(BlockKind::Inlined, 0, &ty.results);
        while !operators.eof() {
            let (op, offset) = operators.read_with_offset()?;
            self.locate(offset as u32);
            self.operator(&op)?;
        }
        if self.reachable {
            self.store_fuel();
        }
        let used = std::mem::replace(&mut self.locals, locals);
        let used = used
            .into_iter()
            .map(|(variable, ty)| (value_type(ty), variable));
        self.inlining.spare.extend(used);
        (self.hints, self.body_frame) = (hints, body_frame);
        self.inlining.leave(parent);
        self.locate(at);
        Ok(())
    }

    /// Variables for the parameters of a leaf, taken from the operand stack, and for its locals.
    ///
    /// The leaf reuses variables of earlier leaves, because Cranelift keeps a list of all blocks
    /// for each variable. A value of an earlier leaf is never read: each variable is defined here
    /// first.
    fn leaf_locals(&mut self, leaf: &Leaf<'_>, params: &[ValType]) -> Vec<(Variable, ValType)> {
        let values = self.stack.split_off(self.stack.len() - params.len());
        let mut locals = Vec::with_capacity(params.len());
        for (value, ty) in values.into_iter().zip(params) {
            let variable = self.spare_variable(value_type(*ty));
            self.builder.def_var(variable, value);
            locals.push((variable, *ty));
        }
        for (count, ty) in &leaf.locals {
            for _ in 0..*count {
                let zero = self.zero(*ty);
                let variable = self.spare_variable(value_type(*ty));
                self.builder.def_var(variable, zero);
                locals.push((variable, *ty));
            }
        }
        locals
    }

    fn spare_variable(&mut self, ty: Type) -> Variable {
        let spare = &mut self.inlining.spare;
        match spare.iter().rposition(|(of, _)| *of == ty) {
            Some(at) => spare.swap_remove(at).1,
            None => self.builder.declare_var(ty),
        }
    }
}
