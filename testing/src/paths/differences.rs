//! Differences between Linux and all WASI interfaces.

use super::{Answer, Call};

/// A known difference between an interface and Linux.
pub struct Difference {
    /// Why the answers differ.
    pub reason: &'static str,
    /// Whether the row describes a call. The answers are Linux's and the interface's.
    pub covers: fn(call: &Call, linux: &Answer, found: &Answer) -> bool,
}

/// Whether an answer is this error.
fn is(answer: &Answer, error: &str) -> bool {
    answer.as_ref().is_err_and(|found| found == error)
}

/// Differences that stay, with their reasons. All interfaces have them.
pub const INTENDED: [Difference; 3] = [
    Difference {
        reason: "a link to the target of a symbolic link is refused",
        covers: |call, _, found| {
            matches!(call, Call::Link { follow: true, .. }) && is(found, "EINVAL")
        },
    },
    Difference {
        reason: "a guest makes no link to an absolute path, which would lead outside",
        covers: |call, _, found| {
            matches!(call, Call::Symlink { target, .. } if target.starts_with('/'))
                && is(found, "EPERM")
        },
    },
    Difference {
        reason: "O_DIRECTORY goes with no flag that makes or empties files. Linux's answer depends \
                 on its version",
        covers: |call, _, found| {
            matches!(call, Call::Open { how, .. }
                if how.is_directory && (how.creates || how.is_exclusive || how.truncates))
                && is(found, "EINVAL")
        },
    },
];
