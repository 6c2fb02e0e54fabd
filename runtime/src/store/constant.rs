//! Evaluation of constant expressions (spec 4.4.12, and the extended-const proposal).

use crate::value::Cell;
use pirn_format::layout::{
    EXTERNAL_PREFIX, EXTERNAL_SHIFT, HOST_SHIFT, TAG_BITS, TAG_BOXED, TAG_HOST, TAG_I31,
};
use pirn_format::metadata::{ConstExpr, ConstOp};

/// A value that may depend on the address of the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constant {
    /// The value is the same in every instance.
    Absolute(Cell),
    /// The address at this offset from the context, in bytes.
    Relative(i64),
}

impl Constant {
    pub(crate) const NULL: Self = Self::Absolute(Cell([0; 16]));

    /// The `i31ref` with this value.
    pub(crate) fn i31(value: i32) -> Self {
        Self::Absolute(Cell::from_u64(u64::from((value as u32) << 1) | TAG_I31))
    }

    /// The cell with this value in the instance whose context is at `vmctx`.
    pub(crate) fn at(self, vmctx: *mut u8) -> Cell {
        match self {
            Self::Absolute(cell) => cell,
            Self::Relative(offset) => Cell::from_u64((vmctx as u64).wrapping_add_signed(offset)),
        }
    }
}

/// The value of one operator that takes operands from the stack and gives one value. `None` for
/// other operators. `boxed` is as for [`evaluate`].
pub(crate) fn step(
    op: &ConstOp,
    stack: &mut Vec<Cell>,
    boxed: impl Fn(u64) -> Option<u64>,
) -> Option<Cell> {
    let operands = match op {
        ConstOp::RefI31 | ConstOp::ExternConvertAny => 1,
        ConstOp::I32Add
        | ConstOp::I32Sub
        | ConstOp::I32Mul
        | ConstOp::I64Add
        | ConstOp::I64Sub
        | ConstOp::I64Mul => 2,
        _ => 0,
    };
    let given = stack.split_off(stack.len().checked_sub(operands)?);
    let mut stack: Vec<_> = given.into_iter().map(Constant::Absolute).collect();
    let none = |_| None;
    let ops = core::slice::from_ref(op);
    match run(ops, &mut stack, none, none, boxed).and(stack.pop())? {
        Constant::Absolute(cell) => Some(cell),
        Constant::Relative(_) => None,
    }
}

/// The value of a validated expression.
///
/// `global` returns the values of globals, and `func` the values of function references. `boxed`
/// returns the number in the box of a reference whose tag is [`TAG_BOXED`], or `None` if the caller
/// cannot read boxes. The result is `None` for an expression that needs such a box, and for an
/// expression that validation would have refused.
pub(crate) fn evaluate(
    expr: &ConstExpr,
    global: impl Fn(u32) -> Option<Constant>,
    func: impl Fn(u32) -> Option<Constant>,
    boxed: impl Fn(u64) -> Option<u64>,
) -> Option<Constant> {
    let mut stack = vec![];
    run(&expr.0, &mut stack, global, func, boxed)?;
    let value = stack.pop()?;
    stack.is_empty().then_some(value)
}

/// Evaluates operators on a stack of values.
fn run(
    ops: &[ConstOp],
    stack: &mut Vec<Constant>,
    global: impl Fn(u32) -> Option<Constant>,
    func: impl Fn(u32) -> Option<Constant>,
    boxed: impl Fn(u64) -> Option<u64>,
) -> Option<()> {
    for op in ops {
        let value = match *op {
            ConstOp::I32(value) => Cell::from_u32(value as u32),
            ConstOp::I64(value) => Cell::from_u64(value as u64),
            ConstOp::F32(bits) => Cell::from_u32(bits),
            ConstOp::F64(bits) => Cell::from_u64(bits),
            ConstOp::V128(bytes) => Cell(bytes),
            ConstOp::RefNull => Cell::default(),
            ConstOp::RefFunc(index) => {
                stack.push(func(index)?);
                continue;
            }
            ConstOp::GlobalGet(index) => {
                stack.push(global(index)?);
                continue;
            }
            ConstOp::RefI31 => match stack.pop()? {
                Constant::Absolute(value) => {
                    stack.push(Constant::i31(value.u32() as i32));
                    continue;
                }
                Constant::Relative(_) => return None,
            },
            ConstOp::ExternConvertAny => match stack.pop()? {
                Constant::Absolute(any) => Cell::from_u64(externalized(any.u64(), &boxed)?),
                Constant::Relative(_) => return None,
            },
            // Each instance makes its own objects: see `heap`.
            ConstOp::StructNew(_)
            | ConstOp::StructNewDefault(_)
            | ConstOp::ArrayNew(_)
            | ConstOp::ArrayNewDefault(_)
            | ConstOp::ArrayNewFixed(..)
            | ConstOp::AnyConvertExtern => return None,
            ConstOp::I32Add => binary(stack, |a, b| narrow(a.u32().wrapping_add(b.u32())))?,
            ConstOp::I32Sub => binary(stack, |a, b| narrow(a.u32().wrapping_sub(b.u32())))?,
            ConstOp::I32Mul => binary(stack, |a, b| narrow(a.u32().wrapping_mul(b.u32())))?,
            ConstOp::I64Add => binary(stack, |a, b| a.u64().wrapping_add(b.u64()))?,
            ConstOp::I64Sub => binary(stack, |a, b| a.u64().wrapping_sub(b.u64()))?,
            ConstOp::I64Mul => binary(stack, |a, b| a.u64().wrapping_mul(b.u64()))?,
        };
        stack.push(Constant::Absolute(value));
    }
    Some(())
}

/// Converts an internal reference to an external reference of the host. `None` if the reference is
/// to a box and `boxed` cannot read the box.
fn externalized(any: u64, boxed: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    Some(match any & TAG_BITS {
        _ if any == 0 => 0,
        TAG_HOST => any >> HOST_SHIFT,
        TAG_BOXED => boxed(any)?,
        _ => any | EXTERNAL_PREFIX << EXTERNAL_SHIFT,
    })
}

fn narrow(value: u32) -> u64 {
    u64::from(value)
}

fn binary(stack: &mut Vec<Constant>, op: impl Fn(Cell, Cell) -> u64) -> Option<Cell> {
    let (Constant::Absolute(b), Constant::Absolute(a)) = (stack.pop()?, stack.pop()?) else {
        return None;
    };
    Some(Cell::from_u64(op(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(ops: &[ConstOp]) -> Option<u64> {
        let global = |index| (index == 0).then_some(Constant::Absolute(Cell::from_u32(10)));
        let func = |index: u32| Some(Constant::Relative(-i64::from(index)));
        match evaluate(&ConstExpr(ops.to_vec()), global, func, |_| None)? {
            Constant::Absolute(cell) => Some(cell.u64()),
            Constant::Relative(offset) => Some(offset as u64),
        }
    }

    #[test]
    fn arithmetic_wraps() {
        use ConstOp::{GlobalGet, I32, I32Add, I32Mul, I32Sub, I64, I64Mul};
        assert_eq!(number(&[I32(-1), I32(2), I32Add]), Some(1));
        assert_eq!(number(&[I32(1), I32(2), I32Sub]), Some(u64::from(u32::MAX)));
        assert_eq!(number(&[GlobalGet(0), I32(3), I32Mul]), Some(30));
        assert_eq!(number(&[I64(1 << 62), I64(4), I64Mul]), Some(0));
    }

    #[test]
    fn what_validation_refuses_has_no_value() {
        use ConstOp::{GlobalGet, I32, I32Add, RefFunc};
        assert_eq!(number(&[]), None);
        assert_eq!(number(&[I32Add]), None);
        assert_eq!(number(&[I32(1), I32(2)]), None);
        assert_eq!(number(&[GlobalGet(1)]), None);
        assert_eq!(number(&[I32(1), RefFunc(1), I32Add]), None);
        assert_eq!(number(&[RefFunc(7)]), Some((-7_i64) as u64));
    }
}
