//! [`Instance`]: a module in a slot of its own, with the host's data.

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
pub(crate) mod memory;
pub(crate) mod plan;
pub(crate) mod prepared;
pub(crate) mod step;
pub(crate) mod untyped;
pub(crate) mod usage;

use crate::error::{CallError, Operation};
use crate::host::Store;
use crate::shared::SharedMemory;
use crate::stop::kill::KillSwitch;
use crate::value::typed::{Params, Results, sealed};
use crate::value::{ForeignRef, Value};
use core::convert::Infallible;
use core::time::Duration;
use future::CallAsync;
use limited::Limited;
use member::Member;
use memory::{Memory, MemoryMut};
use pirn_format::metadata::ExportItem;
use prepared::Func;
use step::Suspended;

/// A module in a slot of its own, with the host's data `T`.
///
/// Dropping it resets the slot, which then serves another. It can be dropped on another thread than
/// the one that made it.
#[derive(Debug)]
pub struct Instance<T, Q = Infallible, A = Infallible> {
    member: Member<Store<T, Q, A>>,
    store: Store<T, Q, A>,
    /// The call that can be gone on with, if there is one.
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

    /// Runs what is left of the start.
    pub(crate) fn run_start(&mut self) -> Result<(), CallError> {
        let members = core::slice::from_mut(&mut self.member);
        member::start(members, 0, &mut self.store)
    }

    /// Calls a function.
    ///
    /// After a trap, or an error of a host function, the instance can be called again: what the guest
    /// changed until then stays (spec 4.5.5).
    ///
    /// # Errors
    ///
    /// [`CallError::Trap`] and [`CallError::Host`] if the guest or a host function ended the call;
    /// [`CallError::Invalid`] if the function is not one of this instance's preparation, or a
    /// parameter is a function reference of another instance.
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

    /// Checks that a function is one of this instance, which has no call yet.
    ///
    /// # Errors
    ///
    /// What is wrong.
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

    /// Calls the exported function of a name with values of the types that it has.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); [`CallError::Invalid`] also if there is no such function, or the
    /// values are not of its types.
    pub fn call_values(&mut self, name: &str, params: &[Value]) -> Result<Vec<Value>, CallError> {
        if let Some(call) = &self.suspended {
            return Err(call.refuses(Operation::Call).into());
        }
        let members = core::slice::from_mut(&mut self.member);
        untyped::call(members, 0, name, params, &mut self.store)
    }

    /// Calls a function as a future, on any executor: async host functions
    /// ([`Linker::func_async`](crate::Linker::func_async)) suspend the guest, and the executor's thread does
    /// something else meanwhile.
    ///
    /// Who kills a guest that waits calls the waker, and so does the timer thread, of which there is one, when
    /// its deadline passes: a waker that does more than wake keeps others waiting.
    ///
    /// # Errors
    ///
    /// The future gives them: as [`call`](Self::call).
    pub fn call_async<P: Params, R: Results>(
        &mut self,
        func: &Func<P, R>,
        params: P,
    ) -> CallAsync<'_, T, Q, A, P, R> {
        Limited::new(self).call_async(func, params)
    }

    /// A switch that ends the guest from any thread, from now on until the instance is dropped.
    pub fn kill_switch(&mut self) -> KillSwitch {
        let control = self.member.watch().control();
        if self.is_suspended() {
            control.is_suspended();
        }
        KillSwitch::new(control)
    }

    /// The next call ends with [`CallError::Deadline`] if it has not returned after this wall time. Guest
    /// code is interrupted wherever it is; a host function ends first, and what it gives is lost.
    pub fn deadline(&mut self, limit: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).deadline(limit)
    }

    /// The next call ends with [`CallError::CpuBudget`] once its thread has used this much processor time
    /// for it, as with a [`deadline`](Self::deadline).
    pub fn cpu_budget(&mut self, limit: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).cpu_budget(limit)
    }

    /// A call that is made by [`Limited::start`] or [`Limited::call_async`] is suspended each time that it
    /// has run for this long, wherever it is.
    pub fn timeslice(&mut self, slice: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).timeslice(slice)
    }

    /// Bytes of the host's own memory that are held for the guest: exceptions that it keeps, and what
    /// host functions have counted by [`Caller::hold_host_bytes`](crate::Caller::hold_host_bytes). They
    /// are at most [`RegionBuilder::host_bytes_max`](crate::RegionBuilder::host_bytes_max).
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        self.member.host_bytes()
    }

    /// Memory 0; of no byte if the module has none, or a shared one of the host's
    /// ([`shared_memory`](Self::shared_memory)).
    #[must_use]
    pub fn memory(&self) -> Memory<'_> {
        self.member.memory()
    }

    /// Memory 0, to be changed; of no byte if the module has none.
    pub fn memory_mut(&mut self) -> MemoryMut<'_> {
        self.member.memory_mut()
    }

    /// The exported memory of a name; of a module that has several, any of them that it exports.
    #[must_use]
    pub fn exported_memory(&self, name: &str) -> Option<Memory<'_>> {
        self.member.exported_memory(name)
    }

    /// The exported memory of a name, to be changed.
    pub fn exported_memory_mut(&mut self, name: &str) -> Option<MemoryMut<'_>> {
        self.member.exported_memory_mut(name)
    }

    /// The exported memory of a name, if it is a shared one that the host gave, of which there is no view.
    #[must_use]
    pub fn shared_memory(&self, name: &str) -> Option<&SharedMemory> {
        self.member.exported_shared(name)
    }

    /// The host's data.
    #[must_use]
    pub fn data(&self) -> &T {
        &self.store.data
    }

    /// The host's data, to be changed.
    pub fn data_mut(&mut self) -> &mut T {
        &mut self.store.data
    }

    /// Memory and data at once.
    pub fn split(&mut self) -> (MemoryMut<'_>, &mut T) {
        (self.member.memory_mut(), &mut self.store.data)
    }

    /// Ends the instance and gives back the host's data.
    #[must_use]
    pub fn into_data(self) -> T {
        self.store.data
    }

    /// The value of the exported global of a name, if there is one.
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

/// The error of a parameter that is a reference of another instance.
#[cold]
pub(crate) fn foreign(reference: ForeignRef) -> CallError {
    CallError::Invalid(reference.to_string())
}
