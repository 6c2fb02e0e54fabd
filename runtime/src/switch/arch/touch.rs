//! Touching one byte of guest memory whose page the kernel may refuse.
//!
//! Each routine begins with the only instruction that can fault. If it raises SIGBUS, the signal
//! handler resumes at [`failed`], which returns [`FAILED`] to the caller of the routine.
//!
//! # Safety
//!
//! Owns the fact that the first instruction of [`load`] and of [`store`] is the access, and that
//! [`failed`] returns as those routines do: none of them has a frame.
#![allow(unsafe_code)]

use core::arch::naked_asm;

/// What a routine returns when the access raised SIGBUS. No byte has this value.
pub(crate) const FAILED: u32 = 256;

/// Loads the byte at an address.
///
/// # Safety
///
/// The address must be in memory that is readable once the kernel has a page for it.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load(at: *const u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("movzx eax, byte ptr [rdi]", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("ldrb w0, [x0]", "ret");
}

/// Stores a byte at an address, and returns a value other than [`FAILED`].
///
/// # Safety
///
/// The address must be in memory that is writable once the kernel has a page for it, and nobody
/// else may use the byte meanwhile.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn store(at: *mut u8, byte: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov byte ptr [rdi], sil", "xor eax, eax", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("strb w1, [x0]", "mov w0, #0", "ret");
}

/// Where a routine is resumed whose access raised SIGBUS.
#[unsafe(naked)]
unsafe extern "C" fn failed() -> u32 {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov eax, {failed}", "ret", failed = const FAILED);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov w0, #{failed}", "ret", failed = const FAILED);
}

/// If a SIGBUS interrupted the access of [`load`] or [`store`], resumes at [`failed`]. Tells whether
/// it did.
pub(crate) fn fail(context: &mut libc::ucontext_t) -> bool {
    #[cfg(target_arch = "x86_64")]
    let pc = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    #[cfg(target_arch = "aarch64")]
    let pc = &mut context.uc_mcontext.pc;
    let touches = [load as *const () as u64, store as *const () as u64];
    let found = touches.contains(&(*pc as u64));
    if found {
        *pc = failed as *const () as _;
    }
    found
}
