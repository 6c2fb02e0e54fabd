//! Compares the next value of a loop's counter instead of the current one.
//!
//! A loop often ends with a branch on `i == 99` that passes `i + 1` to the next iteration. The
//! counter and its next value are then both needed, in two registers. The loop ends with a copy,
//! which Cranelift places in a block of its own: two branches in each iteration. `i + 1 == 100` is
//! equivalent, also if the sum wraps, and needs one register.

use crate::ir::liveness::shared_values;
use crate::ir::values;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    Block, BlockCall, Function, Inst, InstBuilder, InstructionData, Opcode, Value,
};

/// Rewrites the compares of loops that are one block.
pub(crate) fn compare_next(func: &mut Function) {
    let ends = func
        .layout
        .blocks()
        .filter_map(|block| End::of(func, block));
    let ends: Vec<_> = ends.collect();
    if ends.is_empty() {
        return;
    }
    let shared = shared_values(func);
    for end in ends {
        if !shared.contains(end.counter) {
            end.rewrite(func);
        }
    }
}

/// The end of a loop that can be rewritten.
struct End {
    branch: Inst,
    condition: IntCC,
    counter: Value,
    /// The counter's next value, and the number in the comparison.
    next: Value,
    number: i64,
}

impl End {
    fn of(func: &Function, block: Block) -> Option<Self> {
        let dfg = &func.dfg;
        let branch = func.layout.last_inst(block)?;
        let InstructionData::Brif { arg, blocks, .. } = &dfg.insts[branch] else {
            return None;
        };
        let compare = values::definition(dfg, *arg)?;
        let InstructionData::IntCompare {
            opcode: Opcode::Icmp,
            cond: condition @ (IntCC::Equal | IntCC::NotEqual),
            args: [counter, number],
        } = dfg.insts[compare]
        else {
            return None;
        };
        let (counter, number) = (dfg.resolve_aliases(counter), values::constant(dfg, number)?);
        let ty = dfg.value_type(counter);
        let place = dfg
            .block_params(block)
            .iter()
            .position(|it| *it == counter)?;
        let back = blocks
            .iter()
            .find(|call| call.block(&dfg.value_lists) == block)?;
        let next = dfg.resolve_aliases(back.args(&dfg.value_lists).nth(place)?.as_value()?);
        let InstructionData::Binary {
            opcode: Opcode::Iadd,
            args: [summand, step],
        } = dfg.insts[values::definition(dfg, next)?]
        else {
            return None;
        };
        let step = values::constant(dfg, step)?;
        let number = match ty {
            I32 => i64::from((number as u32).wrapping_add(step as u32)),
            I64 => number.wrapping_add(step),
            _ => return None,
        };
        // A compare of 64 bits takes an immediate of 32 signed bits; a larger number would need a
        // register. Neither the next iteration nor the code after the loop may need the counter.
        let is_short = ty == I32 || i32::try_from(number).is_ok();
        let is_counter = dfg.resolve_aliases(summand) == counter;
        let is_passed = |call: &BlockCall| {
            let mut passed = call.args(&dfg.value_lists).filter_map(|it| it.as_value());
            passed.any(|value| dfg.resolve_aliases(value) == counter)
        };
        let ends = is_short && is_counter && !blocks.iter().any(is_passed);
        ends.then_some(Self {
            branch,
            condition,
            counter,
            next,
            number,
        })
    }

    fn rewrite(&self, func: &mut Function) {
        let ty = func.dfg.value_type(self.next);
        let mut cursor = FuncCursor::new(func).at_inst(self.branch);
        let number = cursor.ins().iconst(ty, self.number);
        let compared = cursor.ins().icmp(self.condition, self.next, number);
        if let InstructionData::Brif { arg, .. } = &mut func.dfg.insts[self.branch] {
            *arg = compared;
        }
    }
}
