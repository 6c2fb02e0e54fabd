//! [`Constants`]: checks constant expressions, and the references in element segments.
//!
//! The runtime evaluates constants without type checks. A reference is an address or a number. So a
//! constant of a wrong type could give the guest an address of the host, or let the guest forge a
//! reference.

use super::{damaged, index, of_kind, referred};
use crate::error::FormatError;
use crate::layout::CONSTANT_OPERATORS_MAX;
use crate::metadata::{ConstExpr, ConstOp, ElementItems, Metadata};
use crate::types::{CompositeKind, HeapType, Subtypes, ValType};
use core::fmt;

/// Checks the constant expressions of a module (spec 3.0, 3.4, constant expressions).
pub(super) struct Constants<'a> {
    m: &'a Metadata,
    subtypes: &'a Subtypes<'a>,
    /// Types of the operand stack while the check walks an expression.
    stack: Vec<Operand>,
}

/// The type of a value on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    /// The null reference. The metadata does not record its type. Null is 0 in all types.
    Null,
    Value(ValType),
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Value(ty) => ty.fmt(f),
        }
    }
}

impl<'a> Constants<'a> {
    /// Creates a checker. The caller must have checked the module's types, and the types of its
    /// functions and globals.
    pub(super) const fn new(m: &'a Metadata, subtypes: &'a Subtypes<'a>) -> Self {
        Self {
            m,
            subtypes,
            stack: vec![],
        }
    }

    /// Checks that an expression results in one value of type `wanted`. The expression may use the
    /// first `globals` globals.
    pub(super) fn check(
        &mut self,
        what: &str,
        expr: &ConstExpr,
        wanted: ValType,
        globals: usize,
    ) -> Result<(), FormatError> {
        let found = self.evaluate(expr, globals)?;
        self.expect(what, found, wanted)
    }

    /// Checks that each item of an element segment is a reference of type `wanted`. Without
    /// `wanted`, all items must belong to one hierarchy of reference types.
    pub(super) fn elements(
        &mut self,
        items: &ElementItems,
        wanted: Option<ValType>,
    ) -> Result<(), FormatError> {
        const WHAT: &str = "element segment";
        match items {
            ElementItems::Funcs(funcs) => funcs.iter().try_for_each(|func| {
                let found = self.func(*func)?;
                wanted.map_or(Ok(()), |wanted| self.expect(WHAT, found, wanted))
            }),
            ElementItems::Exprs(exprs) => {
                let mut wanted = wanted;
                for expr in exprs {
                    let found = self.evaluate(expr, self.m.globals.len())?;
                    match (wanted, found) {
                        (Some(wanted), found) => self.expect(WHAT, found, wanted)?,
                        (None, Operand::Null) => {}
                        (None, Operand::Value(ValType::Ref(ty))) => {
                            wanted = Some(ValType::nullable(ty.heap.top()));
                        }
                        (None, found) => return mismatch(WHAT, found, "a reference"),
                    }
                }
                Ok(())
            }
        }
    }

    /// The type of an expression's result.
    fn evaluate(&mut self, expr: &ConstExpr, globals: usize) -> Result<Operand, FormatError> {
        if expr.allocates() && !self.m.heap {
            return damaged(
                "constant",
                "it makes a struct or array, and the module has no heap",
            );
        }
        if expr.0.len() as u64 > CONSTANT_OPERATORS_MAX {
            let count = expr.0.len();
            let why = format!("{count} operators, the limit is {CONSTANT_OPERATORS_MAX}");
            return damaged("constant", &why);
        }
        self.stack.clear();
        for op in &expr.0 {
            let result = self.step(*op, globals)?;
            self.stack.push(result);
        }
        match self.stack.as_slice() {
            [value] => Ok(*value),
            values => {
                let why = format!("it gives {} values, expected 1", values.len());
                damaged("constant", &why)
            }
        }
    }

    /// Pops the operands of an operator. Returns the type of the operator's result.
    fn step(&mut self, op: ConstOp, globals: usize) -> Result<Operand, FormatError> {
        let ty = match op {
            ConstOp::I32(_) => ValType::I32,
            ConstOp::I64(_) => ValType::I64,
            ConstOp::F32(_) => ValType::F32,
            ConstOp::F64(_) => ValType::F64,
            ConstOp::V128(_) => ValType::V128,
            ConstOp::RefNull => return Ok(Operand::Null),
            ConstOp::RefFunc(func) => return self.func(func),
            ConstOp::GlobalGet(global) => self.global(global, globals)?,
            ConstOp::I32Add | ConstOp::I32Sub | ConstOp::I32Mul => {
                self.pop(ValType::I32)?;
                self.pop(ValType::I32)?;
                ValType::I32
            }
            ConstOp::I64Add | ConstOp::I64Sub | ConstOp::I64Mul => {
                self.pop(ValType::I64)?;
                self.pop(ValType::I64)?;
                ValType::I64
            }
            ConstOp::RefI31 => {
                self.pop(ValType::I32)?;
                ValType::non_null(HeapType::I31)
            }
            ConstOp::StructNew(ty) | ConstOp::StructNewDefault(ty) => {
                self.new_struct(ty, matches!(op, ConstOp::StructNew(_)))?
            }
            ConstOp::ArrayNew(ty) => {
                self.pop(ValType::I32)?;
                self.new_array(ty, 1)?
            }
            ConstOp::ArrayNewFixed(ty, len) => self.new_array(ty, len)?,
            ConstOp::ArrayNewDefault(ty) => {
                self.pop(ValType::I32)?;
                let made = self.new_array(ty, 0)?;
                self.has_default("array", ty)?;
                made
            }
            ConstOp::AnyConvertExtern => self.convert(ValType::EXTERNREF, HeapType::Any)?,
            ConstOp::ExternConvertAny => self.convert(ValType::ANYREF, HeapType::Extern)?,
        };
        Ok(Operand::Value(ty))
    }

    /// The type of a reference to a function.
    fn func(&self, func: u32) -> Result<Operand, FormatError> {
        referred(self.m, func)?;
        let ty = self.m.funcs[func as usize];
        let heap = HeapType::Concrete(CompositeKind::Func, ty);
        Ok(Operand::Value(ValType::non_null(heap)))
    }

    fn global(&self, global: u32, globals: usize) -> Result<ValType, FormatError> {
        index("global of a constant", global, globals)?;
        let ty = self.m.globals[global as usize];
        match ty.mutable {
            true => damaged(
                "global of a constant",
                &format!("global {global} is mutable"),
            ),
            false => Ok(ty.content),
        }
    }

    fn new_struct(&mut self, ty: u32, has_values: bool) -> Result<ValType, FormatError> {
        of_kind(self.m, "struct of a constant", ty, CompositeKind::Struct)?;
        if has_values {
            let mut fields = self.m.struct_fields(ty).iter().rev();
            fields.try_for_each(|field| self.pop(field.storage.value()))?;
        } else {
            self.has_default("struct", ty)?;
        }
        Ok(ValType::non_null(HeapType::Concrete(
            CompositeKind::Struct,
            ty,
        )))
    }

    /// Pops the values of `len` elements.
    fn new_array(&mut self, ty: u32, len: u32) -> Result<ValType, FormatError> {
        of_kind(self.m, "array of a constant", ty, CompositeKind::Array)?;
        if let Some(element) = self.m.array_element(ty) {
            (0..len).try_for_each(|_| self.pop(element.storage.value()))?;
        }
        Ok(ValType::non_null(HeapType::Concrete(
            CompositeKind::Array,
            ty,
        )))
    }

    /// Checks that a struct type's fields, or an array type's elements, have default values.
    fn has_default(&self, what: &str, ty: u32) -> Result<(), FormatError> {
        match self.subtypes.has_defaults(ty) {
            true => Ok(()),
            false => {
                let why = format!("type {ty} has a value without a default");
                damaged(&format!("{what} of a constant"), &why)
            }
        }
    }

    /// Pops a reference of type `from`. Returns the reference type with heap type `to`, nullable if
    /// the popped type is nullable.
    fn convert(&mut self, from: ValType, to: HeapType) -> Result<ValType, FormatError> {
        let is_nullable = match self.stack.last() {
            Some(Operand::Value(ValType::Ref(ty))) => ty.nullable,
            _ => true,
        };
        self.pop(from)?;
        Ok(match is_nullable {
            true => ValType::nullable(to),
            false => ValType::non_null(to),
        })
    }

    fn pop(&mut self, wanted: ValType) -> Result<(), FormatError> {
        match self.stack.pop() {
            Some(found) => self.expect("operand of a constant", found, wanted),
            None => mismatch("operand of a constant", "missing", wanted),
        }
    }

    fn expect(&self, what: &str, found: Operand, wanted: ValType) -> Result<(), FormatError> {
        let fits = match found {
            Operand::Null => matches!(wanted, ValType::Ref(ty) if ty.nullable),
            Operand::Value(ty) => self.subtypes.matches(ty, wanted),
        };
        match fits {
            true => Ok(()),
            false => mismatch(what, found, wanted),
        }
    }
}

#[cold]
fn mismatch<T>(
    what: &str,
    found: impl fmt::Display,
    wanted: impl fmt::Display,
) -> Result<T, FormatError> {
    damaged(what, &format!("{found}, expected {wanted}"))
}

#[cfg(test)]
mod tests;
