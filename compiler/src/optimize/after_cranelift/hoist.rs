//! Moves operators with a constant operand out of the innermost loops.
//!
//! Cranelift's optimiser rematerialises a cheap operator with a constant in each block that uses
//! it, to lower register pressure. A loop then computes `length - 1` in each iteration. This pass
//! moves such an operator in front of the loop if the loop has no other use of its operand. The
//! result then usually takes over the operand's register.

use crate::ir::values;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::packed_option::PackedOption;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, Function, Inst, InstBuilder, InstructionData, Opcode, Value};
use cranelift_codegen::loop_analysis::{Loop, LoopAnalysis};
use std::collections::HashMap;

/// Moves the operators of an optimised function.
pub(crate) fn hoist(func: &mut Function, cfg: &ControlFlowGraph, loops: &LoopAnalysis) {
    let places = places(func, cfg, loops);
    let is_outside = |value: Value, inner: Loop| {
        let home = values::home(func, value);
        // `inner` contains no other loop, so a value of another loop comes from outside.
        home.is_some_and(|home| loops.innermost_loop(home) != Some(inner))
    };
    // For each innermost loop, the uses of each value from outside, and the operators on such a
    // value.
    let mut uses: HashMap<(Loop, Value), u32> = HashMap::new();
    let mut operators = vec![];
    for block in func.layout.blocks() {
        let Some(inner) = loops.innermost_loop(block) else {
            continue;
        };
        let Some(place) = places[inner].expand() else {
            continue;
        };
        for inst in func.layout.block_insts(block) {
            for value in func.dfg.inst_values(inst) {
                let value = func.dfg.resolve_aliases(value);
                if is_outside(value, inner) {
                    *uses.entry((inner, value)).or_default() += 1;
                }
            }
            let operand = variable_operand(func, inst);
            if let Some(operand) = operand.filter(|operand| is_outside(*operand, inner)) {
                operators.push((inst, (inner, operand), place));
            }
        }
    }
    for (inst, of_loop, place) in operators {
        if uses.get(&of_loop) == Some(&1) {
            hoist_to(func, inst, place);
        }
    }
}

/// Maps each innermost loop that a single block enters to the branch of that block. The block must
/// lie directly in the enclosing loop, or in no loop if no loop encloses the innermost one.
fn places(
    func: &Function,
    cfg: &ControlFlowGraph,
    loops: &LoopAnalysis,
) -> SecondaryMap<Loop, PackedOption<Inst>> {
    let (mut places, mut outer) = (SecondaryMap::new(), EntitySet::new());
    for inner in loops.loops() {
        if let Some(parent) = loops.loop_parent(inner) {
            outer.insert(parent);
        }
    }
    for inner in loops.loops().filter(|inner| !outer.contains(*inner)) {
        let outside = |pred: &Block| loops.innermost_loop(*pred) != Some(inner);
        let preds = cfg.pred_iter(loops.loop_header(inner));
        let mut entries: Vec<_> = preds.map(|pred| pred.block).filter(outside).collect();
        entries.dedup();
        let parent = loops.loop_parent(inner);
        if let [entry] = entries[..]
            && loops.innermost_loop(entry) == parent
        {
            places[inner] = func.layout.last_inst(entry).into();
        }
    }
    places
}

/// The variable operand of an operator whose other operand is a constant. Sums of 64 bits are
/// excluded: as a part of an address, such a sum costs nothing.
fn variable_operand(func: &Function, inst: Inst) -> Option<Value> {
    let InstructionData::Binary { opcode, args } = func.dfg.insts[inst] else {
        return None;
    };
    let ty = func.dfg.value_type(args[0]);
    let is_cheap = match opcode {
        Opcode::Iadd => ty == I32,
        Opcode::Isub | Opcode::Band | Opcode::Bor | Opcode::Bxor => matches!(ty, I32 | I64),
        _ => false,
    };
    let [a, b] = args.map(|arg| func.dfg.resolve_aliases(arg));
    let known = [a, b].map(|arg| values::constant(&func.dfg, arg).is_some());
    match known {
        [true, false] if is_cheap => Some(b),
        [false, true] if is_cheap => Some(a),
        _ => None,
    }
}

/// Moves an operator with a constant before another instruction.
fn hoist_to(func: &mut Function, inst: Inst, place: Inst) {
    let InstructionData::Binary { opcode, args } = func.dfg.insts[inst] else {
        return;
    };
    let args = args.map(|arg| match values::constant(&func.dfg, arg) {
        // The constant may be defined in the loop.
        Some(constant) => {
            let ty = func.dfg.value_type(arg);
            FuncCursor::new(func)
                .at_inst(place)
                .ins()
                .iconst(ty, constant)
        }
        None => arg,
    });
    func.dfg.insts[inst] = InstructionData::Binary { opcode, args };
    func.layout.remove_inst(inst);
    func.layout.insert_inst(inst, place);
}
