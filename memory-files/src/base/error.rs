//! [`BaseError`]: why a base could not be made.

use core::fmt;
use std::io;
use thiserror::Error;

/// Most characters of a path that a message shows.
const SHOWN_CHARS_MAX: usize = 512;

/// A path of a hostile source, on one line, and cut if it is long. Control characters, separators
/// of lines and invisible characters are escaped as in a Rust string. `pirn_format::text` escapes
/// no other characters. This crate depends on no other crate of the repository, so it cannot use
/// that function.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars().take(SHOWN_CHARS_MAX) {
            match char {
                '\'' | '"' | '\\' => write!(f, "{char}")?,
                _ => write!(f, "{}", char.escape_debug())?,
            }
        }
        match self.0.chars().nth(SHOWN_CHARS_MAX) {
            Some(_) => f.write_str("..."),
            None => Ok(()),
        }
    }
}

/// Why a base could not be made of a directory or an archive.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BaseError {
    /// The directory or the archive cannot be read.
    #[error("{shown}: {error}", shown = Shown(path))]
    Io {
        /// The entry, or the archive's part.
        path: String,
        /// The error of the system or of the archive's reader. The message contains its text, so it
        /// is not the error's source.
        error: io::Error,
    },
    /// An entry is neither file, directory nor symbolic link.
    #[error(
        "{shown} is a {kind}; a base holds files, directories and symbolic links",
        shown = Shown(path)
    )]
    Kind {
        /// The entry.
        path: String,
        /// The kind of the entry.
        kind: &'static str,
    },
    /// An entry's name is not UTF-8.
    #[error("{shown} is not UTF-8; rename it", shown = Shown(path))]
    Name {
        /// The name, with replacement characters.
        path: String,
    },
    /// An entry's path leads out of the tree, or a name is too long.
    #[error("{shown} {problem}", shown = Shown(path))]
    Path {
        /// The entry.
        path: String,
        /// The defect of the path.
        problem: &'static str,
    },
    /// Two entries of an archive have the same path.
    #[error("{shown} occurs twice; remove one of the two", shown = Shown(path))]
    Duplicate {
        /// The path.
        path: String,
    },
    /// A part of an entry's path, or a hard link's target, is missing or has the wrong kind.
    #[error(
        "{shown}: {shown_part} is no {wanted} of this tree",
        shown = Shown(path),
        shown_part = Shown(part)
    )]
    Parent {
        /// The entry.
        path: String,
        /// The part of its path, or the target.
        part: String,
        /// The kind that the part must have.
        wanted: &'static str,
    },
    /// An entry has fewer bytes than it announced.
    #[error(
        "{shown} has {found} bytes, {expected} were announced; the source is cut or changing",
        shown = Shown(path)
    )]
    Size {
        /// The entry.
        path: String,
        /// Bytes that were announced.
        expected: u64,
        /// Bytes that were read.
        found: u64,
    },
    /// A limit is reached.
    #[error("more than {max} {what} at {shown}; raise {limit}", shown = Shown(path))]
    Limit {
        /// The entry.
        path: String,
        /// The counted things, in the words of the message.
        what: &'static str,
        /// The limit.
        max: u64,
        /// The name of the limit in [`BaseLimits`](crate::BaseLimits).
        limit: &'static str,
    },
    /// The archive is compressed.
    #[error("the archive is compressed by {by}; decompress it")]
    Compressed {
        /// The format.
        by: &'static str,
    },
}
