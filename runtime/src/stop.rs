//! Stopping guests from outside: [`kill::KillSwitch`], deadlines, budgets of processor time.
//!
//! A guest that can be stopped has a [`Control`]. To stop the guest, a thread writes to the
//! control's word. The lowest byte of that word is the *interrupt flag*. Unless the flag is
//! [`GO`](crate::switch::interrupt_flag::GO), no guest code is entered or resumed: the routines of
//! [`crate::switch`] check the flag as their last step. Any other value means that the flag is set.
//! Guest code itself never checks the flag. Instead, the stopping thread sends a signal to the
//! thread that runs the guest. If the handler finds the flag set and the program counter in guest
//! code, the handler makes the guest leave.
//!
//! ```text
//!   killer, timer thread                     thread that runs the guest
//!   word |= KILL  (one atomic step) ───┐     word |= RUNNING (one atomic step): refused if set
//!   running? ── signal ────────────┐   └───▶ flag checked: on entry, after each host function
//!                                  └───────▶ handler: flag set and in guest code: leave
//! ```
//!
//! A signal that comes too early, too late, or to a thread that now runs other code does no harm.
//! It only requests a check of the flag. A signal can be lost because it arrives during another
//! signal's handler. The timer thread therefore repeats the signal as long as the call runs.

mod bounds;
mod control;
mod halt;
pub(crate) mod kill;
mod registered;
pub(crate) mod timer;
mod watched;
mod word;

pub(crate) use bounds::Bounds;
pub(crate) use control::{Control, Owned};
pub(crate) use halt::{Halt, look};
pub(crate) use watched::{NotBegun, Watch, Watched};
pub(crate) use word::Why;
