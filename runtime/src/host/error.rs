//! [`HostError`]: why a host function ended the guest's call.

use core::fmt;
use std::error::Error;

/// Why a host function ended the guest's call: any error, kept as it is.
///
/// It is made from every error type by `?` or `into`. It is no [`Error`] itself, so that this
/// conversion can exist; [`as_error`](Self::as_error) gives the one within.
pub struct HostError(Box<dyn Error + Send + Sync>);

impl HostError {
    /// An error that is only a message.
    #[must_use]
    pub fn message(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    /// The error within.
    #[must_use]
    pub fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }

    /// The error within, if it is of this type.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// The error within, if it is of this type, else itself.
    ///
    /// # Errors
    ///
    /// Itself, if the error is of another type.
    pub fn downcast<E: Error + 'static>(self) -> Result<E, Self> {
        self.0.downcast().map(|error| *error).map_err(Self)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HostError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
