//! The errors of paths, by their names in Linux, preview 1 and WASI 0.2.

use rustix::io::Errno;

/// An error of Linux with its name, its number in preview 1, and its name in WASI 0.2.
type Error = (Errno, &'static str, i32, &'static str);

const ERRORS: [Error; 16] = [
    (Errno::ACCESS, "EACCES", 2, "access"),
    (Errno::BADF, "EBADF", 8, "bad-descriptor"),
    (Errno::BUSY, "EBUSY", 10, "busy"),
    (Errno::EXIST, "EEXIST", 20, "exist"),
    (Errno::INVAL, "EINVAL", 28, "invalid"),
    (Errno::IO, "EIO", 29, "io"),
    (Errno::ISDIR, "EISDIR", 31, "is-directory"),
    (Errno::LOOP, "ELOOP", 32, "loop"),
    (Errno::NAMETOOLONG, "ENAMETOOLONG", 37, "name-too-long"),
    (Errno::NOENT, "ENOENT", 44, "no-entry"),
    (Errno::NOTDIR, "ENOTDIR", 54, "not-directory"),
    (Errno::NOTEMPTY, "ENOTEMPTY", 55, "not-empty"),
    (Errno::NOTSUP, "ENOTSUP", 58, "unsupported"),
    (Errno::PERM, "EPERM", 63, "not-permitted"),
    (Errno::ROFS, "EROFS", 69, "read-only"),
    (Errno::XDEV, "EXDEV", 75, "cross-device"),
];

fn name(is: impl Fn(&Error) -> bool) -> Option<String> {
    let found = ERRORS.iter().find(|error| is(error));
    found.map(|error| error.1.to_owned())
}

/// The name of a number of preview 1.
#[must_use]
pub fn of_preview1(errno: i32) -> String {
    name(|error| error.2 == errno).unwrap_or_else(|| format!("errno {errno}"))
}

/// The name of an `error-code` of WASI 0.2.
#[must_use]
pub fn of_wasi2(code: &str) -> String {
    name(|error| error.3 == code).unwrap_or_else(|| code.to_owned())
}

/// The name of an error of Linux.
pub(super) fn of_linux(errno: Errno) -> String {
    name(|error| error.0 == errno).unwrap_or_else(|| errno.to_string())
}
