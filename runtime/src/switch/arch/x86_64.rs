//! x86_64, System V psABI: start, resume, exit and the registers of a signal's context.
//!
//! The guest's side of every switch is a call in the C convention: `start` calls the entry
//! trampoline, and the trampolines of the module call `exit`. So only what that convention preserves
//! is saved: rbx, rbp and r12 to r15. The direction flag is clear on both sides, and neither side
//! changes MXCSR or the x87 control word, so they are not touched.
//!
//! ```text
//!            host stack, while the guest runs                guest stack, after exit was called
//!   high   ┌──────────────────────┐                         ┌──────────────────────┐
//!          │ frame of the call    │                         │ frames of the guest  │
//!          │   loop               │                         │ frame of the         │
//!          │ rbx                  │                         │   trampoline         │
//!          │ rbp                  │                         │ return address       │◀ guest_sp
//!          │ where to go on       │                         └──────────────────────┘
//!   low    └──────────────────────┘◀ host_sp
//! ```
//!
//! The processor predicts returns by pairing them with calls, so every call here has its return and
//! every return its call, on whichever stack. The host's side is therefore no function but code within
//! the call loop: it goes in by jumping, or by the guest's own return, and comes back by a jump. With
//! functions in their place each host call costs a return that is predicted wrong (bench `hostcall`:
//! 18 ns with functions, see docs/RATIONALE.md).
//!
//! # Safety
//!
//! Each piece keeps the stacks as drawn above at every instruction that can leave.
#![allow(unsafe_code)]

use crate::switch::activation::{
    Activation, GUEST_REGISTERS, GUEST_SP, HOST_SP, PAYLOAD, REASON, VMCTX,
};
use core::arch::{asm, naked_asm};
use pirn_format::layout::CONTEXT_ACTIVATION;

/// Number of registers that the C convention preserves: rbx, rbp, r12, r13, r14, r15.
pub(crate) const SAVED_REGISTERS: usize = 6;
/// Which of the saved registers is the frame pointer.
pub(crate) const FRAME_POINTER: usize = 1;

/// Enters a guest at `entry(vmctx, code, cells)` on the stack that ends at `cells`.
/// Comes back when the guest leaves for any reason, which then stands in the activation.
///
/// # Safety
///
/// `cells` must be the 16-byte aligned end of a stack that nobody else uses, and the array that the
/// trampoline expects; `entry` an entry trampoline of a loaded module, `code` a function of its type,
/// `vmctx` an initialised context whose activation this is.
#[inline(always)]
pub(crate) unsafe fn start(
    activation: *mut Activation,
    vmctx: *mut u8,
    entry: usize,
    code: usize,
    cells: *mut u8,
) {
    // SAFETY: the caller's promises; every register that the guest may change is said to be changed,
    // and rbx and rbp, which cannot be said so, are kept on the stack.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "lea r8, [rip + 2f]",
            "push r8",
            "mov [rcx + {host_sp}], rsp",
            "mov rsp, rdx",
            // rbx survives the call: it is how the activation is found again.
            "mov rbx, rcx",
            // Frame pointer 0: the guest's chain of frames ends here.
            "xor ebp, ebp",
            "call rax",
            // The guest has returned. Kind::Return is 0.
            "mov qword ptr [rbx + {reason}], 0",
            // As in `leave`. It need not be this `start` that comes next: if the guest was resumed, it is
            // that `resume`, whose registers are on the stack.
            "mov rsp, [rbx + {host_sp}]",
            "pop rcx",
            "jmp rcx",
            "2:",
            "pop rbp",
            "pop rbx",
            host_sp = const HOST_SP,
            reason = const REASON,
            in("rcx") activation,
            in("rdi") vmctx,
            in("rsi") code,
            in("rdx") cells,
            in("rax") entry,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// Continues a guest behind the call of [`exit_routine`] by which it left.
///
/// # Safety
///
/// The guest of this activation must have left by a host call or a builtin, its results must be in
/// their cells, and it must not have been resumed since.
#[inline(always)]
pub(crate) unsafe fn resume(activation: *mut Activation) {
    // SAFETY: as in `start`.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "lea r8, [rip + 2f]",
            "push r8",
            "mov [rcx + {host_sp}], rsp",
            "mov rsp, [rcx + {guest_sp}]",
            "mov rbx, [rcx + {saved}]",
            "mov rbp, [rcx + {saved} + 8]",
            "mov r12, [rcx + {saved} + 16]",
            "mov r13, [rcx + {saved} + 24]",
            "mov r14, [rcx + {saved} + 32]",
            "mov r15, [rcx + {saved} + 40]",
            // The return of the call of `exit`.
            "ret",
            "2:",
            "pop rbp",
            "pop rbx",
            host_sp = const HOST_SP,
            guest_sp = const GUEST_SP,
            saved = const GUEST_REGISTERS,
            in("rcx") activation,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
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
        // As in `leave`, which traps by signal come to.
        "mov rsp, [rax + {host_sp}]",
        "pop rcx",
        "jmp rcx",
        activation = const CONTEXT_ACTIVATION,
        saved = const GUEST_REGISTERS,
        guest_sp = const GUEST_SP,
        reason = const REASON,
        payload = const PAYLOAD,
        vmctx = const VMCTX,
        host_sp = const HOST_SP,
    )
}

/// The one way out: goes on behind the latest `start` or `resume` of the activation in rax, whatever
/// the other registers hold and wherever the stack pointer is.
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    naked_asm!(
        "mov rsp, [rax + {host_sp}]",
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

/// Whether the fault that a signal tells of was a write: bit 1 of the page fault's error code (Intel
/// SDM, volume 3, 5.7).
pub(crate) fn wrote(context: &libc::ucontext_t) -> bool {
    context.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0
}

/// Makes the code that a signal interrupted continue by leaving the guest of `activation`.
pub(crate) fn redirect(context: &mut libc::ucontext_t, activation: *mut Activation) {
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RIP as usize] = leave as *const () as i64;
    registers[libc::REG_RAX as usize] = activation as i64;
}
