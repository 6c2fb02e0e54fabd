//! [`Snapshot`]: the part of the metadata that only a snapshot has.

use crate::header::HASH_BYTES;
use crate::image::ImageRun;
use serde::{Deserialize, Serialize};

/// The part of a snapshot's initial state that no other part of the metadata can express, and the
/// origin of the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Content hash of the file from `aotc` that the snapshot's code comes from.
    pub of: [u8; HASH_BYTES],
    /// The exports that ran before the snapshot and must not run again, in order. These functions
    /// are no longer exports.
    pub made_by: Vec<String>,
    /// Elements of each table that the module defines, up to the last one that is not null.
    pub tables: Vec<Vec<Element>>,
    /// The runs of the image of each memory after the first that the module defines. The pages
    /// follow the pages of the first memory in [`Section::Image`](crate::sections::Section::Image),
    /// in order.
    pub further: Vec<Vec<ImageRun>>,
}

/// An element of a table of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Element {
    /// `ref.null`
    Null,
    /// The function with this index.
    Func(u32),
    /// An `i31ref`: the low 31 bits of this number.
    I31(i32),
}
