//! Constant expressions whose value the module decides alone: without globals, which the host may
//! provide.

use pirn_format::metadata::{ConstExpr, ConstOp, ElementItems, Metadata, SegmentMode};

/// The value of an integer expression without globals, zero-extended.
pub(super) fn integer(expr: &ConstExpr) -> Option<u64> {
    let narrow = |value: u64| value & u64::from(u32::MAX);
    let mut stack = vec![];
    for op in &expr.0 {
        let value = match *op {
            ConstOp::I32(value) => u64::from(value.cast_unsigned()),
            ConstOp::I64(value) => value.cast_unsigned(),
            ConstOp::I32Add
            | ConstOp::I32Sub
            | ConstOp::I32Mul
            | ConstOp::I64Add
            | ConstOp::I64Sub
            | ConstOp::I64Mul => {
                let (b, a): (u64, u64) = (stack.pop()?, stack.pop()?);
                // The lower half of a result depends only on the lower halves of the operands.
                match op {
                    ConstOp::I32Add => narrow(a.wrapping_add(b)),
                    ConstOp::I32Sub => narrow(a.wrapping_sub(b)),
                    ConstOp::I32Mul => narrow(a.wrapping_mul(b)),
                    ConstOp::I64Add => a.wrapping_add(b),
                    ConstOp::I64Sub => a.wrapping_sub(b),
                    _ => a.wrapping_mul(b),
                }
            }
            _ => return None,
        };
        stack.push(value);
    }
    stack.pop()
}

/// The functions of a segment's items. `None` if an item reads a global.
pub(super) fn functions(items: &ElementItems) -> Option<Vec<Option<u32>>> {
    match items {
        ElementItems::Funcs(funcs) => Some(funcs.iter().copied().map(Some).collect()),
        ElementItems::Exprs(exprs) => exprs.iter().map(function).collect(),
    }
}

/// The function that an expression refers to, or null. `None` if it reads a global.
pub(super) fn function(expr: &ConstExpr) -> Option<Option<u32>> {
    match expr.0[..] {
        [ConstOp::RefFunc(func)] => Some(Some(func)),
        [ConstOp::RefNull] => Some(None),
        _ => None,
    }
}

/// Whether every active element segment goes to a table that the module defines, at a constant
/// offset where it fits.
pub(super) fn elements_fit(metadata: &Metadata) -> bool {
    metadata.elements.iter().all(|segment| {
        let SegmentMode::Active { index, offset } = &segment.mode else {
            return true;
        };
        let (own, start) = (*index >= metadata.imported_tables(), integer(offset));
        let min = metadata.tables[*index as usize].min;
        let end = start.and_then(|start| start.checked_add(segment.items.len() as u64));
        own && end.is_some_and(|end| end <= min)
    })
}
