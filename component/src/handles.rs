//! [`Handles`]: the handles of one component instance (CanonicalABI, "Handle State").

use crate::error::AbiError;

/// Most handles of all component instances: 28 MiB of the host.
pub(crate) const HANDLES_MAX: u32 = 1 << 20;

/// The handles of one component instance. All resource types share one index space, and handle 0
/// does not exist.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    /// The entry of handle `n` is at `n - 1`.
    entries: Vec<Option<Handle>>,
    free: Vec<u32>,
}

/// What a handle refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Index of the resource type.
    pub(crate) resource: u32,
    /// The number that the definer of the resource gave it.
    pub(crate) rep: u32,
    pub(crate) kind: Kind,
}

/// The kind of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Owned, and lent to this number of running calls.
    Own(u32),
    /// Borrowed for the call with this number.
    Borrow(usize),
}

impl Handles {
    /// Adds a handle, and returns its number. `places` counts the handles of all component
    /// instances, also free ones.
    pub(crate) fn add(&mut self, handle: Handle, places: &mut u32) -> Result<u32, AbiError> {
        if let Some(number) = self.free.pop() {
            self.entries[number as usize - 1] = Some(handle);
            return Ok(number);
        }
        *places += 1;
        if *places > HANDLES_MAX {
            return Err(AbiError::Handles(HANDLES_MAX));
        }
        self.entries.push(Some(handle));
        Ok(self.entries.len() as u32)
    }

    /// The handle with a number, which must be to a resource of this type.
    pub(crate) fn get(&mut self, number: u32, resource: u32) -> Result<&mut Handle, AbiError> {
        let at = number.checked_sub(1);
        let entry = at.and_then(|at| self.entries.get_mut(at as usize));
        let handle = entry.and_then(Option::as_mut);
        let handle = handle.ok_or(AbiError::NoHandle(number))?;
        match handle.resource == resource {
            true => Ok(handle),
            false => Err(AbiError::HandleType(number)),
        }
    }

    /// Removes a handle that is not lent.
    pub(crate) fn remove(&mut self, number: u32, resource: u32) -> Result<Handle, AbiError> {
        let handle = *self.get(number, resource)?;
        if matches!(handle.kind, Kind::Own(lent) if lent > 0) {
            return Err(AbiError::Lent(number));
        }
        self.entries[number as usize - 1] = None;
        self.free.push(number);
        Ok(handle)
    }
}
