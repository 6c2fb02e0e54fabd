//! [`Linker`]: what the host offers to guests, by module and name.

use super::func::{HostFunc, IntoFunc};
use super::{Caller, HostError};
use crate::error::LinkError;
use crate::value::{FuncType, Value};
use core::fmt;
use std::collections::HashMap;
use std::sync::Arc;

/// What the host offers to guests, by module and name: functions, and immutable globals.
///
/// `T` is the host's data that every instance carries; host functions reach it through [`Caller`].
pub struct Linker<T> {
    items: HashMap<String, HashMap<String, Item<T>>>,
}

/// One thing that a guest can import from the host.
pub(crate) enum Item<T> {
    /// A function.
    Func(Arc<HostFunc<T>>),
    /// An immutable global of this value.
    Global(Value),
}

impl<T> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Func(func) => func.fmt(f),
            Self::Global(value) => value.fmt(f),
        }
    }
}

impl<T> Clone for Item<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Func(func) => Self::Func(Arc::clone(func)),
            Self::Global(value) => Self::Global(*value),
        }
    }
}

impl<T> Clone for Linker<T> {
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
        }
    }
}

impl<T: 'static> Linker<T> {
    /// A linker that offers nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            items: HashMap::new(),
        }
    }

    /// Offers a function. Its WebAssembly type follows from the closure's, see [`IntoFunc`].
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is taken.
    pub fn func<P, R>(
        &mut self,
        module: &str,
        name: &str,
        func: impl IntoFunc<T, P, R>,
    ) -> Result<&mut Self, LinkError> {
        self.define(module, name, Item::Func(Arc::new(func.into_func())))
    }

    /// Offers a function of any type over untyped values. It is given as many arguments as `ty` has
    /// parameters, and writes as many results, which start as zero or null.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is taken.
    pub fn func_values(
        &mut self,
        module: &str,
        name: &str,
        ty: FuncType,
        func: impl Fn(Caller<'_, T>, &[Value], &mut [Value]) -> Result<(), HostError>
        + Send
        + Sync
        + 'static,
    ) -> Result<&mut Self, LinkError> {
        let func = HostFunc::untyped(ty, func);
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// Offers an immutable global.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is taken, [`LinkError::Foreign`] for a function
    /// reference other than null: it would belong to one instance.
    pub fn global(
        &mut self,
        module: &str,
        name: &str,
        value: Value,
    ) -> Result<&mut Self, LinkError> {
        if matches!(value, Value::FuncRef(Some(_))) {
            return Err(LinkError::Foreign {
                import: format!("{module}.{name}"),
            });
        }
        self.define(module, name, Item::Global(value))
    }

    fn define(&mut self, module: &str, name: &str, item: Item<T>) -> Result<&mut Self, LinkError> {
        let names = self.items.entry(module.to_owned()).or_default();
        if names.contains_key(name) {
            return Err(LinkError::Duplicate {
                import: format!("{module}.{name}"),
            });
        }
        names.insert(name.to_owned(), item);
        Ok(self)
    }
}

impl<T> Linker<T> {
    /// What is offered under a name.
    pub(crate) fn get(&self, module: &str, name: &str) -> Option<&Item<T>> {
        self.items.get(module)?.get(name)
    }
}

impl<T: 'static> Default for Linker<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Linker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.items).finish()
    }
}
