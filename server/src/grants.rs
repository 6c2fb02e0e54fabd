//! [`Grants`]: what the guest of a route may use besides its request.

use pirn_wasi2::http::Allowed;
use pirn_wasi2::{MemoryBase, MemoryLimits};

/// What the guest of a route may use besides its request. By default nothing.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// The servers that it may send HTTP requests to. Only components can.
    pub servers: Allowed,
    /// Its directories in memory.
    pub memory_dirs: Vec<GrantedDir>,
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
