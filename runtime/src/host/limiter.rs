//! [`Growth`]: what memories and tables want to grow to, and what the embedder says to it.

use super::{Linker, Store};
use core::fmt;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// What is to grow. Indices are those of the instance whose limiter is asked, imports first, as in the
/// text of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Growing {
    /// A memory: of the instance that defines it, whichever instance of a group grows it.
    Memory(u32),
    /// A shared memory of the host's, by the index that the instance which grows it has for it.
    SharedMemory(u32),
    /// A table: of the instance that defines it, whichever instance of a group grows it.
    Table(u32),
    /// The memory for structs and arrays of an instance.
    Objects,
}

/// A memory, a table or the memory for structs and arrays is to grow. Sizes of tables are in
/// elements, of all else in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Growth {
    /// What grows.
    pub what: Growing,
    /// How much there is.
    pub current: u64,
    /// How much there is to be; more than `current`.
    pub desired: u64,
    /// The most that its type allows, if it says so.
    pub maximum: Option<u64>,
}

/// Why a memory or table has not grown, though no limiter has refused it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GrowthError {
    /// Its type or the region allows less. No limiter was asked.
    #[error(
        "{what} cannot grow to {desired} {unit}, it may have {limit}; raise its maximum or `{setting}`"
    )]
    Limit {
        /// What is to grow.
        what: &'static str,
        /// To how much.
        desired: u64,
        /// The most that it may have.
        limit: u64,
        /// What is counted.
        unit: &'static str,
        /// The setting of the region.
        setting: &'static str,
    },
    /// The system refused. The limiter was asked, and had allowed it.
    #[error("the system gives no memory to grow: {0}")]
    System(#[from] io::Error),
}

type Allows<T> = Arc<dyn Fn(&mut T, Growth) -> bool + Send + Sync>;
type Failed<T> = Arc<dyn Fn(&mut T, Growth, GrowthError) + Send + Sync>;

/// What is asked before something grows, and told when it did not.
pub(crate) struct Limiter<T> {
    memory: Option<Allows<T>>,
    table: Option<Allows<T>>,
    failed: Option<Failed<T>>,
}

/// The most that something may have, which the embedder is not asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) what: &'static str,
    pub(crate) limit: u64,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// What sets it.
    pub(crate) setting: &'static str,
}

impl<T> Limiter<T> {
    /// Whether a growth is within its bound; it is told if not.
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

    /// Something has not grown.
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

/// Asks `allows` with the embedder's data.
fn of_data<T, Q, A>(
    allows: impl Fn(&mut T, Growth) -> bool + Send + Sync + 'static,
) -> Allows<Store<T, Q, A>> {
    Arc::new(move |store: &mut Store<T, Q, A>, growth| allows(&mut store.data, growth))
}

impl<T: 'static, Q: 'static, A: 'static> Linker<T, Q, A> {
    /// Asks `allows` before a memory of an instance grows, within what its type and the region's
    /// `memory_max` allow: if it says no, the guest's `memory.grow` gives -1. It takes the
    /// place of one that was set before. A memory that is shared by a group is its owner's: the limiter of
    /// the linker is asked that the owner was added with.
    ///
    /// It is asked on the host's stack, as a host function is called, and a panic of it ends the call as
    /// one of a host function does. It is not asked for the memory that an instance begins with, which
    /// [`Region::prepare`](crate::Region::prepare) has compared with `memory_max`, nor by
    /// `memory.grow` of 0.
    pub fn memory_limiter(
        &mut self,
        allows: impl Fn(&mut T, Growth) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        self.limiter.memory = Some(of_data(allows));
        self
    }

    /// Asks `allows` before a table of an instance grows, within what its type and the region's
    /// `table_elements` allow, as [`memory_limiter`](Self::memory_limiter) does for memories.
    pub fn table_limiter(
        &mut self,
        allows: impl Fn(&mut T, Growth) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        self.limiter.table = Some(of_data(allows));
        self
    }

    /// Tells `failed` of a memory or table that has not grown, though no limiter has refused it: it would
    /// have been more than it may have, or the system refused what a limiter had allowed.
    pub fn growth_failed(
        &mut self,
        failed: impl Fn(&mut T, Growth, GrowthError) + Send + Sync + 'static,
    ) -> &mut Self {
        self.limiter.failed = Some(Arc::new(
            move |store: &mut Store<T, Q, A>, growth, error| {
                failed(&mut store.data, growth, error);
            },
        ));
        self
    }
}
