//! All system calls of the runtime. The calls go through nix. A comment at each direct call of libc
//! gives the reason.

pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod fork_lock;
pub(crate) mod memory;
pub(crate) mod pagemap;
pub(crate) mod signal;
pub(crate) mod thread;
pub(crate) mod userfault;

pub(crate) use fork_lock::lock;
pub(crate) use memory::page_bytes;
