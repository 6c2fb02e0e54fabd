//! How a thread is set to compute with floating point, on each architecture.
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

    /// The bits of MXCSR that are no status.
    const CONTROL: u32 = 0xffc0;
    /// Denormals as zeros, rounding up, flushing to zero.
    pub(crate) const ODD: u32 = 1 << 6 | 0x1f80 | 2 << 13 | 1 << 15;
    /// With division by zero and what is invalid not masked besides.
    pub(crate) const FAULTING: u32 = ODD & !(1 << 9 | 1 << 7);
    /// As threads begin.
    pub(crate) const PLAIN: u32 = 0x1f80;

    pub(crate) fn get() -> u32 {
        let mut bits = 0;
        // SAFETY: stores the register where it is told to.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack)) };
        bits & CONTROL
    }

    pub(crate) fn set(bits: u32) {
        // SAFETY: no reserved bit is set; what is computed by Rust meanwhile is not looked at.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use core::arch::asm;

    /// Rounding up, flushing to zero.
    pub(crate) const ODD: u64 = 1 << 22 | 1 << 24;
    /// With division by zero and what is invalid trapped, where the processor can.
    pub(crate) const FAULTING: u64 = ODD | 1 << 8 | 1 << 9;
    /// As threads begin.
    pub(crate) const PLAIN: u64 = 0;

    pub(crate) fn get() -> u64 {
        let bits;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) bits, options(nomem, nostack)) };
        bits
    }

    pub(crate) fn set(bits: u64) {
        // SAFETY: no reserved bit is set; what is computed by Rust meanwhile is not looked at.
        unsafe { asm!("msr fpcr, {}", in(reg) bits, options(nomem, nostack)) };
    }
}
