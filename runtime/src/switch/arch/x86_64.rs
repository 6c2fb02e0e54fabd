//! x86_64, System V psABI: start, exit and the registers of a signal's context.
//!
//! The guest's side of every switch is a call in the C convention: `start` calls the entry
//! trampoline, and the trampolines of the module call `exit`. What that convention preserves is rbx,
//! rbp and r12 to r15. `start` preserves them by saying so to the compiler; `exit` calls the host's
//! answer, a function in the same convention, which preserves them by itself. So they are saved only
//! when the guest leaves. The direction flag is clear on both sides (psABI 3.2.1). So are the control bits of
//! MXCSR what threads begin with: see [`super::super::floats`]. Guests use no x87 instructions.
//!
//! ```text
//!            host stack, while the guest runs                guest stack, after exit was called
//!   high   ┌──────────────────────┐                         ┌──────────────────────┐
//!          │ frame of the caller  │                         │ frames of the guest  │
//!          │   of `start`         │                         │ frame of the         │
//!     +40  │ rbx                  │                         │   trampoline         │
//!     +32  │ rbp                  │                         │ return address       │◀ guest_sp
//!     +24  │ where to go on       │                         └──────────────────────┘
//!     +16  │ call                 │
//!      +8  │ answer               │
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
//! is gone, so the return address that its first call pushed is replaced by that of `returned`, which
//! finds the host's stack by the activation.
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
use core::mem::offset_of;
use core::ops::Range;
use core::slice;
use pirn_format::layout::CONTEXT_ACTIVATION;

/// Number of registers that the C convention preserves: rbx, rbp, r12, r13, r14, r15.
pub(crate) const SAVED_REGISTERS: usize = 6;
/// Which of the saved registers is the frame pointer.
pub(crate) const FRAME_POINTER: usize = 1;

/// Has who walks the guest's stack go on with the caller of `start`, while rbx has the host's stack pointer: as
/// from a frame of its own, of 48 bytes, which returns to where `start` goes on, and has changed no other
/// register. Only where every function has unwind tables is there a place for it.
///
/// DW_CFA_remember_state, def_cfa, offset, same_value (DWARF 5, 6.4.2; numbers of registers: psABI 3.6.2). They
/// are given as bytes because the assembler would go on counting the compiler's frame from those 48.
#[cfg(panic = "unwind")]
macro_rules! host_frame {
    () => {
        ".cfi_escape 0x0a, 0x0c, 3, 48, 0x83, 1, 0x86, 2, 0x90, 3, 8, 12, 8, 13, 8, 14, 8, 15"
    };
}

/// Ends what [`host_frame`] says: DW_CFA_restore_state.
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
    // and rbx and rbp, which cannot be said so, are kept on the stack. That is 16-byte aligned here
    // (Rust reference, inline assembly, `nostack`), and six words further down again.
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
            // Who returns on another host's stack than it was entered from finds that by r12.
            "mov r12, rcx",
            // rbx survives the call: what comes next need not wait for the stack pointer in memory.
            "mov rbx, rsp",
            "mov rsp, rdx",
            // Frame pointer 0: the guest's chain of frames ends here.
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
    // SAFETY: the word below the cells is where `start` had the return address pushed.
    unsafe {
        cells
            .cast::<usize>()
            .sub(1)
            .write(returned as *const () as usize + RETURNED);
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

/// How a thread computes with floating point: MXCSR.
pub(crate) type FloatControl = u32;

/// How this thread does.
#[inline(always)]
pub(crate) fn float_control() -> FloatControl {
    let mut bits = 0;
    // SAFETY: stores the register there.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
    bits
}

/// Whether that is how threads begin: rounding to nearest, with denormals, and without a signal for any exception. The
/// lowest six bits say which exceptions there were.
#[inline(always)]
pub(crate) fn is_plain(control: FloatControl) -> bool {
    control & !0x3f == PLAIN
}

/// How threads begin (psABI 3.2.1).
pub(crate) const PLAIN: FloatControl = 0x1f80;

/// Has this thread compute otherwise.
///
/// # Safety
///
/// It must be what [`float_control`] gave, or [`PLAIN`]; Rust code that computes meanwhile computes so.
#[cold]
pub(crate) unsafe fn set_float_control(control: FloatControl) {
    // SAFETY: the caller's promise; no reserved bit is set.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags)) };
}

/// A whole routine that generated code calls: after what it does first, it goes to the host's stack,
/// calls what is to be called there, and goes on in the guest or leaves it, as that says.
macro_rules! to_host {
    ([$($first:literal),*], $call:literal, $($operand:tt)*) => {
        naked_asm!(
            ".cfi_startproc",
            $($first,)*
            "mov rax, [rdi + {activation}]",
            "mov rax, [rax + {host_sp}]",
            "mov [rax], rsp",
            "mov rsp, rax",
            // Who walks the stack from here finds the caller of `start`: a panic's backtrace, a
            // profiler.
            ".cfi_def_cfa rsp, 48",
            ".cfi_offset rbx, -8",
            ".cfi_offset rbp, -16",
            ".cfi_offset rip, -24",
            "mov rcx, [rsp + 16]",
            $call,
            // Where `coming_back` begins: a look at the gate, and what comes between it and the guest's
            // code.
            "nop dword ptr [rax + 0x6e726970]",
            "test rax, rax",
            "jnz {finish}",
            "mov rcx, [rsp + 16]",
            "mov rcx, [rcx]",
            "mov rdx, [rcx + {gate}]",
            "cmp byte ptr [rdx], {go}",
            "jne 2f",
            "mov rsp, [rsp]",
            // The return of the guest's call.
            "ret",
            "2:",
            "mov rax, rcx",
            "jmp {finish}",
            ".cfi_endproc",
            "ud2; ud2; ud2; ud2",
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
    to_host!([], "call [rsp + 8]",)
}

/// Called by generated code as `host_call(vmctx, host, cells)`: calls the entry of a host function.
#[unsafe(naked)]
unsafe extern "C" fn host_call(vmctx: *mut u8, host: u64, cells: u64) {
    to_host!(
        ["add rsi, [rdi + {hosts}]"],
        "call [rsi]",
        hosts = const RECORD_HOSTS,
    )
}

/// Enters the guest of the activation in rcx at rax, unless its gate is closed.
///
/// Nothing comes between the look at the gate and the guest's code but instructions of this routine: a
/// signal handler that closes the gate while they run has the routine run again, see [`guest_position`].
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        "mov r10, [rcx + {gate}]",
        "cmp byte ptr [r10], {go}",
        "jne 2f",
        "jmp rax",
        "2:",
        "mov rax, rcx",
        "jmp {leave}",
        "ud2; ud2; ud2; ud2",
        gate = const GATE,
        go = const GO,
        leave = sym leave,
    )
}

/// Goes on in the guest of the activation in rcx behind its call of an exit routine, unless its gate is
/// closed: from the host's stack.
#[unsafe(naked)]
unsafe extern "C" fn go_on() {
    naked_asm!(
        "mov rdx, [rcx + {gate}]",
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
        // A return would be predicted to go to where the host's last call was made.
        "jmp [rax]",
        "2:",
        "mov rax, rcx",
        "jmp {leave}",
        "ud2; ud2; ud2; ud2",
        gate = const GATE,
        go = const GO,
        saved = const GUEST_REGISTERS,
        guest_sp = const GUEST_SP,
        leave = sym leave,
    )
}

/// Goes on in the guest of the activation in rcx with the [`Registers`] at rax, unless its gate is closed:
/// from the host's stack, which has room for what `iretq` takes (Intel SDM, volume 2, IRET). No other
/// instruction sets the program counter, the stack pointer and the flags, and leaves nothing behind.
#[unsafe(naked)]
unsafe extern "C" fn restore() {
    naked_asm!(
        "mov rdx, [rcx + {gate}]",
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
        gate = const GATE,
        go = const GO,
        rip = const offset_of!(Registers, rip),
        rsp = const offset_of!(Registers, rsp),
        flags = const offset_of!(Registers, flags),
        general = const offset_of!(Registers, general),
        xmm = const offset_of!(Registers, xmm),
        leave = sym leave,
    )
}

/// Where a guest returns to that was gone on with: behind the `resume` of the activation in r12, which
/// `start` put there, and which the guest has preserved.
#[unsafe(naked)]
unsafe extern "C" fn returned() {
    naked_asm!(
        ".cfi_startproc",
        // The frame on the host's stack is 48 bytes from where the activation says: DW_CFA_def_cfa_expression
        // of r12, HOST_SP further, what is there, and 48 more (DWARF 5, 2.5.1 and 6.4.2.2).
        ".cfi_escape 0x0f, 5, 0x7c, {host_sp}, 0x06, 0x23, 48",
        ".cfi_offset rbx, -8",
        ".cfi_offset rbp, -16",
        ".cfi_offset rip, -24",
        // Who walks the stack looks for what is before the return address.
        "nop",
        "mov rsp, [r12 + {host_sp}]",
        "mov eax, 1",
        "jmp [rsp + 24]",
        ".cfi_endproc",
        host_sp = const HOST_SP,
    )
}

/// Bytes of `returned` before the place where guests return to.
const RETURNED: usize = 1;
// A number of one byte in what says where the frame is.
const _: () = assert!(HOST_SP < 64);

/// The registers of a guest that was interrupted. Generated code has values of at most 128 bits, so of
/// vector registers that is all, and it changes neither MXCSR nor the x87 unit.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Registers {
    xmm: [u128; 16],
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx: as in a signal's context.
    general: [u64; GENERAL],
    rsp: u64,
    rip: u64,
    flags: u64,
    /// Whether there are any.
    pub(crate) taken: bool,
}

/// Number of general registers but the stack pointer.
const GENERAL: usize = 15;

impl Registers {
    /// None.
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

    /// Takes those that a signal interrupted, but for the position, which is given.
    ///
    /// # Safety
    ///
    /// The activation must be that of the call whose guest was interrupted, and the context the kernel's.
    pub(crate) unsafe fn take(
        &mut self,
        context: &libc::ucontext_t,
        _: *const Activation,
        at: Position,
    ) {
        let mcontext = &context.uc_mcontext;
        // From r8 to rcx as the kernel has them (sys/ucontext.h).
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

    /// Where they were taken.
    pub(crate) fn position(&self) -> Position {
        Position {
            pc: self.rip as usize,
            sp: self.rsp as usize,
            fp: self.general[libc::REG_RBP as usize] as usize,
            link: 0,
        }
    }
}

/// Leaves the guest of the activation in rax, from the host's stack: the other registers are the
/// guest's.
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

/// Goes on behind the `start` of the activation in rax, whatever the other registers hold and wherever
/// the stack pointer is.
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

/// Where the code is that a signal interrupted.
pub(crate) fn interrupted(context: &libc::ucontext_t) -> Position {
    let register = |index: i32| context.uc_mcontext.gregs[index as usize] as usize;
    Position {
        pc: register(libc::REG_RIP),
        sp: register(libc::REG_RSP),
        fp: register(libc::REG_RBP),
        link: 0,
    }
}

/// Has a guest that has left go on, by [`go_on`], at `to` with these pointers to its stack and its frame.
///
/// # Safety
///
/// Nothing may be in use below `sp`, which is inside the stack, and the code at `to` must want no other register.
pub(crate) unsafe fn go_on_at(activation: &mut Activation, to: usize, sp: usize, fp: usize) {
    activation.guest_registers[FRAME_POINTER] = fp as u64;
    let top = sp - 8;
    activation.guest_sp = top as u64;
    // SAFETY: the word of the stack below, by the caller's promise; `go_on` takes it off.
    unsafe { (top as *mut usize).write(to) };
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

/// Where the part of a routine lies that begins with these bytes. It ends with four times `ud2`, longer
/// than any constant in an instruction.
fn part(routine: *const (), begins: &[u8]) -> Range<usize> {
    const END: [u8; 8] = [0x0f, 0x0b, 0x0f, 0x0b, 0x0f, 0x0b, 0x0f, 0x0b];
    let find = |mut at: usize, wanted: &[u8]| {
        // SAFETY: the instructions of the routine, up to those that end it.
        while unsafe { slice::from_raw_parts(at as *const u8, wanted.len()) } != wanted {
            at += 1;
        }
        at
    };
    let start = find(routine as usize, begins);
    start..find(start, &END)
}

/// Where [`enter`] looks at the gate.
fn entering() -> Range<usize> {
    part(enter as *const (), &[])
}

/// Where [`restore`] does.
fn restoring() -> Range<usize> {
    part(restore as *const (), &[])
}

/// Where [`go_on`] does.
fn going_on() -> Range<usize> {
    part(go_on as *const (), &[])
}

/// Where the routines do that go on in the guest by a return.
fn coming_back() -> [Range<usize>; 2] {
    // The `nop` there (Intel SDM, volume 2, NOP), with "pirn" as its constant.
    const TAIL: [u8; 7] = [0x0f, 0x1f, 0x80, b'p', b'i', b'r', b'n'];
    [exit as *const (), host_call as *const ()].map(|routine| part(routine, &TAIL))
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
    let Position { pc, sp, .. } = at;
    let again = |context: &mut libc::ucontext_t, start: usize| {
        context.uc_mcontext.gregs[libc::REG_RIP as usize] = start as i64;
        Interrupted::Entering
    };
    let entering = entering();
    if entering.contains(&pc) {
        return again(context, entering.start);
    }
    if restoring().contains(&pc) {
        return Interrupted::Restoring;
    }
    let (going_on, coming_back) = (going_on(), coming_back());
    let mut routines = coming_back.into_iter().chain([going_on.clone()]);
    let Some(routine) = routines.find(|routine| routine.contains(&pc)) else {
        return Interrupted::At(at);
    };
    // SAFETY: the caller's promise.
    if sp as u64 == unsafe { (*activation).host_sp } {
        return again(context, routine.start);
    }
    // Before its last instruction, by which it goes to the address on top of the guest's stack. A return
    // has not taken that off yet.
    let sp = if going_on.contains(&pc) { sp } else { sp + 8 };
    // SAFETY: the routine took up the stack pointer that the guest left with.
    let pc = unsafe { *((sp - 8) as *const usize) };
    Interrupted::At(Position { pc, sp, ..at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_with_a_gate_are_where_they_seem_to_be() {
        // As they are assembled: a few instructions each.
        for part in coming_back().into_iter().chain([entering(), going_on()]) {
            assert!((16..64).contains(&part.len()), "{part:x?}");
        }
        assert!(
            (200..300).contains(&restoring().len()),
            "{:x?}",
            restoring()
        );
    }
}
