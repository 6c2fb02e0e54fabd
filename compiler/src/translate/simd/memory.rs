//! Loads and stores of vectors (spec 4.4.7). Like scalar accesses, they take every address from
//! [`memory_address`](FuncTranslator::memory_address).

use super::FuncTranslator;
use crate::translate::memory::Load;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use types::{F32X4, F64X2, I8, I8X16, I16, I16X8, I32, I32X4, I64, I64X2};
use wasmparser::{MemArg, Operator};

impl FuncTranslator<'_, '_> {
    /// Translates a vector operator on memory. Returns `false` for other operators.
    pub(super) fn vector_memory(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        match op {
            O::V128Load { memarg } => self.load(memarg, I8X16),
            O::V128Store { memarg } => self.store(memarg),
            O::V128Load8x8S { memarg } => self.load_wide(memarg, |i, f, p, o| i.sload8x8(f, p, o)),
            O::V128Load8x8U { memarg } => self.load_wide(memarg, |i, f, p, o| i.uload8x8(f, p, o)),
            O::V128Load16x4S { memarg } => {
                self.load_wide(memarg, |i, f, p, o| i.sload16x4(f, p, o));
            }
            O::V128Load16x4U { memarg } => {
                self.load_wide(memarg, |i, f, p, o| i.uload16x4(f, p, o));
            }
            O::V128Load32x2S { memarg } => {
                self.load_wide(memarg, |i, f, p, o| i.sload32x2(f, p, o));
            }
            O::V128Load32x2U { memarg } => {
                self.load_wide(memarg, |i, f, p, o| i.uload32x2(f, p, o));
            }
            O::V128Load8Splat { memarg } => self.load_splat(memarg, I8X16),
            O::V128Load16Splat { memarg } => self.load_splat(memarg, I16X8),
            O::V128Load32Splat { memarg } => self.load_splat(memarg, I32X4),
            O::V128Load64Splat { memarg } => self.load_splat(memarg, I64X2),
            O::V128Load32Zero { memarg } => self.load_zero(memarg, F32X4),
            O::V128Load64Zero { memarg } => self.load_zero(memarg, F64X2),
            O::V128Load8Lane { memarg, lane } => self.load_lane(memarg, I8X16, *lane),
            O::V128Load16Lane { memarg, lane } => self.load_lane(memarg, I16X8, *lane),
            O::V128Load32Lane { memarg, lane } => self.load_lane(memarg, I32X4, *lane),
            O::V128Load64Lane { memarg, lane } => self.load_lane(memarg, I64X2, *lane),
            O::V128Store8Lane { memarg, lane } => self.store_lane(memarg, I8X16, *lane),
            O::V128Store16Lane { memarg, lane } => self.store_lane(memarg, I16X8, *lane),
            O::V128Store32Lane { memarg, lane } => self.store_lane(memarg, I32X4, *lane),
            O::V128Store64Lane { memarg, lane } => self.store_lane(memarg, I64X2, *lane),
            _ => return false,
        }
        true
    }

    fn load_wide(&mut self, memarg: &MemArg, load: Load) {
        self.load_by(memarg, 8, load);
        let vector = self.pop();
        self.push_vector(vector);
    }

    /// Loads the bytes of one lane as a scalar of the lane's type.
    fn load_scalar(&mut self, memarg: &MemArg, lanes: Type) -> Value {
        self.load(memarg, lanes.lane_type());
        self.pop()
    }

    fn load_splat(&mut self, memarg: &MemArg, lanes: Type) {
        let scalar = self.load_scalar(memarg, lanes);
        let vector = self.builder.ins().splat(lanes, scalar);
        self.push_vector(vector);
    }

    /// Loads lane 0 and sets the other lanes to zero. Loads a float, because a float is in a vector
    /// register.
    fn load_zero(&mut self, memarg: &MemArg, lanes: Type) {
        let scalar = self.load_scalar(memarg, lanes);
        let vector = self.builder.ins().scalar_to_vector(lanes, scalar);
        self.push_vector(vector);
    }

    fn load_lane(&mut self, memarg: &MemArg, lanes: Type, lane: u8) {
        debug_assert!([I8, I16, I32, I64].contains(&lanes.lane_type()));
        let vector = self.pop_lanes(lanes);
        let scalar = self.load_scalar(memarg, lanes);
        let vector = self.builder.ins().insertlane(vector, scalar, lane);
        self.push_vector(vector);
    }

    fn store_lane(&mut self, memarg: &MemArg, lanes: Type, lane: u8) {
        let vector = self.pop_lanes(lanes);
        let scalar = self.builder.ins().extractlane(vector, lane);
        self.push(scalar);
        self.store(memarg);
    }
}
