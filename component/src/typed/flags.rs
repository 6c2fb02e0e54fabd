//! Flags, as bits. The code that `#[derive(Typed)]` generates calls the public functions of this
//! module.

use crate::component::Info;
use crate::error::AbiError;
use crate::lift::Lift;
use crate::lower::Lower;
use pirn_format::component::{DefinedType, ValueType};

/// Whether a type is flags with these names, in this order.
#[must_use]
pub fn is(info: &Info, ty: ValueType, names: &[&str]) -> bool {
    let ValueType::Defined(index) = ty else {
        return false;
    };
    matches!(info.defined(index), DefinedType::Flags(found) if found == names)
}

/// Writes flags to memory.
///
/// # Errors
///
/// [`AbiError`] if the flags exceed the memory.
pub fn store(cx: &mut Lower<'_>, ty: ValueType, bits: u32, at: u32) -> Result<(), AbiError> {
    let bytes = cx.info().layout(ty).bytes as usize;
    cx.write(at, &bits.to_le_bytes()[..bytes])
}

/// Reads flags from memory.
///
/// # Errors
///
/// [`AbiError`] if the flags exceed the memory.
pub fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> Result<u32, AbiError> {
    let bytes = cx.info().layout(ty).bytes;
    cx.unsigned(at, bytes)
}
