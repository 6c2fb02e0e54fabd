//! [`ValueError`], [`SetGlobalError`] and [`TableError`]: why the host did not change a guest's
//! state.

use super::StateError;
use crate::value::{ForeignRef, ValType};
use thiserror::Error;

/// Why a global, or an element of a table, cannot hold a value that the host gives.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The value has another type.
    #[error("{wanted} is needed, {found} was given; give a value of that type")]
    Type {
        /// The type of the global or of the elements. A number in the type is a type index of the
        /// module.
        wanted: ValType,
        /// The type of the value, in words.
        found: String,
    },
    /// The value is a reference of another instance or group, or a number that the runtime reserves
    /// ([`ExternRef::new`](crate::ExternRef::new)).
    #[error("reference of another instance; pass only references that this instance gave")]
    Foreign,
    /// The value is a reference to an exception to which the guest has no reference any more.
    #[error("the instance has freed the exception; have the guest hold a reference to it")]
    NotKept,
}

impl From<ForeignRef> for ValueError {
    fn from(ForeignRef: ForeignRef) -> Self {
        Self::Foreign
    }
}

/// Why a global was not set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetGlobalError {
    /// A call of the instance is suspended.
    #[error(transparent)]
    State(#[from] StateError),
    /// The module exports no global with this name.
    #[error("module has no exported global {name:?}; it exports {found}")]
    NoExport {
        /// The name that was asked for.
        name: String,
        /// The exports that the module has.
        found: String,
    },
    /// The global is a constant.
    #[error("global {name:?} of type {ty} is immutable; declare it as `(mut {ty})`")]
    Immutable {
        /// The name of the export.
        name: String,
        /// The type of the global's value.
        ty: ValType,
    },
    /// The global cannot hold the value.
    #[error("global {name:?} cannot hold the value: {error}")]
    Value {
        /// The name of the export.
        name: String,
        /// The reason.
        error: ValueError,
    },
}

/// Why a table was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableError {
    /// A call of the instance is suspended.
    #[error(transparent)]
    State(#[from] StateError),
    /// The module exports no table with this name.
    #[error("module has no exported table {name:?}; it exports {found}")]
    NoExport {
        /// The name that was asked for.
        name: String,
        /// The exports that the module has.
        found: String,
    },
    /// The table has fewer elements than the operation needs.
    #[error("table has {elements} elements, {len} from {index} on were to be set; grow it first")]
    OutOfBounds {
        /// Index of the first element.
        index: u64,
        /// Number of elements.
        len: u64,
        /// Number of elements that the table has.
        elements: u64,
    },
    /// The table cannot hold the value.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The type of the table, or the region, allows fewer elements. The runtime did not call the
    /// limiter.
    #[error(
        "table cannot grow to {desired} elements, its limit is {limit}; raise its maximum or \
         `table_elements`"
    )]
    Limit {
        /// The requested number of elements.
        desired: u64,
        /// The maximum number of elements.
        limit: u64,
    },
    /// The function of [`Linker::table_limiter`](crate::Linker::table_limiter) refused.
    #[error(
        "limiter refused to let a table of {elements} elements grow to {desired}; ask for less, or \
         allow more"
    )]
    Refused {
        /// Number of elements that the table has.
        elements: u64,
        /// The requested number of elements.
        desired: u64,
    },
}
