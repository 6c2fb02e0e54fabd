//! Linkers that refuse everything after a change has panicked, and WASI contexts that refuse
//! everything after a change has failed.

use crate::error::{Fallible, Poisoned, pirn_error_t};

/// The content of a linker. If a change panics, the linker can only be deleted.
pub(crate) struct Linking<L> {
    items: L,
    /// Whether a change has begun and not ended. Stays true after a panic.
    changing: bool,
}

impl<L> Linking<L> {
    pub(crate) fn new(items: L) -> Self {
        Self {
            items,
            changing: false,
        }
    }

    pub(crate) fn get(&self) -> Fallible<&L> {
        match self.changing {
            false => Ok(&self.items),
            true => Err(Poisoned("linker").into()),
        }
    }

    pub(crate) fn change<E: Into<Box<pirn_error_t>>>(
        &mut self,
        change: impl FnOnce(&mut L) -> Result<(), E>,
    ) -> Fallible<()> {
        self.get()?;
        self.changing = true;
        let changed = change(&mut self.items);
        self.changing = false;
        changed.map_err(Into::into)
    }
}

/// The builder of a WASI context: `None` after a change has failed or panicked.
pub(crate) struct Building<B>(Option<B>);

impl<B> Building<B> {
    pub(crate) fn new(builder: B) -> Self {
        Self(Some(builder))
    }

    /// Replaces the builder by the builder that `change` returns.
    pub(crate) fn change(&mut self, change: impl FnOnce(B) -> Fallible<B>) -> Fallible<()> {
        let builder = self.0.take().ok_or(Poisoned("WASI context"))?;
        self.0 = Some(change(builder)?);
        Ok(())
    }

    /// The builder, for the finished context.
    pub(crate) fn finish(self) -> Fallible<B> {
        Ok(self.0.ok_or(Poisoned("WASI context"))?)
    }
}
