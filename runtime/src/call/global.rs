//! Globals that the host sets.
//!
//! # Safety
//!
//! This file owns one fact. The host changes only mutable globals, to values of their types, while
//! no guest of the instance or its group runs or is suspended.
#![allow(unsafe_code)]

use super::given;
use crate::error::SetGlobalError;
use crate::store::member::Member;
use crate::value::Value;
use pirn_format::metadata::ExportItem;

/// Sets the exported global `name` of member `at`. No call of the members may be suspended.
///
/// # Errors
///
/// All variants of [`SetGlobalError`] but `State`. Nothing has changed then.
pub(crate) fn set<T>(
    members: &mut [Member<T>],
    at: usize,
    name: &str,
    value: Value,
) -> Result<(), SetGlobalError> {
    let member = &members[at];
    let module = &member.inner.module;
    let Some(ExportItem::Global(index)) = module.metadata().export(name) else {
        return Err(SetGlobalError::NoExport {
            name: name.to_owned(),
            found: module.listed_exports(),
        });
    };
    let ty = module.metadata().globals[index as usize];
    if !ty.mutable {
        return Err(SetGlobalError::Immutable {
            name: name.to_owned(),
            ty: ty.content,
        });
    }
    let cell = given::cell(members, at, value, ty.content);
    let cell = cell.map_err(|error| SetGlobalError::Value {
        name: name.to_owned(),
        error,
    })?;
    // SAFETY: the cell belongs to a mutable global of an initialised instance, or to the global's
    // owner, which is a member. `given::cell` checked the type. The members are borrowed mutably,
    // so no guest runs and nothing else reads the global.
    unsafe { members[at].global_cell(index).write(cell) };
    Ok(())
}
