//! [`Types`]: the types of a component, and the text form of values
//! (WAVE, <https://github.com/bytecodealliance/wasm-tools/tree/main/crates/wasm-wave>).

use anyhow::{Result, anyhow, bail};
use pirn_cli::text::one_line;
use pirn_component::{Component, DefinedType, FuncType, Value, ValueType};
use std::borrow::Cow;
use wasm_wave::value::{Type, Value as Text};
use wasm_wave::wasm::{WasmType, WasmTypeKind, WasmValue, WasmValueError};

/// The types of a component whose values have a text form: all but resources.
pub(super) struct Types {
    component: Component,
    /// The text types by index of the component's type. `None` for a type that contains a resource.
    defined: Vec<Option<Type>>,
}

impl Types {
    pub(super) fn of(component: &Component) -> Self {
        let mut types = Self {
            component: component.clone(),
            defined: vec![],
        };
        // Each type refers only to types before it.
        for index in 0.. {
            let Some(ty) = component.defined_type(index) else {
                break;
            };
            let ty = types.define(ty);
            types.defined.push(ty);
        }
        types
    }

    fn define(&self, ty: &DefinedType) -> Option<Type> {
        let optional = |ty: &Option<ValueType>| match ty {
            Some(ty) => self.text(*ty).map(Some),
            None => Some(None),
        };
        match ty {
            DefinedType::Record(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, ty)| Some((name.as_str(), self.text(*ty)?)));
                Type::record(fields.collect::<Option<Vec<_>>>()?)
            }
            DefinedType::Variant(cases) => {
                let cases = cases.iter();
                let cases = cases.map(|(name, ty)| Some((name.as_str(), optional(ty)?)));
                Type::variant(cases.collect::<Option<Vec<_>>>()?)
            }
            DefinedType::List(ty) => Some(Type::list(self.text(*ty)?)),
            DefinedType::Tuple(types) => {
                let types = types.iter().map(|ty| self.text(*ty));
                Type::tuple(types.collect::<Option<Vec<_>>>()?)
            }
            DefinedType::Flags(names) => Type::flags(names.iter().map(String::as_str)),
            DefinedType::Enum(names) => Type::enum_ty(names.iter().map(String::as_str)),
            DefinedType::Option(ty) => Some(Type::option(self.text(*ty)?)),
            DefinedType::Result(ok, error) => Some(Type::result(optional(ok)?, optional(error)?)),
        }
    }

    /// The type for the text form. `None` if `ty` contains a resource.
    fn text(&self, ty: ValueType) -> Option<Type> {
        Some(match ty {
            ValueType::Bool => Type::BOOL,
            ValueType::S8 => Type::S8,
            ValueType::U8 => Type::U8,
            ValueType::S16 => Type::S16,
            ValueType::U16 => Type::U16,
            ValueType::S32 => Type::S32,
            ValueType::U32 => Type::U32,
            ValueType::S64 => Type::S64,
            ValueType::U64 => Type::U64,
            ValueType::F32 => Type::F32,
            ValueType::F64 => Type::F64,
            ValueType::Char => Type::CHAR,
            ValueType::String => Type::STRING,
            ValueType::Defined(index) => return self.defined.get(index as usize)?.clone(),
            ValueType::Own(_) | ValueType::Borrow(_) => return None,
        })
    }

    /// Checks that all values of a function have a text form.
    pub(super) fn check(&self, name: &str, func: &FuncType) -> Result<()> {
        let mut types = func.params.iter().map(|(_, ty)| *ty).chain(func.result);
        if types.all(|ty| self.text(ty).is_some()) {
            return Ok(());
        }
        let ty = self.component.describe(func);
        bail!(
            "function {name:?} of type {ty} has a resource, which has no text form; invoke \
             another function"
        )
    }

    /// The value of a parameter from its text form.
    pub(super) fn parse(&self, name: &str, ty: ValueType, text: &str) -> Result<Value> {
        let wave = self
            .text(ty)
            .ok_or_else(|| anyhow!("{name} is a resource"))?;
        match wasm_wave::from_str::<Text>(&wave, text) {
            Ok(value) => Ok(from_text(&value)),
            Err(error) => {
                let error = one_line(error);
                let remedy = match wave.kind() {
                    WasmTypeKind::String => format!("write it in quotes: '{text:?}'"),
                    _ => "give one".to_owned(),
                };
                let ty = wasm_wave::wasm::DisplayType(&wave);
                bail!("argument {text:?} is not a value of type {ty}: {error}; {remedy}")
            }
        }
    }

    /// The text form of a result.
    pub(super) fn print(&self, ty: ValueType, value: &Value) -> Result<String> {
        let printed = self.text(ty).and_then(|ty| to_text(&ty, value).ok());
        let printed = printed.and_then(|value| wasm_wave::to_string(&value).ok());
        printed.ok_or_else(|| anyhow!("the result has no text form; invoke another function"))
    }
}

fn from_text(value: &Text) -> Value {
    let boxed = |value: Option<Cow<'_, Text>>| value.map(|value| Box::new(from_text(&value)));
    match value.kind() {
        WasmTypeKind::Bool => Value::Bool(value.unwrap_bool()),
        WasmTypeKind::S8 => Value::S8(value.unwrap_s8()),
        WasmTypeKind::U8 => Value::U8(value.unwrap_u8()),
        WasmTypeKind::S16 => Value::S16(value.unwrap_s16()),
        WasmTypeKind::U16 => Value::U16(value.unwrap_u16()),
        WasmTypeKind::S32 => Value::S32(value.unwrap_s32()),
        WasmTypeKind::U32 => Value::U32(value.unwrap_u32()),
        WasmTypeKind::S64 => Value::S64(value.unwrap_s64()),
        WasmTypeKind::U64 => Value::U64(value.unwrap_u64()),
        WasmTypeKind::F32 => Value::F32(value.unwrap_f32()),
        WasmTypeKind::F64 => Value::F64(value.unwrap_f64()),
        WasmTypeKind::Char => Value::Char(value.unwrap_char()),
        WasmTypeKind::String => Value::String(value.unwrap_string().into_owned()),
        WasmTypeKind::List => Value::List(value.unwrap_list().map(|v| from_text(&v)).collect()),
        WasmTypeKind::Tuple => Value::Tuple(value.unwrap_tuple().map(|v| from_text(&v)).collect()),
        WasmTypeKind::Record => {
            let fields = value.unwrap_record();
            Value::Record(
                fields
                    .map(|(name, v)| (name.into_owned(), from_text(&v)))
                    .collect(),
            )
        }
        WasmTypeKind::Variant => {
            let (name, payload) = value.unwrap_variant();
            Value::Variant(name.into_owned(), boxed(payload))
        }
        WasmTypeKind::Enum => Value::Enum(value.unwrap_enum().into_owned()),
        WasmTypeKind::Option => Value::Option(boxed(value.unwrap_option())),
        WasmTypeKind::Result => Value::Result(value.unwrap_result().map(boxed).map_err(boxed)),
        WasmTypeKind::Flags => Value::Flags(value.unwrap_flags().map(Cow::into_owned).collect()),
        kind => unreachable!("`text` makes no type of kind {kind}"),
    }
}

fn to_text(ty: &Type, value: &Value) -> Result<Text, WasmValueError> {
    let wrong = || WasmValueError::Other("a value of another type".to_owned());
    let inner = |ty: Option<Type>, value: &Option<Box<Value>>| match (ty, value) {
        (Some(ty), Some(value)) => to_text(&ty, value).map(Some),
        _ => Ok(None),
    };
    Ok(match value {
        Value::Bool(value) => Text::make_bool(*value),
        Value::S8(value) => Text::make_s8(*value),
        Value::U8(value) => Text::make_u8(*value),
        Value::S16(value) => Text::make_s16(*value),
        Value::U16(value) => Text::make_u16(*value),
        Value::S32(value) => Text::make_s32(*value),
        Value::U32(value) => Text::make_u32(*value),
        Value::S64(value) => Text::make_s64(*value),
        Value::U64(value) => Text::make_u64(*value),
        Value::F32(value) => Text::make_f32(*value),
        Value::F64(value) => Text::make_f64(*value),
        Value::Char(value) => Text::make_char(*value),
        Value::String(value) => Text::make_string(value.as_str().into()),
        Value::List(values) => {
            let of = ty.list_element_type().ok_or_else(wrong)?;
            let values = values.iter().map(|value| to_text(&of, value));
            Text::make_list(ty, values.collect::<Result<Vec<_>, _>>()?)?
        }
        Value::Tuple(values) => {
            let values = ty.tuple_element_types().zip(values);
            let values = values.map(|(ty, value)| to_text(&ty, value));
            Text::make_tuple(ty, values.collect::<Result<Vec<_>, _>>()?)?
        }
        Value::Record(fields) => {
            let types = ty.record_fields().map(|(_, ty)| ty);
            let fields = types.zip(fields);
            let fields = fields.map(|(ty, (name, v))| Ok((name.as_str(), to_text(&ty, v)?)));
            Text::make_record(ty, fields.collect::<Result<Vec<_>, WasmValueError>>()?)?
        }
        Value::Variant(name, payload) => {
            let case = ty.variant_cases().find(|(case, _)| case == name);
            let (_, of) = case.ok_or_else(wrong)?;
            Text::make_variant(ty, name, inner(of, payload)?)?
        }
        Value::Enum(name) => Text::make_enum(ty, name)?,
        Value::Option(value) => Text::make_option(ty, inner(ty.option_some_type(), value)?)?,
        Value::Result(result) => {
            let (ok, error) = ty.result_types().ok_or_else(wrong)?;
            let result = match result {
                Ok(value) => Ok(inner(ok, value)?),
                Err(value) => Err(inner(error, value)?),
            };
            Text::make_result(ty, result)?
        }
        Value::Flags(names) => Text::make_flags(ty, names.iter().map(String::as_str))?,
        Value::Own(_) | Value::Borrow(_) => return Err(wrong()),
    })
}
