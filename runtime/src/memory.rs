//! Guest memory as the host sees it: views, populated pages, and memories that instances share.
//!
//! This module uses the region, because a view fills the missing pages of a tracked slot itself.

pub(crate) mod populate;
pub(crate) mod shared;
pub(crate) mod shared_imports;
pub(crate) mod view;
pub(crate) mod wait;
mod waiters;

pub use shared::{SharedMemory, SharedMemoryError};
pub(crate) use shared_imports::SharedImports;
pub use view::{Memory, MemoryMut, ReadStrError};
