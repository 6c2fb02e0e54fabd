//! [`Lines`]: the interface of the routines for one instruction set.

/// Number of bytes that are compared at a time, and stored if they differ.
pub(super) const LINE: usize = 64;

/// Makes `page` equal to `initial`, and returns whether the pages differed.
///
/// Both pages have [`PAGE`](crate::region::reset::memory0::PAGE) bytes and must not overlap. `page`
/// must be writable and aligned to [`LINE`], and no other thread may use `page`. A routine with
/// `ZEROS` set does not read `initial`, and makes `page` zero.
pub(super) type PutBack = unsafe fn(page: *mut u8, initial: *const u8) -> bool;

/// Routines for this processor.
#[derive(Clone, Copy)]
pub(in crate::region) struct Lines {
    pub(super) name: &'static str,
    pub(super) restore: PutBack,
    /// Restores a page to zeros.
    pub(super) clear: PutBack,
}
