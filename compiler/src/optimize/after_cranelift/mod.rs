//! Passes after Cranelift's optimiser, which would undo them.

pub(crate) mod hoist;
pub(crate) mod loop_end;
pub(crate) mod two_address;
pub(crate) mod loads;
pub(crate) mod widen;
