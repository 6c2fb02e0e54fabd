//! [`Linker`]: the items that guests can import from the host, and how imports are resolved.

pub(crate) mod exports;
mod items;
mod limiter;
pub(crate) mod resolve;

pub use items::Linker;
