//! The state of instances: what a module needs, worked out once, and what lies in a slot.
//!
//! Host functions have no types here: a [`host_func::HostFunc`] is an entry and the function that
//! it points to. The code that calls guests is above.

pub(crate) mod access;
pub(crate) mod bulk;
pub(crate) mod constant;
pub(crate) mod descriptors;
pub(crate) mod exceptions;
pub(crate) mod fuel;
pub(crate) mod growth;
pub(crate) mod heap;
pub(crate) mod host_func;
pub(crate) mod imports;
pub(crate) mod initialise;
pub(crate) mod member;
pub(crate) mod plan;
pub(crate) mod preparation;
pub(crate) mod snapshot;
pub(crate) mod usage;
