//! [`Budget`]: the work that one module may ask of the compiler, from which each of its functions
//! draws.
//!
//! Limits of single functions (`parse/limits.rs`) have room for the largest functions of real
//! programs, and a module may have a million functions. So all that a module makes into code is
//! summed up: each function, and each trampoline, is charged for what it is as translated, before
//! machine code is made or taken from the cache. The answer depends on the module and the settings
//! alone, in whatever order threads take its functions.
//!
//! A unit of work is a microsecond, or less, of a processor of 2020. `work.rs` has the prices,
//! `fuzz/checks` the search for modules that cost more than they are charged.

use crate::error::CompileError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Units that every module may ask for.
const FREE: u64 = 1_000_000;

/// What a module asks of the compiler, in units, and how much it may.
pub(crate) struct Budget {
    module_bytes: u64,
    limit: u64,
    drawn: AtomicU64,
}

impl Budget {
    /// That of a module of so many bytes.
    pub(crate) fn new(module_bytes: u64, work_per_byte: u64) -> Self {
        Self {
            module_bytes,
            limit: FREE.saturating_add(module_bytes.saturating_mul(work_per_byte)),
            drawn: AtomicU64::new(0),
        }
    }

    /// The most units that may be drawn, by all functions together.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Units that were drawn.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed)
    }

    /// Draws what a function costs.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub(crate) fn draw(&self, units: u64) -> Result<(), CompileError> {
        let add = |drawn: u64| Some(drawn.saturating_add(units));
        // The closure gives a value for any, so this cannot fail.
        let _ = self
            .drawn
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        self.check()
    }

    /// Whether no more was drawn than may be. Once more was, this is the error of the whole module:
    /// what other functions fail with depends on which of them were looked at before.
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
        // It stays so.
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
