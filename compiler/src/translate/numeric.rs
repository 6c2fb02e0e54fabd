//! Numbers (spec 4.3, 4.4.1): constants, integer and floating-point arithmetic, comparisons,
//! conversions.
//!
//! Operators that trap are checked here, on every target alike, before the machine instruction:
//! division, and conversions that do not saturate.

use super::function::FuncTranslator;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use pirn_format::exit::TrapCode;
use types::{F32, F64, I8, I16, I32, I64};
use wasmparser::Operator;

impl FuncTranslator<'_, '_> {
    /// Translates an operator on numbers. Returns `false` for other operators.
    pub(super) fn numeric(&mut self, op: &Operator<'_>) -> bool {
        self.constant(op)
            || self.integer(op)
            || self.integer_comparison(op)
            || self.float(op)
            || self.float_comparison(op)
            || self.conversion(op)
    }

    fn constant(&mut self, op: &Operator<'_>) -> bool {
        let ins = self.builder.ins();
        let value = match op {
            Operator::I32Const { value } => ins.iconst(I32, i64::from(value.cast_unsigned())),
            Operator::I64Const { value } => ins.iconst(I64, *value),
            Operator::F32Const { value } => ins.f32const(
                cranelift_codegen::ir::immediates::Ieee32::with_bits(value.bits()),
            ),
            Operator::F64Const { value } => ins.f64const(
                cranelift_codegen::ir::immediates::Ieee64::with_bits(value.bits()),
            ),
            _ => return false,
        };
        self.push(value);
        true
    }

    fn integer(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        match op {
            O::I32Add | O::I64Add => self.binary(|i, a, b| i.iadd(a, b)),
            O::I32Sub | O::I64Sub => self.binary(|i, a, b| i.isub(a, b)),
            O::I32Mul | O::I64Mul => self.binary(|i, a, b| i.imul(a, b)),
            O::I32And | O::I64And => self.binary(|i, a, b| i.band(a, b)),
            O::I32Or | O::I64Or => self.binary(|i, a, b| i.bor(a, b)),
            O::I32Xor | O::I64Xor => self.binary(|i, a, b| i.bxor(a, b)),
            // Like WebAssembly, Cranelift takes shift counts modulo the width.
            O::I32Shl | O::I64Shl => self.binary(|i, a, b| i.ishl(a, b)),
            O::I32ShrS | O::I64ShrS => self.binary(|i, a, b| i.sshr(a, b)),
            O::I32ShrU | O::I64ShrU => self.binary(|i, a, b| i.ushr(a, b)),
            O::I32Rotl | O::I64Rotl => self.binary(|i, a, b| i.rotl(a, b)),
            O::I32Rotr | O::I64Rotr => self.binary(|i, a, b| i.rotr(a, b)),
            O::I32Clz | O::I64Clz => self.unary(|i, a| i.clz(a)),
            O::I32Ctz | O::I64Ctz => self.unary(|i, a| i.ctz(a)),
            O::I32Popcnt | O::I64Popcnt => self.unary(|i, a| i.popcnt(a)),
            O::I32DivS | O::I64DivS => {
                let (a, b) = self.divisor();
                self.check_quotient(a, b);
                self.push2(a, b, |i, a, b| i.sdiv(a, b));
            }
            O::I32DivU | O::I64DivU => {
                let (a, b) = self.divisor();
                self.push2(a, b, |i, a, b| i.udiv(a, b));
            }
            O::I32RemS | O::I64RemS => {
                let (a, b) = self.divisor();
                self.push2(a, b, |i, a, b| i.srem(a, b));
            }
            O::I32RemU | O::I64RemU => {
                let (a, b) = self.divisor();
                self.push2(a, b, |i, a, b| i.urem(a, b));
            }
            O::I32Extend8S => self.sign_extend(I8, I32),
            O::I32Extend16S => self.sign_extend(I16, I32),
            O::I64Extend8S => self.sign_extend(I8, I64),
            O::I64Extend16S => self.sign_extend(I16, I64),
            O::I64Extend32S => self.sign_extend(I32, I64),
            _ => return false,
        }
        true
    }

    fn integer_comparison(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        let code = match op {
            O::I32Eqz | O::I64Eqz => {
                let value = self.pop();
                let zero = self.builder.ins().icmp_imm_u(IntCC::Equal, value, 0);
                self.push_bool(zero);
                return true;
            }
            O::I32Eq | O::I64Eq => IntCC::Equal,
            O::I32Ne | O::I64Ne => IntCC::NotEqual,
            O::I32LtS | O::I64LtS => IntCC::SignedLessThan,
            O::I32LtU | O::I64LtU => IntCC::UnsignedLessThan,
            O::I32GtS | O::I64GtS => IntCC::SignedGreaterThan,
            O::I32GtU | O::I64GtU => IntCC::UnsignedGreaterThan,
            O::I32LeS | O::I64LeS => IntCC::SignedLessThanOrEqual,
            O::I32LeU | O::I64LeU => IntCC::UnsignedLessThanOrEqual,
            O::I32GeS | O::I64GeS => IntCC::SignedGreaterThanOrEqual,
            O::I32GeU | O::I64GeU => IntCC::UnsignedGreaterThanOrEqual,
            _ => return false,
        };
        let (a, b) = self.pop2();
        let truth = self.builder.ins().icmp(code, a, b);
        self.push_bool(truth);
        true
    }

    fn float(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        match op {
            O::F32Add | O::F64Add => self.binary(|i, a, b| i.fadd(a, b)),
            O::F32Sub | O::F64Sub => self.binary(|i, a, b| i.fsub(a, b)),
            O::F32Mul | O::F64Mul => self.binary(|i, a, b| i.fmul(a, b)),
            O::F32Div | O::F64Div => self.binary(|i, a, b| i.fdiv(a, b)),
            O::F32Min | O::F64Min => self.binary(|i, a, b| i.fmin(a, b)),
            O::F32Max | O::F64Max => self.binary(|i, a, b| i.fmax(a, b)),
            O::F32Copysign | O::F64Copysign => self.binary(|i, a, b| i.fcopysign(a, b)),
            O::F32Abs | O::F64Abs => self.unary(|i, a| i.fabs(a)),
            O::F32Neg | O::F64Neg => self.unary(|i, a| i.fneg(a)),
            O::F32Sqrt | O::F64Sqrt => self.unary(|i, a| i.sqrt(a)),
            O::F32Ceil | O::F64Ceil => self.unary(|i, a| i.ceil(a)),
            O::F32Floor | O::F64Floor => self.unary(|i, a| i.floor(a)),
            O::F32Trunc | O::F64Trunc => self.unary(|i, a| i.trunc(a)),
            O::F32Nearest | O::F64Nearest => self.unary(|i, a| i.nearest(a)),
            _ => return false,
        }
        true
    }

    fn float_comparison(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        let code = match op {
            O::F32Eq | O::F64Eq => FloatCC::Equal,
            O::F32Ne | O::F64Ne => FloatCC::NotEqual,
            O::F32Lt | O::F64Lt => FloatCC::LessThan,
            O::F32Gt | O::F64Gt => FloatCC::GreaterThan,
            O::F32Le | O::F64Le => FloatCC::LessThanOrEqual,
            O::F32Ge | O::F64Ge => FloatCC::GreaterThanOrEqual,
            _ => return false,
        };
        let (a, b) = self.pop2();
        let truth = self.builder.ins().fcmp(code, a, b);
        self.push_bool(truth);
        true
    }

    fn conversion(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        match op {
            O::I32WrapI64 => self.unary(|i, a| i.ireduce(I32, a)),
            O::I64ExtendI32S => self.unary(|i, a| i.sextend(I64, a)),
            O::I64ExtendI32U => self.unary(|i, a| i.uextend(I64, a)),
            O::F32DemoteF64 => self.unary(|i, a| i.fdemote(F32, a)),
            O::F64PromoteF32 => self.unary(|i, a| i.fpromote(F64, a)),
            O::F32ConvertI32S | O::F32ConvertI64S => self.unary(|i, a| i.fcvt_from_sint(F32, a)),
            O::F32ConvertI32U | O::F32ConvertI64U => self.unary(|i, a| i.fcvt_from_uint(F32, a)),
            O::F64ConvertI32S | O::F64ConvertI64S => self.unary(|i, a| i.fcvt_from_sint(F64, a)),
            O::F64ConvertI32U | O::F64ConvertI64U => self.unary(|i, a| i.fcvt_from_uint(F64, a)),
            O::I32TruncSatF32S | O::I32TruncSatF64S => {
                self.unary(|i, a| i.fcvt_to_sint_sat(I32, a));
            }
            O::I32TruncSatF32U | O::I32TruncSatF64U => {
                self.unary(|i, a| i.fcvt_to_uint_sat(I32, a));
            }
            O::I64TruncSatF32S | O::I64TruncSatF64S => {
                self.unary(|i, a| i.fcvt_to_sint_sat(I64, a));
            }
            O::I64TruncSatF32U | O::I64TruncSatF64U => {
                self.unary(|i, a| i.fcvt_to_uint_sat(I64, a));
            }
            O::I32TruncF32S | O::I32TruncF64S => self.truncate(I32, true),
            O::I32TruncF32U | O::I32TruncF64U => self.truncate(I32, false),
            O::I64TruncF32S | O::I64TruncF64S => self.truncate(I64, true),
            O::I64TruncF32U | O::I64TruncF64U => self.truncate(I64, false),
            O::I32ReinterpretF32 => self.reinterpret(I32),
            O::I64ReinterpretF64 => self.reinterpret(I64),
            O::F32ReinterpretI32 => self.reinterpret(F32),
            O::F64ReinterpretI64 => self.reinterpret(F64),
            _ => return false,
        }
        true
    }

    /// Pops a dividend and a divisor, and traps if the divisor is zero.
    fn divisor(&mut self) -> (Value, Value) {
        let (a, b) = self.pop2();
        self.trap_if_zero(b, TrapCode::IntegerDivideByZero);
        (a, b)
    }

    /// Traps if a signed quotient overflows: the smallest number divided by -1.
    fn check_quotient(&mut self, a: Value, b: Value) {
        let least = if self.type_of(a) == I32 {
            i64::from(i32::MIN)
        } else {
            i64::MIN
        };
        let by_minus_one = self.builder.ins().icmp_imm_s(IntCC::Equal, b, -1);
        let of_least = self.builder.ins().icmp_imm_s(IntCC::Equal, a, least);
        let overflows = self.builder.ins().band(by_minus_one, of_least);
        self.trap_if(overflows, TrapCode::IntegerOverflow);
    }

    /// Converts a float to an integer. Traps on NaN and on values out of range (spec 4.3.4).
    ///
    /// The float must lie strictly between the integers just outside the range: -2^31 - 1 and 2^31
    /// for i32, and so on. If the lower bound is not representable in the float's width, no float
    /// lies between the bound and the smallest integer. Then the comparison is with the smallest
    /// integer itself.
    fn truncate(&mut self, to: Type, signed: bool) {
        let value = self.pop();
        let from = self.type_of(value);
        let nan = self.builder.ins().fcmp(FloatCC::Unordered, value, value);
        self.trap_if(nan, TrapCode::InvalidConversionToInteger);
        let bits = to.bits() as i32;
        let (below, inclusive, above) = match (signed, from == F64 && to == I32) {
            (false, _) => (-1.0, true, 2_f64.powi(bits)),
            (true, true) => (-(2_f64.powi(bits - 1)) - 1.0, true, 2_f64.powi(bits - 1)),
            (true, false) => (-(2_f64.powi(bits - 1)), false, 2_f64.powi(bits - 1)),
        };
        let (below, above) = (self.float_const(from, below), self.float_const(from, above));
        let under = if inclusive {
            FloatCC::LessThanOrEqual
        } else {
            FloatCC::LessThan
        };
        let under = self.builder.ins().fcmp(under, value, below);
        let over = self
            .builder
            .ins()
            .fcmp(FloatCC::GreaterThanOrEqual, value, above);
        let outside = self.builder.ins().bor(under, over);
        self.trap_if(outside, TrapCode::IntegerOverflow);
        let result = if signed {
            self.builder.ins().fcvt_to_sint_sat(to, value)
        } else {
            self.builder.ins().fcvt_to_uint_sat(to, value)
        };
        self.push(result);
    }

    /// A constant that both float widths represent exactly.
    fn float_const(&mut self, ty: Type, value: f64) -> Value {
        match ty {
            F32 => self.builder.ins().f32const(value as f32),
            _ => self.builder.ins().f64const(value),
        }
    }

    fn sign_extend(&mut self, narrow: Type, wide: Type) {
        let value = self.pop();
        let value = self.builder.ins().ireduce(narrow, value);
        let value = self.builder.ins().sextend(wide, value);
        self.push(value);
    }

    fn reinterpret(&mut self, ty: Type) {
        self.unary(|i, a| i.bitcast(ty, MemFlagsData::new(), a));
    }

    /// Pushes a boolean as an i32.
    pub(super) fn push_bool(&mut self, truth: Value) {
        let value = self.builder.ins().uextend(I32, truth);
        self.push(value);
    }

    fn unary(&mut self, op: impl FnOnce(Ins<'_, '_>, Value) -> Value) {
        let a = self.pop();
        let value = op(self.builder.ins(), a);
        self.push(value);
    }

    fn binary(&mut self, op: impl FnOnce(Ins<'_, '_>, Value, Value) -> Value) {
        let (a, b) = self.pop2();
        self.push2(a, b, op);
    }

    fn push2(&mut self, a: Value, b: Value, op: impl FnOnce(Ins<'_, '_>, Value, Value) -> Value) {
        let value = op(self.builder.ins(), a, b);
        self.push(value);
    }
}

/// The builder of one instruction.
type Ins<'short, 'long> = cranelift_frontend::FuncInstBuilder<'short, 'long>;
