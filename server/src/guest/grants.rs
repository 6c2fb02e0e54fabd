//! [`Grants`]: what the guest of a route may use besides its request.

use pirn_wasi2::http::Allowed;
use pirn_wasi2::{Dir, MemoryBase, MemoryLimits, Network};
use std::sync::Arc;

/// What the guest of a route may use besides its request. By default nothing.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// The servers that it may send HTTP requests to. Only components can.
    pub servers: Allowed,
    /// Its directories in memory.
    pub memory_dirs: Vec<GrantedDir>,
    /// Directories of the host, which all requests share. Only components get them.
    pub host_dirs: Vec<HostDir>,
    /// Environment variables of the guest. Only components get them.
    pub env: Vec<(String, String)>,
    /// The addresses that the guest's sockets may use. Only components have sockets.
    pub network: Network,
}

/// A directory of the host.
#[derive(Debug, Clone)]
pub struct HostDir {
    /// The guests' path for the directory.
    pub path: String,
    /// The directory.
    pub dir: Arc<Dir>,
    /// Whether guests cannot change it.
    pub is_read_only: bool,
}

/// A directory in memory. Each request gets one of its own, which is dropped after it.
#[derive(Debug, Clone)]
pub struct GrantedDir {
    /// Its path, as guests see it.
    pub path: String,
    /// Its content at first.
    pub base: MemoryBase,
    /// The limits of what one request changes.
    pub limits: MemoryLimits,
}
