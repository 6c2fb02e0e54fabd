//! [`Kept`]: the state of a slot, which outlives the instances in it.

use super::free::ModuleId;
use super::reset::{MemoryBacking, Reach};
use crate::stop::Owned;

/// The index and the state of a slot. The state is either in the free list or in a
/// [`Slot`](super::Slot).
///
/// If a slot on the list is `Of` a module, no byte of its memory beyond the module's initial memory
/// is accessible.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(super) index: u32,
    pub(super) contents: Contents,
    /// Size of the accessible part of memory 0, in bytes.
    pub(super) accessible: usize,
    /// Size of the accessible part of each further memory that the slot has room for, in bytes.
    /// Bytes beyond that part hold the mapped image, or zeros, when they become accessible.
    pub(super) further: Box<[usize]>,
    /// Number of bytes over which the image of each further memory is mapped. Only snapshots have
    /// such images.
    pub(super) further_mapped: Box<[usize]>,
    /// Backing of memory 0.
    pub(super) backing: MemoryBacking,
    /// Tracked part of memory 0.
    pub(super) reach: Reach,
    /// Number of resets in a row that found many more resident pages than changed pages.
    pub(super) idle: u8,
    /// Whether the instance area holds the module's data, except for the parts that instances
    /// change.
    pub(super) warm: bool,
    /// Size in bytes of the largest table since the tables last returned to the kernel.
    pub(super) table_bytes: usize,
    /// Control that stops the slot's instances. Created on first use.
    pub(super) control: Option<Owned>,
}

/// Contents of a slot's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// No contents: the slot was never used, and no byte of the slot is accessible.
    Fresh,
    /// The initial memory of this module.
    Of(ModuleId),
    /// Data that the last instance left, of any module.
    Unknown,
    /// The slot's addresses may be unmapped or have unknown access rights. The slot is never used
    /// again.
    Lost,
}

impl Kept {
    pub(super) fn fresh(index: u32, memories: u32) -> Self {
        Self {
            index,
            contents: Contents::Fresh,
            accessible: 0,
            further: vec![0; memories.saturating_sub(1) as usize].into(),
            further_mapped: vec![0; memories.saturating_sub(1) as usize].into(),
            backing: MemoryBacking::Plain,
            reach: Reach::default(),
            idle: 0,
            warm: false,
            table_bytes: 0,
            control: None,
        }
    }
}
