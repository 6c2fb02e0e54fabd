//! [`Metrics`]: the server's counters, as Prometheus text.
//!
//! Each server has its own recorder, and looks up its counters once.

use crate::engine::Slots;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{
    BuildError, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use pirn_runtime::Usage;
use std::time::Duration;

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The guest answered.
    Ok,
    /// The guest's output is no valid answer.
    Malformed,
    /// The guest printed more than its limit.
    Output,
    /// The guest exited with a code other than 0.
    Exit,
    /// The guest trapped.
    Trap,
    /// The guest reached its deadline.
    Deadline,
    /// No slot was free in time, or too many requests wait for one.
    Full,
    /// A host function panicked, or the system refused a resource.
    Failed,
    /// The client closed the connection before it got its answer.
    Gone,
    /// The body of the request is larger than its limit.
    TooLarge,
    /// The body of the request did not arrive in time.
    Slow,
    /// The request is malformed.
    Bad,
    /// No route has the path of the request.
    NotFound,
}

impl Outcome {
    const ALL: [Self; 13] = [
        Self::Ok,
        Self::Malformed,
        Self::Output,
        Self::Exit,
        Self::Trap,
        Self::Deadline,
        Self::Full,
        Self::Failed,
        Self::Gone,
        Self::TooLarge,
        Self::Slow,
        Self::Bad,
        Self::NotFound,
    ];

    /// Whether the guest or the server caused the outcome, so that the operator should know of it.
    pub(crate) fn is_guests(self) -> bool {
        match self {
            Self::Malformed | Self::Output | Self::Exit | Self::Trap => true,
            Self::Deadline | Self::Failed => true,
            Self::Ok | Self::Full | Self::Gone => false,
            Self::TooLarge | Self::Slow | Self::Bad | Self::NotFound => false,
        }
    }

    /// The label of the outcome.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Malformed => "malformed",
            Self::Output => "output",
            Self::Exit => "exit",
            Self::Trap => "trap",
            Self::Deadline => "deadline",
            Self::Full => "full",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::TooLarge => "too_large",
            Self::Slow => "slow",
            Self::Bad => "bad",
            Self::NotFound => "not_found",
        }
    }
}

/// Upper bounds of the time buckets, in seconds.
const BUCKETS: [f64; 12] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0,
];

/// The label of requests without a route.
const NO_ROUTE: &str = "-";

/// The server's counters.
pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    reloads: [Counter; 2],
    slots: Gauge,
    slots_used: Gauge,
    slots_lost: Gauge,
    waiting: Gauge,
    pub(crate) connections: Gauge,
    /// Connections that were refused because their client had reached its limit.
    pub(crate) connections_refused: Counter,
    /// Lines of guests that were not logged.
    pub(crate) lines_dropped: Counter,
    access_dropped: Counter,
    resident: Gauge,
}

/// The counters of routes: one for each route, and a last one for requests without a route.
pub(crate) struct RouteCounters(Vec<Route>);

/// The counters of one route.
struct Route {
    requests: Vec<Counter>,
    seconds: Histogram,
    /// `None` for requests without a route.
    guest: Option<Guest>,
}

/// The counters of a route's guest.
struct Guest {
    seconds: Histogram,
    /// In the order of [`USED`].
    used: [Counter; USED.len()],
}

/// Name, help text and value of a counter of used resources.
type Used = (&'static str, &'static str, fn(&Usage) -> u64);

/// Counters of the resources that guests used. A guest is counted when it ends.
const USED: [Used; 7] = [
    (
        "pirn_guest_cpu_nanoseconds_total",
        "Processor time of guests and their host functions",
        |usage| nanoseconds(usage.cpu_time),
    ),
    (
        "pirn_guest_running_nanoseconds_total",
        "Wall time of guests while they ran",
        |usage| nanoseconds(usage.running_time),
    ),
    (
        "pirn_guest_suspended_nanoseconds_total",
        "Wall time of guests while they waited, or others had their turn",
        |usage| nanoseconds(usage.suspended_time),
    ),
    (
        "pirn_guest_host_calls_total",
        "Calls of host functions by guests",
        |usage| usage.host_calls.unwrap_or(0),
    ),
    (
        "pirn_guest_read_bytes_total",
        "Bytes that guests read",
        |usage| usage.bytes_read,
    ),
    (
        "pirn_guest_written_bytes_total",
        "Bytes that guests wrote",
        |usage| usage.bytes_written,
    ),
    (
        "pirn_guest_memory_bytes_total",
        "Bytes of linear memory at the end of each guest, summed over guests",
        |usage| usage.memory_bytes_peak().iter().sum(),
    ),
];

fn nanoseconds(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| time.as_nanos() as u64)
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

impl Metrics {
    pub(crate) fn new() -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BUCKETS)?
            .build_recorder();
        let gauge = |name: &'static str, unit, help: &'static str| {
            recorder.describe_gauge(KeyName::from(name), unit, help.into());
            recorder.register_gauge(&Key::from_name(name), &METADATA)
        };
        let counter = |name: &'static str, help: &'static str| {
            recorder.describe_counter(KeyName::from(name), None, help.into());
            recorder.register_counter(&Key::from_name(name), &METADATA)
        };
        describe(&recorder);
        let reloads = ["failed", "ok"].map(|result| {
            let labels = vec![Label::new("result", result)];
            let key = Key::from_parts("pirn_reloads_total", labels);
            recorder.register_counter(&key, &METADATA)
        });
        Ok(Self {
            handle: recorder.handle(),
            reloads,
            slots: gauge("pirn_slots", None, "Slots that there are"),
            slots_used: gauge("pirn_slots_used", None, "Slots that guests have"),
            slots_lost: gauge("pirn_slots_lost", None, "Slots that are never used again"),
            waiting: gauge(
                "pirn_requests_waiting",
                None,
                "Requests that wait for a slot",
            ),
            connections: gauge("pirn_connections", None, "Open connections"),
            connections_refused: counter(
                "pirn_connections_refused_total",
                "Connections refused because their client was at its limit",
            ),
            lines_dropped: counter(
                "pirn_log_lines_dropped_total",
                "Lines of guests that were not logged",
            ),
            access_dropped: counter(
                "pirn_access_log_lines_dropped_total",
                "Lines of the access log that were not written",
            ),
            resident: gauge(
                "process_resident_memory_bytes",
                Some(Unit::Bytes),
                "Resident memory of the process",
            ),
            recorder,
        })
    }

    /// The counters of routes. Routes with the same name have the same counters.
    pub(crate) fn routes<'a>(&self, routes: impl Iterator<Item = &'a str>) -> RouteCounters {
        let names = routes.chain([NO_ROUTE]);
        RouteCounters(names.map(|name| Route::new(&self.recorder, name)).collect())
    }

    /// Counts a reload of the configuration.
    pub(crate) fn count_reload(&self, is_ok: bool) {
        self.reloads[usize::from(is_ok)].increment(1);
    }

    /// All metrics as text.
    pub(crate) fn render(&self, slots: Slots, waiting: usize, access_dropped: u64) -> String {
        self.access_dropped.absolute(access_dropped);
        self.slots.set(slots.all as f64);
        self.slots_used
            .set(slots.all.saturating_sub(slots.free + slots.lost) as f64);
        self.slots_lost.set(slots.lost as f64);
        self.waiting.set(waiting as f64);
        if let Some(bytes) = crate::load::resident_bytes() {
            self.resident.set(bytes as f64);
        }
        self.handle.render()
    }

    /// Moves recorded times into their buckets. They take memory until then.
    pub(crate) fn tidy(&self) {
        self.handle.run_upkeep();
    }
}

impl RouteCounters {
    /// Counts a request.
    pub(crate) fn count(&self, route: Option<usize>, outcome: Outcome, took: Duration) {
        let none = self.0.len() - 1;
        let route = &self.0[route.unwrap_or(none)];
        route.requests[outcome as usize].increment(1);
        route.seconds.record(took.as_secs_f64());
    }

    /// Counts a guest's time and the resources that it used.
    pub(crate) fn count_guest(&self, route: usize, took: Duration, usage: &Usage) {
        if let Some(guest) = &self.0[route].guest {
            guest.seconds.record(took.as_secs_f64());
            for ((_, _, number), counter) in USED.iter().zip(&guest.used) {
                counter.increment(number(usage));
            }
        }
    }
}

impl Route {
    fn new(recorder: &impl Recorder, name: &str) -> Self {
        let route = Label::new("route", name.to_owned());
        let requests = Outcome::ALL.map(|outcome| {
            let labels = vec![route.clone(), Label::new("outcome", outcome.name())];
            let key = Key::from_parts("pirn_requests_total", labels);
            recorder.register_counter(&key, &METADATA)
        });
        let histogram = |name: &'static str| {
            let key = Key::from_parts(name, vec![route.clone()]);
            recorder.register_histogram(&key, &METADATA)
        };
        Self {
            requests: requests.into(),
            seconds: histogram("pirn_request_seconds"),
            guest: (name != NO_ROUTE).then(|| Guest {
                seconds: histogram("pirn_guest_seconds"),
                used: USED.map(|(name, ..)| {
                    let key = Key::from_parts(name, vec![route.clone()]);
                    recorder.register_counter(&key, &METADATA)
                }),
            }),
        }
    }
}

/// Registers the help texts of the metrics with a route label.
fn describe(recorder: &impl Recorder) {
    let reloads = "Reloads of the configuration";
    recorder.describe_counter("pirn_reloads_total".into(), None, reloads.into());
    let requests = "Requests by what became of them";
    recorder.describe_counter("pirn_requests_total".into(), None, requests.into());
    let seconds = "Time from a request's header to its answer";
    recorder.describe_histogram("pirn_request_seconds".into(), None, seconds.into());
    let seconds = "Time of guests, slot and its reset included";
    recorder.describe_histogram("pirn_guest_seconds".into(), None, seconds.into());
    for (name, help, _) in USED {
        recorder.describe_counter(name.into(), None, help.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_in_their_places() {
        for (place, outcome) in Outcome::ALL.iter().enumerate() {
            assert_eq!(*outcome as usize, place, "{outcome:?}");
        }
    }

    #[test]
    fn what_is_counted_is_rendered() {
        let metrics = Metrics::new().unwrap();
        metrics
            .routes(["/b"].into_iter())
            .count(Some(0), Outcome::Trap, Duration::ZERO);
        let routes = metrics.routes(["/a", "/b"].into_iter());
        metrics.count_reload(true);
        routes.count(Some(1), Outcome::Trap, Duration::from_millis(2));
        routes.count(None, Outcome::NotFound, Duration::ZERO);
        let mut usage = Usage::default();
        usage.cpu_time = Some(Duration::from_micros(7));
        usage.bytes_written = 5;
        routes.count_guest(0, Duration::from_secs(2), &usage);
        let slots = Slots {
            all: 8,
            free: 5,
            lost: 1,
        };
        let text = metrics.render(slots, 3, 4);
        for line in [
            "pirn_requests_total{route=\"/b\",outcome=\"trap\"} 2",
            "pirn_requests_total{route=\"/a\",outcome=\"trap\"} 0",
            "pirn_requests_total{route=\"-\",outcome=\"not_found\"} 1",
            "pirn_request_seconds_bucket{route=\"/b\",le=\"0.001\"} 1",
            "pirn_request_seconds_bucket{route=\"/b\",le=\"0.0025\"} 2",
            "pirn_reloads_total{result=\"ok\"} 1",
            "pirn_reloads_total{result=\"failed\"} 0",
            "pirn_guest_seconds_bucket{route=\"/a\",le=\"+Inf\"} 1",
            "pirn_guest_seconds_sum{route=\"/a\"} 2",
            "pirn_guest_cpu_nanoseconds_total{route=\"/a\"} 7000",
            "pirn_guest_cpu_nanoseconds_total{route=\"/b\"} 0",
            "pirn_guest_written_bytes_total{route=\"/a\"} 5",
            "pirn_slots 8",
            "pirn_slots_used 2",
            "pirn_slots_lost 1",
            "pirn_requests_waiting 3",
            "pirn_access_log_lines_dropped_total 4",
            "# TYPE pirn_requests_total counter",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} in:\n{text}"
            );
        }
        assert!(!text.contains("pirn_guest_seconds_count{route=\"-\"}"));
    }
}
