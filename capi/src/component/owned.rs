//! [`pirn_component_owned_t`]: a value that the library made, with the lists and texts that the
//! value points to.
//!
//! # Safety
//!
//! This file owns one fact. The pointers of a value lead into lists of the same owner, whose
//! content never changes or moves until the owner ends.
#![allow(unsafe_code)]

use super::value::{
    PIRN_COMPONENT_BOOL, PIRN_COMPONENT_BORROW, PIRN_COMPONENT_CHAR, PIRN_COMPONENT_ENUM,
    PIRN_COMPONENT_F32, PIRN_COMPONENT_F64, PIRN_COMPONENT_FLAGS, PIRN_COMPONENT_LIST,
    PIRN_COMPONENT_OPTION, PIRN_COMPONENT_OWN, PIRN_COMPONENT_RECORD, PIRN_COMPONENT_RESULT,
    PIRN_COMPONENT_S8, PIRN_COMPONENT_S16, PIRN_COMPONENT_S32, PIRN_COMPONENT_S64,
    PIRN_COMPONENT_STRING, PIRN_COMPONENT_TUPLE, PIRN_COMPONENT_U8, PIRN_COMPONENT_U16,
    PIRN_COMPONENT_U32, PIRN_COMPONENT_U64, PIRN_COMPONENT_VARIANT, pirn_component_case_t,
    pirn_component_field_t, pirn_component_flags_t, pirn_component_list_t, pirn_component_record_t,
    pirn_component_resource_t, pirn_component_result_t, pirn_component_string_t,
    pirn_component_value_of_t, pirn_component_value_t,
};
use crate::entry;
use core::ffi::c_char;
use core::ptr;
use pirn_component::Value;

/// A value that the library made. Immutable; any threads may read it at the same time.
pub struct pirn_component_owned_t {
    root: pirn_component_value_t,
    _lists: Lists,
}

// SAFETY: the pointers lead into `_lists` of the same owner, which only the drop of the owner
// changes.
unsafe impl Send for pirn_component_owned_t {}
// SAFETY: as for `Send`: until the drop of the owner, threads only read the lists.
unsafe impl Sync for pirn_component_owned_t {}

impl pirn_component_owned_t {
    pub(crate) fn new(value: Value) -> Self {
        let mut lists = Lists::default();
        Self {
            root: lists.value(value),
            _lists: lists,
        }
    }
}

/// The lists and texts that values point to. Each list has its final length, so its elements do not
/// move.
#[derive(Default)]
pub(crate) struct Lists {
    values: Vec<Vec<pirn_component_value_t>>,
    fields: Vec<Vec<pirn_component_field_t>>,
    names: Vec<Vec<*const c_char>>,
    texts: Vec<Vec<u8>>,
}

impl Lists {
    /// The value for C, which is valid as long as these lists.
    pub(crate) fn value(&mut self, value: Value) -> pirn_component_value_t {
        // Writes all bytes, so that no old memory of the library reaches the embedder.
        let mut of = pirn_component_value_of_t {
            resource: pirn_component_resource_t {
                rep: 0,
                type_index: 0,
                owner: 0,
            },
        };
        let kind = match value {
            Value::Bool(value) => {
                of.boolean = value.into();
                PIRN_COMPONENT_BOOL
            }
            Value::S8(value) => {
                of.s8 = value;
                PIRN_COMPONENT_S8
            }
            Value::U8(value) => {
                of.u8 = value;
                PIRN_COMPONENT_U8
            }
            Value::S16(value) => {
                of.s16 = value;
                PIRN_COMPONENT_S16
            }
            Value::U16(value) => {
                of.u16 = value;
                PIRN_COMPONENT_U16
            }
            Value::S32(value) => {
                of.s32 = value;
                PIRN_COMPONENT_S32
            }
            Value::U32(value) => {
                of.u32 = value;
                PIRN_COMPONENT_U32
            }
            Value::S64(value) => {
                of.s64 = value;
                PIRN_COMPONENT_S64
            }
            Value::U64(value) => {
                of.u64 = value;
                PIRN_COMPONENT_U64
            }
            Value::F32(value) => {
                of.f32 = value;
                PIRN_COMPONENT_F32
            }
            Value::F64(value) => {
                of.f64 = value;
                PIRN_COMPONENT_F64
            }
            Value::Char(value) => {
                of.character = value.into();
                PIRN_COMPONENT_CHAR
            }
            Value::Own(resource) => {
                of.resource = pirn_component_resource_t::of(resource);
                PIRN_COMPONENT_OWN
            }
            Value::Borrow(resource) => {
                of.resource = pirn_component_resource_t::of(resource);
                PIRN_COMPONENT_BORROW
            }
            other => return self.compound(other, of),
        };
        pirn_component_value_t { kind, of }
    }

    /// A value that points to other values or texts.
    fn compound(
        &mut self,
        value: Value,
        mut of: pirn_component_value_of_t,
    ) -> pirn_component_value_t {
        let kind = match value {
            Value::String(text) => {
                let len = text.len();
                let data = self.text(text);
                of.string = pirn_component_string_t { data, len };
                PIRN_COMPONENT_STRING
            }
            Value::List(values) => {
                of.list = self.list(values);
                PIRN_COMPONENT_LIST
            }
            Value::Tuple(values) => {
                of.list = self.list(values);
                PIRN_COMPONENT_TUPLE
            }
            Value::Record(fields) => {
                of.record = self.record(fields);
                PIRN_COMPONENT_RECORD
            }
            Value::Variant(name, payload) => {
                let name = self.name(name);
                let payload = self.payload(payload);
                of.variant = pirn_component_case_t { name, payload };
                PIRN_COMPONENT_VARIANT
            }
            Value::Enum(name) => {
                of.enumeration = self.name(name);
                PIRN_COMPONENT_ENUM
            }
            Value::Option(payload) => {
                of.option = self.payload(payload);
                PIRN_COMPONENT_OPTION
            }
            Value::Result(result) => {
                of.result = pirn_component_result_t {
                    is_error: result.is_err().into(),
                    payload: self.payload(result.unwrap_or_else(|error| error)),
                };
                PIRN_COMPONENT_RESULT
            }
            Value::Flags(names) => {
                let names = names.into_iter().map(|name| self.name(name));
                let names: Vec<_> = names.collect();
                let (first, count) = (names.as_ptr(), names.len());
                of.flags = pirn_component_flags_t {
                    names: first,
                    count,
                };
                self.names.push(names);
                PIRN_COMPONENT_FLAGS
            }
            // `value` has made the other kinds.
            simple => return self.value(simple),
        };
        pirn_component_value_t { kind, of }
    }

    /// The values for C, as [`value`](Self::value).
    pub(crate) fn list(&mut self, values: Vec<Value>) -> pirn_component_list_t {
        let made = values.into_iter().map(|value| self.value(value));
        let made: Vec<_> = made.collect();
        let list = pirn_component_list_t {
            values: made.as_ptr(),
            count: made.len(),
        };
        self.values.push(made);
        list
    }

    fn record(&mut self, fields: Vec<(String, Value)>) -> pirn_component_record_t {
        let fields = fields.into_iter();
        let made = fields.map(|(name, value)| pirn_component_field_t {
            name: self.name(name),
            value: self.value(value),
        });
        let made: Vec<_> = made.collect();
        let record = pirn_component_record_t {
            fields: made.as_ptr(),
            count: made.len(),
        };
        self.fields.push(made);
        record
    }

    fn payload(&mut self, payload: Option<Box<Value>>) -> *const pirn_component_value_t {
        payload.map_or(ptr::null(), |payload| self.list(vec![*payload]).values)
    }

    /// A text with a zero byte after it.
    fn text(&mut self, text: String) -> *const c_char {
        let mut bytes = text.into_bytes();
        bytes.push(0);
        let first = bytes.as_ptr().cast();
        self.texts.push(bytes);
        first
    }

    /// A name as a C string. Names of the component model contain no zero byte.
    fn name(&mut self, name: String) -> *const c_char {
        self.text(name)
    }
}

/// The value. NULL for NULL.
///
/// # Safety
///
/// `owned` is a live handle or NULL. The returned value, with its lists and texts, is valid until
/// `owned` is deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_owned_value(
    owned: *const pirn_component_owned_t,
) -> *const pirn_component_value_t {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `owned`, valid during
    // this call.
    unsafe { entry::read(owned, ptr::null(), |owned| &raw const owned.root) }
}

/// Frees a value, with its lists and texts. The resources in the value stay: end a resource of the
/// component by pirn_component_instance_drop_resource.
///
/// # Safety
///
/// `owned` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_owned_delete(owned: *mut pirn_component_owned_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `owned`, and does not
    // use it again.
    unsafe { entry::delete(owned) };
}
