//! [`KillSwitch`]: stops a guest from any thread.

use super::control::Control;
use super::timer;
use super::word::{Missed, RUNNING, SLICE, SLICE_PENDING, SUSPENDED, call_of};
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// Stops a guest from any thread, whatever its state.
///
/// A clone controls the same instance. A switch may outlive its instance, and then reports that the
/// instance is gone. It never stops another instance, not even an instance in the same slot.
#[derive(Clone)]
pub struct KillSwitch {
    control: &'static Control,
    generation: u64,
}

/// State of the instance when a [`KillSwitch`] stopped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KillOutcome {
    /// The instance was not running. Every later call fails.
    Idle,
    /// A call was suspended, or waited for an async host function. The call cannot be resumed.
    Suspended,
    /// Guest code was running. The guest is interrupted at its current instruction.
    Guest,
    /// A host function of the embedder or the runtime was running. The guest ends when the function
    /// returns.
    Host,
}

/// A [`KillSwitch`] found no instance to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KillError {
    /// The instance was dropped before.
    #[error("instance was dropped before; nothing is left to kill")]
    Gone,
    /// The instance was killed before.
    #[error("instance was killed before; drop it")]
    Killed,
}

impl KillSwitch {
    pub(crate) fn new(control: &'static Control) -> Self {
        let generation = control.word.generation();
        Self {
            control,
            generation,
        }
    }

    /// Whether a call of the instance is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.control.word.runs_for(self.generation)
    }

    /// Ends the time slice of the running call, if the call has a time slice
    /// ([`Instance::timeslice`]). This method serves embedders that schedule guests: the call is
    /// suspended at any instruction. Returns whether such a call ran. Does not wait for the
    /// suspension; the call may also return first.
    ///
    /// [`Instance::timeslice`]: crate::Instance::timeslice
    pub fn preempt(&self) -> bool {
        let Some(word) = self.control.word.preempt(self.generation) else {
            return false;
        };
        if word & (SLICE | SLICE_PENDING) != 0 {
            // An earlier `preempt` or the timer already interrupts this call.
            return true;
        }
        self.control.interrupt();
        timer::look_after(self.control, call_of(word));
        true
    }

    /// Ends the guest and every later call of its instance with
    /// [`CallError::Killed`](crate::CallError::Killed). Does not wait for the guest to end.
    ///
    /// A guest in the last instructions of a call may still return. Then the next call fails.
    ///
    /// # Errors
    ///
    /// [`KillError::Gone`] if the instance was dropped, [`KillError::Killed`] if it was killed
    /// before.
    pub fn kill(&self) -> Result<KillOutcome, KillError> {
        let killed = self.control.word.kill(self.generation);
        let word = killed.map_err(|missed| match missed {
            Missed::Gone => KillError::Gone,
            Missed::Killed => KillError::Killed,
        })?;
        if word & RUNNING == 0 {
            self.control.waker.wake();
            let suspended = word & SUSPENDED != 0;
            return Ok(if suspended {
                KillOutcome::Suspended
            } else {
                KillOutcome::Idle
            });
        }
        let in_host = self.control.in_host.load(Relaxed);
        self.control.interrupt();
        // The interrupt may be lost, or the guest may have left the host function. So the timer
        // thread repeats the interrupt.
        timer::look_after(self.control, call_of(word));
        let met = if in_host {
            KillOutcome::Host
        } else {
            KillOutcome::Guest
        };
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
