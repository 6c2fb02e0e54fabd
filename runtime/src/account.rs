//! [`Account`]: the host memory that is held for an instance, and the resources that the instance
//! has used.
//!
//! Each slot of a region has one account. An instance opens the account of its slot when it first
//! counts something, which clears the account. An instance that counts nothing never accesses its
//! account. The instances of a group share the account of the first instance.

use crate::sys::clock;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use thiserror::Error;

/// The host refuses to hold more memory for a guest than
/// [`RegionBuilder::host_bytes_max`](crate::RegionBuilder::host_bytes_max) allows.
///
/// A host function that returns this error ends the call with
/// [`TrapCode::HostMemoryExhausted`](crate::TrapCode::HostMemoryExhausted).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "guest needs {asked} more bytes of host memory, it holds {held} of at most {limit}; raise \
     `host_bytes_max`"
)]
#[non_exhaustive]
pub struct HostBytesError {
    /// Bytes that the host holds for the guest.
    pub held: usize,
    /// Bytes that the host was asked to hold in addition.
    pub asked: usize,
    /// Maximum number of bytes that the host may hold.
    pub limit: usize,
}

/// The counters of one instance, or of the instances of one group.
///
/// The fields are atomic because a call may continue on another thread. Threads never count at the
/// same time, because the counting thread has borrowed the instance. So an addition is a load and a
/// store.
#[derive(Debug)]
pub(crate) struct Account {
    /// Maximum number of bytes that may be held.
    host_bytes_max: usize,
    /// Bytes that are held now.
    host_bytes: AtomicUsize,
    /// Maximum number of bytes that were held at one time.
    host_bytes_peak: AtomicUsize,
    /// Bytes that the guest has read from files, streams and sockets.
    pub(crate) bytes_read: Count,
    /// Bytes that the guest has written to files, streams and sockets.
    pub(crate) bytes_written: Count,
    /// Whether the counters below are valid.
    is_measured: AtomicBool,
    /// Calls of host functions.
    pub(crate) host_calls: Count,
    /// Sum over all changes of the fuel: the new fuel minus the fuel that was left, modulo 2^64.
    pub(crate) fuel_given: Count,
    /// Wall time of calls in nanoseconds, without the time while they were suspended.
    pub(crate) running_ns: Count,
    /// Processor time of calls in nanoseconds.
    pub(crate) cpu_ns: Count,
    /// Wall time of suspended calls in nanoseconds.
    suspended_ns: Count,
    /// Time at which the suspended call was suspended; 0 if no call is suspended.
    suspended_since_ns: Count,
}

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds to the counter.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Relaxed);
    }

    /// The value of the counter.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn set(&self, number: u64) {
        self.0.store(number, Relaxed);
    }
}

/// The clocks that are read when a call of an instance begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// No clock.
    None,
    /// The monotonic clock.
    Wall,
    /// The monotonic clock, and the clock of the thread's processor time.
    WallAndCpu,
}

/// Measures the times of a call, or of one step of a call.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    begun_ns: u64,
    /// Processor time of the thread at the start, if it is measured.
    cpu_ns: Option<u64>,
}

impl Stopwatch {
    /// Begins to measure. Ends the suspension of a suspended call.
    pub(crate) fn start(account: &Account, clocks: Clocks) -> Self {
        let begun_ns = clock::now_ns();
        account.end_suspension(begun_ns);
        let cpu = (clocks == Clocks::WallAndCpu).then(clock::thread_cpu_ns);
        Self {
            begun_ns,
            cpu_ns: cpu,
        }
    }

    /// Adds the measured times to the account, and records whether the call is now suspended.
    pub(crate) fn stop(self, account: &Account, is_suspended: bool) {
        if let Some(begun) = self.cpu_ns {
            account.cpu_ns.add(clock::thread_cpu_ns() - begun);
        }
        let now = clock::now_ns();
        account.running_ns.add(now - self.begun_ns);
        if is_suspended {
            account.suspended_since_ns.set(now);
        }
    }
}

impl Account {
    /// An account that allows `host_bytes_max` bytes of host memory.
    pub(crate) fn new(host_bytes_max: usize) -> Self {
        Self {
            host_bytes_max,
            host_bytes: AtomicUsize::new(0),
            host_bytes_peak: AtomicUsize::new(0),
            bytes_read: Count::default(),
            bytes_written: Count::default(),
            is_measured: AtomicBool::new(false),
            host_calls: Count::default(),
            fuel_given: Count::default(),
            running_ns: Count::default(),
            cpu_ns: Count::default(),
            suspended_ns: Count::default(),
            suspended_since_ns: Count::default(),
        }
    }

    /// Clears the values of the slot's previous instance.
    pub(crate) fn clear(&self) {
        self.host_bytes.store(0, Relaxed);
        self.host_bytes_peak.store(0, Relaxed);
        self.bytes_read.set(0);
        self.bytes_written.set(0);
        self.is_measured.store(false, Relaxed);
    }

    /// Starts the counters that are kept only on request, at zero.
    pub(crate) fn measure(&self) {
        self.is_measured.store(true, Relaxed);
        for count in [
            &self.host_calls,
            &self.fuel_given,
            &self.running_ns,
            &self.cpu_ns,
            &self.suspended_ns,
            &self.suspended_since_ns,
        ] {
            count.set(0);
        }
    }

    /// Whether the counters that are kept only on request are valid.
    pub(crate) fn is_measured(&self) -> bool {
        self.is_measured.load(Relaxed)
    }

    /// Ends the suspension of a suspended call at the time `now_ns`.
    pub(crate) fn end_suspension(&self, now_ns: u64) {
        let since = self.suspended_since_ns.get();
        if since != 0 {
            self.suspended_ns.add(now_ns.saturating_sub(since));
            self.suspended_since_ns.set(0);
        }
    }

    /// Wall time of suspended calls up to now, in nanoseconds.
    pub(crate) fn suspended_ns(&self) -> u64 {
        let now = match self.suspended_since_ns.get() {
            0 => 0,
            since => clock::now_ns().saturating_sub(since),
        };
        self.suspended_ns.get() + now
    }

    /// Counts `asked` bytes of host memory as held.
    ///
    /// # Errors
    ///
    /// [`HostBytesError`] if the sum would exceed the limit. Then nothing is counted.
    pub(crate) fn hold(&self, asked: usize) -> Result<(), HostBytesError> {
        let held = self.host_bytes.load(Relaxed);
        match held.checked_add(asked) {
            Some(sum) if sum <= self.host_bytes_max => {
                self.host_bytes.store(sum, Relaxed);
                let peak = self.host_bytes_peak.load(Relaxed);
                self.host_bytes_peak.store(peak.max(sum), Relaxed);
                Ok(())
            }
            _ => Err(self.refusal(asked)),
        }
    }

    /// The error for a request of `asked` more bytes.
    pub(crate) fn refusal(&self, asked: usize) -> HostBytesError {
        HostBytesError {
            held: self.host_bytes(),
            asked,
            limit: self.host_bytes_max,
        }
    }

    /// Counts `bytes` of host memory as no longer held.
    pub(crate) fn release(&self, bytes: usize) {
        let held = self.host_bytes.load(Relaxed);
        debug_assert!(bytes <= held, "{bytes} bytes released, {held} are held");
        self.host_bytes.store(held.saturating_sub(bytes), Relaxed);
    }

    /// Bytes of host memory that are held.
    pub(crate) fn host_bytes(&self) -> usize {
        self.host_bytes.load(Relaxed)
    }

    /// Bytes of host memory that may still be held.
    pub(crate) fn host_bytes_left(&self) -> usize {
        self.host_bytes_max - self.host_bytes()
    }

    /// Maximum number of bytes of host memory that were held at one time.
    pub(crate) fn host_bytes_peak(&self) -> usize {
        self.host_bytes_peak.load(Relaxed)
    }
}
