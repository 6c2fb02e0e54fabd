//! Names that guests import and export, and that WASI does not define: the imports of Java
//! programs, and the exports that hosts call around a snapshot.
//!
//! No other module of this crate knows them, and a host defines or calls them only if it wants to.
//! `aotrun`, `pirn-serve` and the containerd shim do.

mod snapshot;
mod teavm;

pub use snapshot::{InitialiseError, call_after_restore, initialisers};
pub use teavm::link_teavm;
