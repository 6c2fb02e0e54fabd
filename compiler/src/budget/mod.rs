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
//! functions, and `component/price.rs` has the prices of the parts of a component. Generating
//! machine code takes memory only while a thread works on a function, so nothing is drawn for that
//! memory. Instead, a thread waits while other threads have all that the limit pays for
//! ([`Budget::occupy`]).
//! `testing/fuzz/checks` searches for modules that cost more than they are charged.

pub(crate) mod work;

use crate::error::CompileError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Units that every module may use.
const FREE: u64 = 1_000_000;

/// Bytes of memory that a unit pays for.
pub(crate) const UNIT_BYTES: u64 = 10;

/// The units that a module has drawn, and their limit.
pub(crate) struct Budget {
    module_bytes: u64,
    limit: u64,
    drawn: AtomicU64,
    /// Bytes that the functions take for which threads generate machine code now.
    occupied_bytes: Mutex<u64>,
    vacated: Condvar,
}

/// Bytes of memory that a thread has for a function, until the value is dropped.
pub(crate) struct Occupied<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        *self.budget.occupied() -= self.bytes;
        self.budget.vacated.notify_all();
    }
}

impl Budget {
    /// The budget of a module of `module_bytes` bytes.
    pub(crate) fn new(module_bytes: u64, work_per_byte: u64) -> Self {
        Self {
            module_bytes,
            limit: FREE.saturating_add(module_bytes.saturating_mul(work_per_byte)),
            drawn: AtomicU64::new(0),
            occupied_bytes: Mutex::new(0),
            vacated: Condvar::new(),
        }
    }

    /// Waits until the limit pays for `bytes` bytes and for the bytes that other threads occupy. A
    /// function that takes more than the limit pays for waits until no other thread has a function.
    /// So the memory for machine code follows the size of the module and of its largest function,
    /// not the number of threads. The calling thread must not occupy two functions at a time.
    pub(crate) fn occupy(&self, bytes: u64) -> Occupied<'_> {
        let most = self.limit.saturating_mul(UNIT_BYTES);
        let is_full = |occupied: &mut u64| *occupied > 0 && occupied.saturating_add(bytes) > most;
        let occupied = self.vacated.wait_while(self.occupied(), is_full);
        // At most the sum of a few functions, so it does not overflow.
        *occupied.unwrap_or_else(PoisonError::into_inner) += bytes;
        Occupied {
            budget: self,
            bytes,
        }
    }

    /// The lock is held for single additions, which leave no partial state.
    fn occupied(&self) -> MutexGuard<'_, u64> {
        self.occupied_bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
    fn functions_wait_for_memory_and_one_alone_never_waits() {
        let budget = Budget::new(0, 0);
        let half = FREE * UNIT_BYTES / 2;
        let (first, second) = (budget.occupy(half), budget.occupy(half));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // More than the whole limit.
                let alone = budget.occupy(u64::MAX);
                sender.send(*budget.occupied()).unwrap();
                drop(alone);
            });
            drop(first);
            // The other thread cannot have sent anything while this one has the second half.
            assert!(receiver.try_recv().is_err());
            drop(second);
            assert_eq!(receiver.recv().unwrap(), u64::MAX);
        });
        assert_eq!(*budget.occupied(), 0);
    }

    #[test]
    fn numbers_that_do_not_fit_are_the_largest() {
        let budget = Budget::new(u64::MAX, u64::MAX);
        assert_eq!(budget.limit(), u64::MAX);
        budget.draw(u64::MAX).unwrap();
        budget.draw(u64::MAX).unwrap();
    }
}
