//! The process's signal handler: what it does with faults and interrupts of guests, and the hook by
//! which tracked memory is filled.

mod handler;
pub(crate) mod page_fault;

pub(crate) use handler::{Running, handles, install};
