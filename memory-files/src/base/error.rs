//! [`BaseError`]: why a base could not be made.

use std::io;
use thiserror::Error;

/// Why a base could not be made of a directory or an archive.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BaseError {
    /// The directory or the archive cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The entry, or the archive's part.
        path: String,
        /// What the system or the archive's reader said.
        source: io::Error,
    },
    /// An entry is neither file, directory nor symbolic link.
    #[error("{path} is a {kind}; a base holds files, directories and symbolic links")]
    Kind {
        /// The entry.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// An entry's name is not UTF-8.
    #[error("{path} is not UTF-8; rename it")]
    Name {
        /// The name, with replacement characters.
        path: String,
    },
    /// An entry's path leads out of the tree, or a name is too long.
    #[error("{path} {problem}")]
    Path {
        /// The entry.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two entries of an archive have the same path.
    #[error("{path} occurs twice; remove one of the two")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// A part of an entry's path, or the target of a hard link, is no such thing.
    #[error("{path}: {part} is no {wanted} of this tree")]
    Parent {
        /// The entry.
        path: String,
        /// The part of its path, or the target.
        part: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// An entry has fewer bytes than it announced.
    #[error("{path} has {found} bytes, {expected} were announced; the source is cut or changing")]
    Size {
        /// The entry.
        path: String,
        /// Bytes that were announced.
        expected: u64,
        /// Bytes that were read.
        found: u64,
    },
    /// A limit is reached.
    #[error("more than {max} {what} at {path}; raise {limit}")]
    Limit {
        /// The entry.
        path: String,
        /// What is counted.
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
