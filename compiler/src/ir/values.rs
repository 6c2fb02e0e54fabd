//! Queries about the values of a translated function.

use cranelift_codegen::ir::{
    Block, DataFlowGraph, Function, Inst, InstructionData, Opcode, Value, ValueDef,
};

/// The instruction that defines a value. Block parameters have none.
pub(crate) fn definition(dfg: &DataFlowGraph, value: Value) -> Option<Inst> {
    dfg.value_def(value).inst()
}

/// The block that defines a value.
pub(crate) fn home(func: &Function, value: Value) -> Option<Block> {
    match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => func.layout.inst_block(inst),
        ValueDef::Param(block, _) => Some(block),
        ValueDef::Union(..) => None,
    }
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
