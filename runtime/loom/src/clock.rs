//! The runtime's clocks. In models, no thread has used any processor time.

pub(crate) fn time_ns(_clock: i32) -> u64 {
    0
}
