//! [`Counter`], [`Gauge`] and [`Histogram`]: the numbers that the server counts. All are atomic,
//! and no update waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of a [`Histogram`], in seconds.
pub(super) const BUCKETS: [f64; 12] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0,
];

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of things that exist now.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Times by bucket, and their sum.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// Times of each bucket, without the times of the bucket before. The last bucket has no bound.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    /// Wraps after 584 years.
    sum_ns: AtomicU64,
}

impl Histogram {
    pub(super) fn record(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BUCKETS.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let ns = time.as_nanos() as u64;
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// For each bucket, the number of times in this bucket and in all buckets before.
    pub(super) fn cumulative(&self) -> [u64; BUCKETS.len() + 1] {
        let mut count = 0;
        self.buckets.each_ref().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        })
    }

    pub(super) fn sum_seconds(&self) -> f64 {
        self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_at_a_bound_is_in_its_bucket_and_a_longer_one_in_the_next() {
        for (place, bound) in BUCKETS.into_iter().enumerate() {
            let time = Duration::from_secs_f64(bound);
            for (time, first) in [(time, place), (time + Duration::from_nanos(1), place + 1)] {
                let histogram = Histogram::default();
                histogram.record(time);
                for (bucket, count) in histogram.cumulative().into_iter().enumerate() {
                    assert_eq!(
                        count,
                        u64::from(bucket >= first),
                        "{time:?}, bucket {bucket}"
                    );
                }
            }
        }
    }

    #[test]
    fn threads_lose_no_update() {
        let (counter, gauge) = (Counter::default(), Gauge::default());
        let histogram = Histogram::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        counter.add(2);
                        gauge.increment();
                        histogram.record(Duration::from_millis(250));
                        gauge.decrement();
                    }
                });
            }
        });
        assert_eq!((counter.get(), gauge.get()), (8000, 0));
        assert_eq!(histogram.cumulative()[BUCKETS.len()], 4000);
        assert_eq!(histogram.sum_seconds(), 1000.0);
    }
}
