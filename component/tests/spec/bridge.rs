//! Imports of a component from another instance of the script, which the host forwards.

use crate::host::Host;
use pirn_component::{Instance, LinkError, Linker, Prepared, Resource, Value};
use pirn_runtime::HostError;
use std::sync::{Arc, Mutex};

/// An instance of a component, and its functions.
pub(crate) struct Guest {
    pub(crate) prepared: Prepared<Host>,
    pub(crate) instance: Mutex<Instance<Host>>,
    /// Resources of this instance that others use by their position.
    lent: Mutex<Vec<Resource>>,
}

impl Guest {
    pub(crate) fn new(prepared: Prepared<Host>, instance: Instance<Host>) -> Self {
        Self {
            prepared,
            instance: Mutex::new(instance),
            lent: Mutex::new(vec![]),
        }
    }

    /// Calls a function by its name. An error is its message.
    pub(crate) fn call(&self, name: &str, params: &[Value]) -> Result<Option<Value>, String> {
        let func = self.prepared.func(name).map_err(message)?;
        // A guest that calls itself through another one is refused.
        let mut instance = self.instance.try_lock().map_err(message)?;
        instance.call(&func, params).map_err(message)
    }

    /// A value of this instance for another one, whose resources are positions in `lent`.
    fn given(&self, value: Value) -> Value {
        each_resource(value, &mut |resource| {
            let mut lent = self.lent.lock().expect("no thread panicked");
            lent.push(resource);
            Resource::host(lent.len() as u32 - 1)
        })
    }

    /// A value of another instance for this one.
    fn taken(&self, value: Value) -> Value {
        each_resource(value, &mut |resource| {
            let lent = self.lent.lock().expect("no thread panicked");
            lent.get(resource.rep() as usize)
                .copied()
                .unwrap_or(resource)
        })
    }

    fn drop_resource(&self, resource: Resource) -> Result<(), String> {
        let lent = self.lent.lock().expect("no thread panicked");
        let resource = lent.get(resource.rep() as usize).copied();
        let resource = resource.ok_or("no such resource")?;
        let mut instance = self.instance.try_lock().map_err(message)?;
        instance.drop_resource(resource).map_err(message)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "map_err passes it by value")]
pub(crate) fn message(error: impl ToString) -> String {
    error.to_string()
}

/// Defines the functions and resource types that a component imports from an instance.
pub(crate) fn define(
    linker: &mut Linker<Host>,
    name: &str,
    guest: &Arc<Guest>,
    component: &pirn_component::Component,
) -> Result<(), LinkError> {
    let prefix = format!("{name}#");
    let own = |path: &str| path.strip_prefix(&prefix).map(str::to_owned);
    for (path, _) in component.imports() {
        let (Some(export), Some((interface, func))) = (own(&path), path.rsplit_once('#')) else {
            continue;
        };
        if guest.prepared.func(&export).is_err() {
            continue;
        }
        let guest = Arc::clone(guest);
        linker.func_values(interface, func, move |_, params| {
            let params: Vec<Value> = params.into_iter().map(|value| guest.taken(value)).collect();
            let result = guest.call(&export, &params).map_err(HostError::message)?;
            Ok(result.map(|value| guest.given(value)))
        })?;
    }
    let compiled = component.module().component();
    for path in compiled.into_iter().flat_map(|all| &all.imported_resources) {
        let path = path.join("#");
        if let (Some(_), Some((interface, ty))) = (own(&path), path.rsplit_once('#')) {
            let guest = Arc::clone(guest);
            linker.resource(interface, ty, move |_, resource| {
                guest.drop_resource(resource).map_err(HostError::message)
            })?;
        }
    }
    Ok(())
}

/// The value with other resources.
fn each_resource(value: Value, change: &mut dyn FnMut(Resource) -> Resource) -> Value {
    let mut boxed =
        |value: Option<Box<Value>>| value.map(|value| Box::new(each_resource(*value, change)));
    match value {
        Value::Variant(case, payload) => Value::Variant(case, boxed(payload)),
        Value::Option(some) => Value::Option(boxed(some)),
        Value::Result(Ok(value)) => Value::Result(Ok(boxed(value))),
        Value::Result(Err(value)) => Value::Result(Err(boxed(value))),
        Value::List(values) => Value::List(
            values
                .into_iter()
                .map(|value| each_resource(value, change))
                .collect(),
        ),
        Value::Tuple(values) => Value::Tuple(
            values
                .into_iter()
                .map(|value| each_resource(value, change))
                .collect(),
        ),
        Value::Record(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| (name, each_resource(value, change)));
            Value::Record(fields.collect())
        }
        Value::Own(resource) => Value::Own(change(resource)),
        Value::Borrow(resource) => Value::Borrow(change(resource)),
        other => other,
    }
}
