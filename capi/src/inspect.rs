//! The functions that make errors and read them.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::entry::{self, guard_or, read};
use crate::error::{
    FrameTexts, PIRN_ERROR_HOST, PIRN_OK, argument, pirn_error_kind_t, pirn_error_t, pirn_frame_t,
    trap_code,
};
use core::ffi::c_char;
use pirn_runtime::Trap;

/// Makes an error for a host function to return: the guest's call ends with this error. `message`
/// is copied. `user` is any number of the embedder's, which pirn_error_user returns.
///
/// The caller owns the error. A host function that returns it gives it to the library. This
/// function never returns NULL. If `message` is no valid text, the error says so.
///
/// # Safety
///
/// `message` is a C string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_new(message: *const c_char, user: u64) -> *mut pirn_error_t {
    let made = guard_or(None, || {
        // SAFETY: by the header's contract, the C caller passes a C string or NULL as `message`,
        // valid during this call.
        Some(match unsafe { entry::text(message, "message") } {
            Ok(message) => pirn_error_t::of_embedder(message, user),
            Err(error) => pirn_error_t::of_embedder(&error.cause.to_string(), user),
        })
    });
    let otherwise = || pirn_error_t::text(PIRN_ERROR_HOST, "");
    Box::into_raw(made.unwrap_or_else(otherwise))
}

/// Makes the error of a trap for a host function to return: the guest's call of the host function
/// traps with this code, one of PIRN_TRAP_STACK_OVERFLOW to PIRN_TRAP_HOST_MEMORY_EXHAUSTED. The
/// call's error then has a backtrace.
///
/// The caller owns the error. An unknown code gives an error of kind PIRN_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_error_trap(code: u32) -> *mut pirn_error_t {
    let error = match trap_code(code) {
        Some(code) => Trap::new(code).into(),
        None => argument(format!(
            "trap code is {code}, which is none; pass one of PIRN_TRAP_STACK_OVERFLOW to \
             PIRN_TRAP_HOST_MEMORY_EXHAUSTED"
        )),
    };
    Box::into_raw(error)
}

/// The kind of an error; PIRN_OK for NULL.
///
/// # Safety
///
/// `error` is a live error or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_kind(error: *const pirn_error_t) -> pirn_error_kind_t {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error`, valid during
    // this call.
    unsafe { read(error, PIRN_OK, pirn_error_t::kind) }
}

/// The message of an error: one line, UTF-8, valid as long as the error. An empty text for NULL.
///
/// # Safety
///
/// `error` is a live error or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_message(error: *const pirn_error_t) -> *const c_char {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error`, valid during
    // this call.
    unsafe { read(error, c"".as_ptr(), |error| error.message().as_ptr()) }
}

/// The message, and one line for each frame of the backtrace. The text is UTF-8, has no line break
/// at the end, and is valid as long as the error. An empty text for NULL.
///
/// # Safety
///
/// `error` is a live error or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_report(error: *const pirn_error_t) -> *const c_char {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error`, valid during
    // this call.
    unsafe { read(error, c"".as_ptr(), |error| error.report().as_ptr()) }
}

/// The code of the trap, one of PIRN_TRAP_STACK_OVERFLOW to PIRN_TRAP_HOST_MEMORY_EXHAUSTED; 0 if
/// the error is no trap, or NULL.
///
/// # Safety
///
/// `error` is a live error or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_trap_code(error: *const pirn_error_t) -> u32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error`, valid during
    // this call.
    unsafe { read(error, 0, pirn_error_t::trap_code) }
}

/// The exit code of a guest that called `proc_exit` or `exit`; 0 if the kind is not
/// PIRN_ERROR_EXIT.
///
/// # Safety
///
/// `error` is a live error or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_exit_code(error: *const pirn_error_t) -> u32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error`, valid during
    // this call.
    unsafe { read(error, 0, pirn_error_t::exit_code) }
}

/// The number that the embedder gave to pirn_error_new; 0 for other errors and for NULL.
///
/// # Safety
///
/// `error` is a live error or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_user(error: *const pirn_error_t) -> u64 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error`, valid during
    // this call.
    unsafe { read(error, 0, pirn_error_t::user) }
}

/// The number of frames in the backtrace, at most 64. 0 for NULL. Only traps, exceptions, panics of
/// host functions, kills, deadlines and processor budgets have frames.
///
/// # Safety
///
/// `error` is a live error or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_frame_count(error: *const pirn_error_t) -> usize {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error`, valid during
    // this call.
    unsafe { read(error, 0, |error| error.frames().len()) }
}

/// Writes frame `index` of the backtrace to `frame`; 0 is the innermost frame. Returns 1, or 0
/// without a write if there is no such frame or if a pointer is NULL.
///
/// # Safety
///
/// `error` is a live error or NULL, and `frame` is writable or NULL. The texts of the frame are
/// valid as long as the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_frame(
    error: *const pirn_error_t,
    index: usize,
    frame: *mut pirn_frame_t,
) -> i32 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error` and a writable
    // or NULL `frame`, valid during this call.
    unsafe {
        read(error, 0, |error| {
            entry::item(error.frames(), index, frame, FrameTexts::pointers)
        })
    }
}

/// Frees an error, with its texts and frames.
///
/// # Safety
///
/// `error` is a live error, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_error_delete(error: *mut pirn_error_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `error`, and does not
    // use it again.
    unsafe { entry::delete(error) };
}
