//! Fuel: counts the operators that a function executes, and stops the guest when no fuel is left.
//!
//! Every operator costs 1, except operators that generate no code: `nop`, `drop`, `block`, `loop`,
//! `else`, `end`, `try_table`, and the legacy `try`, `catch`, `catch_all` and `delegate`. An
//! operator on a number of bytes or elements that the guest computes costs more, see [`Step`]. So
//! the count does not depend on target, features or optimisation level.
//!
//! The remaining fuel is in the context while other code may read it, and in a variable otherwise:
//!
//! ```text
//! entry      left = context; trap unless left > 0
//! run        nothing: the translator sums up the cost of consecutive operators ...
//! its end    left -= cost                          ... and subtracts it at the next branch point
//! loop       trap unless left > 0; context = left
//! call       context = left; call; left = context
//! builtin    context = left; builtin
//! trap       context = left - cost of the run so far, in the cold block of the trap
//! throw      context = left
//! catch      left = context
//! return     context = left
//! tail call  context = left; the callee checks it at its entry
//! ```
//!
//! A fault that raises a signal executes no such code and finds the value that was stored last. The
//! count misses at most the operators since then, no more than one pass through the function's
//! code.

use super::Env;
use super::function::{FuelCounter, FuncTranslator, Region};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use pirn_format::exit::TrapCode;
use pirn_format::layout::CONTEXT_FUEL;
use wasmparser::Operator;

/// The effect of an operator on the counter.
enum Step {
    /// The operator continues the current run.
    Run,
    /// The operator may branch, so the run ends.
    Branch,
    /// The operator returns, makes a call that does not return here, or calls the runtime.
    Out,
    /// The operator starts a loop.
    Loop,
    /// The operator calls code that counts its own fuel.
    Call,
    /// The last operand is a number of units to process. For the number `n` here, `2^n` units cost
    /// a fuel of 1.
    Bulk(u8),
    /// `table.grow`, which fills as many elements as its last operand says, if the table has room.
    Grow,
}

/// The fixed cost of an operator.
fn cost(op: &Operator<'_>) -> i64 {
    match op {
        Operator::Nop
        | Operator::Drop
        | Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::TryTable { .. }
        | Operator::Try { .. }
        | Operator::Catch { .. }
        | Operator::CatchAll
        | Operator::Delegate { .. }
        | Operator::Else
        | Operator::End => 0,
        _ => 1,
    }
}

/// Log2 of the bytes of memory that are filled or copied for a fuel of 1. The widest scalar
/// operator and a table element have this width.
const BULK_BYTES_LOG2: u8 = 3;

/// Larger lengths are clamped to this number. Every memory and table has fewer bytes or elements,
/// and no count wraps.
const LENGTH_MAX: i64 = u32::MAX as i64;

fn step(op: &Operator<'_>, env: Env<'_>) -> Step {
    let intrinsics = env.intrinsics;
    match *op {
        Operator::ArrayNew { array_type_index }
        | Operator::ArrayNewDefault { array_type_index }
        | Operator::ArrayNewData {
            array_type_index, ..
        }
        | Operator::ArrayFill { array_type_index }
        | Operator::ArrayInitData {
            array_type_index, ..
        }
        | Operator::ArrayCopy {
            array_type_index_dst: array_type_index,
            ..
        } => {
            let element = env.metadata.array_element(array_type_index);
            let log2 = element.map_or(0, |element| element.storage.log2() as u8);
            return Step::Bulk(BULK_BYTES_LOG2.saturating_sub(log2));
        }
        Operator::ArrayNewElem { .. } | Operator::ArrayInitElem { .. } => return Step::Bulk(0),
        _ => {}
    }
    match op {
        Operator::If { .. }
        | Operator::Else
        | Operator::End
        | Operator::Br { .. }
        | Operator::BrIf { .. }
        | Operator::BrOnNull { .. }
        | Operator::BrOnNonNull { .. }
        | Operator::BrOnCast { .. }
        | Operator::BrOnCastFail { .. }
        | Operator::BrTable { .. }
        | Operator::Catch { .. }
        | Operator::CatchAll
        | Operator::Delegate { .. }
        | Operator::Unreachable => Step::Branch,
        Operator::Return
        | Operator::ReturnCall { .. }
        | Operator::ReturnCallIndirect { .. }
        | Operator::ReturnCallRef { .. }
        | Operator::Throw { .. }
        | Operator::ThrowRef
        | Operator::Rethrow { .. }
        | Operator::MemoryGrow { .. }
        | Operator::MemoryAtomicWait32 { .. }
        | Operator::MemoryAtomicWait64 { .. }
        | Operator::MemoryAtomicNotify { .. } => Step::Out,
        Operator::Loop { .. } => Step::Loop,
        Operator::Call { function_index } => {
            let index = intrinsics.index(*function_index);
            match intrinsics.provided(index) {
                // Becomes an instruction, an operator, or a call of a body that does not count
                // fuel.
                Some(_) => Step::Run,
                None => Step::Call,
            }
        }
        Operator::CallIndirect { .. } | Operator::CallRef { .. } => Step::Call,
        Operator::MemoryFill { .. } | Operator::MemoryCopy { .. } | Operator::MemoryInit { .. } => {
            Step::Bulk(BULK_BYTES_LOG2)
        }
        Operator::TableFill { .. } | Operator::TableCopy { .. } | Operator::TableInit { .. } => {
            Step::Bulk(0)
        }
        Operator::TableGrow { .. } => Step::Grow,
        _ => Step::Run,
    }
}

impl FuncTranslator<'_, '_> {
    /// Starts to count in the entry block, if the module counts fuel.
    pub(super) fn enter_fuel(&mut self) {
        if !self.env.metadata.fuel {
            return;
        }
        let left = self.builder.declare_var(types::I64);
        self.fuel = Some(FuelCounter { left, run: 0 });
        self.load_fuel();
        self.check_fuel();
    }

    /// Counts a reachable operator before it is translated. The result is an argument of
    /// [`fuel_after`](Self::fuel_after).
    pub(super) fn fuel_before(&mut self, op: &Operator<'_>) -> Option<Value> {
        let fuel = self.fuel.as_mut()?;
        fuel.run += cost(op);
        match step(op, self.env) {
            Step::Run => {}
            Step::Branch | Step::Loop => self.end_run(),
            Step::Out | Step::Call => {
                self.end_run();
                self.store_fuel();
            }
            Step::Bulk(units_log2) => {
                self.end_run();
                let length = self.length();
                let units = i64::from(units_log2);
                let cost = self.builder.ins().ushr_imm_u(length, units);
                let left = self.take_fuel(cost);
                let short = IntCC::SignedLessThan;
                let short = self.builder.ins().icmp_imm_s(short, left, 0);
                self.trap_if(short, TrapCode::OutOfFuel);
                self.store_fuel();
            }
            Step::Grow => {
                self.end_run();
                self.store_fuel();
                return Some(self.length());
            }
        }
        None
    }

    /// Completes the count of a reachable operator after it is translated.
    pub(super) fn fuel_after(&mut self, op: &Operator<'_>, length: Option<Value>) {
        if self.fuel.is_none() {
            return;
        }
        match (step(op, self.env), length) {
            (Step::Loop, _) => {
                self.check_fuel();
                self.store_fuel();
            }
            (Step::Call, _) if self.reachable => self.load_fuel(),
            (Step::Grow, Some(delta)) => {
                let previous = self.peek(1)[0];
                let failed = self.builder.ins().icmp_imm_s(IntCC::Equal, previous, -1);
                let zero = self.builder.ins().iconst(types::I64, 0);
                let cost = self.builder.ins().select(failed, zero, delta);
                self.take_fuel(cost);
            }
            _ => {}
        }
    }

    /// Stores the remaining fuel to the context, if the module counts fuel.
    pub(super) fn store_fuel(&mut self) {
        let Some(FuelCounter { left, run }) = self.fuel else {
            return;
        };
        let mut left = self.builder.use_var(left);
        if run != 0 {
            left = self.builder.ins().iadd_imm_s(left, -run);
        }
        let flags = self.flags(Region::Fuel);
        let place = CONTEXT_FUEL;
        #[cfg(feature = "faults")]
        let place = place + 8 * i32::from(self.has(crate::faults::Fault::FuelElsewhere));
        let ins = self.builder.ins();
        ins.store(flags, left, self.vmctx, place);
    }

    /// Loads the remaining fuel from the context.
    pub(super) fn load_fuel(&mut self) {
        let Some(FuelCounter { left, .. }) = self.fuel else {
            return;
        };
        let flags = self.flags(Region::Fuel);
        let ins = self.builder.ins();
        let value = ins.load(types::I64, flags, self.vmctx, CONTEXT_FUEL);
        self.builder.def_var(left, value);
    }

    /// Subtracts the cost of the run that ends here.
    fn end_run(&mut self) {
        let Some(fuel) = &mut self.fuel else { return };
        let (left, run) = (fuel.left, std::mem::take(&mut fuel.run));
        if run != 0 {
            let value = self.builder.use_var(left);
            let value = self.builder.ins().iadd_imm_s(value, -run);
            self.builder.def_var(left, value);
        }
    }

    /// Subtracts a cost below 2^32 that is computed at run time. Returns the remaining fuel.
    fn take_fuel(&mut self, cost: Value) -> Value {
        let Some(FuelCounter { left, .. }) = self.fuel else {
            return cost;
        };
        let value = self.builder.use_var(left);
        let value = self.builder.ins().isub(value, cost);
        self.builder.def_var(left, value);
        value
    }

    /// Traps unless fuel is left.
    pub(super) fn check_fuel(&mut self) {
        let Some(FuelCounter { left, .. }) = self.fuel else {
            return;
        };
        let value = self.builder.use_var(left);
        let none = IntCC::SignedLessThanOrEqual;
        let none = self.builder.ins().icmp_imm_s(none, value, 0);
        self.trap_if(none, TrapCode::OutOfFuel);
    }

    /// The last operand, an i32 or i64, as 64 bits, clamped to [`LENGTH_MAX`].
    fn length(&mut self) -> Value {
        let length = self.peek(1)[0];
        if self.type_of(length) == types::I32 {
            return self.extend(length);
        }
        let most = self.builder.ins().iconst(types::I64, LENGTH_MAX);
        self.builder.ins().umin(length, most)
    }
}
