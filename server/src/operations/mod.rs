//! What operators see of a server: metrics, logs, traces, and what its service manager learns.

pub mod load;
pub(crate) mod metrics;
pub(crate) mod journal;
pub(crate) mod utc;
pub mod access;
pub(crate) mod traceparent;
pub(crate) mod traces;
pub(crate) mod manager;
