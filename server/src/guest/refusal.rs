//! [`refusal`]: the error of a guest that cannot be prepared, for the user of a program that serves
//! or runs guests.

use super::pirn::GuestNumber;
use anyhow::{Error, anyhow};
use pirn_component::LinkError as ComponentError;
use pirn_runtime::LinkError;

/// KiB of one page of linear memory.
const PAGE_KIB: u64 = 64;

/// The error of a guest that cannot be prepared. The errors of the libraries name settings of Rust
/// and the linker. The result names the setting of the program's user, `memory_max`, and has no
/// [`GuestNumber`].
#[must_use]
pub fn refusal(error: &Error, memory_max: &str) -> Error {
    let component = error.chain().find_map(|cause| cause.downcast_ref());
    let core = match component {
        Some(ComponentError::Core(core)) => Some(core),
        _ => error.chain().find_map(|cause| cause.downcast_ref()),
    };
    let imports =
        |what: &str| anyhow!("it imports {what}, which is not provided; remove the import");
    match (component, core) {
        (Some(ComponentError::MissingFunc { path }), _) => imports(path),
        (Some(ComponentError::MissingResource { path }), _) => {
            imports(&format!("the resource type {path}"))
        }
        (_, Some(LinkError::Missing { import, wanted })) => {
            imports(&format!("{import} ({wanted})"))
        }
        (
            _,
            Some(LinkError::Limit {
                setting: "memory_bytes_max",
                needed,
                limit,
                ..
            }),
        ) => {
            let (needed, limit) = (needed * PAGE_KIB, limit * PAGE_KIB);
            anyhow!("it needs {needed} KiB of memory, {memory_max} is {limit} KiB; raise it")
        }
        _ => {
            let numbers = usize::from(error.is::<GuestNumber>());
            let causes: Vec<_> = error
                .chain()
                .skip(numbers)
                .map(ToString::to_string)
                .collect();
            anyhow!("{}", causes.join(": "))
        }
    }
}
