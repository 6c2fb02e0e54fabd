//! Repeats a call with other limits, or with more iterations, until the tested event happens.
//!
//! No test depends on the speed of the machine. A limit that passes too early or too late is no
//! failure: the attempt is repeated with another limit.

use std::time::Duration;

/// Maximum number of attempts. On a busy machine the timer is late again and again.
const ATTEMPTS_MAX: usize = 10_000;
/// Longest limit of an attempt. This limit only bounds the run time of a test that never succeeds.
const LIMIT_MAX: Duration = Duration::from_secs(100);

/// Calls `attempt` with a limit, and with twice the limit while it returns `None`. On a busy
/// machine a limit may pass before the guest runs. An attempt returns `None` in that case.
///
/// # Panics
///
/// If the attempt with the longest limit returns `None`.
pub fn with_longer_limits<T>(first: Duration, mut attempt: impl FnMut(Duration) -> Option<T>) -> T {
    let mut limit = first;
    while limit < LIMIT_MAX {
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
///
/// # Panics
///
/// If too many attempts return `None`.
pub fn with_more_iterations<T>(first: i32, mut attempt: impl FnMut(i32) -> Option<T>) -> T {
    let mut iterations = first;
    for _ in 0..ATTEMPTS_MAX {
        if let Some(done) = attempt(iterations) {
            return done;
        }
        iterations = iterations.saturating_mul(2).min(1 << 28);
    }
    panic!("each call returned before its time slice ended");
}

/// When the limit of an attempt passed.
pub enum Passed<T> {
    /// Before the tested operation began.
    TooEarly,
    /// After the tested operation had ended, or not at all.
    TooLate,
    /// During the tested operation.
    Within(T),
}

/// Calls `attempt` until the limit passes within the tested operation. If the limit of an attempt
/// passed too early, the next attempt has twice that limit. If it passed too late, the next attempt
/// has half of that limit.
///
/// # Panics
///
/// If no limit passes within the operation, after many attempts.
pub fn with_fitting_limit<T>(first: Duration, mut attempt: impl FnMut(Duration) -> Passed<T>) -> T {
    let mut limit = first;
    for _ in 0..ATTEMPTS_MAX {
        limit = match attempt(limit) {
            Passed::Within(done) => return done,
            Passed::TooEarly => (limit * 2).min(LIMIT_MAX),
            Passed::TooLate => (limit / 2).max(Duration::from_micros(1)),
        };
    }
    panic!("no limit passed within the operation");
}
