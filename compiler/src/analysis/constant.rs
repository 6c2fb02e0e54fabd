//! [`Constants`]: the values of constant expressions that do not depend on the host.
//!
//! A constant expression reads only immutable globals. If the module defines such a global, its
//! value is its initial value, which is a constant expression too. The host provides imported
//! globals, so their values are unknown.

use pirn_format::metadata::{ConstExpr, ConstOp, ElementItems, Metadata, SegmentMode};

/// Evaluates the constant expressions of a module. A value is unknown (`None`) if it depends on the
/// host, or if it is neither an integer nor a reference to a function.
pub(super) struct Constants {
    /// The initial value of each global, if it is known.
    globals: Vec<Option<Constant>>,
}

/// A known value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Constant {
    /// An integer, zero-extended.
    Integer(u64),
    /// A reference to a function, or null.
    Function(Option<u32>),
}

impl Constants {
    pub(super) fn new(metadata: &Metadata) -> Self {
        let globals = vec![None; metadata.imported_globals() as usize];
        let mut constants = Self { globals };
        // An initial value reads only earlier globals.
        for init in &metadata.global_inits {
            let value = constants.value(init);
            constants.globals.push(value);
        }
        constants
    }

    /// The value of an integer expression, zero-extended.
    pub(super) fn integer(&self, expr: &ConstExpr) -> Option<u64> {
        match self.value(expr)? {
            Constant::Integer(value) => Some(value),
            Constant::Function(_) => None,
        }
    }

    /// The function that an expression refers to, or `Some(None)` for null.
    pub(super) fn function(&self, expr: &ConstExpr) -> Option<Option<u32>> {
        match self.value(expr)? {
            Constant::Function(func) => Some(func),
            Constant::Integer(_) => None,
        }
    }

    /// The functions of a segment's items.
    pub(super) fn functions(&self, items: &ElementItems) -> Option<Vec<Option<u32>>> {
        match items {
            ElementItems::Funcs(funcs) => Some(funcs.iter().copied().map(Some).collect()),
            ElementItems::Exprs(exprs) => exprs.iter().map(|expr| self.function(expr)).collect(),
        }
    }

    /// Whether every active element segment goes to a table that the module defines, at a constant
    /// offset where it fits.
    pub(super) fn elements_fit(&self, metadata: &Metadata) -> bool {
        metadata.elements.iter().all(|segment| {
            let SegmentMode::Active { index, offset } = &segment.mode else {
                return true;
            };
            let (own, start) = (*index >= metadata.imported_tables(), self.integer(offset));
            let min = metadata.tables[*index as usize].min;
            let end = start.and_then(|start| start.checked_add(segment.items.len() as u64));
            own && end.is_some_and(|end| end <= min)
        })
    }

    fn value(&self, expr: &ConstExpr) -> Option<Constant> {
        let narrow = |value: u64| value & u64::from(u32::MAX);
        let mut stack = vec![];
        for op in &expr.0 {
            let value = match *op {
                ConstOp::I32(value) => Constant::Integer(u64::from(value.cast_unsigned())),
                ConstOp::I64(value) => Constant::Integer(value.cast_unsigned()),
                ConstOp::I32Add
                | ConstOp::I32Sub
                | ConstOp::I32Mul
                | ConstOp::I64Add
                | ConstOp::I64Sub
                | ConstOp::I64Mul => {
                    let (Some(Constant::Integer(b)), Some(Constant::Integer(a))) =
                        (stack.pop(), stack.pop())
                    else {
                        return None;
                    };
                    // The lower half of a result depends only on the lower halves of the operands.
                    Constant::Integer(match op {
                        ConstOp::I32Add => narrow(a.wrapping_add(b)),
                        ConstOp::I32Sub => narrow(a.wrapping_sub(b)),
                        ConstOp::I32Mul => narrow(a.wrapping_mul(b)),
                        ConstOp::I64Add => a.wrapping_add(b),
                        ConstOp::I64Sub => a.wrapping_sub(b),
                        _ => a.wrapping_mul(b),
                    })
                }
                ConstOp::GlobalGet(index) => (*self.globals.get(index as usize)?)?,
                ConstOp::RefFunc(func) => Constant::Function(Some(func)),
                ConstOp::RefNull => Constant::Function(None),
                _ => return None,
            };
            stack.push(value);
        }
        stack.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_format::metadata::Import;
    use pirn_format::types::{ExternType, GlobalType, ValType};

    /// Constants of a module that imports one global, and defines others with these initial values.
    fn constants(inits: &[&[ConstOp]]) -> Constants {
        let imported = GlobalType {
            content: ValType::I32,
            mutable: false,
        };
        let import = Import {
            module: String::new(),
            name: String::new(),
            ty: ExternType::Global(imported),
        };
        let inits = inits.iter().map(|ops| ConstExpr(ops.to_vec()));
        Constants::new(&Metadata {
            imports: vec![import],
            global_inits: inits.collect(),
            ..Metadata::default()
        })
    }

    #[test]
    fn a_global_has_the_value_that_the_module_gives_it() {
        let constants = constants(&[
            &[ConstOp::I32(-1)],
            &[ConstOp::GlobalGet(1), ConstOp::I32(3), ConstOp::I32Add],
            &[ConstOp::GlobalGet(2)],
            &[ConstOp::RefFunc(7)],
            &[ConstOp::GlobalGet(4)],
            &[ConstOp::RefNull],
        ]);
        let get = |global| ConstExpr(vec![ConstOp::GlobalGet(global)]);
        assert_eq!(constants.integer(&get(1)), Some(0xffff_ffff));
        assert_eq!(constants.integer(&get(2)), Some(2));
        assert_eq!(constants.integer(&get(3)), Some(2));
        assert_eq!(constants.function(&get(5)), Some(Some(7)));
        assert_eq!(constants.function(&get(6)), Some(None));
        assert_eq!(constants.integer(&get(5)), None);
        assert_eq!(constants.function(&get(3)), None);
    }

    #[test]
    fn an_imported_global_has_no_constant_value_nor_what_uses_it() {
        let constants = constants(&[
            &[ConstOp::GlobalGet(0)],
            &[ConstOp::I32(0), ConstOp::GlobalGet(1), ConstOp::I32Mul],
            &[ConstOp::RefFunc(0), ConstOp::I32(0), ConstOp::I32Add],
        ]);
        for global in 0..5 {
            let get = ConstExpr(vec![ConstOp::GlobalGet(global)]);
            assert_eq!(constants.integer(&get), None, "{global}");
            assert_eq!(constants.function(&get), None, "{global}");
        }
    }
}
