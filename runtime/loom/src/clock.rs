//! Replaces the runtime's clocks. In models, no thread uses processor time.

pub(crate) fn time_ns(_clock: i32) -> u64 {
    0
}
