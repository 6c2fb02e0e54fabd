//! `wasi:filesystem`: files and directories below the preopened directories of a guest, through
//! [`pirn_wasi::files`].

// In this order each module uses only modules before it.
mod error;
mod types;
mod metadata;
mod descriptor;
mod streams;
mod entries;
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
