//! Helpers to link methods of sockets. The guest gets errors of these methods as codes.

use super::types::{ErrorCode, Failure, answer};
use crate::methods;
use crate::table::Resource;
use crate::wasi::View;
use pirn_component::{LinkError, Linker, ResourceType, Typed};

/// Adds a method without parameters.
pub(super) fn getter<T: View, R: Resource + ResourceType, O: Typed>(
    linker: &mut Linker<T>,
    name: &str,
    get: impl Fn(&mut R) -> Result<O, Failure> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    methods::getter(linker, name, move |resource| answer(get(resource)))
}

/// Adds a method with one parameter.
pub(super) fn method<T: View, R: Resource + ResourceType, P: Typed, O: Typed>(
    linker: &mut Linker<T>,
    name: &str,
    call: impl Fn(&mut R, P) -> Result<O, ErrorCode> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    methods::method(linker, name, move |resource, value| {
        Ok(call(resource, value))
    })
}
