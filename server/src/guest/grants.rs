//! [`Grants`]: the servers, directories and variables that a route's guest may use.

use pirn_wasi2::http::Allowed;
use pirn_wasi2::{Dir, MemoryBase, MemoryLimits, Network};
use std::sync::Arc;

/// The servers, directories, variables and addresses that a route's guest may use. By default the
/// guest may use none of them.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// The servers that the guest may send HTTP requests to. Only components can send requests.
    pub servers: Allowed,
    /// The guest's directories in memory.
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
    /// Whether guests cannot change the directory.
    pub is_read_only: bool,
}

/// A directory in memory. Each request gets its own directory, which is dropped after the request.
#[derive(Debug, Clone)]
pub struct GrantedDir {
    /// The path at which guests see the directory.
    pub path: String,
    /// The content of the directory at the start of each request.
    pub base: MemoryBase,
    /// The limits of the changes of one request.
    pub limits: MemoryLimits,
}
