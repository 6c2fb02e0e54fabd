//! [`Call`]: a call of a function of preview 1.

use super::failure::Done;
use super::memory::Memory;
use crate::context::{State, WasiCtx};
use crate::descriptors::Descriptor;
use crate::errno::Errno;
use crate::stream::Failed;
use pirn_runtime::{Caller, StopFlag};
use std::sync::Arc;

/// Returns the WASI context in an instance's host data.
pub(crate) type ContextOf<T> = fn(&mut T) -> &mut WasiCtx;

/// A call of a guest.
pub(crate) struct Call<'a> {
    pub(crate) memory: Memory<'a>,
    pub(crate) state: &'a State,
    stop: StopFlag<'a>,
    /// The bytes that the call has read for the guest, and written for it.
    pub(crate) io: (u64, u64),
}

impl<'a> Call<'a> {
    /// A call of a function by the guest of `caller`. The pointers of the call refer to the memory
    /// that the calling instance exports as `memory`.
    #[inline]
    pub(crate) fn new<T>(caller: &'a mut Caller<'_, T>, ctx: ContextOf<T>) -> Self {
        let stop = caller.stop_flag();
        let (shared, memory, data) = caller.interface_split_shared();
        Self {
            memory: shared.map_or(Memory::Plain(memory), Memory::Shared),
            state: &ctx(data).0,
            stop,
            io: (0, 0),
        }
    }

    /// The descriptor with a number.
    ///
    /// # Errors
    ///
    /// `badf` if there is none.
    pub(crate) fn descriptor(&self, number: u32) -> Result<Arc<Descriptor>, Errno> {
        self.state.table.get(number)
    }

    /// Whether the guest was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Repeats an operation until its stream is ready, the operation fails otherwise, or the guest
    /// is stopped. A stopped guest never sees the error number.
    pub(crate) fn when_ready<R>(
        &self,
        mut operation: impl FnMut() -> Result<R, Failed>,
    ) -> Done<R> {
        loop {
            match operation() {
                Err(Failed::Wait) if !self.is_stopped() => {}
                done => return Ok(done?),
            }
        }
    }
}
