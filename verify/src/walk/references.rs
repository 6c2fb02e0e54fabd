//! Conversions of references between externref and anyref, on both architectures.

use super::{Machine, Step};
use crate::external::{self, Operation};
use crate::value::{Symbol, Value};

impl<'m, M: Machine<'m>> Step<'_, 'm, M> {
    /// The result of a 64-bit operation that converts a reference between externref and anyref.
    /// `None` for other operations.
    pub(crate) fn part(
        &mut self,
        operation: Operation,
        left: Value,
        right: Value,
        fresh: Symbol,
    ) -> Option<Value> {
        let part = external::computed(self.state, operation, left, right, fresh)?;
        // New knowledge about the reference may change each register and word of the frame.
        self.walk.count(self.state.words());
        Some(part)
    }
}
