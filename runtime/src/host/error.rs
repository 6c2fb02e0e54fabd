//! [`HostError`] and [`HostPanic`]: how a host function ended the guest's call.

use crate::sys;
use crate::trap::Frame;
use crate::trap::backtrace::Trace;
use core::any::Any;
use core::fmt;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

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
    /// Not inlined: errors are rare, and without this code the compiler inlines the host function
    /// where it is called (bench `hostcall`).
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

/// A panic of a host function. It was told by the process's panic hook, as any, and went no further: the
/// guest's call ended.
///
/// What the function was doing to the instance's data may be half done.
pub struct HostPanic(Box<Panicked>);

/// In a box, because every result of a call has room for it.
struct Panicked {
    // A payload may be sent to other threads, and not be shared with them.
    payload: Mutex<Box<dyn Any + Send>>,
    trace: Box<Trace>,
}

impl HostPanic {
    pub(crate) fn new(payload: Box<dyn Any + Send>, trace: Box<Trace>) -> Self {
        let payload = Mutex::new(payload);
        Self(Box::new(Panicked { payload, trace }))
    }

    /// What [`resume_unwind`](std::panic::resume_unwind) takes, to panic on.
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        let payload = self.0.payload.into_inner();
        payload.unwrap_or_else(PoisonError::into_inner)
    }

    /// The message, if the panic had one.
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
            Some(message) => write!(f, "host function panicked: {}", message.escape_debug()),
            None => f.write_str("host function panicked"),
        }
    }
}

impl fmt::Debug for HostPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostPanic({self})")
    }
}
