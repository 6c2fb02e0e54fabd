//! [`ROWS`]: all metrics of the server, one row for each metric.

use super::text::Kind;
use super::values::Histogram;
use super::{Metrics, Now, Series};
use pirn_runtime::Usage;
use std::time::Duration;

/// A metric.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Contains no line feed and no backslash, which would need an escape.
    pub(super) help: &'static str,
    pub(super) source: Source,
}

/// The source of a metric's samples. It also decides the type and the labels of the metric.
pub(super) enum Source {
    /// A counter of the server.
    Counter(fn(&Metrics, &Now) -> u64),
    /// A gauge of the server.
    Gauge(fn(&Metrics, &Now) -> u64),
    /// A counter of reloads for each result.
    Reloads,
    /// A counter of requests for each route and outcome.
    Requests,
    /// A histogram for each route that has the histogram.
    Times(fn(&Series) -> Option<&Histogram>),
    /// A counter for each route with a guest: the sum of this number over the guests that ended.
    Used(fn(&Usage) -> u64),
}

impl Source {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Gauge(_) => Kind::Gauge,
            Self::Times(_) => Kind::Histogram,
            Self::Counter(_) | Self::Reloads | Self::Requests | Self::Used(_) => Kind::Counter,
        }
    }
}

const fn row(name: &'static str, help: &'static str, source: Source) -> Row {
    Row { name, help, source }
}

/// All metrics, in the order of the text.
pub(super) const ROWS: [Row; 21] = [
    row(
        "pirn_requests_total",
        "Requests by what became of them",
        Source::Requests,
    ),
    row(
        "pirn_request_seconds",
        "Time from a request's header to its answer",
        Source::Times(|series| Some(&series.seconds)),
    ),
    row(
        "pirn_guest_seconds",
        "Time of guests, slot and its reset included",
        Source::Times(|series| Some(&series.guest.as_ref()?.seconds)),
    ),
    row(
        "pirn_guest_cpu_nanoseconds_total",
        "Processor time of guests and their host functions",
        Source::Used(|usage| nanoseconds(usage.cpu_time)),
    ),
    row(
        "pirn_guest_running_nanoseconds_total",
        "Wall time of guests while they ran",
        Source::Used(|usage| nanoseconds(usage.running_time)),
    ),
    row(
        "pirn_guest_suspended_nanoseconds_total",
        "Wall time of guests while they waited, or others had their turn",
        Source::Used(|usage| nanoseconds(usage.suspended_time)),
    ),
    row(
        "pirn_guest_host_calls_total",
        "Calls of host functions by guests",
        Source::Used(|usage| usage.host_calls.unwrap_or(0)),
    ),
    row(
        "pirn_guest_read_bytes_total",
        "Bytes that guests read",
        Source::Used(|usage| usage.bytes_read),
    ),
    row(
        "pirn_guest_written_bytes_total",
        "Bytes that guests wrote",
        Source::Used(|usage| usage.bytes_written),
    ),
    row(
        "pirn_guest_memory_bytes_total",
        "Bytes of linear memory at the end of each guest, summed over guests",
        Source::Used(|usage| usage.memory_bytes_peak().iter().sum()),
    ),
    row(
        "pirn_slots",
        "Slots that there are",
        Source::Gauge(|_, now| now.slots.all as u64),
    ),
    row(
        "pirn_slots_used",
        "Slots that guests have",
        Source::Gauge(|_, now| {
            let slots = now.slots;
            slots.all.saturating_sub(slots.free + slots.lost) as u64
        }),
    ),
    row(
        "pirn_slots_lost",
        "Slots that are never used again",
        Source::Gauge(|_, now| now.slots.lost as u64),
    ),
    row(
        "pirn_requests_waiting",
        "Requests that wait for a slot",
        Source::Gauge(|_, now| now.waiting as u64),
    ),
    row(
        "pirn_buffered_bytes",
        "Memory for the bodies of requests",
        Source::Gauge(|_, now| now.buffered_bytes as u64),
    ),
    row(
        "pirn_connections",
        "Open connections",
        Source::Gauge(|metrics, _| metrics.connections.get()),
    ),
    row(
        "pirn_connections_refused_total",
        "Connections refused because their client was at its limit",
        Source::Counter(|metrics, _| metrics.connections_refused.get()),
    ),
    row(
        "pirn_log_lines_dropped_total",
        "Lines of guests that were not logged",
        Source::Counter(|metrics, _| metrics.lines_dropped.get()),
    ),
    row(
        "pirn_access_log_lines_dropped_total",
        "Lines of the access log that were not written",
        Source::Counter(|_, now| now.access_dropped),
    ),
    row(
        "pirn_reloads_total",
        "Reloads of the configuration",
        Source::Reloads,
    ),
    row(
        "process_resident_memory_bytes",
        "Resident memory of the process",
        Source::Gauge(|_, now| now.resident_bytes),
    ),
];

fn nanoseconds(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_help_texts_need_no_escapes() {
        for (at, row) in ROWS.iter().enumerate() {
            let is_name = |char| matches!(char, 'a'..='z' | '_');
            assert!(row.name.chars().all(is_name), "{}", row.name);
            assert!(!row.help.contains(['\n', '\\']), "{}", row.help);
            assert!(
                ROWS[..at].iter().all(|other| other.name != row.name),
                "{}",
                row.name
            );
            let is_counter = row.source.kind() == Kind::Counter;
            assert_eq!(row.name.ends_with("_total"), is_counter, "{}", row.name);
        }
    }
}
