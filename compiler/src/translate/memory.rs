//! Linear memory (spec 4.4.7): loads, stores, size, growth, bulk operations.

use super::bounds::{Index, memory_of};
use super::function::FuncTranslator;
use cranelift_codegen::ir::{Inst, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FuncInstBuilder;
use pirn_format::exit::Builtin;
use pirn_format::types::AddrType;
use wasmparser::{MemArg, Operator};

/// A load that extends its result, from an address and a displacement.
pub(super) type Load = fn(FuncInstBuilder<'_, '_>, MemFlagsData, Value, i32) -> Value;

/// A store of the lowest bits of a value, to an address and a displacement.
type Store = fn(FuncInstBuilder<'_, '_>, MemFlagsData, Value, Value, i32) -> Inst;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on memory. Returns `false` for other operators.
    pub(super) fn memory(&mut self, op: &Operator<'_>) -> bool {
        use types::{F32, F64, I32, I64};
        match op {
            Operator::I32Load { memarg } => self.load(memarg, I32),
            Operator::I64Load { memarg } => self.load(memarg, I64),
            Operator::F32Load { memarg } => self.load(memarg, F32),
            Operator::F64Load { memarg } => self.load(memarg, F64),
            Operator::I32Load8S { memarg } => {
                self.load_by(memarg, 1, |i, f, p, o| i.sload8(I32, f, p, o));
            }
            Operator::I32Load8U { memarg } => {
                self.load_by(memarg, 1, |i, f, p, o| i.uload8(I32, f, p, o));
            }
            Operator::I32Load16S { memarg } => {
                self.load_by(memarg, 2, |i, f, p, o| i.sload16(I32, f, p, o));
            }
            Operator::I32Load16U { memarg } => {
                self.load_by(memarg, 2, |i, f, p, o| i.uload16(I32, f, p, o));
            }
            Operator::I64Load8S { memarg } => {
                self.load_by(memarg, 1, |i, f, p, o| i.sload8(I64, f, p, o));
            }
            Operator::I64Load8U { memarg } => {
                self.load_by(memarg, 1, |i, f, p, o| i.uload8(I64, f, p, o));
            }
            Operator::I64Load16S { memarg } => {
                self.load_by(memarg, 2, |i, f, p, o| i.sload16(I64, f, p, o));
            }
            Operator::I64Load16U { memarg } => {
                self.load_by(memarg, 2, |i, f, p, o| i.uload16(I64, f, p, o));
            }
            Operator::I64Load32S { memarg } => {
                self.load_by(memarg, 4, |i, f, p, o| i.sload32(f, p, o));
            }
            Operator::I64Load32U { memarg } => {
                self.load_by(memarg, 4, |i, f, p, o| i.uload32(f, p, o));
            }
            Operator::I32Store { memarg }
            | Operator::I64Store { memarg }
            | Operator::F32Store { memarg }
            | Operator::F64Store { memarg } => self.store(memarg),
            Operator::I32Store8 { memarg } | Operator::I64Store8 { memarg } => {
                self.store_by(memarg, 1, |i, f, x, p, o| i.istore8(f, x, p, o));
            }
            Operator::I32Store16 { memarg } | Operator::I64Store16 { memarg } => {
                self.store_by(memarg, 2, |i, f, x, p, o| i.istore16(f, x, p, o));
            }
            Operator::I64Store32 { memarg } => {
                self.store_by(memarg, 4, |i, f, x, p, o| i.istore32(f, x, p, o));
            }
            Operator::MemorySize { mem } => self.memory_size(*mem),
            Operator::MemoryGrow { mem } => self.memory_grow(*mem),
            Operator::MemoryCopy { dst_mem, src_mem } => {
                if !self.copy_few(*dst_mem, *src_mem) {
                    self.bulk(Builtin::MemoryCopy, &[*dst_mem, *src_mem]);
                }
            }
            Operator::MemoryFill { mem } => {
                if !self.fill_few(*mem) {
                    self.bulk(Builtin::MemoryFill, &[*mem]);
                }
            }
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

    /// Loads `bytes` bytes with one instruction that extends them. The optimiser would rewrite a
    /// separate extension. Where only the low bits of a sum of products are used as well, the
    /// optimiser would then compute the whole sum twice.
    pub(super) fn load_by(&mut self, memarg: &MemArg, bytes: u32, load: Load) {
        let index = self.pop();
        let (address, offset, flags) = self.memory_address(memarg, index, bytes);
        let value = load(self.builder.ins(), flags, address, offset);
        self.push(value);
    }

    pub(super) fn store(&mut self, memarg: &MemArg) {
        let (index, value) = self.pop2();
        let index = self.memory_index(memory_of(memarg), index);
        self.store_within(index, memarg.offset, value);
    }

    /// Stores a value at an offset from the result of [`memory_index`](Self::memory_index).
    pub(super) fn store_within(&mut self, index: Index, offset: u64, value: Value) {
        let bytes = self.type_of(value).bytes();
        let (address, offset, flags) = self.address_within(index, offset, bytes);
        self.builder.ins().store(flags, value, address, offset);
    }

    /// Stores the lowest `bytes` bytes with one instruction, for the reason given at `load_by`.
    fn store_by(&mut self, memarg: &MemArg, bytes: u32, store: Store) {
        let (index, value) = self.pop2();
        let (address, offset, flags) = self.memory_address(memarg, index, bytes);
        store(self.builder.ins(), flags, value, address, offset);
    }

    fn memory_size(&mut self, memory: u32) {
        let bytes = match self.env.metadata.memories[memory as usize].shared {
            true => self.memory_bytes_now(memory),
            false => self.memory_bytes(memory),
        };
        let page = self.env.metadata.memories[memory as usize].page;
        let pages = self.builder.ins().ushr_imm_u(bytes, i64::from(page.log2()));
        self.push_address(self.env.metadata.memory_address(memory), pages);
    }

    fn memory_grow(&mut self, memory: u32) {
        let delta = self.pop();
        let address = self.env.metadata.memory_address(memory);
        let (memory, delta) = (self.word(memory), self.extended(delta));
        self.grown(Builtin::MemoryGrow, address, &[memory, delta]);
    }

    /// Pushes the result of a builtin that grows a memory or table: the previous size in an address
    /// type, or -1.
    pub(super) fn grown(&mut self, builtin: Builtin, address: AddrType, params: &[Value]) {
        if let Some(previous) = self.builtin(builtin, params) {
            self.push_address(address, previous);
        }
    }

    /// Pushes a word, truncated to the address type.
    pub(super) fn push_address(&mut self, address: AddrType, word: Value) {
        let value = match address {
            AddrType::I32 => self.builder.ins().ireduce(types::I32, word),
            AddrType::I64 => word,
        };
        self.push(value);
    }

    /// Calls the builtin of a bulk operation with these indices and three operands, each an i32, an
    /// i64 or a reference.
    pub(super) fn bulk(&mut self, builtin: Builtin, indices: &[u32]) {
        let (a, b, c) = self.pop3();
        let mut params: Vec<_> = indices.iter().map(|index| self.word(*index)).collect();
        for operand in [a, b, c] {
            params.push(self.extended(operand));
        }
        self.builtin(builtin, &params);
    }

    /// `data.drop` or `elem.drop`.
    pub(super) fn drop_segment(&mut self, builtin: Builtin, index: u32) {
        let index = self.word(index);
        self.builtin(builtin, &[index]);
    }
}
