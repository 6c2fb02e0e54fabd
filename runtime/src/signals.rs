//! The process's signal handler for faults and interrupts of guests, and the hook that fills
//! tracked memory.

mod handler;
pub(crate) mod page_fault;

pub(crate) use handler::{Running, handles, install};
