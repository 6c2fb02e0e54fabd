//! x86_64, System V psABI: start, resume, exit and the registers of a signal's context.
//!
//! The guest's side of every switch is a call in the C convention: `start` calls the entry
//! trampoline, and the trampolines of the module call `exit`. So only what that convention preserves
//! is saved: rbx, rbp and r12 to r15. The direction flag is clear on both sides, and neither side
//! changes MXCSR or the x87 control word, so they are not touched.
//!
//! ```text
//!            host stack, in start/resume and after           guest stack, after exit was called
//!   high   ┌──────────────────────┐                         ┌──────────────────────┐
//!          │ return address       │ to the call loop        │ frames of the guest  │
//!          │ rbp                  │                         │ frame of the         │
//!          │ rbx                  │                         │   trampoline         │
//!          │ r12 r13 r14 r15      │                         │ return address       │◀ guest_sp
//!   low    └──────────────────────┘◀ host_sp                └──────────────────────┘
//! ```
//!
//! Leaving is `pop rcx; jmp rcx`, not `ret`: the return address was pushed by a call on the other
//! stack, so the processor's return predictor would be wrong each time.
//!
//! # Safety
//!
//! The functions are naked: each keeps the stack as drawn above at every instruction that can leave.
#![allow(unsafe_code)]

use crate::switch::activation::{
    Activation, GUEST_REGISTERS, GUEST_SP, HOST_SP, PAYLOAD, REASON, VMCTX,
};
use core::arch::naked_asm;
use pirn_format::layout::CONTEXT_ACTIVATION;

/// Number of registers that the C convention preserves: rbx, rbp, r12, r13, r14, r15.
pub(crate) const SAVED_REGISTERS: usize = 6;
/// Which of the saved registers is the frame pointer.
pub(crate) const FRAME_POINTER: usize = 1;

/// Enters a guest at `entry(vmctx, code, cells)` on the stack that ends at `activation.guest_sp`.
/// Returns when the guest leaves for any reason, which then stands in the activation.
///
/// # Safety
///
/// `activation.guest_sp` must be the 16-byte aligned end of a stack that nobody else uses, `entry` an
/// entry trampoline of a loaded module, `code` a function of its type, `vmctx` an initialised context
/// whose activation this is, `cells` the array that the trampoline expects.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn start(
    activation: *mut Activation,
    vmctx: *mut u8,
    entry: usize,
    code: usize,
    cells: *mut u8,
) {
    naked_asm!(
        // What the caller of this function relies on, in the order of the drawing.
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi + {host_sp}], rsp",
        "mov rsp, [rdi + {guest_sp}]",
        // rbx survives the call: it is how the activation is found again.
        "mov rbx, rdi",
        // Frame pointer 0: the guest's chain of frames ends here.
        "xor ebp, ebp",
        "mov rdi, rsi",
        "mov rsi, rcx",
        "mov rax, rdx",
        "mov rdx, r8",
        "call rax",
        // The guest has returned. Kind::Return is 0.
        "mov rax, rbx",
        "mov qword ptr [rax + {reason}], 0",
        "jmp {leave}",
        host_sp = const HOST_SP,
        guest_sp = const GUEST_SP,
        reason = const REASON,
        leave = sym leave,
    )
}

/// Continues a guest behind the call of [`exit_routine`] by which it left.
///
/// # Safety
///
/// The guest of this activation must have left by a host call or a builtin, its results must be in
/// their cells, and it must not have been resumed since.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn resume(activation: *mut Activation) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi + {host_sp}], rsp",
        "mov rsp, [rdi + {guest_sp}]",
        "mov rbx, [rdi + {saved}]",
        "mov rbp, [rdi + {saved} + 8]",
        "mov r12, [rdi + {saved} + 16]",
        "mov r13, [rdi + {saved} + 24]",
        "mov r14, [rdi + {saved} + 32]",
        "mov r15, [rdi + {saved} + 40]",
        "pop rcx",
        "jmp rcx",
        host_sp = const HOST_SP,
        guest_sp = const GUEST_SP,
        saved = const GUEST_REGISTERS,
    )
}

/// Called by generated code as `exit(vmctx, reason, payload)`: notes why, and leaves.
#[unsafe(naked)]
unsafe extern "C" fn exit(vmctx: *mut u8, reason: u64, payload: u64) {
    naked_asm!(
        "mov rax, [rdi + {activation}]",
        "mov [rax + {saved}], rbx",
        "mov [rax + {saved} + 8], rbp",
        "mov [rax + {saved} + 16], r12",
        "mov [rax + {saved} + 24], r13",
        "mov [rax + {saved} + 32], r14",
        "mov [rax + {saved} + 40], r15",
        "mov [rax + {guest_sp}], rsp",
        "mov [rax + {reason}], rsi",
        "mov [rax + {payload}], rdx",
        "mov [rax + {vmctx}], rdi",
        "jmp {leave}",
        activation = const CONTEXT_ACTIVATION,
        saved = const GUEST_REGISTERS,
        guest_sp = const GUEST_SP,
        reason = const REASON,
        payload = const PAYLOAD,
        vmctx = const VMCTX,
        leave = sym leave,
    )
}

/// The one way out: returns from the latest `start` or `resume` of the activation in rax, whatever
/// the other registers hold and wherever the stack pointer is.
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    naked_asm!(
        "mov rsp, [rax + {host_sp}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "pop rcx",
        "jmp rcx",
        host_sp = const HOST_SP,
    )
}

/// Address of the exit routine, for [`pirn_format::layout::Context::exit`].
pub(crate) fn exit_routine() -> u64 {
    exit as *const () as u64
}

/// Program counter, stack pointer and frame pointer of the code that a signal interrupted.
pub(crate) fn interrupted(context: &libc::ucontext_t) -> (usize, usize, usize) {
    let register = |index: i32| context.uc_mcontext.gregs[index as usize] as usize;
    (
        register(libc::REG_RIP),
        register(libc::REG_RSP),
        register(libc::REG_RBP),
    )
}

/// Makes the code that a signal interrupted continue by leaving the guest of `activation`.
pub(crate) fn redirect(context: &mut libc::ucontext_t, activation: *mut Activation) {
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RIP as usize] = leave as *const () as i64;
    registers[libc::REG_RAX as usize] = activation as i64;
}
