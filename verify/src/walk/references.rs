//! What instructions of both architectures compute of references.

use super::{Machine, Step};
use crate::external::{self, Operation};
use crate::value::{Symbol, Value};

impl<'m, M: Machine<'m>> Step<'_, 'm, M> {
    /// What an operation of 64 bits computes of a reference that it converts between externref and
    /// anyref.
    pub(crate) fn part(
        &mut self,
        operation: Operation,
        left: Value,
        right: Value,
        fresh: Symbol,
    ) -> Option<Value> {
        let part = external::computed(self.state, operation, left, right, fresh)?;
        // What is known of the reference may change each register and word of the frame.
        self.walk.count(self.state.words());
        Some(part)
    }
}
