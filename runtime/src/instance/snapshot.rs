//! [`Instance::snapshot`]: the state of an instance as the initial state of a module.

use super::handle::Instance;
use super::owner::Alone;
use super::suspended::Suspended;
use crate::call::is_whole;
use crate::error::{Operation, SnapshotError};
use crate::module::Module;

impl<T, Q, A> Instance<T, Q, A> {
    /// Ends the instance, and makes a module whose instances begin with its state.
    ///
    /// A language runtime takes long to start. Let one instance start it, take a snapshot, and
    /// [prepare](crate::Region::prepare) the snapshot: each of its instances has started already.
    ///
    /// The snapshot has the memories, globals, tables and dropped segments of the instance. Its
    /// start function does not run again. The snapshot shares the code of the instance's module,
    /// mapped once. The image of each memory is a sealed file in memory (memfd_create(2)).
    /// Instances of a snapshot give snapshots, too.
    ///
    /// A snapshot does not have the host's data `T`, fuel, limits, or the stack. Values that the
    /// guest has read from the host and keeps in its memory stay unchanged: environment variables,
    /// times, and the seeds of random numbers. All instances of the snapshot would draw the same
    /// numbers. Have an export draw a new seed by
    /// [`Prepared::call_first`](crate::Prepared::call_first). Imported globals have the values of
    /// the linker with which the snapshot is prepared.
    ///
    /// This method reads all memory of the instance, and keeps one file descriptor for each memory
    /// that is not all zeros. A function of
    /// [`Linker::memory_limiter`](crate::Linker::memory_limiter) does not learn the sizes with
    /// which instances of the snapshot begin: the region's limits bound them.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::State`] while a call is suspended, and [`SnapshotError::Failed`] after a
    /// failed call. [`SnapshotError::SharedMemory`] and [`SnapshotError::Reference`] for state that
    /// no other instance can have: memories of the host, structs, arrays, exceptions and values of
    /// the host. [`SnapshotError::Fork`] in a fork that did not inherit the memory, and
    /// [`SnapshotError::System`] if the system has no memory for the image.
    pub fn snapshot(self) -> Result<Module, SnapshotError> {
        self.snapshot_after(&[])
    }

    /// As [`snapshot`](Self::snapshot), for an instance whose state the functions `exports` made.
    /// These functions must not run again, so the snapshot does not export them.
    ///
    /// `aotc inspect` shows the names, if the snapshot is [saved](Module::to_bytes).
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot). [`SnapshotError::NoExport`] for a name that is not the name
    /// of an exported function.
    pub fn snapshot_after(self, exports: &[&str]) -> Result<Module, SnapshotError> {
        let Alone {
            member, suspended, ..
        } = self.owner;
        Suspended::none(suspended.as_ref(), Operation::Snapshot)?;
        if !is_whole(core::slice::from_ref(&member)) {
            return Err(SnapshotError::Fork);
        }
        if member.has_failed() {
            return Err(SnapshotError::Failed);
        }
        member.snapshot(exports)
    }
}
