//! Names and sizes that preview 1 defines.

/// Name of the module from which guests import preview 1.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// Bytes of a `subscription`, a parameter of `poll_oneoff`.
pub(crate) const SUBSCRIPTION_BYTES: usize = 48;
/// Bytes of an `event`, a result of `poll_oneoff`.
pub(crate) const EVENT_BYTES: usize = 32;
