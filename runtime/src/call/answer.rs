//! The functions that the switch calls on the host's stack when a guest exits.
//!
//! # Safety
//!
//! This file owns one fact. Each answer is given the [`Call`] of the guest that exits, with the
//! same host data.
#![allow(unsafe_code)]

use super::end::End;
use super::host_code::{Answered, HostCode};
use super::running::{Call, host};
use crate::error::InvalidCall;
use crate::stop::Watched;
use crate::switch::{Activation, HostEntry};
use crate::value::Cell;
use core::panic::AssertUnwindSafe;
use core::ptr;
use pirn_format::exit;
use std::panic;

/// Answers an exit of the guest, on the host's stack: an [`Answer`](crate::switch::Answer).
///
/// # Safety
///
/// `call` must be the [`Call`] of a running guest, with the same `T`. `vmctx`, `reason` and `cells`
/// must come from an exit of that guest.
pub(super) unsafe extern "C" fn answer<T>(
    vmctx: *mut u8,
    reason: u64,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation {
    // SAFETY: the caller ensures that `call` is valid. `run_in` is inside `start` or `resume`, so
    // the guest of `call` waits.
    let call = unsafe { &mut *call.cast::<Call<'_, T>>() };
    let wanted = exit::split(reason);
    let watched = call.watched;
    // SAFETY: the caller ensures that `vmctx` and `cells` come from the guest's exit.
    let answer = AssertUnwindSafe(|| match unsafe { call.answer(vmctx, wanted, cells) } {
        // A limiter may have forked the process, just as a host function may.
        Ok(()) => call.continue_whole(),
        Err(end) => call.leave(end),
    });
    let answered = match watched {
        Some(watched) => watched.in_host(|| panic::catch_unwind(answer)),
        None => panic::catch_unwind(answer),
    };
    answered.unwrap_or_else(|panic| call.leave(End::Panic(panic)))
}

/// Answers a call of a host function, on the host's stack: a
/// [`HostAnswer`](crate::switch::activation::HostAnswer).
///
/// # Safety
///
/// `call` must be the [`Call`] of a running guest, with the same `T`. `vmctx`, `entry` and `cells`
/// must come from an exit of that guest. The entry must belong to a `C`, and `cells` must point to
/// the cells of that host function.
pub(crate) unsafe extern "C" fn answer_host<T, C: HostCode<T>>(
    vmctx: *mut u8,
    entry: *const HostEntry,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation {
    let call = call.cast::<Call<'_, T>>();
    // SAFETY: the caller ensures that `call` is valid, and that the entry belongs to a `C`.
    // `run_in` is inside `start` or `resume`, so the guest of `call` waits.
    let (data, watched, code) =
        unsafe { ((*call).data, (*call).watched, &*(*entry).func.cast::<C>()) };
    if let Some(watched) = watched {
        // SAFETY: the caller ensures that `vmctx` and `cells` belong to the guest's call of `code`.
        return unsafe { answer_watched(call, watched, code, vmctx, cells) };
    }
    // SAFETY: the caller ensures that `vmctx` and `cells` belong to the guest's call of `code`.
    let answered = unsafe { host(data, code, vmctx, cells) };
    // SAFETY: the host function has returned, so nothing else uses the call.
    let call = unsafe { &mut *call };
    match answered {
        // With one member, the switch notices a fork by itself: the kernel wiped the member's
        // interrupt flag together with its memory.
        Ok(Ok(Answered::Done)) if call.members.len() == 1 => ptr::null_mut(),
        Ok(Ok(Answered::Done)) => call.continue_whole(),
        Ok(Ok(Answered::Later)) => call.leave(End::Waits),
        Ok(Err(error)) => call.leave(End::Host(error)),
        Err(panic) => call.leave(End::Panic(panic)),
    }
}

/// [`answer_host`] for a call that can be stopped. This is a separate function, so that the common
/// path saves few registers.
///
/// # Safety
///
/// As [`answer_host`].
#[inline(never)]
unsafe fn answer_watched<T, C: HostCode<T>>(
    call: *mut Call<'_, T>,
    watched: &Watched,
    code: &C,
    vmctx: *mut u8,
    cells: *mut Cell,
) -> *mut Activation {
    // SAFETY: the caller ensures that `call` is valid, and that `vmctx` and `cells` belong to the
    // guest's call of `code`.
    let answered = watched.in_host(|| unsafe { host((*call).data, code, vmctx, cells) });
    // SAFETY: the host function has returned, so nothing else uses the call.
    let call = unsafe { &mut *call };
    match answered {
        Ok(Ok(Answered::Done)) => call.continue_whole(),
        Ok(Ok(Answered::Later)) => call.leave(End::Waits),
        Ok(Err(error)) => call.leave(End::Host(error)),
        Err(panic) => call.leave(End::Panic(panic)),
    }
}

/// The entry of an import that is not a host function.
pub(crate) fn not_of_the_host<T>() -> HostEntry {
    /// # Safety
    ///
    /// As [`answer_host`].
    unsafe extern "C" fn answer<T>(
        _: *mut u8,
        _: *const HostEntry,
        _: *mut Cell,
        call: *mut (),
    ) -> *mut Activation {
        // SAFETY: the caller ensures that `call` is valid. `run_in` is inside `start` or `resume`,
        // so the guest of `call` waits.
        let call = unsafe { &mut *call.cast::<Call<'_, T>>() };
        call.leave(End::Invalid(InvalidCall::ImportNotOfHost.into()))
    }
    HostEntry {
        answer: answer::<T>,
        func: ptr::null(),
    }
}
