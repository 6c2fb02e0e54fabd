//! Instructions that compute: their results, as far as addresses depend on them.

use super::Step;
use super::instruction::{
    Addition, Binary, Extension, Field, Instruction, Logic, Logical, Second, Shift, Wide,
};
use super::step::{OTHER, ZERO, flags};
use super::vectors::{Outcome, Vectors};
use super::word::Number;
use crate::arithmetic::{
    difference, masked, product, shifted_right, sign_extended, united, zero_extended,
};
use crate::casts;
use crate::comparison::{CARRY_FLAG, Comparison, FLAGS, readable_flags};
use crate::error::{Proof, Property, refuse};
use crate::external::Operation;
use crate::objects;
use crate::value::{Kind, Symbol, Value};
use crate::vector::{Extent, Vector};

impl Step<'_, '_> {
    /// An instruction that falls through to the next instruction.
    ///
    /// Longer than a screen: one arm for each kind of instruction.
    pub(super) fn compute(&mut self) -> Proof<()> {
        match self.instruction {
            Instruction::Add(addition) => self.add(addition),
            Instruction::Carry {
                is_wide,
                sets_flags,
                to,
                first,
                second,
            } => {
                self.reads_flags(CARRY_FLAG)?;
                self.number(first, is_wide)?;
                self.number(second, is_wide)?;
                if sets_flags {
                    (self.state.flags, self.state.readable) = (None, FLAGS);
                }
                self.write(to, is_wide, Value::any(self.fresh(0)))
            }
            Instruction::LogicConstant {
                is_wide,
                logic,
                to,
                first,
                constant,
            } => {
                let (left, right) = (
                    self.masked_operand(first, is_wide)?,
                    Value::constant(constant),
                );
                let tag = self.tag(logic, left, right);
                let value = match tag.or_else(|| self.converted(logic, is_wide, left, right)) {
                    Some(value) => value,
                    None => self.combined(logic, self.numeric(first, left)?, right),
                };
                self.tested(logic, is_wide, value);
                match logic {
                    Logic::Test => self.write(to, is_wide, value),
                    // The destination is the stack pointer. No such value is an address of the
                    // stack, so this write is refused.
                    _ if to == ZERO => self.write_or_stack(to, value),
                    _ => self.write(to, is_wide, value),
                }
            }
            Instruction::Logic(logical) => self.logic(logical),
            Instruction::Move {
                is_wide,
                wide,
                to,
                constant,
                shift,
            } => self.wide(is_wide, wide, to, constant, shift),
            Instruction::Field {
                is_wide,
                field,
                to,
                from,
                rotate,
                last,
            } => {
                if let Some(value) = self.type_field(is_wide, field, from, (rotate, last))? {
                    return self.write(to, is_wide, value);
                }
                if is_wide && field == Field::Unsigned {
                    let left = self.read(from, true)?;
                    if let Some(value) = self.converted_field(left, rotate, last) {
                        return self.write(to, true, value);
                    }
                }
                let value = self.number(from, is_wide)?;
                if field == Field::Keep {
                    self.number(to, is_wide)?;
                }
                let value = self.field(is_wide, field, value, rotate, last);
                self.write(to, is_wide, value)
            }
            Instruction::Extract {
                is_wide,
                to,
                first,
                second,
            }
            | Instruction::Binary {
                is_wide,
                to,
                first,
                second,
                binary: Binary::Divide | Binary::Shift | Binary::High,
            } => {
                self.number(first, is_wide)?;
                self.number(second, is_wide)?;
                self.write(to, is_wide, Value::any(self.fresh(0)))
            }
            Instruction::Binary {
                to, first, second, ..
            } => {
                self.number(first, true)?;
                self.number(second, true)?;
                self.write(to, false, Value::word(self.fresh(0)))
            }
            Instruction::Unary {
                is_wide,
                counts,
                to,
                from,
            } => {
                self.number(from, is_wide)?;
                let value = match counts {
                    true => Value::number(self.fresh(0), 0, 64),
                    false => Value::any(self.fresh(0)),
                };
                self.write(to, is_wide, value)
            }
            Instruction::Address { to, target } => {
                self.write(to, true, Value::at(Kind::Text, target))
            }
            Instruction::Compare {
                is_wide,
                first,
                second,
                condition,
            } => {
                self.reads_flags(flags(condition))?;
                self.number(first, is_wide)?;
                if let Second::Shifted(second, ..) = second {
                    self.number(second, is_wide)?;
                }
                (self.state.flags, self.state.readable) = (None, FLAGS);
                Ok(())
            }
            Instruction::Select(selection) => self.select(selection),
            Instruction::Product {
                is_wide,
                is_minus,
                to,
                first,
                second,
                add,
            } => {
                if is_wide && !is_minus && add == ZERO {
                    let (left, right) = (self.read(first, true)?, self.read(second, true)?);
                    let row = right
                        .as_constant()
                        .and_then(|by| objects::row_index(left, by));
                    if let Some(row) = row {
                        return self.write(to, true, row);
                    }
                }
                let factors = (self.number(first, is_wide)?, self.number(second, is_wide)?);
                // The added operand may be an address.
                let add = self.read(add, is_wide)?;
                let value = self.product(is_minus, factors, add)?;
                self.write(to, is_wide, value)
            }
            Instruction::LongProduct {
                is_signed,
                is_minus,
                to,
                first,
                second,
                add,
            } => {
                let mut factors = (self.number(first, false)?, self.number(second, false)?);
                if is_signed {
                    factors.0 = sign_extended(factors.0, 32, self.named(OTHER));
                    factors.1 = sign_extended(factors.1, 32, self.named(OTHER + 1));
                }
                let add = self.read(add, true)?;
                let value = self.product(is_minus, factors, add)?;
                self.write(to, true, value)
            }
            Instruction::Vectors(vectors) => self.vectors(vectors),
            _ => self.accesses(),
        }
    }

    fn product(&self, is_minus: bool, (a, b): (Value, Value), add: Value) -> Proof<Value> {
        let value = product(a, b, self.fresh(0));
        let value = match is_minus {
            true => value.negated(self.fresh(1)),
            false => value,
        };
        match value.plus(add, self.fresh(2)) {
            Some(sum) => Ok(sum),
            None => refuse(
                Property::Accesses,
                format!("computes with {:?} and {:?}", value.kind, add.kind),
            ),
        }
    }

    /// An addition, subtraction or comparison.
    fn add(&mut self, addition: Addition) -> Proof<()> {
        let Addition {
            is_wide,
            is_minus,
            sets_flags,
            to,
            first,
            second,
        } = addition;
        let is_stack = !matches!(second, Second::Shifted(..));
        let left = match is_stack && first == ZERO {
            true if is_wide => self.read_or_stack(first)?,
            true => return refuse(Property::Accesses, "computes the lower half of an address"),
            false => self.read(first, is_wide)?,
        };
        let right = self.second(second, is_wide)?;
        if sets_flags {
            self.compare(is_minus, left, right, is_wide, second);
            // A comparison alone has no result.
            if to == ZERO {
                return Ok(());
            }
        }
        let (fresh, module) = (self.fresh(0), self.walk.module);
        let value = match is_minus {
            true => difference(left, right, fresh, self.fresh(1)),
            false => objects::added(module, self.state, left, right, fresh),
        };
        let Some(value) = value else {
            return refuse(
                Property::Accesses,
                format!("computes with {:?} and {:?}", left.kind, right.kind),
            );
        };
        if !is_wide && !value.is_number() {
            return refuse(Property::Accesses, "computes the lower half of an address");
        }
        if is_wide && !is_minus && module.has_objects {
            objects::note_sum(self.state, left, right, value);
        }
        match is_stack && !sets_flags && to == ZERO {
            true if is_wide => self.write_or_stack(to, value),
            true => refuse(Property::Stack, "sets the stack pointer to 32 bits"),
            false => self.write(to, is_wide, value),
        }
    }

    /// Sets the flags of an addition or subtraction.
    fn compare(
        &mut self,
        is_minus: bool,
        left: Value,
        right: Value,
        is_wide: bool,
        second: Second,
    ) {
        if is_minus {
            let (left, right) = casts::in_one_array(left, right).unwrap_or((left, right));
            self.state.readable = readable_flags(left, right);
            self.state.flags = Some(Comparison {
                left,
                right,
                is_word: !is_wide,
            });
            return;
        }
        let are_numbers = left.is_number() && right.is_number();
        self.state.readable = if are_numbers { FLAGS } else { 0 };
        // An addition of a small constant that is not 0 compares with the negative constant.
        self.state.flags = match second {
            Second::Constant(constant) if are_numbers && constant != 0 => {
                let negated = match is_wide {
                    true => -constant,
                    false => (1 << 32) - constant,
                };
                Some(Comparison {
                    left,
                    right: Value::constant(negated),
                    is_word: !is_wide,
                })
            }
            _ => None,
        };
    }

    /// The second operand of an addition.
    fn second(&self, second: Second, is_wide: bool) -> Proof<Value> {
        match second {
            Second::Constant(constant) => Ok(Value::constant(constant)),
            Second::Shifted(register, _, 0) => self.read(register, is_wide),
            Second::Shifted(register, Shift::Left, amount)
                if is_wide && let Some(row) = self.row(register, amount)? =>
            {
                Ok(row)
            }
            Second::Shifted(register, shift, amount) => {
                let value = self.number(register, is_wide)?;
                let value = self.shifted(value, shift, amount, is_wide);
                Ok(self.narrowed(value, is_wide))
            }
            Second::Extended(register, extension, amount) => {
                let value = self.extended(register, extension, amount)?;
                match is_wide {
                    true => Ok(value),
                    false if value.is_number() => Ok(self.narrowed(value, false)),
                    false => refuse(Property::Accesses, "computes the lower half of an address"),
                }
            }
        }
    }

    /// An operand, or its lowest 32 bits if the instruction is not wide.
    pub(super) fn narrowed(&self, value: Value, is_wide: bool) -> Value {
        match is_wide {
            true => value,
            false => value.low_word(self.named(OTHER + 2)),
        }
    }

    /// The lowest bits of a register, extended and shifted to the left.
    pub(super) fn extended(
        &self,
        register: Number,
        extension: Extension,
        amount: u32,
    ) -> Proof<Value> {
        let Extension { is_signed, bits } = extension;
        if (bits == 64 || (bits == 32 && !is_signed))
            && let Some(row) = self.row(register, amount)?
        {
            return Ok(row);
        }
        let fresh = self.named(OTHER + 3);
        let value = match bits {
            64 if amount == 0 => return self.read(register, true),
            64 => self.number(register, true)?,
            32 => self.number(register, false)?,
            _ => zero_extended(self.number(register, false)?, bits, self.named(OTHER + 4)),
        };
        let value = match is_signed && bits < 64 {
            true => sign_extended(value, bits, fresh),
            false => value,
        };
        Ok(value.shifted(amount, self.named(OTHER + 5)))
    }

    /// The row offset of the type whose identity a register holds, if the shift to the left
    /// multiplies by the row size. The upper half of such a register is 0.
    fn row(&self, register: Number, amount: u32) -> Proof<Option<Value>> {
        let value = self.read(register, true)?;
        Ok(objects::row_index(value, 1_i64.wrapping_shl(amount)))
    }

    /// The result of an instruction that moves bits of a type's identity, or of a row of types.
    fn type_field(
        &self,
        is_wide: bool,
        field: Field,
        from: Number,
        (rotate, last): (u32, u32),
    ) -> Proof<Option<Value>> {
        let value = self.read(from, true)?;
        Ok(match value.kind {
            _ if !is_wide || field != Field::Unsigned => None,
            Kind::RowWord(object) if (rotate, last) == (32, 63) => {
                Some(Value::of(Kind::RowChain(object)))
            }
            // A shift to the left of at least the bits of the identity.
            Kind::TypeOf(_) if (31..rotate).contains(&last) => {
                objects::row_index(value, 1_i64.wrapping_shl(64 - rotate))
            }
            _ => None,
        })
    }

    /// A number that is shifted by a constant.
    fn shifted(&self, value: Value, shift: Shift, amount: u32, is_wide: bool) -> Value {
        let fresh = self.named(OTHER + 6);
        match shift {
            _ if amount == 0 => value,
            Shift::Left => value.shifted(amount, fresh),
            Shift::Right => {
                let bytes = if is_wide { 8 } else { 4 };
                shifted_right(value, Value::constant(amount.into()), bytes, fresh)
            }
            // The sign of a word is in bit 31.
            Shift::Arithmetic if is_wide || value.high <= i64::from(i32::MAX) => {
                Value::number(fresh, value.low >> amount, value.high >> amount)
            }
            Shift::Arithmetic | Shift::Rotate => Value::any(fresh),
        }
    }

    /// An operand of a logical operation. A reference is read as a whole register, because the
    /// operation may mask its tag.
    fn masked_operand(&self, register: Number, is_wide: bool) -> Proof<Value> {
        let value = self.read(register, true)?;
        match value.kind {
            Kind::Reference(_) => Ok(value),
            _ => self.read(register, is_wide),
        }
    }

    /// The tag bits of a reference, if one operand of a bitwise AND is a mask that selects them.
    fn tag(&self, logic: Logic, left: Value, right: Value) -> Option<Value> {
        let masks = matches!(logic, Logic::And | Logic::Test);
        masks.then(|| casts::tag(left, right, self.fresh(0)))?
    }

    /// The result of a logical operation that converts a reference between externref and anyref.
    fn converted(
        &mut self,
        logic: Logic,
        is_wide: bool,
        left: Value,
        right: Value,
    ) -> Option<Value> {
        let operation = match logic {
            Logic::And => Operation::And,
            Logic::Or => Operation::Or,
            Logic::Test | Logic::Xor => return None,
        };
        let fresh = self.fresh(0);
        is_wide.then(|| self.part(operation, left, right, fresh))?
    }

    /// The result of a bit-field instruction that converts a reference: a shift, or a mask of the
    /// lowest bits.
    fn converted_field(&mut self, left: Value, rotate: u32, last: u32) -> Option<Value> {
        let (operation, constant) = match (rotate, last) {
            (0, _) => (
                Operation::And,
                (1_i64.checked_shl(last + 1)?).checked_sub(1)?,
            ),
            (_, 63) => (Operation::ShiftRight, i64::from(rotate)),
            _ if last + 1 == rotate => (Operation::ShiftLeft, i64::from(64 - rotate)),
            _ => return None,
        };
        let (right, fresh) = (Value::constant(constant), self.fresh(1));
        self.part(operation, left, right, fresh)
    }

    /// Sets the flags of a logical operation. N and Z are as after a comparison with 0. C is 0, but
    /// a comparison with 0 sets C, so no condition may read C.
    fn tested(&mut self, logic: Logic, is_wide: bool, value: Value) {
        if logic != Logic::Test {
            return;
        }
        let is_known = value.as_constant().is_some() || matches!(value.kind, Kind::Tag(..));
        (self.state.flags, self.state.readable) = match is_known {
            true => {
                let comparison = Comparison {
                    left: value,
                    right: Value::constant(0),
                    is_word: !is_wide,
                };
                (Some(comparison), FLAGS & !CARRY_FLAG)
            }
            false => (None, FLAGS),
        };
    }

    /// The result of a logical operation on numbers.
    fn combined(&mut self, logic: Logic, left: Value, right: Value) -> Value {
        let fresh = self.fresh(0);
        let has_objects = self.walk.module.has_objects;
        match (logic, left.as_constant().zip(right.as_constant())) {
            (Logic::And | Logic::Test, Some((left, right))) => Value::constant(left & right),
            (Logic::Or, Some((left, right))) => Value::constant(left | right),
            (Logic::Xor, Some((left, right))) => Value::constant(left ^ right),
            (Logic::And, None)
                if has_objects
                    && right.as_constant() == Some(-8)
                    && let Some(size) = objects::rounded(self.state, left, fresh) =>
            {
                size
            }
            (Logic::Or, None) if let Some(odd) = objects::odd(left, right, fresh) => odd,
            (Logic::And | Logic::Test, None) => masked(left, right, fresh),
            (Logic::Or | Logic::Xor, None) => united(left, right, fresh),
        }
    }

    fn logic(&mut self, logical: Logical) -> Proof<()> {
        let Logical {
            is_wide,
            logic,
            inverts,
            to,
            first,
            second,
            shift,
            amount,
        } = logical;
        // `mov`
        if logic == Logic::Or && first == ZERO && amount == 0 && !inverts {
            let value = self.read(second, is_wide)?;
            return self.write(to, is_wide, value);
        }
        if amount == 0 && !inverts {
            let left = self.masked_operand(first, is_wide)?;
            let right = self.masked_operand(second, is_wide)?;
            if let Some(tag) = self.tag(logic, left, right) {
                self.tested(logic, is_wide, tag);
                return self.write(to, is_wide, tag);
            }
        }
        if is_wide && !inverts && shift == Shift::Left {
            let (left, right) = (self.read(first, true)?, self.read(second, true)?);
            let right = match amount {
                0 => Some(right),
                _ => self.converted_field(right, 64 - amount, 63 - amount),
            };
            let value = right.and_then(|right| self.converted(logic, is_wide, left, right));
            if let Some(value) = value {
                return self.write(to, true, value);
            }
        }
        let left = self.number(first, is_wide)?;
        let right = self.number(second, is_wide)?;
        let right = self.shifted(right, shift, amount, is_wide);
        let right = self.narrowed(right, is_wide);
        let right = match (inverts, right.as_constant()) {
            (false, _) => right,
            (true, Some(constant)) => self.narrowed(Value::constant(!constant), is_wide),
            (true, None) if is_wide => Value::any(self.named(OTHER + 7)),
            (true, None) => Value::word(self.named(OTHER + 7)),
        };
        let value = self.combined(logic, left, right);
        self.tested(logic, is_wide, value);
        self.write(to, is_wide, value)
    }

    fn wide(
        &mut self,
        is_wide: bool,
        wide: Wide,
        to: Number,
        constant: u64,
        shift: u32,
    ) -> Proof<()> {
        let value = match wide {
            Wide::Zero => constant,
            Wide::Not if is_wide => !constant,
            Wide::Not => !constant & u64::from(u32::MAX),
            Wide::Keep => {
                let old = self.number(to, is_wide)?;
                let Some(old) = old.as_constant() else {
                    return self.write(to, is_wide, Value::any(self.fresh(0)));
                };
                old.cast_unsigned() & !(0xffff << shift) | constant
            }
        };
        self.write(to, is_wide, Value::constant(value.cast_signed()))
    }

    /// The result of a bit-field instruction on a number.
    fn field(&self, is_wide: bool, field: Field, value: Value, rotate: u32, last: u32) -> Value {
        let size = if is_wide { 64 } else { 32 };
        let fresh = self.fresh(0);
        let part = |bits: u32| match bits {
            _ if bits == size => value,
            32 => self.state.low_word(value, self.fresh(1)),
            _ => zero_extended(value, bits, self.fresh(1)),
        };
        match field {
            Field::Keep => Value::any(fresh),
            // A shift to the left of the bits from 0 to `last`.
            Field::Unsigned if last < rotate => {
                let by = size - rotate;
                match last + 1 + by == size {
                    true => value.shifted(by, fresh),
                    false => part(last + 1).shifted(by, fresh),
                }
            }
            Field::Unsigned if rotate == 0 => part(last + 1),
            Field::Unsigned if last == size - 1 => {
                self.shifted(value, Shift::Right, rotate, is_wide)
            }
            Field::Unsigned => Value::number(fresh, 0, (1_i64 << (last - rotate + 1)) - 1),
            Field::Signed if last < rotate => Value::any(fresh),
            Field::Signed if last == size - 1 => {
                self.shifted(value, Shift::Arithmetic, rotate, is_wide)
            }
            Field::Signed if rotate == 0 => sign_extended(value, last + 1, fresh),
            Field::Signed => {
                let limit = 1_i64 << (last - rotate);
                Value::number(fresh, -limit, limit - 1)
            }
        }
    }

    /// A symbol for a vector register that this instruction writes.
    fn vector_symbol(&self, register: Number) -> Symbol {
        Symbol(u64::from(self.at) << 4 | 1 << 54 | u64::from(register) << 40)
    }

    pub(super) fn write_vector(&mut self, register: Number, extent: Extent) {
        let vector = Vector::new(extent, self.vector_symbol(register));
        *self.state.vector_mut(usize::from(register)) = vector;
    }

    /// The extent of a vector register, which must be at least `needed`.
    pub(super) fn vector(&self, register: Number, needed: Extent) -> Proof<Extent> {
        let extent = self.state.vector(usize::from(register)).extent;
        if extent >= needed {
            return Ok(extent);
        }
        refuse(
            Property::Types,
            format!("computes with vector register {register}, which holds no number"),
        )
    }

    /// An instruction on vector registers.
    fn vectors(&mut self, vectors: Vectors) -> Proof<()> {
        if let Some(condition) = vectors.condition {
            self.reads_flags(flags(condition))?;
        }
        if let Some(register) = vectors.general {
            self.number(register, true)?;
        }
        let mut least = Extent::Whole;
        for (register, needed) in vectors.reads.into_iter().flatten() {
            least = least.min(self.vector(register, needed)?);
        }
        if vectors.sets_flags {
            (self.state.flags, self.state.readable) = (None, FLAGS);
        }
        match vectors.result {
            Outcome::None => {}
            Outcome::Whole(to) => self.write_vector(to, Extent::Whole),
            Outcome::Least(to, all) => {
                let extent = if least >= all { Extent::Whole } else { least };
                self.write_vector(to, extent);
            }
            Outcome::Lane(to, extent) => {
                let old = self.state.vector(usize::from(to)).extent;
                self.write_vector(to, old.max(extent));
            }
            Outcome::Copy(to) => {
                if let Some((from, _)) = vectors.reads[0] {
                    let copied = self.state.vector(usize::from(from));
                    *self.state.vector_mut(usize::from(to)) = copied;
                }
            }
            Outcome::General { to, is_wide } => {
                self.write(to, is_wide, Value::any(self.fresh(0)))?;
            }
        }
        Ok(())
    }
}
