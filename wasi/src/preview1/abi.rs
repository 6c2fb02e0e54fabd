//! Names, sizes and layouts that preview 1 defines.
//!
//! Source: `wasi_snapshot_preview1.witx`, and `wasi_unstable.witx` for preview 0.

/// Name of the module from which guests import preview 1.
pub const MODULE: &str = "wasi_snapshot_preview1";
/// Name of the module from which old guests import preview 0.
pub(crate) const MODULE_OLD: &str = "wasi_unstable";

/// The version of the functions that a guest imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// `wasi_unstable`: preview 1 with another layout of `filestat` and `subscription`, and other
    /// numbers for the start of a seek.
    Preview0,
    Preview1,
}

impl Version {
    pub(crate) const ALL: [Self; 2] = [Self::Preview0, Self::Preview1];

    /// The name of the module.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Self::Preview0 => MODULE_OLD,
            Self::Preview1 => MODULE,
        }
    }
}

/// Length and alignment of a result, in bytes.
pub(crate) type Layout = (u32, u32);
pub(crate) const NUMBER: Layout = (4, 4);
pub(crate) const TIME: Layout = (8, 8);
pub(crate) const FILE_SIZE: Layout = (8, 8);
pub(crate) const FDSTAT: Layout = (24, 8);
pub(crate) const PRESTAT: Layout = (8, 4);
pub(crate) const FLAGS: Layout = (2, 2);

/// Bytes of a `dirent`. The name follows it.
pub(crate) const DIRENT_BYTES: usize = 24;
/// Bytes of an `event`, a result of `poll_oneoff`.
pub(crate) const EVENT_BYTES: usize = 32;
/// Bytes of a vector: the address and the length of a buffer.
pub(crate) const VECTOR_BYTES: u32 = 8;

/// Most bytes of a path, as on Linux (`PATH_MAX`, path_resolution(7)).
pub(crate) const PATH_MAX: u32 = 4096;
/// Most vectors that a call uses (Linux's `IOV_MAX`, readv(2)).
///
/// Later vectors are neither sent nor filled. The result is the number of transferred bytes. If the
/// used vectors have no bytes, a result of 0 would look like the end of a file. The errno is then
/// `inval`, as for readv(2).
pub(crate) const VECTORS_MAX: u32 = 1024;
/// Most bytes that a call transfers; a Linux system call has the same limit (read(2)).
pub(crate) const CALL_BYTES_MAX: u64 = 0x7fff_f000;
/// Most subscriptions of one call.
pub(crate) const SUBSCRIPTIONS_MAX: u32 = 1024;
