//! The records that Linux puts after the registers in the context of a signal: vector registers,
//! and the syndrome of a fault (arch/arm64/include/uapi/asm/sigcontext.h).
//!
//! # Safety
//!
//! Owns the fact that a record is read only where the kernel has put a record of its type and size.
#![allow(unsafe_code)]

/// Number of vector registers.
pub(super) const VECTOR: usize = 32;

/// Offset of the records after `pstate` in a `struct sigcontext`. The records are 16-byte aligned.
pub(super) const RECORDS: usize = 288;
/// Size of the area of records, in bytes.
const RECORDS_BYTES: usize = 4096;

/// First fields of each record: `struct _aarch64_ctx`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    magic: u32,
    bytes: u32,
}

/// A kind of record in a signal's context.
pub(super) trait Extension: Copy {
    const MAGIC: u32;
}

/// `struct fpsimd_context`, which is in every frame.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct FpSimd {
    head: Head,
    pub(super) fpsr: u32,
    pub(super) fpcr: u32,
    pub(super) vector: [u128; VECTOR],
}

impl Extension for FpSimd {
    const MAGIC: u32 = 0x4650_8001;
}

/// `struct esr_context`: the exception syndrome of a fault.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Syndrome {
    head: Head,
    pub(super) esr: u64,
}

impl Extension for Syndrome {
    const MAGIC: u32 = 0x4553_5201;
}

/// Returns the record of a type, if there is such a record. The kernel moves records that do not
/// fit to another place. It places records of the two types of this file first, so they always fit
/// (arch/arm64/kernel/signal.c, `setup_sigframe_layout`).
///
/// # Safety
///
/// The context must come from the kernel.
pub(super) unsafe fn record<R: Extension>(context: &libc::ucontext_t) -> Option<R> {
    let first = (&raw const context.uc_mcontext).wrapping_byte_add(RECORDS);
    let mut at = 0;
    while at + size_of::<Head>() <= RECORDS_BYTES {
        // SAFETY: the records lie one after another in the context, and `at` is within them.
        let head = unsafe { first.byte_add(at).cast::<Head>().read() };
        let bytes = head.bytes as usize;
        if head.magic == R::MAGIC && bytes >= size_of::<R>() && at + bytes <= RECORDS_BYTES {
            // SAFETY: the record lies within the context, and a record with this magic number has
            // the size and layout of `R`.
            return Some(unsafe { first.byte_add(at).cast::<R>().read() });
        }
        // The last record is all zeros.
        if bytes == 0 {
            break;
        }
        at += bytes;
    }
    None
}
