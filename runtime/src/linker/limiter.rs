//! The embedder's functions that decide about growth, as settings of a [`Linker`].

use super::items::Linker;
use crate::call::HostState;
use crate::store::growth::{Allows, Growth, GrowthError};
use std::sync::Arc;

/// Wraps `allows` in a function that passes the embedder's data to `allows`.
fn of_data<T, Q, A>(
    allows: impl Fn(&mut T, Growth) -> bool + Send + Sync + 'static,
) -> Allows<HostState<T, Q, A>> {
    Arc::new(move |store: &mut HostState<T, Q, A>, growth| allows(&mut store.data, growth))
}

impl<T: 'static, Q: 'static, A: 'static> Linker<T, Q, A> {
    /// Sets the function that decides whether a memory of an instance may grow. The function
    /// replaces an earlier limiter of memories.
    ///
    /// The function is asked only within the limits of the memory's type and of the region's
    /// `memory_bytes_max`. If it returns false, `memory.grow` of the guest returns -1. A memory
    /// that a group shares belongs to the instance that defines it. So the runtime calls the
    /// limiter of that instance's linker.
    ///
    /// The function runs on the host's stack like a host function. A panic ends the call like a
    /// panic of a host function. The runtime does not ask the function about the initial memory,
    /// which [`Region::prepare`](crate::Region::prepare) compares with `memory_bytes_max`, or about
    /// a `memory.grow` by 0.
    pub fn memory_limiter(
        &mut self,
        allows: impl Fn(&mut T, Growth) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        self.limiter.memory = Some(of_data(allows));
        self
    }

    /// Sets the function that decides whether a table of an instance may grow. The function works
    /// like [`memory_limiter`](Self::memory_limiter), with the region's `table_elements` as the
    /// limit.
    pub fn table_limiter(
        &mut self,
        allows: impl Fn(&mut T, Growth) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        self.limiter.table = Some(of_data(allows));
        self
    }

    /// Sets the function that the runtime calls when a memory or a table did not grow, although no
    /// limiter refused the growth.
    ///
    /// Either the size would exceed the maximum, or the system refused a growth that the limiter
    /// had allowed.
    pub fn growth_failed(
        &mut self,
        failed: impl Fn(&mut T, Growth, GrowthError) + Send + Sync + 'static,
    ) -> &mut Self {
        self.limiter.failed = Some(Arc::new(
            move |store: &mut HostState<T, Q, A>, growth, error| {
                failed(&mut store.data, growth, error);
            },
        ));
        self
    }
}
