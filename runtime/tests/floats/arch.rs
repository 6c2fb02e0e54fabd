//! The floating-point control register of a thread, on each architecture.
#![allow(
    unsafe_code,
    reason = "a test that sets the control registers of its threads"
)]

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::arch::asm;

    /// The bits of MXCSR that are not status flags.
    const CONTROL: u32 = 0xffc0;
    /// Denormals are zeros, round up, flush to zero.
    pub(crate) const ODD: u32 = 1 << 6 | 0x1f80 | 2 << 13 | 1 << 15;
    /// `ODD`, with exceptions for division by zero and invalid operations unmasked.
    pub(crate) const FAULTING: u32 = ODD & !(1 << 9 | 1 << 7);
    /// The initial value of a thread.
    pub(crate) const PLAIN: u32 = 0x1f80;

    pub(crate) fn get() -> u32 {
        let mut bits = 0;
        // SAFETY: `stmxcsr` stores 4 bytes to `bits`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack)) };
        bits & CONTROL
    }

    pub(crate) fn set(bits: u32) {
        // SAFETY: no reserved bit is set. Rust code computes no floating-point value that the test
        // uses meanwhile.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use core::arch::asm;

    /// Round up, flush to zero.
    pub(crate) const ODD: u64 = 1 << 22 | 1 << 24;
    /// `ODD`, with traps for division by zero and invalid operations, where the processor supports
    /// them.
    pub(crate) const FAULTING: u64 = ODD | 1 << 8 | 1 << 9;
    /// The initial value of a thread.
    pub(crate) const PLAIN: u64 = 0;

    pub(crate) fn get() -> u64 {
        let bits;
        // SAFETY: `mrs` only reads FPCR.
        unsafe { asm!("mrs {}, fpcr", out(reg) bits, options(nomem, nostack)) };
        bits
    }

    pub(crate) fn set(bits: u64) {
        // SAFETY: no reserved bit is set. Rust code computes no floating-point value that the test
        // uses meanwhile.
        unsafe { asm!("msr fpcr, {}", in(reg) bits, options(nomem, nostack)) };
    }
}
