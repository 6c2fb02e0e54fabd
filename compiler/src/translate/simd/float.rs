//! Floating-point lanes (spec 4.3.3, lane by lane), and conversions between floating-point numbers
//! and integers.

use super::{Binary, FuncTranslator, Unary};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Type, types};
use types::{F32X4, F64X2, I8X16, I32X4, I64X2};
use wasmparser::Operator as O;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on floating-point lanes. Returns `false` for other operators.
    pub(super) fn vector_float(&mut self, op: &O<'_>) -> bool {
        if let Some((lanes, unary)) = unary(op).or_else(|| conversion(op)) {
            self.vector_unary(lanes, unary);
        } else if let Some((lanes, binary)) = arithmetic(op) {
            self.vector_binary(lanes, binary);
        } else if let Some((lanes, code)) = comparison(op) {
            let (a, b) = self.pop2_lanes(lanes);
            let mask = self.builder.ins().fcmp(code, a, b);
            self.push_vector(mask);
        } else {
            match op {
                O::F32x4PMin => self.pseudo_minimum(F32X4),
                O::F64x2PMin => self.pseudo_minimum(F64X2),
                O::F32x4PMax => self.pseudo_maximum(F32X4),
                O::F64x2PMax => self.pseudo_maximum(F64X2),
                O::I32x4TruncSatF64x2SZero => {
                    self.truncate_low(
                        |i, a| i.fcvt_to_sint_sat(I64X2, a),
                        |i, a, b| i.snarrow(a, b),
                    );
                }
                O::I32x4TruncSatF64x2UZero => {
                    self.truncate_low(
                        |i, a| i.fcvt_to_uint_sat(I64X2, a),
                        |i, a, b| i.uunarrow(a, b),
                    );
                }
                O::F64x2ConvertLowI32x4S => {
                    self.convert_low(|i, a| i.swiden_low(a), |i, a| i.fcvt_from_sint(F64X2, a));
                }
                O::F64x2ConvertLowI32x4U => {
                    self.convert_low(|i, a| i.uwiden_low(a), |i, a| i.fcvt_from_uint(F64X2, a));
                }
                _ => return false,
            }
        }
        true
    }

    /// `b < a ? b : a`, which is not a minimum if an operand is NaN.
    fn pseudo_minimum(&mut self, lanes: Type) {
        let (a, b) = self.pop2_lanes(lanes);
        let mask = self.builder.ins().fcmp(FloatCC::LessThan, b, a);
        self.choose(mask, b, a);
    }

    /// `a < b ? b : a`.
    fn pseudo_maximum(&mut self, lanes: Type) {
        let (a, b) = self.pop2_lanes(lanes);
        let mask = self.builder.ins().fcmp(FloatCC::LessThan, a, b);
        self.choose(mask, b, a);
    }

    /// Pushes, for each bit, `a` if the mask is set, else `b`.
    fn choose(
        &mut self,
        mask: cranelift_codegen::ir::Value,
        a: cranelift_codegen::ir::Value,
        b: cranelift_codegen::ir::Value,
    ) {
        let [mask, a, b] = [mask, a, b].map(|vector| self.view(vector, I8X16));
        let value = self.builder.ins().bitselect(mask, a, b);
        self.push(value);
    }

    /// Converts two f64 lanes to the lower i32 lanes. Saturates in both steps; the upper lanes are
    /// zero.
    pub(super) fn truncate_low(&mut self, convert: Unary, narrow: Binary) {
        let vector = self.pop_lanes(F64X2);
        let wide = convert(self.builder.ins(), vector);
        let zero = self.vector_constant([0; 16], I64X2);
        let value = narrow(self.builder.ins(), wide, zero);
        self.push_vector(value);
    }

    /// Converts the lower i32 lanes to f64 lanes.
    fn convert_low(&mut self, widen: Unary, convert: Unary) {
        let vector = self.pop_lanes(I32X4);
        let wide = widen(self.builder.ins(), vector);
        let value = convert(self.builder.ins(), wide);
        self.push_vector(value);
    }
}

const CEIL: Unary = |i, a| i.ceil(a);
const FLOOR: Unary = |i, a| i.floor(a);
const TRUNC: Unary = |i, a| i.trunc(a);
const NEAREST: Unary = |i, a| i.nearest(a);
const ABS: Unary = |i, a| i.fabs(a);
const NEG: Unary = |i, a| i.fneg(a);
const SQRT: Unary = |i, a| i.sqrt(a);
const ADD: Binary = |i, a, b| i.fadd(a, b);
const SUB: Binary = |i, a, b| i.fsub(a, b);
const MUL: Binary = |i, a, b| i.fmul(a, b);
const DIV: Binary = |i, a, b| i.fdiv(a, b);
const MIN: Binary = |i, a, b| i.fmin(a, b);
const MAX: Binary = |i, a, b| i.fmax(a, b);

fn unary(op: &O<'_>) -> Option<(Type, Unary)> {
    Some(match op {
        O::F32x4Ceil => (F32X4, CEIL),
        O::F64x2Ceil => (F64X2, CEIL),
        O::F32x4Floor => (F32X4, FLOOR),
        O::F64x2Floor => (F64X2, FLOOR),
        O::F32x4Trunc => (F32X4, TRUNC),
        O::F64x2Trunc => (F64X2, TRUNC),
        O::F32x4Nearest => (F32X4, NEAREST),
        O::F64x2Nearest => (F64X2, NEAREST),
        O::F32x4Abs => (F32X4, ABS),
        O::F64x2Abs => (F64X2, ABS),
        O::F32x4Neg => (F32X4, NEG),
        O::F64x2Neg => (F64X2, NEG),
        O::F32x4Sqrt => (F32X4, SQRT),
        O::F64x2Sqrt => (F64X2, SQRT),
        _ => return None,
    })
}

/// Conversions by one instruction, with the source's lanes.
fn conversion(op: &O<'_>) -> Option<(Type, Unary)> {
    Some(match op {
        O::I32x4TruncSatF32x4S => (F32X4, |i, a| i.fcvt_to_sint_sat(I32X4, a)),
        O::I32x4TruncSatF32x4U => (F32X4, |i, a| i.fcvt_to_uint_sat(I32X4, a)),
        O::F32x4ConvertI32x4S => (I32X4, |i, a| i.fcvt_from_sint(F32X4, a)),
        O::F32x4ConvertI32x4U => (I32X4, |i, a| i.fcvt_from_uint(F32X4, a)),
        O::F32x4DemoteF64x2Zero => (F64X2, |i, a| i.fvdemote(a)),
        O::F64x2PromoteLowF32x4 => (F32X4, |i, a| i.fvpromote_low(a)),
        _ => return None,
    })
}

fn arithmetic(op: &O<'_>) -> Option<(Type, Binary)> {
    Some(match op {
        O::F32x4Add => (F32X4, ADD),
        O::F64x2Add => (F64X2, ADD),
        O::F32x4Sub => (F32X4, SUB),
        O::F64x2Sub => (F64X2, SUB),
        O::F32x4Mul => (F32X4, MUL),
        O::F64x2Mul => (F64X2, MUL),
        O::F32x4Div => (F32X4, DIV),
        O::F64x2Div => (F64X2, DIV),
        O::F32x4Min => (F32X4, MIN),
        O::F64x2Min => (F64X2, MIN),
        O::F32x4Max => (F32X4, MAX),
        O::F64x2Max => (F64X2, MAX),
        _ => return None,
    })
}

fn comparison(op: &O<'_>) -> Option<(Type, FloatCC)> {
    Some(match op {
        O::F32x4Eq => (F32X4, FloatCC::Equal),
        O::F64x2Eq => (F64X2, FloatCC::Equal),
        O::F32x4Ne => (F32X4, FloatCC::NotEqual),
        O::F64x2Ne => (F64X2, FloatCC::NotEqual),
        O::F32x4Lt => (F32X4, FloatCC::LessThan),
        O::F64x2Lt => (F64X2, FloatCC::LessThan),
        O::F32x4Gt => (F32X4, FloatCC::GreaterThan),
        O::F64x2Gt => (F64X2, FloatCC::GreaterThan),
        O::F32x4Le => (F32X4, FloatCC::LessThanOrEqual),
        O::F64x2Le => (F64X2, FloatCC::LessThanOrEqual),
        O::F32x4Ge => (F32X4, FloatCC::GreaterThanOrEqual),
        O::F64x2Ge => (F64X2, FloatCC::GreaterThanOrEqual),
        _ => return None,
    })
}
