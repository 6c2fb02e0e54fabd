//! [`State`]: the host's state of an instance of a component.

use crate::component::Info;
use crate::error::AbiResult;
use crate::host_bytes::{Account, HeldBytes, HostBytes};
use crate::lower::{Collect, Lower, Requests, Words};
use crate::scopes::Scopes;
use pirn_format::component::ValueType;
use pirn_runtime::HostError;
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
    pub(crate) fn new(data: T, info: &Arc<Info>, account: Account) -> Self {
        Self {
            data,
            scopes: Scopes::new(info, account),
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

    /// The counter of the memory that the host keeps for the guest. A host function should count
    /// memory that it keeps after its return, and memory whose size the guest chooses.
    #[must_use]
    pub fn host_bytes(&self) -> &HostBytes {
        self.scopes.account.get()
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

/// A result of a host function, before the host has written it to the guest.
pub(crate) trait Unwritten: Send {
    /// Checks the type of the result, and lists the memory that the result needs. `place` names the
    /// function, for messages.
    fn request(&self, cx: &mut Collect<'_>, ty: ValueType, place: &str) -> Result<(), HostError>;

    /// Writes the result as core values.
    fn flat(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult;

    /// Writes the result to memory.
    fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult;
}

/// A result of a function of the host, before its memory is allocated.
pub(crate) struct Pending {
    pub(crate) value: Box<dyn Unwritten>,
    pub(crate) ty: ValueType,
    /// Index of the canonical options of the lowered function.
    pub(crate) options: u32,
    /// The address at which the guest wants the result.
    pub(crate) address: u32,
    pub(crate) requests: Requests,
    /// Counts the memory of the result while the guest allocates.
    pub(crate) _held: Option<HeldBytes>,
}
