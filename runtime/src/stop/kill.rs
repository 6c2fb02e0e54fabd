//! [`KillSwitch`]: ends a guest from any thread.

use super::word::{Missed, RUNNING, SLICE, SUSPENDED, stamp};
use super::{Control, timer};
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// Ends a guest from any thread, in whatever state it is.
///
/// A clone is the same switch. It may outlive its instance, which it then finds gone; it never meets
/// another instance, not even one in the same slot.
#[derive(Clone)]
pub struct KillSwitch {
    control: &'static Control,
    tenant: u64,
}

/// What a [`KillSwitch`] met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Met {
    /// An instance that was not running: every call of it fails from now on.
    Idle,
    /// A call that was suspended, or waited for an async host function: it cannot be gone on with.
    Suspended,
    /// Guest code: it is interrupted where it is.
    Guest,
    /// A host function, or one of the runtime's own: the guest ends when that returns.
    Host,
}

/// A [`KillSwitch`] found no instance to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KillError {
    /// It was dropped before.
    #[error("kill of an instance that was dropped")]
    Gone,
    /// It was killed before.
    #[error("kill of an instance that was killed before")]
    Killed,
}

impl KillSwitch {
    pub(crate) fn new(control: &'static Control) -> Self {
        let tenant = control.word.tenant();
        Self { control, tenant }
    }

    /// Whether a call of the instance runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.control.word.runs_for(self.tenant)
    }

    /// Ends the slice of time of the call that runs, if it has one ([`Instance::timeslice`]): it is suspended
    /// wherever it is, for whoever schedules guests. Tells whether there was such a call. It does not wait for
    /// it, which may also return before it is suspended.
    ///
    /// [`Instance::timeslice`]: crate::Instance::timeslice
    pub fn preempt(&self) -> bool {
        let Some(word) = self.control.word.preempt(self.tenant) else {
            return false;
        };
        if word & SLICE != 0 {
            // It is looked after already.
            return true;
        }
        self.control.poke();
        timer::look_after(self.control, stamp(word));
        true
    }

    /// Ends the guest, and every later call of its instance, with
    /// [`CallError::Killed`](crate::CallError::Killed). It does not wait for the guest to end.
    ///
    /// A guest that is met in the last instructions of a call may still return; then the next call
    /// fails.
    ///
    /// # Errors
    ///
    /// [`KillError::Gone`] and [`KillError::Killed`] if there was nothing to end.
    pub fn kill(&self) -> Result<Met, KillError> {
        let killed = self.control.word.kill(self.tenant);
        let word = killed.map_err(|missed| match missed {
            Missed::Gone => KillError::Gone,
            Missed::Killed => KillError::Killed,
        })?;
        if word & RUNNING == 0 {
            self.control.waker.wake();
            let suspended = word & SUSPENDED != 0;
            return Ok(if suspended { Met::Suspended } else { Met::Idle });
        }
        let in_host = self.control.in_host.load(Relaxed);
        self.control.poke();
        // The interrupt may be lost, or the guest be back from the host: it is looked after.
        timer::look_after(self.control, stamp(word));
        let met = if in_host { Met::Host } else { Met::Guest };
        Ok(met)
    }
}

impl fmt::Debug for KillSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KillSwitch")
            .field("is_running", &self.is_running())
            .finish_non_exhaustive()
    }
}
