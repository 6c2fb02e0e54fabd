//! aarch64, AAPCS64: stack switches, and the registers of a signal's context.
//!
//! To the guest, every switch is a call in the C calling convention: `start` calls the entry
//! trampoline, and the module's trampolines call `exit`. The callee-saved registers of that
//! convention are x19 to x29 and the lower halves of v8 to v15 (AAPCS64 6.1). `start` preserves
//! these registers by declaring them clobbered to the compiler. `exit` calls the host's answer
//! function, which uses the same convention and so preserves these registers itself. So the code
//! here saves these registers only when the guest leaves. FPCR has the value that a thread starts
//! with, see [`super::super::floats`].
//!
//! ```text
//!            host stack, while the guest runs                guest stack, after exit was called
//!   high   ┌──────────────────────┐                         ┌──────────────────────┐
//!          │ frame of the caller  │                         │ frames of the guest  │
//!          │   of `start`         │                         │ frame of the         │
//!     +56  │ x29                  │                         │   trampoline         │
//!     +48  │ x19                  │                         └──────────────────────┘◀ guest_sp
//!     +40  │ return address       │
//!     +32  │ resume address       │                           x30: return address
//!     +24  │ call                 │
//!     +16  │ answer               │
//!      +8  │ x30 of the guest     │
//!   low    │ guest_sp             │◀ host_sp, 16-byte aligned
//!          └──────────────────────┘
//!            frames of `answer`
//! ```
//!
//! The processor predicts returns by pairing them with calls. So every call in this file has its
//! return, and every return its call, on whichever stack. `start` is therefore not a function, but
//! code inlined into its caller. The code enters the guest by a call, and comes back by the guest's
//! return or by a jump. As a function, `start` would cost one mispredicted return per call (see
//! docs/internals/rationale/entering.md).
//!
//! `resume` can resume a guest that left through `answer` or was interrupted, from another host
//! frame and on another thread. The guest's stack is unchanged. The words that `start` pushed on
//! the host stack are gone, so the return address of its first call is replaced by the address of
//! `returned`. That routine finds the host stack through the activation. The return address is in
//! x30 until the entry trampoline has saved it, and again before the trampoline returns. In these
//! two cases the return address is replaced in x30, when the registers are saved.
//!
//! Only a branch by register and the kernel's `rt_sigreturn` can reach an arbitrary address. So
//! resuming at an arbitrary instruction needs a register for the address, which is x18. AAPCS64
//! (6.1.1) leaves x18 to the platform, and Linux gives x18 no meaning. Cranelift uses x16 and x17
//! as scratch registers, which may be in use at any instruction, but never touches x18
//! (`compiler/tests/output.rs` checks this). So no guest value is lost, and no system call is made.
//!
//! # Safety
//!
//! Each routine keeps the stacks as drawn above at every instruction at which a signal can make the
//! guest leave.
#![allow(unsafe_code)]

mod frame;

use super::bulk;
use crate::switch::activation::{
    Activation, Answer, GUEST_REGISTERS, GUEST_SP, HOST_SP, INTERRUPT_FLAG, Position, RECORD_HOSTS,
};
use crate::switch::interrupt_flag::GO;
use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::ops::Range;
use core::ptr;
use frame::{FpSimd, Syndrome, VECTOR, record};
use pirn_format::layout::CONTEXT_ACTIVATION;

/// Number of callee-saved registers of the C convention (x19 to x29 and d8 to d15), and x30, which
/// holds the guest's resume address.
pub(crate) const SAVED_REGISTERS: usize = 20;
/// Index of the frame pointer among the saved registers.
pub(crate) const FRAME_POINTER: usize = 10;
/// Index of x30 among the saved registers.
const SAVED_LINK: usize = 11;
/// Index of the word on the host stack that holds the `call` of [`start`] or [`resume`].
pub(crate) const CALL_WORD: usize = 3;

/// Index of the word on the host stack that holds the return address of the guest's first call.
const RETURNS_TO: usize = 5;

/// Enters a guest at `entry(vmctx, code, cells)` on the stack that ends at `cells`.
///
/// Returns true when the guest returns. Returns false when the guest leaves in another way:
/// `answer` ended the call, the interrupt flag was set, or a signal reported a trap.
///
/// Whenever the guest calls the exit routine, that routine calls `answer` with `call` on the host
/// stack, below the frame of the caller of `start`.
///
/// # Safety
///
/// `cells` must be the 16-byte aligned end of a stack that no other code uses, and the array that
/// the trampoline expects. `entry` must be an entry trampoline of a loaded module, and `code` a
/// function of the trampoline's type. `vmctx` must be an initialised context whose activation is
/// `activation`. `call` must be the value that `answer` takes.
#[inline(always)]
pub(crate) unsafe fn start(
    activation: *mut Activation,
    vmctx: *mut u8,
    entry: usize,
    code: usize,
    cells: *mut u8,
    answer: Answer,
    call: *mut (),
) -> bool {
    let returned: u64;
    // SAFETY: the caller ensures that the addresses are valid. Every register that the guest may
    // change is declared as an output or clobber. x19 and x29 cannot be declared, so they are saved
    // on the stack. The stack is always 16-byte aligned (AAPCS64 6.4.5.1), also eight words further
    // down.
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-16]!",
            "adr x11, 2f",
            "adr x12, 3f",
            "stp x11, x12, [sp, #-16]!",
            "stp x4, x5, [sp, #-16]!",
            "sub sp, sp, #16",
            // x19 survives the call, so the code after the call need not load the stack pointer
            // from memory.
            "mov x19, sp",
            "str x19, [x9, {host_sp}]",
            // If the guest was resumed from another host stack, `returned` finds that stack through
            // x20.
            "mov x20, x9",
            "mov sp, x2",
            // Frame pointer 0 ends the guest's frame chain here.
            "mov x29, xzr",
            "bl {enter}",
            "3:",
            // The guest has returned.
            "mov w10, #1",
            "mov sp, x19",
            "2:",
            "add sp, sp, #48",
            "ldp x19, x29, [sp], #16",
            host_sp = const HOST_SP,
            enter = sym enter,
            in("x9") activation,
            in("x0") vmctx,
            in("x1") code,
            in("x2") cells,
            in("x4") answer,
            in("x5") call,
            inout("x10") entry => returned,
            out("x20") _,
            out("x21") _,
            out("x22") _,
            out("x23") _,
            out("x24") _,
            out("x25") _,
            out("x26") _,
            out("x27") _,
            out("x28") _,
            clobber_abi("C"),
        );
    }
    returned != 0
}

/// Resumes a guest that left at an exit whose cells are answered. If `registers` is not null,
/// resumes the guest at the point where these registers were saved. The results are as for
/// [`start`].
///
/// # Safety
///
/// The guest of the activation must have left at that point, and its stack must be unchanged since.
/// `cells` must be the cells of its call. The requirements of [`start`] apply to the other
/// arguments.
#[inline(always)]
pub(crate) unsafe fn resume(
    activation: *mut Activation,
    registers: *const Registers,
    cells: *mut u8,
    answer: Answer,
    call: *mut (),
) -> bool {
    // The guest would return to the frame that entered it, which is gone. The new return address
    // makes the guest return through the activation.
    // SAFETY: the entry trampoline saves x30 in the word below the cells, or has not saved it yet.
    unsafe {
        cells
            .cast::<usize>()
            .sub(1)
            .write(returned as *const () as usize);
    };
    let on = if registers.is_null() {
        reenter as *const ()
    } else {
        restore as *const ()
    };
    let returned: u64;
    // SAFETY: the caller ensures that the guest can be resumed. Registers and the stack are
    // declared and aligned as in `start`.
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-16]!",
            "adr x11, 2f",
            "stp x11, x11, [sp, #-16]!",
            "stp x4, x5, [sp, #-16]!",
            "sub sp, sp, #16",
            "mov x11, sp",
            "str x11, [x9, {host_sp}]",
            "br x2",
            "2:",
            "add sp, sp, #48",
            "ldp x19, x29, [sp], #16",
            host_sp = const HOST_SP,
            in("x9") activation,
            in("x2") on,
            in("x4") answer,
            in("x5") call,
            inout("x10") registers => returned,
            out("x20") _,
            out("x21") _,
            out("x22") _,
            out("x23") _,
            out("x24") _,
            out("x25") _,
            out("x26") _,
            out("x27") _,
            out("x28") _,
            clobber_abi("C"),
        );
    }
    returned != 0
}

/// Floating-point control of a thread: FPCR.
pub(crate) type FloatControl = u64;

/// Reads this thread's FPCR.
#[inline(always)]
pub(crate) fn float_control() -> FloatControl {
    let bits;
    // SAFETY: the instruction only reads the register.
    unsafe { asm!("mrs {}, fpcr", out(reg) bits, options(nomem, nostack, preserves_flags)) };
    bits
}

/// Whether the value is the initial value of a thread: round to nearest, denormals enabled, no
/// traps for exceptions. The exception flags are in another register.
#[inline(always)]
pub(crate) fn is_plain(control: FloatControl) -> bool {
    control == PLAIN
}

/// The value that a thread starts with (AAPCS64 6.1.2; Linux, `start_thread`).
pub(crate) const PLAIN: FloatControl = 0;

/// Sets this thread's FPCR.
///
/// # Safety
///
/// `control` must come from [`float_control`] or be [`PLAIN`]. Rust code on this thread computes
/// with this setting until the setting is restored.
#[cold]
pub(crate) unsafe fn set_float_control(control: FloatControl) {
    // SAFETY: the caller promises a value without reserved bits.
    unsafe { asm!("msr fpcr, {}", in(reg) control, options(nomem, nostack, preserves_flags)) };
}

/// Body of a routine that generated code calls. After the `first` instructions, the body switches
/// to the host stack and makes the given call on that stack. Depending on the result, the body then
/// returns to the guest or leaves the guest.
macro_rules! to_host {
    ([$($first:literal),*], [$($call:literal),*], $($operand:tt)*) => {
        naked_asm!(
            ".cfi_startproc",
            $($first,)*
            "ldur x9, [x0, {activation}]",
            "ldr x9, [x9, {host_sp}]",
            "mov x10, sp",
            "stp x10, x30, [x9]",
            "mov sp, x9",
            // An unwinder that starts here, for a panic's backtrace or a profiler, finds the caller
            // of `start`.
            ".cfi_def_cfa sp, 64",
            ".cfi_offset x29, -8",
            ".cfi_offset x19, -16",
            ".cfi_offset x30, -32",
            $($call,)*
            // `coming_back` begins here: the check of the interrupt flag, and the instructions
            // between the check and the guest's code.
            "movz xzr, #0x7069, lsl #16",
            "cbnz x0, 3f",
            "ldr x9, [sp, #24]",
            "ldr x9, [x9]",
            "ldr x10, [x9, {flag}]",
            "ldrb w10, [x10]",
            "cmp w10, {go}",
            "b.ne 2f",
            "ldp x10, x30, [sp]",
            "mov sp, x10",
            // Returns from the guest's call.
            "ret",
            "2:",
            "mov x0, x9",
            "3:",
            "b {finish}",
            ".cfi_endproc",
            "udf #0x7069; udf #0x726e",
            activation = const CONTEXT_ACTIVATION,
            host_sp = const HOST_SP,
            flag = const INTERRUPT_FLAG,
            go = const GO,
            finish = sym finish,
            $($operand)*
        )
    };
}

/// Generated code calls `exit(vmctx, reason, cells)`. The routine calls `answer(vmctx, reason,
/// cells, call)`.
#[unsafe(naked)]
unsafe extern "C" fn exit(vmctx: *mut u8, reason: u64, cells: u64) {
    to_host!([], ["ldp x9, x3, [sp, #16]", "blr x9"],)
}

/// Generated code calls `host_call(vmctx, host, cells)`. The routine calls the entry of a host
/// function.
#[unsafe(naked)]
unsafe extern "C" fn host_call(vmctx: *mut u8, host: u64, cells: u64) {
    to_host!(
        ["ldur x9, [x0, {hosts}]", "add x1, x9, x1"],
        ["ldr x3, [sp, #24]", "ldr x9, [x1]", "blr x9"],
        hosts = const RECORD_HOSTS,
    )
}

/// Enters the guest of the activation in x9 at x10, unless its interrupt flag is set.
///
/// Only instructions of this routine lie between the check of the flag and the guest's code. If a
/// signal handler finds the thread at one of these instructions with the flag set, it restarts the
/// routine, see [`guest_position`]. A plain load is enough for the check: `stop::word` explains the
/// reason.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        "ldr x11, [x9, {flag}]",
        "ldrb w11, [x11]",
        "cmp w11, {go}",
        "b.ne 2f",
        "br x10",
        "2:",
        "mov x0, x9",
        "b {leave}",
        "udf #0x7069; udf #0x726e",
        flag = const INTERRUPT_FLAG,
        go = const GO,
        leave = sym leave,
    )
}

/// Resumes the guest of the activation in x9 after its call of an exit routine, unless its
/// interrupt flag is set. Runs on the host stack.
#[unsafe(naked)]
unsafe extern "C" fn reenter() {
    naked_asm!(
        "ldr x11, [x9, {flag}]",
        "ldrb w11, [x11]",
        "cmp w11, {go}",
        "b.ne 2f",
        "ldp x19, x20, [x9, {saved}]",
        "ldp x21, x22, [x9, {saved} + 16]",
        "ldp x23, x24, [x9, {saved} + 32]",
        "ldp x25, x26, [x9, {saved} + 48]",
        "ldp x27, x28, [x9, {saved} + 64]",
        "ldp x29, x30, [x9, {saved} + 80]",
        "ldp d8, d9, [x9, {saved} + 96]",
        "ldp d10, d11, [x9, {saved} + 112]",
        "ldp d12, d13, [x9, {saved} + 128]",
        "ldp d14, d15, [x9, {saved} + 144]",
        "ldr x11, [x9, {guest_sp}]",
        "mov sp, x11",
        // A `ret` would be predicted to go to the site of the host's last call.
        "br x30",
        "2:",
        "mov x0, x9",
        "b {leave}",
        "udf #0x7069; udf #0x726e",
        flag = const INTERRUPT_FLAG,
        go = const GO,
        saved = const GUEST_REGISTERS,
        guest_sp = const GUEST_SP,
        leave = sym leave,
    )
}

/// Resumes the guest of the activation in x9 with the [`Registers`] at x10, unless its interrupt
/// flag is set. Runs on the host stack. Branches through x18, see the module documentation.
///
/// The guest may have been interrupted between an exclusive load and its exclusive store, which
/// code for processors without LSE uses. The kernel's return from a signal clears the processor's
/// exclusive monitor; a branch does not. An exclusive load by another guest on this thread would
/// then let the store overwrite the writes of other threads. CLREX makes the store fail, and the
/// guest loads again (Arm ARM, "Synchronization and semaphores").
#[unsafe(naked)]
unsafe extern "C" fn restore() {
    naked_asm!(
        "ldr x11, [x9, {flag}]",
        "ldrb w11, [x11]",
        "cmp w11, {go}",
        "b.ne 2f",
        "clrex",
        "mov x18, x10",
        "ldr x11, [x18, {sp}]",
        "mov sp, x11",
        "ldp x11, x12, [x18, {flags}]",
        "msr nzcv, x11",
        "msr fpsr, x12",
        "ldp q0, q1, [x18, {vector}]",
        "ldp q2, q3, [x18, {vector} + 32]",
        "ldp q4, q5, [x18, {vector} + 64]",
        "ldp q6, q7, [x18, {vector} + 96]",
        "ldp q8, q9, [x18, {vector} + 128]",
        "ldp q10, q11, [x18, {vector} + 160]",
        "ldp q12, q13, [x18, {vector} + 192]",
        "ldp q14, q15, [x18, {vector} + 224]",
        "ldp q16, q17, [x18, {vector} + 256]",
        "ldp q18, q19, [x18, {vector} + 288]",
        "ldp q20, q21, [x18, {vector} + 320]",
        "ldp q22, q23, [x18, {vector} + 352]",
        "ldp q24, q25, [x18, {vector} + 384]",
        "ldp q26, q27, [x18, {vector} + 416]",
        "ldp q28, q29, [x18, {vector} + 448]",
        "ldp q30, q31, [x18, {vector} + 480]",
        "ldp x0, x1, [x18]",
        "ldp x2, x3, [x18, #16]",
        "ldp x4, x5, [x18, #32]",
        "ldp x6, x7, [x18, #48]",
        "ldp x8, x9, [x18, #64]",
        "ldp x10, x11, [x18, #80]",
        "ldp x12, x13, [x18, #96]",
        "ldp x14, x15, [x18, #112]",
        "ldp x16, x17, [x18, #128]",
        "ldr x19, [x18, #152]",
        "ldp x20, x21, [x18, #160]",
        "ldp x22, x23, [x18, #176]",
        "ldp x24, x25, [x18, #192]",
        "ldp x26, x27, [x18, #208]",
        "ldp x28, x29, [x18, #224]",
        "ldr x30, [x18, #240]",
        "ldr x18, [x18, {pc}]",
        "br x18",
        "2:",
        "mov x0, x9",
        "b {leave}",
        "udf #0x7069; udf #0x726e",
        flag = const INTERRUPT_FLAG,
        go = const GO,
        sp = const offset_of!(Registers, sp),
        pc = const offset_of!(Registers, pc),
        flags = const offset_of!(Registers, flags),
        vector = const offset_of!(Registers, vector),
        leave = sym leave,
    )
}

/// Return address of a resumed guest. The code continues after the `resume` of the activation in
/// x20. `start` put the activation into x20, and the guest has preserved it.
#[unsafe(naked)]
unsafe extern "C" fn returned() {
    naked_asm!(
        "ldr x9, [x20, {host_sp}]",
        "mov sp, x9",
        "mov w10, #1",
        "ldr x11, [sp, #32]",
        "br x11",
        host_sp = const HOST_SP,
    )
}

/// The registers of an interrupted guest. Generated code uses at most 128 bits of a vector
/// register, so only these bits are saved, whatever SVE adds to the registers. Generated code does
/// not change FPCR.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Registers {
    /// x0 to x30.
    general: [u64; GENERAL],
    sp: u64,
    pc: u64,
    /// N, Z, C and V.
    flags: u64,
    /// Cumulative status of floating-point instructions.
    fpsr: u64,
    /// Whether the registers of a guest were saved.
    pub(crate) taken: bool,
    vector: [u128; VECTOR],
}

/// Number of general registers except the stack pointer.
const GENERAL: usize = 31;
/// Index of the link register, which holds the return address of the function.
const LINK: usize = 30;
/// Index of the frame pointer.
const FRAME: usize = 29;
/// N, Z, C and V among the bits of PSTATE in the kernel's format (Arm ARM, C5.2.19, SPSR_EL1).
const NZCV: u64 = 0xf << 28;

const _: () = assert!(offset_of!(Registers, general) == 0);
const _: () = assert!(offset_of!(Registers, fpsr) == offset_of!(Registers, flags) + 8);

impl Registers {
    /// Creates an empty set, without saved registers.
    pub(crate) fn none() -> Self {
        Self {
            general: [0; GENERAL],
            sp: 0,
            pc: 0,
            flags: 0,
            fpsr: 0,
            taken: false,
            vector: [0; VECTOR],
        }
    }

    /// Saves the registers of the interrupted code, but takes the position from `at`.
    ///
    /// # Safety
    ///
    /// The context must come from the kernel, for the signal that interrupted the guest of the
    /// activation's call.
    pub(crate) unsafe fn take(
        &mut self,
        context: &libc::ucontext_t,
        activation: *const Activation,
        at: Position,
    ) {
        let mcontext = &context.uc_mcontext;
        self.general = mcontext.regs;
        self.general[FRAME] = at.fp as u64;
        self.general[LINK] = at.link as u64;
        // SAFETY: the caller promises that the call runs, so `start` or `resume` pushed this word.
        let returns_to = unsafe { *((*activation).host_sp as *const u64).add(RETURNS_TO) };
        if self.general[LINK] == returns_to {
            self.general[LINK] = returned as *const () as u64;
        }
        (self.pc, self.sp) = (at.pc as u64, at.sp as u64);
        self.flags = mcontext.pstate & NZCV;
        // SAFETY: the caller promises that the context comes from the kernel.
        if let Some(found) = unsafe { record::<FpSimd>(context) } {
            self.fpsr = found.fpsr.into();
            self.vector = found.vector;
        }
        self.taken = true;
    }

    /// The position at which the registers were saved.
    pub(crate) fn position(&self) -> Position {
        Position {
            pc: self.pc as usize,
            sp: self.sp as usize,
            fp: self.general[FRAME] as usize,
            link: self.general[LINK] as usize,
        }
    }
}

/// Leaves the guest of the activation in x0. Runs on the host stack, while the other registers
/// still hold the guest's values. The guest's x30 is on the host stack.
#[unsafe(naked)]
unsafe extern "C" fn finish() {
    naked_asm!(
        "stp x19, x20, [x0, {saved}]",
        "stp x21, x22, [x0, {saved} + 16]",
        "stp x23, x24, [x0, {saved} + 32]",
        "stp x25, x26, [x0, {saved} + 48]",
        "stp x27, x28, [x0, {saved} + 64]",
        "ldp x9, x10, [sp]",
        "stp x29, x10, [x0, {saved} + 80]",
        "stp d8, d9, [x0, {saved} + 96]",
        "stp d10, d11, [x0, {saved} + 112]",
        "stp d12, d13, [x0, {saved} + 128]",
        "stp d14, d15, [x0, {saved} + 144]",
        "str x9, [x0, {guest_sp}]",
        "b {leave}",
        saved = const GUEST_REGISTERS,
        guest_sp = const GUEST_SP,
        leave = sym leave,
    )
}

/// Continues after the `start` of the activation in x0, whatever the other registers and the stack
/// pointer hold.
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    naked_asm!(
        "ldr x9, [x0, {host_sp}]",
        "mov sp, x9",
        "mov x10, xzr",
        "ldr x11, [sp, #32]",
        "br x11",
        host_sp = const HOST_SP,
    )
}

/// Address of the exit routine, for [`pirn_format::layout::Context::exit`].
pub(crate) fn exit_routine() -> u64 {
    exit as *const () as u64
}

/// Address of the routine for [`pirn_format::layout::Context::host_call`].
pub(crate) fn host_call_routine() -> u64 {
    host_call as *const () as u64
}

/// The position of the code that a signal interrupted.
pub(crate) fn interrupted(context: &libc::ucontext_t) -> Position {
    let mcontext = &context.uc_mcontext;
    Position {
        pc: mcontext.pc as usize,
        sp: mcontext.sp as usize,
        fp: mcontext.regs[FRAME] as usize,
        link: mcontext.regs[LINK] as usize,
    }
}

/// The return address of the guest's last call of an exit routine. The address is in a saved
/// register. `_word` is unused: only on x86_64 is the address on the guest's stack.
pub(crate) fn exit_returns_to(
    activation: &Activation,
    _word: impl FnOnce(usize) -> Option<usize>,
) -> Option<usize> {
    Some(activation.guest_registers[SAVED_LINK] as usize)
}

/// Makes [`reenter`] resume a guest that has left: at address `to`, with this stack pointer and
/// frame pointer.
///
/// # Safety
///
/// `sp` must be inside the stack, and no data below `sp` may be in use. The code at `to` must not
/// depend on any other register.
pub(crate) unsafe fn reenter_at(activation: &mut Activation, to: usize, sp: usize, fp: usize) {
    activation.guest_registers[FRAME_POINTER] = fp as u64;
    activation.guest_registers[SAVED_LINK] = to as u64;
    activation.guest_sp = sp as u64;
}

/// Whether the fault that a signal reports was a write: a data abort with WnR that is not a cache
/// maintenance operation (Arm ARM, D24.2.40, ESR_EL1, "ISS encoding for an exception from a Data
/// Abort").
///
/// Without a record of the fault, this function returns true. If the page was only read, the reset
/// then restores it needlessly. A write that is treated as a read would fault for ever.
pub(crate) fn wrote(context: &libc::ucontext_t) -> bool {
    const CLASS: u64 = 0x3f << 26;
    const DATA_ABORT: u64 = 0x24 << 26;
    const CACHE_MAINTENANCE: u64 = 1 << 8;
    const WNR: u64 = 1 << 6;
    // SAFETY: the signal handler passes its own context, which comes from the kernel.
    match unsafe { record::<Syndrome>(context) } {
        Some(Syndrome { esr, .. }) if esr & CLASS == DATA_ABORT => {
            esr & WNR != 0 && esr & CACHE_MAINTENANCE == 0
        }
        _ => true,
    }
}

/// Changes the context so that the interrupted code continues at the address `pc`.
pub(super) fn continue_at(context: &mut libc::ucontext_t, pc: usize) {
    context.uc_mcontext.pc = pc as u64;
}

/// Changes the context so that the interrupted code leaves the guest of `activation`.
pub(crate) fn redirect(context: &mut libc::ucontext_t, activation: *mut Activation) {
    continue_at(context, leave as *const () as usize);
    context.uc_mcontext.regs[0] = activation as u64;
}

/// The beginning of a [`part`] that is a whole routine.
pub(super) const WHOLE: Option<u32> = None;

/// Address range of the part of a routine that begins with the instruction `begins`, or with the
/// routine. The part ends with two `udf` instructions whose constants spell "pirn".
pub(super) fn part(routine: *const (), begins: Option<u32>) -> Range<usize> {
    const END: [u32; 2] = [0x7069, 0x726e];
    // SAFETY: `at` is the address of an instruction of the routine. The search stops at the
    // routine's end marker.
    let word = |at: usize| unsafe { ptr::read(at as *const u32) };
    let mut start = routine as usize;
    while begins.is_some_and(|begins| word(start) != begins) {
        start += 4;
    }
    let mut end = start;
    while word(end) != END[0] || word(end + 4) != END[1] {
        end += 4;
    }
    start..end
}

/// Instructions of [`enter`] from the check of the interrupt flag on.
fn entering() -> Range<usize> {
    part(enter as *const (), WHOLE)
}

/// Instructions of [`restore`] from the check of the interrupt flag on.
fn restoring() -> Range<usize> {
    part(restore as *const (), WHOLE)
}

/// Instructions of [`reenter`] from the check of the interrupt flag on.
fn reentering() -> Range<usize> {
    part(reenter as *const (), WHOLE)
}

/// Instructions of `exit` and `host_call` from the check of the interrupt flag on. Both routines
/// return to the guest by `ret`.
fn coming_back() -> [Range<usize>; 2] {
    // `movz xzr, #0x7069, lsl #16`, which does nothing (Arm ARM, C6.2, MOVZ).
    const TAIL: u32 = 0xd2a0_0000 | 0x7069 << 5 | 31;
    [exit as *const (), host_call as *const ()].map(|routine| part(routine, Some(TAIL)))
}

/// Where a signal interrupted a thread.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// At this position. A routine that is about to jump to the guest counts as at its target.
    At(Position),
    /// In a routine that copies or fills for the guest, and returns to this position of the guest.
    /// The routine reads the interrupt flag before it returns, or returns a rest.
    Copying(Position),
    /// In [`restore`], which is about to resume the guest with the guest's saved registers.
    Restoring,
    /// Between a check of the interrupt flag and the guest's code: the routine will check the flag
    /// again.
    Entering,
}

/// Finds the position in the guest at which a thread was interrupted.
///
/// # Safety
///
/// `activation` must belong to the call that runs on the interrupted thread.
pub(crate) unsafe fn guest_position(
    context: &mut libc::ucontext_t,
    activation: *const Activation,
) -> Interrupted {
    let at = interrupted(context);
    let again = |context: &mut libc::ucontext_t, start: usize| {
        continue_at(context, start);
        Interrupted::Entering
    };
    let entering = entering();
    if entering.contains(&at.pc) {
        return again(context, entering.start);
    }
    if bulk::contains(at.pc) {
        let checking = bulk::checking();
        if checking.contains(&at.pc) {
            continue_at(context, checking.start);
        }
        // The routine does not change the register of its return address.
        return Interrupted::Copying(Position { pc: at.link, ..at });
    }
    if restoring().contains(&at.pc) {
        return Interrupted::Restoring;
    }
    let mut routines = coming_back().into_iter().chain([reentering()]);
    let Some(routine) = routines.find(|routine| routine.contains(&at.pc)) else {
        return Interrupted::At(at);
    };
    // SAFETY: the caller promises that the activation belongs to the call on this thread.
    if at.sp as u64 == unsafe { (*activation).host_sp } {
        return again(context, routine.start);
    }
    // The thread is before the last instruction, which jumps to the guest's return address.
    Interrupted::At(Position { pc: at.link, ..at })
}

#[cfg(test)]
mod tests;
