//! The protocol of guests that are WASI programs (RFC 3875).

pub mod answer;
pub(crate) mod environment;
