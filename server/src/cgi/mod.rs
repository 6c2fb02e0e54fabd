//! The adapter for WASI programs that speak CGI (RFC 3875). It makes standard input of the body of
//! a request, and a response of standard output. Both stream while the program runs.

mod answer;
pub(crate) mod environment;
pub(crate) mod input;
mod output;

pub use answer::Malformed;
pub use environment::Environment;
pub use input::Input;
pub use output::Output;
