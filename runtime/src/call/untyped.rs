//! Calls with untyped values: for shells, tests, and hosts that learn types at run time.

use super::enter::run;
use super::parameters::prepare;
use super::untyped_func::Wanted;
use crate::error::CallError;
use crate::store::member::Member;
use crate::value::Value;

/// Calls a function of member `at`.
pub(crate) fn call<T>(
    members: &mut [Member<T>],
    at: usize,
    wanted: Wanted<'_>,
    params: &[Value],
    data: &mut T,
) -> Result<Vec<Value>, CallError> {
    let prepared = prepare(members, at, wanted, params)?;
    let count = prepared.count();
    prepared.store(members[at].cells(count));
    run(members, at, prepared.target, count, data)?;
    Ok(prepared.results(members[at].cells(count)))
}
