//! Signals: installs the handler, keeps the handlers that were installed before, and gives threads
//! alternate stacks.
//!
//! System calls: `sigaction` ten times for the first region, five times for each further region,
//! and once for each signal that stops a guest. Also `rt_sigprocmask`, `sigaltstack`, `mmap` and
//! `mprotect` once for each thread that runs guests. Sources: sigaction(2), sigaltstack(2),
//! signal(7).
//!
//! Other runtimes install handlers, too, and some later handlers do not forward our signals. Go
//! takes SIGURG for itself, and HotSpot does not ask for an alternate stack. So the runtime
//! installs its handler again when a region is made, and the handler of [`INTERRUPT`] again when it
//! sends that signal. The runtime records the handler that it replaces, and calls that handler
//! next:
//!
//! ```text
//!   kernel ─▶ ours ─▶ found last ─▶ ... ─▶ found first ─▶ default action
//!               ▲          │
//!               └──────────┘ if a handler forwards to ours, ours calls the next
//! ```
//!
//! A found action, `siginfo_t` and `ucontext_t` have the types of libc. nix has no types for the
//! latter two, and nix's type of an action hides the flags that nix does not name.
//!
//! # Safety
//!
//! Owns three facts. The installed handler does only what signal-safety(7) allows: it takes no
//! lock, allocates nothing, and calls the recorded handlers. The list of recorded handlers is never
//! freed. An alternate stack is unmapped only after the kernel was told to forget the stack.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicPtr};
use core::{mem, ptr};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::unistd::getpid;
use once_cell::race::OnceBox;
use std::io;

/// The signal that interrupts a thread whose guest must stop. By default, the kernel ignores this
/// signal, so a late signal does no harm.
pub(crate) const INTERRUPT: Signal = Signal::SIGURG;

/// The signals by which the kernel reports a fault, and [`INTERRUPT`].
const SIGNALS: [Signal; 5] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    INTERRUPT,
];

/// A handler in the form of `SA_SIGINFO`.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// The runtime's handler.
static HANDLER: OnceBox<Handler> = OnceBox::new();

/// Handlers that were found in the place of our handler, for each of [`SIGNALS`]. The handler that
/// was found last is first.
static BEHIND: [AtomicPtr<Behind>; SIGNALS.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SIGNALS.len()];

/// A handler that was found. Never freed, because a signal handler may be using this entry.
///
/// Accesses of both flags are relaxed. The flags are written before sigaction(2) installs our
/// handler. So our handler reads the written flags, because the kernel changes and reads an action
/// under one lock. Later changes are single steps on which no other data depends.
struct Behind {
    action: libc::sigaction,
    /// Whether a handler with `SA_RESETHAND`, which may be called only once, was called.
    spent: AtomicBool,
    /// Whether the handler was found a second time. The handler may then regard our handler as its
    /// previous handler.
    again: AtomicBool,
    next: *const Behind,
}

/// Installs the process's handler, or installs it again after another handler was installed.
///
/// # Errors
///
/// The error of sigaction(2).
pub(crate) fn install(handler: Handler) -> io::Result<()> {
    let handler = *HANDLER.get_or_init(|| Box::new(handler));
    (0..SIGNALS.len()).try_for_each(|at| put_in_front(at, handler))
}

/// Installs our handler of a signal, unless it is installed. Records the handler that our handler
/// replaces.
///
/// Takes no lock, because a process may fork in the meantime.
fn put_in_front(at: usize, handler: Handler) -> io::Result<()> {
    loop {
        let found = action(SIGNALS[at])?;
        if found.sa_sigaction == handler as *const () as usize {
            return Ok(());
        }
        if !put_behind(at, found) {
            continue;
        }
        // The mask of the previous handler stays, with `INTERRUPT` added. This signal during the
        // handler of a fault would not interrupt guest code and would be lost. A blocked signal
        // waits.
        // SAFETY: the kernel returned this set.
        let mut mask = unsafe { SigSet::from_sigset_t_unchecked(found.sa_mask) };
        mask.add(INTERRUPT);
        let flags = SaFlags::SA_ONSTACK | SaFlags::SA_RESTART;
        let ours = SigAction::new(SigHandler::SigAction(handler), flags, mask);
        // SAFETY: the handler does only what signal-safety(7) allows.
        unsafe { sigaction(SIGNALS[at], &ours)? };
        return Ok(());
    }
}

/// Records a handler as a previous handler, before our handler can run. Returns whether no other
/// thread has changed the list meanwhile.
fn put_behind(at: usize, found: libc::sigaction) -> bool {
    let first = BEHIND[at].load(Acquire);
    // SAFETY: the pointer is null, or points to an entry that is never freed.
    if let Some(first) = unsafe { first.as_ref() }
        && first.action.sa_sigaction == found.sa_sigaction
        && first.action.sa_flags == found.sa_flags
    {
        // The found handler is the first entry's handler again, or another thread is about to
        // install our handler.
        first.spent.store(false, Relaxed);
        first.again.store(true, Relaxed);
        return true;
    }
    let new = Box::into_raw(Box::new(Behind {
        action: found,
        spent: AtomicBool::new(false),
        again: AtomicBool::new(false),
        next: first,
    }));
    let listed = BEHIND[at].compare_exchange(first, new, AcqRel, Relaxed);
    if listed.is_err() {
        // SAFETY: the entry was made above, and no other thread knows it.
        drop(unsafe { Box::from_raw(new) });
    }
    listed.is_ok()
}

/// Whether `handler` handles a signal.
///
/// # Errors
///
/// The error of sigaction(2).
pub(crate) fn is_handled(signal: Signal, handler: Handler) -> io::Result<bool> {
    Ok(action(signal)?.sa_sigaction == handler as *const () as usize)
}

/// Returns a signal's action. nix returns an action only when it sets another action.
fn action(signal: Signal) -> nix::Result<libc::sigaction> {
    // SAFETY: all zeros is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: `action` is valid, and a null pointer changes nothing.
    let asked = unsafe { libc::sigaction(signal as i32, ptr::null(), &raw mut action) };
    Errno::result(asked).map(|_| action)
}

/// Whether a process sent the signal, by kill(2) or a similar call. Then no fault caused the
/// signal.
pub(crate) fn was_sent(info: &libc::siginfo_t) -> bool {
    info.si_code <= 0
}

/// Interrupts a thread of this process by [`INTERRUPT`]. Returns whether the thread exists.
pub(crate) fn interrupt(thread: i32) -> bool {
    if let Some(handler) = HANDLER.get() {
        // The call cannot fail with these arguments. If it failed, the signal would go to the
        // installed handler.
        let _ = put_in_front(SIGNALS.len() - 1, *handler);
    }
    // nix lacks rt_tgsigqueueinfo(2), and has no type for its argument.
    // SAFETY: all zeros is a valid `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    info.si_signo = INTERRUPT as i32;
    info.si_code = libc::SI_QUEUE;
    // SAFETY: `info` is valid and has the layout of `Queued`. If the signal queue is full, the
    // signal arrives without `info` (kernel/signal.c, "silent loss of information").
    unsafe {
        let value = (&raw mut info).cast::<Queued>();
        (*value).value = MARK.as_ptr() as usize;
        let process = getpid().as_raw();
        let call = libc::SYS_rt_tgsigqueueinfo;
        libc::syscall(call, process, thread, INTERRUPT as i32, &raw const info) == 0
    }
}

/// The address of this byte marks a signal as sent by [`interrupt`], and an alternate stack as made
/// by this file.
static MARK: [u8; 1] = [0];

/// The layout of a siginfo_t of a queued signal (sigaction(2), rt_sigqueueinfo(2)).
#[repr(C)]
struct Queued {
    signo: i32,
    errno: i32,
    code: i32,
    _pad: i32,
    pid: i32,
    uid: u32,
    value: usize,
}

/// Whether [`interrupt`] sent the signal.
pub(crate) fn is_interrupt(info: &libc::siginfo_t) -> bool {
    if info.si_code != libc::SI_QUEUE {
        return false;
    }
    // SAFETY: a queued signal has a value.
    let value = unsafe { info.si_value() };
    ptr::eq(value.sival_ptr.cast(), MARK.as_ptr())
}

/// Blocks all signals on this thread.
pub(crate) fn block_all() {
    // The call cannot fail with these arguments.
    let _ = SigSet::all().thread_block();
}

/// Forwards a signal that is not ours, or not ours alone, to the handler that was installed before
/// our handler.
///
/// If there was no such handler, this function restores the default action and returns. The
/// faulting instruction then runs again. The process dies as it would without this runtime, with a
/// core dump that shows the fault.
///
/// # Safety
///
/// Only the installed handler may call this function, with its own arguments.
pub(crate) unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(at) = SIGNALS.iter().position(|s| *s as i32 == signal) else {
        return;
    };
    // SAFETY: the pointer is null, or points to an entry that is never freed.
    let first = unsafe { BEHIND[at].load(Acquire).as_ref() };
    // A handler that was installed before our handler does not forward to our handler. Then no
    // thread-local variable is used, because on this thread the variable may not be allocated yet:
    // see `is_prepared`.
    let later = |behind: &&Behind| !behind.next.is_null() || behind.again.load(Relaxed);
    let Some(first) = first.filter(later) else {
        // SAFETY: the caller is the installed handler and passes its own arguments.
        return unsafe { call(first, SIGNALS[at], info, context) };
    };
    let outer = PASSING.get();
    let here = (&raw const outer).addr();
    // If a handler was left by longjmp(3), `PASSING` still holds its values. The next signal's
    // frame is no deeper on the stack than the frame of that handler.
    let same = (outer.signal, outer.info) == (signal, info);
    let comes_back = same && here < outer.frame;
    // SAFETY: each pointer is null, or points to an entry that is never freed.
    let next = unsafe { outer.behind.as_ref().and_then(|at| at.next.as_ref()) };
    let behind = if comes_back { next } else { Some(first) };
    PASSING.set(Passing {
        signal,
        info,
        frame: here,
        behind: behind.map_or(ptr::null(), ptr::from_ref),
    });
    // SAFETY: the caller is the installed handler and passes its own arguments.
    unsafe { call(behind, SIGNALS[at], info, context) };
    PASSING.set(outer);
}

/// A signal that is being forwarded.
#[derive(Clone, Copy)]
struct Passing {
    signal: i32,
    info: *mut libc::siginfo_t,
    /// Stack address at which the forwarding began.
    frame: usize,
    /// The handler to which the signal is forwarded.
    behind: *const Behind,
}

thread_local! {
    /// The innermost forwarding on this thread.
    static PASSING: Cell<Passing> = const {
        Cell::new(Passing {
            signal: 0,
            info: ptr::null_mut(),
            frame: 0,
            behind: ptr::null(),
        })
    };
}

/// Handles the signal as the kernel would if the signal's action were `behind`, or else the default
/// action.
///
/// # Safety
///
/// As for [`pass_on`].
unsafe fn call(
    behind: Option<&Behind>,
    signal: Signal,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: `info` is the argument of the running handler.
    let was_sent = was_sent(unsafe { &*info });
    let (handler, flags) = match behind {
        Some(behind) => {
            let flags = behind.action.sa_flags;
            let spent = flags & libc::SA_RESETHAND != 0 && behind.spent.swap(true, Relaxed);
            let handler = behind.action.sa_sigaction;
            (if spent { libc::SIG_DFL } else { handler }, flags)
        }
        None => (libc::SIG_DFL, 0),
    };
    match handler {
        // Both actions ignore the signal (signal(7)).
        libc::SIG_DFL | libc::SIG_IGN if signal == INTERRUPT => {}
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // A fault cannot be ignored: the kernel kills the process in either case. If this call
            // fails, a signal handler has no remedy, and the signal comes again.
            let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
            // SAFETY: the default action calls no function.
            let _ = unsafe { sigaction(signal, &default) };
            if was_sent {
                // The signal was sent, so no instruction will cause the signal again.
                let _ = raise(signal);
            }
        }
        handler => {
            if flags & libc::SA_NODEFER != 0 {
                // `SA_NODEFER`: the signal is not blocked while its handler runs. The call cannot
                // fail with these arguments.
                let _ = SigSet::from(signal).thread_unblock();
            }
            if flags & libc::SA_SIGINFO != 0 {
                // SAFETY: an action with SA_SIGINFO that is not the default holds a function of
                // this type (sigaction(2)). The kernel passed the arguments.
                let handler: Handler = unsafe { mem::transmute(handler) };
                handler(signal as i32, info, context);
            } else {
                // SAFETY: an action without SA_SIGINFO that is not the default holds a function of
                // this type.
                let handler: extern "C" fn(i32) = unsafe { mem::transmute(handler) };
                handler(signal as i32);
            }
        }
    }
}

/// Size of an alternate stack, in bytes. The kernel alone may write `AT_MINSIGSTKSZ` bytes to the
/// stack (11,952 with AVX-512, more than `SIGSTKSZ`). The handlers that get forwarded signals need
/// room as well.
const ALTERNATE_STACK_BYTES: usize = 64 << 10;
/// Maximum size of an alternate stack that replaces a large stack. Such a stack uses address space,
/// but no memory until handlers use the stack.
const ALTERNATE_STACK_BYTES_MAX: usize = 1 << 20;

/// Gives this thread an alternate stack of at least [`ALTERNATE_STACK_BYTES`], so that the handler
/// can run when the guest's stack is exhausted. Also unblocks the signals of faults: the kernel
/// kills a process whose fault raises a blocked signal.
///
/// # Errors
///
/// The error of mmap(2), sigaltstack(2) or pthread_sigmask(3).
#[inline]
pub(crate) fn prepare_thread() -> io::Result<()> {
    if READY.get() {
        Ok(())
    } else {
        prepare_thread_first()
    }
}

#[cold]
fn prepare_thread_first() -> io::Result<()> {
    provide_alternate_stack()?;
    unblock()?;
    READY.set(true);
    Ok(())
}

fn unblock() -> io::Result<()> {
    let set: SigSet = SIGNALS.into_iter().collect();
    // nix mistakes the error number that pthread_sigmask(3) returns for success.
    // SAFETY: the set is valid.
    match unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ref(), ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

thread_local! {
    /// Whether this thread is prepared to run guests.
    static READY: Cell<bool> = const { Cell::new(false) };
    /// The alternate stack that this thread was given.
    static OWNED: Cell<Option<AlternateStack>> = const { Cell::new(None) };
}

/// Gives this thread an alternate stack of ours. Replaces even a large stack: the mark in our
/// stacks tells threads that run guests from other threads.
#[cold]
fn provide_alternate_stack() -> io::Result<()> {
    let stack = AlternateStack::new(alternate_stack(None)?)?;
    OWNED.with(|owned| owned.set(Some(stack)));
    Ok(())
}

/// Whether a signal came to a thread that has an alternate stack of ours. On any other thread, the
/// thread-local variables may not be allocated yet, and a handler cannot allocate them. These
/// variables are allocated on first use if this library was loaded by dlopen(3).
pub(crate) fn is_prepared(context: &libc::ucontext_t) -> bool {
    let stack = context.uc_stack;
    if stack.ss_flags & libc::SS_DISABLE != 0 || stack.ss_size < ALTERNATE_STACK_BYTES {
        return false;
    }
    // SAFETY: `ss_sp` is the address of the lowest word of the thread's alternate stack
    // (sigaltstack(2)), aligned or not.
    let lowest = unsafe { stack.ss_sp.cast::<*const u8>().read_unaligned() };
    ptr::eq(lowest, MARK.as_ptr())
}

/// Returns this thread's alternate stack, and replaces the stack if `new` is given. nix lacks
/// sigaltstack(2).
fn alternate_stack(new: Option<&libc::stack_t>) -> nix::Result<libc::stack_t> {
    // SAFETY: all zeros is a valid `stack_t`.
    let mut old: libc::stack_t = unsafe { mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or valid, `old` is valid.
    Errno::result(unsafe { libc::sigaltstack(new, &raw mut old) }).map(|_| old)
}

/// An alternate stack that this library gave a thread, with a guard page below it.
struct AlternateStack {
    mapping: NonNull<c_void>,
    bytes: usize,
    previous: libc::stack_t,
}

impl AlternateStack {
    /// Makes an alternate stack for this thread, at least as large as `previous`, up to
    /// [`ALTERNATE_STACK_BYTES_MAX`].
    fn new(previous: libc::stack_t) -> nix::Result<Self> {
        let guard = super::page_bytes();
        let like = previous
            .ss_size
            .clamp(ALTERNATE_STACK_BYTES, ALTERNATE_STACK_BYTES_MAX);
        let size = like.next_multiple_of(guard);
        let bytes = guard + size;
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: this makes a fresh anonymous mapping at an address that the kernel chooses.
        let mapping = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE)? };
        // `stack` owns the mapping from here on: a failure below unmaps it.
        let stack = Self {
            mapping,
            bytes,
            previous,
        };
        // SAFETY: the range is the first page of the mapping just made.
        unsafe { mprotect(mapping, guard, ProtFlags::PROT_NONE)? };
        let lowest = mapping.as_ptr().wrapping_byte_add(guard);
        // SAFETY: the address is the start of the mapping's second page, which is writable and
        // aligned.
        unsafe { lowest.cast::<*const u8>().write(MARK.as_ptr()) };
        alternate_stack(Some(&libc::stack_t {
            ss_sp: lowest,
            ss_flags: 0,
            ss_size: size,
        }))?;
        Ok(stack)
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let ours = |stack: libc::stack_t| {
            let start = self.mapping.as_ptr() as usize;
            (start..start + self.bytes).contains(&(stack.ss_sp as usize))
        };
        // Other code may have replaced the stack since. Then that stack stays.
        match alternate_stack(None) {
            Ok(current) if ours(current) && alternate_stack(Some(&self.previous)).is_err() => {
                return;
            }
            Ok(_) => {}
            Err(_) => return,
        }
        // SAFETY: `new` made the mapping, and the kernel no longer uses it as a stack. A failure to
        // unmap has no remedy.
        let _ = unsafe { munmap(self.mapping, self.bytes) };
    }
}
