//! The text of all metrics for a list of events.

use super::*;
use std::fs;

/// Metrics after the events of a small server's life.
fn counted() -> Metrics {
    let metrics = Metrics::default();
    metrics.connections.increment();
    metrics.connections.increment();
    metrics.connections.decrement();
    metrics.connections_refused.add(1);
    metrics.lines_dropped.add(2);
    for is_ok in [true, false, true] {
        metrics.count_reload(is_ok);
    }
    let before = metrics.routes(["/old", "/b"].into_iter());
    before.count(Some(0), Outcome::Ok, Duration::from_micros(50));
    before.count(Some(1), Outcome::Trap, Duration::ZERO);
    // A reload keeps `/b` and removes `/old`, whose series stay.
    let routes = metrics.routes(["/a\"b\\c\nd", "/b"].into_iter());
    let times_ns = [
        0,
        50_000,
        50_001,
        500_000,
        2_000_000,
        9_500_000,
        750_000_000,
        1_000_000_000,
        1_000_000_001,
    ];
    for (place, time_ns) in times_ns.into_iter().enumerate() {
        let took = Duration::from_nanos(time_ns);
        let outcomes = [Outcome::Ok, Outcome::Exit, Outcome::Gone, Outcome::TooLarge];
        routes.count(Some(0), outcomes[place % 4], took);
        if place % 2 == 0 {
            routes.count(Some(1), Outcome::Deadline, took);
        }
    }
    routes.count(None, Outcome::NotFound, Duration::from_micros(30));
    routes.count(None, Outcome::Bad, Duration::from_secs(60));
    let mut usage = Usage::default();
    usage.cpu_time = Some(Duration::from_micros(7));
    usage.running_time = Some(Duration::from_secs(3));
    usage.suspended_time = Some(Duration::from_nanos(1));
    usage.host_calls = Some(11);
    usage.bytes_read = 1 << 40;
    usage.bytes_written = 5;
    routes.count_guest(0, Duration::from_secs(2), &usage);
    routes.count_guest(1, Duration::from_millis(250), &usage);
    routes.count_guest(1, Duration::from_millis(3), &Usage::default());
    metrics
}

const NOW: Now = Now {
    slots: Slots {
        all: 8,
        free: 5,
        lost: 1,
    },
    waiting: 3,
    buffered_bytes: 70_000,
    access_dropped: 4,
    resident_bytes: 123_456_789,
};

/// The crate `metrics-exporter-prometheus` 0.18.3 writes the expected lines for these events.
/// Dashboards and alerts depend on these lines: announce each change in the reference of the
/// metrics.
#[test]
fn the_text_is_as_expected_line_by_line() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/metrics.txt");
    let expected = fs::read_to_string(path).expect("the expected text");
    let text = counted().text(&NOW);
    for (found, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text, expected);
}

#[test]
fn routes_of_requests_add_no_series() {
    let metrics = counted();
    let lines = |metrics: &Metrics| metrics.text(&NOW).lines().count();
    let before = lines(&metrics);
    for _ in 0..100 {
        let routes = metrics.routes(["/b", "/old"].into_iter());
        routes.count(None, Outcome::NotFound, Duration::ZERO);
    }
    assert_eq!(lines(&metrics), before);
}

/// The reference describes the metrics that exist, and no other metrics.
#[test]
fn the_reference_has_each_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/metrics.md");
    let page = fs::read_to_string(path).expect("the reference");
    let (_, table) = page.split_once("| metric | meaning |").expect("the table");
    let documented: Vec<_> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" |"))
        .flat_map(|(cell, _)| cell.split('`').skip(1).step_by(2))
        .map(|name| name.split('{').next().unwrap_or(name))
        .collect();
    for row in &ROWS {
        assert!(
            documented.contains(&row.name),
            "{} is not documented",
            row.name
        );
    }
    assert_eq!(documented.len(), ROWS.len(), "{documented:?}");
}
