//! Loads and stores: their addresses, and the loaded values.

use super::Step;
use super::instruction::{Index, Instruction, Memory};
use super::step::{LOADED, OTHER, ZERO};
use super::word::Number;
use crate::abi::X30;
use crate::address::{Access, Address, Use};
use crate::arithmetic::sign_extended;
use crate::error::{Proof, Property, refuse};
use crate::objects;
use crate::value::{Kind, Value};
use crate::vector::Extent;
use pirn_format::types::HeapType;

/// The first number of a vector register in [`Kind::Saved`].
const VECTORS: u8 = 32;

impl Step<'_, '_> {
    /// An instruction that accesses memory.
    pub(super) fn accesses(&mut self) -> Proof<()> {
        match self.instruction {
            Instruction::Memory(memory) => self.memory(memory),
            Instruction::Literal {
                is_vector,
                bytes,
                is_signed,
                to,
                target,
            } => {
                let address = Address {
                    base: Value::at(Kind::Text, target),
                    displacement: 0,
                };
                let value = self.load(address, bytes, 0, None)?;
                match is_vector {
                    true => self.write_loaded_vector(to, bytes, value),
                    false => self.write_loaded(to, bytes, is_signed.then_some(64), value),
                }
            }
            Instruction::Ordered {
                is_load: true,
                bytes,
                register,
                base,
            } => {
                let address = self.atomic(base, bytes)?;
                let value = self.load(address, bytes, 0, None)?;
                self.write_loaded(register, bytes, None, value)
            }
            Instruction::Ordered {
                bytes,
                register,
                base,
                ..
            } => self.store_atomic(bytes, register, base),
            Instruction::StoreExclusive {
                bytes,
                status,
                register,
                base,
            } => {
                self.store_atomic(bytes, register, base)?;
                self.write(status, false, Value::number(self.fresh(0), 0, 1))
            }
            Instruction::Atomic {
                bytes,
                operand,
                to,
                base,
            } => {
                let address = self.atomic(base, bytes)?;
                self.number(operand, bytes == 8)?;
                let old = self.access(address, bytes, Use::Update, 0, None)?;
                self.write_loaded(to, bytes, None, old)
            }
            Instruction::Exchange {
                bytes,
                expected,
                new,
                base,
            } => {
                let address = self.atomic(base, bytes)?;
                self.number(expected, bytes == 8)?;
                self.number(new, bytes == 8)?;
                let old = self.access(address, bytes, Use::Update, 0, None)?;
                self.write_loaded(expected, bytes, None, old)
            }
            Instruction::Replicate { bytes, to, base } => {
                let address = self.plain_address(base)?;
                let value = self.load(address, bytes, 0, None)?;
                match value.is_number() {
                    true => {
                        self.write_vector(to, Extent::Whole);
                        Ok(())
                    }
                    false => not_a_number(value),
                }
            }
            _ => refuse(
                Property::Instructions,
                "an instruction that the verifier does not know",
            ),
        }
    }

    /// The address that a register holds.
    fn plain_address(&self, base: Number) -> Proof<Address> {
        Ok(Address {
            base: self.read_or_stack(base)?,
            displacement: 0,
        })
    }

    /// The address of an atomic access. If the address is no multiple of the access's size, the
    /// access faults, and the runtime knows such faults in memories only. So an address outside of
    /// a memory must be a multiple of the size. The context's end and descriptors of memories are
    /// multiples of 8.
    fn atomic(&self, base: Number, bytes: u32) -> Proof<Address> {
        let address = self.plain_address(base)?;
        let Value { kind, low, .. } = address.base;
        let is_multiple = address
            .base
            .exact()
            .is_some_and(|at| at & i64::from(bytes - 1) == 0);
        match kind {
            Kind::Memory(_) => Ok(address),
            Kind::Instance if low >= 0 || is_multiple => Ok(address),
            Kind::MemoryDesc(_) if is_multiple => Ok(address),
            kind => refuse(
                Property::Accesses,
                format!("uses {kind:?} as the address of an atomic access, not a memory"),
            ),
        }
    }

    /// A store of a number by one atomic access.
    fn store_atomic(&mut self, bytes: u32, register: Number, base: Number) -> Proof<()> {
        let address = self.atomic(base, bytes)?;
        let value = self.number(register, bytes == 8)?;
        self.access(address, bytes, Use::Write(value), 0, None)?;
        Ok(())
    }

    /// The address of a load or store after a change of the base, and the base after the access.
    fn address(&mut self, memory: Memory) -> Proof<(Address, Option<Value>)> {
        let base = self.read_or_stack(memory.base)?;
        let mut address = Address {
            base,
            displacement: 0,
        };
        let moved = |offset: i64| match base.plus(Value::constant(offset), self.named(OTHER)) {
            Some(value) => Ok(value),
            None => refuse(
                Property::Accesses,
                format!("adds {offset} to {:?}", base.kind),
            ),
        };
        let mut after = None;
        match memory.index {
            Index::Offset(offset) => address.displacement = offset,
            Index::Before(offset) => {
                address.base = moved(offset)?;
                self.write_or_stack(memory.base, address.base)?;
            }
            Index::After(offset) => after = Some(moved(offset)?),
            Index::Register(register, extension, amount) => {
                let index = self.extended(register, extension, amount)?;
                // The offset of a field that does not fit in the constant of an instruction.
                if let (Kind::Reference(heap), Some(field)) = (base.kind, index.as_constant())
                    && heap.top() == HeapType::Any
                {
                    address.displacement = field;
                    return Ok((address, after));
                }
                let sum = objects::sum(self.state, base, index);
                match sum.or_else(|| base.plus(index, self.fresh(7))) {
                    Some(sum) => address.base = sum,
                    None => {
                        return refuse(
                            Property::Accesses,
                            format!("adds {:?} and {:?} in an address", base.kind, index.kind),
                        );
                    }
                }
            }
        }
        Ok((address, after))
    }

    fn memory(&mut self, memory: Memory) -> Proof<()> {
        let (address, after) = self.address(memory)?;
        let second = memory.second.map(|register| {
            let displacement = address.displacement.checked_add(i64::from(memory.bytes));
            (
                register,
                Address {
                    displacement: displacement.unwrap_or(i64::MAX),
                    ..address
                },
            )
        });
        let registers = [Some((memory.register, address)), second];
        if !memory.is_load {
            for (number, (register, address)) in registers.into_iter().flatten().enumerate() {
                self.store(memory, register, address, number as u64)?;
            }
        } else {
            let mut loaded = [None; 2];
            let places = registers.into_iter().flatten().enumerate();
            for (number, (register, address)) in places {
                let general = (!memory.is_vector).then_some(register);
                let value = self.load(address, memory.bytes, number as u64, general)?;
                loaded[number] = Some((register, value));
            }
            for (register, value) in loaded.into_iter().flatten() {
                match memory.is_vector {
                    true => self.write_loaded_vector(register, memory.bytes, value)?,
                    false => self.write_loaded(register, memory.bytes, memory.signed, value)?,
                }
            }
        }
        match after {
            Some(base) => self.write_or_stack(memory.base, base),
            None => Ok(()),
        }
    }

    /// Loads a value. `register` is the destination, if that is a general register.
    fn load(
        &mut self,
        address: Address,
        bytes: u32,
        number: u64,
        register: Option<Number>,
    ) -> Proof<Value> {
        self.access(address, bytes, Use::Read, number, register)
    }

    /// Checks one access of this instruction. `number` tells the accesses apart.
    fn access(
        &mut self,
        address: Address,
        bytes: u32,
        usage: Use,
        number: u64,
        register: Option<Number>,
    ) -> Proof<Value> {
        self.keeps_return_address(address, bytes, usage, register)?;
        let access = Access {
            address,
            bytes,
            usage,
            at: self.at,
            fresh: self.fresh(5 + number),
            is_aligned: false,
        };
        self.checked(access)
    }

    /// In an entry trampoline, the runtime expects the return address in one word of the frame, and
    /// writes this word when it resumes the call. Refuses all accesses to the word, except a store
    /// of the return address and a load of x30. Also refuses a store of the return address to
    /// another word.
    fn keeps_return_address(
        &self,
        address: Address,
        bytes: u32,
        usage: Use,
        register: Option<Number>,
    ) -> Proof<()> {
        let at = address.base.low.saturating_add(address.displacement);
        let is_whole = at == RETURN_ADDRESS && bytes == 8;
        let is_near = at < 0 && at.saturating_add(bytes.into()) > RETURN_ADDRESS;
        let is_link = register.is_some_and(|register| usize::from(register) == X30);
        let is_stored = match usage {
            Use::Write(value) => value.kind == Kind::ReturnAddress,
            _ => false,
        };
        let is_known = match usage {
            Use::Read => is_link,
            _ => is_stored,
        };
        let is_stack = address.base.kind == Kind::Stack;
        if (is_stack && is_near && !(is_whole && is_known)) || (is_stored && !is_whole) {
            self.leaves_return_address()?;
        }
        Ok(())
    }

    fn store(
        &mut self,
        memory: Memory,
        register: Number,
        address: Address,
        number: u64,
    ) -> Proof<()> {
        let bytes = memory.bytes;
        let usage = match memory.is_vector {
            true => self.stored_vector(register, bytes, address)?,
            false if register == ZERO => Use::Write(Value::constant(0)),
            // `keeps_return_address` decides where the return address may go.
            false if bytes == 8 => Use::Write(self.state.registers[usize::from(register)]),
            false => Use::Write(self.read(register, false)?),
        };
        self.access(address, bytes, usage, number, None).map(|_| ())
    }

    /// The use of memory by a store of a vector register.
    fn stored_vector(&self, register: Number, bytes: u32, address: Address) -> Proof<Use> {
        let number = usize::from(register);
        let is_stack = address.base.kind == Kind::Stack;
        let vector = self.state.vector(number);
        if let (true, 8, Some(saved)) = (is_stack, bytes, vector.saved) {
            return Ok(Use::Write(Value::of(Kind::Saved(VECTORS + saved))));
        }
        let needed = match bytes {
            // A spill stores the whole register, even data of the host.
            16 if is_stack => Extent::Nothing,
            _ => Extent::of_bits(8 * bytes),
        };
        Ok(Use::Vector(self.vector(register, needed)?))
    }

    /// Writes a loaded value to a general register.
    fn write_loaded(
        &mut self,
        register: Number,
        bytes: u32,
        signed: Option<u32>,
        value: Value,
    ) -> Proof<()> {
        let is_table = matches!(value.kind, Kind::JumpOffset(_) | Kind::DispatchOffset(..));
        // A load of a pair makes two numbers, so each register has its own symbol.
        let fresh = self.named(LOADED + u64::from(register));
        let value = match signed {
            None if is_table => Value::word(fresh),
            None => value,
            Some(64) if is_table => value,
            Some(_) if is_table => Value::word(fresh),
            Some(_) if !value.is_number() => return not_a_number(value),
            Some(bits) => {
                let value = sign_extended(value, 8 * bytes, fresh);
                match bits {
                    64 => value,
                    _ => value.low_word(self.named(OTHER + 1)),
                }
            }
        };
        self.write(register, true, value)
    }

    /// Writes a loaded value to a vector register. The rest of the register is 0.
    fn write_loaded_vector(&mut self, register: Number, bytes: u32, value: Value) -> Proof<()> {
        let extent = match value.kind {
            Kind::Saved(saved) if bytes == 8 && saved >= VECTORS => {
                self.write_vector(register, Extent::Nothing);
                self.state.vector_mut(usize::from(register)).saved = Some(saved - VECTORS);
                return Ok(());
            }
            // A word of a table of code is a number.
            Kind::JumpOffset(_) | Kind::DispatchOffset(..) => Extent::Whole,
            _ => match Extent::of_loaded(value) {
                Some(extent) => extent,
                None => return not_a_number(value),
            },
        };
        self.write_vector(register, extent);
        Ok(())
    }
}

/// The word of an entry trampoline's frame that holds the return address, as a distance from the
/// stack pointer at entry.
const RETURN_ADDRESS: i64 = -8;

fn not_a_number<T>(value: Value) -> Proof<T> {
    refuse(
        Property::Types,
        format!("computes with {:?}, which is no number", value.kind),
    )
}
