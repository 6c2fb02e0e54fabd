//! [`Usage`]: the resources that an instance or a group has used.
//!
//! # Safety
//!
//! This file owns one fact. The account of an instance is read while its guest does not run.
#![allow(unsafe_code)]

use super::member::Member;
use super::{descriptors, heap};
use crate::account::{Account, Clocks};
use crate::switch::{AccountState, Record};
use core::time::Duration;
use smallvec::SmallVec;

/// The measurements of an instance, for [`Instance::usage`](crate::Instance::usage). Each level
/// includes the level before it.
///
/// The runtime measures only if [`Prepared::measured`](crate::Prepared::measured) or
/// [`Group::measure`](crate::Group::measure) asks for a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Measure {
    /// Counts calls of host functions, and fuel. Each call of a host function needs a few more
    /// instructions. A call of the guest needs no more instructions.
    Counters,
    /// Also measures the wall time of calls, running and suspended. Each call or step reads the
    /// monotonic clock twice, which on most machines needs no system call.
    WallTime,
    /// Also measures the processor time of calls. Each call or step reads the clock of the thread
    /// twice, which is a system call.
    CpuTime,
}

impl Measure {
    /// The clocks that the runtime reads for calls.
    pub(crate) fn clocks(self) -> Clocks {
        match self {
            Self::Counters => Clocks::None,
            Self::WallTime => Clocks::Wall,
            Self::CpuTime => Clocks::WallAndCpu,
        }
    }
}

/// The resources that an instance, or the instances of a group, have used so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Processor time of calls, with their host functions. This time does not include the futures
    /// of async host functions. Needs [`Measure::CpuTime`].
    pub cpu_time: Option<Duration>,
    /// Wall time of calls, with their host functions, without `suspended_time`. A guest that waits
    /// on its thread (`memory.atomic.wait32` in a plain call) counts as running. Needs
    /// [`Measure::WallTime`].
    pub running_time: Option<Duration>,
    /// Wall time of suspended calls: calls that asked, were preempted, or waited for an async host
    /// function. Needs [`Measure::WallTime`].
    pub suspended_time: Option<Duration>,
    /// Used fuel, if the modules count fuel. Needs [`Measure::Counters`].
    pub fuel: Option<u64>,
    /// Number of calls of host functions. Needs [`Measure::Counters`].
    pub host_calls: Option<u64>,
    /// Pages of 4 KiB of memory 0 whose bytes differ from their initial bytes. `None` unless slots
    /// are [tracked](crate::Reset::Tracked). Also `None` if more than 1,024 pages were written to,
    /// and in a fork.
    pub pages_written: Option<u64>,
    /// Bytes that the guest has read through functions that count them
    /// ([`Caller::count_io`](crate::Caller::count_io)), such as WASI functions.
    pub bytes_read: u64,
    /// Bytes that the guest has written through functions that count them.
    pub bytes_written: u64,
    /// Maximum size of all structs and arrays together, in bytes.
    pub heap_bytes_peak: u64,
    /// Bytes of the host's own memory that are held for the guest.
    pub host_bytes: usize,
    /// Maximum number of bytes of the host's own memory that were held at one time.
    pub host_bytes_peak: usize,
    memory_bytes_peak: SmallVec<[u64; 2]>,
}

/// Whether written pages are compared with their initial bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    Compared,
    Skipped,
}

impl Usage {
    /// Maximum size in bytes of each memory that the module defines, in the order of the module.
    /// Memories only grow, so the maximum size is the current size.
    #[must_use]
    pub fn memory_bytes_peak(&self) -> &[u64] {
        &self.memory_bytes_peak
    }

    /// The usage of members that share an account.
    pub(crate) fn of<T>(members: &[Member<T>], pages: Pages) -> Self {
        let mut usage = Self {
            pages_written: (pages == Pages::Compared).then_some(0),
            ..Self::default()
        };
        let mut fuel_left = None;
        for member in members {
            let first = member.inner.module.imported().memories;
            for index in first..member.inner.module.metadata().memories.len() as u32 {
                // SAFETY: the descriptor belongs to a memory of an initialised instance.
                let bytes = unsafe { descriptors::bytes_of(descriptors::memory(member, index)) };
                usage.memory_bytes_peak.push(bytes);
            }
            usage.heap_bytes_peak += size_of_val(heap::words(member)) as u64;
            let (region, module) = (&member.inner.region, &member.inner.module);
            if let Some(sum) = usage.pages_written {
                let pages = member.slot.pages_changed(region, module);
                usage.pages_written = pages.map(|n| sum + n);
            }
            if let Some(left) = member.fuel() {
                fuel_left = Some(fuel_left.unwrap_or(0_u64).wrapping_add(left));
            }
        }
        let Some(first) = members.first() else {
            return usage;
        };
        // SAFETY: `vmctx` is an initialised context, and its guest does not run. The member keeps
        // its region alive.
        let (account, is_measured) = unsafe {
            let state = (*Record::of(first.vmctx())).account_state;
            let is_measured = state == AccountState::StaleMeasured;
            (Record::open_account(first.vmctx()), is_measured)
        };
        if let Some(account) = account {
            usage.read(account, first.clocks, fuel_left);
        } else if is_measured {
            let nothing = Account::new(0);
            nothing.measure();
            usage.read(&nothing, first.clocks, fuel_left);
        }
        usage
    }

    /// Copies the counters of the account.
    fn read(&mut self, account: &Account, clocks: Clocks, fuel_left: Option<u64>) {
        self.bytes_read = account.bytes_read.get();
        self.bytes_written = account.bytes_written.get();
        self.host_bytes = account.host_bytes();
        self.host_bytes_peak = account.host_bytes_peak();
        if account.is_measured() {
            self.host_calls = Some(account.host_calls.get());
            self.fuel = fuel_left.map(|left| account.fuel_given.get().wrapping_sub(left));
        }
        if clocks != Clocks::None {
            let running = Duration::from_nanos(account.running_ns.get());
            self.running_time = Some(running);
            self.suspended_time = Some(Duration::from_nanos(account.suspended_ns()));
        }
        if clocks == Clocks::WallAndCpu {
            self.cpu_time = Some(Duration::from_nanos(account.cpu_ns.get()));
        }
    }
}

impl<T> Member<T> {
    /// Measures the usage of the instance from now on.
    pub(crate) fn measure(&mut self, measure: Measure) {
        self.clocks = measure.clocks();
        self.count_usage();
    }

    /// Counts the usage of the instance from now on. The field `clocks` selects the times to
    /// measure.
    #[inline]
    pub(crate) fn count_usage(&mut self) {
        // SAFETY: `vmctx` is an initialised context, and its guest does not run. The member keeps
        // its region alive.
        unsafe { Record::measure(self.vmctx()) };
        let entries = self.inner.hosts.counting_entries();
        // SAFETY: the record belongs to an initialised context, and the preparation keeps the
        // entries alive.
        let before = unsafe { core::mem::replace(&mut (*Record::of(self.vmctx())).hosts, entries) };
        if let Some(left) = self.fuel().filter(|_| before != entries) {
            self.account().fuel_given.add(left);
        }
    }
}
