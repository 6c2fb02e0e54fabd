//! Queries about the values of a translated function.

use cranelift_codegen::entity::EntitySet;
use cranelift_codegen::ir::{
    DataFlowGraph, Function, Inst, InstructionData, Opcode, Value, ValueDef,
};

/// The instruction that defines a value. Block parameters have none.
pub(crate) fn maker(dfg: &DataFlowGraph, value: Value) -> Option<Inst> {
    dfg.value_def(value).inst()
}

/// The opcode of the instruction that defines a value.
pub(crate) fn opcode(dfg: &DataFlowGraph, value: Value) -> Option<Opcode> {
    maker(dfg, value).map(|inst| dfg.insts[inst].opcode())
}

/// The bits of an integer, if it is a constant.
pub(crate) fn constant(dfg: &DataFlowGraph, value: Value) -> Option<i64> {
    match dfg.insts[maker(dfg, value)?] {
        InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } => Some(imm.bits()),
        _ => None,
    }
}

/// Values that are used outside the block that defines them.
pub(crate) fn shared_values(func: &Function) -> EntitySet<Value> {
    let mut shared = EntitySet::new();
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            for value in func.dfg.inst_values(inst) {
                let value = func.dfg.resolve_aliases(value);
                let made = match func.dfg.value_def(value) {
                    ValueDef::Result(inst, _) => func.layout.inst_block(inst),
                    ValueDef::Param(block, _) => Some(block),
                    ValueDef::Union(..) => None,
                };
                if made != Some(block) {
                    shared.insert(value);
                }
            }
        }
    }
    shared
}
