//! The state of instances: the parts that are computed once for a module, and the parts in a slot.
//!
//! Host functions have no types here: a [`host_func::HostFunc`] is an entry and the function that
//! it points to. The module `call`, which calls guests, uses this module.

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
