//! [`Account`]: the host memory that is held for one instance, and what the instance has used.
//!
//! Each slot of a region has one account. An instance opens the account of its slot when something is
//! first counted, which clears it: an instance that uses nothing of what is counted never touches it.
//! The instances of a group share the account of the first.

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
    "the guest needs {asked} more bytes of host memory, and {held} of at most {limit} are held; raise \
     `host_bytes_max`"
)]
#[non_exhaustive]
pub struct HostBytesError {
    /// Bytes that the host holds for the guest.
    pub held: usize,
    /// Bytes that it was asked to hold in addition.
    pub asked: usize,
    /// Most bytes that it may hold.
    pub limit: usize,
}

/// What is counted for one instance, or for the instances of one group.
///
/// The fields are atomic because a call may continue on another thread, not because threads count at
/// the same time: whoever counts has borrowed the instance. So a count is a load and a store.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Account {
    /// Most bytes that may be held.
    host_bytes_max: usize,
    /// Bytes that are held now.
    host_bytes: AtomicUsize,
    /// Most bytes that were held at a time.
    host_bytes_peak: AtomicUsize,
    /// Bytes that the guest has read from files, streams and sockets.
    pub(crate) bytes_read: Count,
    /// Bytes that the guest has written there.
    pub(crate) bytes_written: Count,
    /// Whether the following counts are kept.
    is_measured: AtomicBool,
    /// Calls of host functions.
    pub(crate) host_calls: Count,
    /// Sum of all fuel that was given less what was left then, modulo 2^64.
    pub(crate) fuel_given: Count,
    /// Wall time of calls in nanoseconds, but for the time while they were suspended.
    pub(crate) running_ns: Count,
    /// Processor time of calls.
    pub(crate) cpu_ns: Count,
    /// Wall time while calls were suspended.
    suspended_ns: Count,
    /// When the call that is suspended was; 0 if none is.
    suspended_since_ns: Count,
}

/// A number that is counted up.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Relaxed);
    }

    /// The number.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn set(&self, number: u64) {
        self.0.store(number, Relaxed);
    }
}

/// Which clocks are read when a call of an instance begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// None.
    None,
    /// The monotonic one.
    Wall,
    /// The monotonic one, and that of the thread's processor time.
    WallAndCpu,
}

/// The times of a call, or of a step of one, while it runs.
#[derive(Debug)]
pub(crate) struct Stopwatch<'a> {
    account: &'a Account,
    begun_ns: u64,
    /// Processor time of the thread at the beginning, if it is measured.
    cpu_ns: Option<u64>,
}

impl<'a> Stopwatch<'a> {
    /// Begins to measure. A call that was suspended no longer is.
    pub(crate) fn start(account: &'a Account, clocks: Clocks) -> Self {
        let begun_ns = clock::now_ns();
        account.end_suspension(begun_ns);
        let cpu = (clocks == Clocks::WallAndCpu).then(clock::thread_cpu_ns);
        Self {
            account,
            begun_ns,
            cpu_ns: cpu,
        }
    }

    /// Adds what was measured, and notes whether the call is suspended from now on.
    pub(crate) fn stop(self, is_suspended: bool) {
        let account = self.account;
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
    /// An account under which at most so many bytes of host memory are held.
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

    /// Clears what the last instance of the slot has left.
    pub(crate) fn clear(&self) {
        self.host_bytes.store(0, Relaxed);
        self.host_bytes_peak.store(0, Relaxed);
        self.bytes_read.set(0);
        self.bytes_written.set(0);
        self.is_measured.store(false, Relaxed);
    }

    /// Counts from now on what is only counted on request.
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

    /// Whether that is counted.
    pub(crate) fn is_measured(&self) -> bool {
        self.is_measured.load(Relaxed)
    }

    /// A call that is suspended no longer is, now.
    pub(crate) fn end_suspension(&self, now_ns: u64) {
        let since = self.suspended_since_ns.get();
        if since != 0 {
            self.suspended_ns.add(now_ns.saturating_sub(since));
            self.suspended_since_ns.set(0);
        }
    }

    /// Wall time while calls were suspended, in nanoseconds, up to now.
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
    /// [`HostBytesError`] if the sum would exceed the limit: nothing is counted then.
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

    /// The error of holding `asked` bytes more.
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

    /// Most bytes of host memory that were held at a time.
    pub(crate) fn host_bytes_peak(&self) -> usize {
        self.host_bytes_peak.load(Relaxed)
    }
}
