//! Helpers to link methods of resources, for all interfaces.

use crate::io::IoError;
use crate::poll::subscribe;
use crate::table::Resource;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, ResourceType, Typed};
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

/// Adds a method without parameters.
pub(crate) fn getter<T: View, R: Resource + ResourceType, O: Typed>(
    linker: &mut Linker<T>,
    name: &str,
    get: impl Fn(&mut R) -> Result<O, HostError> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    let name = name_of::<R>(name);
    linker.func(R::INTERFACE, &name, move |state, (this,): (Borrow<R>,)| {
        get(state.data_mut().wasi().table.get(this.rep())?)
    })?;
    Ok(())
}

/// Adds a method with one parameter.
pub(crate) fn method<T: View, R: Resource + ResourceType, P: Typed, O: Typed>(
    linker: &mut Linker<T>,
    name: &str,
    call: impl Fn(&mut R, P) -> Result<O, HostError> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    let name = name_of::<R>(name);
    type Params<R, P> = (Borrow<R>, P);
    linker.func(
        R::INTERFACE,
        &name,
        move |state, (this, value): Params<R, P>| {
            call(state.data_mut().wasi().table.get(this.rep())?, value)
        },
    )?;
    Ok(())
}

/// Adds a method without parameters that uses the guest's whole [`Wasi`]. The method gets the
/// number of the resource.
pub(crate) fn with_wasi<T: View, R: ResourceType, O: Typed>(
    linker: &mut Linker<T>,
    name: &str,
    call: impl Fn(&mut Wasi, u32) -> Result<O, HostError> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    let name = name_of::<R>(name);
    linker.func(R::INTERFACE, &name, move |state, (this,): (Borrow<R>,)| {
        call(state.data_mut().wasi(), this.rep())
    })?;
    Ok(())
}

/// Adds the method `subscribe`: a pollable that is ready when the resource is.
pub(crate) fn pollable<T: View, R: ResourceType>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    with_wasi::<T, R, _>(linker, "subscribe", |wasi, this| {
        subscribe(&mut wasi.table, this)
    })
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
