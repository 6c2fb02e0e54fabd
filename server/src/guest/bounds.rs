//! [`Bounds`]: the limits of a guest during one request.

use std::time::Duration;

/// The limits of a guest during one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Longest wall time of the guest, including its waits.
    pub(super) deadline: Duration,
    /// Longest time that the guest keeps a thread before other guests run.
    pub(super) timeslice: Duration,
    /// Most bytes of a CGI program's standard output.
    pub(super) output_max: usize,
    /// Most bytes of standard error, and of a handler's standard output, that the server keeps.
    pub(super) errors_max: usize,
}
