//! Converts constant expressions from the validator's form to the format's.

use super::unsupported;
use crate::error::CompileError;
use crate::intrinsics::imports::Imports;
use crate::limits;
use pirn_format::metadata::{ConstExpr, ConstOp};
use wasmparser::Operator;

/// Converts a validated expression. Adds functions that the expression refers to, by the compiler's
/// indices, to `address_taken`.
pub(super) fn expr(
    expr: &wasmparser::ConstExpr<'_>,
    intrinsics: &Imports,
    address_taken: &mut Vec<u32>,
) -> Result<ConstExpr, CompileError> {
    let mut ops = vec![];
    for op in expr.get_operators_reader() {
        ops.push(match op? {
            Operator::I32Const { value } => ConstOp::I32(value),
            Operator::I64Const { value } => ConstOp::I64(value),
            Operator::F32Const { value } => ConstOp::F32(value.bits()),
            Operator::F64Const { value } => ConstOp::F64(value.bits()),
            Operator::V128Const { value } => ConstOp::V128(*value.bytes()),
            Operator::RefNull { .. } => ConstOp::RefNull,
            Operator::RefFunc { function_index } => {
                let index = intrinsics.index(function_index);
                address_taken.push(index);
                ConstOp::RefFunc(index)
            }
            Operator::GlobalGet { global_index } => ConstOp::GlobalGet(global_index),
            Operator::RefI31 => ConstOp::RefI31,
            Operator::StructNew { struct_type_index } => ConstOp::StructNew(struct_type_index),
            Operator::StructNewDefault { struct_type_index } => {
                ConstOp::StructNewDefault(struct_type_index)
            }
            Operator::ArrayNew { array_type_index } => ConstOp::ArrayNew(array_type_index),
            Operator::ArrayNewDefault { array_type_index } => {
                ConstOp::ArrayNewDefault(array_type_index)
            }
            Operator::ArrayNewFixed {
                array_type_index,
                array_size,
            } => ConstOp::ArrayNewFixed(array_type_index, array_size),
            Operator::AnyConvertExtern => ConstOp::AnyConvertExtern,
            Operator::ExternConvertAny => ConstOp::ExternConvertAny,
            Operator::I32Add => ConstOp::I32Add,
            Operator::I32Sub => ConstOp::I32Sub,
            Operator::I32Mul => ConstOp::I32Mul,
            Operator::I64Add => ConstOp::I64Add,
            Operator::I64Sub => ConstOp::I64Sub,
            Operator::I64Mul => ConstOp::I64Mul,
            Operator::End => break,
            other => {
                let name = format!("{other:?}");
                return Err(unsupported(&format!("{name} in a constant expression")));
            }
        });
    }
    limits::CONSTANT_OPERATORS.check(ops.len() as u64)?;
    Ok(ConstExpr(ops))
}
