//! The page-fault hook: fills or unprotects a page of a guest's memory when the signal handler
//! finds that an instruction touched the page.
//!
//! A region that fills memory on demand sets the hook before an instance can reach the memory. So
//! the handler knows nothing about regions and their reset strategies.

use once_cell::race::OnceBox;

/// Result of a fault in a slot's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    /// The page is present: the instruction can run again.
    There,
    /// The page cannot be provided: the system has no memory, or too many attempts in a row had no
    /// effect.
    Exhausted,
    /// The address is not in memory that is filled on demand, or is past the memory's current size,
    /// or this process is a fork.
    Elsewhere,
}

/// Makes the page at an address present, and writable if the instruction writes (`write`).
///
/// A hook is async-signal-safe: it takes no lock, allocates nothing, and keeps `errno`.
///
/// # Safety
///
/// Only the handler of the fault may call the hook, on the thread that touched the address.
pub(crate) type Hook = unsafe fn(address: usize, write: bool) -> Touched;

static HOOK: OnceBox<Hook> = OnceBox::new();

/// Sets the hook of the process. Only the first call has an effect. Every call must give the same
/// function, which must satisfy the contract of [`Hook`].
pub(crate) fn set_hook(hook: Hook) {
    HOOK.get_or_init(|| Box::new(hook));
}

/// The hook, if memory that is filled on demand was ever mapped. Async-signal-safe: the function
/// makes one load.
pub(super) fn hook() -> Option<Hook> {
    HOOK.get().copied()
}
