//! 128-bit numbers in two halves (the wide-arithmetic proposal): sums, differences, and products of
//! two 64-bit numbers. The lower half comes first.

use super::function::FuncTranslator;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use types::I128;
use wasmparser::Operator;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on 128-bit numbers. Returns `false` for other operators.
    pub(super) fn wide(&mut self, op: &Operator<'_>) -> bool {
        let result = match op {
            Operator::I64Add128 => {
                let (a, b) = self.pop_wide2();
                self.builder.ins().iadd(a, b)
            }
            Operator::I64Sub128 => {
                let (a, b) = self.pop_wide2();
                self.builder.ins().isub(a, b)
            }
            Operator::I64MulWideS => {
                let (a, b) = self.pop2();
                let [a, b] = [a, b].map(|number| self.builder.ins().sextend(I128, number));
                self.builder.ins().imul(a, b)
            }
            Operator::I64MulWideU => {
                let (a, b) = self.pop2();
                self.wide_product(a, b)
            }
            _ => return false,
        };
        let (low, high) = self.builder.ins().isplit(result);
        self.push(low);
        self.push(high);
        true
    }

    /// The product of two unsigned numbers of 64 bits.
    pub(super) fn wide_product(&mut self, a: Value, b: Value) -> Value {
        let [a, b] = [a, b].map(|number| self.builder.ins().uextend(I128, number));
        self.builder.ins().imul(a, b)
    }

    /// Pops two numbers of two operands each, and returns them in the order they were pushed.
    fn pop_wide2(&mut self) -> (Value, Value) {
        let (b, b_high) = self.pop2();
        let (a, a_high) = self.pop2();
        let a = self.builder.ins().iconcat(a, a_high);
        let b = self.builder.ins().iconcat(b, b_high);
        (a, b)
    }
}
