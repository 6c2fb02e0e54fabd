//! [`Region`]: one set of slots, reserved at once.

mod builder;
mod stats;
pub(crate) mod free;
mod kept;
pub(crate) mod layout;
mod parts;
mod pool;
mod rebuild;
pub(crate) mod reset;
mod slot;
mod take;

use crate::module::Module;
pub use builder::{RegionBuilder, RegionError};
use core::sync::atomic::Ordering;
pub(crate) use free::WaitLimit;
pub(crate) use layout::Limits;
use pirn_format::types::MemoryType;
pub use pool::Region;
pub use reset::Reset;
pub(crate) use slot::Slot;
pub use stats::RegionStats;
pub(crate) use take::TakeError;

impl Region {
    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Maximum number of nested calls of an instance or group that run at one time.
    pub(crate) fn nested_calls_max(&self) -> u32 {
        self.0.nested_calls_max
    }

    /// Number of slots that are free at this moment.
    #[must_use]
    pub fn slots_free(&self) -> usize {
        self.0.free.len()
    }

    /// Returns the limits, the current state and the reset strategy of the region.
    #[must_use]
    pub fn describe(&self) -> RegionStats {
        RegionStats {
            limits: self.0.limits,
            slots_free: self.slots_free(),
            slots_lost: self.0.lost.load(Ordering::Relaxed),
            resets_failed: self.0.failed.load(Ordering::Relaxed),
            reset: self.0.reset.name(),
            refused: self.0.refused.clone(),
            slot_bytes: self.0.layout.bytes(),
        }
    }

    /// Number of bytes that an instance of `module` can write to when it starts.
    pub(crate) fn writable_bytes(&self, module: &Module) -> u64 {
        let memories = module.own_memories().iter();
        let bytes: u64 = memories.filter_map(MemoryType::accessible_bytes).sum();
        self.0.layout.fixed().len() as u64 + bytes
    }
}
