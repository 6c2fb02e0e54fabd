//! [`HostFunc`]: functions of the host that components can import.

use crate::state::State;
use crate::value::{Resource, Value};
use pirn_runtime::HostError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The future of an asynchronous function of the host.
pub type HostFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<Value>, HostError>> + Send + 'a>>;

/// A function of the host.
pub(crate) enum HostFunc<T> {
    Sync(Box<SyncFunc<T>>),
    Async(Box<AsyncFunc<T>>),
}

type SyncFunc<T> =
    dyn Fn(&mut State<T>, Vec<Value>) -> Result<Option<Value>, HostError> + Send + Sync;
type AsyncFunc<T> = dyn for<'a> Fn(&'a mut State<T>, Vec<Value>) -> HostFuture<'a> + Send + Sync;

/// What the host does when the last handle to one of its resources is dropped.
pub(crate) type Destructor<T> =
    Arc<dyn Fn(&mut State<T>, Resource) -> Result<(), HostError> + Send + Sync>;
