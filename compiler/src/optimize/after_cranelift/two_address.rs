//! Rewrites operators into the form that is cheapest on x86_64.
//!
//! A two-address instruction overwrites its first operand. If the first operand is used later, the
//! register allocator copies it first. The copy is wasted if the second operand dies here, or if a
//! three-operand instruction exists. The allocator keeps the order of the operands that it
//! receives.

use crate::ir::cursor::before;
use crate::ir::edges::passed;
use crate::ir::values;
use cranelift_codegen::entity::packed_option::PackedOption;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{Function, Inst, InstBuilder, InstructionData, Opcode, Value};

/// Rewrites the operators of an optimised function. `shared` are the values that are used outside
/// the block that defines them. Values that the pass adds are used only in their own
/// block.
pub(crate) fn rewrite(func: &mut Function, shared: &EntitySet<Value>) {
    let blocks: Vec<_> = func.layout.blocks().collect();
    let mut uses = LaterUses::default();
    let carried = carried(func);
    for block in blocks {
        let mut next = func.layout.last_inst(block);
        while let Some(inst) = next {
            next = func.layout.prev_inst(inst);
            match func.dfg.insts[inst] {
                InstructionData::Binary { opcode, args } => {
                    let args = args.map(|arg| func.dfg.resolve_aliases(arg));
                    let stays = |arg| shared.contains(arg) || uses.later.contains(arg);
                    let result = func.dfg.first_result(inst);
                    let source = source(func, args[1]);
                    let is_carried = carried[result] == source.into() && !stays(source);
                    if is_carried && is_commutative(opcode) {
                        func.dfg.inst_args_mut(inst).swap(0, 1);
                    } else {
                        let is_compared = uses.compared.contains(result);
                        write(func, inst, opcode, args, args.map(stays), is_compared);
                    }
                }
                InstructionData::Store { opcode, args, .. } => {
                    let value = func.dfg.resolve_aliases(args[0]);
                    store(func, inst, opcode, value);
                }
                _ => {}
            }
            uses.note(func, inst);
        }
    }
}

/// The source of a bitcast between vector types, or the value itself. The bitcast needs no
/// instruction; vector operators need a bitcast, because each operator has a vector type of its
/// own.
fn source(func: &Function, value: Value) -> Value {
    let value = func.dfg.resolve_aliases(value);
    match values::definition(&func.dfg, value).map(|inst| func.dfg.insts[inst]) {
        Some(InstructionData::LoadNoOffset {
            opcode: Opcode::Bitcast,
            arg,
            ..
        }) if func.dfg.value_type(arg).is_vector() => func.dfg.resolve_aliases(arg),
        _ => value,
    }
}

/// Maps each value to the last block parameter for which a branch passes the value. If an operator
/// overwrites that parameter, a loop needs no copy at its end.
fn carried(func: &Function) -> SecondaryMap<Value, PackedOption<Value>> {
    let mut carried = SecondaryMap::new();
    for passed in passed(func) {
        if let Some(value) = passed.value {
            carried[source(func, value)] = passed.param.into();
        }
    }
    carried
}

/// Whether the operands of an operator can be swapped. Operands of floating-point operators can be
/// swapped, too: WebAssembly does not say which NaN an operator returns (spec 4.3.3).
fn is_commutative(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Iadd
            | Opcode::Band
            | Opcode::Bor
            | Opcode::Bxor
            | Opcode::Imul
            | Opcode::Fadd
            | Opcode::Fmul
    )
}

/// How instructions after the current one use values.
#[derive(Default)]
struct LaterUses {
    /// Values that a later instruction uses.
    later: EntitySet<Value>,
    /// Values that are compared with zero or branched on. Lowering tests their bits without
    /// computing the masked value.
    compared: EntitySet<Value>,
}

impl LaterUses {
    fn note(&mut self, func: &Function, inst: Inst) {
        let opcode = func.dfg.insts[inst].opcode();
        let is_zero = |value: &Value| values::constant(&func.dfg, *value) == Some(0);
        let compares = match opcode {
            Opcode::Icmp => func.dfg.inst_args(inst).iter().any(is_zero),
            _ => matches!(opcode, Opcode::Brif | Opcode::Select),
        };
        for value in func.dfg.inst_values(inst) {
            let value = func.dfg.resolve_aliases(value);
            self.later.insert(value);
            if compares {
                self.compared.insert(value);
            }
        }
    }
}

/// Rewrites one operator. The caller knows whether its operands are used later.
fn write(
    func: &mut Function,
    inst: Inst,
    opcode: Opcode,
    [a, b]: [Value; 2],
    [a_stays, b_stays]: [bool; 2],
    is_compared: bool,
) {
    let ty = func.dfg.value_type(a);
    let known = [a, b].map(|value| values::constant(&func.dfg, value));
    let is_vector_constant = values::opcode(&func.dfg, b) == Some(Opcode::Vconst);
    match (opcode, known) {
        // MOVZX.
        (Opcode::Band, [_, Some(mask)]) if !is_compared => {
            let narrow = match (ty, mask) {
                (I32 | I64, 0xff) => I8,
                (I32 | I64, 0xffff) => I16,
                (I64, 0xffff_ffff) => I32,
                _ => return,
            };
            let low = before(func, inst).ins().ireduce(narrow, a);
            let opcode = Opcode::Uextend;
            func.dfg.insts[inst] = InstructionData::Unary { opcode, arg: low };
        }
        // LEA.
        (Opcode::Imul, [_, Some(factor @ (3 | 5 | 9))]) if matches!(ty, I32 | I64) => {
            let mut cursor = before(func, inst);
            let by = i64::from((factor - 1).trailing_zeros());
            let by = cursor.ins().iconst(ty, by);
            let others = cursor.ins().ishl(a, by);
            let (opcode, args) = (Opcode::Iadd, [a, others]);
            func.dfg.insts[inst] = InstructionData::Binary { opcode, args };
        }
        (Opcode::Isub, [_, Some(constant)]) if a_stays && matches!(ty, I32 | I64) => {
            let negative = match ty {
                I32 => i64::from((constant as u32).wrapping_neg()),
                _ => constant.wrapping_neg(),
            };
            let negative = before(func, inst).ins().iconst(ty, negative);
            let (opcode, args) = (Opcode::Iadd, [a, negative]);
            func.dfg.insts[inst] = InstructionData::Binary { opcode, args };
        }
        // Commutative operators. A constant must be the second operand to become an immediate.
        (Opcode::Iadd | Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Imul, [of_a, None])
            if (a_stays || of_a.is_some()) && !b_stays && !is_vector_constant =>
        {
            func.dfg.inst_args_mut(inst).swap(0, 1);
        }
        _ => {}
    }
}

/// Turns the store of a constant's low bits into the store of a narrow constant, which is an
/// immediate operand.
fn store(func: &mut Function, inst: Inst, opcode: Opcode, value: Value) {
    let ty = match opcode {
        Opcode::Istore8 => I8,
        Opcode::Istore16 => I16,
        Opcode::Istore32 => I32,
        _ => return,
    };
    if let Some(constant) = values::constant(&func.dfg, value) {
        let low = constant & ((1 << ty.bits()) - 1);
        let low = before(func, inst).ins().iconst(ty, low);
        if let InstructionData::Store { opcode, args, .. } = &mut func.dfg.insts[inst] {
            (*opcode, args[0]) = (Opcode::Store, low);
        }
    }
}
