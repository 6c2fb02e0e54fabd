//! Arrays.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ This file is a part of the sandbox. Every change to it wants two reviews.                    │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! Indices and lengths have 32 bits. Their sums have 64 bits and do not wrap. Addresses and element
//! counts are masked under speculation, as linear-memory addresses are, and so are addresses of new
//! arrays.

use super::{SMALL_BYTES, Sign, Size};
use crate::translate::function::{BoundsCheck, FuncTranslator, Region};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use pirn_format::exit::{Builtin, TrapCode};
use pirn_format::layout::{ARRAY_LEN, OBJECT_ALIGN, OBJECT_HEADER_BYTES, TAG_ARRAY};
use pirn_format::types::StorageType;
use wasmparser::Operator;

/// Distance from the header of an array to its reference.
pub(super) const TAG: i32 = TAG_ARRAY as i32;

/// Most elements of a new array that are written without a loop.
const UNROLLED: u64 = 8;

/// Distance from a reference to the first element.
const FIRST: i32 = OBJECT_HEADER_BYTES as i32 - TAG;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on arrays. Returns `false` for other operators. Longer than other
    /// functions: it has an arm for each operator.
    pub(super) fn array_operator(&mut self, op: &Operator<'_>) -> bool {
        match *op {
            Operator::ArrayNew { array_type_index } => {
                let (value, len) = self.pop2();
                let storage = self.element(array_type_index);
                let array = self.new_array(array_type_index, len);
                let count = self.constant_value(len);
                match count.filter(|count| *count <= UNROLLED) {
                    _ if self.constant_value(value) == Some(0) => {}
                    Some(count) => self.fill_with(array, storage, (0..count).map(|_| value)),
                    None => {
                        let len = self.extend(len);
                        self.fill(array, len, storage, value);
                    }
                }
                self.push(array);
            }
            Operator::ArrayNewDefault { array_type_index } => {
                let len = self.pop();
                let array = self.new_array(array_type_index, len);
                self.push(array);
            }
            Operator::ArrayNewFixed {
                array_type_index,
                array_size,
            } => self.array_new_fixed(array_type_index, array_size),
            Operator::ArrayNewData {
                array_type_index,
                array_data_index,
            } => {
                let segment = array_data_index;
                self.array_new_of(Builtin::ArrayNewData, array_type_index, segment);
            }
            Operator::ArrayNewElem {
                array_type_index,
                array_elem_index,
            } => {
                let segment = array_elem_index;
                self.array_new_of(Builtin::ArrayNewElem, array_type_index, segment);
            }
            Operator::ArrayGet { array_type_index } | Operator::ArrayGetU { array_type_index } => {
                self.array_get(array_type_index, Sign::Unsigned);
            }
            Operator::ArrayGetS { array_type_index } => {
                self.array_get(array_type_index, Sign::Signed);
            }
            Operator::ArraySet { array_type_index } => {
                let (array, index, value) = self.pop3();
                let storage = self.element(array_type_index);
                let address = self.element_address(array, index, storage);
                self.store_field(storage, address, FIRST, value);
            }
            Operator::ArrayLen => {
                let array = self.pop();
                self.trap_if_zero(array, TrapCode::NullArrayReference);
                let len = self.array_len(array);
                self.push(len);
            }
            Operator::ArrayFill { array_type_index } => {
                let (index, value, len) = self.pop3();
                let array = self.pop();
                let storage = self.element(array_type_index);
                self.trap_if_zero(array, TrapCode::NullArrayReference);
                let len = self.extend(len);
                let (start, len) = self.elements(array, index, len, storage);
                self.fill(start, len, storage, value);
            }
            Operator::ArrayCopy {
                array_type_index_dst,
                ..
            } => self.array_copy(array_type_index_dst),
            Operator::ArrayInitData {
                array_type_index,
                array_data_index,
            } => {
                let storage = self.element(array_type_index);
                self.array_init(Builtin::ArrayInitData, array_data_index, storage);
            }
            Operator::ArrayInitElem {
                array_type_index,
                array_elem_index,
            } => {
                let storage = self.element(array_type_index);
                self.array_init(Builtin::ArrayInitElem, array_elem_index, storage);
            }
            _ => return false,
        }
        true
    }

    /// The element type of an array type.
    fn element(&self, ty: u32) -> StorageType {
        let element = self.env.metadata.array_element(ty);
        element.expect("validated: an array type").storage
    }

    /// Allocates an array of `len` elements that are zero or null. `len` is an i32.
    fn new_array(&mut self, ty: u32, len: Value) -> Value {
        let log2 = i64::from(self.element(ty).log2());
        let wide = self.extend(len);
        let bytes = self.builder.ins().ishl_imm_u(wide, log2);
        let rounded = i64::from(OBJECT_HEADER_BYTES + OBJECT_ALIGN - 1);
        let bytes = self.builder.ins().iadd_imm_s(bytes, rounded);
        let bytes = self
            .builder
            .ins()
            .band_imm_s(bytes, -i64::from(OBJECT_ALIGN));
        let is_small = |len: u64| len << log2 < SMALL_BYTES;
        let size = match self.constant_value(len).is_some_and(is_small) {
            true => Size::Small,
            false => Size::Any,
        };
        let start = self.allocate(ty, bytes, size);
        let flags = self.flags(Region::Header);
        self.builder.ins().store(flags, len, start, ARRAY_LEN);
        self.builder.ins().iadd_imm_s(start, i64::from(TAG))
    }

    fn array_new_fixed(&mut self, ty: u32, len: u32) {
        let storage = self.element(ty);
        let count = len as usize;
        let values = self.peek(count).to_vec();
        self.drop_operands(count);
        let len = self.builder.ins().iconst(types::I32, i64::from(len));
        let array = self.new_array(ty, len);
        self.fill_with(array, storage, values);
        self.push(array);
    }

    /// Writes the first elements of an array.
    fn fill_with(
        &mut self,
        array: Value,
        storage: StorageType,
        values: impl IntoIterator<Item = Value>,
    ) {
        let offsets = (FIRST..).step_by(storage.bytes() as usize);
        for (offset, value) in offsets.zip(values) {
            self.store_field(storage, array, offset, value);
        }
    }

    /// Allocates an array and fills it from a segment.
    fn array_new_of(&mut self, builtin: Builtin, ty: u32, segment: u32) {
        let (start, len) = self.pop2();
        let (ty, segment) = (self.word(ty), self.word(segment));
        let (start, len) = (self.extend(start), self.extend(len));
        let array = self.builtin(builtin, &[ty, segment, start, len]);
        self.push(array.expect("the builtin has a result"));
    }

    fn array_get(&mut self, ty: u32, sign: Sign) {
        let (array, index) = self.pop2();
        let storage = self.element(ty);
        let address = self.element_address(array, index, storage);
        let value = self.load_field(storage, sign, address, FIRST);
        self.push(value);
    }

    /// The address of an element minus [`FIRST`]. Traps if the index is out of bounds.
    fn element_address(&mut self, array: Value, index: Value, storage: StorageType) -> Value {
        self.trap_if_zero(array, TrapCode::NullArrayReference);
        let len = self.array_len(array);
        let mut check = BoundsCheck {
            outside: IntCC::UnsignedGreaterThanOrEqual,
            value: index,
            bound: len,
        };
        self.trap_outside(check, TrapCode::ArrayOutOfBounds);
        let index = self.extend(index);
        let log2 = i64::from(storage.log2());
        let scaled = self.builder.ins().ishl_imm_u(index, log2);
        let address = self.builder.ins().iadd(array, scaled);
        if !self.env.spectre {
            return address;
        }
        (check.value, check.bound) = (index, self.extend(len));
        // The mask is null, not the first element: after an empty array lies the header of another
        // object.
        self.mask_outside(check, address, None)
    }

    /// The address minus [`FIRST`] of a range of elements, an i64, and their number. `index` and
    /// `len` are i32. Traps if the range is out of bounds. Under misprediction of that check, both
    /// results are 0.
    fn elements(
        &mut self,
        array: Value,
        index: Value,
        len: Value,
        storage: StorageType,
    ) -> (Value, Value) {
        let index = self.extend(index);
        let all = self.array_len(array);
        let all = self.extend(all);
        let end = self.builder.ins().iadd(index, len);
        let outside = IntCC::UnsignedGreaterThan;
        let outside = self.builder.ins().icmp(outside, end, all);
        self.trap_if(outside, TrapCode::ArrayOutOfBounds);
        let log2 = i64::from(storage.log2());
        let scaled = self.builder.ins().ishl_imm_u(index, log2);
        let start = self.builder.ins().iadd(array, scaled);
        let start = self.null_where(outside, start);
        (start, self.null_where(outside, len))
    }

    /// Writes a value to `len` elements. The first one is at `start` plus [`FIRST`].
    fn fill(&mut self, start: Value, len: Value, storage: StorageType, value: Value) {
        let log2 = i64::from(storage.log2());
        let bytes = self.builder.ins().ishl_imm_u(len, log2);
        let end = self.builder.ins().iadd(start, bytes);
        let (head, body) = (self.successor(false), self.successor(false));
        let next = self.successor(false);
        let at = self.builder.append_block_param(head, types::I64);
        self.builder.ins().jump(head, &[start.into()]);
        self.builder.switch_to_block(head);
        let outside = IntCC::UnsignedGreaterThanOrEqual;
        let done = self.builder.ins().icmp(outside, at, end);
        self.builder.ins().brif(done, next, [], body, []);
        self.builder.switch_to_block(body);
        self.builder.seal_block(body);
        // A mispredicted further iteration writes to null, so no speculative load sees the value.
        let place = self.null_where(done, at);
        self.store_field(storage, place, FIRST, value);
        let bytes = i64::from(storage.bytes());
        let following = self.builder.ins().iadd_imm_s(at, bytes);
        self.builder.ins().jump(head, &[following.into()]);
        self.builder.seal_block(head);
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
    }

    fn array_copy(&mut self, ty: u32) {
        let (source, from, len) = self.pop3();
        let (array, to) = self.pop2();
        let storage = self.element(ty);
        self.trap_if_zero(array, TrapCode::NullArrayReference);
        self.trap_if_zero(source, TrapCode::NullArrayReference);
        let len = self.extend(len);
        let (to, count) = self.elements(array, to, len, storage);
        let (from, count) = self.elements(source, from, count, storage);
        let log2 = i64::from(storage.log2());
        let bytes = self.builder.ins().ishl_imm_u(count, log2);
        let first = i64::from(FIRST);
        let to = self.builder.ins().iadd_imm_s(to, first);
        let from = self.builder.ins().iadd_imm_s(from, first);
        self.builtin(Builtin::ArrayCopy, &[to, from, bytes]);
    }

    /// Copies from a segment to the elements of an array.
    fn array_init(&mut self, builtin: Builtin, segment: u32, storage: StorageType) {
        let (to, from, len) = self.pop3();
        let array = self.pop();
        self.trap_if_zero(array, TrapCode::NullArrayReference);
        let len = self.extend(len);
        let (to, count) = self.elements(array, to, len, storage);
        let to = self.builder.ins().iadd_imm_s(to, i64::from(FIRST));
        let amount = match builtin {
            Builtin::ArrayInitData => {
                let log2 = i64::from(storage.log2());
                self.builder.ins().ishl_imm_u(count, log2)
            }
            _ => count,
        };
        let (segment, from) = (self.word(segment), self.extend(from));
        self.builtin(builtin, &[segment, to, from, amount]);
    }
}
