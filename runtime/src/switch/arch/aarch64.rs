//! aarch64, AAPCS64: start, exit and the registers of a signal's context.
//!
//! The guest's side of every switch is a call in the C convention: `start` calls the entry
//! trampoline, and the trampolines of the module call `exit`. What that convention preserves is x19 to
//! x29 and the lower halves of v8 to v15 (AAPCS64 6.1). `start` preserves them by saying so to the
//! compiler; `exit` calls the host's answer, a function in the same convention, which preserves them by
//! itself. So they are saved only when the guest leaves. FPCR is what threads begin with: see
//! [`super::super::floats`].
//!
//! ```text
//!            host stack, while the guest runs                guest stack, after exit was called
//!   high   ┌──────────────────────┐                         ┌──────────────────────┐
//!          │ frame of the caller  │                         │ frames of the guest  │
//!          │   of `start`         │                         │ frame of the         │
//!     +56  │ x29                  │                         │   trampoline         │
//!     +48  │ x19                  │                         └──────────────────────┘◀ guest_sp
//!     +40  │ where it returns to  │
//!     +32  │ where to go on       │                           x30: return address
//!     +24  │ call                 │
//!     +16  │ answer               │
//!      +8  │ x30 of the guest     │
//!   low    │ guest_sp             │◀ host_sp, 16-byte aligned
//!          └──────────────────────┘
//!            frames of the answer
//! ```
//!
//! The processor predicts returns by pairing them with calls, so every call here has its return and
//! every return its call, on whichever stack. `start` is therefore no function but code within its
//! caller: it goes in by a call, and comes back by the guest's own return or by a jump. With a function
//! in its place each call costs a return that is predicted wrong (see docs/internals/rationale/entering.md).
//!
//! A guest that left by an answer, or was interrupted, can be gone on with by `resume`, from another frame
//! of the host's and on another thread. Its stack is as it left it; what `start` had pushed on the host's
//! is gone, so the return address of its first call is replaced by that of `returned`, which finds the
//! host's stack by the activation. That address is in x30 until the entry trampoline has saved it, and
//! again before its return: then it is replaced there, when the registers are taken.
//!
//! To go on at any instruction takes a register for the address: nothing but a branch by a register, and
//! the kernel's `rt_sigreturn`, goes anywhere. That register is x18. The AAPCS64 (6.1.1) leaves it to the
//! platform, which on Linux gives it no meaning; Cranelift, which keeps x16 and x17 for itself and may be
//! in the middle of using them anywhere, never touches it (which `compiler/tests/output.rs` looks for). So
//! nothing is lost, and no system call is made.
//!
//! # Safety
//!
//! Each piece keeps the stacks as drawn above at every instruction that can leave.
#![allow(unsafe_code)]

use crate::stop::GO;
use crate::switch::Answer;
use crate::switch::activation::{
    Activation, GATE, GUEST_REGISTERS, GUEST_SP, HOST_SP, Position, RECORD_HOSTS,
};
use core::arch::{asm, naked_asm};
use core::mem::{offset_of, size_of};
use core::ops::Range;
use core::ptr;
use pirn_format::layout::CONTEXT_ACTIVATION;

/// Number of registers that the C convention preserves: x19 to x29, and d8 to d15; and x30, with which
/// the guest goes on.
pub(crate) const SAVED_REGISTERS: usize = 20;
/// Which of the saved registers is the frame pointer.
pub(crate) const FRAME_POINTER: usize = 10;
/// Which of them is x30.
const SAVED_LINK: usize = 11;

/// Which word of the host's stack says where the guest's first call returns to.
const RETURNS_TO: usize = 5;

/// Enters a guest at `entry(vmctx, code, cells)` on the stack that ends at `cells`.
/// Comes back when the guest returns, with true, or when it leaves, with false: because an `answer` said
/// so, its gate was closed, or because of a trap that a signal told of.
///
/// Whenever the guest calls the exit routine meanwhile, `answer` is called with `call` on the stack of
/// the host, below the frame of who called `start`.
///
/// # Safety
///
/// `cells` must be the 16-byte aligned end of a stack that nobody else uses, and the array that the
/// trampoline expects; `entry` an entry trampoline of a loaded module, `code` a function of its type,
/// `vmctx` an initialised context whose activation this is. `call` must be what `answer` takes.
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
    // SAFETY: the caller's promises; every register that the guest may change is said to be changed,
    // and x19 and x29, which cannot be said so, are kept on the stack. That is 16-byte aligned, always
    // (AAPCS64 6.4.5.1), and eight words further down again.
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-16]!",
            "adr x11, 2f",
            "adr x12, 3f",
            "stp x11, x12, [sp, #-16]!",
            "stp x4, x5, [sp, #-16]!",
            "sub sp, sp, #16",
            // x19 survives the call: what comes next need not wait for the stack pointer in memory.
            "mov x19, sp",
            "str x19, [x9, {host_sp}]",
            // Who returns on another host's stack than it was entered from finds that by x20.
            "mov x20, x9",
            "mov sp, x2",
            // Frame pointer 0: the guest's chain of frames ends here.
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

/// Goes on in a guest that left at an exit whose cells are answered, or, if `registers` are given, where
/// those were taken. The rest is as with [`start`].
///
/// # Safety
///
/// The guest of the activation must have left there, its call be that of the `cells`, and its stack as it
/// left it. The rest is as with [`start`].
#[inline(always)]
pub(crate) unsafe fn resume(
    activation: *mut Activation,
    registers: *const Registers,
    cells: *mut u8,
    answer: Answer,
    call: *mut (),
) -> bool {
    // Its return goes to whoever entered it, who is gone: it is to go by the activation.
    // SAFETY: the word below the cells is where the entry trampoline saves x30, or has not yet.
    unsafe {
        cells
            .cast::<usize>()
            .sub(1)
            .write(returned as *const () as usize);
    };
    let on = if registers.is_null() {
        go_on as *const ()
    } else {
        restore as *const ()
    };
    let returned: u64;
    // SAFETY: as in `start`.
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

/// How a thread computes with floating point: FPCR.
pub(crate) type FloatControl = u64;

/// How this thread does.
#[inline(always)]
pub(crate) fn float_control() -> FloatControl {
    let bits;
    // SAFETY: reads the register.
    unsafe { asm!("mrs {}, fpcr", out(reg) bits, options(nomem, nostack, preserves_flags)) };
    bits
}

/// Whether that is how threads begin: rounding to nearest, with denormals, and without a signal for any exception. What
/// exceptions there were is in another register.
#[inline(always)]
pub(crate) fn is_plain(control: FloatControl) -> bool {
    control == PLAIN
}

/// How threads begin (AAPCS64 6.1.2; Linux, `start_thread`).
pub(crate) const PLAIN: FloatControl = 0;

/// Has this thread compute otherwise.
///
/// # Safety
///
/// It must be what [`float_control`] gave, or [`PLAIN`]; Rust code that computes meanwhile computes so.
#[cold]
pub(crate) unsafe fn set_float_control(control: FloatControl) {
    // SAFETY: the caller's promise; no reserved bit is set.
    unsafe { asm!("msr fpcr, {}", in(reg) control, options(nomem, nostack, preserves_flags)) };
}

/// A whole routine that generated code calls: after what it does first, it goes to the host's stack,
/// calls what is to be called there, and goes on in the guest or leaves it, as that says.
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
            // Who walks the stack from here finds the caller of `start`: a panic's backtrace, a
            // profiler.
            ".cfi_def_cfa sp, 64",
            ".cfi_offset x29, -8",
            ".cfi_offset x19, -16",
            ".cfi_offset x30, -32",
            $($call,)*
            // Where `coming_back` begins: a look at the gate, and what comes between it and the guest's
            // code.
            "movz xzr, #0x7069, lsl #16",
            "cbnz x0, 3f",
            "ldr x9, [sp, #24]",
            "ldr x9, [x9]",
            "ldr x10, [x9, {gate}]",
            "ldrb w10, [x10]",
            "cmp w10, {go}",
            "b.ne 2f",
            "ldp x10, x30, [sp]",
            "mov sp, x10",
            // The return of the guest's call.
            "ret",
            "2:",
            "mov x0, x9",
            "3:",
            "b {finish}",
            ".cfi_endproc",
            "udf #0x7069; udf #0x726e",
            activation = const CONTEXT_ACTIVATION,
            host_sp = const HOST_SP,
            gate = const GATE,
            go = const GO,
            finish = sym finish,
            $($operand)*
        )
    };
}

/// Called by generated code as `exit(vmctx, reason, cells)`: calls `answer(vmctx, reason, cells, call)`.
#[unsafe(naked)]
unsafe extern "C" fn exit(vmctx: *mut u8, reason: u64, cells: u64) {
    to_host!([], ["ldp x9, x3, [sp, #16]", "blr x9"],)
}

/// Called by generated code as `host_call(vmctx, host, cells)`: calls the entry of a host function.
#[unsafe(naked)]
unsafe extern "C" fn host_call(vmctx: *mut u8, host: u64, cells: u64) {
    to_host!(
        ["ldur x9, [x0, {hosts}]", "add x1, x9, x1"],
        ["ldr x3, [sp, #24]", "ldr x9, [x1]", "blr x9"],
        hosts = const RECORD_HOSTS,
    )
}

/// Enters the guest of the activation in x9 at x10, unless its gate is closed.
///
/// Nothing comes between the look at the gate and the guest's code but instructions of this routine: a
/// signal handler that closes the gate while they run has the routine run again, see [`guest_position`].
/// The look is a plain load: `crate::stop::Control` has the reason.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        "ldr x11, [x9, {gate}]",
        "ldrb w11, [x11]",
        "cmp w11, {go}",
        "b.ne 2f",
        "br x10",
        "2:",
        "mov x0, x9",
        "b {leave}",
        "udf #0x7069; udf #0x726e",
        gate = const GATE,
        go = const GO,
        leave = sym leave,
    )
}

/// Goes on in the guest of the activation in x9 behind its call of an exit routine, unless its gate is
/// closed: from the host's stack.
#[unsafe(naked)]
unsafe extern "C" fn go_on() {
    naked_asm!(
        "ldr x11, [x9, {gate}]",
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
        // A return would be predicted to go to where the host's last call was made.
        "br x30",
        "2:",
        "mov x0, x9",
        "b {leave}",
        "udf #0x7069; udf #0x726e",
        gate = const GATE,
        go = const GO,
        saved = const GUEST_REGISTERS,
        guest_sp = const GUEST_SP,
        leave = sym leave,
    )
}

/// Goes on in the guest of the activation in x9 with the [`Registers`] at x10, unless its gate is closed:
/// from the host's stack. By x18, see above.
///
/// The guest may have been interrupted between an exclusive load and its exclusive store, which
/// code for processors without LSE uses. The kernel's return from a signal has the processor forget
/// the load; a branch does not, and an exclusive load by whoever ran meanwhile would let the store
/// overwrite what others wrote. CLREX makes the store fail, and the guest loads again (Arm ARM,
/// "Synchronization and semaphores").
#[unsafe(naked)]
unsafe extern "C" fn restore() {
    naked_asm!(
        "ldr x11, [x9, {gate}]",
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
        gate = const GATE,
        go = const GO,
        sp = const offset_of!(Registers, sp),
        pc = const offset_of!(Registers, pc),
        flags = const offset_of!(Registers, flags),
        vector = const offset_of!(Registers, vector),
        leave = sym leave,
    )
}

/// Where a guest returns to that was gone on with: behind the `resume` of the activation in x20, which
/// `start` put there, and which the guest has preserved.
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

/// The registers of a guest that was interrupted. Generated code has values of at most 128 bits, so of
/// vector registers that is all, whatever SVE may add to them, and it does not change FPCR.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Registers {
    /// x0 to x30.
    general: [u64; GENERAL],
    sp: u64,
    pc: u64,
    /// N, Z, C and V.
    flags: u64,
    /// What floating-point instructions have noted so far.
    fpsr: u64,
    /// Whether there are any.
    pub(crate) taken: bool,
    vector: [u128; VECTOR],
}

/// Number of general registers but the stack pointer.
const GENERAL: usize = 31;
/// Number of vector registers.
const VECTOR: usize = 32;
/// Which of them is the link register: it holds where the function returns to.
const LINK: usize = 30;
/// Which of them is the frame pointer.
const FRAME: usize = 29;
/// N, Z, C and V among the bits of PSTATE as the kernel has them (Arm ARM, C5.2.19, SPSR_EL1).
const NZCV: u64 = 0xf << 28;

const _: () = assert!(offset_of!(Registers, general) == 0);
const _: () = assert!(offset_of!(Registers, fpsr) == offset_of!(Registers, flags) + 8);

impl Registers {
    /// None.
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

    /// Takes those that a signal interrupted, but for the position, which is given.
    ///
    /// # Safety
    ///
    /// The activation must be that of the call whose guest was interrupted, and the context the kernel's.
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
        // SAFETY: the caller's promise; what `start` or `resume` pushed.
        let returns_to = unsafe { *((*activation).host_sp as *const u64).add(RETURNS_TO) };
        if self.general[LINK] == returns_to {
            self.general[LINK] = returned as *const () as u64;
        }
        (self.pc, self.sp) = (at.pc as u64, at.sp as u64);
        self.flags = mcontext.pstate & NZCV;
        // SAFETY: the caller's promise.
        if let Some(found) = unsafe { record::<FpSimd>(context) } {
            self.fpsr = found.fpsr.into();
            self.vector = found.vector;
        }
        self.taken = true;
    }

    /// Where they were taken.
    pub(crate) fn position(&self) -> Position {
        Position {
            pc: self.pc as usize,
            sp: self.sp as usize,
            fp: self.general[FRAME] as usize,
            link: self.general[LINK] as usize,
        }
    }
}

/// Leaves the guest of the activation in x0, from the host's stack: the other registers are the
/// guest's, but for x30, which is on that stack.
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

/// Goes on behind the `start` of the activation in x0, whatever the other registers hold and wherever
/// the stack pointer is.
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

/// Where the code is that a signal interrupted.
pub(crate) fn interrupted(context: &libc::ucontext_t) -> Position {
    let mcontext = &context.uc_mcontext;
    Position {
        pc: mcontext.pc as usize,
        sp: mcontext.sp as usize,
        fp: mcontext.regs[FRAME] as usize,
        link: mcontext.regs[LINK] as usize,
    }
}

/// Offset of the records behind `pstate` in a `struct sigcontext`: they are 16-byte aligned
/// (arch/arm64/include/uapi/asm/sigcontext.h, as all that follows).
const RECORDS: usize = 288;
/// Bytes of them.
const RECORDS_BYTES: usize = 4096;

/// What each record begins with: `struct _aarch64_ctx`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    magic: u32,
    bytes: u32,
}

/// A record of a signal's context, of one kind.
trait Extension: Copy {
    const MAGIC: u32;
}

/// `struct fpsimd_context`, of every frame.
#[derive(Clone, Copy)]
#[repr(C)]
struct FpSimd {
    head: Head,
    fpsr: u32,
    fpcr: u32,
    vector: [u128; VECTOR],
}

impl Extension for FpSimd {
    const MAGIC: u32 = 0x4650_8001;
}

/// `struct esr_context`: the exception syndrome of a fault.
#[derive(Clone, Copy)]
#[repr(C)]
struct Syndrome {
    head: Head,
    esr: u64,
}

impl Extension for Syndrome {
    const MAGIC: u32 = 0x4553_5201;
}

/// The record of a type, if there is one. Those that do not fit lie elsewhere, but neither of these: the
/// kernel places them first (arch/arm64/kernel/signal.c, `setup_sigframe_layout`).
///
/// # Safety
///
/// The context must be one that the kernel gave.
unsafe fn record<R: Extension>(context: &libc::ucontext_t) -> Option<R> {
    let first = (&raw const context.uc_mcontext).wrapping_byte_add(RECORDS);
    let mut at = 0;
    while at + size_of::<Head>() <= RECORDS_BYTES {
        // SAFETY: the records lie behind each other in the context, which is as long.
        let head = unsafe { first.byte_add(at).cast::<Head>().read() };
        let bytes = head.bytes as usize;
        if head.magic == R::MAGIC && bytes >= size_of::<R>() && at + bytes <= RECORDS_BYTES {
            // SAFETY: as above; a record of this kind is as long and begins like this.
            return Some(unsafe { first.byte_add(at).cast::<R>().read() });
        }
        // The last is of zeros.
        if bytes == 0 {
            break;
        }
        at += bytes;
    }
    None
}

/// Has a guest that has left go on, by [`go_on`], at `to` with these pointers to its stack and its frame.
///
/// # Safety
///
/// Nothing may be in use below `sp`, which is inside the stack, and the code at `to` must want no other register.
pub(crate) unsafe fn go_on_at(activation: &mut Activation, to: usize, sp: usize, fp: usize) {
    activation.guest_registers[FRAME_POINTER] = fp as u64;
    activation.guest_registers[SAVED_LINK] = to as u64;
    activation.guest_sp = sp as u64;
}

/// Whether the fault that a signal tells of was a write: a data abort with WnR that is no cache
/// maintenance (Arm ARM, D24.2.40, ESR_EL1, "ISS encoding for an exception from a Data Abort").
///
/// Where nothing is said of it, it counts as one: a page that was only read is put back in vain, and no
/// more, while one that is written to would fault for ever.
pub(crate) fn wrote(context: &libc::ucontext_t) -> bool {
    const CLASS: u64 = 0x3f << 26;
    const DATA_ABORT: u64 = 0x24 << 26;
    const CACHE_MAINTENANCE: u64 = 1 << 8;
    const WNR: u64 = 1 << 6;
    // SAFETY: the handler's own context.
    match unsafe { record::<Syndrome>(context) } {
        Some(Syndrome { esr, .. }) if esr & CLASS == DATA_ABORT => {
            esr & WNR != 0 && esr & CACHE_MAINTENANCE == 0
        }
        _ => true,
    }
}

/// Makes the code that a signal interrupted continue by leaving the guest of `activation`.
pub(crate) fn redirect(context: &mut libc::ucontext_t, activation: *mut Activation) {
    let mcontext = &mut context.uc_mcontext;
    mcontext.pc = leave as *const () as u64;
    mcontext.regs[0] = activation as u64;
}

/// Where the part of a routine lies that begins with this instruction, or with the routine. It ends with
/// two `udf` that spell "pirn".
fn part(routine: *const (), begins: Option<u32>) -> Range<usize> {
    const END: [u32; 2] = [0x7069, 0x726e];
    // SAFETY: the instructions of the routine, up to those that end it.
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

/// Where [`enter`] looks at the gate.
fn entering() -> Range<usize> {
    part(enter as *const (), None)
}

/// Where [`restore`] does.
fn restoring() -> Range<usize> {
    part(restore as *const (), None)
}

/// Where [`go_on`] does.
fn going_on() -> Range<usize> {
    part(go_on as *const (), None)
}

/// Where the routines do that go on in the guest by a return.
fn coming_back() -> [Range<usize>; 2] {
    // `movz xzr, #0x7069, lsl #16`, which does nothing (Arm ARM, C6.2, MOVZ).
    const TAIL: u32 = 0xd2a0_0000 | 0x7069 << 5 | 31;
    [exit as *const (), host_call as *const ()].map(|routine| part(routine, Some(TAIL)))
}

/// Where a thread was interrupted.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// Somewhere.
    At(Position),
    /// Where the guest is about to go on with the registers that were taken from it.
    Restoring,
    /// Where it looks at the gate before it is in the guest: it will do so again.
    Entering,
}

/// Where in its guest a thread was interrupted.
///
/// # Safety
///
/// `activation` must be that of the call which runs on the interrupted thread.
pub(crate) unsafe fn guest_position(
    context: &mut libc::ucontext_t,
    activation: *const Activation,
) -> Interrupted {
    let at = interrupted(context);
    let again = |context: &mut libc::ucontext_t, start: usize| {
        context.uc_mcontext.pc = start as u64;
        Interrupted::Entering
    };
    let entering = entering();
    if entering.contains(&at.pc) {
        return again(context, entering.start);
    }
    if restoring().contains(&at.pc) {
        return Interrupted::Restoring;
    }
    let mut routines = coming_back().into_iter().chain([going_on()]);
    let Some(routine) = routines.find(|routine| routine.contains(&at.pc)) else {
        return Interrupted::At(at);
    };
    // SAFETY: the caller's promise.
    if at.sp as u64 == unsafe { (*activation).host_sp } {
        return again(context, routine.start);
    }
    // Before its last instruction, by which it goes to the guest's return address.
    Interrupted::At(Position { pc: at.link, ..at })
}

#[cfg(test)]
mod tests;
