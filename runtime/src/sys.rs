//! Everything that asks the kernel for something.

pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod memory;
pub(crate) mod pagemap;
pub(crate) mod signal;
pub(crate) mod thread;
pub(crate) mod userfault;

pub(crate) use memory::page_bytes;
