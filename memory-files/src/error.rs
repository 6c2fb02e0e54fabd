//! [`FileError`]: why an operation on files in memory failed, in the terms of POSIX.

use thiserror::Error;

/// Why an operation failed. Each variant names the errno of POSIX that a guest sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FileError {
    /// `ENOENT`: a component of the path does not exist, or the directory was removed.
    #[error("no such file or directory")]
    NotFound,
    /// `EEXIST`: the path exists already.
    #[error("the path exists already")]
    Exists,
    /// `ENOTDIR`: a component of the path is no directory.
    #[error("not a directory")]
    NotDirectory,
    /// `EISDIR`: the operation needs a file, and the path names a directory.
    #[error("is a directory")]
    IsDirectory,
    /// `ENOTEMPTY`: the directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// `ELOOP`: the path has too many symbolic links, or ends in a link that may not be followed.
    #[error("too many symbolic links")]
    Loop,
    /// `ENAMETOOLONG`: a name or a path exceeds its limit.
    #[error("the name is too long")]
    NameTooLong,
    /// `ENOSPC`: the instance's limit of bytes or files is reached.
    #[error("no space left in the memory files")]
    NoSpace,
    /// `EFBIG`: the file would exceed [`FILE_BYTES_MAX`](crate::FILE_BYTES_MAX).
    #[error("the file is too large")]
    TooLarge,
    /// `EINVAL`: an argument that the operation does not allow.
    #[error("invalid argument")]
    Invalid,
    /// `EBUSY`: the path names the directory itself, by `.` or `..`.
    #[error("the directory is in use")]
    Busy,
    /// `EROFS`: the directory was opened read-only.
    #[error("read-only files")]
    ReadOnly,
    /// `EPERM`: the path leads out of the directory, or the operation is never allowed.
    #[error("operation not permitted")]
    NotPermitted,
    /// `EBADF`: the file was not opened for the operation.
    #[error("the file is not open for this")]
    BadDescriptor,
    /// `EXDEV`: the two paths belong to different instances.
    #[error("the paths belong to different trees")]
    CrossDevice,
}
