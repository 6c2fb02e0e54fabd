//! Relaxed operators (spec 3.0, 4.3, "relaxed operations"). For unusual operands, each operator has
//! a list of allowed results. An environment must choose the same position of the list every time.
//! Position 0 is the result of the deterministic profile, and mostly the result of a non-relaxed
//! operator.
//!
//! | operators | allowed, by position | x86_64 takes | aarch64 takes |
//! |---|---|---|---|
//! | `madd`, `nmadd` | two roundings; one | 1 with FMA, else 0 | 1 |
//! | `min`, `max` | of NaNs and zeros: as `min`; the first; the second; a number | 2 | 0 |
//! | `trunc_s` | out of range: saturated; -2^31 | 1 | 0 |
//! | `trunc_u` | out of range: saturated; others | 0 | 0 |
//! | `swizzle` | of 16 to 127: zero; the lane modulo 16 | 1 | 0 |
//! | `laneselect` | each bit by its own; each lane by its highest | 1 | 0 |
//! | `q15mulr_s` | of -1 times -1: saturated; -1 | 1 | 0 |
//! | `dot`, `dot_add` | the second operand is signed; unsigned | 1 | 0 |
//!
//! The compiler takes the cheapest result. The choice depends only on the target and its features.
//! The choice is the same for all lane widths. So `i16x8.relaxed_laneselect`, for which x86_64 has
//! no instruction, spreads each lane's highest bit.

use super::{FuncTranslator, translate};
use crate::options::RelaxedSimd;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use pirn_format::cpu::Arch;
use types::{F32X4, F64X2, I8X16, I16X8, I32, I32X4, I64X2};
use wasmparser::Operator as O;

impl FuncTranslator<'_, '_> {
    /// Translates a relaxed operator. Returns `false` for other operators.
    pub(super) fn relaxed(&mut self, op: &O<'_>) -> bool {
        let is_free = self.env.relaxed_simd == RelaxedSimd::Fastest;
        if is_free && self.env.cpu.arch() == Arch::X86_64 && self.relaxed_x86_64(op) {
            return true;
        }
        if let Some(twin) = twin(op) {
            return translate(self, &twin);
        }
        let fuses = is_free && self.env.isa.has_native_fma();
        match op {
            O::F32x4RelaxedMadd => self.multiply_add(F32X4, false, fuses),
            O::F64x2RelaxedMadd => self.multiply_add(F64X2, false, fuses),
            O::F32x4RelaxedNmadd => self.multiply_add(F32X4, true, fuses),
            O::F64x2RelaxedNmadd => self.multiply_add(F64X2, true, fuses),
            O::I16x8RelaxedDotI8x16I7x16S => {
                let (a, b) = self.pop2();
                let sums = self.dot_of_signed(a, b);
                self.push_vector(sums);
            }
            O::I32x4RelaxedDotI8x16I7x16AddS => {
                let (a, b, c) = self.pop3();
                let sums = self.dot_of_signed(a, b);
                self.add_pairs(sums, c);
            }
            _ => return false,
        }
        true
    }

    /// Operators for which x86_64 has an instruction that does not give the deterministic result.
    fn relaxed_x86_64(&mut self, op: &O<'_>) -> bool {
        match op {
            O::I8x16RelaxedSwizzle => self.vector_binary(I8X16, |i, a, b| i.x86_pshufb(a, b)),
            O::I32x4RelaxedTruncF32x4S => self.vector_unary(F32X4, |i, a| i.x86_cvtt2dq(I32X4, a)),
            O::I32x4RelaxedTruncF64x2SZero => {
                self.truncate_low(|i, a| i.x86_cvtt2dq(I64X2, a), |i, a, b| i.snarrow(a, b));
            }
            O::F32x4RelaxedMin => self.either(F32X4, false),
            O::F64x2RelaxedMin => self.either(F64X2, false),
            O::F32x4RelaxedMax => self.either(F32X4, true),
            O::F64x2RelaxedMax => self.either(F64X2, true),
            O::I8x16RelaxedLaneselect => self.select_lanes(I8X16),
            O::I16x8RelaxedLaneselect => self.select_lanes(I16X8),
            O::I32x4RelaxedLaneselect => self.select_lanes(I32X4),
            O::I64x2RelaxedLaneselect => self.select_lanes(I64X2),
            O::I16x8RelaxedQ15mulrS => self.vector_binary(I16X8, |i, a, b| i.x86_pmulhrsw(a, b)),
            O::I16x8RelaxedDotI8x16I7x16S => {
                self.vector_binary(I8X16, |i, a, b| i.x86_pmaddubsw(a, b));
            }
            O::I32x4RelaxedDotI8x16I7x16AddS => {
                let (a, b, c) = self.pop3();
                let sums = self.builder.ins().x86_pmaddubsw(a, b);
                self.add_pairs(sums, c);
            }
            _ => return false,
        }
        true
    }

    /// For each lane, the first operand if it is less, or greater, else the second operand: `minps`
    /// or `maxps`, in the form that Cranelift recognises.
    fn either(&mut self, lanes: Type, greater: bool) {
        let (a, b) = self.pop2_lanes(lanes);
        let [less, other] = if greater { [b, a] } else { [a, b] };
        let mask = self.builder.ins().fcmp(FloatCC::LessThan, less, other);
        let mask = self.view(mask, lanes);
        let value = self.builder.ins().bitselect(mask, a, b);
        self.push_vector(value);
    }

    /// `a * b + c`, or `-(a * b) + c`, rounded once or twice.
    fn multiply_add(&mut self, lanes: Type, negates: bool, fuses: bool) {
        let (a, b, c) = self.pop3();
        let [a, b, c] = [a, b, c].map(|vector| self.view(vector, lanes));
        let sum = match (fuses, negates) {
            (true, false) => self.builder.ins().fma(a, b, c),
            (true, true) => {
                let a = self.builder.ins().fneg(a);
                self.builder.ins().fma(a, b, c)
            }
            (false, _) => {
                let product = self.builder.ins().fmul(a, b);
                match negates {
                    true => self.builder.ins().fsub(c, product),
                    false => self.builder.ins().fadd(product, c),
                }
            }
        };
        self.push_vector(sum);
    }

    /// Selects lanes of two vectors by the highest bits of the lanes of a third one.
    fn select_lanes(&mut self, lanes: Type) {
        let (a, b, mask) = self.pop3();
        let [a, b, mut mask] = [a, b, mask].map(|vector| self.view(vector, lanes));
        let value = if lanes == I16X8 {
            let highest = self.builder.ins().iconst(I32, 15);
            mask = self.builder.ins().sshr(mask, highest);
            let [a, b, mask] = [a, b, mask].map(|vector| self.view(vector, I8X16));
            self.builder.ins().blendv(mask, a, b)
        } else {
            self.builder.ins().blendv(mask, a, b)
        };
        self.push_vector(value);
    }

    /// Sums of two products of signed bytes each, saturated: only the sum of four bytes of -128
    /// overflows.
    fn dot_of_signed(&mut self, a: Value, b: Value) -> Value {
        let (even, odd) = match self.env.cpu.arch() {
            Arch::X86_64 => self.products_of_words(a, b),
            Arch::Aarch64 => self.products_of_halves(a, b),
        };
        self.builder.ins().sadd_sat(even, odd)
    }

    /// Products of the even and of the odd bytes, which shifts extend to words: x86_64 widens only
    /// the lower half of a vector.
    fn products_of_words(&mut self, a: Value, b: Value) -> (Value, Value) {
        let byte = self.builder.ins().iconst(I32, 8);
        let [a, b] = [a, b].map(|vector| self.view(vector, I16X8));
        let even = [a, b].map(|vector| {
            let low = self.builder.ins().ishl(vector, byte);
            self.builder.ins().sshr(low, byte)
        });
        let odd = [a, b].map(|vector| self.builder.ins().sshr(vector, byte));
        let [even, odd] = [even, odd].map(|[a, b]| self.builder.ins().imul(a, b));
        (even, odd)
    }

    /// Products of the even and of the odd bytes, from products of both halves, which are one
    /// instruction each.
    fn products_of_halves(&mut self, a: Value, b: Value) -> (Value, Value) {
        let low = self.product(a, b, |i, a| i.swiden_low(a));
        let high = self.product(a, b, |i, a| i.swiden_high(a));
        let [low, high] = [low, high].map(|products| self.view(products, I8X16));
        let [even, odd] = [EVEN_WORDS, ODD_WORDS].map(|bytes| {
            let bytes = self
                .builder
                .func
                .dfg
                .immediates
                .push(bytes.as_slice().into());
            let words = self.builder.ins().shuffle(low, high, bytes);
            self.view(words, I16X8)
        });
        (even, odd)
    }

    /// Pushes the sums of pairs of 16-bit lanes, added to 32-bit lanes.
    fn add_pairs(&mut self, sums: Value, to: Value) {
        let low = self.builder.ins().swiden_low(sums);
        let high = self.builder.ins().swiden_high(sums);
        let pairs = self.builder.ins().iadd_pairwise(low, high);
        let to = self.view(to, I32X4);
        let sum = self.builder.ins().iadd(pairs, to);
        self.push_vector(sum);
    }
}

/// Byte indices into two concatenated vectors: the words at even positions, and the words at odd
/// positions.
const EVEN_WORDS: [u8; 16] = [0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29];
const ODD_WORDS: [u8; 16] = [2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31];

/// The non-relaxed operator that gives the deterministic result, if there is one.
fn twin(op: &O<'_>) -> Option<O<'static>> {
    Some(match op {
        O::I8x16RelaxedSwizzle => O::I8x16Swizzle,
        O::I32x4RelaxedTruncF32x4S => O::I32x4TruncSatF32x4S,
        O::I32x4RelaxedTruncF32x4U => O::I32x4TruncSatF32x4U,
        O::I32x4RelaxedTruncF64x2SZero => O::I32x4TruncSatF64x2SZero,
        O::I32x4RelaxedTruncF64x2UZero => O::I32x4TruncSatF64x2UZero,
        O::I8x16RelaxedLaneselect
        | O::I16x8RelaxedLaneselect
        | O::I32x4RelaxedLaneselect
        | O::I64x2RelaxedLaneselect => O::V128Bitselect,
        O::F32x4RelaxedMin => O::F32x4Min,
        O::F32x4RelaxedMax => O::F32x4Max,
        O::F64x2RelaxedMin => O::F64x2Min,
        O::F64x2RelaxedMax => O::F64x2Max,
        O::I16x8RelaxedQ15mulrS => O::I16x8Q15MulrSatS,
        _ => return None,
    })
}
