//! The limits of bases and instances, and the bytes charged for nodes, names and extents.

/// Longest name of a directory entry in bytes, as Linux has it (`NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest path and longest target of a symbolic link in bytes, as Linux has it (`PATH_MAX`).
pub const PATH_BYTES_MAX: usize = 4096;
/// Most symbolic links that one path may follow, as Linux has it (path_resolution(7)).
pub const LINKS_FOLLOWED_MAX: u32 = 40;
/// Largest size of a file in bytes. A file with holes may have this size and use no memory.
pub const FILE_BYTES_MAX: u64 = 1 << 40;

/// Bytes charged for a file or symbolic link that the instance made or opened: its node, and the
/// first node of the map of its extents. The tests in `accounting.rs` check that the charges cover
/// the heap memory.
pub(crate) const NODE_BYTES: u64 = 896;
/// Bytes charged for a directory that the instance made or opened: its node, and the first nodes of
/// the maps that hold its names.
pub(crate) const DIRECTORY_NODE_BYTES: u64 = 1536;
/// Bytes charged for a name, besides the bytes of the name itself.
pub(crate) const NAME_BYTES: u64 = 320;
/// Bytes charged for an entry of the base that the instance opened, replaced or removed.
pub(crate) const CHANGED_BYTES: u64 = 96;
/// Bytes charged for an extent, besides its contents.
pub(crate) const EXTENT_OVERHEAD_BYTES: u64 = 128;

/// The limits of one instance's layer. At a limit, operations fail with
/// [`NoSpace`](crate::FileError::NoSpace).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of host memory: contents of files, names, and bookkeeping. Bytes of the base that the
    /// instance has not changed do not count. 64 MiB by default.
    pub bytes_max: u64,
    /// Files, directories and symbolic links that the instance made and that exist or are open.
    /// Files of the base do not count. 65,536 by default.
    pub files_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes_max: 64 << 20,
            files_max: 1 << 16,
        }
    }
}

/// The limits of a base. Making a larger base is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseLimits {
    /// Bytes in all files and in the targets of all symbolic links together. 1 GiB by default.
    pub bytes_max: u64,
    /// Files, directories and symbolic links, and their further names (hard links). 1,000,000 by
    /// default.
    pub files_max: u64,
    /// Directories from the root to the deepest entry. 128 by default.
    pub depth_max: usize,
}

impl Default for BaseLimits {
    fn default() -> Self {
        Self {
            bytes_max: 1 << 30,
            files_max: 1_000_000,
            depth_max: 128,
        }
    }
}
