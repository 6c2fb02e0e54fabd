//! [`pirn_component_value_t`]: a value of the component model in C.
//!
//! # Safety
//!
//! This file owns one fact. A field of the union is read only if the kind of the value says that
//! this field was written. All bits are valid for each field.
#![allow(unsafe_code)]

use crate::entry::{list, shared, text, utf8};
use crate::error::{Fallible, argument};
use core::ffi::c_char;
use pirn_component::{Resource, Value};

/// The kind of a component's value: one of PIRN_COMPONENT_BOOL to PIRN_COMPONENT_BORROW.
pub type pirn_component_kind_t = u32;

/// `bool`, in `boolean`.
pub const PIRN_COMPONENT_BOOL: pirn_component_kind_t = 0;
/// `s8`, in `s8`.
pub const PIRN_COMPONENT_S8: pirn_component_kind_t = 1;
/// `u8`, in `u8`.
pub const PIRN_COMPONENT_U8: pirn_component_kind_t = 2;
/// `s16`, in `s16`.
pub const PIRN_COMPONENT_S16: pirn_component_kind_t = 3;
/// `u16`, in `u16`.
pub const PIRN_COMPONENT_U16: pirn_component_kind_t = 4;
/// `s32`, in `s32`.
pub const PIRN_COMPONENT_S32: pirn_component_kind_t = 5;
/// `u32`, in `u32`.
pub const PIRN_COMPONENT_U32: pirn_component_kind_t = 6;
/// `s64`, in `s64`.
pub const PIRN_COMPONENT_S64: pirn_component_kind_t = 7;
/// `u64`, in `u64`.
pub const PIRN_COMPONENT_U64: pirn_component_kind_t = 8;
/// `f32`, in `f32`.
pub const PIRN_COMPONENT_F32: pirn_component_kind_t = 9;
/// `f64`, in `f64`.
pub const PIRN_COMPONENT_F64: pirn_component_kind_t = 10;
/// `char`, in `character`.
pub const PIRN_COMPONENT_CHAR: pirn_component_kind_t = 11;
/// `string`, in `string`.
pub const PIRN_COMPONENT_STRING: pirn_component_kind_t = 12;
/// `list`, in `list`.
pub const PIRN_COMPONENT_LIST: pirn_component_kind_t = 13;
/// `record`, in `record`.
pub const PIRN_COMPONENT_RECORD: pirn_component_kind_t = 14;
/// `tuple`, in `list`.
pub const PIRN_COMPONENT_TUPLE: pirn_component_kind_t = 15;
/// `variant`, in `variant`.
pub const PIRN_COMPONENT_VARIANT: pirn_component_kind_t = 16;
/// `enum`, in `enumeration`.
pub const PIRN_COMPONENT_ENUM: pirn_component_kind_t = 17;
/// `option`, in `option`.
pub const PIRN_COMPONENT_OPTION: pirn_component_kind_t = 18;
/// `result`, in `result`.
pub const PIRN_COMPONENT_RESULT: pirn_component_kind_t = 19;
/// `flags`, in `flags`.
pub const PIRN_COMPONENT_FLAGS: pirn_component_kind_t = 20;
/// `own`, in `resource`: the receiver has the resource.
pub const PIRN_COMPONENT_OWN: pirn_component_kind_t = 21;
/// `borrow`, in `resource`: the receiver may use the resource during the call.
pub const PIRN_COMPONENT_BORROW: pirn_component_kind_t = 22;

/// A text of `len` bytes of UTF-8, which may contain zero bytes. A zero byte follows a text of the
/// library. `data` may be NULL if `len` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_string_t {
    /// The first byte.
    pub data: *const c_char,
    /// Number of bytes.
    pub len: usize,
}

/// The elements of a list or a tuple. `values` may be NULL if `count` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_list_t {
    /// The first element.
    pub values: *const pirn_component_value_t,
    /// Number of elements.
    pub count: usize,
}

/// The fields of a record, in the order of its type. `fields` may be NULL if `count` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_record_t {
    /// The first field.
    pub fields: *const pirn_component_field_t,
    /// Number of fields.
    pub count: usize,
}

/// The case of a variant.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_case_t {
    /// The name of the case.
    pub name: *const c_char,
    /// The payload, or NULL if the case has none.
    pub payload: *const pirn_component_value_t,
}

/// Success or failure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_result_t {
    /// 0 for success, otherwise failure.
    pub is_error: u32,
    /// The payload, or NULL if there is none.
    pub payload: *const pirn_component_value_t,
}

/// The flags that are set, in the order of the type. `names` may be NULL if `count` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_flags_t {
    /// The first name.
    pub names: *const *const c_char,
    /// Number of names.
    pub count: usize,
}

/// A resource. If the embedder defines its type, `rep` is the embedder's number, and the other
/// fields are 0. If the component defines its type, pass the three fields that the instance gave:
/// the resource is valid for that instance only.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_resource_t {
    /// The number that the definer of the resource gave it.
    pub rep: u32,
    /// The type, within the component that defines it.
    pub type_index: u32,
    /// The instance that defines the resource; 0 for a type of the embedder.
    pub owner: u64,
}

/// The content of a component's value. The `kind` of the value says which field is written.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pirn_component_value_of_t {
    /// PIRN_COMPONENT_BOOL: 0 is false, everything else is true.
    pub boolean: u8,
    /// PIRN_COMPONENT_S8.
    pub s8: i8,
    /// PIRN_COMPONENT_U8.
    pub u8: u8,
    /// PIRN_COMPONENT_S16.
    pub s16: i16,
    /// PIRN_COMPONENT_U16.
    pub u16: u16,
    /// PIRN_COMPONENT_S32.
    pub s32: i32,
    /// PIRN_COMPONENT_U32.
    pub u32: u32,
    /// PIRN_COMPONENT_S64.
    pub s64: i64,
    /// PIRN_COMPONENT_U64.
    pub u64: u64,
    /// PIRN_COMPONENT_F32.
    pub f32: f32,
    /// PIRN_COMPONENT_F64.
    pub f64: f64,
    /// PIRN_COMPONENT_CHAR: a Unicode scalar value.
    pub character: u32,
    /// PIRN_COMPONENT_STRING.
    pub string: pirn_component_string_t,
    /// PIRN_COMPONENT_LIST and PIRN_COMPONENT_TUPLE.
    pub list: pirn_component_list_t,
    /// PIRN_COMPONENT_RECORD.
    pub record: pirn_component_record_t,
    /// PIRN_COMPONENT_VARIANT.
    pub variant: pirn_component_case_t,
    /// PIRN_COMPONENT_ENUM: the name of the case.
    pub enumeration: *const c_char,
    /// PIRN_COMPONENT_OPTION: the payload, or NULL if there is none.
    pub option: *const pirn_component_value_t,
    /// PIRN_COMPONENT_RESULT.
    pub result: pirn_component_result_t,
    /// PIRN_COMPONENT_FLAGS.
    pub flags: pirn_component_flags_t,
    /// PIRN_COMPONENT_OWN and PIRN_COMPONENT_BORROW.
    pub resource: pirn_component_resource_t,
}

/// A value of the component model. The maker of a value owns the lists and texts that the value
/// points to. A function that gets a value copies all of them, and keeps no pointer. Values that
/// the library makes are immutable, and belong to a pirn_component_owned_t or to the caller of a
/// host function.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_value_t {
    /// The kind of the value.
    pub kind: pirn_component_kind_t,
    /// The content.
    pub of: pirn_component_value_of_t,
}

/// A field of a record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_component_field_t {
    /// The name.
    pub name: *const c_char,
    /// The value.
    pub value: pirn_component_value_t,
}

/// Most levels of values in values. The limit also ends the walk of a value that points to itself.
const DEPTH_MAX: usize = 100;

/// Most values, and names of flags, that one function reads from its caller: they take 128 MiB of
/// the host. A value that many lists share counts in each list.
const VALUES_MAX: usize = 4 << 20;

/// The values for the component library.
///
/// # Errors
///
/// For an unknown kind, a null pointer, a text that is not UTF-8, a number that is no character,
/// and too many values.
///
/// # Safety
///
/// In each value of `given`, the field that `kind` names must have been written. Its list must have
/// `count` elements, its C string must end with a zero byte, and any other pointer must be null or
/// readable. The same holds for the values that `given` leads to.
pub(crate) unsafe fn values(given: &[pirn_component_value_t]) -> Fallible<Vec<Value>> {
    let mut reader = Reader {
        values_left: VALUES_MAX,
        depth: 0,
    };
    // SAFETY: the caller ensures for each value in `given` what `Reader::list` requires: as
    // `values`.
    unsafe { reader.list(given) }
}

/// Reads values of the embedder, within bounds.
struct Reader {
    values_left: usize,
    depth: usize,
}

impl Reader {
    /// Counts values before they are copied.
    fn count(&mut self, count: usize) -> Fallible<()> {
        let left = self.values_left.checked_sub(count);
        self.values_left = left.ok_or_else(|| {
            argument(format!(
                "more than {VALUES_MAX} values are passed to one function; pass fewer"
            ))
        })?;
        Ok(())
    }

    /// # Safety
    ///
    /// As [`values`].
    unsafe fn list(&mut self, given: &[pirn_component_value_t]) -> Fallible<Vec<Value>> {
        self.count(given.len())?;
        let all = given.iter();
        // SAFETY: the caller ensures for each value in `given` what `Reader::value` requires: as
        // `values`.
        all.map(|value| unsafe { self.value(value) }).collect()
    }

    /// # Safety
    ///
    /// As [`values`].
    unsafe fn value(&mut self, value: &pirn_component_value_t) -> Fallible<Value> {
        if self.depth == DEPTH_MAX {
            return Err(argument(format!(
                "a value has more than {DEPTH_MAX} levels; pass one that does not contain itself"
            )));
        }
        self.depth += 1;
        // SAFETY: the caller ensures that the field of `value.of` that `value.kind` names was
        // written.
        let made = unsafe { self.content(value.kind, &value.of) };
        self.depth -= 1;
        made
    }

    /// # Safety
    ///
    /// As [`values`].
    unsafe fn content(
        &mut self,
        kind: pirn_component_kind_t,
        of: &pirn_component_value_of_t,
    ) -> Fallible<Value> {
        // SAFETY: the caller ensures that the field of `of` that `kind` names was written. It also
        // ensures that the field's list has `count` elements, and that its pointers are null or
        // readable.
        unsafe {
            Ok(match kind {
                PIRN_COMPONENT_BOOL => Value::Bool(of.boolean != 0),
                PIRN_COMPONENT_S8 => Value::S8(of.s8),
                PIRN_COMPONENT_U8 => Value::U8(of.u8),
                PIRN_COMPONENT_S16 => Value::S16(of.s16),
                PIRN_COMPONENT_U16 => Value::U16(of.u16),
                PIRN_COMPONENT_S32 => Value::S32(of.s32),
                PIRN_COMPONENT_U32 => Value::U32(of.u32),
                PIRN_COMPONENT_S64 => Value::S64(of.s64),
                PIRN_COMPONENT_U64 => Value::U64(of.u64),
                PIRN_COMPONENT_F32 => Value::F32(of.f32),
                PIRN_COMPONENT_F64 => Value::F64(of.f64),
                PIRN_COMPONENT_CHAR => Value::Char(character(of.character)?),
                PIRN_COMPONENT_STRING => Value::String(string(of.string)?),
                PIRN_COMPONENT_LIST => {
                    Value::List(self.list(list(of.list.values, of.list.count, "list.values")?)?)
                }
                PIRN_COMPONENT_TUPLE => {
                    Value::Tuple(self.list(list(of.list.values, of.list.count, "list.values")?)?)
                }
                PIRN_COMPONENT_RECORD => self.record(of.record)?,
                PIRN_COMPONENT_VARIANT => {
                    let name = text(of.variant.name, "variant.name")?.to_owned();
                    Value::Variant(name, self.payload(of.variant.payload)?)
                }
                PIRN_COMPONENT_ENUM => Value::Enum(text(of.enumeration, "enumeration")?.to_owned()),
                PIRN_COMPONENT_OPTION => Value::Option(self.payload(of.option)?),
                PIRN_COMPONENT_RESULT => {
                    let payload = self.payload(of.result.payload)?;
                    Value::Result(match of.result.is_error {
                        0 => Ok(payload),
                        _ => Err(payload),
                    })
                }
                PIRN_COMPONENT_FLAGS => self.flags(of.flags)?,
                PIRN_COMPONENT_OWN => Value::Own(of.resource.resource()),
                PIRN_COMPONENT_BORROW => Value::Borrow(of.resource.resource()),
                other => {
                    return Err(argument(format!(
                        "value kind is {other}, the largest is {PIRN_COMPONENT_BORROW}; pass one \
                         of `pirn_component_kind_t`"
                    )));
                }
            })
        }
    }

    /// # Safety
    ///
    /// `payload` must be null, or point to a value as [`values`] requires.
    unsafe fn payload(
        &mut self,
        payload: *const pirn_component_value_t,
    ) -> Fallible<Option<Box<Value>>> {
        if payload.is_null() {
            return Ok(None);
        }
        self.count(1)?;
        // SAFETY: `payload` is not null, so the caller ensures that it points to a value.
        let value = unsafe { self.value(shared(payload, "payload")?)? };
        Ok(Some(Box::new(value)))
    }

    /// # Safety
    ///
    /// As [`values`].
    unsafe fn record(&mut self, record: pirn_component_record_t) -> Fallible<Value> {
        self.count(record.count)?;
        // SAFETY: the caller ensures that the list has this length.
        let fields = unsafe { list(record.fields, record.count, "record.fields")? };
        // SAFETY: the caller ensures that each `field.name` is a C string, and each `field.value`
        // as `values` requires.
        let fields = fields.iter().map(|field| unsafe {
            let name = text(field.name, "field.name")?.to_owned();
            Ok((name, self.value(&field.value)?))
        });
        Ok(Value::Record(fields.collect::<Fallible<_>>()?))
    }

    /// # Safety
    ///
    /// As [`values`].
    unsafe fn flags(&mut self, flags: pirn_component_flags_t) -> Fallible<Value> {
        self.count(flags.count)?;
        // SAFETY: the caller ensures that the list has this length.
        let names = unsafe { list(flags.names, flags.count, "flags.names")? };
        let names = names.iter();
        // SAFETY: the caller ensures that each of the `flags.count` names is a C string.
        let names = names.map(|name| Ok(unsafe { text(*name, "flags.names") }?.to_owned()));
        Ok(Value::Flags(names.collect::<Fallible<_>>()?))
    }
}

impl pirn_component_resource_t {
    pub(crate) fn resource(self) -> Resource {
        let types = u128::from(self.rep) | u128::from(self.type_index) << 32;
        Resource::from_bits(types | u128::from(self.owner) << 64)
    }

    pub(crate) fn of(resource: Resource) -> Self {
        let bits = resource.to_bits();
        Self {
            rep: bits as u32,
            type_index: (bits >> 32) as u32,
            owner: (bits >> 64) as u64,
        }
    }
}

fn character(number: u32) -> Fallible<char> {
    char::from_u32(number).ok_or_else(|| {
        argument(format!(
            "character is {number:#x}, which is no Unicode scalar value; pass one"
        ))
    })
}

/// # Safety
///
/// `given.data` must point to `given.len` bytes.
unsafe fn string(given: pirn_component_string_t) -> Fallible<String> {
    // SAFETY: the caller ensures that `given.data` points to `given.len` bytes.
    let bytes = unsafe { list(given.data.cast::<u8>(), given.len, "string.data")? };
    Ok(utf8(bytes, "string")?.to_owned())
}
