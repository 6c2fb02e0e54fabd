//! What the scripts import from their host: functions and two resource types, in the root and in
//! the instance `host`.

use pirn_component::{Linker, Resource, Value};
use pirn_runtime::HostError;

/// What the host counts for an instance.
#[derive(Debug, Default)]
pub(crate) struct Host {
    drops: u32,
    last_drop: Option<u32>,
}

/// A linker with all definitions.
pub(crate) fn linker() -> Linker<Host> {
    let mut linker = Linker::new();
    define(&mut linker).expect("no name is defined twice");
    linker
}

fn define(linker: &mut Linker<Host>) -> Result<(), pirn_component::LinkError> {
    linker.func_values("", "host-return-two", |_, _| Ok(Some(Value::U32(2))))?;
    linker.func_values("", "host-echo-u32", |_, mut params| Ok(params.pop()))?;
    linker.func_values("host", "return-three", |_, _| Ok(Some(Value::U32(3))))?;
    linker.func_values("host#nested", "return-four", |_, _| Ok(Some(Value::U32(4))))?;
    for name in ["resource1", "resource1-again"] {
        linker.resource("host", name, |state, resource| {
            let host = state.data_mut();
            host.drops += 1;
            host.last_drop = Some(resource.rep());
            Ok(())
        })?;
    }
    linker.resource("host", "resource2", |_, _| Ok(()))?;
    linker.func_values("host", "[constructor]resource1", |_, params| {
        match params[..] {
            [Value::U32(rep)] => Ok(Some(Value::Own(Resource::host(rep)))),
            _ => Err(HostError::message("another number was expected")),
        }
    })?;
    linker.func_values("host", "[static]resource1.assert", |_, params| {
        same(params.first(), params.get(1))?;
        Ok(None)
    })?;
    linker.func_values("host", "[static]resource1.last-drop", |state, _| {
        let last = state.data_mut().last_drop;
        last.map(|last| Some(Value::U32(last)))
            .ok_or_else(|| HostError::message("nothing was dropped"))
    })?;
    linker.func_values("host", "[static]resource1.drops", |state, _| {
        Ok(Some(Value::U32(state.data_mut().drops)))
    })?;
    linker.func_values("host", "[method]resource1.simple", |_, params| {
        same(params.first(), params.get(1))?;
        Ok(None)
    })?;
    linker.func_values("host", "[method]resource1.take-borrow", |_, _| Ok(None))?;
    linker.func_values("host", "[method]resource1.take-own", |_, _| Ok(None))?;
    Ok(())
}

/// Checks that a handle is to the resource with a number.
fn same(handle: Option<&Value>, number: Option<&Value>) -> Result<(), HostError> {
    match (handle, number) {
        (Some(Value::Own(found) | Value::Borrow(found)), Some(Value::U32(wanted)))
            if found.rep() == *wanted =>
        {
            Ok(())
        }
        _ => Err(HostError::message(format!("{handle:?} is not {number:?}"))),
    }
}
