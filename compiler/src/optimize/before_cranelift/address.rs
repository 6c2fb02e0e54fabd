//! Addresses of the guest's accesses, written with fewer instructions.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ This file rewrites sandboxed addresses. Every change to it wants two reviews.                │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! The translator makes every access `base + index + displacement`: a zero-extended index of 32
//! bits, and the operator's offset. A constant that the guest adds to an index itself is added in
//! 32 bits and may wrap. So the addition is an instruction and its result needs a register. At
//! worst the sum is computed before a loop and spilled. If the sum cannot wrap, the constant
//! becomes part of the displacement, at no cost. The sum cannot wrap:
//!
//! * if the other addend is known to be small: a byte, or the result of a mask or a shift;
//! * if an access at an address `0 <= d <= 65,536` bytes lower dominates this one. That access was
//!   inside the memory or trapped, and no memory is larger than [`MEMORY_BYTES_MAX`], which is
//!   65,536 less than 4 GiB. So `u + d` does not wrap, where `u` is the index of that access.
//!
//! This pass does not decide whether an access stays inside the sandbox. The rewritten access is
//! again `base + index + displacement`. The translator made the base. The index is less than 2^32
//! by its type, or at most 255 << 3 by its type and shift. The displacement plus the size of the
//! access is at most [`GUARD_BYTES`]. So a wrong proof gives the guest a wrong result, but no
//! access outside its reservation.
//!
//! This pass is for x86_64 only: an aarch64 access has an index or a displacement, not both.

use crate::ir::values;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::ir::immediates::Offset32;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{
    Block, Function, Inst, InstBuilder, InstructionData, Opcode, TrapCode, Value,
};
use pirn_format::layout::{GUARD_BYTES, MEMORY_BYTES_MAX, MEMORY_REACH_BYTES};
use std::collections::HashMap;

/// Largest distance above an access inside the memory at which a sum still does not wrap.
const FAR_MAX: u32 = (MEMORY_REACH_BYTES - MEMORY_BYTES_MAX) as u32;

/// The offset of an access becomes an instruction's displacement, which is an i32.
const _: () = assert!(GUARD_BYTES <= i32::MAX as u64);

/// How many nested operators are examined to bound an operand.
const DEPTH: u32 = 4;

/// How many known accesses are examined for one sum, newest first. A guest may have any number of
/// accesses, each too far from all others.
const KNOWN_MAX: usize = 8;

/// Largest shift of an index that the addressing mode includes.
const SHIFT_MAX: u32 = 3;

/// Folds address arithmetic of a translated function into its accesses.
pub(crate) fn fold(func: &mut Function, domtree: &DominatorTree) {
    let Some(entry) = func.layout.entry_block() else {
        return;
    };
    let mut fold = Fold {
        func,
        known: HashMap::new(),
        trail: vec![],
    };
    // Depth-first walk of the dominator tree: facts of a block hold in the blocks that it
    // dominates.
    let mut todo = vec![Visit::Enter(entry)];
    while let Some(visit) = todo.pop() {
        match visit {
            Visit::Enter(block) => {
                todo.push(Visit::Leave(fold.trail.len()));
                fold.block(block);
                todo.extend(domtree.children(block).map(Visit::Enter));
            }
            Visit::Leave(trail) => fold.forget(trail),
        }
    }
}

enum Visit {
    Enter(Block),
    /// Forgets the facts that were added since the trail had this length.
    Leave(usize),
}

/// A load or a store of the guest.
struct Access {
    inst: Inst,
    bytes: u64,
    /// `base + index` in 64 bits, and both operands; the index is the operand before its extension
    /// from 32 bits.
    address: Value,
    base: Value,
    index: Value,
    displacement: u64,
}

/// An i32 index as a sum: its terms that are not constant, in order, and the sum of its constants.
/// The addition may wrap.
type Sum = (IndexTerms, u32);
type IndexTerms = (Value, Option<Value>);

/// A memory and the terms of an index into it. Facts about one memory do not apply to another,
/// which has its own base and size.
type AccessPlace = (Option<i32>, IndexTerms);

/// An access inside the memory: the constant of its index, and `base + index`.
struct KnownAccess {
    constant: u32,
    address: Value,
}

struct Fold<'a> {
    func: &'a mut Function,
    /// Accesses that dominate this block, keyed by memory and index terms.
    known: HashMap<AccessPlace, Vec<KnownAccess>>,
    /// The keys of `known`, in the order in which accesses were added.
    trail: Vec<AccessPlace>,
}

impl Fold<'_> {
    fn block(&mut self, block: Block) {
        let mut next = self.func.layout.first_inst(block);
        while let Some(inst) = next {
            next = self.func.layout.next_inst(inst);
            if let Some(access) = self.access(inst) {
                self.fold(&access);
            }
        }
    }

    fn forget(&mut self, trail: usize) {
        for place in self.trail.drain(trail..).rev() {
            if let Some(known) = self.known.get_mut(&place) {
                known.pop();
            }
        }
    }

    /// Decodes an access of the form that the translator makes for accesses covered by the guard.
    fn access(&self, inst: Inst) -> Option<Access> {
        let dfg = &self.func.dfg;
        let data = &dfg.insts[inst];
        let (opcode, address, offset) = match *data {
            InstructionData::Load {
                opcode,
                arg,
                offset,
                ..
            } => (opcode, arg, offset),
            InstructionData::Store {
                opcode,
                args,
                offset,
                ..
            } => (opcode, args[1], offset),
            _ => return None,
        };
        if data.memflags_trap_code(dfg) != Some(TrapCode::HEAP_OUT_OF_BOUNDS) {
            return None;
        }
        let bytes = match opcode {
            Opcode::Load => dfg.value_type(dfg.first_result(inst)).bytes(),
            Opcode::Store => dfg.value_type(dfg.inst_args(inst)[0]).bytes(),
            Opcode::Uload8 | Opcode::Sload8 | Opcode::Istore8 => 1,
            Opcode::Uload16 | Opcode::Sload16 | Opcode::Istore16 => 2,
            Opcode::Uload32 | Opcode::Sload32 | Opcode::Istore32 => 4,
            Opcode::Uload8x8
            | Opcode::Sload8x8
            | Opcode::Uload16x4
            | Opcode::Sload16x4
            | Opcode::Uload32x2
            | Opcode::Sload32x2 => 8,
            _ => return None,
        };
        let (Opcode::Iadd, [base, wide]) = self.binary(address)? else {
            return None;
        };
        let (Opcode::Uextend, index) = self.unary(wide)? else {
            return None;
        };
        (dfg.value_type(index) == I32).then_some(Access {
            inst,
            bytes: u64::from(bytes),
            address,
            base,
            index,
            displacement: u64::try_from(i64::from(offset)).ok()?,
        })
    }

    fn fold(&mut self, access: &Access) {
        if let Some(constant) = self.constant(access.index) {
            if let Some(displacement) = displacement(access, constant) {
                self.write(access, access.base, displacement);
            }
            return;
        }
        let (rest, constant) = self.apart(access.index);
        let byte = self.byte(rest);
        let is_shorter = |_: &Offset32| {
            let is_another = rest != access.index || byte.is_some();
            is_another && self.at_most(rest, DEPTH).checked_add(constant).is_some()
        };
        match displacement(access, constant).filter(is_shorter) {
            Some(displacement) => {
                let address = self.address(access, rest, byte);
                self.write(access, address, displacement);
            }
            None => self.fold_dominated(access),
        }
    }

    /// Rewrites an access to use the index of an access that dominates it.
    fn fold_dominated(&mut self, access: &Access) {
        let (terms, constant) = self.sum(access.index);
        let place = (self.memory(access.base), terms);
        let known = self.known.entry(place).or_default();
        let last = known.len().saturating_sub(KNOWN_MAX);
        let lower = known[last..].iter().find_map(|known| {
            let above = constant.wrapping_sub(known.constant);
            let displacement = displacement(access, above).filter(|_| above <= FAR_MAX)?;
            Some((known.address, displacement))
        });
        match lower {
            Some((address, displacement)) => self.write(access, address, displacement),
            None => {
                known.push(KnownAccess {
                    constant,
                    address: access.address,
                });
                self.trail.push(place);
            }
        }
    }

    /// Identifies the memory of a base by a load's offset from the context. The base may have been
    /// loaded through a second pointer. `None` if the base is the context itself.
    fn memory(&self, base: Value) -> Option<i32> {
        let dfg = &self.func.dfg;
        let mut memory = None;
        let mut from = base;
        while let Some(inst) = values::definition(dfg, from)
            && let InstructionData::Load { arg, offset, .. } = dfg.insts[inst]
        {
            memory = Some(offset.into());
            from = dfg.resolve_aliases(arg);
        }
        memory
    }

    fn write(&mut self, access: &Access, address: Value, displacement: Offset32) {
        match &mut self.func.dfg.insts[access.inst] {
            InstructionData::Load { arg, offset, .. } => (*arg, *offset) = (address, displacement),
            InstructionData::Store { args, offset, .. } => {
                (args[1], *offset) = (address, displacement);
            }
            _ => unreachable!("an access is a load or a store"),
        }
    }

    /// Computes `base + index` from an i32 index, or from the single byte that makes up the index.
    fn address(&mut self, access: &Access, index: Value, byte: Option<Byte>) -> Value {
        let mut cursor = FuncCursor::new(self.func).at_inst(access.inst);
        cursor.use_srcloc(access.inst);
        let wide = match byte {
            None => cursor.ins().uextend(I64, index),
            Some(byte) => {
                let value = match byte.at {
                    0 => byte.value,
                    at => cursor.ins().ushr_imm_u(byte.value, i64::from(at)),
                };
                // A shift by 24 leaves 8 of 32 bits, so nothing is cut off.
                let value = match byte.at {
                    24 => value,
                    _ => cursor.ins().ireduce(I8, value),
                };
                let value = cursor.ins().uextend(I64, value);
                match byte.shift {
                    0 => value,
                    shift => cursor.ins().ishl_imm_u(value, i64::from(shift)),
                }
            }
        };
        cursor.ins().iadd(access.base, wide)
    }

    /// Recognises an i32 that is a single byte.
    fn byte(&self, index: Value) -> Option<Byte> {
        match self.binary(index)? {
            (Opcode::Band, [value, mask]) => self.masked(value, self.constant(mask)?),
            (Opcode::Ishl, [value, by]) => {
                let shift = self.constant(by)? & 31;
                let (Opcode::Band, [value, mask]) = self.binary(value)? else {
                    return None;
                };
                let byte = self.masked(value, self.constant(mask)?)?;
                (byte.shift == 0 && shift <= SHIFT_MAX).then_some(Byte { shift, ..byte })
            }
            _ => None,
        }
    }

    /// The byte that a mask leaves of an i32.
    fn masked(&self, value: Value, mask: u32) -> Option<Byte> {
        let shift = mask.trailing_zeros();
        if shift > SHIFT_MAX || mask >> shift != u32::from(u8::MAX) {
            return None;
        }
        let (value, at) = match self.binary(value) {
            Some((Opcode::Ushr, [value, by])) => (value, shift + (self.constant(by)? & 31)),
            Some((Opcode::Ishl, [value, by])) => {
                (value, shift.checked_sub(self.constant(by)? & 31)?)
            }
            _ => (value, shift),
        };
        (at <= 24).then_some(Byte { value, at, shift })
    }

    /// An upper bound of an i32, unsigned.
    fn at_most(&self, value: Value, depth: u32) -> u32 {
        if let Some(constant) = self.constant(value) {
            return constant;
        }
        let dfg = &self.func.dfg;
        let (Some(depth), Some(inst)) = (depth.checked_sub(1), values::definition(dfg, value))
        else {
            return u32::MAX;
        };
        match (dfg.insts[inst].opcode(), dfg.inst_args(inst)) {
            (Opcode::Band, [a, b]) => self.at_most(*a, depth).min(self.at_most(*b, depth)),
            (Opcode::Bor, [a, b]) => {
                // The result has no bit above the highest bit of both operands.
                let ones = self.at_most(*a, depth) | self.at_most(*b, depth);
                u32::MAX.checked_shr(ones.leading_zeros()).unwrap_or(0)
            }
            (Opcode::Iadd, [a, b]) => {
                // A sum that may wrap has no bound.
                self.at_most(*a, depth)
                    .saturating_add(self.at_most(*b, depth))
            }
            (Opcode::Ushr, [a, by]) => {
                let by = self.constant(*by).unwrap_or(0);
                self.at_most(*a, depth) >> (by & 31)
            }
            (Opcode::Ishl, [a, by]) => {
                let (most, by) = (self.at_most(*a, depth), self.constant(*by));
                match by.map(|by| by & 31) {
                    Some(by) if most.leading_zeros() >= by => most << by,
                    _ => u32::MAX,
                }
            }
            (Opcode::Uload8, _) => u32::from(u8::MAX),
            (Opcode::Uload16, _) => u32::from(u16::MAX),
            (Opcode::Uextend, [narrow]) => u32::MAX >> (32 - dfg.value_type(*narrow).bits()),
            _ => u32::MAX,
        }
    }

    /// Splits an index into its terms and its constant.
    fn sum(&self, index: Value) -> Sum {
        let (rest, constant) = self.apart(index);
        let Some((Opcode::Iadd, [a, b])) = self.binary(rest) else {
            return ((rest, None), constant);
        };
        let ((a, of_a), (b, of_b)) = (self.apart(a), self.apart(b));
        let terms = (a.min(b), Some(a.max(b)));
        (terms, constant.wrapping_add(of_a).wrapping_add(of_b))
    }

    /// Splits the constants that were added last from an i32; returns the rest and the sum of the
    /// constants.
    fn apart(&self, value: Value) -> (Value, u32) {
        let (mut rest, mut sum) = (value, 0u32);
        for _ in 0..DEPTH {
            let Some((Opcode::Iadd, [a, b])) = self.binary(rest) else {
                break;
            };
            let constant = match (self.constant(a), self.constant(b)) {
                (_, Some(constant)) => {
                    rest = a;
                    constant
                }
                (Some(constant), None) => {
                    rest = b;
                    constant
                }
                (None, None) => break,
            };
            sum = sum.wrapping_add(constant);
        }
        (rest, sum)
    }

    /// The value of an i32, if it is a constant.
    fn constant(&self, value: Value) -> Option<u32> {
        values::constant(&self.func.dfg, value).map(|bits| bits as u32)
    }

    /// An operator with two operands.
    fn binary(&self, value: Value) -> Option<(Opcode, [Value; 2])> {
        let dfg = &self.func.dfg;
        match dfg.insts[values::definition(dfg, value)?] {
            InstructionData::Binary { opcode, args } => {
                Some((opcode, args.map(|arg| dfg.resolve_aliases(arg))))
            }
            _ => None,
        }
    }

    /// An operator with one operand.
    fn unary(&self, value: Value) -> Option<(Opcode, Value)> {
        let dfg = &self.func.dfg;
        match dfg.insts[values::definition(dfg, value)?] {
            InstructionData::Unary { opcode, arg } => Some((opcode, dfg.resolve_aliases(arg))),
            _ => None,
        }
    }
}

/// Bits `at..at + 8` of a 32-bit value, shifted left.
struct Byte {
    value: Value,
    at: u32,
    shift: u32,
}

/// The displacement of an access plus `constant`, if the guard covers the result.
fn displacement(access: &Access, constant: u32) -> Option<Offset32> {
    let displacement = access.displacement + u64::from(constant);
    let end = displacement + access.bytes;
    (end <= GUARD_BYTES).then(|| Offset32::new(displacement as i32))
}
