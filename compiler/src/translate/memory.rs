//! Linear memory (spec 4.4.7): loads, stores, size, growth, bulk operations.

use super::function::FuncTranslator;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use pirn_format::exit::Builtin;
use wasmparser::{MemArg, Operator};

/// How a narrow load fills the rest.
#[derive(Clone, Copy)]
enum Fill {
    Signed,
    Zero,
}

impl FuncTranslator<'_, '_> {
    /// Translates an operator on memory; `false` if it is none.
    pub(super) fn memory(&mut self, op: &Operator<'_>) -> bool {
        use Fill::{Signed, Zero};
        use types::{F32, F64, I8, I16, I32, I64};
        match op {
            Operator::I32Load { memarg } => self.load(memarg, I32),
            Operator::I64Load { memarg } => self.load(memarg, I64),
            Operator::F32Load { memarg } => self.load(memarg, F32),
            Operator::F64Load { memarg } => self.load(memarg, F64),
            Operator::I32Load8S { memarg } => self.load_narrow(memarg, I8, I32, Signed),
            Operator::I32Load8U { memarg } => self.load_narrow(memarg, I8, I32, Zero),
            Operator::I32Load16S { memarg } => self.load_narrow(memarg, I16, I32, Signed),
            Operator::I32Load16U { memarg } => self.load_narrow(memarg, I16, I32, Zero),
            Operator::I64Load8S { memarg } => self.load_narrow(memarg, I8, I64, Signed),
            Operator::I64Load8U { memarg } => self.load_narrow(memarg, I8, I64, Zero),
            Operator::I64Load16S { memarg } => self.load_narrow(memarg, I16, I64, Signed),
            Operator::I64Load16U { memarg } => self.load_narrow(memarg, I16, I64, Zero),
            Operator::I64Load32S { memarg } => self.load_narrow(memarg, I32, I64, Signed),
            Operator::I64Load32U { memarg } => self.load_narrow(memarg, I32, I64, Zero),
            Operator::I32Store { memarg }
            | Operator::I64Store { memarg }
            | Operator::F32Store { memarg }
            | Operator::F64Store { memarg } => self.store(memarg),
            Operator::I32Store8 { memarg } | Operator::I64Store8 { memarg } => {
                self.store_narrow(memarg, I8);
            }
            Operator::I32Store16 { memarg } | Operator::I64Store16 { memarg } => {
                self.store_narrow(memarg, I16);
            }
            Operator::I64Store32 { memarg } => self.store_narrow(memarg, I32),
            Operator::MemorySize { .. } => self.memory_size(),
            Operator::MemoryGrow { mem } => self.memory_grow(*mem),
            Operator::MemoryCopy { dst_mem, src_mem } => {
                self.bulk(Builtin::MemoryCopy, &[*dst_mem, *src_mem]);
            }
            Operator::MemoryFill { mem } => self.bulk(Builtin::MemoryFill, &[*mem]),
            Operator::MemoryInit { data_index, mem } => {
                self.bulk(Builtin::MemoryInit, &[*mem, *data_index]);
            }
            Operator::DataDrop { data_index } => self.drop_segment(Builtin::DataDrop, *data_index),
            _ => return false,
        }
        true
    }

    pub(super) fn load(&mut self, memarg: &MemArg, ty: Type) {
        let index = self.pop();
        let (address, offset, flags) = self.memory_address(memarg, index, ty.bytes());
        let value = self.builder.ins().load(ty, flags, address, offset);
        self.push(value);
    }

    fn load_narrow(&mut self, memarg: &MemArg, narrow: Type, wide: Type, fill: Fill) {
        self.load(memarg, narrow);
        let value = self.pop();
        let value = match fill {
            Fill::Signed => self.builder.ins().sextend(wide, value),
            Fill::Zero => self.builder.ins().uextend(wide, value),
        };
        self.push(value);
    }

    pub(super) fn store(&mut self, memarg: &MemArg) {
        let (index, value) = self.pop2();
        let bytes = self.type_of(value).bytes();
        let (address, offset, flags) = self.memory_address(memarg, index, bytes);
        self.builder.ins().store(flags, value, address, offset);
    }

    fn store_narrow(&mut self, memarg: &MemArg, narrow: Type) {
        let value = self.pop();
        let value = self.builder.ins().ireduce(narrow, value);
        self.push(value);
        self.store(memarg);
    }

    fn memory_size(&mut self) {
        let bytes = self.memory_bytes();
        let pages = self.builder.ins().ushr_imm_u(bytes, 16);
        let pages = self.builder.ins().ireduce(types::I32, pages);
        self.push(pages);
    }

    fn memory_grow(&mut self, memory: u32) {
        let delta = self.pop();
        let (memory, delta) = (self.word(memory), self.extend(delta));
        self.grown(Builtin::MemoryGrow, &[memory, delta]);
    }

    /// Pushes what a growing builtin answers: the size before, or -1, both 32 bits wide.
    pub(super) fn grown(&mut self, builtin: Builtin, params: &[Value]) {
        if let Some(previous) = self.builtin(builtin, params) {
            let previous = self.builder.ins().ireduce(types::I32, previous);
            self.push(previous);
        }
    }

    /// A bulk operation with these indices, and three i32 operands or a reference among them.
    pub(super) fn bulk(&mut self, builtin: Builtin, indices: &[u32]) {
        let (a, b, c) = self.pop3();
        let mut params: Vec<_> = indices.iter().map(|index| self.word(*index)).collect();
        for operand in [a, b, c] {
            params.push(match self.type_of(operand) {
                types::I32 => self.extend(operand),
                _ => operand,
            });
        }
        self.builtin(builtin, &params);
    }

    /// `data.drop` or `elem.drop`.
    pub(super) fn drop_segment(&mut self, builtin: Builtin, index: u32) {
        let index = self.word(index);
        self.builtin(builtin, &[index]);
    }
}
