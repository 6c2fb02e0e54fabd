//! [`Instance`]: a module in a slot of its own, with the host's data.

pub(crate) mod builtin;
pub(crate) mod constant;
pub(crate) mod exit;
pub(crate) mod group;
pub(crate) mod imports;
pub(crate) mod limited;
pub(crate) mod member;
pub(crate) mod memory;
pub(crate) mod plan;
pub(crate) mod prepared;
pub(crate) mod untyped;

use crate::error::CallError;
use crate::stop::kill::KillSwitch;
use crate::value::typed::{Params, Results, sealed};
use crate::value::{ForeignRef, Value};
use core::time::Duration;
use limited::Limited;
use member::Member;
use memory::{Memory, MemoryMut};
use pirn_format::metadata::ExportItem;
use prepared::Func;

/// A module in a slot of its own, with the host's data `T`.
///
/// Dropping it resets the slot, which then serves another. It can be dropped on another thread than
/// the one that made it.
#[derive(Debug)]
pub struct Instance<T> {
    member: Member<T>,
    data: T,
}

impl<T> Instance<T> {
    pub(crate) fn new(member: Member<T>, data: T) -> Self {
        Self { member, data }
    }

    /// Runs what is left of the start.
    pub(crate) fn start(&mut self) -> Result<(), CallError> {
        member::start(core::slice::from_mut(&mut self.member), 0, &mut self.data)
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
        if func.prepared != self.member.inner.id {
            return Err(looked_up_elsewhere());
        }
        let (parameters, results) = (
            <P as sealed::List>::TYPES.len(),
            <R as sealed::List>::TYPES.len(),
        );
        let count = parameters.max(results);
        let needs_stamp = <P as sealed::List>::NEEDS_STAMP || <R as sealed::List>::NEEDS_STAMP;
        let stamp = self.member.stamp(needs_stamp);
        sealed::List::store(params, self.member.cells(count), stamp).map_err(foreign)?;
        let target = func.target(self.member.vmctx());
        let members = core::slice::from_mut(&mut self.member);
        exit::run(members, 0, target, count, &mut self.data)?;
        Ok(<R as sealed::List>::load(self.member.cells(count), stamp))
    }

    /// Calls the exported function of a name with values of the types that it has.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); [`CallError::Invalid`] also if there is no such function, or the
    /// values are not of its types.
    pub fn call_values(&mut self, name: &str, params: &[Value]) -> Result<Vec<Value>, CallError> {
        let members = core::slice::from_mut(&mut self.member);
        untyped::call(members, 0, name, params, &mut self.data)
    }

    /// A switch that ends the guest from any thread, from now on until the instance is dropped.
    pub fn kill_switch(&mut self) -> KillSwitch {
        KillSwitch::new(self.member.watch().control())
    }

    /// The next call ends with [`CallError::Deadline`] if it has not returned after this wall time. Guest
    /// code is interrupted wherever it is; a host function ends first, and what it gives is lost.
    pub fn deadline(&mut self, limit: Duration) -> Limited<'_, T> {
        Limited::new(self).deadline(limit)
    }

    /// The next call ends with [`CallError::CpuBudget`] once its thread has used this much processor time
    /// for it, as with a [`deadline`](Self::deadline).
    pub fn cpu_budget(&mut self, limit: Duration) -> Limited<'_, T> {
        Limited::new(self).cpu_budget(limit)
    }

    /// Memory 0; of no byte if the module has none.
    #[must_use]
    pub fn memory(&self) -> Memory<'_> {
        self.member.memory()
    }

    /// Memory 0, to be changed; of no byte if the module has none.
    pub fn memory_mut(&mut self) -> MemoryMut<'_> {
        self.member.memory_mut()
    }

    /// The host's data.
    #[must_use]
    pub fn data(&self) -> &T {
        &self.data
    }

    /// The host's data, to be changed.
    pub fn data_mut(&mut self) -> &mut T {
        &mut self.data
    }

    /// Memory and data at once.
    pub fn split(&mut self) -> (MemoryMut<'_>, &mut T) {
        (self.member.memory_mut(), &mut self.data)
    }

    /// Ends the instance and gives back the host's data.
    #[must_use]
    pub fn into_data(self) -> T {
        self.data
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
