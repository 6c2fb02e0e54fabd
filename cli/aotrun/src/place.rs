//! The region in which a program runs: one slot, or one for each thread.

use crate::args::Args;
use anyhow::{Error, Result, anyhow};
use pirn_runtime::{LinkError, Module, Region, Reset};

/// A region whose slots fit the program.
pub(crate) fn region(args: &Args, module: &Module, slots: u32) -> Result<Region> {
    let region = Region::builder()
        .slots(slots)
        .reset(Reset::Decommitted)
        .memories(module.memories().max(1))
        .memory_bytes_max(args.memory_max)
        .stack_bytes(args.stack)
        .tables(64)
        .table_elements(1 << 20)
        .instance_bytes(64 << 20)
        .build()?;
    Ok(region)
}

/// The error of a program that cannot be prepared. Names the command-line option, not the setting
/// of the library.
pub(crate) fn unprepared(args: &Args, error: LinkError) -> Error {
    let program = args.program.display();
    match error {
        LinkError::Limit {
            setting: "memory_bytes_max",
            needed,
            limit,
            ..
        } => {
            let kib = |pages: u64| pages * WASM_PAGE_KIB;
            let (needed, limit) = (kib(needed), kib(limit));
            anyhow!(
                "{program}: it needs {needed} KiB of memory, --memory-max is {limit} KiB; raise it"
            )
        }
        LinkError::Missing { import, wanted } => anyhow!(
            "{program}: it imports {import} ({wanted}), which aotrun does not have; call it from a \
             host that defines it, with the crate pirn-runtime"
        ),
        error => Error::new(error).context(program.to_string()),
    }
}

/// KiB of one page of linear memory.
const WASM_PAGE_KIB: u64 = 64;
