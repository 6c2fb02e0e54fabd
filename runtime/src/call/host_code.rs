//! [`HostCode`]: the code of a host function, as a running call uses it.

use super::caller::Caller;
use crate::error::HostError;
use crate::value::Cell;

/// The implementation of a host function.
pub(crate) trait HostCode<T>: Send + Sync + 'static {
    /// Number of cells that the function gets: the larger of its numbers of parameters and results.
    fn cells(&self) -> usize;

    /// Reads the parameters from the cells, and writes the results to them.
    ///
    /// # Errors
    ///
    /// Why the guest must be left.
    fn call(&self, caller: Caller<'_, T>, cells: &mut [Cell]) -> Result<Answered, HostError>;
}

/// The answer of a host function.
///
/// The answer is a whole word, because a byte store followed by a word load defeats store
/// forwarding. The load would wait some 4 ns for the store to reach the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Answered {
    /// The results are in the cells.
    Done,
    /// The guest waits: its results will be in the cells later.
    Later,
}
