//! [`Func`] and [`TypedFunc`]: exported functions of a component, looked up once.

use crate::component::Info;
use pirn_format::component::{CanonicalOptions, FLAT_PARAMS_MAX, FLAT_RESULTS_MAX, FuncType};
use pirn_runtime::{FlatParams, FlatResult};
use std::marker::PhantomData;
use std::sync::Arc;

/// A function of the core module.
pub(crate) type CoreFunc = pirn_runtime::TypedFunc<FlatParams, FlatResult>;

/// An allocator of a guest (`realloc`). It takes the old address, the old size, the alignment and
/// the new size.
pub(crate) type Realloc = pirn_runtime::TypedFunc<(u32, u32, u32, u32), u32>;

/// The data that all instances of a preparation share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The destructors of the resource types that the component defines.
    pub(crate) destructors: Vec<Option<CoreFunc>>,
    /// Distinguishes the preparation from other preparations.
    pub(crate) prepared: u64,
}

/// An exported function of a component, for the instances of one preparation. A clone is a handle
/// to the same function.
#[derive(Debug, Clone)]
pub struct Func(pub(crate) Arc<FuncInner>);

#[derive(Debug)]
pub(crate) struct FuncInner {
    pub(crate) info: Arc<Info>,
    pub(crate) name: String,
    /// Index of the function's type.
    pub(crate) ty: u32,
    pub(crate) options: CanonicalOptions,
    pub(crate) core: CoreFunc,
    pub(crate) realloc: Option<Realloc>,
    pub(crate) post_return: Option<CoreFunc>,
    /// The core module's export that is the function's memory; `None` for memory 0.
    pub(crate) memory: Option<String>,
    /// The preparation in which the function was looked up.
    pub(crate) prepared: u64,
    /// Size and alignment of the function's parameters, if calls pass them in memory.
    pub(crate) params_in_memory: Option<(u64, u32)>,
    /// Whether the function returns its result in memory.
    pub(crate) result_in_memory: bool,
    /// Whether calls can lend handles.
    pub(crate) lends: bool,
    /// Whether all values of a call are core values, and the function has no `post-return`.
    pub(crate) needs_no_memory: bool,
}

/// An exported function of a component with Rust types, looked up and checked once. `P` is a tuple
/// of parameters, and `R` the result or `()`.
#[derive(Debug)]
pub struct TypedFunc<P, R> {
    pub(crate) func: Func,
    /// Covariant in `P`: a function over `&'static str` also takes a `&str` of a shorter lifetime.
    types: PhantomData<fn() -> (P, R)>,
}

impl<P, R> Clone for TypedFunc<P, R> {
    fn clone(&self) -> Self {
        Self {
            func: self.func.clone(),
            types: PhantomData,
        }
    }
}

impl Func {
    /// The names and types of the function's parameters, and the type of its result.
    #[must_use]
    pub fn ty(&self) -> &FuncType {
        &self.0.info.component.funcs[self.0.ty as usize]
    }
}

impl<P, R> TypedFunc<P, R> {
    /// A typed handle to a function. The caller has compared the function's types with `P` and `R`.
    pub(crate) fn new(func: Func) -> Self {
        Self {
            func,
            types: PhantomData,
        }
    }
}

/// The size and alignment of a function's parameters, if calls pass them in memory.
pub(crate) fn params_in_memory(info: &Info, ty: u32) -> Option<(u64, u32)> {
    let ty = &info.component.funcs[ty as usize];
    let (mut flat, mut bytes, mut align) = (0usize, 0u64, 1);
    for (_, ty) in &ty.params {
        let layout = info.layout(*ty);
        flat = flat.saturating_add(layout.flat.map_or(usize::MAX, |flat| flat.len()));
        bytes = bytes.next_multiple_of(layout.align.into()) + u64::from(layout.bytes);
        align = align.max(layout.align);
    }
    (flat > FLAT_PARAMS_MAX).then(|| (bytes.next_multiple_of(align.into()), align))
}

/// Whether a function's result has more core values than a core function may return.
pub(crate) fn result_in_memory(info: &Info, ty: u32) -> bool {
    let result = info.component.funcs[ty as usize].result;
    let flat = result.map(|ty| info.layout(ty).flat);
    flat.is_some_and(|flat| flat.is_none_or(|flat| flat.len() > FLAT_RESULTS_MAX))
}

/// Whether no parameter and no result of a function is in memory, and the component has no handles.
pub(crate) fn needs_no_memory(info: &Info, ty: u32) -> bool {
    let func = &info.component.funcs[ty as usize];
    let mut types = func.params.iter().map(|(_, ty)| *ty).chain(func.result);
    let flat = params_in_memory(info, ty).is_none() && !result_in_memory(info, ty);
    flat && info.component.tables.is_empty() && !types.any(|ty| info.layout(ty).allocates)
}
