//! `wasi:filesystem`: files and directories below the preopened directories of a guest.

// In this order each module uses only modules before it.
mod error;
mod types;
mod path_checks;
mod metadata;
mod backend;
mod host;
mod memory;
mod file;
mod streams;
mod folder;
mod entries;
mod descriptor;
mod open;
mod builder;
mod calls;
mod files;
mod paths;

use crate::wasi::View;
use pirn_component::{LinkError, Linker};

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    files::link(linker)?;
    paths::link(linker)
}
