//! [`Instance`]: a module in its own slot, with the host's data.

pub(crate) mod builtin;
pub(crate) mod bulk;
pub(crate) mod constant;
pub(crate) mod exception;
pub(crate) mod exit;
pub(crate) mod fuel;
pub(crate) mod future;
pub(crate) mod group;
pub(crate) mod heap;
pub(crate) mod imports;
pub(crate) mod limited;
pub(crate) mod member;
pub(crate) mod plan;
pub(crate) mod prepared;
pub(crate) mod step;
pub(crate) mod untyped;
pub(crate) mod usage;

use crate::error::{CallError, Operation};
use crate::host::Store;
use crate::memory::SharedMemory;
use crate::memory::{Memory, MemoryMut};
use crate::stop::kill::KillSwitch;
use crate::value::typed::{Params, Results, sealed};
use crate::value::{ForeignRef, Value};
use core::convert::Infallible;
use core::time::Duration;
use future::CallAsync;
use limited::Limited;
use member::Member;
use pirn_format::metadata::ExportItem;
use prepared::Func;
use step::Suspended;

/// A module in its own slot, with the host's data `T`.
///
/// Dropping an instance resets its slot, which then serves another instance. An instance can be
/// dropped on a thread other than the one that made it.
#[derive(Debug)]
pub struct Instance<T, Q = Infallible, A = Infallible> {
    member: Member<Store<T, Q, A>>,
    store: Store<T, Q, A>,
    /// The suspended call, if there is one.
    suspended: Option<Suspended>,
}

impl<T, Q, A> Instance<T, Q, A> {
    #[inline(always)]
    pub(crate) fn new(member: Member<Store<T, Q, A>>, data: T) -> Self {
        Self {
            member,
            store: Store::new(data),
            suspended: None,
        }
    }

    /// Runs the rest of the start: see [`member::start`].
    pub(crate) fn run_start(&mut self) -> Result<(), CallError> {
        let members = core::slice::from_mut(&mut self.member);
        member::start(members, 0, &mut self.store)
    }

    /// Calls a function.
    ///
    /// The instance can be called again after a trap or an error of a host function. The changes
    /// that the guest has made until then stay (spec 4.5.5).
    ///
    /// # Errors
    ///
    /// [`CallError::Trap`] if the guest trapped; [`CallError::Host`] if a host function returned an
    /// error; [`CallError::Invalid`] if the function comes from another preparation, or if a
    /// parameter is a reference of another instance.
    pub fn call<P: Params, R: Results>(
        &mut self,
        func: &Func<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        self.check(func, Operation::Call)?;
        let (count, stamp) = (func.cells(), self.member.stamp(func.needs_stamp()));
        sealed::List::store(params, self.member.cells(count), stamp).map_err(foreign)?;
        let target = func.target(self.member.vmctx());
        let members = core::slice::from_mut(&mut self.member);
        exit::run(members, 0, target, count, &mut self.store)?;
        Ok(<R as sealed::List>::load(self.member.cells(count), stamp))
    }

    /// Checks that a function belongs to this instance's preparation, and that no call is
    /// suspended.
    ///
    /// # Errors
    ///
    /// [`CallError::Invalid`] or [`CallError::State`] if one of these conditions does not hold.
    #[inline]
    fn check<P, R>(&self, func: &Func<P, R>, operation: Operation) -> Result<(), CallError> {
        if func.prepared != self.member.inner.id {
            return Err(looked_up_elsewhere());
        }
        match &self.suspended {
            None => Ok(()),
            Some(call) => Err(call.refuses(operation).into()),
        }
    }

    /// Calls the exported function `name` with values of its parameter types.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); also [`CallError::Invalid`] if there is no such function, or if the
    /// values do not have its parameter types.
    pub fn call_values(&mut self, name: &str, params: &[Value]) -> Result<Vec<Value>, CallError> {
        if let Some(call) = &self.suspended {
            return Err(call.refuses(Operation::Call).into());
        }
        let members = core::slice::from_mut(&mut self.member);
        untyped::call(members, 0, name, params, &mut self.store)
    }

    /// Calls a function as a future, on any executor.
    ///
    /// Async host functions ([`Linker::func_async`](crate::Linker::func_async)) suspend the guest.
    /// Meanwhile the executor's thread can run other tasks.
    ///
    /// A kill of a waiting guest calls the task's waker on the thread that kills. A deadline calls
    /// it on the timer thread, of which there is one. So a waker that does more than wake delays
    /// others.
    ///
    /// # Errors
    ///
    /// The future returns errors as [`call`](Self::call) does.
    pub fn call_async<P: Params, R: Results>(
        &mut self,
        func: &Func<P, R>,
        params: P,
    ) -> CallAsync<'_, T, Q, A, P, R> {
        Limited::new(self).call_async(func, params)
    }

    /// A switch that ends the guest's calls from any thread, until the instance is dropped.
    pub fn kill_switch(&mut self) -> KillSwitch {
        let control = self.member.watch().control();
        if self.is_suspended() {
            control.is_suspended();
        }
        KillSwitch::new(control)
    }

    /// Limits the wall time of the next call: after that time it ends with [`CallError::Deadline`].
    ///
    /// Guest code is interrupted at any instruction. A host function first runs to its end, and its
    /// result is discarded.
    pub fn deadline(&mut self, limit: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).deadline(limit)
    }

    /// Limits the processor time of the next call: after that time it ends with
    /// [`CallError::CpuBudget`].
    ///
    /// The limit counts the processor time that the call's thread uses for it. The guest is
    /// interrupted as by a [`deadline`](Self::deadline).
    pub fn cpu_budget(&mut self, limit: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).cpu_budget(limit)
    }

    /// Suspends the next call each time that it has run for this long, at any instruction.
    ///
    /// This applies to calls by [`Limited::start`] and [`Limited::call_async`].
    pub fn timeslice(&mut self, slice: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).timeslice(slice)
    }

    /// Bytes of the host's own memory that are held for the guest.
    ///
    /// They hold exceptions that the guest keeps. They include the bytes that host functions have
    /// counted by [`Caller::hold_host_bytes`](crate::Caller::hold_host_bytes). The maximum is
    /// [`RegionBuilder::host_bytes_max`](crate::RegionBuilder::host_bytes_max).
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        self.member.host_bytes()
    }

    /// Memory 0. It is empty if the module has none, or if it is a shared memory of the host
    /// ([`shared_memory`](Self::shared_memory)).
    #[must_use]
    pub fn memory(&self) -> Memory<'_> {
        self.member.memory()
    }

    /// Memory 0, mutable; empty if the module has none.
    pub fn memory_mut(&mut self) -> MemoryMut<'_> {
        self.member.memory_mut()
    }

    /// The exported memory `name`. This works for every exported memory of a module.
    #[must_use]
    pub fn exported_memory(&self, name: &str) -> Option<Memory<'_>> {
        self.member.exported_memory(name)
    }

    /// The exported memory `name`, mutable.
    pub fn exported_memory_mut(&mut self, name: &str) -> Option<MemoryMut<'_>> {
        self.member.exported_memory_mut(name)
    }

    /// The exported memory `name`, if it is a shared memory from the host. Such a memory has no
    /// view.
    #[must_use]
    pub fn shared_memory(&self, name: &str) -> Option<&SharedMemory> {
        self.member.exported_shared(name)
    }

    /// The host's data.
    #[must_use]
    pub fn data(&self) -> &T {
        &self.store.data
    }

    /// The host's data, mutable.
    pub fn data_mut(&mut self) -> &mut T {
        &mut self.store.data
    }

    /// Mutable borrows of memory 0 and of the host's data at the same time.
    pub fn split(&mut self) -> (MemoryMut<'_>, &mut T) {
        (self.member.memory_mut(), &mut self.store.data)
    }

    /// Ends the instance and returns the host's data.
    #[must_use]
    pub fn into_data(self) -> T {
        self.store.data
    }

    /// The value of the exported global `name`, if there is one.
    #[must_use]
    pub fn global(&mut self, name: &str) -> Option<Value> {
        let item = self.member.inner.module.metadata().export(name)?;
        match item {
            ExportItem::Global(index) => Some(self.member.global(index)),
            _ => None,
        }
    }
}

#[cold]
fn looked_up_elsewhere() -> CallError {
    CallError::Invalid(
        "function was looked up in another preparation than the instance is of; look it up where the \
         instance came from"
            .to_owned(),
    )
}

/// The error for a parameter that is a reference of another instance.
#[cold]
pub(crate) fn foreign(reference: ForeignRef) -> CallError {
    CallError::Invalid(reference.to_string())
}
