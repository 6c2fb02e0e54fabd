//! aarch64: the routines with pairs of vectors of 16 bytes.
//!
//! Once the bounds are checked, x1 and x2 are the addresses of destination and source, and x8 is
//! the address of the interrupt flag. At each access, the rest starts x7 bytes after the start of
//! the range, and ends x3 + x6 bytes after it.
//!
//! # Safety
//!
//! Owns the facts of [`super`], instruction by instruction.
#![allow(unsafe_code)]

use super::{Rest, Routine, SHORT};
use crate::switch::activation::{BULK_MEMORY, INTERRUPT_FLAG};
use crate::switch::interrupt_flag::GO;
use core::arch::naked_asm;
use pirn_format::layout::{CONTEXT_ACTIVATION, MEMORY_BASE, MEMORY_BYTES};

/// Number of routines with accesses.
pub(super) const COUNT: usize = 2;
/// The instruction before the accesses of a routine: `movz xzr, #0x7069, lsl #16`, which does
/// nothing (Arm ARM, C6.2, MOVZ).
pub(super) const MARK: Option<u32> = Some(0xd2a0_0000 | 0x7069 << 5 | 31);
/// The code that ends a routine.
pub(super) const ENDS: [*const (); 1] = [failed as *const ()];

/// The routines with accesses, and what each does after SIGBUS.
pub(super) fn all() -> [Routine; COUNT] {
    let failed = failed as *const ();
    [(copy as *const (), failed), (fill as *const (), failed)]
}

/// Whether this processor can run the routine with this number.
#[cfg(test)]
pub(super) fn is_possible(_: usize) -> bool {
    true
}

/// Address of the routine for [`pirn_format::layout::Context::copy`].
pub(crate) fn copy_routine() -> u64 {
    copy as *const () as u64
}

/// Address of the routine for [`pirn_format::layout::Context::fill`].
pub(crate) fn fill_routine() -> u64 {
    fill as *const () as u64
}

/// Stores the byte that is at an address, without undoing the store of another thread.
macro_rules! touch {
    ($address:literal) => {
        concat!(
            "7: ldxrb w13, [",
            $address,
            "]\nstxrb w12, w13, [",
            $address,
            "]\ncbnz w12, 7b"
        )
    };
}

/// Checks the bounds of a routine, and sets the registers for its accesses. The instructions
/// `later` put the later start into x4, and `start` names the registers with the starts.
macro_rules! checked {
    ($($template:expr,)*; [$($later:literal),*], [$($start:literal),*], $($rest:tt)*) => {
        naked_asm!(
            ".p2align 6",
            ".cfi_startproc",
            "sub x9, x0, {memory}",
            "ldr x5, [x9]",
            "ldur x8, [x0, {activation}]",
            "ldr x6, [x5, {memory_bytes}]",
            "ldr x5, [x5, {memory_base}]",
            "ldr x8, [x8, {flag}]",
            $($later,)*
            // The bytes from the later start to the end of the memory.
            "subs x6, x6, x4",
            "csel x6, x6, xzr, hs",
            "mov x9, 64",
            "cmp x3, x6",
            "b.hi 9f",
            $(concat!("csel ", $start, ", ", $start, ", xzr, ls"),)*
            "csel x3, x3, x9, ls",
            "csdb",
            "cmp x3, {short}",
            "b.ls 9f",
            "csel x3, x3, x9, hi",
            "csdb",
            $(concat!("add ", $start, ", ", $start, ", x5"),)*
            "mov x6, 0",
            "mov x7, 0",
            // `MARK`: the accesses begin here.
            "movz xzr, #0x7069, lsl #16",
            $($template,)*
            // Ends the routine early: nothing is done.
            "9:",
            "mov x0, 0",
            "mov x1, x3",
            "ret",
            ".cfi_endproc",
            // The end marker of `part`.
            "udf 0x7069",
            "udf 0x726e",
            memory = const -BULK_MEMORY,
            activation = const CONTEXT_ACTIVATION,
            memory_bytes = const MEMORY_BYTES,
            memory_base = const MEMORY_BASE,
            flag = const INTERRUPT_FLAG,
            short = const SHORT,
            go = const GO,
            failed = sym failed,
            last_check = sym last_check,
            $($rest)*
        )
    };
}

/// `copy(vmctx, to, from, len)`
#[unsafe(naked)]
unsafe extern "C" fn copy(vmctx: *mut u8, to: u64, from: u64, len: u64) -> Rest {
    checked!(
        "sub x4, x1, x2",
        "cmp x4, x3",
        "b.lo 5f",
        // Ascend: x3 is the position of the last iteration.
        "subs x3, x3, 64",
        "csel x3, x3, xzr, hs",
        "csdb",
        "mov x6, 64",
        "add x9, x2, x3",
        "ldp q4, q5, [x9]",
        "ldp q6, q7, [x9, 32]",
        "3:",
        "add x9, x2, x7",
        "ldp q0, q1, [x9]",
        "ldp q2, q3, [x9, 32]",
        "add x9, x1, x7",
        "add x10, x9, 63",
        "tst x10, 4096 - 64",
        "b.eq 33f",
        "32:",
        "stp q0, q1, [x9]",
        "stp q2, q3, [x9, 32]",
        "add x7, x7, 64",
        "ldrb w10, [x8]",
        "cmp w10, {go}",
        "b.ne 8f",
        "cmp x7, x3",
        "b.lo 3b",
        "add x9, x1, x3",
        "add x10, x9, 63",
        "tst x10, 4096 - 64",
        "b.ne 34f",
        "sub x11, x2, x1",
        "cmp x11, 64",
        "b.hs 34f",
        touch!("x9"),
        touch!("x10"),
        "34:",
        "stp q4, q5, [x9]",
        "stp q6, q7, [x9, 32]",
        "b {last_check}",
        "33:",
        "sub x11, x2, x1",
        "cmp x11, 64",
        "b.hs 32b",
        touch!("x9"),
        touch!("x10"),
        "b 32b",
        // Descend: x3 is the end of the rest, and x11 the position of an iteration.
        "5:",
        "ldp q4, q5, [x2]",
        "ldp q6, q7, [x2, 32]",
        "6:",
        "subs x11, x3, 64",
        "csel x11, x11, xzr, hs",
        "csdb",
        "add x9, x2, x11",
        "ldp q0, q1, [x9]",
        "ldp q2, q3, [x9, 32]",
        "add x9, x1, x11",
        "add x10, x9, 63",
        "tst x10, 4096 - 64",
        "b.eq 63f",
        "62:",
        "stp q0, q1, [x9]",
        "stp q2, q3, [x9, 32]",
        "mov x3, x11",
        "ldrb w10, [x8]",
        "cmp w10, {go}",
        "b.ne 8f",
        "cmp x3, 64",
        "b.hi 6b",
        "add x10, x1, 63",
        "tst x10, 4096 - 64",
        "b.ne 64f",
        "cmp x4, 64",
        "b.hs 64f",
        touch!("x1"),
        touch!("x10"),
        "64:",
        "stp q4, q5, [x1]",
        "stp q6, q7, [x1, 32]",
        "b {last_check}",
        "63:",
        "cmp x4, 64",
        "b.hs 62b",
        touch!("x9"),
        touch!("x10"),
        "b 62b",
        "8:",
        "b {failed}",
        ;
        ["cmp x1, x2", "csel x4, x1, x2, hi"],
        ["x1", "x2"],
    )
}

/// `fill(vmctx, to, byte, len)`
#[unsafe(naked)]
unsafe extern "C" fn fill(vmctx: *mut u8, to: u64, byte: u64, len: u64) -> Rest {
    checked!(
        "dup v0.16b, w2",
        // x7 is the position, and x3 the position of the last iteration.
        "subs x3, x3, 64",
        "csel x3, x3, xzr, hs",
        "csdb",
        "mov x6, 64",
        "3:",
        "add x9, x1, x7",
        "stp q0, q0, [x9]",
        "stp q0, q0, [x9, 32]",
        "add x7, x7, 64",
        "ldrb w10, [x8]",
        "cmp w10, {go}",
        "b.ne 8f",
        "cmp x7, x3",
        "b.lo 3b",
        "add x9, x1, x3",
        "stp q0, q0, [x9]",
        "stp q0, q0, [x9, 32]",
        "b {last_check}",
        "8:",
        "b {failed}",
        ;
        ["mov x4, x1"],
        ["x1"],
    )
}

/// Ends a routine that has done all: returns an empty rest if the interrupt flag at x8 is set. The
/// code may be repeated at any instruction. It clears x1, so that the guest gets no address.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn last_check() -> Rest {
    naked_asm!(
        "ldrb w9, [x8]",
        "cmp w9, {go}",
        "b.ne 2f",
        "mov x0, -1",
        "mov x1, 0",
        "ret",
        "2:",
        "mov x0, 0",
        "mov x1, 0",
        "ret",
        "udf 0x7069",
        "udf 0x726e",
        go = const GO,
    )
}

/// Ends a routine early: returns the rest.
#[unsafe(naked)]
unsafe extern "C" fn failed() -> Rest {
    naked_asm!(
        "mov x0, x7",
        "add x1, x3, x6",
        "sub x1, x1, x7",
        "ret",
        "udf 0x7069",
        "udf 0x726e"
    )
}
