//! Queries about the values of a translated function.

use cranelift_codegen::ir::{DataFlowGraph, Inst, InstructionData, Opcode, Value};

/// The instruction that defines a value. Block parameters have none.
pub(crate) fn definition(dfg: &DataFlowGraph, value: Value) -> Option<Inst> {
    dfg.value_def(value).inst()
}

/// The opcode of the instruction that defines a value.
pub(crate) fn opcode(dfg: &DataFlowGraph, value: Value) -> Option<Opcode> {
    definition(dfg, value).map(|inst| dfg.insts[inst].opcode())
}

/// The bits of an integer, if it is a constant.
pub(crate) fn constant(dfg: &DataFlowGraph, value: Value) -> Option<i64> {
    match dfg.insts[definition(dfg, value)?] {
        InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } => Some(imm.bits()),
        _ => None,
    }
}
