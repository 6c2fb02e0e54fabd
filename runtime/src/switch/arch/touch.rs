//! Loads and stores of a byte or number in guest memory, whose page may be missing.
//!
//! Each routine begins with its only instruction that can fault. If this access raises SIGBUS, the
//! signal handler fills no page, but resumes at [`failed`], which reports the failure to the caller
//! of the routine. The caller then fills many pages at once (`memory/populate.rs`).
//!
//! # Safety
//!
//! Owns the fact that the first instruction of each routine in [`routines`] is the access, and that
//! [`failed`] returns as those routines do: no routine has a frame.
#![allow(unsafe_code)]

use core::arch::naked_asm;

/// The result of a routine whose access raised SIGBUS. No byte has this value.
pub(crate) const FAILED: u32 = 256;

/// The result of a routine that loads a number, in two registers.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LoadedNumber {
    /// The number, unless the access raised SIGBUS.
    pub(crate) number: u64,
    /// 0, or 1 if the access raised SIGBUS.
    pub(crate) failed: u64,
}

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

/// Stores the byte that is at an address, and returns a value other than [`FAILED`].
///
/// On x86_64, one instruction loads and stores, so a fresh page raises one fault, for writing. A
/// load would raise a fault that maps the kernel's page of zeros, and the store after it would
/// raise a second fault, which replaces that page. Not every processor for aarch64 has such an
/// instruction.
///
/// # Safety
///
/// The address must be in memory that is writable once the kernel has a page for it. No other
/// thread may use the byte during the call.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn dirty(at: *mut u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("or byte ptr [rdi], 0", "xor eax, eax", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("ldrb w1, [x0]", "b {store}", store = sym store_byte);
}

/// The second access of [`dirty`].
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn store_byte(at: *mut u8, byte: u32) -> u32 {
    naked_asm!("strb w1, [x0]", "mov w0, #0", "ret");
}

/// Loads the number of 32 bits at an address, which need not be aligned.
///
/// # Safety
///
/// As [`load`], for 4 bytes.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load_u32(at: *const u8) -> LoadedNumber {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov eax, dword ptr [rdi]", "xor edx, edx", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("ldr w0, [x0]", "mov x1, #0", "ret");
}

/// Loads the number of 64 bits at an address, which need not be aligned.
///
/// # Safety
///
/// As [`load`], for 8 bytes.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load_u64(at: *const u8) -> LoadedNumber {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov rax, qword ptr [rdi]", "xor edx, edx", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("ldr x0, [x0]", "mov x1, #0", "ret");
}

/// Stores a number of 32 bits at an address, which need not be aligned, and returns a value other
/// than [`FAILED`].
///
/// # Safety
///
/// As [`dirty`], for 4 bytes.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn store_u32(at: *mut u8, number: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov dword ptr [rdi], esi", "xor eax, eax", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("str w1, [x0]", "mov w0, #0", "ret");
}

/// Stores a number of 64 bits at an address, which need not be aligned, and returns a value other
/// than [`FAILED`].
///
/// # Safety
///
/// As [`dirty`], for 8 bytes.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn store_u64(at: *mut u8, number: u64) -> u32 {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov qword ptr [rdi], rsi", "xor eax, eax", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("str x1, [x0]", "mov w0, #0", "ret");
}

/// A routine whose access raised SIGBUS resumes here. Returns [`FAILED`], and 1 as
/// [`LoadedNumber::failed`].
#[unsafe(naked)]
unsafe extern "C" fn failed() -> LoadedNumber {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov eax, {failed}", "mov edx, 1", "ret", failed = const FAILED);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov w0, #{failed}", "mov x1, #1", "ret", failed = const FAILED);
}

/// The number of routines.
const ROUTINES: usize = 6 + cfg!(target_arch = "aarch64") as usize;

/// Addresses of all routines. The address of a routine is also the address of its access.
fn routines() -> [usize; ROUTINES] {
    [
        load as *const () as usize,
        dirty as *const () as usize,
        #[cfg(target_arch = "aarch64")]
        {
            store_byte as *const () as usize
        },
        load_u32 as *const () as usize,
        load_u64 as *const () as usize,
        store_u32 as *const () as usize,
        store_u64 as *const () as usize,
    ]
}

/// If a SIGBUS interrupted the access of one of the [`routines`], makes the routine resume at
/// [`failed`]. Returns whether the SIGBUS interrupted such an access.
pub(crate) fn fail(context: &mut libc::ucontext_t) -> bool {
    let found = routines().contains(&super::interrupted(context).pc);
    if found {
        super::continue_at(context, failed as *const () as usize);
    }
    found
}
