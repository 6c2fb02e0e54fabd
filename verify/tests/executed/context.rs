//! Runs machine code with given registers: by signals, which the kernel delivers with all registers
//! of the interrupted code.
//!
//! [`enter`] raises a signal. The signal handler replaces the saved registers by the guest's
//! registers, so that its return enters the guest. Each further signal of the guest is an
//! [`Event`]: a fault, or the processor's trap after one instruction. When a [`Supervisor`] wants
//! to leave, the handler puts back the registers of [`enter`].
//!
//! # Safety
//!
//! One thread at a time is in [`enter`], and signals of the guest arrive on that thread, because it
//! causes them. Handlers run on their own stack, so they need nothing of the guest. They interrupt
//! only guest code, which holds no lock and is in no allocation. So handlers may lock and allocate.
#![allow(unsafe_code)]

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::cell::Cell;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Why the guest was interrupted.
pub(crate) enum Event {
    /// The guest is about to begin.
    Enter,
    /// The guest has executed an instruction.
    Step,
    /// The signal of a fault, and the address that caused it if the kernel knows one.
    Fault(c_int, Option<u64>),
}

/// The decision after an event.
#[derive(PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    Leave,
}

/// Decides after each event.
pub(crate) trait Supervisor {
    fn event(&mut self, event: Event, registers: &mut Registers<'_>) -> Next;
}

/// The registers of the interrupted guest.
pub(crate) struct Registers<'a>(&'a mut ucontext_t);

/// Indices of the general registers in the kernel's record, by the numbers that instructions use.
const PLACES: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// The flag that interrupts a program after each instruction.
const TRAP_FLAG: i64 = 0x100;

/// The flags of results: carry, parity, adjust, zero, sign and overflow.
const RESULT_FLAGS: i64 = 0x8d5;

impl Registers<'_> {
    fn place(&mut self, at: c_int) -> &mut i64 {
        &mut self.0.uc_mcontext.gregs[at as usize]
    }

    pub(crate) fn get(&self, number: usize) -> u64 {
        self.0.uc_mcontext.gregs[PLACES[number] as usize].cast_unsigned()
    }

    pub(crate) fn set(&mut self, number: usize, value: u64) {
        *self.place(PLACES[number]) = value.cast_signed();
    }

    pub(crate) fn rip(&self) -> u64 {
        self.0.uc_mcontext.gregs[libc::REG_RIP as usize].cast_unsigned()
    }

    pub(crate) fn set_rip(&mut self, value: u64) {
        *self.place(libc::REG_RIP) = value.cast_signed();
    }

    /// Sets the flags of results.
    pub(crate) fn set_flags(&mut self, value: u64) {
        let flags = self.place(libc::REG_EFL);
        *flags = *flags & !RESULT_FLAGS | value.cast_signed() & RESULT_FLAGS;
    }

    /// Whether the processor interrupts the guest after each instruction.
    pub(crate) fn set_stepping(&mut self, steps: bool) {
        let flags = self.place(libc::REG_EFL);
        *flags = *flags & !TRAP_FLAG | if steps { TRAP_FLAG } else { 0 };
    }

    /// The words of the record of vector registers. The first 512 bytes are the area of `FXSAVE`.
    /// The header of `XSAVE` follows, and then the upper halves of the 16 registers of AVX.
    fn vectors(&self) -> *mut u64 {
        self.0.uc_mcontext.fpregs.cast()
    }

    /// The lowest 128 bits of a vector register.
    pub(crate) fn vector(&self, number: usize) -> [u64; 2] {
        let at = 20 + 2 * number;
        // SAFETY: the kernel's record has 16 registers from byte 160 on.
        unsafe { [*self.vectors().add(at), *self.vectors().add(at + 1)] }
    }

    /// Sets a vector register. Its upper half in AVX becomes the complement of its lower half.
    pub(crate) fn set_vector(&mut self, number: usize, value: [u64; 2]) {
        /// The kernel's record has more than `FXSAVE` writes: FP_XSTATE_MAGIC1.
        const EXTENDED: u32 = 0x4650_5853;
        let vectors = self.vectors();
        let at = 20 + 2 * number;
        // SAFETY: the kernel's record has the registers from byte 160 on, and says at byte 464
        // whether the state of `XSAVE` follows. Bit 1 and bit 2 of the features at byte 472 mean
        // SSE and AVX. The word at byte 512 has the bits of the features that the kernel restores.
        unsafe {
            *vectors.add(at) = value[0];
            *vectors.add(at + 1) = value[1];
            if *vectors.add(58).cast::<u32>() == EXTENDED {
                let features = *vectors.add(59);
                *vectors.add(64) |= features & 6;
                if features & 4 != 0 {
                    *vectors.add(72 + 2 * number) = !value[0];
                    *vectors.add(73 + 2 * number) = !value[1];
                }
            }
        }
    }
}

thread_local! {
    /// The supervisor of the guest that this thread runs.
    static CURRENT: Cell<Option<*mut (dyn Supervisor + 'static)>> = const { Cell::new(None) };
    /// The registers of [`enter`].
    static HOST: Cell<[i64; 23]> = const { Cell::new([0; 23]) };
}

/// The seed of the code that runs, for the message of a crash.
pub(crate) static SEED: AtomicU64 = AtomicU64::new(0);

/// Signals of guests: faults, single steps, the signal that [`enter`] raises, and the signal of
/// [`Timer`].
const SIGNALS: [c_int; 7] = [
    libc::SIGALRM,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGUSR1,
];

/// Held by the thread that runs guests.
static ENTERED: Mutex<()> = Mutex::new(());

/// Runs a guest until its supervisor wants to leave. The supervisor sets the guest's registers at
/// [`Event::Enter`].
pub(crate) fn enter(supervisor: &mut dyn Supervisor) {
    const STACK_BYTES: usize = 1 << 20;
    let _entered = ENTERED.lock().unwrap_or_else(PoisonError::into_inner);
    thread_local! {
        static STACK: Cell<*mut u8> = const { Cell::new(ptr::null_mut()) };
    }
    if STACK.get().is_null() {
        let stack = Box::leak(vec![0_u8; STACK_BYTES].into_boxed_slice());
        STACK.set(stack.as_mut_ptr());
    }
    let stack = libc::stack_t {
        ss_sp: STACK.get().cast(),
        ss_flags: 0,
        ss_size: STACK_BYTES,
    };
    let mut before = libc::stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    let mut old = vec![];
    // SAFETY: the stack is never freed. The handler has the type that `SA_SIGINFO` needs.
    unsafe {
        libc::sigaltstack(&raw const stack, &raw mut before);
        let mut action: libc::sigaction = mem::zeroed();
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        for signal in SIGNALS {
            let mut former: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, &raw const action, &raw mut former);
            old.push((signal, former));
        }
    }
    let pointer: *mut (dyn Supervisor + '_) = supervisor;
    // SAFETY: the pointer is removed below, before the supervisor's borrow ends. Only the lifetime
    // of the trait object changes.
    CURRENT.set(Some(unsafe {
        mem::transmute::<*mut (dyn Supervisor + '_), *mut (dyn Supervisor + 'static)>(pointer)
    }));
    let timer = Timer::new();
    // SAFETY: the handler saves the registers here and puts them back when the guest is left. The
    // later calls restore the former actions and the former stack.
    unsafe {
        libc::raise(libc::SIGUSR1);
        CURRENT.set(None);
        drop(timer);
        for (signal, former) in &old {
            libc::sigaction(*signal, former, ptr::null_mut());
        }
        libc::sigaltstack(&raw const before, ptr::null_mut());
    }
}

/// Sends a signal to this thread after a guest has used much processor time, because the guest may
/// never end.
struct Timer(libc::timer_t);

impl Timer {
    fn new() -> Self {
        const SECONDS: libc::time_t = 2;
        let seconds = libc::timespec {
            tv_sec: SECONDS,
            tv_nsec: 0,
        };
        let time = libc::itimerspec {
            it_interval: seconds,
            it_value: seconds,
        };
        // SAFETY: an event of zeros is valid. The kernel reads the event and the time, and writes
        // the timer, during these calls.
        unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = ptr::null_mut();
            let clock = libc::CLOCK_THREAD_CPUTIME_ID;
            let created = libc::timer_create(clock, &raw mut event, &raw mut timer);
            assert_eq!(created, 0, "{}", std::io::Error::last_os_error());
            libc::timer_settime(timer, 0, &raw const time, ptr::null_mut());
            Self(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: `new` has created the timer.
        unsafe { libc::timer_delete(self.0) };
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a context to a handler with `SA_SIGINFO`.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    // A fault of the handler itself finds no supervisor.
    let Some(supervisor) = CURRENT.take() else {
        match signal {
            // The time has passed outside of the guest; the next signal follows.
            libc::SIGALRM => return,
            signal => crash(signal),
        }
    };
    // SAFETY: the kernel passes `info`, too. This record has a fault's address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    // Positive codes other than `SI_KERNEL` come with an address.
    const SI_KERNEL: c_int = 0x80;
    let address = (code > 0 && code != SI_KERNEL).then_some(address);
    let event = match signal {
        libc::SIGUSR1 => {
            HOST.set(context.uc_mcontext.gregs);
            Event::Enter
        }
        libc::SIGTRAP => Event::Step,
        signal => Event::Fault(signal, address),
    };
    // SAFETY: `enter` set the pointer, and still borrows the supervisor. The guest is interrupted,
    // so nothing else uses the supervisor.
    let next = unsafe { (*supervisor).event(event, &mut Registers(context)) };
    if next == Next::Leave {
        context.uc_mcontext.gregs = HOST.get();
    }
    CURRENT.set(Some(supervisor));
}

/// Ends the process after a signal that no guest has caused, or an error of the supervisor.
fn crash(signal: c_int) -> ! {
    let seed = SEED.load(Ordering::Relaxed);
    eprintln!("signal {signal} while no guest runs; seed {seed}");
    std::process::abort();
}
