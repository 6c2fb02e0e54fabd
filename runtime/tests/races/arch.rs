//! How a call is met at its instructions, one by one: a file for each architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Has a signal's handler run on the alternate stack; the interrupt of a guest comes when it is done.
fn handle(signal: i32, handler: usize, flags: i32) {
    // SAFETY: all-zero is a valid sigaction; the callers' handlers are of the type that the flags say.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_ONSTACK | flags;
        libc::sigaddset(&raw mut action.sa_mask, libc::SIGURG);
        let set = libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        assert_eq!(set, 0);
    }
}
