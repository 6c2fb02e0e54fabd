//! [`Tally`]: counts of components and calls.

use std::ops::AddAssign;

/// Counts of components.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Values that passed through a component and back, and values that a guest or the host got.
    pub values: usize,
    /// Components with scripts.
    pub components: usize,
    /// Calls of components with scripts.
    pub calls: usize,
    /// Calls that returned.
    pub returned: usize,
    /// Calls that failed.
    pub trapped: usize,
    /// Calls whose values were too large for an engine. The later calls of such a component are not
    /// compared.
    pub exhausted: usize,
    /// Calls that were compared with those of another engine.
    pub compared: usize,
    /// Damaged components that were refused.
    pub refused: usize,
    /// Damaged components that compiled.
    pub compiled: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.values += other.values;
        self.components += other.components;
        self.calls += other.calls;
        self.returned += other.returned;
        self.trapped += other.trapped;
        self.exhausted += other.exhausted;
        self.compared += other.compared;
        self.refused += other.refused;
        self.compiled += other.compiled;
    }
}
