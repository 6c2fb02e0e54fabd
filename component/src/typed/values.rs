//! [`Value`] among the Rust types: it represents every type, so each call checks it. The Rust types
//! convert its parts: numbers, strings, lists, and the cases of variants.

use super::fields::{Place, field};
use super::{List, NamedTypes, OwnedList, OwnedType, Type, Typed, cases, flags};
use crate::component::Info;
use crate::error::{AbiError, AbiResult, RequestError};
use crate::lift::{Flat, Lift};
use crate::lower::{Collect, Lower, Words};
use crate::stop::Progress;
use crate::value::Value;
use pirn_format::component::{DefinedType, ValueType};

/// Matches the values that contain a Rust type which itself implements [`Type`], and binds its
/// value.
macro_rules! match_value {
    ($value:expr, |$part:ident| $same:expr, $($other:tt)*) => {
        match $value {
            Value::Bool($part) => $same,
            Value::S8($part) => $same,
            Value::U8($part) => $same,
            Value::S16($part) => $same,
            Value::U16($part) => $same,
            Value::S32($part) => $same,
            Value::U32($part) => $same,
            Value::S64($part) => $same,
            Value::U64($part) => $same,
            Value::F32($part) => $same,
            Value::F64($part) => $same,
            Value::Char($part) => $same,
            Value::String($part) => $same,
            Value::List($part) => $same,
            $($other)*
        }
    };
}

/// Reads a value of a type by `OwnedType::$read`. The last arms are for types whose Rust type
/// depends on more than the type's kind.
macro_rules! read_value {
    ($ty:expr, $read:ident($($from:expr),*), $($other:tt)*) => {
        match $ty {
            ValueType::Bool => Value::Bool(OwnedType::$read($($from),*)?),
            ValueType::S8 => Value::S8(OwnedType::$read($($from),*)?),
            ValueType::U8 => Value::U8(OwnedType::$read($($from),*)?),
            ValueType::S16 => Value::S16(OwnedType::$read($($from),*)?),
            ValueType::U16 => Value::U16(OwnedType::$read($($from),*)?),
            ValueType::S32 => Value::S32(OwnedType::$read($($from),*)?),
            ValueType::U32 => Value::U32(OwnedType::$read($($from),*)?),
            ValueType::S64 => Value::S64(OwnedType::$read($($from),*)?),
            ValueType::U64 => Value::U64(OwnedType::$read($($from),*)?),
            ValueType::F32 => Value::F32(OwnedType::$read($($from),*)?),
            ValueType::F64 => Value::F64(OwnedType::$read($($from),*)?),
            ValueType::Char => Value::Char(OwnedType::$read($($from),*)?),
            ValueType::String => Value::String(OwnedType::$read($($from),*)?),
            $($other)*
        }
    };
}

impl Typed for Value {}
impl Type for Value {
    fn is(_: &Info, _: ValueType) -> bool {
        true
    }

    fn request(&self, cx: &mut Collect<'_>, ty: ValueType) -> Result<(), RequestError> {
        cx.progress.work(size_of::<Self>())?;
        match_value!(
            self,
            |part| match represents(part, cx.info(), ty) {
                true => part.request(cx, ty),
                false => Err(cx.mismatch(ty, self.kind())),
            },
            Value::Own(resource) | Value::Borrow(resource) => {
                match (ty, self) {
                    (ValueType::Own(table), Value::Own(_))
                    | (ValueType::Borrow(table), Value::Borrow(_)) => {
                        match cx.scopes.fits(table, *resource) {
                            true => Ok(()),
                            false => Err(cx.mismatch(ty, OTHER_RESOURCE)),
                        }
                    }
                    _ => Err(cx.mismatch(ty, self.kind())),
                }
            }
            _ => request_defined(self, cx, ty),
        )
    }

    fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult {
        match_value!(
            self,
            |part| part.lower(cx, ty, to),
            Value::Own(resource) | Value::Borrow(resource) => {
                to.push(cx.handle(ty, *resource)?.into());
                Ok(())
            }
            Value::Record(fields) => {
                let mut all = fields.iter().enumerate();
                all.try_for_each(|(at, (_, value))| value.lower(cx, field(cx.info(), ty, at), to))
            }
            Value::Tuple(values) => {
                let mut all = values.iter().enumerate();
                all.try_for_each(|(at, value)| value.lower(cx, field(cx.info(), ty, at), to))
            }
            Value::Flags(set) => {
                to.push(bits(cx.info(), ty, set).into());
                Ok(())
            }
            Value::Variant(..) | Value::Enum(_) | Value::Option(_) | Value::Result(_) => {
                match case(cx.info(), ty, self, &mut cx.progress)? {
                    Some((number, _, Some(payload))) => cases::lower(cx, ty, number, payload, to),
                    Some((number, ..)) => cases::lower(cx, ty, number, &(), to),
                    None => Ok(()),
                }
            }
        )
    }

    fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult {
        match_value!(
            self,
            |part| part.store(cx, ty, at),
            Value::Own(resource) | Value::Borrow(resource) => {
                let number = cx.handle(ty, *resource)?;
                cx.write(at, &number.to_le_bytes())
            }
            Value::Record(fields) => {
                let values = fields.iter().map(|(_, value)| value);
                store_fields(values, cx, ty, at)
            }
            Value::Tuple(values) => store_fields(values.iter(), cx, ty, at),
            Value::Flags(set) => flags::store(cx, ty, bits(cx.info(), ty, set), at),
            Value::Variant(..) | Value::Enum(_) | Value::Option(_) | Value::Result(_) => {
                match case(cx.info(), ty, self, &mut cx.progress)? {
                    Some((number, _, Some(payload))) => cases::store(cx, ty, number, payload, at),
                    Some((number, ..)) => cases::store(cx, ty, number, &(), at),
                    None => Ok(()),
                }
            }
        )
    }
}

impl OwnedType for Value {
    fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
        let info = cx.info();
        Ok(read_value!(
            ty,
            lift(cx, ty, from),
            ValueType::Own(_) => Value::Own(cx.handle(ty, from.word() as u32)?),
            ValueType::Borrow(_) => Value::Borrow(cx.handle(ty, from.word() as u32)?),
            ValueType::Defined(index) => match info.defined(index) {
                DefinedType::Record(fields) => {
                    record(cx, fields, |cx, ty| Self::lift(cx, ty, from))?
                }
                DefinedType::Tuple(types) => {
                    tuple(cx, types.iter(), |cx, ty| Self::lift(cx, ty, from)).map(Value::Tuple)?
                }
                DefinedType::List(_) => Value::List(OwnedType::lift(cx, ty, from)?),
                DefinedType::Flags(names) => Value::Flags(set(cx, names, from.word() as u32)?),
                of => cases::lift(cx, ty, from, |cx, number, _, from| {
                    made(cx, of, number, |cx, ty| Self::lift(cx, ty, from))
                })?,
            },
        ))
    }

    fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> AbiResult<Self> {
        let info = cx.info();
        let mut place = Place::new(at);
        let next = |cx: &mut Lift<'_>, ty| Self::load(cx, ty, place.next(info, ty));
        Ok(read_value!(
            ty,
            load(cx, ty, at),
            ValueType::Own(_) => {
                let number = cx.word(at)?;
                Value::Own(cx.handle(ty, number)?)
            }
            ValueType::Borrow(_) => {
                let number = cx.word(at)?;
                Value::Borrow(cx.handle(ty, number)?)
            }
            ValueType::Defined(index) => match info.defined(index) {
                DefinedType::Record(fields) => record(cx, fields, next)?,
                DefinedType::Tuple(types) => tuple(cx, types.iter(), next).map(Value::Tuple)?,
                DefinedType::List(_) => Value::List(OwnedType::load(cx, ty, at)?),
                DefinedType::Flags(names) => {
                    let bits = flags::load(cx, ty, at)?;
                    Value::Flags(set(cx, names, bits)?)
                }
                of => cases::load(cx, ty, at, |cx, number, _, at| {
                    made(cx, of, number, |cx, ty| Self::load(cx, ty, at))
                })?,
            },
        ))
    }
}

/// The parameters of a call, as values.
impl List for [Value] {
    fn are(_: &Info, _: &NamedTypes) -> bool {
        true
    }

    fn request(&self, cx: &mut Collect<'_>, types: &NamedTypes) -> Result<(), RequestError> {
        cx.requests.count(size_of_val(self));
        let mut all = types.iter().zip(self);
        all.try_for_each(|((name, ty), value)| {
            value.request(cx, *ty).map_err(|error| error.at(name))
        })
    }

    fn lower(&self, cx: &mut Lower<'_>, types: &NamedTypes, to: &mut Words) -> AbiResult {
        let mut all = types.iter().zip(self);
        all.try_for_each(|((_, ty), value)| value.lower(cx, *ty, to))
    }

    fn store(&self, cx: &mut Lower<'_>, types: &NamedTypes, at: u32) -> AbiResult {
        let mut place = Place::new(at);
        let mut all = types.iter().zip(self);
        all.try_for_each(|((_, ty), value)| {
            let at = place.next(cx.info(), *ty);
            value.store(cx, *ty, at)
        })
    }
}

/// The parameters of a function of the host, as values.
impl OwnedList for Vec<Value> {
    fn lift(cx: &mut Lift<'_>, types: &NamedTypes, from: &mut Flat<'_>) -> AbiResult<Self> {
        let types = types.iter().map(|(_, ty)| ty);
        tuple(cx, types, |cx, ty| Value::lift(cx, ty, from))
    }

    fn load(cx: &mut Lift<'_>, types: &NamedTypes, at: u32) -> AbiResult<Self> {
        let (info, mut place) = (cx.info(), Place::new(at));
        let types = types.iter().map(|(_, ty)| ty);
        tuple(cx, types, |cx, ty| {
            Value::load(cx, ty, place.next(info, ty))
        })
    }
}

const OTHER_RESOURCE: &str =
    "a resource of another type or instance, or one that the host does not own";

/// Whether the Rust type of a part of a value represents a type.
fn represents<P: Type>(_: &P, info: &Info, ty: ValueType) -> bool {
    P::is(info, ty)
}

/// [`Type::request`] for the kinds of values whose types a component defines.
fn request_defined(value: &Value, cx: &mut Collect<'_>, ty: ValueType) -> Result<(), RequestError> {
    let info = cx.info();
    let ValueType::Defined(index) = ty else {
        return Err(cx.mismatch(ty, value.kind()));
    };
    match (info.defined(index), value) {
        (DefinedType::Record(fields), Value::Record(values)) if fields.len() == values.len() => {
            for ((name, ty), (given, value)) in fields.iter().zip(values) {
                if name != given {
                    return Err(cx.mismatch(*ty, &format!("a field {given:?}")));
                }
                cx.requests.count(given.len());
                value.request(cx, *ty)?;
            }
            cx.requests.count(size_of_val(&values[..]));
            Ok(())
        }
        (DefinedType::Tuple(types), Value::Tuple(values)) if types.len() == values.len() => {
            cx.requests.count(size_of_val(&values[..]));
            let mut all = types.iter().zip(values);
            all.try_for_each(|(ty, value)| value.request(cx, *ty))
        }
        (DefinedType::Flags(names), Value::Flags(set)) => {
            if let Some(unknown) = set.iter().find(|set| !names.contains(set)) {
                return Err(cx.mismatch(ty, &format!("a flag {unknown:?}")));
            }
            let names_bytes: usize = set.iter().map(String::len).sum();
            cx.requests.count(size_of_val(&set[..]) + names_bytes);
            Ok(())
        }
        _ => match case(info, ty, value, &mut cx.progress)? {
            Some((_, Some(ty), Some(payload))) => {
                cx.requests
                    .count(case_name(value).len() + size_of::<Value>());
                payload.request(cx, ty)
            }
            Some((_, None, None)) => {
                cx.requests.count(case_name(value).len());
                Ok(())
            }
            _ => Err(cx.mismatch(ty, value.kind())),
        },
    }
}

/// The name of the case, if the value has it.
fn case_name(value: &Value) -> &str {
    match value {
        Value::Variant(name, _) | Value::Enum(name) => name,
        _ => "",
    }
}

/// A case: its number, the type of its payload, and the payload of the value.
type Case<'a> = (u32, Option<ValueType>, Option<&'a Value>);

/// The case of a value. Compares the value's name of a case with the names of the type's cases. A
/// type may have thousands of cases, so the comparisons count as work.
fn case<'a>(
    info: &Info,
    ty: ValueType,
    value: &'a Value,
    progress: &mut Progress<'_>,
) -> Result<Option<Case<'a>>, AbiError> {
    let ValueType::Defined(index) = ty else {
        return Ok(None);
    };
    let found = match (info.defined(index), value) {
        (DefinedType::Variant(cases), Value::Variant(name, payload)) => {
            let at = cases.iter().position(|(case, _)| case == name);
            at.map(|at| (at as u32, cases[at].1, payload.as_deref()))
        }
        (DefinedType::Enum(names), Value::Enum(name)) => {
            let at = names.iter().position(|case| case == name);
            at.map(|at| (at as u32, None, None))
        }
        (DefinedType::Option(_), Value::Option(None)) => Some((0, None, None)),
        (DefinedType::Option(ty), Value::Option(Some(some))) => Some((1, Some(*ty), Some(&**some))),
        (DefinedType::Result(ty, _), Value::Result(Ok(ok))) => Some((0, *ty, ok.as_deref())),
        (DefinedType::Result(_, ty), Value::Result(Err(error))) => Some((1, *ty, error.as_deref())),
        _ => None,
    };
    let compared = found.map_or(0, |(number, ..)| number as usize);
    progress.work(compared * (size_of::<String>() + case_name(value).len()))?;
    Ok(found)
}

/// The bits of flags.
fn bits(info: &Info, ty: ValueType, set: &[String]) -> u32 {
    let ValueType::Defined(index) = ty else {
        return 0;
    };
    let DefinedType::Flags(names) = info.defined(index) else {
        return 0;
    };
    let names = names.iter().enumerate();
    let set = names.filter(|(_, name)| set.contains(name));
    set.fold(0, |bits, (bit, _)| bits | 1 << bit)
}

fn store_fields<'a>(
    values: impl Iterator<Item = &'a Value>,
    cx: &mut Lower<'_>,
    ty: ValueType,
    at: u32,
) -> AbiResult {
    let (info, mut place) = (cx.info(), Place::new(at));
    let mut all = values.enumerate();
    all.try_for_each(|(number, value)| {
        let ty = field(info, ty, number);
        value.store(cx, ty, place.next(info, ty))
    })
}

/// Reads the values of a tuple, or parameters.
fn tuple<'a>(
    cx: &mut Lift<'_>,
    types: impl ExactSizeIterator<Item = &'a ValueType>,
    mut read: impl FnMut(&mut Lift<'_>, ValueType) -> AbiResult<Value>,
) -> AbiResult<Vec<Value>> {
    cx.spend(types.len() * size_of::<Value>())?;
    let mut all = Vec::with_capacity(types.len());
    for ty in types {
        all.push(read(cx, *ty)?);
    }
    Ok(all)
}

fn record(
    cx: &mut Lift<'_>,
    fields: &NamedTypes,
    mut read: impl FnMut(&mut Lift<'_>, ValueType) -> AbiResult<Value>,
) -> AbiResult<Value> {
    cx.spend(fields.len() * size_of::<(String, Value)>())?;
    let mut all = Vec::with_capacity(fields.len());
    for (name, ty) in fields {
        all.push((cx.name(name)?, read(cx, *ty)?));
    }
    Ok(Value::Record(all))
}

/// The names of the bits that are set.
fn set(cx: &mut Lift<'_>, names: &[String], bits: u32) -> AbiResult<Vec<String>> {
    // Bits past the last name count for nothing, so they get no capacity.
    let unnamed = 32_usize.saturating_sub(names.len()) as u32;
    let bits = bits & u32::MAX.checked_shr(unnamed).unwrap_or(0);
    let count = bits.count_ones() as usize;
    cx.spend(count * size_of::<String>())?;
    let mut set = Vec::with_capacity(count);
    for (bit, name) in names.iter().enumerate() {
        if bits >> bit & 1 == 1 {
            set.push(cx.name(name)?);
        }
    }
    Ok(set)
}

/// Reads the payload of a case by its number, and makes the value.
fn made(
    cx: &mut Lift<'_>,
    of: &DefinedType,
    number: u32,
    read: impl FnOnce(&mut Lift<'_>, ValueType) -> AbiResult<Value>,
) -> AbiResult<Value> {
    let at = number as usize;
    let (count, ty) = match of {
        DefinedType::Variant(cases) => (cases.len(), cases.get(at).and_then(|(_, ty)| *ty)),
        DefinedType::Enum(names) => (names.len(), None),
        DefinedType::Option(some) => (2, (number == 1).then_some(*some)),
        DefinedType::Result(ok, error) => (2, if number == 0 { *ok } else { *error }),
        _ => (0, None),
    };
    if at >= count {
        return cases::unknown(number, count);
    }
    let payload = match ty {
        Some(ty) => {
            cx.spend(size_of::<Value>())?;
            Some(Box::new(read(cx, ty)?))
        }
        None => None,
    };
    Ok(match of {
        DefinedType::Variant(cases) => Value::Variant(cx.name(&cases[at].0)?, payload),
        DefinedType::Enum(names) => Value::Enum(cx.name(&names[at])?),
        DefinedType::Result(..) if number == 0 => Value::Result(Ok(payload)),
        DefinedType::Result(..) => Value::Result(Err(payload)),
        _ => Value::Option(payload),
    })
}
