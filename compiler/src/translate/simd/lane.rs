//! Lanes: extract, replace, splat, shuffle.

use super::FuncTranslator;
use cranelift_codegen::ir::{InstBuilder, Type, types};
use types::{F32X4, F64X2, I8X16, I16X8, I32, I32X4, I64X2};
use wasmparser::Operator;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on single lanes. Returns `false` for other operators.
    pub(super) fn lane(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        match op {
            O::I8x16Splat => self.splat(I8X16),
            O::I16x8Splat => self.splat(I16X8),
            O::I32x4Splat => self.splat(I32X4),
            O::I64x2Splat => self.splat(I64X2),
            O::F32x4Splat => self.splat(F32X4),
            O::F64x2Splat => self.splat(F64X2),
            O::I8x16ExtractLaneS { lane } => self.extract_signed(I8X16, *lane),
            O::I16x8ExtractLaneS { lane } => self.extract_signed(I16X8, *lane),
            O::I8x16ExtractLaneU { lane } => self.extract(I8X16, *lane),
            O::I16x8ExtractLaneU { lane } => self.extract(I16X8, *lane),
            O::I32x4ExtractLane { lane } => self.extract(I32X4, *lane),
            O::I64x2ExtractLane { lane } => self.extract(I64X2, *lane),
            O::F32x4ExtractLane { lane } => self.extract(F32X4, *lane),
            O::F64x2ExtractLane { lane } => self.extract(F64X2, *lane),
            O::I8x16ReplaceLane { lane } => self.replace(I8X16, *lane),
            O::I16x8ReplaceLane { lane } => self.replace(I16X8, *lane),
            O::I32x4ReplaceLane { lane } => self.replace(I32X4, *lane),
            O::I64x2ReplaceLane { lane } => self.replace(I64X2, *lane),
            O::F32x4ReplaceLane { lane } => self.replace(F32X4, *lane),
            O::F64x2ReplaceLane { lane } => self.replace(F64X2, *lane),
            O::I8x16Swizzle => self.vector_binary(I8X16, |i, a, b| i.swizzle(a, b)),
            O::I8x16Shuffle { lanes } => {
                let (a, b) = self.pop2();
                let lanes = self
                    .builder
                    .func
                    .dfg
                    .immediates
                    .push(lanes.as_slice().into());
                let value = self.builder.ins().shuffle(a, b, lanes);
                self.push(value);
            }
            _ => return false,
        }
        true
    }

    /// Pops a scalar as a lane of this type. Narrow lanes come from an i32.
    fn pop_scalar(&mut self, lanes: Type) -> cranelift_codegen::ir::Value {
        let (scalar, lane) = (self.pop(), lanes.lane_type());
        if self.type_of(scalar) == lane {
            return scalar;
        }
        self.builder.ins().ireduce(lane, scalar)
    }

    fn splat(&mut self, lanes: Type) {
        let scalar = self.pop_scalar(lanes);
        let vector = self.builder.ins().splat(lanes, scalar);
        self.push_vector(vector);
    }

    fn replace(&mut self, lanes: Type, lane: u8) {
        let scalar = self.pop_scalar(lanes);
        let vector = self.pop_lanes(lanes);
        let vector = self.builder.ins().insertlane(vector, scalar, lane);
        self.push_vector(vector);
    }

    /// Extracts a lane. A lane narrower than 32 bits is zero-extended.
    fn extract(&mut self, lanes: Type, lane: u8) {
        let vector = self.pop_lanes(lanes);
        let mut scalar = self.builder.ins().extractlane(vector, lane);
        if lanes.lane_bits() < 32 {
            scalar = self.builder.ins().uextend(I32, scalar);
        }
        self.push(scalar);
    }

    fn extract_signed(&mut self, lanes: Type, lane: u8) {
        let vector = self.pop_lanes(lanes);
        let scalar = self.builder.ins().extractlane(vector, lane);
        let scalar = self.builder.ins().sextend(I32, scalar);
        self.push(scalar);
    }
}
