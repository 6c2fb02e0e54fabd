//! Results of operations on numbers: their intervals.

use crate::value::{Kind, Symbol, Value};

/// A bitwise AND. A mask with a sign bit of 0 bounds the result.
pub(crate) fn masked(left: Value, right: Value, fresh: Symbol) -> Value {
    let bound = |value: Value| (value.low >= 0).then_some(value.high);
    match (bound(left), bound(right)) {
        (Some(a), Some(b)) => Value::number(fresh, 0, a.min(b)),
        (Some(a), None) | (None, Some(a)) => Value::number(fresh, 0, a),
        (None, None) => Value::any(fresh),
    }
}

/// A bitwise OR or XOR of numbers that are not negative: less than the next power of two.
pub(crate) fn united(left: Value, right: Value, fresh: Symbol) -> Value {
    if left.low < 0 || right.low < 0 {
        return Value::any(fresh);
    }
    let high = (left.high | right.high).unsigned_abs();
    let bits = u64::BITS - high.leading_zeros();
    Value::number(
        fresh,
        0,
        (u64::MAX.checked_shr(64 - bits).unwrap_or(0)).cast_signed(),
    )
}

/// Logical right shift of a number of `bytes` bytes.
pub(crate) fn shifted_right(left: Value, right: Value, bytes: u32, fresh: Symbol) -> Value {
    let bits = i64::from(8 * bytes);
    match right.as_constant() {
        Some(0) => left,
        Some(by) if by > 0 && by < bits => {
            if left.low >= 0 {
                return Value::number(fresh, left.low >> by, left.high >> by);
            }
            Value::number(fresh, 0, (u64::MAX >> by).cast_signed())
        }
        _ => Value::any(fresh),
    }
}

/// A difference: a number, or an address plus a distance. `None` for other operands. `fresh` names
/// an unknown difference, and `negated` an unknown negated right operand.
pub(crate) fn difference(
    left: Value,
    right: Value,
    fresh: Symbol,
    negated: Symbol,
) -> Option<Value> {
    // The distance of two addresses in one memory.
    let is_memory = matches!(left.kind, Kind::Instance | Kind::Memory(_));
    if left.kind == right.kind && is_memory && !left.null && !right.null {
        return Some(Value::any(fresh));
    }
    match right.as_constant().and_then(i64::checked_neg) {
        Some(constant) => left.plus(Value::constant(constant), fresh),
        None if right.is_number() => left.plus(right.negated(negated), fresh),
        None => None,
    }
}

/// The lowest 64 bits of a product.
pub(crate) fn product(left: Value, right: Value, fresh: Symbol) -> Value {
    let (value, factor) = match (left.as_constant(), right.as_constant()) {
        (_, Some(factor)) => (left, factor),
        (Some(factor), _) => (right, factor),
        _ => return Value::any(fresh),
    };
    if factor > 0 && factor.count_ones() == 1 {
        return value.shifted(factor.trailing_zeros(), fresh);
    }
    match (
        value.low.checked_mul(factor),
        value.high.checked_mul(factor),
    ) {
        (Some(a), Some(b)) => Value::number(fresh, a.min(b), a.max(b)),
        _ => Value::any(fresh),
    }
}

/// Sign-extends the lowest `bits` bits of a number, fewer than 64.
pub(crate) fn sign_extended(value: Value, bits: u32, fresh: Symbol) -> Value {
    let limit = 1_i64 << (bits - 1);
    match value.exact() {
        _ if value.low >= -limit && value.high < limit => value,
        Some(exact) => Value::constant(exact << (64 - bits) >> (64 - bits)),
        None => Value::number(fresh, -limit, limit - 1),
    }
}

/// Zero-extends the lowest `bits` bits of a number, fewer than 64.
pub(crate) fn zero_extended(value: Value, bits: u32, fresh: Symbol) -> Value {
    let high = i64::MAX >> (63 - bits);
    match value.exact() {
        _ if value.low >= 0 && value.high <= high => value,
        Some(exact) => Value::constant(exact & high),
        None => Value::number(fresh, 0, high),
    }
}
