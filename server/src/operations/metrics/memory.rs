//! The memory of the server's process.

/// Resident memory of this process (proc_pid_status(5), `VmRSS`), if the system reports it.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[test]
fn this_process_uses_memory() {
    assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
}
