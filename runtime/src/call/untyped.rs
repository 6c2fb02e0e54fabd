//! Calls by name with untyped values: for shells, tests, and hosts that learn types at run time.

use super::enter::run;
use super::errors::foreign;
use super::exception;
use crate::error::CallError;
use crate::module::types;
use crate::store::member::{Member, Target};
use crate::value::{Cell, FuncType, ValType, Value};
use pirn_format::types::CompositeType;

/// Calls the exported function `name` of member `at`.
pub(crate) fn call<T>(
    members: &mut [Member<T>],
    at: usize,
    name: &str,
    params: &[Value],
    data: &mut T,
) -> Result<Vec<Value>, CallError> {
    let (target, ty) = find(&members[at], name)?;
    count_of(name, &ty, params)?;
    let count = ty.params.len().max(ty.results.len());
    let instance_id = members[at].instance_id(true);
    for (position, (value, ty)) in params.iter().zip(&ty.params).enumerate() {
        let cell = Cell::from_value(*value, instance_id).map_err(foreign)?;
        let member = &mut members[at];
        check(member, name, position, *value, *ty)?;
        if !exception::is_kept(members, *value, instance_id) {
            return Err(CallError::Invalid(format!(
                "function {name:?} takes an exception as value {position}, which the instance does not \
                 keep any more; have the guest keep what is to be given back"
            )));
        }
        let member = &mut members[at];
        member.cells(count)[position] = cell;
    }
    run(members, at, target, count, data)?;
    let cells = members[at].cells(count).iter().zip(&ty.results);
    Ok(cells
        .map(|(cell, ty)| cell.value(*ty, instance_id))
        .collect())
}

/// The exported function `name`, and its type.
fn find<T>(member: &Member<T>, name: &str) -> Result<(Target, FuncType), CallError> {
    let metadata = member.inner.module.metadata();
    let index = member
        .exported_func(name)
        .ok_or_else(|| CallError::Invalid(format!("module has no exported function {name:?}")))?;
    let target = member
        .target(index)
        .ok_or_else(|| CallError::Invalid(format!("exported function {name:?} has no entry")))?;
    let ty = metadata.func_type(metadata.funcs[index as usize]);
    Ok((target, ty.clone()))
}

/// Checks the number of the parameters.
fn count_of(name: &str, ty: &FuncType, params: &[Value]) -> Result<(), CallError> {
    if params.len() != ty.params.len() {
        let (found, wanted) = (params.len(), ty.params.len());
        return Err(CallError::Invalid(format!(
            "function {name:?} of type {ty} takes {wanted} values, {found} were given"
        )));
    }
    Ok(())
}

/// Checks the type of a parameter.
fn check<T>(
    member: &mut Member<T>,
    name: &str,
    position: usize,
    value: Value,
    wanted: ValType,
) -> Result<(), CallError> {
    let found = match (value, wanted.type_index()) {
        (Value::FuncRef(Some(_)) | Value::AnyRef(Some(_)), Some(index)) => {
            let found = member.type_of(value);
            let module = &member.inner.module;
            let id = module.type_ids()[index as usize];
            if found.is_some_and(|found| types::is_subtype(found, id)) {
                return Ok(());
            }
            let ty = &module.metadata().types[index as usize].composite;
            match ty {
                CompositeType::Func(_) => format!("a function of another type than {ty}"),
                _ => format!("{} of another type than {ty}", value.described()),
            }
        }
        _ if value.fits(wanted) => return Ok(()),
        _ => value.described(),
    };
    Err(CallError::Invalid(format!(
        "function {name:?} takes {wanted} as value {position}, {found} was given"
    )))
}
