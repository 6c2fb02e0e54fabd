//! The host's side of imports: what a guest may call, and what the called function sees.

pub(crate) mod caller;
pub(crate) mod error;
pub(crate) mod func;
pub(crate) mod linker;

pub use caller::Caller;
pub use error::{HostError, HostPanic};
pub use func::{HostResult, IntoFunc};
pub use linker::Linker;
