//! Structs, arrays and 31-bit integers (spec 3.0, 4.6.5): allocation, reads and writes.
//!
//! Objects are allocated one after another in a part of the slot that works like an additional
//! memory. Each reset releases all objects: there is no garbage collection. A reference is a word
//! whose lowest bits are a tag (`layout.rs`). References are absolute, so instances of one group
//! can pass them to each other:
//!
//! ```text
//! 0        null                     struct   │ type id, 0   │ fields ...
//! ...000   struct: its address               ▲ reference
//! ...010   array: its address + 2   array    │ type id, len │ elements ...
//! .....1   31-bit integer
//! ..1.0    a host reference
//! ```
//!
//! Allocation is an addition and a comparison. The memory after the last object is always zero,
//! even if the guest was interrupted. The reason is that code advances the pointer to the next
//! object before it writes the object. So fields with default values are not written.

mod array;
mod cast;

use super::function::{FuncTranslator, Region};
use crate::error::CompileError;
use crate::ir::types::{POINTER, value_type};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use pirn_format::exit::{Builtin, TrapCode};
use pirn_format::layout::{
    ARRAY_LEN, CONTEXT_HEAP_END, CONTEXT_HEAP_NEXT, EXTERNAL_PREFIX, EXTERNAL_SHIFT, HOST_SHIFT,
    OBJECT_HEADER_BYTES, OBJECT_TYPE, TAG_BITS, TAG_BOXED, TAG_HOST, TAG_I31,
};
use pirn_format::types::StorageType;
use wasmparser::Operator;

/// Whether a field of less than 32 bits is sign-extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Signed,
    Unsigned,
}

/// The maximum size of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// At most [`SMALL_BYTES`].
    Small,
    /// Any size that the guest computes.
    Any,
}

/// Bytes of the largest struct, and of the largest array whose elements the code lists. 10,000
/// vectors and a header take less. All objects of this size that a processor can allocate
/// speculatively fit in the guard after a memory.
const SMALL_BYTES: u64 = 1 << 18;

const _: () = assert!(100 * SMALL_BYTES < pirn_format::layout::GUARD_BYTES);

/// Bits that a host reference may have without a box.
const HOST_BITS: i64 = 64 - HOST_SHIFT as i64;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on structs, arrays, 31-bit integers or references to them. Returns
    /// `false` for other operators.
    pub(super) fn gc(&mut self, op: &Operator<'_>) -> Result<bool, CompileError> {
        match *op {
            Operator::StructNew { struct_type_index } => self.struct_new(struct_type_index),
            Operator::StructNewDefault { struct_type_index } => {
                let reference = self.new_struct(struct_type_index);
                self.push(reference);
            }
            Operator::StructGet {
                struct_type_index,
                field_index,
            }
            | Operator::StructGetU {
                struct_type_index,
                field_index,
            } => self.struct_get(struct_type_index, field_index, Sign::Unsigned),
            Operator::StructGetS {
                struct_type_index,
                field_index,
            } => self.struct_get(struct_type_index, field_index, Sign::Signed),
            Operator::StructSet {
                struct_type_index,
                field_index,
            } => self.struct_set(struct_type_index, field_index),
            Operator::RefEq => {
                let (a, b) = self.pop2();
                let equal = self.builder.ins().icmp(IntCC::Equal, a, b);
                self.push_bool(equal);
            }
            Operator::RefI31 => {
                let value = self.pop();
                let value = self.builder.ins().ishl_imm_u(value, 1);
                let value = self.builder.ins().bor_imm_u(value, TAG_I31 as i64);
                let value = self.extend(value);
                self.push(value);
            }
            Operator::I31GetS => {
                let value = self.i31();
                let value = self.builder.ins().sshr_imm_u(value, 1);
                self.push(value);
            }
            Operator::I31GetU => {
                let value = self.i31();
                let value = self.builder.ins().ushr_imm_u(value, 1);
                self.push(value);
            }
            Operator::AnyConvertExtern => self.any_convert_extern(),
            Operator::ExternConvertAny => self.extern_convert_any(),
            _ => return Ok(self.array_operator(op) || self.cast(op)?),
        }
        Ok(true)
    }

    /// The last operand, a reference to a 31-bit integer, as an i32 that still has its tag.
    fn i31(&mut self) -> Value {
        let reference = self.pop();
        self.trap_if_zero(reference, TrapCode::NullI31Reference);
        self.builder.ins().ireduce(types::I32, reference)
    }

    /// Allocates `bytes` bytes, writes the id of the type to the header, and returns the address.
    ///
    /// If the processor mispredicts that there is space, an object whose size the guest computes
    /// could overlap other instances. So such an object and the next ones get the address null
    /// under misprediction. Objects of at most [`SMALL_BYTES`] stay in the guard after the memory
    /// and need no mask.
    fn allocate(&mut self, ty: u32, bytes: Value, size: Size) -> Value {
        let flags = self.flags(Region::Heap);
        let ins = self.builder.ins();
        let start = ins.load(POINTER, flags, self.vmctx, CONTEXT_HEAP_NEXT);
        let ins = self.builder.ins();
        let limit = ins.load(POINTER, flags, self.vmctx, CONTEXT_HEAP_END);
        // No sum wraps: the size is below 2^37 bytes, and addresses are below 2^48.
        let end = self.builder.ins().iadd(start, bytes);
        let full = IntCC::UnsignedGreaterThan;
        let full = self.builder.ins().icmp(full, end, limit);
        let (cold, next) = (self.successor(true), self.successor(false));
        let is_masked = size == Size::Any && self.env.spectre;
        let (before, after) = match is_masked {
            true => {
                let masked = [start, end].map(|value| self.null_where(full, value).into());
                (vec![start.into(), end.into()], masked.to_vec())
            }
            false => (vec![], vec![]),
        };
        self.builder.ins().brif(full, cold, [], next, &after);
        self.builder.switch_to_block(cold);
        self.builder.seal_block(cold);
        self.store_fuel();
        self.builtin(Builtin::HeapGrow, &[bytes]);
        self.builder.ins().jump(next, &before);
        let mut param = |value| match is_masked {
            true => self.builder.append_block_param(next, POINTER),
            false => value,
        };
        let (start, end) = (param(start), param(end));
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
        let ins = self.builder.ins();
        ins.store(flags, end, self.vmctx, CONTEXT_HEAP_NEXT);
        let id = self.env.layout.type_id(ty);
        let id = self.load_constant(types::I32, self.vmctx, id);
        let flags = self.flags(Region::Header);
        self.builder.ins().store(flags, id, start, OBJECT_TYPE);
        start
    }

    /// Allocates a struct whose fields are zero or null.
    fn new_struct(&mut self, ty: u32) -> Value {
        let bytes = self.env.structs.fields(ty).bytes;
        let bytes = self.word(bytes);
        self.allocate(ty, bytes, Size::Small)
    }

    fn struct_new(&mut self, ty: u32) {
        let reference = self.new_struct(ty);
        let fields = self.env.metadata.struct_fields(ty);
        let offsets = self.env.structs.fields(ty).offsets;
        let values = self.peek(fields.len()).to_vec();
        self.drop_operands(fields.len());
        for ((field, offset), value) in fields.iter().zip(offsets).zip(values) {
            self.store_field(field.storage, reference, *offset as i32, value);
        }
        self.push(reference);
    }

    fn struct_get(&mut self, ty: u32, field: u32, sign: Sign) {
        let reference = self.pop();
        let (storage, offset) = self.field(ty, field);
        self.trap_if_zero(reference, TrapCode::NullStructReference);
        let value = self.load_field(storage, sign, reference, offset);
        self.push(value);
    }

    fn struct_set(&mut self, ty: u32, field: u32) {
        let (reference, value) = self.pop2();
        let (storage, offset) = self.field(ty, field);
        self.trap_if_zero(reference, TrapCode::NullStructReference);
        self.store_field(storage, reference, offset, value);
    }

    /// The type and offset of a field.
    fn field(&self, ty: u32, field: u32) -> (StorageType, i32) {
        let storage = self.env.metadata.struct_fields(ty)[field as usize].storage;
        let offset = self.env.structs.fields(ty).offsets[field as usize];
        (storage, offset as i32)
    }

    /// Flags for an access to a field or an element. Vectors are aligned to a word only.
    fn field_flags(&self, storage: StorageType) -> MemFlagsData {
        let flags = self.guest_flags(Region::Field).with_notrap();
        match storage.log2() {
            4.. => flags,
            _ => flags.with_aligned(),
        }
    }

    fn load_field(
        &mut self,
        storage: StorageType,
        sign: Sign,
        address: Value,
        offset: i32,
    ) -> Value {
        let flags = self.field_flags(storage);
        let ins = self.builder.ins();
        match (storage, sign) {
            (StorageType::I8, Sign::Signed) => ins.sload8(types::I32, flags, address, offset),
            (StorageType::I8, Sign::Unsigned) => ins.uload8(types::I32, flags, address, offset),
            (StorageType::I16, Sign::Signed) => ins.sload16(types::I32, flags, address, offset),
            (StorageType::I16, Sign::Unsigned) => ins.uload16(types::I32, flags, address, offset),
            (StorageType::Val(ty), _) => ins.load(value_type(ty), flags, address, offset),
        }
    }

    fn store_field(&mut self, storage: StorageType, address: Value, offset: i32, value: Value) {
        let flags = self.field_flags(storage);
        let ins = self.builder.ins();
        match storage {
            StorageType::I8 => ins.istore8(flags, value, address, offset),
            StorageType::I16 => ins.istore16(flags, value, address, offset),
            StorageType::Val(_) => ins.store(flags, value, address, offset),
        };
    }

    /// Converts a host reference to any reference. A reference that was converted from a guest
    /// reference is converted back.
    fn any_convert_extern(&mut self) {
        let external = self.pop();
        let prefix = self
            .builder
            .ins()
            .ushr_imm_u(external, i64::from(EXTERNAL_SHIFT));
        let prefixed = EXTERNAL_PREFIX as i64;
        let is_guests = self
            .builder
            .ins()
            .icmp_imm_u(IntCC::Equal, prefix, prefixed);
        let inner = (1 << EXTERNAL_SHIFT) - 1;
        let inner = self.builder.ins().band_imm_u(external, inner);
        let host = self
            .builder
            .ins()
            .ishl_imm_u(external, i64::from(HOST_SHIFT));
        let host = self.builder.ins().bor_imm_u(host, TAG_HOST as i64);
        let ins = self.builder.ins();
        let any = match self.env.spectre {
            true => ins.select_spectre_guard(is_guests, inner, host),
            false => ins.select(is_guests, inner, host),
        };
        let null = self.builder.ins().icmp_imm_u(IntCC::Equal, external, 0);
        let any = self.builder.ins().select(null, external, any);
        let high = self.builder.ins().ushr_imm_u(external, HOST_BITS);
        let is_large = self.builder.ins().icmp_imm_u(IntCC::NotEqual, high, 0);
        let is_hosts = self
            .builder
            .ins()
            .icmp_imm_u(IntCC::NotEqual, prefix, prefixed);
        let is_boxed = self.builder.ins().band(is_large, is_hosts);
        let value = self.seldom(is_boxed, any, |t| {
            t.store_fuel();
            let boxed = t.builtin(Builtin::HostBox, &[external]);
            boxed.expect("the builtin has a result")
        });
        self.push(value);
    }

    /// Converts any reference to a host reference.
    fn extern_convert_any(&mut self) {
        let any = self.pop();
        let tag = self.builder.ins().band_imm_u(any, TAG_BITS as i64);
        let host = self.builder.ins().ushr_imm_u(any, i64::from(HOST_SHIFT));
        let prefix = (EXTERNAL_PREFIX << EXTERNAL_SHIFT).cast_signed();
        let prefix = self.builder.ins().iconst(POINTER, prefix);
        let guests = self.builder.ins().bor(any, prefix);
        let hosts = TAG_HOST as i64;
        let is_hosts = self.builder.ins().icmp_imm_u(IntCC::Equal, tag, hosts);
        let external = self.builder.ins().select(is_hosts, host, guests);
        let null = self.builder.ins().icmp_imm_u(IntCC::Equal, any, 0);
        let external = self.builder.ins().select(null, any, external);
        let boxed = TAG_BOXED as i64;
        let is_boxed = self.builder.ins().icmp_imm_u(IntCC::Equal, tag, boxed);
        let value = self.seldom(is_boxed, external, |t| {
            let flags = t.flags(Region::Field);
            let offset = OBJECT_HEADER_BYTES as i32 - TAG_BOXED as i32;
            let is_other = t.is_false(is_boxed);
            let any = t.null_where(is_other, any);
            t.builder.ins().load(POINTER, flags, any, offset)
        });
        self.push(value);
    }

    /// Returns `value`, or the result of `otherwise` if an unlikely condition holds.
    fn seldom(
        &mut self,
        condition: Value,
        value: Value,
        otherwise: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let (cold, next) = (self.successor(true), self.successor(false));
        let ty = self.type_of(value);
        let result = self.builder.append_block_param(next, ty);
        let ins = self.builder.ins();
        ins.brif(condition, cold, [], next, &[value.into()]);
        self.builder.switch_to_block(cold);
        self.builder.seal_block(cold);
        let other = otherwise(self);
        self.builder.ins().jump(next, &[other.into()]);
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
        result
    }

    /// The number of elements, an i32, of an array that is not null.
    fn array_len(&mut self, array: Value) -> Value {
        let flags = self.flags(Region::Header);
        let offset = ARRAY_LEN - array::TAG;
        self.builder.ins().load(types::I32, flags, array, offset)
    }
}
