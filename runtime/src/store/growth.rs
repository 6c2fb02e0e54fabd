//! [`Growth`]: requests of memories and tables to grow, and the embedder's decisions about them.

use core::fmt;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// The object that must grow. An index counts the objects of the instance whose limiter is asked,
/// imports first, as in the text of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Growing {
    /// A memory, by its index in the instance that defines it, even if another instance of a group
    /// grows it.
    Memory(u32),
    /// A shared memory of the host, by its index in the instance that grows it.
    SharedMemory(u32),
    /// A table, by its index in the instance that defines it, even if another instance of a group
    /// grows it.
    Table(u32),
    /// The heap of an instance's structs and arrays.
    Objects,
}

/// A request to grow a memory, a table, or the heap of structs and arrays. Sizes of tables are in
/// elements, all other sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Growth {
    /// The object that must grow.
    pub what: Growing,
    /// The current size of the object.
    pub current: u64,
    /// The new size, which is larger than `current`.
    pub desired: u64,
    /// The maximum size that the object's type declares, if any.
    pub maximum: Option<u64>,
}

/// Why a memory or a table did not grow, although no limiter refused the growth.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GrowthError {
    /// The type or the region allows only a smaller size. The limiter was not asked.
    #[error(
        "{what} cannot grow to {desired} {unit}, its limit is {limit}; raise its maximum or \
         `{setting}`"
    )]
    Limit {
        /// The object that must grow.
        what: &'static str,
        /// The requested size.
        desired: u64,
        /// The maximum size.
        limit: u64,
        /// The unit of the sizes.
        unit: &'static str,
        /// The setting of the region, or of the memory, that limits the size.
        setting: &'static str,
    },
    /// The system refused. The limiter was asked before, and allowed the growth.
    #[error(
        "the system gives no memory to grow: {0}; raise `ulimit -d` or `vm.max_map_count`, or free \
         memory"
    )]
    System(#[from] io::Error),
}

/// Decides about a growth.
pub(crate) type Allows<T> = Arc<dyn Fn(&mut T, Growth) -> bool + Send + Sync>;
/// Receives the error of a growth that failed.
pub(crate) type Failed<T> = Arc<dyn Fn(&mut T, Growth, GrowthError) + Send + Sync>;

/// The embedder's functions that decide about growth, and the function that receives errors of
/// growth.
pub(crate) struct Limiter<T> {
    pub(crate) memory: Option<Allows<T>>,
    pub(crate) table: Option<Allows<T>>,
    pub(crate) failed: Option<Failed<T>>,
}

/// A fixed maximum size, which is checked before the embedder is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) what: &'static str,
    pub(crate) limit: u64,
    /// The unit of the size.
    pub(crate) unit: &'static str,
    /// The setting that determines the limit.
    pub(crate) setting: &'static str,
}

impl<T> Limiter<T> {
    /// Checks a growth against its bound. Reports a growth that exceeds the bound to `failed`.
    pub(crate) fn is_within(&self, data: &mut T, growth: Growth, bound: Bound) -> bool {
        let Bound {
            what,
            limit,
            unit,
            setting,
        } = bound;
        let is_within = growth.desired <= limit;
        if !is_within {
            let error = GrowthError::Limit {
                what,
                desired: growth.desired,
                limit,
                unit,
                setting,
            };
            self.failed(data, growth, error);
        }
        is_within
    }

    /// Whether a memory may grow.
    pub(crate) fn allows_memory(&self, data: &mut T, growth: Growth) -> bool {
        self.memory
            .as_ref()
            .is_none_or(|allows| allows(data, growth))
    }

    /// Whether a table may grow.
    pub(crate) fn allows_table(&self, data: &mut T, growth: Growth) -> bool {
        self.table
            .as_ref()
            .is_none_or(|allows| allows(data, growth))
    }

    /// Reports that an object did not grow.
    pub(crate) fn failed(&self, data: &mut T, growth: Growth, error: GrowthError) {
        if let Some(failed) = &self.failed {
            failed(data, growth, error);
        }
    }
}

impl<T> Default for Limiter<T> {
    fn default() -> Self {
        Self {
            memory: None,
            table: None,
            failed: None,
        }
    }
}

impl<T> Clone for Limiter<T> {
    fn clone(&self) -> Self {
        Self {
            memory: self.memory.clone(),
            table: self.table.clone(),
            failed: self.failed.clone(),
        }
    }
}

impl<T> fmt::Debug for Limiter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("memory", &self.memory.is_some())
            .field("table", &self.table.is_some())
            .field("failed", &self.failed.is_some())
            .finish()
    }
}
