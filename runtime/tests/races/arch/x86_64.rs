//! On x86_64 the processor's trap flag raises SIGTRAP after each instruction of the thread (Intel
//! SDM, volume 3, 18.3.1.4). This covers guest code, the runtime and the system's libraries.

use core::arch::asm;

/// Stepped instructions of several iterations of a loop.
pub(crate) const ITERATIONS: u32 = 300;
/// Whether the runtime's own code is stepped too: before the guest starts, after it ends, and while
/// a host function runs.
pub(crate) const EVERYWHERE: bool = true;

extern "C" fn trapped(_: i32) {
    crate::races::instant();
}

/// Makes each stepped instruction call [`crate::races::instant`].
pub(crate) fn install() {
    let handler: extern "C" fn(i32) = trapped;
    super::handle(libc::SIGTRAP, handler as *const () as usize, 0);
}

/// Runs a function step by step.
pub(crate) fn stepped<R>(run: impl FnOnce() -> R) -> R {
    // SAFETY: sets and clears the trap flag of this thread, whose signal has a handler.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = run();
    // SAFETY: clears the trap flag that this function set for this thread.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    result
}
