//! [`State`]: the host's state of an instance of a component.

use crate::component::Info;
use crate::lower::Requests;
use crate::scopes::Scopes;
use crate::value::Value;
use pirn_format::component::ValueType;
use std::fmt;
use std::sync::Arc;

/// The host's state of an instance of a component: the embedder's data, and the handles of the
/// guest.
pub struct State<T> {
    data: T,
    pub(crate) scopes: Scopes,
    /// The result of a function of the host that waits for memory of the guest.
    pub(crate) pending: Option<Pending>,
}

impl<T> State<T> {
    pub(crate) fn new(data: T, info: &Arc<Info>) -> Self {
        Self {
            data,
            scopes: Scopes::new(info),
            pending: None,
        }
    }

    /// The embedder's data.
    #[must_use]
    pub fn data(&self) -> &T {
        &self.data
    }

    /// The embedder's data, mutable.
    pub fn data_mut(&mut self) -> &mut T {
        &mut self.data
    }

    pub(crate) fn into_data(self) -> T {
        self.data
    }
}

impl<T: fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.fmt(f)
    }
}

/// A result of a function of the host, before its memory is allocated.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) value: Value,
    pub(crate) ty: ValueType,
    /// Index of the canonical options of the lowered function.
    pub(crate) options: u32,
    /// Where the guest wants the result.
    pub(crate) address: u32,
    pub(crate) requests: Requests,
}
