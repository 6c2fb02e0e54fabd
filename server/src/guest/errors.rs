//! Converts errors of the runtime to the end of a guest.

use super::engine::End;
use pirn_runtime::CallError;

/// The end of a guest whose call failed with this error.
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
