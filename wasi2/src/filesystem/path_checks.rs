//! Checks of paths before a file system resolves them.

use super::error::ErrorCode;
use crate::limits::PATH_MAX;

/// Checks the length of a path.
pub(crate) fn checked(path: &str) -> Result<&str, ErrorCode> {
    match path.len() {
        0..PATH_MAX => Ok(path),
        _ => Err(ErrorCode::NameTooLong),
    }
}

/// Whether a path ends in `/` or `/.`, so that it must name a directory.
pub(crate) fn names_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.")
}
