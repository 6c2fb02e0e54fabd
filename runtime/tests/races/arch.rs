//! Single steps through a call: a file for each architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Installs a handler that runs on the alternate stack. It blocks SIGURG, so a guest's interrupt is
/// delivered after the handler has returned.
fn handle(signal: i32, handler: usize, flags: i32) {
    // SAFETY: all-zero is a valid `sigaction`. Each caller passes a handler of the type that its
    // `flags` require.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_ONSTACK | flags;
        libc::sigaddset(&raw mut action.sa_mask, libc::SIGURG);
        let set = libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        assert_eq!(set, 0);
    }
}
