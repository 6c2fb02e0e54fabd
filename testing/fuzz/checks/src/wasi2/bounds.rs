//! The bounds that each call must keep, and the [`Canary`] that breaks one of them.

use std::time::Duration;

/// Most bytes that the host may keep for a guest between two calls: [`HOST_BYTES_MAX`],
/// [`MEMORY_DIR_BYTES`] for files, and 1 MiB for what the account does not count, such as free
/// places of the allocator's blocks.
pub(super) const KEPT_BYTES_MAX: usize = 4 << 20;

/// Most bytes that the host may allocate in addition during one call: the values of the call, of
/// which the check allows [`HOST_BYTES_MAX`], pieces of streams and files, of at most 1 MiB, and
/// buffers of the kernel's calls.
pub(super) const CALL_BYTES_MAX: usize = 8 << 20;

/// The limit of the instance's account (`Linker::host_bytes_max`), as the check sets it.
pub(super) const HOST_BYTES_MAX: usize = 2 << 20;

/// The limit of files in memory, as the check sets it.
pub(super) const MEMORY_DIR_BYTES: u64 = 1 << 20;

/// Most bytes that the host may allocate in a call after its guest was killed: one piece of the
/// largest kind, and the copies of it.
pub(super) const KILLED_BYTES_MAX: usize = 4 << 20;

/// Most times that a call may use the host's data after its guest was killed. `read-directory` uses
/// the data three times, and the first use may kill the guest.
pub(super) const KILLED_USES_MAX: u64 = 2;

/// Most bytes that may be left once the instance and its tasks are dropped. The runtime and the
/// standard library keep some bytes for a thread. Bytes that other threads free count as left, too:
/// a guest can make a thousand syncs until its deadline, and a sync may leave 100 bytes.
pub(super) const LEFT_BYTES_MAX: isize = 512 << 10;

/// Deadline of each call. No check depends on the time that a call takes.
pub(super) const DEADLINE: Duration = Duration::from_millis(5);

/// Deadline of a call of a [`Canary`], which must run on the slowest machine.
pub(super) const CANARY_DEADLINE: Duration = Duration::from_secs(3600);

/// Most host descriptors of one guest: 64 files and 64 sockets, as by default, with directories
/// that the guest is given, and streams and listings that duplicate a descriptor.
pub(super) const DESCRIPTORS_MAX: usize = 64 + 64 + 16;

/// Most time until the host's descriptors of an instance are closed. The timer's thread may have
/// just woken a call that has ended. Until that thread runs again, it holds the call's waker, and
/// with it two descriptors of the executor.
pub(super) const CLOSE_MAX: Duration = Duration::from_secs(600);

/// A host function that breaks a limit on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// Allocates more than `CALL_BYTES_MAX` and `KEPT_BYTES_MAX` allow.
    Memory,
    /// Keeps memory after its guest has ended.
    Leak,
    /// Keeps a descriptor after its guest has ended.
    Descriptors,
    /// Panics.
    Panic,
    /// Allocates more than `KILLED_BYTES_MAX` allows after it has killed its guest.
    Killed,
}

impl Canary {
    /// All canaries.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Leak,
        Self::Descriptors,
        Self::Panic,
        Self::Killed,
    ];

    /// The number of the canary's function for the guest.
    pub(super) fn number(self) -> u32 {
        Self::ALL
            .iter()
            .position(|other| *other == self)
            .unwrap_or(0) as u32
    }
}
