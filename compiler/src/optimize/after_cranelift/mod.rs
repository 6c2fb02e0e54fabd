//! Passes that run after Cranelift's optimiser, because the optimiser would undo their work.

pub(crate) mod hoist;
pub(crate) mod loop_end;
pub(crate) mod two_address;
pub(crate) mod loads;
pub(crate) mod widen;
