//! How guests ended, from the errors of the runtime.

use super::engine::End;
use pirn_runtime::CallError;

/// How a guest ended whose call did not return.
pub(crate) fn core_end(error: CallError) -> End {
    match error {
        CallError::Trap(trap) => End::Trap(trap.to_string()),
        CallError::Exception(exception) => End::Trap(exception.to_string()),
        CallError::Host(error) => End::Trap(error.to_string()),
        CallError::Deadline(_) | CallError::CpuBudget(_) => End::Deadline,
        CallError::Panic(panic) => End::Panic(panic.to_string()),
        error => End::System(error.to_string()),
    }
}
