//! The sections of a compiled module, in the order of their numbers in the header.

use crate::layout::IMAGE_PAGE_BYTES;

/// What an ADRP counts in, in bytes: code for aarch64 has addresses in the text by it, so it runs
/// nowhere but at a multiple.
pub const ADRP_BYTES: u64 = 1 << 12;

/// A part of a compiled module, found through the header's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Section {
    /// Machine code. Text offsets are from its start.
    Text = 0,
    /// Array of [`CodeEntry`](crate::traps::CodeEntry), ascending: all code that lies in the text.
    Code = 1,
    /// Array of [`TrapEntry`](crate::traps::TrapEntry), ascending: instructions that may fault.
    Traps = 2,
    /// Array of [`SiteEntry`](crate::traps::SiteEntry), ascending: text offsets whose WebAssembly
    /// offset is known.
    Sites = 3,
    /// Array of [`ImageRun`](crate::image::ImageRun), ascending: the pages of the initial memory.
    ImageRuns = 4,
    /// The bytes of those pages, one run behind the other, aligned in memory and file to the largest
    /// page of the target's kernels.
    Image = 5,
    /// Bytes of data segments that are not in the image.
    Data = 6,
    /// [`Metadata`](crate::metadata::Metadata), encoded.
    Metadata = 7,
    /// Array of [`HandlerEntry`](crate::traps::HandlerEntry), ascending: calls behind which exceptions are caught.
    Handlers = 8,
}

impl Section {
    /// All sections, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Text,
        Self::Code,
        Self::Traps,
        Self::Sites,
        Self::ImageRuns,
        Self::Image,
        Self::Data,
        Self::Metadata,
        Self::Handlers,
    ];

    /// Name of the section in the ELF file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => ".text",
            Self::Code => ".pirn.code",
            Self::Traps => ".pirn.traps",
            Self::Sites => ".pirn.sites",
            Self::ImageRuns => ".pirn.imageruns",
            Self::Image => ".pirn.image",
            Self::Data => ".pirn.data",
            Self::Metadata => ".pirn.metadata",
            Self::Handlers => ".pirn.handlers",
        }
    }

    /// Alignment in memory that its readers rely on, in bytes.
    #[must_use]
    pub const fn align(self) -> u64 {
        match self {
            Self::Text => ADRP_BYTES,
            Self::Image => IMAGE_PAGE_BYTES,
            Self::Code | Self::Traps | Self::Sites | Self::ImageRuns | Self::Handlers => 4,
            Self::Data | Self::Metadata => 1,
        }
    }
}

/// Where a section lies, relative to the lowest address of the mapped object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// Virtual address, 0 for the start of the object.
    pub vaddr: u64,
    /// Bytes.
    pub len: u64,
}
