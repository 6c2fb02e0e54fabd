//! Converts the values of scripts.

use pirn_component::Value;
use wast::component::WastVal;
use wast::{WastArg, WastRet};

/// The argument as a value.
pub(crate) fn argument(arg: &WastArg<'_>) -> Result<Value, String> {
    match arg {
        WastArg::Component(value) => component(value),
        other => Err(format!("argument {other:?}")),
    }
}

/// The expected result as a value.
pub(crate) fn result(result: &WastRet<'_>) -> Result<Value, String> {
    match result {
        WastRet::Component(value) => component(value),
        other => Err(format!("result {other:?}")),
    }
}

fn component(value: &WastVal<'_>) -> Result<Value, String> {
    let boxed = |value: &Option<Box<WastVal<'_>>>| {
        let value = value.as_ref().map(|value| component(value).map(Box::new));
        value.transpose()
    };
    let all = |values: &[WastVal<'_>]| values.iter().map(component).collect::<Result<Vec<_>, _>>();
    Ok(match value {
        WastVal::Bool(value) => Value::Bool(*value),
        WastVal::U8(value) => Value::U8(*value),
        WastVal::S8(value) => Value::S8(*value),
        WastVal::U16(value) => Value::U16(*value),
        WastVal::S16(value) => Value::S16(*value),
        WastVal::U32(value) => Value::U32(*value),
        WastVal::S32(value) => Value::S32(*value),
        WastVal::U64(value) => Value::U64(*value),
        WastVal::S64(value) => Value::S64(*value),
        WastVal::F32(value) => Value::F32(f32::from_bits(value.bits)),
        WastVal::F64(value) => Value::F64(f64::from_bits(value.bits)),
        WastVal::Char(value) => Value::Char(*value),
        WastVal::String(value) => Value::String((*value).to_owned()),
        WastVal::List(values) => Value::List(all(values)?),
        WastVal::Tuple(values) => Value::Tuple(all(values)?),
        WastVal::Record(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| Ok(((*name).to_owned(), component(value)?)));
            Value::Record(fields.collect::<Result<_, String>>()?)
        }
        WastVal::Variant(case, payload) => Value::Variant((*case).to_owned(), boxed(payload)?),
        WastVal::Enum(case) => Value::Enum((*case).to_owned()),
        WastVal::Option(some) => Value::Option(boxed(some)?),
        WastVal::Result(Ok(value)) => Value::Result(Ok(boxed(value)?)),
        WastVal::Result(Err(value)) => Value::Result(Err(boxed(value)?)),
        WastVal::Flags(names) => {
            Value::Flags(names.iter().map(|name| (*name).to_owned()).collect())
        }
        WastVal::Map(_) => return Err("a map".to_owned()),
    })
}

/// Whether a value is the expected one. Numbers are compared by their bits, and all NaNs are equal.
pub(crate) fn equal(found: &Value, wanted: &Value) -> bool {
    let pairs = |one: &[Value], other: &[Value]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
    };
    let optional = |one: &Option<Box<Value>>, other: &Option<Box<Value>>| match (one, other) {
        (Some(one), Some(other)) => equal(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    match (found, wanted) {
        (Value::F32(one), Value::F32(other)) => {
            one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan())
        }
        (Value::F64(one), Value::F64(other)) => {
            one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan())
        }
        (Value::List(one), Value::List(other)) | (Value::Tuple(one), Value::Tuple(other)) => {
            pairs(one, other)
        }
        (Value::Record(one), Value::Record(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|((name, value), (wanted, other))| name == wanted && equal(value, other))
        }
        (Value::Variant(case, one), Value::Variant(wanted, other)) => {
            case == wanted && optional(one, other)
        }
        (Value::Option(one), Value::Option(other)) => optional(one, other),
        (Value::Result(Ok(one)), Value::Result(Ok(other)))
        | (Value::Result(Err(one)), Value::Result(Err(other))) => optional(one, other),
        (found, wanted) => found == wanted,
    }
}
