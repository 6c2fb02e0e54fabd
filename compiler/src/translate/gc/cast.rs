//! Casts: tests whether a reference has a type, by its tag, by its type id, and by the supertypes
//! of its type.
//!
//! If the target type is final, comparing the type ids is enough. Otherwise the process's type
//! table has, for each id, the ids of all its supertypes from the root down
//! (`runtime/src/module/types.rs`). A type with `depth` supertypes is a supertype if its id is at
//! position `depth`.
//!
//! ```text
//! id ──▶ equal? yes
//!    ──▶ rows[id] = (count, offset) ──▶ count > depth of the wanted? no: no
//!                                   ──▶ chain[depth] = the wanted?
//! ```

use crate::error::CompileError;
use crate::ir::types::POINTER;
use crate::parse::types::heap_type;
use crate::translate::function::{FuncTranslator, Region};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use pirn_format::exit::TrapCode;
use pirn_format::layout::{
    CONTEXT_TYPE_ROWS, FUNCREF_TYPE_ID, OBJECT_TYPE, TAG_ARRAY, TAG_BITS, TAG_HOST, TAG_I31,
    TYPE_ROW_BYTES,
};
use pirn_format::types::{CompositeKind, HeapType, RefType};
use wasmparser::Operator;

/// The results of a check of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CastResult {
    /// Only the answer.
    Answer,
    /// The answer and, if the reference has the type, the reference.
    Reference,
}

impl FuncTranslator<'_, '_> {
    /// Translates a test or a cast. Returns `false` for other operators.
    pub(super) fn cast(&mut self, op: &Operator<'_>) -> Result<bool, CompileError> {
        let (heap, nullable, traps) = match *op {
            Operator::RefTestNonNull { hty } => (hty, false, false),
            Operator::RefTestNullable { hty } => (hty, true, false),
            Operator::RefCastNonNull { hty } => (hty, false, true),
            Operator::RefCastNullable { hty } => (hty, true, true),
            _ => return Ok(false),
        };
        let ty = RefType {
            nullable,
            heap: self.heap_type(heap)?,
        };
        let reference = self.pop();
        if traps {
            let (is_it, reference) = self.checked(reference, ty);
            self.trap_if_zero(is_it, TrapCode::CastFailure);
            let reference = self.narrowed(reference, is_it, ty);
            self.push(reference);
        } else {
            let is_it = self.is_of(reference, ty);
            self.push_bool(is_it);
        }
        Ok(true)
    }

    /// Branches with the last operand if the operand has a type or, unless `wanted`, if the operand
    /// does not have the type.
    pub(in crate::translate) fn branch_on_cast(
        &mut self,
        depth: u32,
        ty: wasmparser::RefType,
        wanted: bool,
    ) -> Result<(), CompileError> {
        let ty = RefType {
            nullable: ty.is_nullable(),
            heap: self.heap_type(ty.heap_type())?,
        };
        let reference = self.pop();
        let (is_it, checked) = self.checked(reference, ty);
        let narrowed = self.narrowed(checked, is_it, ty);
        // On the path without the type, the reference keeps its previous type, so no mask is
        // needed.
        let (condition, there, here) = match wanted {
            true => (is_it, narrowed, reference),
            false => (self.is_false(is_it), reference, narrowed),
        };
        self.push(there);
        self.branch_where(condition, None, depth);
        self.pop();
        self.push(here);
        Ok(())
    }

    /// Whether a reference of the same hierarchy has a type, an i8. Also returns the reference,
    /// which is null if its tag was mispredicted to be the type's.
    fn checked(&mut self, reference: Value, ty: RefType) -> (Value, Value) {
        match ty.heap {
            HeapType::Concrete(kind, index) => {
                self.is_of_defined(reference, ty.nullable, kind, index, CastResult::Reference)
            }
            _ => (self.is_of(reference, ty), reference),
        }
    }

    /// Masks a reference after a type check: null if the check was mispredicted to succeed.
    ///
    /// So a reference has its static type or is null, even if the processor continues past a
    /// failing check. Nothing is mapped at null or at null plus any field offset.
    fn narrowed(&mut self, reference: Value, is_it: Value, ty: RefType) -> Value {
        match ty.heap {
            // The top types.
            HeapType::Any | HeapType::Func | HeapType::Extern | HeapType::Exn => reference,
            // The bottom types, whose only value is null.
            HeapType::None | HeapType::NoFunc | HeapType::NoExtern | HeapType::NoExn
                if self.env.spectre =>
            {
                self.builder.ins().iconst(POINTER, 0)
            }
            _ if !self.env.spectre => reference,
            _ => {
                let wrong = self.is_false(is_it);
                self.null_where(wrong, reference)
            }
        }
    }

    fn heap_type(&self, ty: wasmparser::HeapType) -> Result<HeapType, CompileError> {
        let kinds = |index| self.env.metadata.kind(index);
        heap_type(ty, kinds).map_err(|()| CompileError::Invalid {
            message: "a cast to that type is not supported".to_owned(),
            offset: self.offset as usize,
        })
    }

    /// Whether a reference of the same hierarchy has a type: an i8.
    fn is_of(&mut self, reference: Value, ty: RefType) -> Value {
        let is_it = match ty.heap {
            HeapType::Any | HeapType::Func | HeapType::Extern | HeapType::Exn if ty.nullable => {
                return self.builder.ins().iconst(types::I8, 1);
            }
            HeapType::Any | HeapType::Func | HeapType::Extern | HeapType::Exn => {
                return self.is_not_null(reference);
            }
            HeapType::None | HeapType::NoFunc | HeapType::NoExtern | HeapType::NoExn => {
                self.builder.ins().iconst(types::I8, 0)
            }
            HeapType::I31 => {
                let bit = self.builder.ins().band_imm_u(reference, TAG_I31 as i64);
                self.is_not_null(bit)
            }
            HeapType::Array => self.has_tag(reference, TAG_BITS, TAG_ARRAY),
            // Null has these bits as well.
            HeapType::Eq => {
                let bits = (TAG_HOST | TAG_I31) as i64;
                let tag = self.builder.ins().band_imm_u(reference, bits);
                let hosts = TAG_HOST as i64;
                let is_it = self.builder.ins().icmp_imm_u(IntCC::NotEqual, tag, hosts);
                return self.or_null(reference, ty.nullable, is_it);
            }
            HeapType::Struct => {
                let is_it = self.has_tag(reference, TAG_BITS, 0);
                return self.or_null(reference, ty.nullable, is_it);
            }
            HeapType::Concrete(kind, index) => {
                let wanted = CastResult::Answer;
                return self
                    .is_of_defined(reference, ty.nullable, kind, index, wanted)
                    .0;
            }
        };
        if !ty.nullable {
            return is_it;
        }
        let null = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
        self.builder.ins().bor(is_it, null)
    }

    /// Adjusts `is_it`, which also holds for null, to whether the type is nullable.
    fn or_null(&mut self, reference: Value, nullable: bool, is_it: Value) -> Value {
        if nullable {
            return is_it;
        }
        let is_some = self.is_not_null(reference);
        self.builder.ins().band(is_it, is_some)
    }

    fn is_not_null(&mut self, reference: Value) -> Value {
        let ins = self.builder.ins();
        ins.icmp_imm_u(IntCC::NotEqual, reference, 0)
    }

    fn has_tag(&mut self, reference: Value, bits: u64, tag: u64) -> Value {
        let found = self.builder.ins().band_imm_u(reference, bits as i64);
        self.builder
            .ins()
            .icmp_imm_u(IntCC::Equal, found, tag as i64)
    }

    /// Whether a reference has a type that the module defines. Also returns the reference, if
    /// `wanted` asks for it; see [`checked`](Self::checked).
    ///
    /// Each path to the end computes its answer from the reference and does not rely on the
    /// branches before it. So a mispredicted path never has the answer "yes".
    fn is_of_defined(
        &mut self,
        reference: Value,
        nullable: bool,
        kind: CompositeKind,
        ty: u32,
        wanted: CastResult,
    ) -> (Value, Value) {
        let spectre = self.env.spectre;
        let done = self.successor(false);
        let result = self.builder.append_block_param(done, types::I8);
        // Function references have no tags.
        let has_tag = !matches!(kind, CompositeKind::Func);
        let checked = (spectre && has_tag && wanted == CastResult::Reference)
            .then(|| self.builder.append_block_param(done, POINTER));
        let answer = |is_it: Value, reference: Value| -> Vec<BlockArg> {
            let reference = checked.map(|_| reference.into());
            [is_it.into()].into_iter().chain(reference).collect()
        };
        let null = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
        let of_null = match nullable && spectre {
            true => null,
            false => self.builder.ins().iconst(types::I8, i64::from(nullable)),
        };
        self.go_on_unless(null, done, &answer(of_null, reference));
        let mut tagged = reference;
        let found = match kind {
            CompositeKind::Func => self.load_reference(types::I32, reference, FUNCREF_TYPE_ID),
            CompositeKind::Struct | CompositeKind::Array => {
                let tag = match kind {
                    CompositeKind::Array => TAG_ARRAY,
                    _ => 0,
                };
                let is_kind = self.has_tag(reference, TAG_BITS, tag);
                let is_other = self.is_false(is_kind);
                let no = self.builder.ins().iconst(types::I8, 0);
                self.go_on_unless(is_other, done, &answer(no, reference));
                // A reference with another tag may have any data in the place of a type id.
                tagged = self.null_where(is_other, reference);
                let flags = self.flags(Region::Header);
                let offset = OBJECT_TYPE - tag as i32;
                let ins = self.builder.ins();
                ins.load(types::I32, flags, tagged, offset)
            }
        };
        let is_it = self.is_subtype(found, ty);
        self.builder.ins().jump(done, &answer(is_it, tagged));
        self.builder.switch_to_block(done);
        self.builder.seal_block(done);
        (result, checked.unwrap_or(reference))
    }

    /// Branches to a block with arguments if a condition holds, else continues.
    fn go_on_unless(&mut self, condition: Value, other: Block, values: &[BlockArg]) {
        let next = self.successor(false);
        let ins = self.builder.ins();
        ins.brif(condition, other, values, next, []);
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
    }

    /// Whether the type with the id `found`, an i32, is the module's type `ty` or a subtype of
    /// `ty`. The result is an i8 and does not rely on branches (see
    /// [`is_of_defined`](Self::is_of_defined)).
    pub(in crate::translate) fn is_subtype(&mut self, found: Value, ty: u32) -> Value {
        let metadata = self.env.metadata;
        let wanted = self.env.layout.type_id(ty);
        let wanted = self.load_constant(types::I32, self.vmctx, wanted);
        let equal = self.builder.ins().icmp(IntCC::Equal, found, wanted);
        if metadata.types[ty as usize].is_final {
            return equal;
        }
        let depth = metadata.depth(ty);
        let done = self.successor(false);
        let result = self.builder.append_block_param(done, types::I8);
        self.go_on_unless(equal, done, &[equal.into()]);
        let rows = self.load_constant(POINTER, self.vmctx, CONTEXT_TYPE_ROWS);
        let at = self.extend(found);
        let at = self.builder.ins().imul_imm_s(at, i64::from(TYPE_ROW_BYTES));
        let row = self.builder.ins().iadd(rows, at);
        // The row is constant once an object of the type exists, so the load must not move up.
        let flags = self.flags(Region::Constant).with_readonly();
        let row = self.builder.ins().load(types::I64, flags, row, 0);
        let count = self.builder.ins().ireduce(types::I32, row);
        let above = IntCC::UnsignedLessThanOrEqual;
        let above = self
            .builder
            .ins()
            .icmp_imm_u(above, count, i64::from(depth));
        let no = self.builder.ins().iconst(types::I8, 0);
        self.go_on_unless(above, done, &[no.into()]);
        let chain = self.builder.ins().ushr_imm_u(row, 32);
        let chain = self.builder.ins().iadd(rows, chain);
        let offset = depth as i32 * 4;
        let at_depth = self.builder.ins().load(types::I32, flags, chain, offset);
        let mut is_it = self.builder.ins().icmp(IntCC::Equal, at_depth, wanted);
        if self.env.spectre {
            // A short chain is followed by the chain of an unrelated type.
            let is_there = self.is_false(above);
            is_it = self.builder.ins().band(is_it, is_there);
        }
        self.builder.ins().jump(done, &[is_it.into()]);
        self.builder.switch_to_block(done);
        self.builder.seal_block(done);
        result
    }
}
