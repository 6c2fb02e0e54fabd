//! [`End`]: why a guest was left before it returned.

use crate::error::{CallError, HostError};
use crate::store::exceptions::Refused;
use core::any::Any;
use pirn_format::exit::TrapCode;

/// Why a guest was left before it returned.
pub(super) enum End {
    /// The guest waits for a host function, or in `memory.atomic.wait`.
    Waits,
    /// The guest was stopped while the runtime worked for it, or its time slice ended during a bulk
    /// write.
    Halted,
    /// The guest trapped.
    Trap(TrapCode),
    /// A host function returned an error.
    Host(HostError),
    /// The guest threw an exception.
    Throws,
    /// The call cannot continue.
    Invalid(CallError),
    /// A host function panicked.
    Panic(Box<dyn Any + Send>),
}

impl End {
    /// The end of a call in which the runtime refused to throw or to keep an exception.
    pub(super) fn refused(refused: &Refused) -> Self {
        match refused {
            Refused::Stopped => Self::Halted,
            Refused::Trap(trap) => match trap.host_bytes() {
                None => Self::Trap(trap.code()),
                Some(refused) => Self::Host(refused.into()),
            },
        }
    }
}
