//! Results of operations on numbers: their intervals. [`Widening`]: how joins extend them.

use crate::value::{Kind, Symbol, Value};

/// A bitwise AND. A mask with a sign bit of 0 bounds it.
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

/// A number of so many bytes, shifted to the right without its sign.
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

/// A difference: a number, or an address and a distance. `None` if it is neither. Both symbols name
/// unknown numbers: the difference, and the right operand with the other sign.
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

/// The lowest bits of a number, fewer than 64 bits, with their sign.
pub(crate) fn sign_extended(value: Value, bits: u32, fresh: Symbol) -> Value {
    let limit = 1_i64 << (bits - 1);
    match value.exact() {
        _ if value.low >= -limit && value.high < limit => value,
        Some(exact) => Value::constant(exact << (64 - bits) >> (64 - bits)),
        None => Value::number(fresh, -limit, limit - 1),
    }
}

/// The lowest bits of a number, fewer than 64 bits, without their sign.
pub(crate) fn zero_extended(value: Value, bits: u32, fresh: Symbol) -> Value {
    let high = i64::MAX >> (63 - bits);
    match value.exact() {
        _ if value.low >= 0 && value.high <= high => value,
        Some(exact) => Value::constant(exact & high),
        None => Value::number(fresh, 0, high),
    }
}

/// How a join extends intervals that have grown, so that the iteration over a loop ends after few
/// visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widening {
    /// Not at all.
    None,
    /// Each bound that has grown, to the next threshold.
    Bounds,
    /// Both bounds, to thresholds that few bounds exceed. This needs the fewest visits.
    Whole,
}

/// Thresholds of upper bounds. 1024 is the bound of loops that copy few bytes, `u32::MAX` that of
/// 32-bit numbers. The next one is that of a sum with a small constant, which is an address in a
/// memory's reservation.
const WIDENING_THRESHOLDS: [i64; 4] = [
    1024,
    u32::MAX as i64,
    u32::MAX as i64 + (16 << 20),
    i64::MAX,
];

impl Widening {
    /// The bounds of an interval that has grown from `old` to `new`.
    pub(crate) fn widened(self, old: (i64, i64), new: (i64, i64)) -> (i64, i64) {
        let up = |thresholds: &[i64]| {
            let bound = thresholds.iter().find(|bound| new.1 <= **bound);
            bound.copied().unwrap_or(i64::MAX)
        };
        let down = match new.0 {
            0.. => 0,
            low if low >= i64::from(i32::MIN) => i64::from(i32::MIN),
            _ => i64::MIN,
        };
        match self {
            Self::None => new,
            Self::Bounds => (
                if new.0 < old.0 { down } else { new.0 },
                if new.1 > old.1 {
                    up(&WIDENING_THRESHOLDS)
                } else {
                    new.1
                },
            ),
            Self::Whole => (down, up(&WIDENING_THRESHOLDS[1..])),
        }
    }
}
