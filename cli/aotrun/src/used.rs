//! Prints the resources that a guest used.

use pirn_runtime::Usage;
use std::time::Duration;

/// Prints a line for each known number. The name of a number contains its unit.
pub(crate) fn print(usage: &Usage) {
    for (name, number) in lines(usage) {
        eprintln!("{name:<22} {number:>16}");
    }
}

fn lines(usage: &Usage) -> Vec<(String, u64)> {
    let us = |time: Option<Duration>| time.map(|time| time.as_micros() as u64);
    let times = [
        ("cpu_us", us(usage.cpu_time)),
        ("running_us", us(usage.running_time)),
        ("suspended_us", us(usage.suspended_time)),
        ("fuel", usage.fuel),
        ("host_calls", usage.host_calls),
        ("bytes_read", Some(usage.bytes_read)),
        ("bytes_written", Some(usage.bytes_written)),
        ("pages_written", usage.pages_written),
        ("host_bytes_peak", Some(usage.host_bytes_peak as u64)),
        ("heap_bytes_peak", Some(usage.heap_bytes_peak)),
    ];
    let known = times.into_iter();
    let known = known.filter_map(|(name, number)| Some((name.to_owned(), number?)));
    let memories = usage.memory_bytes_peak().iter().enumerate();
    let memories = memories.map(|(index, bytes)| (format!("memory_{index}_bytes_peak"), *bytes));
    known.chain(memories).collect()
}
