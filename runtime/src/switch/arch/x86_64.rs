//! x86_64, System V psABI: stack switches, and the registers of a signal's context.
//!
//! To the guest, every switch is a call in the C calling convention: `start` calls the entry
//! trampoline, and the module's trampolines call `exit`. The callee-saved registers of that
//! convention are rbx, rbp and r12 to r15. `start` preserves these registers by declaring them
//! clobbered to the compiler. `exit` calls the host's answer function, which uses the same
//! convention and so preserves these registers itself. So the code here saves these registers only
//! when the guest leaves. The direction flag is clear on both sides (psABI 3.2.1). The control bits
//! of MXCSR have the initial value of a thread, see [`super::super::floats`]. Guests use no x87
//! instructions.
//!
//! ```text
//!            host stack, while the guest runs                guest stack, after exit was called
//!   high   ┌──────────────────────┐                         ┌──────────────────────┐
//!          │ frame of the caller  │                         │ frames of the guest  │
//!          │   of `start`         │                         │ frame of the         │
//!     +40  │ rbx                  │                         │   trampoline         │
//!     +32  │ rbp                  │                         │ return address       │◀ guest_sp
//!     +24  │ resume address       │                         └──────────────────────┘
//!     +16  │ call                 │
//!      +8  │ answer               │
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
//! the host stack are gone, so `resume` replaces the return address that `start` pushed on the
//! guest stack. The new return address lies in the routine `returned`, which finds the host stack
//! through the activation.
//!
//! # Safety
//!
//! Each routine keeps the stacks as drawn above at every instruction at which a signal can make the
//! guest leave.
#![allow(unsafe_code)]

use super::bulk;
use crate::switch::activation::{
    Activation, Answer, GUEST_REGISTERS, GUEST_SP, HOST_SP, INTERRUPT_FLAG, Position, RECORD_HOSTS,
};
use crate::switch::interrupt_flag::GO;
use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::ops::Range;
use core::slice;
use pirn_format::layout::CONTEXT_ACTIVATION;

/// Number of callee-saved registers of the C convention: rbx, rbp, r12, r13, r14, r15.
pub(crate) const SAVED_REGISTERS: usize = 6;
/// Index of the frame pointer among the saved registers.
pub(crate) const FRAME_POINTER: usize = 1;
/// Index of the word on the host stack that holds the `call` of [`start`] or [`resume`].
pub(crate) const CALL_WORD: usize = 2;

/// CFI: unwinding past the guest resumes in the caller of `start`.
///
/// rbx holds the host stack pointer. The unwinder sees a frame of 48 bytes that returns to the
/// resume address of `start`. The unwinder restores rbx and rbp, and takes r12 to r15 as unchanged.
/// The directive is used only where every function has unwind tables.
///
/// The bytes are DW_CFA_remember_state, def_cfa, offset, same_value (DWARF 5, 6.4.2; register
/// numbers: psABI 3.6.2). The bytes are escaped because the assembler would otherwise compute the
/// compiler's own frame offsets from the 48.
#[cfg(panic = "unwind")]
macro_rules! host_frame {
    () => {
        ".cfi_escape 0x0a, 0x0c, 3, 48, 0x83, 1, 0x86, 2, 0x90, 3, 8, 12, 8, 13, 8, 14, 8, 15"
    };
}

/// Ends the effect of [`host_frame`]: DW_CFA_restore_state.
#[cfg(panic = "unwind")]
macro_rules! host_frame_end {
    () => {
        ".cfi_escape 0x0b"
    };
}

#[cfg(not(panic = "unwind"))]
macro_rules! host_frame {
    () => {
        ""
    };
}

#[cfg(not(panic = "unwind"))]
macro_rules! host_frame_end {
    () => {
        ""
    };
}

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
    // change is declared as an output or clobber. rbx and rbp cannot be declared, so they are saved
    // on the stack. The stack is 16-byte aligned here (Rust reference, inline assembly, `nostack`),
    // also six words further down.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "lea r10, [rip + 2f]",
            "push r10",
            "push r9",
            "push r8",
            "sub rsp, 8",
            "mov [rcx + {host_sp}], rsp",
            // If the guest was resumed from another host stack, `returned` finds that stack through
            // r12.
            "mov r12, rcx",
            // rbx survives the call, so the code after the call need not load the stack pointer
            // from memory.
            "mov rbx, rsp",
            "mov rsp, rdx",
            // Frame pointer 0 ends the guest's frame chain here.
            "xor ebp, ebp",
            host_frame!(),
            "call {enter}",
            host_frame_end!(),
            // The guest has returned.
            "mov eax, 1",
            "mov rsp, rbx",
            "2:",
            "add rsp, 32",
            "pop rbp",
            "pop rbx",
            host_sp = const HOST_SP,
            enter = sym enter,
            in("rcx") activation,
            in("rdi") vmctx,
            in("rsi") code,
            in("rdx") cells,
            inout("rax") entry => returned,
            in("r8") answer,
            in("r9") call,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    returned != 0
}

/// Resumes a guest. If `registers` is null, the guest left at an exit, whose cells hold the answer
/// now. Otherwise the guest continues at the point where these registers were saved. The results
/// are as for [`start`].
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
    // SAFETY: `start` pushed the return address into the word below the cells.
    unsafe {
        cells
            .cast::<usize>()
            .sub(1)
            .write(returned as *const () as usize + RETURNED);
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
            "push rbx",
            "push rbp",
            "lea r10, [rip + 2f]",
            "push r10",
            "push r9",
            "push r8",
            "sub rsp, 8",
            "mov [rcx + {host_sp}], rsp",
            "jmp rdx",
            "2:",
            "add rsp, 32",
            "pop rbp",
            "pop rbx",
            host_sp = const HOST_SP,
            in("rcx") activation,
            in("rdx") on,
            inout("rax") registers => returned,
            in("r8") answer,
            in("r9") call,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    returned != 0
}

/// Floating-point control and status of a thread: MXCSR.
pub(crate) type FloatControl = u32;

/// Reads this thread's MXCSR.
#[inline(always)]
pub(crate) fn float_control() -> FloatControl {
    let mut bits = 0;
    // SAFETY: the instruction stores the register into `bits`.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
    bits
}

/// Whether the control bits have their initial value: round to nearest, denormals enabled, all
/// exceptions masked. The lowest six bits are sticky exception flags and are ignored.
#[inline(always)]
pub(crate) fn is_plain(control: FloatControl) -> bool {
    control & !0x3f == PLAIN
}

/// The value that a thread starts with (psABI 3.2.1).
pub(crate) const PLAIN: FloatControl = 0x1f80;

/// Sets this thread's MXCSR.
///
/// # Safety
///
/// `control` must come from [`float_control`] or be [`PLAIN`]. Rust code on this thread computes
/// with this setting until the setting is restored.
#[cold]
pub(crate) unsafe fn set_float_control(control: FloatControl) {
    // SAFETY: the caller promises a value without reserved bits.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags)) };
}

/// Body of a routine that generated code calls. After the `first` instructions, the body switches
/// to the host stack and makes the given call on that stack. Depending on the result, the body then
/// returns to the guest or leaves the guest. The body begins at a cache line, so that it spans as
/// few lines as possible.
macro_rules! to_host {
    ([$($first:literal),*], $call:literal, $($operand:tt)*) => {
        naked_asm!(
            ".p2align 6",
            ".cfi_startproc",
            $($first,)*
            "mov rax, [rdi + {activation}]",
            "mov rax, [rax + {host_sp}]",
            "mov [rax], rsp",
            "mov rsp, rax",
            // An unwinder that starts here, for a panic's backtrace or a profiler, finds the caller
            // of `start`.
            ".cfi_def_cfa rsp, 48",
            ".cfi_offset rbx, -8",
            ".cfi_offset rbp, -16",
            ".cfi_offset rip, -24",
            "mov rcx, [rsp + 16]",
            $call,
            // `coming_back` begins here: the check of the interrupt flag, and the instructions
            // between the check and the guest's code.
            "nop dword ptr [rax + 0x6e726970]",
            "test rax, rax",
            "jnz {finish}",
            "mov rcx, [rsp + 16]",
            "mov rcx, [rcx]",
            "mov rdx, [rcx + {flag}]",
            "cmp byte ptr [rdx], {go}",
            "jne 2f",
            "mov rsp, [rsp]",
            // Returns from the guest's call.
            "ret",
            "2:",
            "mov rax, rcx",
            "jmp {finish}",
            ".cfi_endproc",
            "ud2; ud2; ud2; ud2",
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
    to_host!([], "call [rsp + 8]",)
}

/// Generated code calls `host_call(vmctx, host, cells)`. The routine calls the entry of a host
/// function.
#[unsafe(naked)]
unsafe extern "C" fn host_call(vmctx: *mut u8, host: u64, cells: u64) {
    to_host!(
        ["add rsi, [rdi + {hosts}]"],
        "call [rsi]",
        hosts = const RECORD_HOSTS,
    )
}

/// Enters the guest of the activation in rcx at rax, unless its interrupt flag is set.
///
/// Only instructions of this routine lie between the check of the flag and the guest's code. If a
/// signal handler finds the thread at one of these instructions with the flag set, it restarts the
/// routine, see [`guest_position`].
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        "mov r10, [rcx + {flag}]",
        "cmp byte ptr [r10], {go}",
        "jne 2f",
        "jmp rax",
        "2:",
        "mov rax, rcx",
        "jmp {leave}",
        "ud2; ud2; ud2; ud2",
        flag = const INTERRUPT_FLAG,
        go = const GO,
        leave = sym leave,
    )
}

/// Resumes the guest of the activation in rcx after its call of an exit routine, unless its
/// interrupt flag is set. Runs on the host stack.
#[unsafe(naked)]
unsafe extern "C" fn reenter() {
    naked_asm!(
        "mov rdx, [rcx + {flag}]",
        "cmp byte ptr [rdx], {go}",
        "jne 2f",
        "mov rbx, [rcx + {saved}]",
        "mov rbp, [rcx + {saved} + 8]",
        "mov r12, [rcx + {saved} + 16]",
        "mov r13, [rcx + {saved} + 24]",
        "mov r14, [rcx + {saved} + 32]",
        "mov r15, [rcx + {saved} + 40]",
        "mov rax, [rcx + {guest_sp}]",
        "lea rsp, [rax + 8]",
        // A `ret` would be predicted to go to the site of the host's last call.
        "jmp [rax]",
        "2:",
        "mov rax, rcx",
        "jmp {leave}",
        "ud2; ud2; ud2; ud2",
        flag = const INTERRUPT_FLAG,
        go = const GO,
        saved = const GUEST_REGISTERS,
        guest_sp = const GUEST_SP,
        leave = sym leave,
    )
}

/// Resumes the guest of the activation in rcx with the [`Registers`] at rax, unless its interrupt
/// flag is set. Runs on the host stack, which has room for the operands of `iretq` (Intel SDM,
/// volume 2, IRET). No other instruction sets program counter, stack pointer and flags without
/// changing another register or memory.
#[unsafe(naked)]
unsafe extern "C" fn restore() {
    naked_asm!(
        "mov rdx, [rcx + {flag}]",
        "cmp byte ptr [rdx], {go}",
        "jne 2f",
        "mov edx, ss",
        "push rdx",
        "push qword ptr [rax + {rsp}]",
        "push qword ptr [rax + {flags}]",
        "mov edx, cs",
        "push rdx",
        "push qword ptr [rax + {rip}]",
        "movups xmm0, [rax + {xmm}]",
        "movups xmm1, [rax + {xmm} + 16]",
        "movups xmm2, [rax + {xmm} + 32]",
        "movups xmm3, [rax + {xmm} + 48]",
        "movups xmm4, [rax + {xmm} + 64]",
        "movups xmm5, [rax + {xmm} + 80]",
        "movups xmm6, [rax + {xmm} + 96]",
        "movups xmm7, [rax + {xmm} + 112]",
        "movups xmm8, [rax + {xmm} + 128]",
        "movups xmm9, [rax + {xmm} + 144]",
        "movups xmm10, [rax + {xmm} + 160]",
        "movups xmm11, [rax + {xmm} + 176]",
        "movups xmm12, [rax + {xmm} + 192]",
        "movups xmm13, [rax + {xmm} + 208]",
        "movups xmm14, [rax + {xmm} + 224]",
        "movups xmm15, [rax + {xmm} + 240]",
        "mov r8, [rax + {general}]",
        "mov r9, [rax + {general} + 8]",
        "mov r10, [rax + {general} + 16]",
        "mov r11, [rax + {general} + 24]",
        "mov r12, [rax + {general} + 32]",
        "mov r13, [rax + {general} + 40]",
        "mov r14, [rax + {general} + 48]",
        "mov r15, [rax + {general} + 56]",
        "mov rdi, [rax + {general} + 64]",
        "mov rsi, [rax + {general} + 72]",
        "mov rbp, [rax + {general} + 80]",
        "mov rbx, [rax + {general} + 88]",
        "mov rdx, [rax + {general} + 96]",
        "mov rcx, [rax + {general} + 112]",
        "mov rax, [rax + {general} + 104]",
        "iretq",
        "2:",
        "mov rax, rcx",
        "jmp {leave}",
        "ud2; ud2; ud2; ud2",
        flag = const INTERRUPT_FLAG,
        go = const GO,
        rip = const offset_of!(Registers, rip),
        rsp = const offset_of!(Registers, rsp),
        flags = const offset_of!(Registers, flags),
        general = const offset_of!(Registers, general),
        xmm = const offset_of!(Registers, xmm),
        leave = sym leave,
    )
}

/// Return address of a resumed guest. The code continues after the `resume` of the activation in
/// r12. `start` put the activation into r12, and the guest has preserved it.
#[unsafe(naked)]
unsafe extern "C" fn returned() {
    naked_asm!(
        ".cfi_startproc",
        // The frame on the host stack ends 48 bytes above the stack pointer in the activation.
        // DW_CFA_def_cfa_expression: r12 plus HOST_SP, dereference, plus 48 (DWARF 5, 2.5.1 and
        // 6.4.2.2).
        ".cfi_escape 0x0f, 5, 0x7c, {host_sp}, 0x06, 0x23, 48",
        ".cfi_offset rbx, -8",
        ".cfi_offset rbp, -16",
        ".cfi_offset rip, -24",
        // The unwinder looks up the instruction before the return address.
        "nop",
        "mov rsp, [r12 + {host_sp}]",
        "mov eax, 1",
        "jmp [rsp + 24]",
        ".cfi_endproc",
        host_sp = const HOST_SP,
    )
}

/// Bytes of `returned` before the address that guests return to.
const RETURNED: usize = 1;
// The offset must fit into one byte of the CFI expression.
const _: () = assert!(HOST_SP < 64);

/// The registers of an interrupted guest. Generated code uses at most 128 bits of a vector
/// register, so only these bits are saved. Generated code does not change the control bits of MXCSR
/// or the x87 unit.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Registers {
    xmm: [u128; 16],
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx: the order in a signal's context.
    general: [u64; GENERAL],
    rsp: u64,
    rip: u64,
    flags: u64,
    /// Whether the registers of a guest were saved.
    pub(crate) taken: bool,
}

/// Number of general registers except the stack pointer.
const GENERAL: usize = 15;

impl Registers {
    /// Creates an empty set, without saved registers.
    pub(crate) fn none() -> Self {
        Self {
            xmm: [0; 16],
            general: [0; GENERAL],
            rsp: 0,
            rip: 0,
            flags: 0,
            taken: false,
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
        _: *const Activation,
        at: Position,
    ) {
        let mcontext = &context.uc_mcontext;
        // From r8 to rcx in the order of the kernel (sys/ucontext.h).
        const _: () = assert!(libc::REG_R8 == 0 && libc::REG_RCX as usize == GENERAL - 1);
        for (to, from) in self.general.iter_mut().zip(&mcontext.gregs) {
            *to = from.cast_unsigned();
        }
        self.general[libc::REG_RBP as usize] = at.fp as u64;
        (self.rip, self.rsp) = (at.pc as u64, at.sp as u64);
        self.flags = mcontext.gregs[libc::REG_EFL as usize].cast_unsigned();
        // SAFETY: the kernel gives a 64-bit process the state in this format (sigaction(2), "the
        // ucontext_t"; Intel SDM, volume 1, 10.5.1).
        let vectors = unsafe { &(*mcontext.fpregs)._xmm };
        for (to, from) in self.xmm.iter_mut().zip(vectors) {
            let [a, b, c, d] = from.element.map(u128::from);
            *to = a | b << 32 | c << 64 | d << 96;
        }
        self.taken = true;
    }

    /// The position at which the registers were saved.
    pub(crate) fn position(&self) -> Position {
        Position {
            pc: self.rip as usize,
            sp: self.rsp as usize,
            fp: self.general[libc::REG_RBP as usize] as usize,
            link: 0,
        }
    }
}

/// Leaves the guest of the activation in rax, so that the guest can be resumed. Runs on the host
/// stack, while the callee-saved registers still hold the guest's values.
#[unsafe(naked)]
unsafe extern "C" fn finish() {
    naked_asm!(
        "mov [rax + {saved}], rbx",
        "mov [rax + {saved} + 8], rbp",
        "mov [rax + {saved} + 16], r12",
        "mov [rax + {saved} + 24], r13",
        "mov [rax + {saved} + 32], r14",
        "mov [rax + {saved} + 40], r15",
        "mov rcx, [rsp]",
        "mov [rax + {guest_sp}], rcx",
        "jmp {leave}",
        saved = const GUEST_REGISTERS,
        guest_sp = const GUEST_SP,
        leave = sym leave,
    )
}

/// Continues after the `start` or `resume` of the activation in rax, whatever the other registers
/// and the stack pointer hold.
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    naked_asm!(
        "mov rsp, [rax + {host_sp}]",
        "xor eax, eax",
        "jmp [rsp + 24]",
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
    let register = |index: i32| context.uc_mcontext.gregs[index as usize] as usize;
    Position {
        pc: register(libc::REG_RIP),
        sp: register(libc::REG_RSP),
        fp: register(libc::REG_RBP),
        link: 0,
    }
}

/// The return address of the guest's last call of an exit routine. `word` reads the word at an
/// address of the guest's stack.
pub(crate) fn exit_returns_to(
    activation: &Activation,
    word: impl FnOnce(usize) -> Option<usize>,
) -> Option<usize> {
    word(activation.guest_sp as usize)
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
    let top = sp - 8;
    activation.guest_sp = top as u64;
    // SAFETY: the caller promises that this word of the stack is unused. `reenter` pops it.
    unsafe { (top as *mut usize).write(to) };
}

/// Whether the fault that a signal reports was a write: bit 1 of the page fault's error code (Intel
/// SDM, volume 3, 5.7).
pub(crate) fn wrote(context: &libc::ucontext_t) -> bool {
    context.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0
}

/// Changes the context so that the interrupted code continues at the address `pc`.
pub(super) fn continue_at(context: &mut libc::ucontext_t, pc: usize) {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = pc as i64;
}

/// Changes the context so that the interrupted code leaves the guest of `activation`.
pub(crate) fn redirect(context: &mut libc::ucontext_t, activation: *mut Activation) {
    continue_at(context, leave as *const () as usize);
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = activation as i64;
}

/// The beginning of a [`part`] that is a whole routine.
pub(super) const WHOLE: &[u8] = &[];

/// Address range of the part of a routine that begins with the bytes `begins`. The part ends with
/// four `ud2` instructions: no constant in an instruction contains these eight bytes.
pub(super) fn part(routine: *const (), begins: &[u8]) -> Range<usize> {
    const END: [u8; 8] = [0x0f, 0x0b, 0x0f, 0x0b, 0x0f, 0x0b, 0x0f, 0x0b];
    let find = |mut at: usize, wanted: &[u8]| {
        // SAFETY: `at` is an address in the routine. The search stops at the routine's end marker.
        while unsafe { slice::from_raw_parts(at as *const u8, wanted.len()) } != wanted {
            at += 1;
        }
        at
    };
    let start = find(routine as usize, begins);
    start..find(start, &END)
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
    // The `nop` of `to_host` (Intel SDM, volume 2, NOP), with "pirn" as its constant.
    const TAIL: [u8; 7] = [0x0f, 0x1f, 0x80, b'p', b'i', b'r', b'n'];
    [exit as *const (), host_call as *const ()].map(|routine| part(routine, &TAIL))
}

/// Where a signal interrupted a thread.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// At this position, which may be host code. A routine that is about to jump to the guest
    /// counts as at its target.
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
    let Position { pc, sp, .. } = at;
    let again = |context: &mut libc::ucontext_t, start: usize| {
        continue_at(context, start);
        Interrupted::Entering
    };
    let entering = entering();
    if entering.contains(&pc) {
        return again(context, entering.start);
    }
    if bulk::contains(pc) {
        let checking = bulk::checking();
        if checking.contains(&pc) {
            continue_at(context, checking.start);
        }
        // The routine has pushed nothing.
        // SAFETY: the guest has called the routine, so its stack has the return address on top.
        let pc = unsafe { *(sp as *const usize) };
        return Interrupted::Copying(Position {
            pc,
            sp: sp + 8,
            ..at
        });
    }
    if restoring().contains(&pc) {
        return Interrupted::Restoring;
    }
    let (reentering, coming_back) = (reentering(), coming_back());
    let mut routines = coming_back.into_iter().chain([reentering.clone()]);
    let Some(routine) = routines.find(|routine| routine.contains(&pc)) else {
        return Interrupted::At(at);
    };
    // SAFETY: the caller promises that the activation belongs to the call on this thread.
    if sp as u64 == unsafe { (*activation).host_sp } {
        return again(context, routine.start);
    }
    // The thread is before the last instruction, which jumps to the address on top of the guest's
    // stack. In the routines that end with a `ret`, that instruction has not popped the address
    // yet.
    let sp = if reentering.contains(&pc) { sp } else { sp + 8 };
    // SAFETY: the routine loaded the stack pointer with which the guest left.
    let pc = unsafe { *((sp - 8) as *const usize) };
    Interrupted::At(Position { pc, sp, ..at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_with_an_interrupt_flag_are_where_they_seem_to_be() {
        // The assembled parts are a few instructions each.
        for part in coming_back().into_iter().chain([entering(), reentering()]) {
            assert!((16..64).contains(&part.len()), "{part:x?}");
        }
        assert!(
            (200..300).contains(&restoring().len()),
            "{:x?}",
            restoring()
        );
    }
}
