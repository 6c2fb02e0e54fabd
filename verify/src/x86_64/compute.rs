//! Instructions that compute: their results, as far as addresses depend on them.

use super::operands::{is_high_byte, plain};
use super::{Step, list, step, vectors};
use crate::address::{Use, is_data};
use crate::arithmetic::{difference, masked, product, shifted_right, united};
use crate::casts;
use crate::comparison::{FLAGS, readable_flags};
use crate::error::{Proof, Property, refuse};
use crate::objects;
use crate::value::{Kind, Symbol, Value};
use crate::vector::{Extent, VECTORS, Vector};
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpAccess, OpKind, Register, UsedMemory};
use pirn_format::types::HeapType;

impl Step<'_, '_> {
    /// An instruction that falls through to the next instruction.
    pub(super) fn compute(&mut self) -> Proof<()> {
        let mnemonic = self.instruction.mnemonic();
        // Fast path for the most frequent instructions.
        if matches!(mnemonic, Mnemonic::Mov | Mnemonic::Movzx) {
            let value = self.read(1)?;
            return self.write(value);
        }
        if list::is_cmov(mnemonic) {
            return self.conditional_move();
        }
        if list::is_setcc(mnemonic)
            && self.instruction.op0_kind() == OpKind::Register
            && !is_high_byte(self.instruction.op0_register())
            && self.instruction.op0_register().full_register() != Register::RSP
        {
            self.reads_flags(self.instruction.rflags_read())?;
            let relation = step::relation(self.instruction.condition_code());
            if self.set_condition(relation)? {
                return Ok(());
            }
        }
        if self.reference_tag()? {
            return Ok(());
        }
        match mnemonic {
            Mnemonic::Nop => Ok(()),
            Mnemonic::Movsx | Mnemonic::Movsxd => self.sign_extend(),
            Mnemonic::Lea => self.lea(),
            Mnemonic::Cmp => {
                let (left, right) = (self.read(0)?, self.read(1)?);
                let in_array = casts::in_one_array(left, right);
                let (left, right) = in_array.unwrap_or((left, right));
                self.state.flags = self.comparison(left, right);
                self.state.readable = readable_flags(left, right);
                Ok(())
            }
            Mnemonic::Test => {
                let (left, right) = (self.read(0)?, self.read(1)?);
                // `test` of a value and its copy compares the value with 0.
                let is_same = left.is_same(&right) || casts::is_same_reference(left, right);
                let constants = left.as_constant().zip(right.as_constant());
                self.state.flags = match constants {
                    _ if is_same => self.comparison(left, Value::constant(0)),
                    Some((left, right)) => {
                        self.comparison(Value::constant(left & right), Value::constant(0))
                    }
                    None => self
                        .comparison(left, Value::constant(0))
                        .filter(|_| self.is_same_register()),
                };
                self.state.readable = match self.state.flags {
                    Some(comparison) => readable_flags(comparison.left, comparison.right),
                    None if left.is_number() && right.is_number() => FLAGS,
                    None => 0,
                };
                Ok(())
            }
            // The code generator clears a register by an XOR with itself or with a copy.
            Mnemonic::Xor if self.is_same_register() || self.is_same_value() => {
                self.change_flags(true);
                self.write(Value::constant(0))
            }
            Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Imul
                if self.is_arithmetic() =>
            {
                self.arithmetic(mnemonic)
            }
            _ => self.other(),
        }
    }

    fn is_same_register(&self) -> bool {
        self.instruction.op0_kind() == OpKind::Register
            && self.instruction.op1_kind() == OpKind::Register
            && self.instruction.op0_register() == self.instruction.op1_register()
    }

    /// Whether two registers, which the instruction uses in part or whole, have the same bits.
    fn is_same_value(&mut self) -> bool {
        let instruction = self.instruction;
        let [left, right] = [0, 1].map(|at| instruction.op_register(at).full_register());
        let is_pair = instruction.op0_kind() == OpKind::Register
            && instruction.op1_kind() == OpKind::Register
            && instruction.op0_register().size() == instruction.op1_register().size()
            && !is_high_byte(instruction.op0_register())
            && !is_high_byte(instruction.op1_register())
            && left.is_gpr64()
            && right.is_gpr64();
        let value = |register: Register| self.state.registers[register.number()];
        is_pair && (value(left).is_same(&value(right)) || self.are_copies(left, right))
    }

    /// Whether moves shortly before the instruction, on each path to it, make two registers copies
    /// of one value. Most kinds of values have no symbol, so two values that look equal may differ.
    fn are_copies(&mut self, mut left: Register, mut right: Register) -> bool {
        const DISTANCE_MAX: usize = 12;
        let mut at = self.at;
        for _ in 0..DISTANCE_MAX {
            if self.walk.is_leader(at) {
                return false;
            }
            let Some(before) = self.walk.instruction_before(at) else {
                return false;
            };
            let is_move = matches!(before.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64)
                && before.op0_register().is_gpr64()
                && before.op1_register().is_gpr64();
            let info = self.walk.machine.factory.info(&before);
            let writes = |register: Register| {
                info.used_registers().iter().any(|used| {
                    used.register().full_register() == register && writes(used.access())
                })
            };
            let before_it = |register: Register| match is_move && before.op0_register() == register
            {
                true => Some(before.op1_register()),
                false => (!writes(register)).then_some(register),
            };
            let (Some(old_left), Some(old_right)) = (before_it(left), before_it(right)) else {
                return false;
            };
            if old_left == old_right {
                return true;
            }
            if before.flow_control() != FlowControl::Next {
                return false;
            }
            (left, right, at) = (old_left, old_right, before.ip() as u32);
        }
        false
    }

    /// Whether the first operand is a general register of 32 or 64 bits, and there are other
    /// operands.
    fn is_arithmetic(&self) -> bool {
        let instruction = self.instruction;
        let register = instruction.op0_register();
        instruction.op0_kind() == OpKind::Register
            && (register.is_gpr32() || register.is_gpr64())
            && instruction.op_count() >= 2
    }

    fn arithmetic(&mut self, mnemonic: Mnemonic) -> Proof<()> {
        let (left, right) = match self.instruction.op_count() {
            3 => (self.read(1)?, self.read(2)?),
            _ => (self.read(0)?, self.read(1)?),
        };
        let (left, right) = (left.null_as_number(), right.null_as_number());
        let register = self.instruction.op0_register();
        let fresh = self.fresh(0);
        let are_numbers = left.is_number() && right.is_number();
        // A mask of the lowest byte clears all other bits.
        if let (Mnemonic::And, true, Some(mask @ 0..=0xff)) = (
            mnemonic,
            !are_numbers && left.has_byte(),
            right.as_constant(),
        ) {
            self.change_flags(false);
            return self.write_register(register, Value::number(fresh, 0, mask));
        }
        // The lowest byte of the result depends only on the lowest bytes of the operands.
        if mnemonic != Mnemonic::Shr
            && !are_numbers
            && left.has_byte()
            && right.has_byte()
            && register.full_register() != Register::RSP
        {
            let value = bits(mnemonic, left, right).unwrap_or(Value::named(fresh, Kind::Byte));
            self.state.registers[register.full_register().number()] = value;
            self.change_flags(false);
            return Ok(());
        }
        if mnemonic == Mnemonic::And
            && let Some(tag) = casts::tag(left, right, fresh)
        {
            self.change_flags(true);
            return self.write_register(register.full_register(), tag);
        }
        if let Some(part) = self.converted(mnemonic, left, right) {
            self.change_flags(false);
            return self.write_register(register, part);
        }
        let Some(value) = self.computed(mnemonic, left, right) else {
            return refuse(
                Property::Accesses,
                format!("computes with {:?} and {:?}", left.kind, right.kind),
            );
        };
        if mnemonic == Mnemonic::Add && self.walk.module.has_objects {
            objects::note_sum(self.state, left, right, value);
        }
        // The comparison that `sub` implies is not tracked.
        self.change_flags(are_numbers);
        let value = match value.kind {
            Kind::Number if register.is_gpr32() => {
                let fresh = self.fresh(2);
                objects::named_word(self.walk.module, self.state, value, fresh)
            }
            _ if register.is_gpr32() && !value.is_number() => {
                return refuse(Property::Accesses, "computes the lower half of an address");
            }
            _ => value,
        };
        self.write_register(register, value)
    }

    /// The result of an arithmetic instruction. `None` if the result may be an unknown address.
    fn computed(&mut self, mnemonic: Mnemonic, left: Value, right: Value) -> Option<Value> {
        let fresh = self.fresh(0);
        let are_numbers = left.is_number() && right.is_number();
        match mnemonic {
            Mnemonic::Add => objects::added(self.walk.module, self.state, left, right, fresh),
            Mnemonic::Sub => difference(left, right, fresh, self.fresh(1)),
            Mnemonic::Imul => right
                .as_constant()
                .and_then(|by| objects::row_index(left, by))
                .or_else(|| are_numbers.then(|| product(left, right, fresh))),
            Mnemonic::Shl if matches!(left.kind, Kind::TypeOf(_)) => {
                let by = right.as_constant().filter(|by| (0..8).contains(by));
                by.and_then(|by| objects::row_index(left, 1 << by))
            }
            Mnemonic::Shr if let Kind::RowWord(object) = left.kind => {
                let is_upper = right.as_constant() == Some(32) && self.bytes(0) == 8;
                is_upper.then_some(Value::of(Kind::RowChain(object)))
            }
            _ if are_numbers => self.computed_number(mnemonic, left, right),
            _ => None,
        }
    }

    /// The result of a logical operation or a shift of numbers.
    fn computed_number(&mut self, mnemonic: Mnemonic, left: Value, right: Value) -> Option<Value> {
        let fresh = self.fresh(0);
        let has_objects = self.walk.module.has_objects;
        let constants = left.as_constant().zip(right.as_constant());
        Some(match (mnemonic, constants) {
            (Mnemonic::And, Some((a, b))) => Value::constant(a & b),
            (Mnemonic::Or, Some((a, b))) => Value::constant(a | b),
            (Mnemonic::Xor, Some((a, b))) => Value::constant(a ^ b),
            (Mnemonic::And, None)
                if has_objects
                    && self.bytes(0) == 8
                    && right.as_constant() == Some(-8)
                    && let Some(size) = objects::rounded(self.state, left, fresh) =>
            {
                size
            }
            (Mnemonic::Or, None) if let Some(odd) = objects::odd(left, right, fresh) => odd,
            (Mnemonic::And, None) => masked(left, right, fresh),
            (Mnemonic::Or | Mnemonic::Xor, None) => united(left, right, fresh),
            (Mnemonic::Shl, _) => match right.as_constant() {
                Some(by @ 0..64) => left.shifted(by as u32, fresh),
                _ => Value::any(fresh),
            },
            (Mnemonic::Shr, _) => shifted_right(left, right, self.bytes(0), fresh),
            _ => return None,
        })
    }

    fn sign_extend(&mut self) -> Proof<()> {
        let bits = 8 * self.bytes(1);
        let loaded = match self.instruction.op1_kind() {
            OpKind::Memory => self.access(bits / 8, Use::Read)?,
            _ => self.read(1)?,
        };
        let is_table = matches!(loaded.kind, Kind::JumpOffset(_) | Kind::DispatchOffset(..));
        let limit = 1_i64 << (bits - 1);
        let value = match loaded.kind {
            _ if is_table && self.bytes(0) == 8 => loaded,
            _ if is_table => Value::word(self.fresh(0)),
            _ if !is_data(loaded, bits / 8) => {
                return refuse(
                    Property::Types,
                    format!("extends {:?}, which is no number", loaded.kind),
                );
            }
            _ if loaded.is_number() && loaded.low >= 0 && loaded.high < limit => loaded,
            _ if loaded.is_number()
                && loaded.low >= limit
                && loaded.low == loaded.high
                && loaded.low < 2 * limit =>
            {
                Value::constant(loaded.low - 2 * limit)
            }
            _ => Value::number(self.fresh(0), -limit, limit - 1),
        };
        self.write(value)
    }

    fn lea(&mut self) -> Proof<()> {
        let address = self.address()?;
        self.note_sum(address.base);
        let displacement = Value::constant(address.displacement);
        let register = self.instruction.op0_register();
        let sum = match address.displacement {
            0 => Some(address.base),
            _ => objects::neighbour_sum(self.walk.module, self.state, address.base, displacement)
                .or_else(|| address.base.plus(displacement, self.fresh(1))),
        };
        match sum {
            Some(sum) if register.is_gpr64() => self.write_register(register, sum),
            Some(sum) if sum.is_number() => {
                let sum = objects::named_word(self.walk.module, self.state, sum, self.fresh(0));
                self.write_register(register, sum)
            }
            _ => refuse(
                Property::Accesses,
                format!("computes an address from {:?}", address.base.kind),
            ),
        }
    }

    /// Notes the sum of two registers.
    fn note_sum(&mut self, sum: Value) {
        let (base, index) = (
            self.instruction.memory_base(),
            self.instruction.memory_index(),
        );
        let is_sum = base.is_gpr64() && index.is_gpr64();
        if self.walk.module.has_objects && is_sum && self.instruction.memory_index_scale() == 1 {
            let registers = &self.state.registers;
            let (left, right) = (registers[base.number()], registers[index.number()]);
            objects::note_sum(self.state, left, right, sum);
        }
    }

    /// Any other instruction: it must read only numbers, and its results are numbers.
    fn other(&mut self) -> Proof<()> {
        let instruction = self.instruction;
        if matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) {
            self.needs_trap("divides")?;
        }
        let is_bit = matches!(
            instruction.mnemonic(),
            Mnemonic::Bt | Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts
        );
        if is_bit && instruction.op0_kind() == OpKind::Memory {
            return refuse(
                Property::Accesses,
                "selects a bit of memory, which may lie beside the operand",
            );
        }
        self.reads_flags(instruction.rflags_read())?;
        let is_found = matches!(instruction.mnemonic(), Mnemonic::Bsf | Mnemonic::Bsr)
            && self.may_keep_secret()?;
        // Without its address registers, the instruction reads only the registers that it computes
        // with.
        let mut apart = instruction;
        apart.set_memory_base(Register::None);
        apart.set_memory_index(Register::None);
        let info = self.walk.machine.factory.info(&apart);
        let memory = info.used_memory().first().map(UsedMemory::access);
        let memories = info.used_memory().len();
        let registers: Vec<_> = info
            .used_registers()
            .iter()
            .map(|used| (used.register(), used.access()))
            .collect();
        let (mut extent, mut needed) = (Extent::Whole, vectors::needed(&instruction));
        let old = match instruction.op0_kind() {
            OpKind::Register if instruction.op0_register().is_vector_register() => {
                let kept = vectors::kept(&instruction);
                self.state.vector(kept.number()).extent
            }
            // A spill stores the whole register, even data of the host.
            OpKind::Memory if vectors::is_whole_move(&instruction) && self.is_stack()? => {
                needed = Extent::Nothing;
                Extent::Nothing
            }
            _ => Extent::Nothing,
        };
        // A mask of zeros selects the lowest byte for each byte of the result.
        let splats = vectors::byte_splat_mask(&instruction)
            .is_some_and(|mask| self.state.vector(mask.number()).symbol == Symbol::CLEARED);
        if splats {
            needed = Extent::Byte;
        }
        let is_cleared = self.is_cleared();
        let clears = is_cleared
            || (instruction.mnemonic() == Mnemonic::Sbb
                && (self.is_same_register() || self.is_same_value()));
        if !clears {
            extent = self.reads_registers(&registers, needed)?;
        }
        if memories > 1 {
            return refuse(Property::Accesses, "accesses memory at two addresses");
        }
        if let Some(access) = memory
            && access != OpAccess::NoMemAccess
        {
            extent = extent.min(self.uses_memory(access, extent, needed)?);
        }
        for (number, (register, access)) in registers.into_iter().enumerate() {
            if writes(access) {
                let extent = match splats {
                    true => Extent::Whole,
                    false => vectors::result(&instruction, extent, old),
                };
                self.writes_number(register, 16 + number as u64, extent)?;
            }
        }
        if is_cleared && vectors::is_xor(instruction.mnemonic()) {
            let register = instruction.op0_register().number();
            self.state.vector_mut(register).symbol = Symbol::CLEARED;
        }
        if is_found {
            self.write_found();
        }
        self.change_flags(true);
        Ok(())
    }

    /// Checks that each register that the instruction reads is a number up to the extent `needed`.
    /// Returns the smallest extent.
    fn reads_registers(&self, registers: &[(Register, OpAccess)], needed: Extent) -> Proof<Extent> {
        let instruction = self.instruction;
        let mut extent = Extent::Whole;
        for (register, _) in registers.iter().filter(|(_, access)| reads(*access)) {
            if self.moves_byte(*register) {
                extent = extent.min(Extent::Byte);
                continue;
            }
            let read = self.reads_number(*register, needed)?;
            // The instruction keeps the other lanes of this register, so its extent does not limit
            // the inserted lane.
            let is_kept = vectors::lane(&instruction).is_some()
                && *register == vectors::kept(&instruction)
                && *register != vectors::inserted(&instruction);
            if !is_kept {
                extent = extent.min(read);
            }
        }
        Ok(extent)
    }

    /// Checks the memory operand. `extent` is the extent of the registers, `needed` the extent that
    /// must be a number. Returns the extent of a loaded value.
    fn uses_memory(&mut self, access: OpAccess, extent: Extent, needed: Extent) -> Proof<Extent> {
        let usage = match (reads(access), writes(access)) {
            (_, false) => Use::Read,
            (true, true) => Use::Update,
            (false, true) => Use::Vector(extent),
        };
        let bytes = self.instruction.memory_size().size() as u32;
        let value = plain(self.access(bytes, usage)?, self.fresh(4));
        let loaded = Extent::of_loaded(value);
        let needed = needed.max(vectors::needed_in_memory(&self.instruction));
        if reads(access) && loaded.is_none_or(|loaded| loaded < needed) {
            return refuse(
                Property::Types,
                format!("computes with {:?}, which is no number", value.kind),
            );
        }
        Ok(loaded.unwrap_or(Extent::Whole))
    }

    /// Updates the state of the flags after an instruction. `with_numbers`: all operands are
    /// numbers.
    ///
    /// Undefined flags may keep their former values (Intel SDM volume 1, appendix A). A shift by 0
    /// bits keeps all flags.
    pub(super) fn change_flags(&mut self, with_numbers: bool) {
        let instruction = self.instruction;
        let modified = instruction.rflags_modified();
        if modified == 0 {
            return;
        }
        self.state.flags = None;
        if !with_numbers {
            self.state.readable &= !modified;
        } else if !is_shift_by_0(&instruction) {
            let replaced = instruction.rflags_written()
                | instruction.rflags_cleared()
                | instruction.rflags_set();
            self.state.readable |= replaced & FLAGS;
        }
    }

    /// Whether the destination of `bsf` or `bsr` may hold no number after the instruction, until a
    /// `cmove` soon after. The instruction leaves its destination unchanged if the source is 0.
    fn may_keep_secret(&self) -> Proof<bool> {
        let register = self.instruction.op0_register();
        if self.reads_number(register, Extent::Nothing).is_ok() {
            return Ok(false);
        }
        // Instructions on 16 bits keep the other bits of a register, which hold no number.
        let is_wide = |register: Register| register.size() >= 4;
        let select = self.next_select().map(|select| select.op0_register());
        if is_wide(register) && select.is_some_and(is_wide) {
            return Ok(true);
        }
        refuse(
            Property::Types,
            format!("may keep {register:?}, which holds no number"),
        )
    }

    /// Notes that the destination of `bsf` or `bsr` holds a number if the zero flag is not set.
    fn write_found(&mut self) {
        let register = self.instruction.op0_register();
        let number = match register.size() {
            4 => Value::word(Symbol::ZERO),
            _ => Value::any(Symbol::ZERO),
        };
        self.state.registers[register.full_register().number()] = Value {
            kind: Kind::Found,
            ..number
        };
        self.walk.machine.has_found = true;
    }

    /// The next `cmove`, if only few moves are before it, and no block starts before it.
    fn next_select(&self) -> Option<Instruction> {
        const MOVES_MAX: u32 = 4;
        let mut at = self.instruction.next_ip() as u32;
        for _ in 0..=MOVES_MAX {
            if self.walk.is_leader(at) {
                return None;
            }
            let next = self.walk.known_instruction(at)?;
            match next.mnemonic() {
                Mnemonic::Cmove => return Some(next),
                Mnemonic::Mov => at = next.next_ip() as u32,
                _ => return None,
            }
        }
        None
    }

    /// Whether the instruction moves a general register to a vector register, and only the
    /// register's lowest byte is a number.
    fn moves_byte(&self, register: Register) -> bool {
        let instruction = self.instruction;
        matches!(instruction.mnemonic(), Mnemonic::Movd | Mnemonic::Vmovd)
            && instruction.op0_register().is_xmm()
            && register.is_gpr32()
            && register == instruction.op1_register()
            && {
                let value = self.state.registers[register.full_register().number()];
                value.has_byte() && !value.is_number()
            }
    }

    /// Whether a 32-bit instruction may leave the upper half of its destination unchanged while
    /// this half may be nonzero.
    fn may_keep(&self, register: Register) -> bool {
        let is_kept = matches!(
            self.instruction.mnemonic(),
            Mnemonic::Bsf | Mnemonic::Bsr | Mnemonic::Cmpxchg
        );
        let old = self.state.registers[register.full_register().number()];
        is_kept && !(old.is_number() && old.low >= 0 && old.high <= i64::from(u32::MAX))
    }

    /// Whether the memory operand is in the frame.
    fn is_stack(&self) -> Proof<bool> {
        Ok(self.address()?.base.kind == Kind::Stack)
    }

    /// Whether the result does not depend on the operands: a vector register is combined with
    /// itself or with a copy.
    fn is_cleared(&self) -> bool {
        let instruction = self.instruction;
        let count = instruction.op_count();
        let known = matches!(
            instruction.mnemonic(),
            Mnemonic::Pcmpeqb
                | Mnemonic::Pcmpeqd
                | Mnemonic::Pcmpeqw
                | Mnemonic::Pxor
                | Mnemonic::Xorps
                | Mnemonic::Xorpd
                | Mnemonic::Vpcmpeqb
                | Mnemonic::Vpcmpeqd
                | Mnemonic::Vpcmpeqw
                | Mnemonic::Vpxor
                | Mnemonic::Vxorps
                | Mnemonic::Vxorpd
        );
        let symbol = |at| {
            let register = instruction.op_register(at);
            register
                .is_xmm()
                .then(|| self.state.vector(register.number()).symbol)
        };
        known && count >= 2 && symbol(count - 1).is_some() && symbol(count - 1) == symbol(count - 2)
    }

    /// Checks that the part of a register that the instruction reads is a number. Returns the
    /// register's extent.
    fn reads_number(&self, register: Register, needed: Extent) -> Proof<Extent> {
        let (is_number, extent) = if register.is_gpr() {
            let mut value = self.state.registers[register.full_register().number()];
            if register.is_gpr32() && value.kind == Kind::Reference(HeapType::I31) {
                value = self.read_register(register);
            }
            let is_number = match is_high_byte(register) {
                true => value.is_number(),
                false => is_data(value, register.size() as u32),
            };
            (is_number, Extent::Whole)
        } else if register.is_vector_register() {
            let extent = self.state.vector(register.number()).extent;
            (extent >= needed, extent)
        } else {
            (true, Extent::Whole)
        };
        if is_number {
            return Ok(extent);
        }
        refuse(
            Property::Types,
            format!("computes with register {register:?}, which holds no number"),
        )
    }

    fn writes_number(&mut self, register: Register, number: u64, extent: Extent) -> Proof<()> {
        if register.is_gpr() {
            let fresh = Symbol(u64::from(self.at) << 4 | 1 << 61 | number << 40);
            let explicit = self.instruction.op0_register();
            let is_word = self.instruction.op0_kind() == OpKind::Register
                && explicit.is_gpr32()
                && explicit.full_register() == register.full_register();
            let value = match register.size() {
                8 if is_word && !self.may_keep(register) => Value::word(fresh),
                8 => Value::any(fresh),
                bytes => Value::number(fresh, 0, (1 << (8 * bytes)) - 1),
            };
            return self.write_register(register, value);
        }
        if register.is_vector_register() && register.number() < VECTORS {
            let fresh = Symbol(u64::from(self.at) << 4 | 1 << 54 | number << 40);
            let copied = vectors::is_whole_move(&self.instruction)
                .then(|| self.instruction.op1_register())
                .filter(|source| source.is_xmm())
                .map(|source| self.state.vector(source.number()).symbol);
            let symbol = copied.unwrap_or(fresh);
            *self.state.vector_mut(register.number()) = Vector::new(extent, symbol);
        }
        Ok(())
    }
}

/// Whether the count of a shift or rotation may be 0 (Intel SDM volume 2, `SAL`, `RCL`, `SHLD`).
fn is_shift_by_0(instruction: &Instruction) -> bool {
    let is_shift = matches!(
        instruction.mnemonic(),
        Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Sar
            | Mnemonic::Shl
            | Mnemonic::Shld
            | Mnemonic::Shr
            | Mnemonic::Shrd
    );
    let count = instruction.op_count().saturating_sub(1);
    is_shift
        && match instruction.op_kind(count) {
            OpKind::Immediate8 => instruction.immediate(count) & 31 == 0,
            _ => true,
        }
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// The lowest bit of a result, if it follows from the lowest bytes of the operands.
fn bits(mnemonic: Mnemonic, left: Value, right: Value) -> Option<Value> {
    let (left, right) = (left.low_byte()?, right.low_byte()?);
    let byte = match mnemonic {
        Mnemonic::And => left & right,
        Mnemonic::Or => left | right,
        Mnemonic::Xor => left ^ right,
        _ => return None,
    };
    matches!(byte, 0 | 1).then_some(Value::of(Kind::Bit(byte == 1)))
}
