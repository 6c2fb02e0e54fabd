//! Operands of x86_64 instructions: registers, immediates and addresses.

use super::registers::general;
use super::{Step, vectors};
use crate::address::{Access, Address, Use, is_data};
use crate::error::{Proof, Property, refuse};
use crate::objects;
use crate::state::State;
use crate::value::{Kind, Symbol, Value};
use iced_x86::{OpKind, Register};
use pirn_format::types::HeapType;

impl Step<'_, '_> {
    /// Bytes of an operand.
    pub(super) fn bytes(&self, operand: u32) -> u32 {
        match self.instruction.op_kind(operand) {
            OpKind::Register => self.instruction.op_register(operand).size() as u32,
            OpKind::Memory => self.instruction.memory_size().size() as u32,
            // The immediate of `push`.
            _ if operand == 0 => 8,
            _ => self.bytes(0),
        }
    }

    /// The address that the instruction's memory operand names.
    pub(super) fn address(&self) -> Proof<Address> {
        let instruction = self.instruction;
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        if base == Register::RIP {
            let target = instruction.ip_rel_memory_address();
            return Ok(Address {
                base: Value::at(Kind::Text, target.cast_signed()),
                displacement: 0,
            });
        }
        let register = |register: Register| match register {
            Register::None => Ok(Value::constant(0)),
            register if register.is_gpr64() => Ok(self.state.registers[register.number()]),
            register => refuse(
                Property::Accesses,
                format!("an address of register {register:?}, which has no 64 bits"),
            ),
        };
        let base = register(base)?;
        let displacement = instruction.memory_displacement64().cast_signed();
        if index == Register::None {
            return Ok(Address { base, displacement });
        }
        let index = register(index)?;
        let scale = instruction.memory_index_scale().trailing_zeros();
        let index = match scale {
            0 => index,
            _ if let Some(row) = objects::row_index(index, 1 << scale) => row,
            _ if index.is_number() => index.shifted(scale, self.fresh(6)),
            _ => return refuse(Property::Accesses, "multiplies an address"),
        };
        let sum = objects::sum(self.state, base, index);
        let Some(base) = sum.or_else(|| base.plus(index, self.fresh(7))) else {
            if let Some(address) = self.address_beside(base, index, displacement) {
                return Ok(address);
            }
            return refuse(
                Property::Accesses,
                format!("adds {:?} and {:?} in an address", base.kind, index.kind),
            );
        };
        Ok(Address { base, displacement })
    }

    /// An address in the object that lies at a displacement from another object.
    fn address_beside(&self, base: Value, index: Value, displacement: i64) -> Option<Address> {
        let (object, number) = match base.is_number() {
            true => (index, base),
            false => (base, index),
        };
        let module = self.walk.module;
        let (near, rest) = objects::neighbour(module, self.state, object, displacement)?;
        let base = near
            .plus(number, self.fresh(7))
            .filter(|_| number.is_number())?;
        Some(Address {
            base,
            displacement: rest,
        })
    }

    /// Checks the access of a memory operand.
    pub(super) fn access(&mut self, bytes: u32, usage: Use) -> Proof<Value> {
        let address = self.address()?;
        let at = address.base.low.saturating_add(address.displacement);
        if address.base.kind == Kind::Stack && at < 8 && at.saturating_add(bytes.into()) > 0 {
            self.leaves_return_address()?;
        }
        let access = Access {
            address,
            bytes,
            usage,
            at: self.at,
            fresh: self.fresh(5),
            is_aligned: bytes == 16 && vectors::needs_alignment(&self.instruction),
        };
        self.checked(access)
    }

    /// The value of an operand, zero-extended.
    pub(super) fn read(&mut self, operand: u32) -> Proof<Value> {
        match self.instruction.op_kind(operand) {
            OpKind::Register => {
                let register = self.instruction.op_register(operand);
                Ok(self.read_register(register))
            }
            OpKind::Memory => {
                let bytes = self.instruction.memory_size().size() as u32;
                let value = self.access(bytes, Use::Read)?;
                Ok(plain(value, self.fresh(4)))
            }
            _ => Ok(self.immediate(operand)),
        }
    }

    /// The value of a general register's part, zero-extended.
    pub(super) fn read_register(&self, register: Register) -> Value {
        self.read_register_in(self.state, register)
    }

    /// The value of a general register's part in a state, zero-extended.
    pub(super) fn read_register_in(&self, state: &State, register: Register) -> Value {
        let (number, bytes) = general(register);
        let value = state.registers[number];
        let fresh = self.fresh(3);
        match bytes {
            8 => value,
            4 if value.kind.is_word() => value,
            4 if value.is_number() => state.low_word(value, fresh),
            4 if value.kind == Kind::Single => Value::word(fresh),
            // Unknown bits. The instruction uses only some of them.
            4 if matches!(
                value.kind,
                Kind::Junk | Kind::Byte | Kind::Short | Kind::Bit(_) | Kind::Found
            ) =>
            {
                value
            }
            4 if let Kind::RowWord(object) = value.kind => Value::of(Kind::RowLen(object)),
            // The bits of a 31-bit integer or of null are no secret.
            4 if matches!(value.kind, Kind::Reference(HeapType::I31)) => Value::word(fresh),
            1 if let Kind::Bit(bit) = value.kind
                && !is_high_byte(register) =>
            {
                Value::constant(i64::from(bit))
            }
            2 if value.has_short() => low_part(value, 16, fresh),
            1 if is_high_byte(register) => match value.is_number() {
                true => Value::number(fresh, 0, 255),
                false => Value::JUNK,
            },
            1 if is_data(value, 1) => low_part(value, 8, fresh),
            _ => Value::JUNK,
        }
    }

    fn immediate(&self, operand: u32) -> Value {
        let value = self.instruction.immediate(operand).cast_signed();
        let bits = 8 * self.bytes(0);
        match bits {
            8 | 16 | 32 => Value::constant(value & ((1 << bits) - 1)),
            _ => Value::constant(value),
        }
    }

    /// Writes a value, which is zero-extended, to a register's part.
    pub(super) fn write_register(&mut self, register: Register, value: Value) -> Proof<()> {
        let (number, bytes) = general(register);
        if number == crate::abi::RSP {
            return self.write_stack_pointer(value);
        }
        if bytes == 8 {
            self.state.registers[number] = value;
            return Ok(());
        }
        let old = self.state.registers[number];
        // An instruction may write several registers, so the register number is part of the symbol.
        let fresh = Symbol(self.fresh(2).0 | (number as u64) << 40);
        let new = match bytes {
            4 if value.kind.is_word() => value,
            4 if value.is_number() => value.low_word(fresh),
            // The write clears the upper half, so the bits get a new symbol.
            4 if value.kind == Kind::Byte => Value::named(fresh, Kind::Byte),
            4 if matches!(value.kind, Kind::Bit(_) | Kind::Short | Kind::Found) => value,
            2 if is_data(value, 2) => match old.is_number() {
                true => merged(old, 0xffff, fresh),
                false => Value::of(Kind::Short),
            },
            1 if is_high_byte(register) => match old.is_number() && value.is_number() {
                true => merged(old, 0xffff, fresh),
                false => Value::named(fresh, Kind::Junk),
            },
            1 if is_data(value, 1) => match old.is_number() {
                true => merged(old, 0xff, fresh),
                false if old.kind == Kind::Short => Value::of(Kind::Short),
                false => Value::named(fresh, Kind::Byte),
            },
            _ => Value::named(fresh, Kind::Junk),
        };
        self.state.registers[number] = new;
        Ok(())
    }

    /// Writes the first operand.
    pub(super) fn write(&mut self, value: Value) -> Proof<()> {
        match self.instruction.op0_kind() {
            OpKind::Register => self.write_register(self.instruction.op0_register(), value),
            _ => {
                let bytes = self.bytes(0);
                self.access(bytes, Use::Write(value)).map(|_| ())
            }
        }
    }
}

pub(super) fn is_high_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}

/// Makes an entry of a table of code a number. Only a sign extension keeps it an entry.
pub(super) fn plain(value: Value, fresh: Symbol) -> Value {
    match value.kind {
        Kind::JumpOffset(_) | Kind::DispatchOffset(..) => Value::word(fresh),
        _ => value,
    }
}

fn low_part(value: Value, bits: u32, fresh: Symbol) -> Value {
    let high = (1 << bits) - 1;
    match value.is_number() && value.low >= 0 && value.high <= high {
        true => value,
        false => Value::number(fresh, 0, high),
    }
}

/// A number after a change of the lowest bits, which the mask selects.
fn merged(old: Value, mask: i64, fresh: Symbol) -> Value {
    match old.low >= 0 {
        true => Value::number(fresh, 0, old.high | mask),
        false => Value::any(fresh),
    }
}
