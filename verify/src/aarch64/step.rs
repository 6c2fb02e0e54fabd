//! One instruction: the dispatch to the code that knows its effects, and where execution continues.

use super::instruction::{Addition, Extension, Index, Instruction, Memory, Second, Shift};
use super::word::Number;
use super::{BYTES, Step};
use crate::abi::{SP, X30};
use crate::casts;
use crate::comparison::{
    CARRY_FLAG, Comparison, OVERFLOW_FLAG, Relation, SIGN_FLAG, ZERO_FLAG, readable_flags,
};
use crate::error::{Proof, Property, refuse};
use crate::objects;
use crate::state::State;
use crate::value::{Kind, Symbol, Value};
use crate::walk::Next;
use pirn_format::types::HeapType;

/// The number of the zero register, and of the stack pointer.
pub(super) const ZERO: Number = 31;

impl Step<'_, '_> {
    /// Proves the instruction, and changes the state as the instruction does.
    pub(super) fn run(mut self) -> Proof<Next> {
        let next = self.at + BYTES;
        match self.instruction {
            Instruction::Nothing => {}
            Instruction::Trap => {
                self.needs_trap("raises a fault")?;
                return Ok(Next::Ends);
            }
            Instruction::Jump(target) => return self.jump(target),
            Instruction::JumpIf { condition, target } => {
                self.reads_flags(flags(condition))?;
                let compared = self.state.flags.zip(relation(condition));
                return self.branch_on(target, compared);
            }
            Instruction::JumpZero {
                is_wide,
                is_not,
                register,
                target,
            } => return self.jump_zero(is_wide, is_not, register, target),
            Instruction::JumpBit {
                is_not,
                register,
                bit,
                target,
            } => return self.jump_bit(is_not, register, bit, target),
            Instruction::JumpTo(register) => {
                let target = self.read(register, true)?;
                return match self.computed_jump(target)? {
                    Some(next) => Ok(next),
                    None => {
                        self.tail_call(target)?;
                        Ok(Next::Ends)
                    }
                };
            }
            Instruction::Call(target) => self.call_direct(target, next)?,
            Instruction::CallTo(register) => {
                let target = self.read(register, true)?;
                self.call_indirect(target, next)?;
            }
            Instruction::Return => {
                self.returns(0)?;
                return Ok(Next::Ends);
            }
            Instruction::Add(_) => match self.probe_loop() {
                Some(found) => return self.probe(found),
                None => self.compute()?,
            },
            _ => self.compute()?,
        }
        Ok(Next::Falls)
    }

    fn jump(&mut self, target: u32) -> Proof<Next> {
        let entry = self.walk.entry;
        if (entry.start + 1..entry.start + entry.len).contains(&target) {
            return Ok(Next::Jumps(target));
        }
        self.tail_call_direct(target)?;
        Ok(Next::Ends)
    }

    fn jump_zero(
        &mut self,
        is_wide: bool,
        is_not: bool,
        register: Number,
        target: u32,
    ) -> Proof<Next> {
        let (left, right) = (self.read(register, is_wide)?, Value::constant(0));
        if readable_flags(left, right) & ZERO_FLAG == 0 {
            return refuse(
                Property::Types,
                format!("jumps by register {register}, which holds {:?}", left.kind),
            );
        }
        let comparison = Comparison {
            left,
            right,
            is_word: !is_wide,
        };
        let relation = match is_not {
            false => Relation::Equal,
            true => Relation::NotEqual,
        };
        self.branch_on(target, Some((comparison, relation)))
    }

    /// A jump by one bit, which may be a tag bit of a reference.
    fn jump_bit(&mut self, is_not: bool, register: Number, bit: u32, target: u32) -> Proof<Next> {
        let value = self.read(register, true)?;
        let mask = Value::constant(1_i64.wrapping_shl(bit));
        let left = match (casts::tag(value, mask, self.fresh(0)), value.as_constant()) {
            (Some(tag), _) => Some(tag),
            (None, Some(constant)) => Some(Value::constant(constant >> bit & 1)),
            (None, None) => {
                self.numeric(register, value)?;
                None
            }
        };
        let relation = match is_not {
            false => Relation::Equal,
            true => Relation::NotEqual,
        };
        let compared = left.map(|left| {
            let comparison = Comparison {
                left,
                right: Value::constant(0),
                is_word: false,
            };
            (comparison, relation)
        });
        self.branch_on(target, compared)
    }

    /// The value of a general register. The zero register holds 0. A value of 32 bits is
    /// zero-extended.
    pub(super) fn read(&self, register: Number, is_wide: bool) -> Proof<Value> {
        match register {
            ZERO => Ok(Value::constant(0)),
            _ => self.read_in(self.state, register, is_wide),
        }
    }

    /// The value of a general register or the stack pointer.
    pub(super) fn read_or_stack(&self, register: Number) -> Proof<Value> {
        self.read_in(self.state, register, true)
    }

    /// The value of a general register in a state. Number 31 is the stack pointer.
    pub(super) fn read_in(&self, state: &State, register: Number, is_wide: bool) -> Proof<Value> {
        let value = state.registers[usize::from(register)];
        if value.kind == Kind::ReturnAddress {
            self.leaves_return_address()?;
        }
        Ok(match is_wide {
            true => value,
            false => word(state, value, self.named(register.into())),
        })
    }

    /// The value of a general register, which must be a number.
    pub(super) fn number(&self, register: Number, is_wide: bool) -> Proof<Value> {
        self.numeric(register, self.read(register, is_wide)?)
    }

    /// Checks that the value of a general register is a number, and returns the value.
    pub(super) fn numeric(&self, register: Number, value: Value) -> Proof<Value> {
        let value = value.null_as_number();
        match value.is_number() {
            true => Ok(value),
            false => refuse(
                Property::Types,
                format!(
                    "computes with register {register}, which holds {:?}",
                    value.kind
                ),
            ),
        }
    }

    /// Writes a general register. A value of 32 bits is zero-extended.
    pub(super) fn write(&mut self, register: Number, is_wide: bool, value: Value) -> Proof<()> {
        if register == ZERO {
            return Ok(());
        }
        if register == PLATFORM {
            return refuse(
                Property::Stack,
                "writes x18, in which the runtime keeps an address when it resumes a guest",
            );
        }
        let fresh = self.named(WRITTEN + u64::from(register));
        let value = match is_wide {
            true => value,
            false if value.is_number() => {
                objects::named_word(self.walk.module, self.state, value, fresh)
            }
            false if value.kind.is_word() => value,
            false => Value::named(fresh, Kind::Junk),
        };
        // The runtime looks for the return address of an entry trampoline in this register.
        if usize::from(register) != X30 && value.kind == Kind::ReturnAddress {
            self.leaves_return_address()?;
        }
        self.state.registers[usize::from(register)] = value;
        Ok(())
    }

    /// Writes a general register or the stack pointer.
    pub(super) fn write_or_stack(&mut self, register: Number, value: Value) -> Proof<()> {
        if usize::from(register) != SP {
            return self.write(register, true, value);
        }
        // An access by a misaligned stack pointer faults (Arm ARM, D1.8.2).
        if value.exact().is_none_or(|at| at & 15 != 0) {
            return refuse(
                Property::Stack,
                "moves the stack pointer to an address that is no multiple of 16",
            );
        }
        self.write_stack_pointer(value)
    }

    /// A symbol for an operand or a further result of this instruction. The symbol differs from all
    /// symbols of [`fresh`](crate::walk::Step::fresh).
    pub(super) fn named(&self, number: u64) -> Symbol {
        Symbol(u64::from(self.at) << 4 | 1 << 61 | number << 40)
    }

    /// Recognises the loop that touches each page of a large frame below the stack pointer. Returns
    /// the loop's counter, its step and the register of the frame's size.
    ///
    /// ```text
    /// sub counter, counter, #step;  str wzr, [sp, counter];  cmn counter, size;  b.gt sub
    /// ```
    ///
    /// The counter is 0 before the loop.
    fn probe_loop(&mut self) -> Option<(Number, i64, Number)> {
        let Instruction::Add(Addition {
            is_wide: true,
            is_minus: true,
            sets_flags: false,
            to: counter,
            first,
            second: Second::Constant(step),
        }) = self.instruction
        else {
            return None;
        };
        if counter != first || counter == ZERO || !self.walk.is_leader(self.at) {
            return None;
        }
        let mut after = |number: u32| self.walk.instruction(self.at + number * BYTES).ok();
        let touch = Instruction::Memory(Memory {
            is_load: false,
            is_vector: false,
            bytes: 4,
            signed: None,
            register: ZERO,
            second: None,
            base: SP as Number,
            index: Index::Register(
                counter,
                Extension {
                    is_signed: false,
                    bits: 64,
                },
                0,
            ),
        });
        if after(1)? != touch {
            return None;
        }
        let Instruction::Add(Addition {
            is_wide: true,
            is_minus: false,
            sets_flags: true,
            to: ZERO,
            first,
            second: Second::Shifted(size, Shift::Left, 0),
        }) = after(2)?
        else {
            return None;
        };
        let repeats = Instruction::JumpIf {
            condition: GREATER,
            target: self.at,
        };
        let is_loop = first == counter && size != counter && after(3)? == repeats;
        is_loop.then_some((counter, step, size))
    }

    /// Proves the whole loop of [`probe_loop`](Self::probe_loop).
    fn probe(&mut self, (counter, step, size): (Number, i64, Number)) -> Proof<Next> {
        let start = self.stack_pointer()?;
        let first = self.read(counter, true)?.as_constant();
        let bytes = self.read(size, true)?.as_constant();
        let is_sound = first == Some(0) && (8..=4096).contains(&step) && step % 8 == 0;
        let bytes = bytes.filter(|bytes| is_sound && (1..=PROBED_MAX).contains(bytes));
        let Some(bytes) = bytes else {
            return refuse(
                Property::Stack,
                format!("touches the frame in steps of {step} bytes that do not meet its end"),
            );
        };
        let end = (bytes + step - 1) / step * step;
        crate::frame::touch(self.state, start - step as i32)?;
        self.state.forget_below(start);
        // The loop has touched the pages between `start` and `end`.
        self.state.touched = self.state.touched.min(start - end as i32);
        crate::frame::touch(self.state, start - end as i32)?;
        self.write(counter, true, Value::constant(-end))?;
        (self.state.flags, self.state.readable) = (None, 0);
        Ok(Next::Jumps(self.at + 4 * BYTES))
    }
}

/// Most bytes of a frame that a probe loop may touch, so that no distance overflows. The limit of
/// all frames is smaller, see `frame.rs`.
const PROBED_MAX: i64 = 1 << 28;

/// The first number for written registers, see [`Step::named`]. Lower numbers are for operands, by
/// register.
const WRITTEN: u64 = 32;
/// The first number for values without a register.
pub(super) const OTHER: u64 = 64;
/// The first number for values that a load has extended, by register.
pub(super) const LOADED: u64 = 128;

/// The lowest 32 bits of a value, zero-extended.
pub(super) fn word(state: &State, value: Value, fresh: Symbol) -> Value {
    match value.kind {
        kind if kind.is_word() => value,
        Kind::RowWord(object) => Value::of(Kind::RowLen(object)),
        // The bits of a 31-bit integer or of null are no secret.
        Kind::Single | Kind::Reference(HeapType::I31) => Value::word(fresh),
        _ if value.is_number() => state.low_word(value, fresh),
        _ => Value::JUNK,
    }
}

/// The register that the platform may use (AAPCS64 6.1.1).
const PLATFORM: Number = 18;

/// The condition `gt`.
const GREATER: u8 = 12;

/// The flags that a condition reads (Arm ARM, C1.2.4).
pub(super) fn flags(condition: u8) -> u32 {
    match condition >> 1 {
        0 => ZERO_FLAG,
        1 => CARRY_FLAG,
        2 => SIGN_FLAG,
        3 => OVERFLOW_FLAG,
        4 => CARRY_FLAG | ZERO_FLAG,
        5 => SIGN_FLAG | OVERFLOW_FLAG,
        6 => SIGN_FLAG | OVERFLOW_FLAG | ZERO_FLAG,
        _ => 0,
    }
}

/// The relation that a condition tests after a comparison.
pub(super) fn relation(condition: u8) -> Option<Relation> {
    Some(match condition {
        0 => Relation::Equal,
        1 => Relation::NotEqual,
        2 => Relation::NotBelow,
        3 => Relation::Below,
        8 => Relation::Above,
        9 => Relation::NotAbove,
        10 => Relation::NotLess,
        11 => Relation::Less,
        12 => Relation::Greater,
        13 => Relation::NotGreater,
        _ => return None,
    })
}
