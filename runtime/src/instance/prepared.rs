//! [`Prepared`]: a module linked to the host and checked against a region, ready to be
//! instantiated.

use super::handle::Instance;
use super::limited::nanoseconds;
use crate::call::{Func, HostState, TypedFunc};
use crate::error::{CallError, FuelError, InstantiateError, LinkError};
use crate::linker::Linker;
use crate::linker::resolve::check_memory;
use crate::memory::{SharedImports, SharedMemory};
use crate::module::Module;
use crate::region::{Region, Slot, TakeError, WaitLimit};
use crate::stop::Bounds;
use crate::store::member::Member;
use crate::store::preparation::{Preparation, Share};
use crate::store::usage::Measure;
use crate::sys;
use crate::value::typed::{FlatParams, FlatResult, Params, Results};
use core::convert::Infallible;
use pirn_format::types::ExternType;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A module linked to the host and checked against a region.
///
/// All link errors and size errors are reported before a value of this type exists, so before the
/// first request.
#[derive(Debug)]
pub struct Prepared<T, Q = Infallible, A = Infallible> {
    shares: Shares<HostState<T, Q, A>>,
    /// The limits of an instance's start.
    start: Bounds,
    /// The initial fuel of instances; `None` for the maximum.
    fuel: Option<u64>,
    /// The function that each instance calls at the end of its start, if any.
    first: Option<TypedFunc<(), ()>>,
    /// Shared memories that replace the linker's shared memories, if any.
    memories: Option<Arc<SharedImports>>,
    /// How instances are measured; `None` if they are not measured.
    pub(crate) measure: Option<Measure>,
}

/// One share per thread, see [`Share`].
type Shares<S> = Arc<[Arc<Share<S>>]>;

impl<T, Q, A> Clone for Prepared<T, Q, A> {
    fn clone(&self) -> Self {
        Self {
            shares: Arc::clone(&self.shares),
            start: self.start,
            fuel: self.fuel,
            first: self.first,
            memories: self.memories.clone(),
            measure: self.measure,
        }
    }
}

impl Region {
    /// Links a module to the host's functions and memories, and checks that it fits into a slot.
    ///
    /// # Errors
    ///
    /// [`LinkError::Missing`] and [`LinkError::Mismatch`] for imports; [`LinkError::Limit`] if the
    /// module does not fit.
    pub fn prepare<T: 'static, Q: 'static, A: 'static>(
        &self,
        module: &Module,
        linker: &Linker<T, Q, A>,
    ) -> Result<Prepared<T, Q, A>, LinkError> {
        let inner = Preparation::new(module, self, linker)?;
        Ok(Prepared {
            shares: Share::split(inner).into(),
            start: Bounds::default(),
            fuel: None,
            first: None,
            memories: None,
            measure: None,
        })
    }
}

impl<T, Q, A> Prepared<T, Q, A> {
    /// The share of this thread.
    #[inline]
    fn share(&self) -> &Arc<Share<HostState<T, Q, A>>> {
        // The number of shares is a power of two.
        &self.shares[sys::thread::number() & (self.shares.len() - 1)]
    }

    /// The module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.share().module
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.share().region
    }

    /// The exported function `name`.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function; [`LinkError::FuncType`] if its type
    /// does not match `P` and `R`.
    pub fn func<P: Params, R: Results>(&self, name: &str) -> Result<TypedFunc<P, R>, LinkError> {
        let share = self.share();
        TypedFunc::find(&share.module, share.id, name)
    }

    /// The exported function `name`, whose parameters and result are numbers of types that are
    /// known only when the module is opened.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function; [`LinkError::FuncType`] if it has a
    /// parameter or result that is no number, more than 17 parameters, or more than one result.
    pub fn func_flat(&self, name: &str) -> Result<TypedFunc<FlatParams, FlatResult>, LinkError> {
        let share = self.share();
        TypedFunc::find_flat(&share.module, share.id, name)
    }

    /// The exported function `name`, for calls with untyped values.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function.
    pub fn func_values(&self, name: &str) -> Result<Func, LinkError> {
        let share = self.share();
        Func::find(&share.module, share.id, name)
    }

    /// A copy of this preparation that limits the wall time of each instance's start.
    ///
    /// A start makes constant values, fills large tables, writes segments that are not prepared in
    /// advance, and runs the start function. Without this limit, only the kill switch of a
    /// [`Group`](crate::Group) stops a start function that loops.
    #[must_use]
    pub fn start_deadline(&self, limit: Duration) -> Self {
        let mut limited = self.clone();
        limited.start.wall_ns = Some(nanoseconds(limit));
        limited
    }

    /// A copy of this preparation whose instances begin with `fuel` units of fuel.
    ///
    /// The module's start function uses that fuel first. Calls have the rest of the fuel, until
    /// [`Instance::set_fuel`] sets another amount.
    ///
    /// # Errors
    ///
    /// [`FuelError::NotCounted`] if the module was compiled without `aotc --fuel`.
    pub fn start_fuel(&self, fuel: u64) -> Result<Self, FuelError> {
        if !self.module().counts_fuel() {
            return Err(FuelError::NotCounted);
        }
        let mut limited = self.clone();
        limited.fuel = Some(fuel);
        Ok(limited)
    }

    /// A copy of this preparation whose instances call the exported function `name` at the end of
    /// their start, before the embedder has them.
    ///
    /// Use the function for work that each instance of a [snapshot](Instance::snapshot) must
    /// repeat, above all to draw a new seed of random numbers. The function shares the
    /// [fuel](Self::start_fuel) of the start function. A [`start_deadline`](Self::start_deadline)
    /// limits each of the two anew. Like a start function, the function cannot call async host
    /// functions or ask questions. Members of a [`Group`](crate::Group) do not call the function. A
    /// later `call_first` replaces the function.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function, and [`LinkError::FuncType`] if it has
    /// parameters or results.
    pub fn call_first(&self, name: &str) -> Result<Self, LinkError> {
        let mut other = self.clone();
        other.first = Some(self.func(name)?);
        Ok(other)
    }

    /// A copy of this preparation whose instances import `memory` instead of the linker's shared
    /// memory.
    ///
    /// So the instances of one request can share a memory, and the module need not be prepared
    /// again. The start of each instance writes its active data segments, as the specification
    /// requires. Toolchains use passive segments for modules that are instantiated more than once.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoImport`] if the module imports no memory of that name;
    /// [`LinkError::Mismatch`] if `memory` does not have the type that the module imports.
    pub fn with_memory(
        &self,
        module: &str,
        name: &str,
        memory: &SharedMemory,
    ) -> Result<Self, LinkError> {
        let share = self.share();
        let mut memories = match &self.memories {
            Some(memories) => SharedImports::clone(memories),
            None => share.imports.shared.clone(),
        };
        let metadata = share.module.metadata();
        let all = metadata.imports.iter();
        let all = all.filter(|import| matches!(import.ty, ExternType::Memory(_)));
        let mut found = false;
        for (index, import) in all.enumerate() {
            if (import.module.as_str(), import.name.as_str()) == (module, name) {
                check_memory(metadata, import, memory)?;
                memories.replace(index, memory);
                found = true;
            }
        }
        if !found {
            return Err(LinkError::NoImport {
                import: format!("{module}.{name}"),
            });
        }
        let mut other = self.clone();
        other.memories = Some(Arc::new(memories));
        Ok(other)
    }

    /// A copy of this preparation whose instances measure their usage, for
    /// [`Instance::usage`](crate::Instance::usage). See [`Measure`] for the costs.
    #[must_use]
    pub fn measured(&self, measure: Measure) -> Self {
        // Create the entries now, so that the first instantiation does not create them.
        let _ = self.share().hosts.counting_entries();
        let mut measured = self.clone();
        measured.measure = Some(measure);
        measured
    }

    /// Makes an instance: takes a slot, and runs the module's start. If all slots are taken, the
    /// thread waits in a queue.
    ///
    /// # Errors
    ///
    /// [`InstantiateError::Start`] if a segment does not fit, or the start function or the function
    /// of [`call_first`](Self::call_first) does not return; [`InstantiateError::System`] and
    /// [`InstantiateError::Thread`] if the system refuses memory.
    pub fn instantiate(&self, data: T) -> Result<Instance<T, Q, A>, InstantiateError> {
        self.make(WaitLimit::Forever, data)
    }

    /// Makes an instance, or fails at once if all slots are taken.
    ///
    /// # Errors
    ///
    /// As [`instantiate`](Self::instantiate), and [`InstantiateError::Full`].
    pub fn try_instantiate(&self, data: T) -> Result<Instance<T, Q, A>, InstantiateError> {
        self.make(WaitLimit::No, data)
    }

    /// Makes an instance. If all slots are taken, the thread waits in a queue, at most for
    /// `timeout`.
    ///
    /// # Errors
    ///
    /// As [`instantiate`](Self::instantiate), and [`InstantiateError::Timeout`].
    pub fn instantiate_timeout(
        &self,
        data: T,
        timeout: Duration,
    ) -> Result<Instance<T, Q, A>, InstantiateError> {
        // A time that cannot be represented is never reached.
        let until = Instant::now()
            .checked_add(timeout)
            .map_or(WaitLimit::Forever, WaitLimit::Until);
        self.make(until, data).map_err(|error| match error {
            InstantiateError::Full { slots } => InstantiateError::Timeout {
                slots,
                waited: timeout,
            },
            other => other,
        })
    }

    /// Makes an instance. If all slots are taken, the future waits in a queue and blocks no thread.
    ///
    /// The module's start runs on the thread that polls the future, as in
    /// [`instantiate`](Self::instantiate).
    ///
    /// # Errors
    ///
    /// As [`instantiate`](Self::instantiate).
    pub async fn instantiate_async(&self, data: T) -> Result<Instance<T, Q, A>, InstantiateError> {
        // Keep one share: after the wait, the future may run on a thread with another share.
        let share = Arc::clone(self.share());
        let slot = share.region.take_async(&share.module).await;
        let slot = slot.map_err(|error| take_error(&share.region, &share.module, error))?;
        self.fill(&share, slot, data)
    }

    fn make(&self, wait: WaitLimit, data: T) -> Result<Instance<T, Q, A>, InstantiateError> {
        let share = self.share();
        let slot = take(&share.region, &share.module, wait)?;
        self.fill(share, slot, data)
    }

    /// Makes an instance in a slot.
    #[inline(always)]
    fn fill(
        &self,
        share: &Arc<Share<HostState<T, Q, A>>>,
        slot: Slot,
        data: T,
    ) -> Result<Instance<T, Q, A>, InstantiateError> {
        // Write the fields of the instance first. The instance is moved when this function returns,
        // and a move right after a write waits for that write. That wait takes 10 ns (bench
        // `cycle`, null).
        let member = Member::new(slot, Arc::clone(share), self.memories.clone());
        let mut instance = Instance::new(member, data);
        if let Some(measure) = self.measure {
            instance.owner.member.clocks = measure.clocks();
        }
        // The caller may access the memory before any guest runs, and faults need the signal
        // handler.
        sys::signal::prepare_thread().map_err(InstantiateError::Thread)?;
        let member = &mut instance.owner.member;
        member.initialise(0);
        if self.measure.is_some() {
            member.count_usage();
        }
        if let Some(fuel) = self.fuel {
            // `start_fuel` has checked that the module counts fuel.
            let _ = member.set_fuel(fuel);
        }
        if !share.starts() && self.first.is_none() {
            return Ok(instance);
        }
        self.run_start(&mut instance)?;
        Ok(instance)
    }

    /// Runs the module's start, and then the function of [`call_first`](Self::call_first), each
    /// under the limits of a start.
    #[inline(never)]
    fn run_start(&self, instance: &mut Instance<T, Q, A>) -> Result<(), CallError> {
        if instance.owner.member.inner.starts() {
            self.limited(instance, Instance::run_start)?;
        }
        match &self.first {
            None => Ok(()),
            Some(first) => self.limited(instance, |instance| instance.call(first, ())),
        }
    }

    /// Runs a call under the limits of a start.
    fn limited(
        &self,
        instance: &mut Instance<T, Q, A>,
        call: impl FnOnce(&mut Instance<T, Q, A>) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        match self.start.is_none() {
            true => call(instance),
            false => instance.within(self.start, call),
        }
    }
}

/// Takes a slot that holds the module's image.
pub(crate) fn take(
    region: &Region,
    module: &Module,
    wait: WaitLimit,
) -> Result<Slot, InstantiateError> {
    let taken = region.take(module, wait);
    taken.map_err(|error| take_error(region, module, error))
}

fn take_error(region: &Region, module: &Module, error: TakeError) -> InstantiateError {
    match error {
        TakeError::Full => InstantiateError::Full {
            slots: region.limits().slots,
        },
        TakeError::Lost => InstantiateError::Lost {
            slots: region.limits().slots,
        },
        TakeError::System(error) => InstantiateError::System {
            kib: region.writable_bytes(module) >> 10,
            error,
        },
    }
}
