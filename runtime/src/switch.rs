//! The switch between the host's stack and a guest's stack: the only assembly path in and out.
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
//! [`start`] stores the host's stack pointer in the [`Activation`]. On top of the host stack,
//! `start` leaves two addresses. The first address is of the function that answers the guest's
//! requests. The second address is of the code that continues when the guest leaves. A request of
//! the guest is answered on the host stack, as a call from `start`. No Rust frame is ever on a
//! guest stack. So [`resume`] can, from any host frame, resume a guest that has left.
//!
//! While these routines use the `host_sp` of an [`Activation`], the `start` or `resume` that set
//! the `host_sp` has not returned. Only the crate's `call` module calls these functions.

pub(crate) mod activation;
pub(crate) mod arch;
pub(crate) mod floats;
pub(crate) mod interrupt_flag;

pub(crate) use activation::{AccountState, Activation, Answer, Fault, Guest, HostEntry, Record};
pub(crate) use arch::bulk::{copy_routine, fill_routine};
pub(crate) use arch::{Registers, exit_routine, host_call_routine, resume, start};
