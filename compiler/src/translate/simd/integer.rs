//! Integer lanes (spec 4.3.2, lane by lane).

use super::{Binary, FuncTranslator, Unary};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use types::{I8X16, I16X8, I32, I32X4, I64X2};
use wasmparser::Operator as O;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on integer lanes. Returns `false` for other operators.
    pub(super) fn vector_integer(&mut self, op: &O<'_>) -> bool {
        if let Some((lanes, binary)) = arithmetic(op).or_else(|| saturating(op)) {
            self.vector_binary(lanes, binary);
        } else if let Some((lanes, unary)) = unary(op).or_else(|| widening(op)) {
            self.vector_unary(lanes, unary);
        } else if let Some((lanes, code)) = comparison(op) {
            let (a, b) = self.pop2_lanes(lanes);
            let mask = self.builder.ins().icmp(code, a, b);
            self.push_vector(mask);
        } else if let Some((lanes, low, high)) = pairwise(op) {
            let vector = self.pop_lanes(lanes);
            let low = low(self.builder.ins(), vector);
            let high = high(self.builder.ins(), vector);
            let sums = self.builder.ins().iadd_pairwise(low, high);
            self.push_vector(sums);
        } else if let Some((lanes, widen)) = extended_product(op) {
            let (a, b) = self.pop2_lanes(lanes);
            let product = self.product(a, b, widen);
            self.push_vector(product);
        } else {
            return self.shift(op) || self.test(op) || self.dot_product(op);
        }
        true
    }

    /// Products of the lanes that `widen` selects.
    pub(super) fn product(&mut self, a: Value, b: Value, widen: Unary) -> Value {
        let a = widen(self.builder.ins(), a);
        let b = widen(self.builder.ins(), b);
        self.builder.ins().imul(a, b)
    }

    fn dot_product(&mut self, op: &O<'_>) -> bool {
        let O::I32x4DotI16x8S = op else { return false };
        let (a, b) = self.pop2_lanes(I16X8);
        let low = self.product(a, b, SLOW);
        let high = self.product(a, b, SHIGH);
        let sums = self.builder.ins().iadd_pairwise(low, high);
        self.push_vector(sums);
        true
    }

    /// Shifts by a scalar. As in WebAssembly, the count is taken modulo the lane's width.
    fn shift(&mut self, op: &O<'_>) -> bool {
        let (lanes, shift): (Type, Binary) = match op {
            O::I8x16Shl => (I8X16, SHL),
            O::I16x8Shl => (I16X8, SHL),
            O::I32x4Shl => (I32X4, SHL),
            O::I64x2Shl => (I64X2, SHL),
            O::I8x16ShrS => (I8X16, SSHR),
            O::I16x8ShrS => (I16X8, SSHR),
            O::I32x4ShrS => (I32X4, SSHR),
            O::I64x2ShrS => (I64X2, SSHR),
            O::I8x16ShrU => (I8X16, USHR),
            O::I16x8ShrU => (I16X8, USHR),
            O::I32x4ShrU => (I32X4, USHR),
            O::I64x2ShrU => (I64X2, USHR),
            _ => return false,
        };
        let count = self.pop();
        let vector = self.pop_lanes(lanes);
        let vector = shift(self.builder.ins(), vector, count);
        self.push_vector(vector);
        true
    }

    /// Operators that compute an i32 from all lanes.
    fn test(&mut self, op: &O<'_>) -> bool {
        match op {
            O::I8x16AllTrue => self.all_true(I8X16),
            O::I16x8AllTrue => self.all_true(I16X8),
            O::I32x4AllTrue => self.all_true(I32X4),
            O::I64x2AllTrue => self.all_true(I64X2),
            O::I8x16Bitmask => self.bitmask(I8X16),
            O::I16x8Bitmask => self.bitmask(I16X8),
            O::I32x4Bitmask => self.bitmask(I32X4),
            O::I64x2Bitmask => self.bitmask(I64X2),
            _ => return false,
        }
        true
    }

    fn all_true(&mut self, lanes: Type) {
        let vector = self.pop_lanes(lanes);
        let truth = self.builder.ins().vall_true(vector);
        self.push_bool(truth);
    }

    fn bitmask(&mut self, lanes: Type) {
        let vector = self.pop_lanes(lanes);
        let mask = self.builder.ins().vhigh_bits(I32, vector);
        self.push(mask);
    }
}

const ADD: Binary = |i, a, b| i.iadd(a, b);
const SUB: Binary = |i, a, b| i.isub(a, b);
const MUL: Binary = |i, a, b| i.imul(a, b);
const SMIN: Binary = |i, a, b| i.smin(a, b);
const UMIN: Binary = |i, a, b| i.umin(a, b);
const SMAX: Binary = |i, a, b| i.smax(a, b);
const UMAX: Binary = |i, a, b| i.umax(a, b);
const AVERAGE: Binary = |i, a, b| i.avg_round(a, b);
const SADD: Binary = |i, a, b| i.sadd_sat(a, b);
const UADD: Binary = |i, a, b| i.uadd_sat(a, b);
const SSUB: Binary = |i, a, b| i.ssub_sat(a, b);
const USUB: Binary = |i, a, b| i.usub_sat(a, b);
const SNARROW: Binary = |i, a, b| i.snarrow(a, b);
const UNARROW: Binary = |i, a, b| i.unarrow(a, b);
const SHL: Binary = |i, a, b| i.ishl(a, b);
const SSHR: Binary = |i, a, b| i.sshr(a, b);
const USHR: Binary = |i, a, b| i.ushr(a, b);
const ABS: Unary = |i, a| i.iabs(a);
const NEG: Unary = |i, a| i.ineg(a);
const SLOW: Unary = |i, a| i.swiden_low(a);
const SHIGH: Unary = |i, a| i.swiden_high(a);
const ULOW: Unary = |i, a| i.uwiden_low(a);
const UHIGH: Unary = |i, a| i.uwiden_high(a);

fn arithmetic(op: &O<'_>) -> Option<(Type, Binary)> {
    Some(match op {
        O::I8x16Add => (I8X16, ADD),
        O::I16x8Add => (I16X8, ADD),
        O::I32x4Add => (I32X4, ADD),
        O::I64x2Add => (I64X2, ADD),
        O::I8x16Sub => (I8X16, SUB),
        O::I16x8Sub => (I16X8, SUB),
        O::I32x4Sub => (I32X4, SUB),
        O::I64x2Sub => (I64X2, SUB),
        O::I16x8Mul => (I16X8, MUL),
        O::I32x4Mul => (I32X4, MUL),
        O::I64x2Mul => (I64X2, MUL),
        O::I8x16MinS => (I8X16, SMIN),
        O::I16x8MinS => (I16X8, SMIN),
        O::I32x4MinS => (I32X4, SMIN),
        O::I8x16MinU => (I8X16, UMIN),
        O::I16x8MinU => (I16X8, UMIN),
        O::I32x4MinU => (I32X4, UMIN),
        O::I8x16MaxS => (I8X16, SMAX),
        O::I16x8MaxS => (I16X8, SMAX),
        O::I32x4MaxS => (I32X4, SMAX),
        O::I8x16MaxU => (I8X16, UMAX),
        O::I16x8MaxU => (I16X8, UMAX),
        O::I32x4MaxU => (I32X4, UMAX),
        O::I8x16AvgrU => (I8X16, AVERAGE),
        O::I16x8AvgrU => (I16X8, AVERAGE),
        _ => return None,
    })
}

fn saturating(op: &O<'_>) -> Option<(Type, Binary)> {
    Some(match op {
        O::I8x16AddSatS => (I8X16, SADD),
        O::I16x8AddSatS => (I16X8, SADD),
        O::I8x16AddSatU => (I8X16, UADD),
        O::I16x8AddSatU => (I16X8, UADD),
        O::I8x16SubSatS => (I8X16, SSUB),
        O::I16x8SubSatS => (I16X8, SSUB),
        O::I8x16SubSatU => (I8X16, USUB),
        O::I16x8SubSatU => (I16X8, USUB),
        O::I16x8Q15MulrSatS => (I16X8, |i, a, b| i.sqmul_round_sat(a, b)),
        // The source lanes are signed in both cases; the suffix says how the result saturates.
        O::I8x16NarrowI16x8S => (I16X8, SNARROW),
        O::I16x8NarrowI32x4S => (I32X4, SNARROW),
        O::I8x16NarrowI16x8U => (I16X8, UNARROW),
        O::I16x8NarrowI32x4U => (I32X4, UNARROW),
        _ => return None,
    })
}

fn unary(op: &O<'_>) -> Option<(Type, Unary)> {
    Some(match op {
        O::I8x16Abs => (I8X16, ABS),
        O::I16x8Abs => (I16X8, ABS),
        O::I32x4Abs => (I32X4, ABS),
        O::I64x2Abs => (I64X2, ABS),
        O::I8x16Neg => (I8X16, NEG),
        O::I16x8Neg => (I16X8, NEG),
        O::I32x4Neg => (I32X4, NEG),
        O::I64x2Neg => (I64X2, NEG),
        O::I8x16Popcnt => (I8X16, |i, a| i.popcnt(a)),
        _ => return None,
    })
}

fn widening(op: &O<'_>) -> Option<(Type, Unary)> {
    Some(match op {
        O::I16x8ExtendLowI8x16S => (I8X16, SLOW),
        O::I32x4ExtendLowI16x8S => (I16X8, SLOW),
        O::I64x2ExtendLowI32x4S => (I32X4, SLOW),
        O::I16x8ExtendHighI8x16S => (I8X16, SHIGH),
        O::I32x4ExtendHighI16x8S => (I16X8, SHIGH),
        O::I64x2ExtendHighI32x4S => (I32X4, SHIGH),
        O::I16x8ExtendLowI8x16U => (I8X16, ULOW),
        O::I32x4ExtendLowI16x8U => (I16X8, ULOW),
        O::I64x2ExtendLowI32x4U => (I32X4, ULOW),
        O::I16x8ExtendHighI8x16U => (I8X16, UHIGH),
        O::I32x4ExtendHighI16x8U => (I16X8, UHIGH),
        O::I64x2ExtendHighI32x4U => (I32X4, UHIGH),
        _ => return None,
    })
}

/// The lanes, and the instructions that widen their low and high half.
fn pairwise(op: &O<'_>) -> Option<(Type, Unary, Unary)> {
    Some(match op {
        O::I16x8ExtAddPairwiseI8x16S => (I8X16, SLOW, SHIGH),
        O::I32x4ExtAddPairwiseI16x8S => (I16X8, SLOW, SHIGH),
        O::I16x8ExtAddPairwiseI8x16U => (I8X16, ULOW, UHIGH),
        O::I32x4ExtAddPairwiseI16x8U => (I16X8, ULOW, UHIGH),
        _ => return None,
    })
}

/// The lanes, and the instruction that widens one half of the lanes.
fn extended_product(op: &O<'_>) -> Option<(Type, Unary)> {
    Some(match op {
        O::I16x8ExtMulLowI8x16S => (I8X16, SLOW),
        O::I32x4ExtMulLowI16x8S => (I16X8, SLOW),
        O::I64x2ExtMulLowI32x4S => (I32X4, SLOW),
        O::I16x8ExtMulHighI8x16S => (I8X16, SHIGH),
        O::I32x4ExtMulHighI16x8S => (I16X8, SHIGH),
        O::I64x2ExtMulHighI32x4S => (I32X4, SHIGH),
        O::I16x8ExtMulLowI8x16U => (I8X16, ULOW),
        O::I32x4ExtMulLowI16x8U => (I16X8, ULOW),
        O::I64x2ExtMulLowI32x4U => (I32X4, ULOW),
        O::I16x8ExtMulHighI8x16U => (I8X16, UHIGH),
        O::I32x4ExtMulHighI16x8U => (I16X8, UHIGH),
        O::I64x2ExtMulHighI32x4U => (I32X4, UHIGH),
        _ => return None,
    })
}

fn comparison(op: &O<'_>) -> Option<(Type, IntCC)> {
    let code = match op {
        O::I8x16Eq | O::I16x8Eq | O::I32x4Eq | O::I64x2Eq => IntCC::Equal,
        O::I8x16Ne | O::I16x8Ne | O::I32x4Ne | O::I64x2Ne => IntCC::NotEqual,
        O::I8x16LtS | O::I16x8LtS | O::I32x4LtS | O::I64x2LtS => IntCC::SignedLessThan,
        O::I8x16GtS | O::I16x8GtS | O::I32x4GtS | O::I64x2GtS => IntCC::SignedGreaterThan,
        O::I8x16LeS | O::I16x8LeS | O::I32x4LeS | O::I64x2LeS => IntCC::SignedLessThanOrEqual,
        O::I8x16GeS | O::I16x8GeS | O::I32x4GeS | O::I64x2GeS => IntCC::SignedGreaterThanOrEqual,
        O::I8x16LtU | O::I16x8LtU | O::I32x4LtU => IntCC::UnsignedLessThan,
        O::I8x16GtU | O::I16x8GtU | O::I32x4GtU => IntCC::UnsignedGreaterThan,
        O::I8x16LeU | O::I16x8LeU | O::I32x4LeU => IntCC::UnsignedLessThanOrEqual,
        O::I8x16GeU | O::I16x8GeU | O::I32x4GeU => IntCC::UnsignedGreaterThanOrEqual,
        _ => return None,
    };
    Some((compared(op), code))
}

/// The lanes that an integer comparison compares.
fn compared(op: &O<'_>) -> Type {
    match op {
        O::I8x16Eq | O::I8x16Ne | O::I8x16LtS | O::I8x16GtS | O::I8x16LeS | O::I8x16GeS => I8X16,
        O::I8x16LtU | O::I8x16GtU | O::I8x16LeU | O::I8x16GeU => I8X16,
        O::I16x8Eq | O::I16x8Ne | O::I16x8LtS | O::I16x8GtS | O::I16x8LeS | O::I16x8GeS => I16X8,
        O::I16x8LtU | O::I16x8GtU | O::I16x8LeU | O::I16x8GeU => I16X8,
        O::I32x4Eq | O::I32x4Ne | O::I32x4LtS | O::I32x4GtS | O::I32x4LeS | O::I32x4GeS => I32X4,
        O::I32x4LtU | O::I32x4GtU | O::I32x4LeU | O::I32x4GeU => I32X4,
        _ => I64X2,
    }
}
