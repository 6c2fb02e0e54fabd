//! The types of functions of the host that components can import.

use crate::state::State;
use crate::value::Resource;
use pirn_runtime::HostError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The future of an asynchronous function of the host.
pub type HostFuture<'a, R> = Pin<Box<dyn Future<Output = Result<R, HostError>> + Send + 'a>>;

/// The destructor of a resource type of the host: runs when a guest drops the owned handle of a
/// resource.
pub(crate) type Destructor<T> =
    Arc<dyn Fn(&mut State<T>, Resource) -> Result<(), HostError> + Send + Sync>;
