//! [`Linker`]: what the host offers to guests, by module and name.

use super::func::{HostFunc, IntoFunc};
use super::limiter::Limiter;
use super::{Caller, HostError, HostFuture, HostResult, Store, later};
use crate::error::LinkError;
use crate::shared::SharedMemory;
use crate::value::typed::Params;
use crate::value::{Cell, FuncType, Stamp, Value};
use core::convert::Infallible;
use core::fmt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What the host offers to guests, by module and name: functions, immutable globals, and shared memories.
///
/// `T` is the host's data that every instance carries; host functions reach it through [`Caller`]. Guests can
/// ask whoever calls them, a `Q`, and are answered by an `A`, see [`func_ask`](Self::func_ask): both are
/// types without values unless they are named, as in `Linker::<Request, Fetch, Body>::asking()`.
pub struct Linker<T, Q = Infallible, A = Infallible> {
    items: Items<Store<T, Q, A>>,
    /// Modules of which functions take addresses of 32 bits.
    narrow: HashSet<String>,
    /// What is asked before something grows.
    pub(crate) limiter: Limiter<Store<T, Q, A>>,
}

/// What is offered, by module and name.
type Items<S> = HashMap<String, HashMap<String, Item<S>>>;

/// One thing that a guest can import from the host.
pub(crate) enum Item<T> {
    /// A function.
    Func(Arc<HostFunc<T>>),
    /// An immutable global of this value.
    Global(Value),
    /// A shared memory.
    Memory(SharedMemory),
}

impl<T> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Func(func) => func.fmt(f),
            Self::Global(value) => value.fmt(f),
            Self::Memory(memory) => memory.fmt(f),
        }
    }
}

impl<T> Clone for Item<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Func(func) => Self::Func(Arc::clone(func)),
            Self::Global(value) => Self::Global(*value),
            Self::Memory(memory) => Self::Memory(memory.clone()),
        }
    }
}

impl<T, Q, A> Clone for Linker<T, Q, A> {
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            narrow: self.narrow.clone(),
            limiter: self.limiter.clone(),
        }
    }
}

impl<T: 'static> Linker<T> {
    /// A linker that offers nothing, for guests that ask nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::asking()
    }
}

impl<T: 'static, Q: 'static, A: 'static> Linker<T, Q, A> {
    /// A linker that offers nothing, for guests that may ask.
    #[must_use]
    pub fn asking() -> Self {
        Self {
            items: HashMap::new(),
            narrow: HashSet::new(),
            limiter: Limiter::default(),
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
    /// [`LinkError::Duplicate`] if the name is taken, [`LinkError::HostFunc`] if `ty` names a function type: the host has
    /// no references but those to functions of any type.
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
        if let Some(named) = ty.values().find(|ty| ty.type_index().is_some()) {
            return Err(LinkError::HostFunc {
                import: format!("{module}.{name}"),
                ty: named.to_string(),
            });
        }
        let func = HostFunc::untyped(ty, func);
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// Offers a function that asks whoever calls the guest. `ask` is given the parameters, a tuple of them,
    /// and what it gives comes out of [`Instance::start`](crate::Instance::start), or of the step that it
    /// was, as [`Step::Asked`](crate::Step::Asked). The guest waits. When it is answered by
    /// [`Instance::resume_with`](crate::Instance::resume_with), `reply` makes of the answer what the guest is
    /// given.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is taken.
    pub fn func_ask<P: Params, R: HostResult>(
        &mut self,
        module: &str,
        name: &str,
        ask: impl Fn(Caller<'_, T>, P) -> Result<Q, HostError> + Send + Sync + 'static,
        reply: impl Fn(Caller<'_, T>, P, A) -> R + Send + Sync + 'static,
    ) -> Result<&mut Self, LinkError> {
        let func = later::asking(ask, reply);
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// Offers an async function, for guests that are called by
    /// [`Instance::call_async`](crate::Instance::call_async). It is given the parameters as a tuple. As long
    /// as its future is pending the guest waits, on no thread.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is taken.
    pub fn func_async<P: Params, R: HostResult>(
        &mut self,
        module: &str,
        name: &str,
        func: impl for<'a> Fn(Caller<'a, T>, P) -> HostFuture<'a, R> + Send + Sync + 'static,
    ) -> Result<&mut Self, LinkError> {
        let func = later::future(func);
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// Offers an immutable global.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is taken, [`LinkError::Foreign`] for a reference to a function or an exception
    /// other than null: it would belong to one instance.
    pub fn global(
        &mut self,
        module: &str,
        name: &str,
        value: Value,
    ) -> Result<&mut Self, LinkError> {
        // What belongs to no instance is given to any.
        if Cell::from_value(value, Stamp(0)).is_err() {
            return Err(LinkError::Foreign {
                import: format!("{module}.{name}"),
            });
        }
        self.define(module, name, Item::Global(value))
    }

    /// Offers a shared memory, to all instances of what is prepared with this linker; see also
    /// [`Prepared::with_memory`](crate::Prepared::with_memory).
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is taken.
    pub fn memory(
        &mut self,
        module: &str,
        name: &str,
        memory: &SharedMemory,
    ) -> Result<&mut Self, LinkError> {
        self.define(module, name, Item::Memory(memory.clone()))
    }

    /// Says that what is offered under a module name is an interface whose addresses have 32 bits,
    /// also those that lie in the guest's memory, as WASI preview 1 is. A module that imports any
    /// of it, and whose memory for such addresses
    /// ([`Caller::interface_split`](crate::Caller::interface_split)) is a 64-bit one, is refused:
    /// [`LinkError::Addresses`].
    pub fn addresses_of_32_bits(&mut self, module: &str) -> &mut Self {
        self.narrow.insert(module.to_owned());
        self
    }

    fn define(
        &mut self,
        module: &str,
        name: &str,
        item: Item<Store<T, Q, A>>,
    ) -> Result<&mut Self, LinkError> {
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

impl<T, Q, A> Linker<T, Q, A> {
    /// What is offered under a name.
    pub(crate) fn get(&self, module: &str, name: &str) -> Option<&Item<Store<T, Q, A>>> {
        self.items.get(module)?.get(name)
    }

    /// Whether what is offered under a module name has addresses of 32 bits.
    pub(crate) fn is_narrow(&self, module: &str) -> bool {
        self.narrow.contains(module)
    }
}

impl<T: 'static, Q: 'static, A: 'static> Default for Linker<T, Q, A> {
    fn default() -> Self {
        Self::asking()
    }
}

impl<T, Q, A> fmt::Debug for Linker<T, Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.items).finish()
    }
}
