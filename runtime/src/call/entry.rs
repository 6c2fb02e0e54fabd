//! Entry of a guest by the host, for every kind of call.
//!
//! # Safety
//!
//! This file owns one fact. The switch gets the address of a call, and the exit handler for the
//! data type of that call.
#![allow(unsafe_code)]

use super::answer::answer;
use super::running::Call;
use crate::switch::floats::AsGuests;
use crate::switch::{self, Activation, Answer};
use core::ptr;

/// Enters the guest of a call by the entry routine `by`. Returns true if the guest returned, and
/// false if it exited in another way. A guest that threw continues in its handler, if it has a
/// handler.
///
/// # Safety
///
/// The activation of the call must be the current activation of this thread. `cells` must be a
/// 16-byte aligned address on the guest's stack, and hold the parameters. No frame may lie below
/// that address.
#[inline(always)]
pub(super) unsafe fn run_in<T>(
    call: &mut Call<'_, T>,
    cells: *mut u8,
    by: impl FnOnce(*mut Activation, *mut u8, Answer, *mut ()) -> bool,
) -> bool {
    let activation = call.header.activation;
    let of_call = ptr::from_mut(call);
    let floats = AsGuests::begin();
    // `answer::<T>` is the exit handler for the data type of the call.
    let mut returned = by(activation, cells, answer::<T>, of_call.cast());
    // SAFETY: `of_call` points to the borrowed call. The guest has exited, so no exit handler uses
    // the call.
    while !returned && unsafe { (*of_call).catches() } {
        // SAFETY: the guest has exited. The guest continues in the same call, where it catches its
        // exception.
        returned =
            unsafe { switch::resume(activation, ptr::null(), cells, answer::<T>, of_call.cast()) };
    }
    drop(floats);
    returned
}
