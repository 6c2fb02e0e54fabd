//! The bounds that each call must keep, and the [`Canary`] that breaks one of them.

use super::world::GIVEN;
use std::time::Duration;

/// Most bytes that the host may allocate during one call.
pub const HOST_BYTES_MAX: usize = 1 << 20;
/// Deadline of each call.
pub const DEADLINE: Duration = Duration::from_millis(20);
/// Deadline of a call of a [`Canary`], which must run on the slowest machine.
pub(super) const CANARY_DEADLINE: Duration = Duration::from_secs(3600);
/// Most time that a call may take past its deadline, without the time in which its thread waited
/// for a processor. It is large because the disk may be busy, and the machine emulated.
pub const LATE_MAX: Duration = Duration::from_secs(2);
/// Most host descriptors of one context: those that the guest opens, and those that it is given.
pub const DESCRIPTORS_MAX: usize = 64 + GIVEN;

/// A host function that breaks a limit on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// Allocates more than [`HOST_BYTES_MAX`].
    Memory,
    /// Takes longer than [`DEADLINE`] and [`LATE_MAX`].
    Time,
    /// Keeps a descriptor after its guest has ended.
    Descriptors,
}
