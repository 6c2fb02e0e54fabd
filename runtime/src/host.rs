//! Host functions: how guests import them, and how they access the calling instance.

pub(crate) mod caller;
pub(crate) mod func;
pub(crate) mod later;
pub(crate) mod limiter;
pub(crate) mod linker;
pub(crate) mod store;

pub use caller::Caller;
pub use func::{HostResult, IntoFunc};
pub use later::HostFuture;
pub use limiter::{Growing, Growth, GrowthError};
pub use linker::Linker;
pub(crate) use store::Store;
