//! [`Budget`]: the compile work that one file may use. Each function draws from the budget, and so
//! does the reading of a component (`component/size.rs`).
//!
//! The limits of single functions (`limits.rs`) allow the largest functions of real programs,
//! and a module may have a million functions. So the work of a whole module is summed up. Each
//! function and each trampoline is charged for its translated IR, before machine code is generated
//! or read from the cache. The result depends only on the module and the settings, not on the order
//! in which threads compile functions.
//!
//! A unit of work is at most a microsecond on a processor of 2020. What the parts of a component
//! take in memory is drawn from the same budget, [`UNIT_BYTES`] a unit. `work.rs` has the prices of
//! functions, and `component/price.rs` has the prices of the parts of a component.
//! `testing/fuzz/checks` searches for modules that cost more than they are charged.

pub(crate) mod work;

use crate::error::CompileError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Units that every module may use.
const FREE: u64 = 1_000_000;

/// Bytes of memory that a unit pays for.
pub(crate) const UNIT_BYTES: u64 = 10;

/// The units that a module has drawn, and their limit.
pub(crate) struct Budget {
    module_bytes: u64,
    limit: u64,
    drawn: AtomicU64,
}

impl Budget {
    /// The budget of a module of `module_bytes` bytes.
    pub(crate) fn new(module_bytes: u64, work_per_byte: u64) -> Self {
        Self {
            module_bytes,
            limit: FREE.saturating_add(module_bytes.saturating_mul(work_per_byte)),
            drawn: AtomicU64::new(0),
        }
    }

    /// The most units that everything in the file together may draw.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The units drawn so far.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed)
    }

    /// Draws the cost of a function, or of a part of a component.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub(crate) fn draw(&self, units: u64) -> Result<(), CompileError> {
        let add = |drawn: u64| Some(drawn.saturating_add(units));
        // The closure always returns `Some`, so this cannot fail.
        let _ = self
            .drawn
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        self.check()
    }

    /// Checks the drawn units against the limit. Once the limit is exceeded, this is the error of
    /// the whole module: errors of single functions would depend on the order of compilation.
    ///
    /// # Errors
    ///
    /// [`CompileError::Work`].
    pub(crate) fn check(&self) -> Result<(), CompileError> {
        if self.drawn() > self.limit {
            return Err(CompileError::Work {
                limit: self.limit,
                module_bytes: self.module_bytes,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_may_be_drawn_and_one_more_not() {
        let budget = Budget::new(10, 100);
        assert_eq!(budget.limit(), FREE + 1000);
        budget.draw(FREE).unwrap();
        budget.draw(1000).unwrap();
        let error = budget.draw(1).unwrap_err().to_string();
        assert!(
            error.contains("1001000") && error.contains("10 bytes"),
            "{error}"
        );
        // The error persists.
        assert!(budget.check().is_err() && budget.draw(0).is_err());
    }

    #[test]
    fn numbers_that_do_not_fit_are_the_largest() {
        let budget = Budget::new(u64::MAX, u64::MAX);
        assert_eq!(budget.limit(), u64::MAX);
        budget.draw(u64::MAX).unwrap();
        budget.draw(u64::MAX).unwrap();
    }
}
