//! Passes over the IR of one function.

pub(crate) mod before_cranelift;
pub(crate) mod after_cranelift;
pub(crate) mod alternatives;
