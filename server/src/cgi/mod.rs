//! The protocol of guests that are WASI programs (RFC 3875): an adapter between a program and a
//! request whose body, and a response whose body, may still be on their way.

mod answer;
pub(crate) mod environment;
pub(crate) mod input;
mod output;

pub use answer::Malformed;
pub use environment::Environment;
pub use input::Input;
pub use output::Output;
