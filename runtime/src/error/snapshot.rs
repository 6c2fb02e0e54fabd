//! [`SnapshotError`]: why an instance gives no snapshot.

use super::StateError;
use std::io;
use thiserror::Error;

/// Why an instance gives no snapshot. The instance has ended, and its slot is free.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A call of the instance is suspended.
    #[error(transparent)]
    State(#[from] StateError),
    /// A call has ended with an error, or was cancelled: the guest may have stopped in the middle
    /// of a change of its state.
    #[error(
        "a call of the instance failed, so its state may be half changed; take the snapshot of an \
         instance whose calls have all returned"
    )]
    Failed,
    /// The module does not export a function that the caller names as the maker of the state.
    #[error("there is no exported function {name:?} to remove, only {exports}; name one of them")]
    NoExport {
        /// The name.
        name: String,
        /// The exported functions, or the first few of them.
        exports: String,
    },
    /// The module imports a shared memory, which belongs to the host.
    #[error(
        "memory {index} is a shared memory of the host, and a snapshot holds only memories that \
         its module defines; compile the guest without threads"
    )]
    SharedMemory {
        /// Index of the memory.
        index: u32,
    },
    /// A part of the state refers to an object that no other instance has.
    #[error(
        "{place} refers to {found}, but a snapshot holds only functions of its module and i31; \
         clear the reference, or drop the segment"
    )]
    Reference {
        /// The global, the element of a table, or the element segment.
        place: String,
        /// The kind of the value at that place, in words.
        found: &'static str,
    },
    /// This process is a fork that did not inherit the memory of the instance.
    #[error(
        "memory of the instance belongs to the parent process; take the snapshot before the fork"
    )]
    Fork,
    /// The system refused memory for the image.
    #[error("cannot make the image of the snapshot: {0}; free memory or file descriptors")]
    System(#[from] io::Error),
}
