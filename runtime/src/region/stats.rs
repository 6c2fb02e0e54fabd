//! [`RegionStats`]: the settings and the statistics of a region.

use super::layout::Limits;
use super::reset::Reset;
use core::fmt;

/// A readable description of a region, printed by its `Display`.
#[derive(Debug, Clone)]
pub struct RegionStats {
    pub(super) limits: Limits,
    pub(super) slots_free: usize,
    pub(super) slots_lost: u32,
    pub(super) resets_failed: u32,
    pub(super) reset: Reset,
    pub(super) refused: Vec<(Reset, String)>,
    pub(super) slot_bytes: usize,
}

impl RegionStats {
    /// The strategy that resets slots.
    #[must_use]
    pub fn reset(&self) -> Reset {
        self.reset
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.limits.slots
    }

    /// Number of slots that are never used again.
    ///
    /// A slot is lost if the kernel fails while it changes the slot's mappings. A slot is also lost
    /// if the kernel refuses to change access rights and then to restore the old rights.
    #[must_use]
    pub fn slots_lost(&self) -> u32 {
        self.slots_lost
    }

    /// Number of resets that failed because the kernel refused a system call.
    ///
    /// The next instance gets the slot of a failed reset only after the slot's memory is rebuilt
    /// from scratch.
    #[must_use]
    pub fn resets_failed(&self) -> u32 {
        self.resets_failed
    }
}

impl fmt::Display for RegionStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits {
            slots,
            memories,
            memory_bytes_max,
            tables,
            table_elements,
            stack_bytes,
            instance_bytes,
        } = self.limits;
        let kib = |bytes: usize| bytes >> 10;
        let memory = match memories {
            1 => "memory".to_owned(),
            many => format!("{many} memories"),
        };
        write!(
            f,
            "{slots} slots ({} free) of {} MiB of address space: {memory} up to {} KiB, {tables} \
             tables of {table_elements} elements, stack {} KiB, instance data {} KiB; reset {}",
            self.slots_free,
            self.slot_bytes >> 20,
            kib(memory_bytes_max),
            kib(stack_bytes),
            kib(instance_bytes),
            self.reset,
        )?;
        for (reset, why) in &self.refused {
            write!(f, "; {reset} does not work: {why}")?;
        }
        for (count, what) in [
            (self.resets_failed, "resets failed"),
            (self.slots_lost, "slots lost"),
        ] {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        Ok(())
    }
}
