//! Bulk operations on a few bytes (spec 4.4.7): `memory.copy` and `memory.fill` of a length that the code
//! says, which compilers write where a structure is assigned. They are loads and stores here; all others
//! leave for the runtime.
//!
//! What is not all inside the memory must trap and change nothing. So all bytes are loaded before any is
//! stored, the last ones of the destination, too: a memory is accessible from its start to its end, so if
//! those are inside, the others are. A store that faults would not do: of one that crosses into a page which
//! is not there, processors may write the part that is (Intel SDM 3A 9.1.1; Arm ARM B2.2).

use super::bounds::Index;
use super::function::FuncTranslator;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use types::{I8, I8X16, I16, I32, I64};

/// Most bytes that are loaded and stored in place: as many registers as the baseline of x86_64 can spare.
const FEW_BYTES: u64 = 128;

/// The accesses that together cover `bytes`, at most [`FEW_BYTES`] and not 0, each by its offset: the last
/// bytes first. It may overlap with another.
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
    /// Translates a `memory.copy` of a few bytes; `false` if it is of more, or nobody knows how many.
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

    /// Where a range begins. Where the guard does not cover it, it is compared with the memory's size as a whole: one
    /// comparison an access would be more than a function of so many bytes may cost.
    fn range(&mut self, index: Index, bytes: u64) -> (Value, MemFlagsData) {
        let (address, offset, flags) = self.address_within(index, 0, bytes as u32);
        debug_assert_eq!(offset, 0);
        (address, flags)
    }

    /// Stores values, the last bytes first; a trap before that unless those are inside the memory.
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

    /// Translates a `memory.fill` of a few bytes; `false` if it is of more, or nobody knows how many.
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

    /// How many bytes the last operand says, if they are few.
    fn few(&self) -> Option<u64> {
        let bytes = self.constant_value(self.peek(1)[0])?;
        (1..=FEW_BYTES).contains(&bytes).then_some(bytes)
    }
}
