//! [`HostResult`], [`HostFuture`] and [`MaybeFuture`]: the return types of host functions.

use crate::error::HostError;
use crate::value::FuncType;
use crate::value::typed::{Results, sealed};
use core::fmt;
use core::future::Future;
use core::pin::Pin;

/// The return type of a host function: results, or a `Result` of results with any error.
pub trait HostResult: 'static {
    /// The results.
    type Results: Results;
    /// Converts the return value to the results or to an error.
    ///
    /// # Errors
    ///
    /// The error that the host function returned.
    fn into_result(self) -> Result<Self::Results, HostError>;
}

impl<R: Results> HostResult for R {
    type Results = R;
    fn into_result(self) -> Result<R, HostError> {
        Ok(self)
    }
}

impl<R: Results, E: Into<HostError> + 'static> HostResult for Result<R, E> {
    type Results = R;
    fn into_result(self) -> Result<R, HostError> {
        self.map_err(Into::into)
    }
}

/// The return type of an async host function: a future of its results, or of a `Result` of its
/// results. The future borrows the [`Caller`](crate::Caller).
pub type HostFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// The return type of a host function that seldom waits: its results, without an allocation, or a
/// future of them.
pub enum MaybeFuture<'a, R> {
    /// The results.
    Ready(R),
    /// The function waits.
    Future(HostFuture<'a, R>),
}

impl<R: fmt::Debug> fmt::Debug for MaybeFuture<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(results) => f.debug_tuple("Ready").field(results).finish(),
            Self::Future(_) => f.debug_tuple("Future").finish_non_exhaustive(),
        }
    }
}

/// Number of cells of a function of this type.
pub(super) fn cells_of(ty: &FuncType) -> usize {
    ty.params.len().max(ty.results.len())
}

/// Number of cells of a function over these parameters and results.
#[inline]
pub(super) fn cells<P: sealed::List, R: HostResult>() -> usize {
    let results = <R::Results as sealed::List>::TYPES;
    P::TYPES.len().max(results.len())
}

/// Whether one of these values carries the instance id.
#[inline]
pub(super) fn needs_instance_id<P: sealed::List, R: HostResult>() -> bool {
    P::NEEDS_INSTANCE_ID || <R::Results as sealed::List>::NEEDS_INSTANCE_ID
}

/// The type of a function over these parameters and results.
pub(crate) fn func_type<P: sealed::List, R: sealed::List>() -> FuncType {
    FuncType {
        params: P::TYPES.to_vec(),
        results: R::TYPES.to_vec(),
    }
}
