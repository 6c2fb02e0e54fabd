//! Calls with untyped values: for shells, tests, and hosts that learn types at run time.

use super::enter::Invocation;
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
    let invocation = Invocation {
        members: &mut *members,
        root: at,
        target: prepared.target,
        cells: count,
        data,
    };
    invocation.run()?;
    Ok(prepared.results(members[at].cells(count)))
}
