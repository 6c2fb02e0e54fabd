//! [`link()`]: all interfaces.

use crate::filesystem;
use crate::wasi::View;
use crate::{cli, clocks, poll, random, sockets, streams};
use pirn_component::{LinkError, Linker};

/// Adds all interfaces of the world `wasi:cli/imports` to a linker.
///
/// # Errors
///
/// [`LinkError::Duplicate`] if the linker has one of the functions already.
pub fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    poll::link(linker)?;
    streams::link(linker)?;
    clocks::link(linker)?;
    random::link(linker)?;
    filesystem::link(linker)?;
    sockets::link(linker)?;
    cli::link(linker)
}
