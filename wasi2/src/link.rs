//! [`link()`]: all interfaces.

use crate::filesystem;
use crate::wasi::View;
use crate::{cli, clocks, poll, random, sockets, streams};
use pirn_component::{LinkError, Linker};

/// Adds all interfaces of the world `wasi:cli/imports` to a linker. The memory that the host keeps
/// for a guest counts, up to [`Linker::host_bytes_max`].
///
/// # Errors
///
/// [`LinkError::Duplicate`] if the linker already defines one of the functions.
pub fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.host_bytes_of(|data| data.wasi().host_bytes());
    poll::link(linker)?;
    streams::link(linker)?;
    clocks::link(linker)?;
    random::link(linker)?;
    filesystem::link(linker)?;
    sockets::link(linker)?;
    cli::link(linker)
}
