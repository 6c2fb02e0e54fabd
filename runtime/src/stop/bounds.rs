//! [`Bounds`]: the limits of time of a call.

/// Limits of a call. `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    /// Wall time from the start of the call, in nanoseconds.
    pub(crate) wall_ns: Option<u64>,
    /// Processor time of the call's thread, in nanoseconds.
    pub(crate) cpu_ns: Option<u64>,
    /// Wall time after which the call is suspended, in nanoseconds.
    pub(crate) slice_ns: Option<u64>,
}

impl Bounds {
    /// Whether there is no limit.
    pub(crate) fn is_none(&self) -> bool {
        self.wall_ns.is_none() && self.cpu_ns.is_none() && self.slice_ns.is_none()
    }
}
