//! Fuel: counting what a function executes, and ending it when none is left.
//!
//! Every operator costs 1, but those that generate no code: `nop`, `drop`, `block`, `loop`, `else`,
//! `end`, `try_table`, and of the legacy ones `try`, `catch`, `catch_all` and `delegate`. An operator that works on as many
//! bytes or elements as the guest says costs more, see [`Step`]. So the count is the same for every target, feature and
//! level of optimisation.
//!
//! What is left is in the context while anybody else may look, and in a variable meanwhile:
//!
//! ```text
//! entry      left = context; trap unless left > 0
//! run        nothing: the cost of operators that are executed one after another is summed up here ...
//! its end    left -= cost                                    ... and taken at the next place to branch
//! loop       trap unless left > 0; context = left
//! call       context = left; call; left = context
//! builtin    context = left; builtin
//! trap       context = left, less what the run has cost so far: in the cold block of the trap
//! throw      context = left
//! catch      left = context
//! return     context = left
//! tail call  context = left; the callee's entry looks at it
//! ```
//!
//! A fault that comes by a signal executes no code, and finds what was last written: it misses at most
//! the operators since then, which is no more than one pass through the code of the function.

use super::function::{FuncTranslator, Region};
use crate::translate::Env;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::Variable;
use pirn_format::exit::TrapCode;
use pirn_format::layout::CONTEXT_FUEL;
use wasmparser::Operator;

/// The count of a function while it is translated.
#[derive(Clone, Copy)]
pub(super) struct Fuel {
    /// What is left, but for what the run has cost so far.
    left: Variable,
    /// Cost of the operators since the last place to branch.
    run: i64,
}

/// What an operator does to the count.
enum Step {
    /// It goes on with the run.
    Run,
    /// It may branch: the run is over.
    Branch,
    /// It returns, or calls what returns to the caller, or asks the runtime for something.
    Out,
    /// It is the start of a loop.
    Loop,
    /// It calls code that counts by itself.
    Call,
    /// It asks the runtime for work on as many units as its last operand says, of so many (as a power
    /// of two) for a fuel of 1.
    Bulk(u8),
    /// It fills as many elements as its last operand says, if there is room for them.
    Grow,
}

/// What an operator costs by itself.
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

/// Bytes of memory, as a power of two, that are filled or copied for a fuel of 1: as many as the widest
/// scalar operator moves. An element of a table is as wide.
const BULK_BYTES_LOG2: u8 = 3;

/// What a longer length counts as: no memory and no table has so many bytes or elements, and no count wraps.
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
            match intrinsics.intrinsic(index) {
                // An instruction, or a body that does not count.
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
    /// Begins to count, in the entry block, if the module is to.
    pub(super) fn enter_fuel(&mut self) {
        if !self.env.metadata.fuel {
            return;
        }
        let left = self.builder.declare_var(types::I64);
        self.fuel = Some(Fuel { left, run: 0 });
        self.load_fuel();
        self.check_fuel();
    }

    /// Counts an operator that can be reached, before it is translated. What it gives is for
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

    /// What is to be done once an operator that was reached is translated.
    pub(super) fn fuel_after(&mut self, op: &Operator<'_>, length: Option<Value>) {
        if self.fuel.is_none() {
            return;
        }
        match (step(op, self.env), length) {
            (Step::Loop, _) => {
                self.check_fuel();
                self.store_fuel();
            }
            (Step::Call, _) => self.load_fuel(),
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

    /// Writes what is left to the context, if the module counts.
    pub(super) fn store_fuel(&mut self) {
        let Some(Fuel { left, run }) = self.fuel else {
            return;
        };
        let mut left = self.builder.use_var(left);
        if run != 0 {
            left = self.builder.ins().iadd_imm_s(left, -run);
        }
        let flags = self.flags(Region::Fuel);
        let ins = self.builder.ins();
        ins.store(flags, left, self.vmctx, CONTEXT_FUEL);
    }

    /// Reads what is left from the context.
    pub(super) fn load_fuel(&mut self) {
        let Some(Fuel { left, .. }) = self.fuel else {
            return;
        };
        let flags = self.flags(Region::Fuel);
        let ins = self.builder.ins();
        let value = ins.load(types::I64, flags, self.vmctx, CONTEXT_FUEL);
        self.builder.def_var(left, value);
    }

    /// Takes the cost of the run that ends here.
    fn end_run(&mut self) {
        let Some(fuel) = &mut self.fuel else { return };
        let (left, run) = (fuel.left, std::mem::take(&mut fuel.run));
        if run != 0 {
            let value = self.builder.use_var(left);
            let value = self.builder.ins().iadd_imm_s(value, -run);
            self.builder.def_var(left, value);
        }
    }

    /// Takes a cost that is known only when the code runs, less than 2^32, and gives what is left then.
    fn take_fuel(&mut self, cost: Value) -> Value {
        let Some(Fuel { left, .. }) = self.fuel else {
            return cost;
        };
        let value = self.builder.use_var(left);
        let value = self.builder.ins().isub(value, cost);
        self.builder.def_var(left, value);
        value
    }

    /// Traps unless there is fuel for another operator.
    fn check_fuel(&mut self) {
        let Some(Fuel { left, .. }) = self.fuel else {
            return;
        };
        let value = self.builder.use_var(left);
        let none = IntCC::SignedLessThanOrEqual;
        let none = self.builder.ins().icmp_imm_s(none, value, 0);
        self.trap_if(none, TrapCode::OutOfFuel);
    }

    /// The last operand, an i32 or i64, in 64 bits, at most [`LENGTH_MAX`].
    fn length(&mut self) -> Value {
        let length = self.peek(1)[0];
        if self.type_of(length) == types::I32 {
            return self.extend(length);
        }
        let most = self.builder.ins().iconst(types::I64, LENGTH_MAX);
        self.builder.ins().umin(length, most)
    }
}
