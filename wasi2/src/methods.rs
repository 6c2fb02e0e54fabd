//! Helpers to link methods of resources, for all interfaces.

use crate::io::IoError;
use crate::poll::subscribe;
use crate::table::Resource;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, ResourceType, State, Typed};
use pirn_runtime::HostError;

/// Adds a resource type. The table drops a resource when the guest drops its owned handle.
pub(crate) fn resource<T: View, R: ResourceType>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.resource(R::INTERFACE, R::NAME, |state, resource| {
        let table = &mut state.data_mut().wasi().table;
        table.remove(resource.rep()).map(drop)
    })?;
    Ok(())
}

/// The name of a method in an interface.
pub(crate) fn name_of<R: ResourceType>(name: &str) -> String {
    format!("[method]{}.{name}", R::NAME)
}

/// Adds methods of a resource type: for each, a name, the parameters, and a closure. The function
/// `with` calls the closure.
macro_rules! methods {
    (
        $linker:ident, $resource:ty, $with:path;
        $($name:tt($($param:ident: $ty:ty),*) => $call:expr;)*
    ) => {$(
        $linker.func(
            <$resource as pirn_component::ResourceType>::INTERFACE,
            &$crate::methods::name_of::<$resource>(&$name),
            move |state, (this, $($param,)*): (pirn_component::Borrow<$resource>, $($ty,)*)| {
                $with(state, &this, $call)
            },
        )?;
    )*};
}

pub(crate) use methods;

/// Calls a method of the resource itself.
pub(crate) fn itself<T: View, R: Resource, O>(
    state: &mut State<T>,
    this: &Borrow<R>,
    call: impl FnOnce(&mut R) -> Result<O, HostError>,
) -> Result<O, HostError> {
    call(state.data_mut().wasi().table.get(this.rep())?)
}

/// Calls a method that uses the guest's whole [`Wasi`] and gets the number of the resource.
pub(crate) fn with_wasi<T: View, R, O>(
    state: &mut State<T>,
    this: &Borrow<R>,
    call: impl FnOnce(&mut Wasi, u32) -> Result<O, HostError>,
) -> Result<O, HostError> {
    call(state.data_mut().wasi(), this.rep())
}

/// Adds the method `subscribe`: a pollable that is ready when the resource is.
pub(crate) fn pollable<T: View, R: ResourceType>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, R, with_wasi;
        "subscribe"() => |wasi, this| subscribe(&mut wasi.table, this);
    }
    Ok(())
}

/// Adds a function that returns the code of an interface for the error of a stream. The function
/// returns `none` if the error belongs to another interface.
pub(crate) fn code_of_error<T: View, O: Typed>(
    linker: &mut Linker<T>,
    interface: &str,
    name: &str,
    code: fn(&IoError) -> Option<O>,
) -> Result<(), LinkError> {
    linker.func(
        interface,
        name,
        move |state, (error,): (Borrow<IoError>,)| {
            let error: &mut IoError = state.data_mut().wasi().table.get(error.rep())?;
            Ok(code(error))
        },
    )?;
    Ok(())
}
