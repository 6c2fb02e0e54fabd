//! Shared by the suites.

pub(crate) mod setup;
