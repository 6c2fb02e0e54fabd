//! x86_64: the processor's trap flag raises SIGTRAP behind each instruction of the thread (Intel SDM,
//! volume 3, 18.3.1.4), in guest code, in the runtime's and in the system's library.

use core::arch::asm;

/// How many instructions see the way into a loop and several times around it.
pub(crate) const MANY: u32 = 900;
/// Whether the runtime's own code is stepped, too: the guest has not begun there, is done, or is in a host
/// function.
pub(crate) const EVERYWHERE: bool = true;

extern "C" fn trapped(_: i32) {
    crate::instant();
}

/// Has [`crate::instant`] be called at each instruction that is stepped.
pub(crate) fn install() {
    let handler: extern "C" fn(i32) = trapped;
    super::handle(libc::SIGTRAP, handler as *const () as usize, 0);
}

/// Runs something step by step.
pub(crate) fn stepped<R>(run: impl FnOnce() -> R) -> R {
    // SAFETY: sets and clears the trap flag of this thread, whose signal has a handler.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = run();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    result
}
