//! The switch between the host's stack and a guest's: the one assembly path in and out.
//!
//! ```text
//!   host stack                 Activation (in the context)          guest stack
//!   ┌──────────────┐           ┌────────────────────────┐           ┌──────────────┐ high
//!   │ call loop    │           │ host_sp ───────────────┼──┐        │ cells        │
//!   │ saved regs   │           │ guest_sp ──────────────┼──┼──┐     │ entry        │
//!   │ where to go  │◀──────────┼────────────────────────┘  │  │     │ guest frames │
//!   └──────────────┘           │ guest_regs, reason ... │◀──┘  └───▶│ return addr  │
//!                              └────────────────────────┘           └──────────────┘ low
//! ```
//!
//! [`start`] and [`resume`] leave the host's stack pointer in the [`Activation`], with the place where
//! to go on on top of that stack. Whatever brings control back (a return, a call of the host, a
//! builtin, a trap) takes that stack pointer up again, so to the host each is an ordinary end of
//! `start` or `resume`. No Rust frame is ever on a guest's stack.
//!
//! # Safety
//!
//! Owns the invariant that an [`Activation`] whose `host_sp` is used belongs to a `start` or `resume`
//! that has not returned. Only `instance::exit` calls these functions.
#![allow(unsafe_code)]

pub(crate) mod activation;
pub(crate) mod arch;

pub(crate) use activation::{Activation, Guest, Record};
pub(crate) use arch::{exit_routine, resume, start};
