//! Tables and references (spec 4.4.3, 4.4.6).

use super::function::{BoundsCheck, FuncTranslator, Region};
use crate::analysis::known_tables::is_write;
#[cfg(feature = "faults")]
use crate::faults::Fault;
use crate::ir::types::POINTER;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use pirn_format::exit::{Builtin, TrapCode};
use pirn_format::layout::{ELEMENT_BYTES, TABLE_BASE, TABLE_ELEMENTS};
use pirn_format::types::AddrType;
use wasmparser::Operator;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on tables or references. Returns `false` for other operators.
    pub(super) fn table(&mut self, op: &Operator<'_>) -> bool {
        // Calls through known tables rely on this check.
        let is_expected = !is_write(op) || self.env.metadata.tables_change;
        assert!(
            is_expected,
            "the analysis has found every operator that writes to a table"
        );
        match op {
            Operator::RefNull { .. } => {
                let null = self.builder.ins().iconst(POINTER, 0);
                self.push(null);
            }
            Operator::RefIsNull => {
                let reference = self.pop();
                let null = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
                self.push_bool(null);
            }
            Operator::RefAsNonNull => {
                let reference = self.peek(1)[0];
                self.trap_if_zero(reference, TrapCode::NullReference);
            }
            Operator::RefFunc { function_index } => {
                self.ref_func(self.env.intrinsics.index(*function_index));
            }
            Operator::TableGet { table } => {
                let index = self.pop();
                let element = self.table_element(*table, index, TrapCode::TableOutOfBounds);
                let flags = self.flags(Region::Table);
                let value = self.builder.ins().load(POINTER, flags, element, 0);
                self.push(value);
            }
            Operator::TableSet { table } => {
                let (index, value) = self.pop2();
                let element = self.table_element(*table, index, TrapCode::TableOutOfBounds);
                let flags = self.flags(Region::Table);
                self.builder.ins().store(flags, value, element, 0);
            }
            Operator::TableSize { table } => {
                let (_, elements) = self.table_bounds(*table);
                self.push_address(self.table_address(*table), elements);
            }
            Operator::TableGrow { table } => {
                let (value, delta) = self.pop2();
                let (index, delta) = (self.word(*table), self.extended(delta));
                let address = self.table_address(*table);
                self.grown(Builtin::TableGrow, address, &[index, value, delta]);
            }
            Operator::TableFill { table } => {
                self.bulk(Builtin::TableFill, &[*table]);
            }
            Operator::TableCopy {
                dst_table,
                src_table,
            } => {
                self.bulk(Builtin::TableCopy, &[*dst_table, *src_table]);
            }
            Operator::TableInit { elem_index, table } => {
                self.bulk(Builtin::TableInit, &[*table, *elem_index]);
            }
            Operator::ElemDrop { elem_index } => {
                self.drop_segment(Builtin::ElemDrop, *elem_index);
            }
            _ => return false,
        }
        true
    }

    fn ref_func(&mut self, index: u32) {
        // Validation (spec 3.4.2) requires that the function is declared, so the function is in the
        // list.
        let position = self.env.metadata.address_taken_position(index);
        let position = position.expect("validated: the function is declared as a reference");
        let offset = i64::from(self.env.layout.funcref(position));
        let reference = self.builder.ins().iadd_imm_s(self.vmctx, offset);
        self.push(reference);
    }

    /// The address type of a table.
    fn table_address(&self, table: u32) -> AddrType {
        self.env.metadata.tables[table as usize].address
    }

    /// Address of the element at `index`, an i32 or i64, of a table. Traps if the index is out of
    /// bounds. The address is masked under speculation.
    pub(super) fn table_element(&mut self, table: u32, index: Value, code: TrapCode) -> Value {
        let (base, elements) = self.table_bounds(table);
        let index = self.extended(index);
        let outside = IntCC::UnsignedGreaterThanOrEqual;
        #[cfg(feature = "faults")]
        let outside = match self.has(Fault::TableCheckOffByOne) {
            true => IntCC::UnsignedGreaterThan,
            false => outside,
        };
        let check = BoundsCheck {
            outside,
            value: index,
            bound: elements,
        };
        #[cfg(feature = "faults")]
        if self.has(Fault::TableCheckDropped) {
            let scaled = i64::from(ELEMENT_BYTES);
            let scaled = self.builder.ins().imul_imm_s(index, scaled);
            return self.builder.ins().iadd(base, scaled);
        }
        self.trap_outside(check, code);
        let scaled = self
            .builder
            .ins()
            .imul_imm_s(index, i64::from(ELEMENT_BYTES));
        let address = self.builder.ins().iadd(base, scaled);
        // Under misprediction the instance's own first element is read. For a table without
        // elements, the runtime writes null there before any code of the instance runs.
        self.mask_outside(check, address, Some(base))
    }

    /// Base and number of elements of a table.
    fn table_bounds(&mut self, table: u32) -> (Value, Value) {
        let cell = self.env.layout.table(table);
        let is_imported = table < self.env.imported.tables;
        let (desc, offset) = if is_imported {
            (self.load_constant(POINTER, self.vmctx, cell), 0)
        } else {
            (self.vmctx, cell)
        };
        // The elements of a table never move, but the runtime writes its descriptor with its size
        // at each start.
        let flags = self.flags(Region::Descriptor);
        let base = self
            .builder
            .ins()
            .load(POINTER, flags, desc, offset + TABLE_BASE);
        let ins = self.builder.ins();
        let ty = &self.env.metadata.tables[table as usize];
        // A table that cannot grow keeps its initial size.
        let elements = if !is_imported && ty.max == Some(ty.min) {
            ins.iconst(POINTER, ty.min.cast_signed())
        } else {
            ins.load(POINTER, flags, desc, offset + TABLE_ELEMENTS)
        };
        #[cfg(feature = "faults")]
        if self.has(Fault::DescriptorWritten) {
            // A changed value, because the optimiser removes stores of the present value.
            let changed = self.builder.ins().iadd_imm_s(elements, 1);
            let ins = self.builder.ins();
            ins.store(flags, changed, desc, offset + TABLE_ELEMENTS);
        }
        (base, elements)
    }
}
