//! The sections of a compiled module, in the order of their numbers in the header.

use crate::layout::IMAGE_PAGE_BYTES;

/// Bytes of the page that is the unit of the aarch64 instruction ADRP.
///
/// AArch64 code addresses the text with ADRP. Therefore the text must be loaded at a multiple of
/// this size.
pub const ADRP_BYTES: u64 = 1 << 12;

/// A part of a compiled module. The header has a table of the positions of all sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Section {
    /// Machine code. Text offsets count from the start of this section.
    Text = 0,
    /// Array of [`CodeEntry`](crate::traps::CodeEntry), ascending: all functions, trampolines and
    /// stubs in the text.
    Code = 1,
    /// Array of [`TrapEntry`](crate::traps::TrapEntry), ascending: instructions that may fault.
    Traps = 2,
    /// Array of [`SiteEntry`](crate::traps::SiteEntry), ascending: the address map from text
    /// offsets to WebAssembly offsets.
    Sites = 3,
    /// Array of [`ImageRun`](crate::image::ImageRun), ascending: which pages of the initial memory
    /// the image holds.
    ImageRuns = 4,
    /// The bytes of the image's pages, one run after the other. Aligned in memory and file to the
    /// largest page size of the target's kernels.
    Image = 5,
    /// Bytes of data segments that are not part of the image.
    Data = 6,
    /// [`Metadata`](crate::metadata::Metadata), encoded.
    Metadata = 7,
    /// Array of [`HandlerEntry`](crate::traps::HandlerEntry), ascending: calls inside a `try`
    /// block, with their landing pads.
    Handlers = 8,
    /// Array of [`InlinedEntry`](crate::traps::InlinedEntry), ascending: the inlined functions that
    /// contain the instructions of the address map.
    Inlined = 9,
}

impl Section {
    /// All sections, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Text,
        Self::Code,
        Self::Traps,
        Self::Sites,
        Self::ImageRuns,
        Self::Image,
        Self::Data,
        Self::Metadata,
        Self::Handlers,
        Self::Inlined,
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
            Self::Inlined => ".pirn.inlined",
        }
    }

    /// Alignment in memory that readers of the section rely on, in bytes.
    #[must_use]
    pub const fn align(self) -> u64 {
        match self {
            Self::Text => ADRP_BYTES,
            Self::Image => IMAGE_PAGE_BYTES,
            Self::Code
            | Self::Traps
            | Self::Sites
            | Self::ImageRuns
            | Self::Handlers
            | Self::Inlined => 4,
            Self::Data | Self::Metadata => 1,
        }
    }
}

/// Position of a section, relative to the lowest address of the mapped object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// Virtual address; 0 is the start of the object.
    pub vaddr: u64,
    /// Bytes.
    pub len: u64,
}
