//! x86_64: the routines with vectors of 32 bytes, and of 16 bytes for processors without AVX2.
//!
//! Once the bounds are checked, rsi is the address of the destination, rdx the address of the
//! source or the byte of a fill, r11 the address of the interrupt flag, and rdi is 0. At each
//! access, the rest starts r10 bytes after the start of the range, and ends rcx + r9 bytes after
//! it.
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
use std::arch::is_x86_feature_detected;

/// Number of routines with accesses.
pub(super) const COUNT: usize = 4;
/// The instruction before the accesses of a routine: a `nop` with "pirn" as its constant (Intel
/// SDM, volume 2, NOP).
pub(super) const MARK: &[u8] = &[0x0f, 0x1f, 0x80, b'p', b'i', b'r', b'n'];
/// The code that ends a routine.
pub(super) const ENDS: [*const (); 2] = [failed as *const (), failed_wide as *const ()];

/// The routines with accesses, and what each does after SIGBUS.
pub(super) fn all() -> [Routine; COUNT] {
    let (wide, narrow) = (failed_wide as *const (), failed as *const ());
    [
        (copy_wide as *const (), wide),
        (fill_wide as *const (), wide),
        (copy_narrow as *const (), narrow),
        (fill_narrow as *const (), narrow),
    ]
}

/// Whether this processor can run the routine with this number.
#[cfg(test)]
pub(super) fn is_possible(number: usize) -> bool {
    number >= 2 || is_x86_feature_detected!("avx2")
}

/// Address of the routine for [`pirn_format::layout::Context::copy`].
pub(crate) fn copy_routine() -> u64 {
    match is_x86_feature_detected!("avx2") {
        true => copy_wide as *const () as u64,
        false => copy_narrow as *const () as u64,
    }
}

/// Address of the routine for [`pirn_format::layout::Context::fill`].
pub(crate) fn fill_routine() -> u64 {
    match is_x86_feature_detected!("avx2") {
        true => fill_wide as *const () as u64,
        false => fill_narrow as *const () as u64,
    }
}

/// Checks the bounds of a routine, and sets the registers for its accesses. The instructions
/// `later` put the later start into rax, and `start` names the registers with the starts.
macro_rules! checked {
    (
        $($template:expr,)*;
        [$($later:literal),*], [$($start:literal),*], $bytes:literal, $($rest:tt)*
    ) => {
        naked_asm!(
            ".p2align 6",
            ".cfi_startproc",
            "mov r8, [rdi + {memory}]",
            "mov r11, [rdi + {activation}]",
            "mov r9, [r8 + {memory_bytes}]",
            "mov r8, [r8 + {memory_base}]",
            "mov r11, [r11 + {flag}]",
            "xor edi, edi",
            $($later,)*
            // The bytes from the later start to the end of the memory.
            "sub r9, rax",
            "cmovb r9, rdi",
            concat!("mov eax, 4 * ", $bytes),
            "cmp rcx, r9",
            "ja 9f",
            $(concat!("cmova ", $start, ", rdi"),)*
            "cmova rcx, rax",
            "cmp rcx, {short}",
            "jbe 9f",
            "cmovbe rcx, rax",
            $(concat!("add ", $start, ", r8"),)*
            "xor r9d, r9d",
            "xor r10d, r10d",
            // `MARK`: the accesses begin here.
            "nop dword ptr [rax + 0x6e726970]",
            $($template,)*
            // Nothing is done.
            "9:",
            "xor eax, eax",
            "mov rdx, rcx",
            "ret",
            ".cfi_endproc",
            "ud2; ud2; ud2; ud2",
            memory = const BULK_MEMORY,
            activation = const CONTEXT_ACTIVATION,
            memory_bytes = const MEMORY_BYTES,
            memory_base = const MEMORY_BASE,
            flag = const INTERRUPT_FLAG,
            short = const SHORT,
            $($rest)*
        )
    };
}

/// Loads four vector registers, with the numbers `a`, `b`, `c` and `d`, from consecutive addresses.
/// The first is `address`.
// rustfmt would break the lines of the instructions.
#[rustfmt::skip]
macro_rules! load {
    (
        $move:literal, $vector:literal, [$a:literal, $b:literal, $c:literal, $d:literal],
        $address:literal, $bytes:literal
    ) => {
        concat!(
            $move, " ", $vector, $a, ", [", $address, " + 0 * ", $bytes, "]\n",
            $move, " ", $vector, $b, ", [", $address, " + 1 * ", $bytes, "]\n",
            $move, " ", $vector, $c, ", [", $address, " + 2 * ", $bytes, "]\n",
            $move, " ", $vector, $d, ", [", $address, " + 3 * ", $bytes, "]",
        )
    };
}

/// Stores four vector registers, with the numbers `a`, `b`, `c` and `d`, to consecutive addresses.
/// The first is `address`.
// rustfmt would break the lines of the instructions.
#[rustfmt::skip]
macro_rules! store {
    (
        $move:literal, $vector:literal, [$a:literal, $b:literal, $c:literal, $d:literal],
        $address:literal, $bytes:literal
    ) => {
        concat!(
            $move, " [", $address, " + 0 * ", $bytes, "], ", $vector, $a, "\n",
            $move, " [", $address, " + 1 * ", $bytes, "], ", $vector, $b, "\n",
            $move, " [", $address, " + 2 * ", $bytes, "], ", $vector, $c, "\n",
            $move, " [", $address, " + 3 * ", $bytes, "], ", $vector, $d,
        )
    };
}

macro_rules! copy {
    (
        $name:ident, $move:literal, $vector:literal, $bytes:literal, [$($clear:literal)?],
        $failed:ident
    ) => {
        /// `copy(vmctx, to, from, len)`
        #[unsafe(naked)]
        unsafe extern "C" fn $name(vmctx: *mut u8, to: u64, from: u64, len: u64) -> Rest {
            checked!(
                "mov rax, rsi",
                "sub rax, rdx",
                concat!("cmp rcx, 4 * ", $bytes),
                "ja 2f",
                // At most four vectors, which overlap.
                concat!($move, " ", $vector, "0, [rdx]"),
                concat!($move, " ", $vector, "1, [rdx + ", $bytes, "]"),
                concat!($move, " ", $vector, "2, [rdx + rcx - 2 * ", $bytes, "]"),
                concat!($move, " ", $vector, "3, [rdx + rcx - ", $bytes, "]"),
                "lea r8, [rsi + rcx - 1]",
                concat!("test r8d, 4096 - 4 * ", $bytes),
                "jz 23f",
                "22:",
                concat!($move, " [rsi], ", $vector, "0"),
                concat!($move, " [rsi + ", $bytes, "], ", $vector, "1"),
                concat!($move, " [rsi + rcx - 2 * ", $bytes, "], ", $vector, "2"),
                concat!($move, " [rsi + rcx - ", $bytes, "], ", $vector, "3"),
                $($clear,)?
                "jmp {last_check}",
                "23:",
                "mov rax, rsi",
                "xor rax, r8",
                "cmp rax, 4096",
                "jb 22b",
                "lock or byte ptr [rsi], 0",
                "lock or byte ptr [r8], 0",
                "jmp 22b",
                "2:",
                "cmp rax, rcx",
                "jb 5f",
                // Ascend: r10 is the position, and rcx the position of the last iteration.
                concat!("sub rcx, 4 * ", $bytes),
                "cmovb rcx, rdi",
                concat!("mov r9d, 4 * ", $bytes),
                load!($move, $vector, [4, 5, 6, 7], "rdx + rcx", $bytes),
                // Align the destination of a long copy.
                "cmp rcx, 512",
                "jb 3f",
                concat!("test sil, ", $bytes, " - 1"),
                "jz 3f",
                "neg rax",
                concat!("cmp rax, 4 * ", $bytes),
                "jb 35f",
                concat!($move, " ", $vector, "0, [rdx]"),
                concat!($move, " [rsi], ", $vector, "0"),
                "mov r10d, esi",
                "neg r10d",
                concat!("and r10d, ", $bytes, " - 1"),
                ".p2align 5",
                "3:",
                load!($move, $vector, [0, 1, 2, 3], "rdx + r10", $bytes),
                concat!("lea r8, [rsi + r10 + 4 * ", $bytes, " - 1]"),
                concat!("test r8d, 4096 - 4 * ", $bytes),
                "jz 33f",
                "32:",
                store!($move, $vector, [0, 1, 2, 3], "rsi + r10", $bytes),
                concat!("add r10, 4 * ", $bytes),
                "cmp byte ptr [r11], {go}",
                "jne {failed}",
                "cmp r10, rcx",
                "jb 3b",
                concat!("lea r8, [rsi + rcx + 4 * ", $bytes, " - 1]"),
                concat!("test r8d, 4096 - 4 * ", $bytes),
                "jnz 34f",
                "mov rax, rdx",
                "sub rax, rsi",
                concat!("cmp rax, 4 * ", $bytes),
                "jae 34f",
                "lock or byte ptr [rsi + rcx], 0",
                "lock or byte ptr [r8], 0",
                "34:",
                store!($move, $vector, [4, 5, 6, 7], "rsi + rcx", $bytes),
                $($clear,)?
                "jmp {last_check}",
                // An iteration must not overwrite its own source.
                "35:",
                "cmp rcx, 2048",
                "jb 3b",
                "36:",
                "movzx eax, byte ptr [rdx + r10]",
                "mov byte ptr [rsi + r10], al",
                "inc r10",
                "lea eax, [rsi + r10]",
                concat!("test al, ", $bytes, " - 1"),
                "jnz 36b",
                "jmp 3b",
                "33:",
                "mov eax, r8d",
                "and eax, 4095",
                concat!("cmp eax, 4 * ", $bytes, " - 1"),
                "je 32b",
                "mov rax, rdx",
                "sub rax, rsi",
                concat!("cmp rax, 4 * ", $bytes),
                "jae 32b",
                "lock or byte ptr [rsi + r10], 0",
                "lock or byte ptr [r8], 0",
                "jmp 32b",
                // Descend: rcx is the end of the rest, and r8 the position of an iteration.
                "5:",
                load!($move, $vector, [4, 5, 6, 7], "rdx", $bytes),
                // Align the end of the destination of a long copy.
                "cmp rcx, 512",
                "jb 6f",
                "lea r8d, [rsi + rcx]",
                concat!("and r8d, ", $bytes, " - 1"),
                "jz 6f",
                concat!("cmp rax, 4 * ", $bytes),
                "jb 65f",
                concat!($move, " ", $vector, "0, [rdx + rcx - ", $bytes, "]"),
                concat!($move, " [rsi + rcx - ", $bytes, "], ", $vector, "0"),
                "sub rcx, r8",
                ".p2align 5",
                "6:",
                "mov r8, rcx",
                concat!("sub r8, 4 * ", $bytes),
                "cmovb r8, rdi",
                load!($move, $vector, [0, 1, 2, 3], "rdx + r8", $bytes),
                concat!("lea rax, [rsi + r8 + 4 * ", $bytes, " - 1]"),
                concat!("test eax, 4096 - 4 * ", $bytes),
                "jz 63f",
                "62:",
                store!($move, $vector, [0, 1, 2, 3], "rsi + r8", $bytes),
                "mov rcx, r8",
                "cmp byte ptr [r11], {go}",
                "jne {failed}",
                concat!("cmp rcx, 4 * ", $bytes),
                "ja 6b",
                concat!("lea rax, [rsi + 4 * ", $bytes, " - 1]"),
                concat!("test eax, 4096 - 4 * ", $bytes),
                "jnz 64f",
                "mov r8, rsi",
                "sub r8, rdx",
                concat!("cmp r8, 4 * ", $bytes),
                "jae 64f",
                "lock or byte ptr [rsi], 0",
                "lock or byte ptr [rax], 0",
                "64:",
                store!($move, $vector, [4, 5, 6, 7], "rsi", $bytes),
                $($clear,)?
                "jmp {last_check}",
                // An iteration must not overwrite its own source. r9 counts the byte at rcx.
                "65:",
                "cmp rcx, 2048",
                "jb 6b",
                "mov r9d, 1",
                "66:",
                "sub rcx, 1",
                "cmovb rcx, rdi",
                "movzx eax, byte ptr [rdx + rcx]",
                "mov byte ptr [rsi + rcx], al",
                "dec r8d",
                "jnz 66b",
                "xor r9d, r9d",
                "jmp 6b",
                "63:",
                "mov r9d, eax",
                "and r9d, 4095",
                concat!("cmp r9d, 4 * ", $bytes, " - 1"),
                "mov r9d, 0",
                "je 62b",
                "mov r9, rsi",
                "sub r9, rdx",
                concat!("cmp r9, 4 * ", $bytes),
                "mov r9d, 0",
                "jae 62b",
                "lock or byte ptr [rsi + r8], 0",
                "lock or byte ptr [rax], 0",
                "jmp 62b",
                ;
                ["cmp rsi, rdx", "mov rax, rdx", "cmova rax, rsi"],
                ["rsi", "rdx"],
                $bytes,
                go = const GO,
                failed = sym $failed,
                last_check = sym last_check,
            )
        }
    };
}

copy!(
    copy_wide,
    "vmovdqu",
    "ymm",
    "32",
    ["vzeroupper"],
    failed_wide
);
copy!(copy_narrow, "movdqu", "xmm", "16", [], failed);

macro_rules! fill {
    (
        $name:ident, [$($spread:literal),*], $move:literal, $vector:literal, $bytes:literal,
        [$($clear:literal)?], $failed:ident
    ) => {
        /// `fill(vmctx, to, byte, len)`
        #[unsafe(naked)]
        unsafe extern "C" fn $name(vmctx: *mut u8, to: u64, byte: u64, len: u64) -> Rest {
            checked!(
                $($spread,)*
                concat!("cmp rcx, 4 * ", $bytes),
                "ja 2f",
                // At most four vectors, which overlap.
                concat!($move, " [rsi], ", $vector, "0"),
                concat!($move, " [rsi + ", $bytes, "], ", $vector, "0"),
                concat!($move, " [rsi + rcx - 2 * ", $bytes, "], ", $vector, "0"),
                concat!($move, " [rsi + rcx - ", $bytes, "], ", $vector, "0"),
                $($clear,)?
                "jmp {last_check}",
                // r10 is the position, and rcx is the position of the last iteration.
                "2:",
                concat!("sub rcx, 4 * ", $bytes),
                "cmovb rcx, rdi",
                concat!("mov r9d, 4 * ", $bytes),
                // Align the destination of a long fill.
                "cmp rcx, 512",
                "jb 3f",
                concat!($move, " [rsi], ", $vector, "0"),
                "mov r10d, esi",
                "neg r10d",
                concat!("and r10d, ", $bytes, " - 1"),
                ".p2align 5",
                "3:",
                concat!($move, " [rsi + r10], ", $vector, "0"),
                concat!($move, " [rsi + r10 + ", $bytes, "], ", $vector, "0"),
                concat!($move, " [rsi + r10 + 2 * ", $bytes, "], ", $vector, "0"),
                concat!($move, " [rsi + r10 + 3 * ", $bytes, "], ", $vector, "0"),
                concat!("add r10, 4 * ", $bytes),
                "cmp byte ptr [r11], {go}",
                "jne {failed}",
                "cmp r10, rcx",
                "jb 3b",
                concat!($move, " [rsi + rcx], ", $vector, "0"),
                concat!($move, " [rsi + rcx + ", $bytes, "], ", $vector, "0"),
                concat!($move, " [rsi + rcx + 2 * ", $bytes, "], ", $vector, "0"),
                concat!($move, " [rsi + rcx + 3 * ", $bytes, "], ", $vector, "0"),
                $($clear,)?
                "jmp {last_check}",
                ;
                ["mov rax, rsi"],
                ["rsi"],
                $bytes,
                go = const GO,
                failed = sym $failed,
                last_check = sym last_check,
            )
        }
    };
}

fill!(
    fill_wide,
    ["vmovd xmm0, edx", "vpbroadcastb ymm0, xmm0"],
    "vmovdqu",
    "ymm",
    "32",
    ["vzeroupper"],
    failed_wide
);
fill!(
    fill_narrow,
    [
        "movd xmm0, edx",
        "punpcklbw xmm0, xmm0",
        "pshuflw xmm0, xmm0, 0",
        "punpcklqdq xmm0, xmm0"
    ],
    "movdqu",
    "xmm",
    "16",
    [],
    failed
);

/// Ends a routine that has done all: returns an empty rest if the interrupt flag at r11 is set. The
/// code may be repeated at any instruction. It clears rdx, so that the guest gets no address.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn last_check() -> Rest {
    naked_asm!(
        "cmp byte ptr [r11], {go}",
        "jne 2f",
        "mov rax, -1",
        "xor edx, edx",
        "ret",
        "2:",
        "xor eax, eax",
        "xor edx, edx",
        "ret",
        "ud2; ud2; ud2; ud2",
        go = const GO,
    )
}

/// Ends a routine early: returns the rest.
#[unsafe(naked)]
unsafe extern "C" fn failed() -> Rest {
    naked_asm!(
        "mov rax, r10",
        "lea rdx, [rcx + r9]",
        "sub rdx, r10",
        "ret",
        "ud2; ud2; ud2; ud2"
    )
}

/// [`failed`] of a routine that has used vectors of 32 bytes.
#[unsafe(naked)]
unsafe extern "C" fn failed_wide() -> Rest {
    naked_asm!(
        "vzeroupper",
        "jmp {failed}",
        "ud2; ud2; ud2; ud2",
        failed = sym failed
    )
}
