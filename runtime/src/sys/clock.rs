//! Clocks, and the kernel's thread id, to which a signal can be sent.
//!
//! # Safety
//!
//! Owns the arguments of clock_gettime(2) and pthread_getcpuclockid(3).
#![allow(unsafe_code)]

use super::fork::ForkMark;
use core::cell::Cell;
use nix::sys::prctl;
use nix::unistd::gettid;
use once_cell::race::OnceBox;

/// The kernel's id of this thread (gettid(2)).
#[inline]
pub(crate) fn thread_id() -> i32 {
    thread_local! {
        static ID: Cell<i32> = const { Cell::new(0) };
    }
    // In a fork, the only thread is a copy of a thread with another id.
    static OURS: OnceBox<Option<ForkMark>> = OnceBox::new();
    let mark = OURS.get_or_init(|| Box::new(ForkMark::new().ok()));
    let known = ID.get();
    if known != 0 && mark.as_ref().is_some_and(ForkMark::is_ours) {
        return known;
    }
    let id = gettid().as_raw();
    ID.set(id);
    id
}

/// The monotonic clock, in nanoseconds.
#[inline]
pub(crate) fn now_ns() -> u64 {
    time_ns(libc::CLOCK_MONOTONIC)
}

/// Processor time of this thread, in nanoseconds. Reading it is a system call.
pub(crate) fn thread_cpu_ns() -> u64 {
    time_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// This thread's processor-time clock, which any thread may read.
pub(crate) fn cpu_clock() -> libc::clockid_t {
    let mut clock = libc::CLOCK_THREAD_CPUTIME_ID;
    // nix lacks pthread_getcpuclockid(3).
    // SAFETY: this thread lives, and the result is written to a clock id. So the call cannot fail.
    // If the call failed, the clock would be the reading thread's clock, and a budget would not be
    // enforced.
    unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
    clock
}

/// Time of a clock in nanoseconds; 0 if the clock's thread is gone.
///
/// The function calls libc, not nix: each call with a limit reads clocks, and nix takes 31 ns
/// instead of 24 ns. The function of nix is not inlined, and copies the time.
pub(crate) fn time_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec. The time stays zero if the clock does not exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Makes the kernel wake this thread on time. By default, the kernel may wake a thread up to 50 us
/// later, to combine wake-ups (`PR_SET_TIMERSLACK`, prctl(2)).
pub(crate) fn wake_in_time() {
    // If the call fails, the thread only wakes later.
    let _ = prctl::set_timerslack(1);
}
