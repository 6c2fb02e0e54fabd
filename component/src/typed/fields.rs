//! The fields of records and tuples. The code that `#[derive(Typed)]` generates calls the public
//! functions of this module.

use crate::component::Info;
use crate::lift::aligned;
use pirn_format::component::{DefinedType, ValueType};

/// Whether a type is a record with these fields, in this order. `is` checks the type of a field: it
/// gets the number of the field and the type.
pub fn is_record(
    info: &Info,
    ty: ValueType,
    names: &[&str],
    is: impl Fn(usize, ValueType) -> bool,
) -> bool {
    let ValueType::Defined(index) = ty else {
        return false;
    };
    let DefinedType::Record(fields) = info.defined(index) else {
        return false;
    };
    let mut all = fields.iter().zip(names).enumerate();
    fields.len() == names.len() && all.all(|(at, ((found, ty), name))| found == name && is(at, *ty))
}

/// Whether a type is a tuple or a record with this number of fields.
pub(super) fn has_fields(info: &Info, ty: ValueType, len: usize) -> bool {
    let ValueType::Defined(index) = ty else {
        return false;
    };
    match info.defined(index) {
        DefinedType::Tuple(types) => types.len() == len,
        DefinedType::Record(fields) => fields.len() == len,
        _ => false,
    }
}

/// The type of a field of a tuple or record.
#[must_use]
pub fn field(info: &Info, ty: ValueType, at: usize) -> ValueType {
    let ValueType::Defined(index) = ty else {
        return ty;
    };
    let found = match info.defined(index) {
        DefinedType::Tuple(types) => types.get(at).copied(),
        DefinedType::Record(fields) => fields.get(at).map(|(_, ty)| *ty),
        _ => None,
    };
    // Linking has compared the types, so the field exists.
    found.unwrap_or(ValueType::Bool)
}

/// Computes the addresses of the fields of a record, one after another.
#[derive(Debug, Clone, Copy)]
pub struct Place(u32);

impl Place {
    /// Starts at the address of the record.
    #[must_use]
    pub fn new(at: u32) -> Self {
        Self(at)
    }

    /// The address of the next field. `ty` is the type of this field.
    pub fn next(&mut self, info: &Info, ty: ValueType) -> u32 {
        let layout = info.layout(ty);
        let at = aligned(self.0, layout.align);
        self.0 = at.saturating_add(layout.bytes);
        at
    }
}
