//! One instruction: the dispatch to the code that knows its effects, and where execution continues.

use super::{Step, list};
use crate::abi::RSP;
use crate::comparison::{Comparison, Relation};
use crate::error::{Proof, Property, refuse};
use crate::state::Slot;
use crate::value::{Kind, Value};
use crate::walk::Next;
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};

impl Step<'_, '_> {
    /// Proves the instruction, and changes the state as the instruction does.
    pub(super) fn run(mut self) -> Proof<Next> {
        let mnemonic = self.instruction.mnemonic();
        if list::is_jcc(mnemonic) {
            return self.branch();
        }
        match mnemonic {
            Mnemonic::Jmp => return self.jump(),
            Mnemonic::Call => self.call()?,
            Mnemonic::Ret => {
                self.ret()?;
                return Ok(Next::Ends);
            }
            Mnemonic::Ud2 => {
                self.needs_trap("raises a fault")?;
                return Ok(Next::Ends);
            }
            Mnemonic::Push => {
                let value = self.read(0)?;
                self.push(value)?;
            }
            Mnemonic::Pop => {
                let value = self.pop()?;
                self.write(value)?;
            }
            Mnemonic::Sub if self.is_probe() => return self.probe(),
            _ => self.compute()?,
        }
        Ok(Next::Falls)
    }

    /// A conditional branch.
    fn branch(&mut self) -> Proof<Next> {
        self.reads_flags(self.instruction.rflags_read())?;
        let target = self.instruction.near_branch_target() as u32;
        let relation = relation(self.instruction.condition_code());
        let compared = self.state.flags.zip(relation);
        self.branch_on(target, compared)
    }

    /// An unconditional jump: within the function, by a jump table, or a tail call.
    fn jump(&mut self) -> Proof<Next> {
        let entry = self.walk.entry;
        if self.instruction.op0_kind() == OpKind::NearBranch64 {
            let target = self.instruction.near_branch_target() as u32;
            if (entry.start + 1..entry.start + entry.len).contains(&target) {
                return Ok(Next::Jumps(target));
            }
            self.tail_call_direct(target)?;
            return Ok(Next::Ends);
        }
        let target = self.read(0)?;
        match self.computed_jump(target)? {
            Some(next) => Ok(next),
            None => {
                self.tail_call(target)?;
                Ok(Next::Ends)
            }
        }
    }

    fn call(&mut self) -> Proof<()> {
        let next = self.instruction.next_ip() as u32;
        if self.instruction.op0_kind() == OpKind::NearBranch64 {
            let target = self.instruction.near_branch_target() as u32;
            return self.call_direct(target, next);
        }
        let target = self.read(0)?;
        self.call_indirect(target, next)
    }

    fn ret(&mut self) -> Proof<()> {
        let popped = match self.instruction.op_count() {
            0 => 0,
            _ => self.instruction.immediate(0) as i32,
        };
        self.returns(popped)
    }

    fn push(&mut self, value: Value) -> Proof<()> {
        // The stack pointer is never above the arguments, so the word is not the caller's.
        let at = self.stack_pointer()? - 8;
        if at == 0 {
            self.leaves_return_address()?;
        }
        self.state.registers[RSP] = Value::at(Kind::Stack, i64::from(at));
        crate::frame::touch(self.state, at)?;
        self.state.set_slot(at, Slot::whole(value));
        Ok(())
    }

    fn pop(&mut self) -> Proof<Value> {
        let at = self.stack_pointer()?;
        if at == 0 {
            self.leaves_return_address()?;
        }
        let slot = self.state.slot(at);
        if slot.written != u8::MAX || at + 8 > self.state.top() {
            return refuse(
                Property::Stack,
                format!("pops byte {at}, which was not written"),
            );
        }
        self.state.registers[RSP] = Value::at(Kind::Stack, i64::from(at) + 8);
        Ok(slot.value)
    }

    /// Whether the instruction starts the loop that touches each page of a large frame:
    ///
    /// ```text
    /// sub rsp, page;  mov [rsp], 0;  cmp end, rsp;  jne sub
    /// ```
    ///
    /// The operands of the comparison may be in either order.
    fn is_probe(&mut self) -> bool {
        let first = self.instruction;
        if first.op0_register() != Register::RSP
            || !is_immediate(&first, 1)
            || !self.walk.is_leader(self.at)
        {
            return false;
        }
        let mut at = first.next_ip() as u32;
        let mut next = || {
            let instruction = self.walk.instruction(at).ok()?;
            at = instruction.next_ip() as u32;
            Some(instruction)
        };
        let (Some(touch), Some(compare), Some(branch)) = (next(), next(), next()) else {
            return false;
        };
        touch.mnemonic() == Mnemonic::Mov
            && touch.op0_kind() == OpKind::Memory
            && touch.memory_base() == Register::RSP
            && touch.memory_index() == Register::None
            && touch.memory_displacement64() == 0
            && compare.mnemonic() == Mnemonic::Cmp
            && probe_end(&compare).is_some()
            && branch.mnemonic() == Mnemonic::Jne
            && branch.near_branch_target() == u64::from(self.at)
    }

    /// Proves the whole loop of [`is_probe`](Self::is_probe).
    fn probe(&mut self) -> Proof<Next> {
        let step = self.instruction.immediate(1).cast_signed();
        let start = self.stack_pointer()?;
        let touch_at = self.instruction.next_ip() as u32;
        let compare_at = self.walk.instruction(touch_at)?.next_ip() as u32;
        let compare = self.walk.instruction(compare_at)?;
        let branch = self.walk.instruction(compare.next_ip() as u32)?;
        let Some(end) = probe_end(&compare) else {
            return refuse(
                Property::Stack,
                "compares no register with the stack pointer",
            );
        };
        let end = self.read_register(end);
        let distance = end
            .exact()
            .and_then(|end| i64::from(start).checked_sub(end));
        let is_sound = end.kind == Kind::Stack
            && (8..=4096).contains(&step)
            && distance.is_some_and(|distance| distance > 0 && distance % step == 0);
        let (true, Some(end)) = (is_sound, end.exact()) else {
            return refuse(
                Property::Stack,
                format!("touches the frame in steps of {step} bytes that do not meet its end"),
            );
        };
        crate::frame::touch(self.state, start - step as i32)?;
        self.state.forget_below(start);
        self.state.registers[RSP] = end_of_stack(end)?;
        // The loop has touched the pages between `start` and `end`.
        self.state.touched = self.state.touched.min(end as i32);
        crate::frame::touch(self.state, end as i32)?;
        (self.state.flags, self.state.readable) = (None, 0);
        Ok(Next::Jumps(branch.next_ip() as u32))
    }
}

/// The register that a comparison compares with the stack pointer.
fn probe_end(compare: &Instruction) -> Option<Register> {
    match (compare.op0_register(), compare.op1_register()) {
        (Register::RSP, end) | (end, Register::RSP) if end.is_gpr64() => Some(end),
        _ => None,
    }
}

fn is_immediate(instruction: &Instruction, operand: u32) -> bool {
    !matches!(
        instruction.op_kind(operand),
        OpKind::Register | OpKind::Memory
    )
}

fn end_of_stack(end: i64) -> Proof<Value> {
    match i32::try_from(end) {
        Ok(_) => Ok(Value::at(Kind::Stack, end)),
        Err(_) => refuse(Property::Stack, "a frame of more than 2 GiB"),
    }
}

/// The relation that a condition tests after a comparison.
pub(super) fn relation(condition: ConditionCode) -> Option<Relation> {
    Some(match condition {
        ConditionCode::b => Relation::Below,
        ConditionCode::ae => Relation::NotBelow,
        ConditionCode::e => Relation::Equal,
        ConditionCode::ne => Relation::NotEqual,
        ConditionCode::be => Relation::NotAbove,
        ConditionCode::a => Relation::Above,
        ConditionCode::l => Relation::Less,
        ConditionCode::ge => Relation::NotLess,
        ConditionCode::le => Relation::NotGreater,
        ConditionCode::g => Relation::Greater,
        _ => return None,
    })
}

impl Step<'_, '_> {
    /// The comparison of two operands; `None` if it tells nothing about their values.
    pub(super) fn comparison(&self, left: Value, right: Value) -> Option<Comparison> {
        let bytes = self.bytes(0);
        // Bytes count only if both are small and known. Otherwise, the order of the bytes may
        // differ from the order of the values.
        let is_small = |value: Value| matches!(value.as_constant(), Some(0..=0x7f));
        let is_known = bytes == 1 && is_small(left) && is_small(right);
        (bytes >= 4 || is_known).then_some(Comparison {
            left,
            right,
            is_word: bytes <= 4,
        })
    }
}
