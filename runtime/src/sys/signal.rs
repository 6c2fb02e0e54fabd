//! Signals: the handler's installation, who handled them before, and the threads' alternate stacks.
//!
//! System calls: `sigaction` ten times for the first region, five times for each other, and once for each
//! signal that stops a guest; `rt_sigprocmask`, `sigaltstack`, `mmap` and `mprotect` once a thread that runs
//! guests. Sources: sigaction(2), sigaltstack(2), signal(7).
//!
//! Other runtimes install handlers, too, and not all of those that come later pass on what is ours: Go
//! takes SIGURG for itself, HotSpot asks for no alternate stack. So our handler is put in front again when a
//! region is made, and that of [`POKE`] when one is sent; whoever was found there is called next:
//!
//! ```text
//!   kernel ─▶ ours ─▶ found last ─▶ ... ─▶ found first ─▶ default action
//!               ▲          │
//!               └──────────┘ who passes on to ours is behind ours, and so meets the next
//! ```
//!
//! # Safety
//!
//! Owns three facts. The handler that is installed only does what signal-safety(7) allows: it reads
//! memory that is constant while a guest runs, and calls the handlers that were there before. These are
//! listed for ever. And an alternate stack is unmapped only after the kernel was told to forget it.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicPtr};
use core::{mem, ptr};
use once_cell::race::OnceBox;
use std::io;

/// The signal that interrupts a thread which runs a guest that is to be stopped. Its default action is
/// to be ignored, so none that comes late does harm.
pub(crate) const POKE: i32 = libc::SIGURG;

/// The signals by which the processor tells of a fault, and [`POKE`].
const SIGNALS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    POKE,
];

/// A handler in the form of `SA_SIGINFO`.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Ours.
static HANDLER: OnceBox<Handler> = OnceBox::new();

/// Whom we found where our handler was to be, for each of [`SIGNALS`]; the last first.
static BEHIND: [AtomicPtr<Behind>; SIGNALS.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SIGNALS.len()];

/// Somebody whom we found there. Never freed: a handler may be at it.
///
/// Relaxed, both flags: written before sigaction(2) puts our handler in front, and so before it reads them, because
/// the kernel does both under one lock. Later changes are single steps, which nothing else hangs on.
struct Behind {
    action: libc::sigaction,
    /// Whether it was called, which somebody with `SA_RESETHAND` is once.
    spent: AtomicBool,
    /// Whether it was found a second time: it may have taken us for whom it passes on to.
    again: AtomicBool,
    next: *const Behind,
}

/// Installs the process's handler, or puts it in front again.
///
/// # Errors
///
/// What sigaction(2) gives.
pub(crate) fn install(handler: Handler) -> io::Result<()> {
    let handler = *HANDLER.get_or_init(|| Box::new(handler));
    (0..SIGNALS.len()).try_for_each(|at| put_in_front(at, handler))
}

/// Puts our handler in front of whoever handles a signal, unless it is.
///
/// Without a lock: a process may fork meanwhile.
fn put_in_front(at: usize, handler: Handler) -> io::Result<()> {
    loop {
        let found = action(SIGNALS[at], None)?;
        if found.sa_sigaction == handler as *const () as usize {
            return Ok(());
        }
        if !put_behind(at, found) {
            continue;
        }
        // SAFETY: all-zero is a valid sigaction.
        let mut ours: libc::sigaction = unsafe { mem::zeroed() };
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // The mask of the previous owner stays. A poke that met the handler of a fault would find no
        // guest's code and be lost: it waits.
        ours.sa_mask = found.sa_mask;
        // SAFETY: a set that the kernel gave.
        unsafe { libc::sigaddset(&raw mut ours.sa_mask, POKE) };
        action(SIGNALS[at], Some(&ours))?;
        return Ok(());
    }
}

/// Lists somebody as behind us, before our handler can run; tells whether nobody else has changed the list
/// meanwhile.
fn put_behind(at: usize, found: libc::sigaction) -> bool {
    let first = BEHIND[at].load(Acquire);
    // SAFETY: null or never freed.
    if let Some(first) = unsafe { first.as_ref() }
        && first.action.sa_sigaction == found.sa_sigaction
        && first.action.sa_flags == found.sa_flags
    {
        // The same again, or another thread is about to put us in front of it.
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
        // SAFETY: made above, and nobody else knows it.
        drop(unsafe { Box::from_raw(new) });
    }
    listed.is_ok()
}

/// Whether a signal is handled by this handler.
///
/// # Errors
///
/// What sigaction(2) gives.
pub(crate) fn is_handled(signal: i32, handler: Handler) -> io::Result<bool> {
    Ok(action(signal, None)?.sa_sigaction == handler as *const () as usize)
}

/// Reads and, if asked, replaces a signal's action.
fn action(signal: i32, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: all-zero is a valid sigaction.
    let mut old: libc::sigaction = unsafe { mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or valid, `old` is valid.
    match unsafe { libc::sigaction(signal, new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a process sent the signal, by kill(2) and its like, and no fault did.
pub(crate) fn was_sent(info: &libc::siginfo_t) -> bool {
    info.si_code <= 0
}

/// Interrupts a thread of this process by [`POKE`]; tells whether there is that thread.
pub(crate) fn poke(thread: i32) -> bool {
    if let Some(handler) = HANDLER.get() {
        // It cannot fail with these arguments. If it did, the signal would go to whoever is there.
        let _ = put_in_front(SIGNALS.len() - 1, *handler);
    }
    // SAFETY: all-zero is a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    info.si_signo = POKE;
    info.si_code = libc::SI_QUEUE;
    // SAFETY: `info` is valid, and has the layout of `Queued`. Where the queue of signals is full, the
    // signal comes without it (kernel/signal.c, "silent loss of information").
    unsafe {
        let value = (&raw mut info).cast::<Queued>();
        (*value).value = MARK.as_ptr() as usize;
        let process = libc::getpid();
        let call = libc::SYS_rt_tgsigqueueinfo;
        libc::syscall(call, process, thread, POKE, &raw const info) == 0
    }
}

/// Its address marks a signal as sent by [`poke`], and an alternate stack as ours.
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

/// Whether a [`POKE`] was sent by [`poke`].
pub(crate) fn is_poke(info: &libc::siginfo_t) -> bool {
    if info.si_code != libc::SI_QUEUE {
        return false;
    }
    // SAFETY: a queued signal has a value.
    let value = unsafe { info.si_value() };
    ptr::eq(value.sival_ptr.cast(), MARK.as_ptr())
}

/// Blocks all signals on this thread.
pub(crate) fn block_all() {
    // SAFETY: a set that is filled before it is used. It cannot fail with these arguments.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, ptr::null_mut());
    }
}

/// Hands a signal that is not ours, or not ours alone, to whoever handled it before us.
///
/// Where that was nobody, the default action is put back and the handler returns: the faulting
/// instruction runs again, and the process dies as it would have without us, with a core dump that
/// shows the fault.
///
/// # Safety
///
/// Must be called by the installed handler with the handler's own arguments.
pub(crate) unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(at) = SIGNALS.iter().position(|s| *s == signal) else {
        return;
    };
    // SAFETY: null or never freed.
    let first = unsafe { BEHIND[at].load(Acquire).as_ref() };
    // Somebody who was there before us does not pass on to us. Then nothing of the thread's own is used,
    // which may not be there yet: see `is_prepared`.
    let later = |behind: &&Behind| !behind.next.is_null() || behind.again.load(Relaxed);
    let Some(first) = first.filter(later) else {
        // SAFETY: the caller's promise.
        return unsafe { call(first, signal, info, context) };
    };
    let outer = PASSING.get();
    let here = (&raw const outer).addr();
    // Who left a handler by longjmp(3) left the mark there, too; the next signal's frame is no deeper.
    let same = (outer.signal, outer.info) == (signal, info);
    let comes_back = same && here < outer.frame;
    // SAFETY: null or never freed, both of them.
    let next = unsafe { outer.behind.as_ref().and_then(|at| at.next.as_ref()) };
    let behind = if comes_back { next } else { Some(first) };
    PASSING.set(Passing {
        signal,
        info,
        frame: here,
        behind: behind.map_or(ptr::null(), ptr::from_ref),
    });
    // SAFETY: the caller's promise.
    unsafe { call(behind, signal, info, context) };
    PASSING.set(outer);
}

/// A signal that is being passed on.
#[derive(Clone, Copy)]
struct Passing {
    signal: i32,
    info: *mut libc::siginfo_t,
    /// Where the stack was.
    frame: usize,
    /// To whom.
    behind: *const Behind,
}

thread_local! {
    /// The innermost on this thread.
    static PASSING: Cell<Passing> = const {
        Cell::new(Passing {
            signal: 0,
            info: ptr::null_mut(),
            frame: 0,
            behind: ptr::null(),
        })
    };
}

/// Does with a signal what the kernel would do with it if its action were this, or the default action.
///
/// # Safety
///
/// As for [`pass_on`].
unsafe fn call(
    behind: Option<&Behind>,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: `info` is the handler's own.
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
        // Ignored either way (signal(7)).
        libc::SIG_DFL | libc::SIG_IGN if signal == POKE => {}
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // A fault cannot be ignored: the kernel kills either way. Nothing can be done in a
            // signal handler if this fails; the signal comes again then.
            // SAFETY: all-zero is a valid sigaction: the default action.
            let _ = action(signal, Some(&unsafe { mem::zeroed() }));
            if was_sent {
                // No instruction will run again that sends it once more.
                // SAFETY: raise(3) is async-signal-safe.
                unsafe { libc::raise(signal) };
            }
        }
        handler => {
            if flags & libc::SA_NODEFER != 0 {
                unblock_only(signal);
            }
            if flags & libc::SA_SIGINFO != 0 {
                // SAFETY: a non-default action with SA_SIGINFO holds a function of this type,
                // sigaction(2); its arguments are those that the kernel gave.
                let handler: Handler = unsafe { mem::transmute(handler) };
                handler(signal, info, context);
            } else {
                // SAFETY: a non-default action without SA_SIGINFO holds a function of this type.
                let handler: extern "C" fn(i32) = unsafe { mem::transmute(handler) };
                handler(signal);
            }
        }
    }
}

/// Lets a signal come to this thread while its handler runs, as `SA_NODEFER` asks.
fn unblock_only(signal: i32) {
    // SAFETY: a set that is emptied before it is used; pthread_sigmask(3) is async-signal-safe. It
    // cannot fail with these arguments.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

/// Bytes of an alternate stack. The kernel alone may write `AT_MINSIGSTKSZ` there (11,952 with
/// AVX-512, more than `SIGSTKSZ`), and the handlers that we pass signals on to need room as well.
const ALTERNATE_STACK_BYTES: usize = 64 << 10;
/// Bytes of one that takes the place of a large one: addresses, and no memory until handlers use it.
const ALTERNATE_STACK_BYTES_MAX: usize = 1 << 20;

/// Gives this thread an alternate stack of at least [`ALTERNATE_STACK_BYTES`], so that the handler can run
/// when the guest's stack is used up, and unblocks the signals of faults: of one that is blocked the process
/// dies.
///
/// # Errors
///
/// What mmap(2), sigaltstack(2) or pthread_sigmask(3) gives.
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
    // SAFETY: a set that is emptied before it is used.
    let unblocked = unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in SIGNALS {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut())
    };
    match unblocked {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

thread_local! {
    /// Whether this thread was prepared.
    static READY: Cell<bool> = const { Cell::new(false) };
    /// The one that it was given.
    static OWNED: Cell<Option<AlternateStack>> = const { Cell::new(None) };
}

/// Also where there is a large one: by ours, threads that run guests are told from others.
#[cold]
fn provide_alternate_stack() -> io::Result<()> {
    let stack = AlternateStack::new(alternate_stack(None)?)?;
    OWNED.with(|owned| owned.set(Some(stack)));
    Ok(())
}

/// Whether a signal came to a thread that has an alternate stack of ours. In one that has none, what is the
/// thread's own may not be there yet, and a handler cannot make it: it is allocated when it is first
/// used, if this library was loaded by dlopen(3).
pub(crate) fn is_prepared(context: &libc::ucontext_t) -> bool {
    let stack = context.uc_stack;
    if stack.ss_flags & libc::SS_DISABLE != 0 || stack.ss_size < ALTERNATE_STACK_BYTES {
        return false;
    }
    // SAFETY: the lowest word of the thread's alternate stack (sigaltstack(2)), aligned or not.
    let lowest = unsafe { stack.ss_sp.cast::<*const u8>().read_unaligned() };
    ptr::eq(lowest, MARK.as_ptr())
}

/// Reads and, if asked, replaces this thread's alternate stack.
fn alternate_stack(new: Option<&libc::stack_t>) -> io::Result<libc::stack_t> {
    // SAFETY: all-zero is a valid stack_t.
    let mut old: libc::stack_t = unsafe { mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or valid, `old` is valid.
    match unsafe { libc::sigaltstack(new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An alternate stack that this library gave a thread, with a guard page below it.
struct AlternateStack {
    mapping: *mut libc::c_void,
    bytes: usize,
    previous: libc::stack_t,
}

impl AlternateStack {
    /// One for this thread, no smaller than the one that it has, up to [`ALTERNATE_STACK_BYTES_MAX`].
    fn new(previous: libc::stack_t) -> io::Result<Self> {
        let guard = super::page_bytes();
        let like = previous
            .ss_size
            .clamp(ALTERNATE_STACK_BYTES, ALTERNATE_STACK_BYTES_MAX);
        let size = like.next_multiple_of(guard);
        let bytes = guard + size;
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Owned from here on: a failure below unmaps it.
        let stack = Self {
            mapping,
            bytes,
            previous,
        };
        // SAFETY: the first page of the mapping just made.
        if unsafe { libc::mprotect(mapping, guard, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let lowest = mapping.wrapping_byte_add(guard);
        // SAFETY: of the same mapping, and aligned as a page is.
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
            let start = self.mapping as usize;
            (start..start + self.bytes).contains(&(stack.ss_sp as usize))
        };
        // Someone may have replaced it since; then theirs stays.
        match alternate_stack(None) {
            Ok(current) if ours(current) && alternate_stack(Some(&self.previous)).is_err() => {
                return;
            }
            Ok(_) => {}
            Err(_) => return,
        }
        // SAFETY: the mapping made in `new`; the kernel no longer knows it as a stack. Unmapping what
        // we mapped cannot fail in a way that we could mend.
        unsafe { libc::munmap(self.mapping, self.bytes) };
    }
}
