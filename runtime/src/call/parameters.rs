//! [`PreparedCall`]: a function, and untyped values that are checked against the function's type.

use super::errors::foreign;
use super::untyped_func::{Func, Wanted};
use super::{exception, given};
use crate::error::{CallError, InvalidCall};
use crate::store::member::{Member, Target};
use crate::value::{Cell, FuncType, InstanceId, ValType, Value};
use smallvec::SmallVec;

/// A function and its parameters, checked against the function's type.
pub(super) struct PreparedCall {
    pub(super) target: Target,
    ty: FuncType,
    params: SmallVec<[Cell; 8]>,
    instance_id: InstanceId,
}

impl PreparedCall {
    /// Number of cells for the call: the larger of the numbers of parameters and of results.
    pub(super) fn count(&self) -> usize {
        self.ty.params.len().max(self.ty.results.len())
    }

    /// Writes the parameters to the first cells.
    pub(super) fn store(&self, cells: &mut [Cell]) {
        cells[..self.params.len()].copy_from_slice(&self.params);
    }

    /// Reads the results from the first cells.
    pub(super) fn results(&self, cells: &[Cell]) -> Vec<Value> {
        let results = cells.iter().zip(&self.ty.results);
        let read = |(cell, ty): (&Cell, &ValType)| cell.value(*ty, self.instance_id);
        results.map(read).collect()
    }
}

/// Looks up a function of member `at`, and checks the values of the function's parameters. A
/// reference may refer to a function of another member.
///
/// # Errors
///
/// [`CallError::Invalid`].
pub(super) fn prepare<T>(
    members: &[Member<T>],
    at: usize,
    wanted: Wanted<'_>,
    params: &[Value],
) -> Result<PreparedCall, CallError> {
    match wanted {
        Wanted::Export(name) => {
            let index = exported(&members[at], name)?;
            prepare_index(members, at, (index, name), params)
        }
        Wanted::Func(func) if func.prepared() == members[at].inner.id => {
            prepare_index(members, at, func.index(), params)
        }
        Wanted::Func(_) => Err(looked_up_elsewhere()),
        Wanted::Reference(reference) => {
            let (at, func) = Func::referred(members, reference)?;
            prepare_index(members, at, func.index(), params)
        }
    }
}

/// [`prepare`] for the function of member `at` with this index and this name.
fn prepare_index<T>(
    members: &[Member<T>],
    at: usize,
    (index, name): (u32, &str),
    params: &[Value],
) -> Result<PreparedCall, CallError> {
    let member = &members[at];
    let metadata = member.inner.module.metadata();
    let target = member.target(index);
    let target = target.ok_or_else(|| InvalidCall::NoEntry {
        name: name.to_owned(),
    })?;
    let ty = metadata.func_type(metadata.funcs[index as usize]);
    count_of(name, ty, params)?;
    let instance_id = member.instance_id(true);
    let mut stored = SmallVec::new();
    for (position, (value, ty)) in params.iter().zip(&ty.params).enumerate() {
        let cell = Cell::from_value(*value, instance_id).map_err(foreign)?;
        check(member, name, position, *value, *ty)?;
        if !exception::is_kept(members, *value, instance_id) {
            let name = name.to_owned();
            return Err(InvalidCall::ExceptionNotKept { name, position }.into());
        }
        stored.push(cell);
    }
    Ok(PreparedCall {
        target,
        ty: ty.clone(),
        params: stored,
        instance_id,
    })
}

/// The error for a function of another preparation than the instance's.
#[cold]
pub(crate) fn looked_up_elsewhere() -> CallError {
    InvalidCall::OtherPreparation.into()
}

/// The index of the exported function `name`.
fn exported<T>(member: &Member<T>, name: &str) -> Result<u32, CallError> {
    let index = member.exported_func(name);
    index.ok_or_else(|| {
        let (name, found) = (name.to_owned(), member.inner.module.listed_exports());
        InvalidCall::NoExport { name, found }.into()
    })
}

/// Checks the number of the parameters.
fn count_of(name: &str, ty: &FuncType, params: &[Value]) -> Result<(), CallError> {
    if params.len() != ty.params.len() {
        return Err(CallError::from(InvalidCall::Count {
            name: name.to_owned(),
            ty: ty.clone(),
            wanted: ty.params.len(),
            found: params.len(),
        }));
    }
    Ok(())
}

/// Checks the type of a parameter.
fn check<T>(
    member: &Member<T>,
    name: &str,
    position: usize,
    value: Value,
    wanted: ValType,
) -> Result<(), CallError> {
    if given::has_type(member, value, wanted) {
        return Ok(());
    }
    Err(CallError::from(InvalidCall::Type {
        name: name.to_owned(),
        position,
        wanted,
        found: given::described(member, value, wanted),
    }))
}
