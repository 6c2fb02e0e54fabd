//! Functions that walk values: insert NaNs, visit handles, compare.

use crate::random::Random;
use pirn_component::Value;

/// The values directly inside a value, in order.
fn parts(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::List(values) | Value::Tuple(values) => values.iter_mut().collect(),
        Value::Record(fields) => fields.iter_mut().map(|(_, value)| value).collect(),
        Value::Variant(_, payload) | Value::Option(payload) => {
            payload.as_deref_mut().into_iter().collect()
        }
        Value::Result(Ok(payload) | Err(payload)) => payload.as_deref_mut().into_iter().collect(),
        _ => vec![],
    }
}

/// The values of a function's parameters. A tuple stands for several parameters.
pub(super) fn spread(value: &Value) -> Vec<Value> {
    match value {
        Value::Tuple(values) => values.clone(),
        one => vec![one.clone()],
    }
}

/// Makes some floats NaN.
pub(super) fn with_nans(value: &mut Value, random: &mut Random) {
    match value {
        Value::F32(number) if random.once_in(6) => *number = f32::NAN,
        Value::F64(number) if random.once_in(6) => *number = f64::NAN,
        value => parts(value)
            .into_iter()
            .for_each(|value| with_nans(value, random)),
    }
}

/// Calls `visit` for each handle in a value: with `true` for a borrowed handle, with `false` for an
/// owned one.
pub(super) fn each_handle(value: &mut Value, visit: &mut impl FnMut(bool)) {
    match value {
        Value::Own(_) => visit(false),
        Value::Borrow(_) => visit(true),
        value => parts(value)
            .into_iter()
            .for_each(|value| each_handle(value, visit)),
    }
}

/// Whether two values are equal. All NaNs are equal, and zeros of different signs are not.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    let all = |one: &[Value], other: &[Value]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
    };
    let payload = |one: &Option<Box<Value>>, other: &Option<Box<Value>>| match (one, other) {
        (Some(one), Some(other)) => same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    match (one, other) {
        (Value::F32(one), Value::F32(other)) => {
            one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
        }
        (Value::F64(one), Value::F64(other)) => {
            one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
        }
        (Value::List(one), Value::List(other)) | (Value::Tuple(one), Value::Tuple(other)) => {
            all(one, other)
        }
        (Value::Record(one), Value::Record(other)) => {
            let mut both = one.iter().zip(other);
            one.len() == other.len()
                && both.all(|((name, one), (of, other))| name == of && same(one, other))
        }
        (Value::Variant(name, one), Value::Variant(of, other)) => name == of && payload(one, other),
        (Value::Option(one), Value::Option(other))
        | (Value::Result(Ok(one)), Value::Result(Ok(other)))
        | (Value::Result(Err(one)), Value::Result(Err(other))) => payload(one, other),
        (Value::Own(one), Value::Own(other)) | (Value::Borrow(one), Value::Borrow(other)) => {
            one.rep() == other.rep()
        }
        _ => one == other,
    }
}
