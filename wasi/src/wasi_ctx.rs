//! [`WasiCtx`]: the WASI context of a guest.

use crate::open_files::OpenFiles;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The WASI context of a guest: the context of wasi-common, and the files in memory that the guest
/// has open. [`WasiCtxBuilder`](crate::WasiCtxBuilder) builds it.
///
/// Clones share all state: each thread of a guest has a clone.
#[derive(Clone)]
pub struct WasiCtx {
    common: wasi_common::WasiCtx,
    /// `None` if the guest has no preopened directory.
    files: Option<Arc<OpenFiles>>,
}

impl WasiCtx {
    pub(crate) fn new(common: wasi_common::WasiCtx, files: Option<Arc<OpenFiles>>) -> Self {
        Self { common, files }
    }

    /// wasi-common's context.
    pub(crate) fn common(&mut self) -> &mut wasi_common::WasiCtx {
        &mut self.common
    }

    pub(crate) fn files(&self) -> Option<&Arc<OpenFiles>> {
        self.files.as_ref()
    }
}

impl Deref for WasiCtx {
    type Target = wasi_common::WasiCtx;

    fn deref(&self) -> &Self::Target {
        &self.common
    }
}

impl DerefMut for WasiCtx {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.common
    }
}
