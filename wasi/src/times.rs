//! Conversion of file times to the range that preview 1 can express.

use core::time::Duration;
use std::time::SystemTime;
use wasi_common::file::Filestat;

/// A time from seconds and nanoseconds since the epoch; `None` for a time before the epoch.
pub(crate) fn since_epoch(seconds: i64, nanoseconds: i64) -> Option<SystemTime> {
    let (seconds, nanoseconds) = (
        u64::try_from(seconds).ok()?,
        u32::try_from(nanoseconds).ok()?,
    );
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

/// Removes times before the epoch, which preview 1 cannot express. The guest sees them as 0.
/// wasi-common panics on such times.
pub(crate) fn clear_early(stat: &mut Filestat) {
    for time in [&mut stat.atim, &mut stat.mtim, &mut stat.ctim] {
        *time = time.filter(|time| time.duration_since(SystemTime::UNIX_EPOCH).is_ok());
    }
}
