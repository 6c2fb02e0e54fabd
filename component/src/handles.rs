//! [`Handles`]: the handles of one component instance (CanonicalABI, "Handle State").

use crate::error::{AbiError, AbiResult};
use crate::host_bytes::Account;

/// Most handles of all component instances: 16 MiB of the host in one table.
pub(crate) const HANDLES_MAX: u32 = 1 << 20;

/// The handles of one component instance. All resource types share one index space, and handle 0
/// does not exist.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    /// The entry of handle `n` is at `n - 1`.
    entries: Vec<Entry>,
    /// The free handle that [`add`](Self::add) uses next; 0 if no handle is free.
    free: u32,
}

/// A place of a table. Free places form a list in the table itself, so that dropping a handle needs
/// no memory.
#[derive(Debug)]
enum Entry {
    Handle(Handle),
    /// The next free handle in the list; 0 at the end of the list.
    Free(u32),
}

/// The resource that a handle refers to, and the kind of the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Index of the resource type.
    pub(crate) resource: u32,
    /// The number that the definer of the resource gave to the resource.
    pub(crate) rep: u32,
    pub(crate) kind: Kind,
}

/// The kind of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Owned, and lent to this number of running calls.
    Own(u32),
    /// Borrowed for the call with this number.
    Borrow(u32),
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Handles {
    /// Adds a handle, and returns its number. `places` counts the used and free handles of all
    /// component instances. The account counts the memory of the table.
    pub(crate) fn add(
        &mut self,
        handle: Handle,
        places: &mut u32,
        account: &mut Account,
    ) -> AbiResult<u32> {
        if let Some(at) = self.free.checked_sub(1) {
            let number = self.free;
            let entry = &mut self.entries[at as usize];
            if let Entry::Free(next) = std::mem::replace(entry, Entry::Handle(handle)) {
                self.free = next;
            }
            return Ok(number);
        }
        if *places >= HANDLES_MAX {
            return Err(AbiError::Handles(HANDLES_MAX));
        }
        account.room(&mut self.entries)?;
        *places += 1;
        self.entries.push(Entry::Handle(handle));
        Ok(self.entries.len() as u32)
    }

    /// The handle with a number. Its resource must have the type `resource`.
    pub(crate) fn get(&mut self, number: u32, resource: u32) -> AbiResult<&mut Handle> {
        let at = number.checked_sub(1);
        let entry = at.and_then(|at| self.entries.get_mut(at as usize));
        let Some(Entry::Handle(handle)) = entry else {
            return Err(AbiError::NoHandle(number));
        };
        match handle.resource == resource {
            true => Ok(handle),
            false => Err(AbiError::HandleType(number)),
        }
    }

    /// Removes a handle that is not lent.
    pub(crate) fn remove(&mut self, number: u32, resource: u32) -> AbiResult<Handle> {
        let handle = *self.get(number, resource)?;
        if matches!(handle.kind, Kind::Own(lent) if lent > 0) {
            return Err(AbiError::Lent(number));
        }
        self.entries[number as usize - 1] = Entry::Free(self.free);
        self.free = number;
        Ok(handle)
    }
}
