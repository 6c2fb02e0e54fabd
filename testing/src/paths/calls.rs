//! The calls: every operation on every kind of path.

use crate::campaign::{every, sampled};

/// How a path is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct How {
    /// What the guest may do with the file.
    pub access: Access,
    /// `O_CREAT`.
    pub creates: bool,
    /// `O_EXCL`.
    pub is_exclusive: bool,
    /// `O_TRUNC`.
    pub truncates: bool,
    /// `O_DIRECTORY`.
    pub is_directory: bool,
    /// `O_APPEND`.
    pub appends: bool,
    /// Not `O_NOFOLLOW`.
    pub follows: bool,
}

/// Access to an opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `O_RDONLY`.
    Read,
    /// `O_WRONLY`.
    Write,
    /// `O_RDWR`.
    Both,
}

impl Access {
    /// Whether the file can be read.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether the file can be written.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// A call with paths. The answer of a call that is not described here is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Opens a path. The answer is the same as the answer of `Stat` for the open file or directory.
    /// If a file is open to read, its first 16 bytes follow. If a file is open to write, the call
    /// then writes `+` at the descriptor's position.
    Open {
        /// Flags and access.
        how: How,
        /// The path.
        path: String,
    },
    /// mkdir(2).
    CreateDirectory(String),
    /// rmdir(2).
    RemoveDirectory(String),
    /// unlink(2).
    Unlink(String),
    /// rename(2).
    Rename(String, String),
    /// linkat(2). The answer is the same as the answer of `Stat` for the new path. A symbolic link
    /// at the new path is not followed.
    Link {
        /// `AT_SYMLINK_FOLLOW`.
        follow: bool,
        /// The existing path.
        from: String,
        /// The new path.
        to: String,
    },
    /// symlink(2).
    Symlink {
        /// The content of the link.
        target: String,
        /// The new path.
        path: String,
    },
    /// readlink(2). The answer is the content of the link.
    ReadLink(String),
    /// stat(2), or lstat(2). The answer is "directory", "link of SIZE bytes" or "file of SIZE
    /// bytes, NUMBER links".
    Stat {
        /// Not `AT_SYMLINK_NOFOLLOW`.
        follow: bool,
        /// The path.
        path: String,
    },
    /// utimensat(2), which sets both times to [`TOUCHED_S`](super::TOUCHED_S).
    SetTimes {
        /// Not `AT_SYMLINK_NOFOLLOW`.
        follow: bool,
        /// The path.
        path: String,
    },
}

impl Call {
    /// The paths of the call, without the target of a symbolic link.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Self::Rename(from, to) | Self::Link { from, to, .. } => vec![from, to],
            Self::CreateDirectory(path)
            | Self::RemoveDirectory(path)
            | Self::Unlink(path)
            | Self::ReadLink(path)
            | Self::Open { path, .. }
            | Self::Symlink { path, .. }
            | Self::Stat { path, .. }
            | Self::SetTimes { path, .. } => vec![path],
        }
    }
}

/// Every kind of entry: a file, a directory, an empty one, nothing, and links to each of them.
const NAMES: [&str; 11] = [
    "file",
    "dir",
    "empty",
    "none",
    "to-file",
    "to-dir",
    "to-none",
    "loop",
    "to-file-slash",
    "to-dir-slash",
    "to-none-slash",
];

/// Ends of a path.
const ENDS: [&str; 5] = ["", "/", "//", "/.", "/.."];

/// Paths with more than one name.
const INSIDE: [&str; 20] = [
    "",
    ".",
    "./",
    "dir/inner",
    "dir//inner",
    "dir/./inner",
    "./dir/inner/",
    "dir/../file",
    "dir/../none",
    "dir/none",
    "dir/none/",
    "to-dir/inner",
    "to-dir/none",
    "to-dir/../file",
    "file/none",
    "file/../file",
    "none/none",
    "none/../file",
    "loop/none",
    "to-none/none",
];

/// Paths of each kind.
fn paths() -> Vec<String> {
    let ends = NAMES
        .iter()
        .flat_map(|name| ENDS.map(|end| format!("{name}{end}")));
    ends.chain(INSIDE.map(String::from)).collect()
}

/// Every operation but opening.
fn operations(path: &str) -> Vec<Call> {
    let path = || path.to_owned();
    let mut calls = vec![
        Call::CreateDirectory(path()),
        Call::RemoveDirectory(path()),
        Call::Unlink(path()),
        Call::ReadLink(path()),
    ];
    for follow in [false, true] {
        calls.push(Call::Stat {
            follow,
            path: path(),
        });
        calls.push(Call::SetTimes {
            follow,
            path: path(),
        });
        calls.push(Call::Link {
            follow,
            from: path(),
            to: "none".to_owned(),
        });
    }
    for target in ["file", "", "/file", "../file"] {
        calls.push(Call::Symlink {
            target: target.to_owned(),
            path: path(),
        });
    }
    for other in ["file", "dir", "empty", "to-dir", "none"] {
        calls.push(Call::Rename(other.to_owned(), path()));
        if other != "dir" && other != "to-dir" {
            calls.push(Call::Link {
                follow: false,
                from: other.to_owned(),
                to: path(),
            });
        }
    }
    for other in ["none", "none/", "empty", "hard"] {
        calls.push(Call::Rename(path(), other.to_owned()));
    }
    calls
}

/// Every combination of flags.
fn ways() -> impl Iterator<Item = How> {
    let accesses = [Access::Read, Access::Write, Access::Both];
    accesses.into_iter().flat_map(|access| {
        (0..64).map(move |bits| How {
            access,
            creates: bits & 1 != 0,
            is_exclusive: bits & 2 != 0,
            truncates: bits & 4 != 0,
            is_directory: bits & 8 != 0,
            appends: bits & 16 != 0,
            follows: bits & 32 == 0,
        })
    })
}

/// Of the calls that open a path, one of this number runs by default.
const OPENED: usize = 7;

/// All calls: each operation on each path, and each path but some opened in each way. By default,
/// only a sample of the calls that open a path.
pub fn calls() -> Vec<Call> {
    let mut calls: Vec<_> = paths().iter().flat_map(|path| operations(path)).collect();
    let ends = NAMES
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("{name}/")]);
    let inside = ["", ".", "dir/..", "dir/inner", "to-dir/none", "file/none"];
    let opened = ends.chain(inside.map(String::from)).flat_map(|path| {
        ways().map(move |how| Call::Open {
            how,
            path: path.clone(),
        })
    });
    calls.extend(sampled(opened, OPENED, 0));
    calls
}

/// Whether [`calls`] returns enough calls to show each kind of difference.
pub(super) fn is_complete() -> bool {
    every(OPENED) <= OPENED
}
