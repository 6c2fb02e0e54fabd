//! Vectors (spec 4.3.4, 4.4.2).
//!
//! On the operand stack every vector is an `i8x16`. An operator casts its operands to the lanes
//! that it works on, and its result back to an `i8x16`. Both casts are free: a vector register has
//! no type.

mod float;
mod integer;
mod lane;
mod memory;
mod relaxed;
#[cfg(test)]
mod tests;

use super::function::FuncTranslator;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FuncInstBuilder;
use wasmparser::Operator;

/// An instruction of one operand.
type Unary = fn(FuncInstBuilder<'_, '_>, Value) -> Value;
/// An instruction of two operands.
type Binary = fn(FuncInstBuilder<'_, '_>, Value, Value) -> Value;

/// Translates an operator on vectors. Returns `false` for other operators.
pub(super) fn translate(t: &mut FuncTranslator<'_, '_>, op: &Operator<'_>) -> bool {
    t.vector_memory(op)
        || t.lane(op)
        || t.bitwise(op)
        || t.vector_integer(op)
        || t.vector_float(op)
        || t.relaxed(op)
}

impl FuncTranslator<'_, '_> {
    /// Casts a vector to lanes of another type.
    pub(super) fn view(&mut self, vector: Value, lanes: Type) -> Value {
        if self.type_of(vector) == lanes {
            return vector;
        }
        let flags = MemFlagsData::new().with_endianness(ir::Endianness::Little);
        self.builder.ins().bitcast(lanes, flags, vector)
    }

    /// Pops a vector as lanes.
    fn pop_lanes(&mut self, lanes: Type) -> Value {
        let vector = self.pop();
        self.view(vector, lanes)
    }

    /// Pops two vectors as lanes, in the order they were pushed.
    fn pop2_lanes(&mut self, lanes: Type) -> (Value, Value) {
        let (a, b) = self.pop2();
        (self.view(a, lanes), self.view(b, lanes))
    }

    /// Pushes a vector with lanes of any type.
    fn push_vector(&mut self, vector: Value) {
        let vector = self.view(vector, types::I8X16);
        self.push(vector);
    }

    fn vector_unary(&mut self, lanes: Type, unary: Unary) {
        let a = self.pop_lanes(lanes);
        let value = unary(self.builder.ins(), a);
        self.push_vector(value);
    }

    fn vector_binary(&mut self, lanes: Type, binary: Binary) {
        let (a, b) = self.pop2_lanes(lanes);
        let value = binary(self.builder.ins(), a, b);
        self.push_vector(value);
    }

    /// A constant vector with its bytes in memory order.
    fn vector_constant(&mut self, bytes: [u8; 16], lanes: Type) -> Value {
        let constant = self
            .builder
            .func
            .dfg
            .constants
            .insert(bytes.as_slice().into());
        self.builder.ins().vconst(lanes, constant)
    }

    /// Operators that treat a vector as 128 bits.
    fn bitwise(&mut self, op: &Operator<'_>) -> bool {
        let lanes = types::I8X16;
        match op {
            Operator::V128Const { value } => {
                let value = self.vector_constant(*value.bytes(), lanes);
                self.push(value);
            }
            Operator::V128Not => self.vector_unary(lanes, |i, a| i.bnot(a)),
            Operator::V128And => self.vector_binary(lanes, |i, a, b| i.band(a, b)),
            Operator::V128AndNot => self.vector_binary(lanes, |i, a, b| i.band_not(a, b)),
            Operator::V128Or => self.vector_binary(lanes, |i, a, b| i.bor(a, b)),
            Operator::V128Xor => self.vector_binary(lanes, |i, a, b| i.bxor(a, b)),
            Operator::V128Bitselect => {
                let (a, b, mask) = self.pop3();
                let value = self.builder.ins().bitselect(mask, a, b);
                self.push(value);
            }
            Operator::V128AnyTrue => {
                let vector = self.pop();
                let truth = self.builder.ins().vany_true(vector);
                self.push_bool(truth);
            }
            _ => return false,
        }
        true
    }
}
