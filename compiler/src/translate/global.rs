//! Locals and globals (spec 4.4.4, 4.4.5).

use super::function::{FuncTranslator, Region};
use crate::ir::types::{POINTER, value_type};
use cranelift_codegen::ir::{InstBuilder, Value};

impl FuncTranslator<'_, '_> {
    pub(super) fn local_get(&mut self, index: u32) {
        let (variable, _) = self.locals[index as usize];
        let value = self.builder.use_var(variable);
        self.push(value);
    }

    pub(super) fn local_set(&mut self, index: u32) {
        let value = self.pop();
        self.builder.def_var(self.locals[index as usize].0, value);
    }

    pub(super) fn local_tee(&mut self, index: u32) {
        let value = self.peek(1)[0];
        self.builder.def_var(self.locals[index as usize].0, value);
    }

    /// Base and offset of the cell with a global's value. An imported mutable global has its cell
    /// in the owner.
    fn global_place(&mut self, index: u32) -> (Value, i32) {
        let offset = self.env.layout.global(index);
        let metadata = self.env.metadata;
        let imported = index < self.env.imported.globals;
        if imported && metadata.globals[index as usize].mutable {
            return (self.load_constant(POINTER, self.vmctx, offset), 0);
        }
        (self.vmctx, offset)
    }

    pub(super) fn global_get(&mut self, index: u32) {
        let (base, offset) = self.global_place(index);
        let ty = value_type(self.env.metadata.globals[index as usize].content);
        let flags = self.flags(Region::Global);
        let value = self.builder.ins().load(ty, flags, base, offset);
        #[cfg(feature = "faults")]
        if self.has(crate::faults::Fault::ImmutableGlobalWritten)
            && !self.env.metadata.globals[index as usize].mutable
            && ty.is_int()
        {
            // A changed value, because the optimiser removes stores of the present value.
            let changed = self.builder.ins().iadd_imm_s(value, 1);
            self.builder.ins().store(flags, changed, base, offset);
        }
        self.push(value);
    }

    pub(super) fn global_set(&mut self, index: u32) {
        let value = self.pop();
        let (base, offset) = self.global_place(index);
        let flags = self.flags(Region::Global);
        self.builder.ins().store(flags, value, base, offset);
    }
}
