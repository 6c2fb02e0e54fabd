//! Passes before Cranelift's optimiser.

pub(crate) mod address;
