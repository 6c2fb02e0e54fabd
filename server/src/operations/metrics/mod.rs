//! [`Metrics`]: the server's counters, as Prometheus text.
//!
//! To add a metric, add a row to `rows.rs`, and its line to the reference. A metric with new labels
//! also needs a new [`rows::Source`].

mod memory;
mod outcome;
mod rows;
mod text;
mod values;

pub(crate) use outcome::Outcome;
pub(crate) use values::{Counter, Gauge};

use crate::guest::engine::Slots;
use pirn_runtime::Usage;
use rows::{ROWS, Row, Source};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use text::{Samples, Text};
use values::Histogram;

/// The label of requests without a route.
const NO_ROUTE: &str = "-";

/// The server's counters.
#[derive(Default)]
pub(crate) struct Metrics {
    /// All routes that the server has had. Only a reload and [`Metrics::render`] take the lock.
    routes: Mutex<Vec<Arc<Series>>>,
    /// Failed reloads of the configuration, and successful reloads.
    reloads: [Counter; 2],
    pub(crate) connections: Arc<Gauge>,
    /// Connections that were refused because their client had reached its limit.
    pub(crate) connections_refused: Counter,
    /// Lines of guests that were not logged.
    pub(crate) lines_dropped: Arc<Counter>,
}

/// Values that the server reads when it renders the metrics.
struct Now {
    slots: Slots,
    waiting: usize,
    buffered_bytes: usize,
    access_dropped: u64,
    resident_bytes: u64,
}

/// The counters of routes, one entry for each route. The last entry is for requests without a
/// route.
pub(crate) struct RouteCounters(Vec<Arc<Series>>);

/// The counters of one route.
struct Series {
    route: String,
    /// In the order of [`Outcome::ALL`].
    requests: [Counter; Outcome::ALL.len()],
    seconds: Histogram,
    /// `None` for requests without a route.
    guest: Option<Guest>,
}

/// The counters of a route's guest.
#[derive(Default)]
struct Guest {
    seconds: Histogram,
    /// In the order of [`ROWS`]. Only rows with [`Source::Used`] count.
    used: [Counter; ROWS.len()],
}

impl Metrics {
    /// The counters of routes. Routes with the same name have the same counters.
    pub(crate) fn routes<'a>(&self, routes: impl Iterator<Item = &'a str>) -> RouteCounters {
        let mut all = self.lock();
        let names = routes.chain([NO_ROUTE]);
        let series = names.map(|name| {
            if let Some(same) = all.iter().find(|series| series.route == name) {
                return Arc::clone(same);
            }
            let series = Arc::new(Series::new(name));
            all.push(Arc::clone(&series));
            series
        });
        RouteCounters(series.collect())
    }

    /// Counts a reload of the configuration.
    pub(crate) fn count_reload(&self, is_ok: bool) {
        self.reloads[usize::from(is_ok)].add(1);
    }

    /// All metrics as text.
    pub(crate) fn render(
        &self,
        slots: Slots,
        waiting: usize,
        buffered_bytes: usize,
        access_dropped: u64,
    ) -> String {
        self.text(&Now {
            slots,
            waiting,
            buffered_bytes,
            access_dropped,
            resident_bytes: memory::resident_bytes().unwrap_or(0),
        })
    }

    fn text(&self, now: &Now) -> String {
        let routes = self.lock().clone();
        let mut text = Text::default();
        for (place, row) in ROWS.iter().enumerate() {
            text.metric(row.name, row.help, row.source.kind(), |samples| {
                self.samples(place, row, &routes, now, samples);
            });
        }
        text.finish()
    }

    /// Writes the samples of the metric at `place` in [`ROWS`].
    fn samples(
        &self,
        place: usize,
        row: &Row,
        routes: &[Arc<Series>],
        now: &Now,
        samples: &mut Samples<'_>,
    ) {
        match row.source {
            Source::Counter(number) | Source::Gauge(number) => {
                samples.number(&[], number(self, now));
            }
            Source::Reloads => {
                for (result, counter) in ["failed", "ok"].iter().zip(&self.reloads) {
                    samples.number(&[("result", result)], counter.get());
                }
            }
            Source::Requests => {
                for series in routes {
                    for (outcome, counter) in Outcome::ALL.iter().zip(&series.requests) {
                        let labels = [("route", &series.route[..]), ("outcome", outcome.name())];
                        samples.number(&labels, counter.get());
                    }
                }
            }
            Source::Times(histogram) => {
                for series in routes {
                    if let Some(histogram) = histogram(series) {
                        samples.histogram(&[("route", &series.route)], histogram);
                    }
                }
            }
            Source::Used(_) => {
                for series in routes {
                    if let Some(guest) = &series.guest {
                        samples.number(&[("route", &series.route)], guest.used[place].get());
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Series>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RouteCounters {
    /// Counts a request.
    pub(crate) fn count(&self, route: Option<usize>, outcome: Outcome, took: Duration) {
        let none = self.0.len() - 1;
        let series = &self.0[route.unwrap_or(none)];
        series.requests[outcome as usize].add(1);
        series.seconds.record(took);
    }

    /// Counts a guest's time and the resources that it used.
    pub(crate) fn count_guest(&self, route: usize, took: Duration, usage: &Usage) {
        if let Some(guest) = &self.0[route].guest {
            guest.seconds.record(took);
            for (row, counter) in ROWS.iter().zip(&guest.used) {
                if let Source::Used(number) = row.source {
                    counter.add(number(usage));
                }
            }
        }
    }
}

impl Series {
    fn new(route: &str) -> Self {
        Self {
            route: route.to_owned(),
            requests: Default::default(),
            seconds: Histogram::default(),
            guest: (route != NO_ROUTE).then(Guest::default),
        }
    }
}

#[cfg(test)]
mod tests;
