//! [`Linker`]: the functions and resource types that components can import from the host.

use crate::adapter::{self, HostFunc};
use crate::component::Component;
use crate::error::LinkError;
use crate::func::{params_in_memory, result_in_memory};
use crate::host_bytes::{AccountOf, HOST_BYTES_MAX, HostBytes};
use crate::host_func::{Destructor, HostFuture};
use crate::host_values::{OfTypes, Untyped};
use crate::names::Versioned;
use crate::prepared::Prepared;
use crate::state::State;
use crate::typed::{Param, TypedParams};
use crate::value::{Resource, Value};
use pirn_format::component::Adapter;
use pirn_format::text;
use pirn_runtime::{ExternType, HostError, Region};
use std::collections::HashMap;
use std::sync::Arc;

/// The functions and resource types that components can import from the host.
///
/// Interfaces and functions have their names in WIT: `wasi:io/streams@0.2.0` for an interface,
/// `[method]output-stream.write` for a function in it. The name of a nested instance contains both
/// names: `outer#inner`.
///
/// An import also matches a definition of a compatible version: the same major version, or below
/// 1.0 the same minor version. Versions 0.0.x and pre-releases are compatible only with themselves.
/// An equal version is preferred, then the newest compatible version.
pub struct Linker<T> {
    funcs: ByName<Arc<HostFunc<T>>>,
    resources: ByName<Destructor<T>>,
    host_bytes_max: usize,
    account: Option<AccountOf<T>>,
}

impl<T: Send + 'static> Linker<T> {
    /// A linker without definitions.
    #[must_use]
    pub fn new() -> Self {
        Self {
            funcs: HashMap::new(),
            resources: HashMap::new(),
            host_bytes_max: HOST_BYTES_MAX,
            account: None,
        }
    }

    /// Limits the memory that the host keeps for one guest. The default is 128 MiB.
    ///
    /// The limit covers: values that the host reads from the guest, for the length of the call;
    /// results of host functions, until the guest has them; the tables of handles; and the bytes
    /// that host functions, such as WASI functions, count with [`State::host_bytes`]. As a
    /// [`Value`], a list of bytes takes 32 bytes for each element.
    pub fn host_bytes_max(&mut self, bytes: usize) -> &mut Self {
        self.host_bytes_max = bytes;
        self
    }

    /// Counts the host's memory for a guest with the [`HostBytes`] in the guest's data. So the host
    /// can count memory for the guest before the instance exists. The limit becomes
    /// [`host_bytes_max`](Self::host_bytes_max). By default the instance makes a counter.
    pub fn host_bytes_of(&mut self, account: fn(&mut T) -> &HostBytes) -> &mut Self {
        self.account = Some(account);
        self
    }

    /// Adds a function with Rust types. Use an empty `interface` for a function that the component
    /// imports outside an interface. [`prepare`](Self::prepare) compares the types with the import.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the linker already defines this name.
    pub fn func<P: TypedParams, R: Param + 'static>(
        &mut self,
        interface: &str,
        name: &str,
        func: impl Fn(&mut State<T>, P) -> Result<R, HostError> + Send + Sync + 'static,
    ) -> Result<&mut Self, LinkError> {
        self.define(interface, name, HostFunc::sync::<OfTypes<P, R>>(func))
    }

    /// Adds an asynchronous function with Rust types. Call the component by
    /// [`Instance::call_async`](crate::Instance::call_async).
    ///
    /// # Errors
    ///
    /// As [`func`](Self::func).
    pub fn func_async<P: TypedParams, R: Param + 'static, F>(
        &mut self,
        interface: &str,
        name: &str,
        func: F,
    ) -> Result<&mut Self, LinkError>
    where
        F: for<'a> Fn(&'a mut State<T>, P) -> HostFuture<'a, R> + Send + Sync + 'static,
    {
        self.define(interface, name, HostFunc::future::<OfTypes<P, R>, _>(func))
    }

    /// Adds a function over dynamic values. The function matches an import of any function type.
    ///
    /// # Errors
    ///
    /// As [`func`](Self::func).
    pub fn func_values<F>(
        &mut self,
        interface: &str,
        name: &str,
        func: F,
    ) -> Result<&mut Self, LinkError>
    where
        F: Fn(&mut State<T>, Vec<Value>) -> Result<Option<Value>, HostError>
            + Send
            + Sync
            + 'static,
    {
        self.define(interface, name, HostFunc::sync::<Untyped>(func))
    }

    /// Adds an asynchronous function over dynamic values. Call the component by
    /// [`Instance::call_async`](crate::Instance::call_async).
    ///
    /// # Errors
    ///
    /// As [`func`](Self::func).
    pub fn func_values_async<F>(
        &mut self,
        interface: &str,
        name: &str,
        func: F,
    ) -> Result<&mut Self, LinkError>
    where
        F: for<'a> Fn(&'a mut State<T>, Vec<Value>) -> HostFuture<'a, Option<Value>>
            + Send
            + Sync
            + 'static,
    {
        self.define(interface, name, HostFunc::future::<Untyped, _>(func))
    }

    fn define(
        &mut self,
        interface: &str,
        name: &str,
        func: HostFunc<T>,
    ) -> Result<&mut Self, LinkError> {
        insert(&mut self.funcs, interface, name, Arc::new(func))?;
        Ok(self)
    }

    /// Adds a resource type. `destructor` runs when a guest drops an owned handle of this type.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the linker already defines this name.
    pub fn resource<F>(
        &mut self,
        interface: &str,
        name: &str,
        destructor: F,
    ) -> Result<&mut Self, LinkError>
    where
        F: Fn(&mut State<T>, Resource) -> Result<(), HostError> + Send + Sync + 'static,
    {
        insert(&mut self.resources, interface, name, Arc::new(destructor))?;
        Ok(self)
    }

    /// Prepares instances of a component in a region: looks up all its imports.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if an import is missing, or if the component does not fit into a slot.
    pub fn prepare(
        &self,
        region: &Region,
        component: &Component,
    ) -> Result<Prepared<T>, LinkError> {
        let info = component.info();
        let mut core = pirn_runtime::Linker::<State<T>>::new();
        let mut destructors = vec![];
        for path in &info.component.imported_resources {
            let found = find(&self.resources, path);
            let found = found.ok_or_else(|| LinkError::MissingResource { path: shown(path) })?;
            destructors.push(Arc::clone(found));
        }
        let imports = component.module().imports();
        for ((module, name, ty), adapter) in imports.zip(&info.component.adapters) {
            let ExternType::Func(ty) = ty else { continue };
            let place = adapter::Place { module, name, ty };
            match adapter {
                Adapter::Lower {
                    import,
                    ty,
                    options,
                } => {
                    let path = &info.component.imports[*import as usize].path;
                    let func = find(&self.funcs, path)
                        .ok_or_else(|| LinkError::MissingFunc { path: shown(path) })?;
                    let of = &info.component.funcs[*ty as usize];
                    (func.check)(info, of).map_err(|wanted| LinkError::FuncType {
                        name: shown(path),
                        found: info.component.describe_func(of),
                        wanted,
                    })?;
                    let lowered = adapter::Lowered {
                        info: Arc::clone(info),
                        name: shown(path),
                        ty: *ty,
                        options: *options,
                        params_in_memory: params_in_memory(info, *ty),
                        result_in_memory: result_in_memory(info, *ty),
                    };
                    (func.lower)(&mut core, place, lowered)?;
                }
                other => {
                    adapter::intrinsic(&mut core, place, *other, info, &destructors)?;
                }
            }
        }
        Prepared::new(region, component, &core, self.host_bytes_max, self.account)
    }
}

impl<T: Send + 'static> Default for Linker<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Definitions by interface and name.
type ByName<D> = HashMap<String, HashMap<String, D>>;

/// Adds a definition.
///
/// # Errors
///
/// [`LinkError::Duplicate`] if the name is already defined.
fn insert<D>(
    all: &mut ByName<D>,
    interface: &str,
    name: &str,
    definition: D,
) -> Result<(), LinkError> {
    let names = all.entry(interface.to_owned()).or_default();
    if names.contains_key(name) {
        return Err(LinkError::Duplicate(format!("{interface}#{name}")));
    }
    names.insert(name.to_owned(), definition);
    Ok(())
}

/// The definition with these names, or else the newest definition of a compatible version.
fn find<'a, D>(all: &'a ByName<D>, path: &[String]) -> Option<&'a D> {
    let (name, interface) = path.split_last()?;
    let interface = &interface.join("#")[..];
    if let Some(found) = all.get(interface).and_then(|names| names.get(name)) {
        return Some(found);
    }
    let wanted = Versioned::parse(interface)?;
    let compatible = all.iter().filter_map(|(interface, names)| {
        let found = Versioned::parse(interface)?;
        let fits = found.is_compatible(&wanted);
        fits.then_some((found.version, names.get(name)?))
    });
    let newest = compatible.max_by(|(one, _), (other, _)| one.cmp(other));
    newest.map(|(_, found)| found)
}

/// The names of an import, for messages of one line. A name may contain control characters, because
/// a component may import a URL.
fn shown(path: &[String]) -> String {
    text::plain(&path.join("#")).to_string()
}
