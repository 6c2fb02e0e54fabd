//! Inline bulk operations on a few bytes (spec 4.4.7): `memory.copy` and `memory.fill` with a small
//! constant length. Compilers emit such operations to assign structures. This file turns them into
//! loads and stores. All other bulk operations call the trampoline of a builtin.
//!
//! If any byte is outside the memory, the operation must trap and change nothing. So all source
//! bytes are loaded before any is stored, and the last bytes of the destination are stored first. A
//! memory is accessible from its start to its end, so if the last bytes are inside, the other bytes
//! are inside, too. A fault at a store that crosses into an unmapped page is not enough: processors
//! may write the part before that page (Intel SDM 3A 9.1.1; Arm ARM B2.2).

use super::bounds::Index;
use super::function::FuncTranslator;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use types::{I8, I8X16, I16, I32, I64};

/// Most bytes handled inline: as many registers as the x86_64 baseline can spare.
const FEW_BYTES: u64 = 128;

/// The accesses that together cover `bytes`, which is at least 1 and at most [`FEW_BYTES`]. Each
/// access has an offset; the last bytes come first. Accesses may overlap.
fn accesses(bytes: u64) -> Vec<(i32, Type)> {
    let ty = match bytes {
        1 => I8,
        2..4 => I16,
        4..8 => I32,
        8..16 => I64,
        _ => I8X16,
    };
    let width = u64::from(ty.bytes());
    let last = bytes - width;
    let others = (0..last).step_by(width as usize);
    std::iter::once(last)
        .chain(others)
        .map(|offset| (offset as i32, ty))
        .collect()
}

impl FuncTranslator<'_, '_> {
    /// Translates a `memory.copy` with a small constant length. Returns `false` for any other
    /// length.
    pub(super) fn copy_few(&mut self, to_memory: u32, from_memory: u32) -> bool {
        let Some(bytes) = self.few() else {
            return false;
        };
        let (to, from, _) = self.pop3();
        let (to, from) = (
            self.memory_index(to_memory, to),
            self.memory_index(from_memory, from),
        );
        let accesses = accesses(bytes);
        let (address, flags) = self.range(from, bytes);
        let loads = accesses
            .iter()
            .map(|(offset, ty)| self.builder.ins().load(*ty, flags, address, *offset));
        let loaded: Vec<_> = loads.collect();
        let values = accesses.into_iter().zip(loaded);
        self.store_all(to, bytes, values);
        true
    }

    /// Address of the start of a range. If the guard does not cover the range, the whole range is
    /// compared with the memory's size. A comparison for each access would generate too much code
    /// for a single operator.
    fn range(&mut self, index: Index, bytes: u64) -> (Value, MemFlagsData) {
        let (address, offset, flags) = self.address_within(index, 0, bytes as u32);
        debug_assert_eq!(offset, 0);
        (address, flags)
    }

    /// Stores values, the last bytes first. Traps before the first store unless the last bytes are
    /// inside the memory.
    fn store_all(
        &mut self,
        to: Index,
        bytes: u64,
        values: impl Iterator<Item = ((i32, Type), Value)>,
    ) {
        let (address, flags) = self.range(to, bytes);
        let mut is_probed = false;
        for ((offset, ty), value) in values {
            if !std::mem::replace(&mut is_probed, true) {
                self.builder.ins().load(ty, flags, address, offset);
            }
            self.builder.ins().store(flags, value, address, offset);
        }
    }

    /// Translates a `memory.fill` with a small constant length. Returns `false` for any other
    /// length.
    pub(super) fn fill_few(&mut self, memory: u32) -> bool {
        let Some(bytes) = self.few() else {
            return false;
        };
        let accesses = accesses(bytes);
        let (to, byte, _) = self.pop3();
        let to = self.memory_index(memory, to);
        let byte = self.builder.ins().ireduce(I8, byte);
        let filler = match accesses[0].1 {
            I8 => byte,
            I8X16 => self.builder.ins().splat(I8X16, byte),
            ty => {
                let wide = self.builder.ins().uextend(ty, byte);
                let ones = (u64::MAX / 255) >> (64 - ty.bits());
                self.builder.ins().imul_imm_u(wide, ones.cast_signed())
            }
        };
        let values = accesses.into_iter().map(|access| (access, filler));
        self.store_all(to, bytes, values);
        true
    }

    /// The length in the last operand, if it is a small constant.
    fn few(&self) -> Option<u64> {
        let bytes = self.constant_value(self.peek(1)[0])?;
        (1..=FEW_BYTES).contains(&bytes).then_some(bytes)
    }
}
