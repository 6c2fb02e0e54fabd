//! The switch between the host's stack and a guest's: the one assembly path in and out.
//!
//! ```text
//!   host stack                 Activation (in the context)          guest stack
//!   ┌──────────────┐           ┌────────────────────────┐           ┌──────────────┐ high
//!   │ caller of    │           │ host_sp ───────────────┼──┐        │ cells        │
//!   │   start      │           │ guest_sp, registers,   │  │        │ entry        │
//!   │ words of     │◀──────────┼────────────────────────┼──┘        │ guest frames │
//!   │   start      │           │   fault: only when the │           │ return addr  │◀┐
//!   │   guest_sp ──┼──┐        │   guest left for good  │           └──────────────┘ │ low
//!   │ answer       │  │        └────────────────────────┘                            │
//!   └──────────────┘  └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! [`start`] leaves the host's stack pointer in the [`Activation`], and on top of that stack what to
//! call when the guest wants something of the host, and where to go on when it leaves. What a guest
//! wants is answered on the host's stack, as a call from `start`; no Rust frame is ever on a guest's
//! stack. So a guest that has left can go on later, by [`resume`], wherever the host is then.
//!
//! # Safety
//!
//! Owns the invariant that an [`Activation`] whose `host_sp` is used belongs to a `start` or `resume` that
//! has not returned. Only `instance::exit` calls these functions.
#![allow(unsafe_code)]

pub(crate) mod activation;
pub(crate) mod arch;
pub(crate) mod floats;

pub(crate) use activation::{AccountState, Activation, Fault, Guest, Record};
pub(crate) use arch::{Registers, exit_routine, host_call_routine, resume, start};

use crate::value::Cell;

/// What is called on the host's stack when a guest calls the exit routine, as `answer(vmctx, reason,
/// cells, call)`: the context that wants something, what it wants (see [`pirn_format::exit`]), and the
/// `call` that was given to [`start`], which begins with the address of its activation.
///
/// It gives null for the guest to go on, else the activation of the call, which the guest leaves. It
/// does not unwind.
pub(crate) type Answer = unsafe extern "C" fn(
    vmctx: *mut u8,
    reason: u64,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation;

/// What is called on the host's stack when a guest calls an import: as an [`Answer`], which is given
/// this entry instead of a reason.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct HostEntry {
    /// What to call.
    pub(crate) answer: HostAnswer,
    /// The host function, of whatever type `answer` takes it for.
    pub(crate) func: *const (),
}

/// See [`HostEntry`].
pub(crate) type HostAnswer = unsafe extern "C" fn(
    vmctx: *mut u8,
    entry: *const HostEntry,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation;
