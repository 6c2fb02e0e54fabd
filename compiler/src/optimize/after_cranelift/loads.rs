//! Turns loads into memory operands of the instructions that use them.
//!
//! Lowering folds a load into its only user if no instruction with an effect lies between them. The
//! user's result must itself have one user, and so on, because lowering might emit a value twice if
//! it has two users. So this pass moves a user directly after its load, if its other operand is
//! defined before that place. A result with several users then goes through a 128-bit value:
//! splitting that has two results, so lowering knows that the user is emitted once. The split needs
//! no instruction.
//!
//! The folded instruction carries the user's source location, so a trap would report that location.
//! [`locate`] therefore gives the user the location of the load.

use crate::intrinsics::placeholder::Placeholders;
use crate::ir::block::is_free;
use crate::ir::cursor::before;
use crate::ir::values;
use cranelift_codegen::cursor::Cursor;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Function, Inst, InstBuilder, InstructionData, Opcode, Type, Value};

/// How many levels of users are examined.
const DEPTH_MAX: usize = 16;

/// How often a value is used, and its last user.
#[derive(Clone, Copy, Default)]
struct UseCount {
    count: u32,
    last: Option<Inst>,
}

/// The uses of each value of a function.
pub(crate) struct ValueUses(SecondaryMap<Value, UseCount>);

impl ValueUses {
    pub(crate) fn of(func: &Function) -> Self {
        let mut uses = SecondaryMap::<Value, UseCount>::new();
        uses.resize(func.dfg.num_values());
        let blocks = func.layout.blocks();
        for inst in blocks.flat_map(|block| func.layout.block_insts(block)) {
            for value in func.dfg.inst_values(inst) {
                let uses = &mut uses[func.dfg.resolve_aliases(value)];
                uses.count += 1;
                uses.last = Some(inst);
            }
        }
        Self(uses)
    }

    /// Whether a value is used once.
    pub(crate) fn is_once(&self, value: Value) -> bool {
        self.0[value].count == 1
    }

    /// The only user of a value that is used once.
    fn only(&self, value: Value) -> Option<Inst> {
        self.0[value].last.filter(|_| self.0[value].count == 1)
    }
}

/// Whether values of a type may be memory operands.
pub(crate) fn is_operand(ty: Type) -> bool {
    matches!(ty, I32 | I64)
}

/// The other operand of an instruction that can have `value` as its memory operand.
pub(crate) fn other_operand(func: &Function, inst: Inst, value: Value) -> Option<Value> {
    let InstructionData::Binary { opcode, args } = func.dfg.insts[inst] else {
        return None;
    };
    let [a, b] = args.map(|arg| func.dfg.resolve_aliases(arg));
    let other = match opcode {
        Opcode::Iadd | Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Imul if a == value => b,
        Opcode::Iadd | Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Imul | Opcode::Isub
            if b == value =>
        {
            a
        }
        _ => return None,
    };
    let is_constant = values::constant(&func.dfg, other).is_some();
    (other != value && !is_constant).then_some(other)
}

/// Gives the source location of each load to its only user, because a trap in the folded
/// instruction reports that location. Skips placeholders of intrinsics, because their own location
/// identifies them.
pub(crate) fn locate(func: &mut Function, uses: &ValueUses, placeholders: &Placeholders) {
    let blocks: Vec<_> = func.layout.blocks().collect();
    for block in blocks {
        let mut next = func.layout.first_inst(block);
        while let Some(inst) = next {
            next = func.layout.next_inst(inst);
            if !matches!(func.dfg.insts[inst], InstructionData::Load { .. }) {
                continue;
            }
            let place = func.srcloc(inst);
            let mut value = func.dfg.first_result(inst);
            while let Some(user) = uses.only(value) {
                let opcode = func.dfg.insts[user].opcode();
                let is_here = func.layout.inst_block(user) == Some(block);
                let is_listed = placeholders.contains_key(&func.srcloc(user).bits());
                if is_here && !is_listed && (is_free(opcode) || opcode == Opcode::Brif) {
                    func.set_srcloc(user, place);
                }
                // Lowering fuses a compare with the branch that uses it.
                if !matches!(opcode, Opcode::Icmp | Opcode::Fcmp) {
                    break;
                }
                value = func.dfg.first_result(user);
            }
        }
    }
}

/// Moves users to their loads, so that lowering folds the loads into them. `shared` are the values
/// that are used outside the block that defines them.
pub(crate) fn fold(func: &mut Function, uses: &ValueUses, shared: &EntitySet<Value>) {
    let mut positions = SecondaryMap::<Inst, u32>::new();
    let blocks: Vec<_> = func.layout.blocks().collect();
    let insts = blocks
        .iter()
        .flat_map(|block| func.layout.block_insts(*block));
    for (position, inst) in (0..).zip(insts) {
        positions[inst] = position;
    }
    for block in blocks {
        let mut next = func.layout.last_inst(block);
        // The next instruction with an effect.
        let mut effect = None;
        while let Some(inst) = next {
            next = func.layout.prev_inst(inst);
            let opcode = func.dfg.insts[inst].opcode();
            if is_free(opcode) {
                continue;
            }
            let Some(next_effect) = effect.replace(inst).filter(|_| opcode == Opcode::Load) else {
                continue;
            };
            let loaded = func.dfg.first_result(inst);
            let is_whole = is_operand(func.dfg.value_type(loaded));
            let Some(user) = uses.only(loaded).filter(|_| is_whole) else {
                continue;
            };
            let Some(other) = other_operand(func, user, loaded) else {
                continue;
            };
            let ends = uses.0[other].last == Some(user) && !shared.contains(other);
            if !ends || func.layout.inst_block(user) != Some(block) {
                continue;
            }
            if positions[user] > positions[next_effect] {
                let definition = values::definition(&func.dfg, other);
                let is_late = |definition: &Inst| {
                    let is_here = func.layout.inst_block(*definition) == Some(block);
                    is_here && positions[*definition] >= positions[next_effect]
                };
                if definition.filter(is_late).is_some() {
                    continue;
                }
                func.layout.remove_inst(user);
                func.layout.insert_inst(user, next_effect);
                // The user now precedes the next effect.
                positions[user] = positions[next_effect];
            }
            let result = func.dfg.first_result(user);
            if is_used_twice(func, uses, result) {
                make_once(func, user);
                if let Some(definition) = values::definition(&func.dfg, result) {
                    positions[definition] = positions[user];
                }
            }
        }
    }
}

/// Whether a value, or a value computed from it alone, has more than one user.
fn is_used_twice(func: &Function, uses: &ValueUses, mut value: Value) -> bool {
    for _ in 0..DEPTH_MAX {
        let Some(user) = uses.only(value) else {
            return uses.0[value].count > 1;
        };
        let results = func.dfg.inst_results(user);
        if !is_free(func.dfg.insts[user].opcode()) || results.len() != 1 {
            return false;
        }
        value = results[0];
    }
    true
}

/// Makes lowering emit an operator once, although its result has several users.
fn make_once(func: &mut Function, inst: Inst) {
    let InstructionData::Binary { opcode, args } = func.dfg.insts[inst] else {
        return;
    };
    // Any i64 that is available serves as the upper half, because the upper half is not used.
    let entry = func.layout.entry_block().expect("a function with a body");
    let is_half = |param: &&Value| func.dfg.value_type(**param) == I64;
    let params = func.dfg.block_params(entry);
    let Some(vmctx) = params.first().filter(is_half).copied() else {
        return;
    };
    let result = func.dfg.first_result(inst);
    let ty = func.dfg.value_type(result);
    func.dfg.clear_results(inst);
    let mut cursor = before(func, inst);
    let (operator, dfg) = cursor.ins().Binary(opcode, ty, args[0], args[1]);
    let once = dfg.first_result(operator);
    if ty == I32 {
        let once = cursor.ins().uextend(I64, once);
        let both = cursor.ins().iconcat(once, vmctx);
        let (low, _) = cursor.ins().isplit(both);
        cursor.ins().with_result(result).ireduce(I32, low);
    } else {
        let both = cursor.ins().iconcat(once, vmctx);
        cursor.ins().with_results([Some(result), None]).isplit(both);
    }
    cursor.remove_inst();
}
