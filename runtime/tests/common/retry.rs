//! Repeats a call with longer limits, or with more iterations, until the limit ends the call inside
//! the guest.

use super::SLICED_CALLS_MAX;
use std::time::Duration;

/// Calls `attempt` with a limit, and with twice the limit while it returns `None`. On a busy
/// machine a limit may pass before the guest runs. An attempt returns `None` in that case.
pub(crate) fn with_longer_limits<T>(
    first: Duration,
    mut attempt: impl FnMut(Duration) -> Option<T>,
) -> T {
    let mut limit = first;
    while limit < Duration::from_secs(8) {
        if let Some(done) = attempt(limit) {
            return done;
        }
        limit *= 2;
    }
    panic!("the limit always passed before the guest ran");
}

/// Calls `attempt` with a number of iterations, and with twice the number while it returns `None`.
/// On a busy machine the timer is late, and a call may return before its time slice ends. An
/// attempt returns `None` in that case.
pub(crate) fn with_more_iterations<T>(first: i32, mut attempt: impl FnMut(i32) -> Option<T>) -> T {
    let mut iterations = first;
    for _ in 0..SLICED_CALLS_MAX {
        if let Some(done) = attempt(iterations) {
            return done;
        }
        iterations = iterations.saturating_mul(2).min(1 << 28);
    }
    panic!("each call returned before its time slice ended");
}
