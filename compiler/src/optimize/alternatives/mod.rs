//! Passes for functions with high register pressure, instead of Cranelift's optimiser.

pub(crate) mod schedule;
pub(crate) mod spill;
