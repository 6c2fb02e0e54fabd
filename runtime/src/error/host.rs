//! [`HostError`] and [`HostPanic`]: the two ways in which a host function ends the guest's call.

use crate::sys;
use crate::trap::Frame;
use crate::trap::backtrace::Trace;
use core::any::Any;
use core::fmt;
use pirn_format::text;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

/// Why a host function ended the guest's call: any error type, kept unchanged.
///
/// Every error type converts to a `HostError` by `?` or `into`. A `HostError` does not implement
/// [`Error`], because an implementation would conflict with this conversion.
/// [`as_error`](Self::as_error) returns the error within.
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

    /// The error within, if it has the type `E`.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// Returns the error within, if it has the type `E`.
    ///
    /// # Errors
    ///
    /// This value, unchanged, if the error has another type.
    pub fn downcast<E: Error + 'static>(self) -> Result<E, Self> {
        self.0.downcast().map(|error| *error).map_err(Self)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HostError {
    /// Not inlined: errors are rare. Without this code in the host function, the compiler inlines
    /// that function at its call (bench `hostcall`).
    #[cold]
    #[inline(never)]
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

/// A panic of a host function.
///
/// The panic hook of the process has reported the panic. The panic did not unwind further: the
/// guest's call ended.
///
/// The function may have left the instance's data in an inconsistent state.
pub struct HostPanic(Box<Panicked>);

/// Boxed, because every result of a call reserves space for a [`HostPanic`].
struct Panicked {
    // A payload is `Send` but not `Sync`, so it needs the mutex.
    payload: Mutex<Box<dyn Any + Send>>,
    trace: Box<Trace>,
}

impl HostPanic {
    pub(crate) fn new(payload: Box<dyn Any + Send>, trace: Box<Trace>) -> Self {
        let payload = Mutex::new(payload);
        Self(Box::new(Panicked { payload, trace }))
    }

    /// The payload, for [`resume_unwind`](std::panic::resume_unwind) to continue the panic.
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        let payload = self.0.payload.into_inner();
        payload.unwrap_or_else(PoisonError::into_inner)
    }

    /// The message, if the panic had a message.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        let payload = sys::lock(&self.0.payload);
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned())
    }

    /// The frames of WebAssembly functions on the stack, innermost first, at most 64.
    #[must_use]
    pub fn backtrace(&self) -> &[Frame] {
        self.0.trace.frames()
    }
}

impl fmt::Display for HostPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message() {
            Some(message) => write!(f, "host function panicked: {}", text::plain(&message)),
            None => f.write_str("host function panicked"),
        }
    }
}

impl fmt::Debug for HostPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostPanic({self})")
    }
}
