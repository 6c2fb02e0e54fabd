//! [`Linker`]: the items that guests can import from the host, by module and name.

use crate::call::host_result::func_type;
use crate::call::{
    Caller, HostFuture, HostResult, HostState, IntoFunc, MaybeFuture, is_flat, later,
};
use crate::error::HostError;
use crate::error::LinkError;
use crate::memory::SharedMemory;
use crate::store::growth::Limiter;
use crate::store::host_func::HostFunc;
use crate::value::typed::{FlatParams, Params, sealed};
use crate::value::{Cell, FuncType, InstanceId, ValType, Value};
use core::convert::Infallible;
use core::fmt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The items that guests can import from the host, by module and name: functions, immutable
/// globals, and shared memories.
///
/// `T` is the host's data that every instance carries. Host functions reach it through [`Caller`].
/// A guest can ask its caller a question `Q`, and gets an answer `A`, see
/// [`func_ask`](Self::func_ask). The types `Q` and `A` have no values unless you name them, as in
/// `Linker::<Request, Fetch, Body>::asking()`.
pub struct Linker<T, Q = Infallible, A = Infallible> {
    items: Items<HostState<T, Q, A>>,
    /// Modules whose functions take 32-bit addresses.
    narrow: HashSet<String>,
    /// The embedder's functions that decide about growth.
    pub(crate) limiter: Limiter<HostState<T, Q, A>>,
}

/// The items, by module and name.
type Items<S> = HashMap<String, HashMap<String, Item<S>>>;

/// An item that a guest can import from the host.
pub(crate) enum Item<T> {
    /// A function.
    Func(Arc<HostFunc<T>>),
    /// An immutable global with this value.
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
    /// An empty linker, for guests that do not ask questions.
    #[must_use]
    pub fn new() -> Self {
        Self::asking()
    }
}

impl<T: 'static, Q: 'static, A: 'static> Linker<T, Q, A> {
    /// An empty linker, for guests that may ask questions.
    #[must_use]
    pub fn asking() -> Self {
        Self {
            items: HashMap::new(),
            narrow: HashSet::new(),
            limiter: Limiter::default(),
        }
    }

    /// Adds a function. Its WebAssembly type follows from the type of the closure, see
    /// [`IntoFunc`].
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is already defined.
    pub fn func<P, R>(
        &mut self,
        module: &str,
        name: &str,
        func: impl IntoFunc<T, P, R>,
    ) -> Result<&mut Self, LinkError> {
        self.define(module, name, Item::Func(Arc::new(func.into_func())))
    }

    /// Adds a function of any type over untyped values.
    ///
    /// The closure gets one argument for each parameter of `ty`, and writes one result for each
    /// result of `ty`. Before the call, each result is zero or null.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is already defined. [`LinkError::HostFunc`] if `ty`
    /// names a type that a module defines: a host function can only use the abstract reference
    /// types.
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

    /// Adds a function over numbers, for a type that is known only when a module is opened. `R` has
    /// no result, or is a [`FlatResult`](crate::FlatResult). The guest gets no result if its type
    /// has none.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is already defined. [`LinkError::HostFunc`] if `ty` has
    /// anything but numbers, more than 17 parameters, or another number of results than `R`
    /// (a `FlatResult` also fits none).
    pub fn func_flat<R: HostResult>(
        &mut self,
        module: &str,
        name: &str,
        ty: FuncType,
        func: impl Fn(Caller<'_, T>, FlatParams) -> R + Send + Sync + 'static,
    ) -> Result<&mut Self, LinkError> {
        check_flat::<R>(module, name, &ty)?;
        let func = HostFunc::flat(ty, func);
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// As [`func_flat`](Self::func_flat), for a function that returns a future as in
    /// [`func_async`](Self::func_async).
    ///
    /// # Errors
    ///
    /// As [`func_flat`](Self::func_flat).
    pub fn func_flat_async<R: HostResult, F>(
        &mut self,
        module: &str,
        name: &str,
        ty: FuncType,
        func: F,
    ) -> Result<&mut Self, LinkError>
    where
        F: for<'a> Fn(Caller<'a, T>, FlatParams) -> HostFuture<'a, R> + Send + Sync + 'static,
    {
        check_flat::<R>(module, name, &ty)?;
        let func = later::future(ty, later::always(func));
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// As [`func_ask`](Self::func_ask), over numbers as in [`func_flat`](Self::func_flat).
    ///
    /// # Errors
    ///
    /// As [`func_flat`](Self::func_flat).
    pub fn func_flat_ask<R: HostResult>(
        &mut self,
        module: &str,
        name: &str,
        ty: FuncType,
        ask: impl Fn(Caller<'_, T>, FlatParams) -> Result<Q, HostError> + Send + Sync + 'static,
        reply: impl Fn(Caller<'_, T>, FlatParams, A) -> R + Send + Sync + 'static,
    ) -> Result<&mut Self, LinkError> {
        check_flat::<R>(module, name, &ty)?;
        let func = later::asking(ty, ask, reply);
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// Adds a function that asks the caller of the guest.
    ///
    /// `ask` gets the parameters as a tuple, and returns a question.
    /// [`Instance::start`](crate::Instance::start), or the current step of the call, returns the
    /// question as [`Step::Asked`](crate::Step::Asked). The guest waits. When
    /// [`Instance::resume_with`](crate::Instance::resume_with) gives the answer, `reply` computes
    /// the guest's results from the answer.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is already defined.
    pub fn func_ask<P: Params, R: HostResult>(
        &mut self,
        module: &str,
        name: &str,
        ask: impl Fn(Caller<'_, T>, P) -> Result<Q, HostError> + Send + Sync + 'static,
        reply: impl Fn(Caller<'_, T>, P, A) -> R + Send + Sync + 'static,
    ) -> Result<&mut Self, LinkError> {
        let func = later::asking(func_type::<P, R::Results>(), ask, reply);
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// Adds an async function, for guests that are called by
    /// [`Instance::call_async`](crate::Instance::call_async).
    ///
    /// The function gets the parameters as a tuple. While its future is pending, the guest waits
    /// and blocks no thread.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is already defined.
    pub fn func_async<P: Params, R: HostResult>(
        &mut self,
        module: &str,
        name: &str,
        func: impl for<'a> Fn(Caller<'a, T>, P) -> HostFuture<'a, R> + Send + Sync + 'static,
    ) -> Result<&mut Self, LinkError> {
        self.func_maybe_async(module, name, later::always(func))
    }

    /// As [`func_async`](Self::func_async), for a function that seldom waits. If its results are
    /// ready, it returns them without a future.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is already defined.
    pub fn func_maybe_async<P: Params, R: HostResult>(
        &mut self,
        module: &str,
        name: &str,
        func: impl for<'a> Fn(Caller<'a, T>, P) -> MaybeFuture<'a, R> + Send + Sync + 'static,
    ) -> Result<&mut Self, LinkError> {
        let func = later::future(func_type::<P, R::Results>(), func);
        self.define(module, name, Item::Func(Arc::new(func)))
    }

    /// Adds an immutable global.
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is already defined. [`LinkError::Foreign`] for a
    /// non-null reference to a function, an exception, a struct or an array, because such a
    /// reference belongs to one instance. Also for an `externref` number that the runtime reserves,
    /// see [`ExternRef::new`](crate::ExternRef::new).
    pub fn global(
        &mut self,
        module: &str,
        name: &str,
        value: Value,
    ) -> Result<&mut Self, LinkError> {
        // Values that belong to no instance are valid in every instance.
        if Cell::from_value(value, InstanceId(0)).is_err() {
            return Err(LinkError::Foreign {
                import: format!("{module}.{name}"),
            });
        }
        self.define(module, name, Item::Global(value))
    }

    /// Adds a shared memory, for all instances that are prepared with this linker. See also
    /// [`Prepared::with_memory`](crate::Prepared::with_memory).
    ///
    /// # Errors
    ///
    /// [`LinkError::Duplicate`] if the name is already defined.
    pub fn memory(
        &mut self,
        module: &str,
        name: &str,
        memory: &SharedMemory,
    ) -> Result<&mut Self, LinkError> {
        self.define(module, name, Item::Memory(memory.clone()))
    }

    /// Declares that the functions of a module use 32-bit addresses, also for addresses in the
    /// guest's memory. WASI preview 1 is such an interface.
    ///
    /// Such addresses refer to the interface memory, see
    /// [`Caller::interface_split`](crate::Caller::interface_split). If the interface memory is a
    /// 64-bit memory, a guest that imports from `module` is refused with [`LinkError::Addresses`].
    pub fn require_32_bit_addresses(&mut self, module: &str) -> &mut Self {
        self.narrow.insert(module.to_owned());
        self
    }

    /// Removes an item, so that another can be defined under its name: an embedder replaces a
    /// function of a library of functions, such as WASI. Returns whether there was one.
    pub fn remove(&mut self, module: &str, name: &str) -> bool {
        let names = self.items.get_mut(module);
        names.is_some_and(|names| names.remove(name).is_some())
    }

    fn define(
        &mut self,
        module: &str,
        name: &str,
        item: Item<HostState<T, Q, A>>,
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

/// Checks that a host function of this type can take and return numbers.
fn check_flat<R: HostResult>(module: &str, name: &str, ty: &FuncType) -> Result<(), LinkError> {
    let results = <R::Results as sealed::List>::TYPES;
    let numbers = results.iter().all(|ty| *ty == ValType::I64);
    let may_have_none = <R::Results as sealed::List>::IS_FLAT && ty.results.is_empty();
    let fits = results.len() == ty.results.len() || may_have_none;
    if is_flat(ty) && fits && numbers {
        return Ok(());
    }
    Err(LinkError::HostFunc {
        import: format!("{module}.{name}"),
        ty: ty.to_string(),
    })
}

impl<T, Q, A> Linker<T, Q, A> {
    /// The item with this module and name.
    pub(crate) fn get(&self, module: &str, name: &str) -> Option<&Item<HostState<T, Q, A>>> {
        self.items.get(module)?.get(name)
    }

    /// Whether the functions of a module use 32-bit addresses.
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
