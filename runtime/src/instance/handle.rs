//! [`Instance`]: a module in its own slot, with the host's data.

use super::callee::Callee;
use super::suspended::Suspended;
use crate::call::TypedFunc;
use crate::call::{Func, HostState, Wanted, enter, global, start, untyped};
use crate::error::{CallError, FuelError, LinkError, Operation, SetGlobalError};
use crate::memory::{Memory, MemoryMut, SharedMemory};
use crate::stop::kill::KillSwitch;
use crate::store::member::Member;
use crate::store::usage::{Pages, Usage};
use crate::value::typed::{Params, Results};
use crate::value::{FuncRef, Value};
use core::convert::Infallible;
use pirn_format::metadata::ExportItem;

/// A module in its own slot, with the host's data `T`.
///
/// Dropping an instance resets its slot, which then serves another instance. Another thread than
/// the maker of an instance can drop the instance.
#[derive(Debug)]
pub struct Instance<T, Q = Infallible, A = Infallible> {
    pub(crate) member: Member<HostState<T, Q, A>>,
    pub(crate) store: HostState<T, Q, A>,
    /// The suspended call, if there is one.
    pub(crate) suspended: Option<Suspended>,
}

impl<T, Q, A> Instance<T, Q, A> {
    #[inline(always)]
    pub(crate) fn new(member: Member<HostState<T, Q, A>>, data: T) -> Self {
        Self {
            member,
            store: HostState::new(data),
            suspended: None,
        }
    }

    /// Borrows the instance for a call in steps or by a future.
    #[inline(always)]
    pub(super) fn callee(&mut self) -> Callee<'_, T, Q, A> {
        Callee {
            members: core::slice::from_mut(&mut self.member),
            root: 0,
            store: &mut self.store,
            suspended: &mut self.suspended,
            group_watch: None,
        }
    }

    /// Runs the rest of the start: see [`start::start`].
    pub(crate) fn run_start(&mut self) -> Result<(), CallError> {
        let members = core::slice::from_mut(&mut self.member);
        start::start(members, 0, &mut self.store)
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
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        self.callee().begin(func, params)?;
        let target = func.target(self.member.vmctx());
        let members = core::slice::from_mut(&mut self.member);
        enter::run(members, 0, target, func.cells(), &mut self.store)?;
        Ok(func.load(&mut self.member))
    }

    /// Calls the exported function `name` with values of its parameter types.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); also [`CallError::Invalid`] if there is no such function, or if the
    /// values do not have its parameter types.
    pub fn call_values(&mut self, name: &str, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.call_untyped(Wanted::Export(name), params)
    }

    /// The exported function `name`, for [`call_func`](Self::call_func).
    ///
    /// The [`Func`] serves all instances of the preparation, like a [`Func`] from
    /// [`Prepared::func_values`](crate::Prepared::func_values).
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function.
    pub fn func_values(&self, name: &str) -> Result<Func, LinkError> {
        let inner = &self.member.inner;
        Func::find(&inner.module, inner.id, name)
    }

    /// The function that a reference of the guest refers to, for [`call_func`](Self::call_func).
    ///
    /// The reference belongs to one instance, but the [`Func`] serves all instances of the
    /// preparation.
    ///
    /// # Errors
    ///
    /// [`CallError::Invalid`] with [`InvalidCall::ForeignRef`](crate::InvalidCall::ForeignRef) for
    /// a reference of another instance.
    pub fn func_of(&self, reference: FuncRef) -> Result<Func, CallError> {
        let members = core::slice::from_ref(&self.member);
        Func::referred(members, reference).map(|(_, func)| func)
    }

    /// Calls a function with values of its parameter types.
    ///
    /// # Errors
    ///
    /// As [`call_values`](Self::call_values), but [`CallError::Invalid`] with
    /// [`InvalidCall::OtherPreparation`](crate::InvalidCall::OtherPreparation) for a function of
    /// another preparation.
    pub fn call_func(&mut self, func: &Func, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.call_untyped(Wanted::Func(func), params)
    }

    /// Calls the function that a reference of the guest refers to.
    ///
    /// # Errors
    ///
    /// As [`func_of`](Self::func_of) and [`call_func`](Self::call_func).
    pub fn call_ref(
        &mut self,
        reference: FuncRef,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        self.call_untyped(Wanted::Reference(reference), params)
    }

    fn call_untyped(
        &mut self,
        wanted: Wanted<'_>,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        Suspended::none(self.suspended.as_ref(), Operation::Call)?;
        let members = core::slice::from_mut(&mut self.member);
        untyped::call(members, 0, wanted, params, &mut self.store)
    }

    /// A switch that ends the guest's calls from any thread, until the instance is dropped.
    pub fn kill_switch(&mut self) -> KillSwitch {
        let control = self.member.watch().control();
        if self.is_suspended() {
            control.is_suspended();
        }
        KillSwitch::new(control)
    }

    /// Bytes of the host's own memory that are held for the guest.
    ///
    /// These bytes include exceptions that the guest keeps, and the bytes that host functions have
    /// counted by [`Caller::hold_host_bytes`](crate::Caller::hold_host_bytes). Their maximum is
    /// [`RegionBuilder::host_bytes_max`](crate::RegionBuilder::host_bytes_max).
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        self.member.host_bytes()
    }

    /// Memory 0. The view is empty if the module has no memory 0, or if memory 0 is a shared memory
    /// of the host ([`shared_memory`](Self::shared_memory)).
    #[must_use]
    pub fn memory(&self) -> Memory<'_> {
        self.member.memory()
    }

    /// Memory 0, mutable. The view is empty in the same cases as the view of
    /// [`memory`](Self::memory).
    pub fn memory_mut(&mut self) -> MemoryMut<'_> {
        self.member.memory_mut()
    }

    /// The exported memory `name`. The method works for every exported memory of a module.
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

    /// Mutable borrows of the exported memory `name`, if there is one, and of the host's data at
    /// the same time.
    pub fn exported_split(&mut self, name: &str) -> (Option<MemoryMut<'_>>, &mut T) {
        (self.member.exported_memory_mut(name), &mut self.store.data)
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
    pub fn global(&self, name: &str) -> Option<Value> {
        let item = self.member.inner.module.metadata().export(name)?;
        match item {
            ExportItem::Global(index) => Some(self.member.global(index)),
            _ => None,
        }
    }

    /// Sets the exported global `name`, which must be mutable.
    ///
    /// A reference must belong to this instance, and refer to a function or an object of the
    /// global's type. The guest must still hold a reference to an exception that the host gives.
    ///
    /// # Errors
    ///
    /// [`SetGlobalError`]; then nothing has changed. [`SetGlobalError::State`] while a call is
    /// suspended, because a preempted call may have the value in a register.
    pub fn set_global(&mut self, name: &str, value: Value) -> Result<(), SetGlobalError> {
        Suspended::none(self.suspended.as_ref(), Operation::SetGlobal)?;
        let members = core::slice::from_mut(&mut self.member);
        global::set(members, 0, name, value)
    }
}

impl<T, Q, A> Instance<T, Q, A> {
    /// The remaining fuel; `None` if the module was compiled without `aotc --fuel`.
    ///
    /// The number is exact unless a signal ended the guest: an out-of-bounds memory access, a stack
    /// overflow, a kill or a deadline. Then the operators since the last loop header, call or
    /// function entry are not counted. The same applies to a preempted guest until it is resumed.
    #[must_use]
    pub fn fuel(&self) -> Option<u64> {
        self.member.fuel()
    }

    /// Sets the remaining fuel, whatever it was.
    ///
    /// Each WebAssembly operator that a guest executes uses 1 unit of fuel (docs/reference/cli.md
    /// lists operators that use more fuel, or no fuel). Without fuel, the guest enters no function
    /// and begins no further iteration of a loop. The call then ends with
    /// [`TrapCode::OutOfFuel`](crate::TrapCode::OutOfFuel). The instance can be called again once
    /// it has fuel. A new instance has `u64::MAX` units, or the value of
    /// [`Prepared::start_fuel`](crate::Prepared::start_fuel).
    ///
    /// # Errors
    ///
    /// [`FuelError::NotCounted`] if the module was compiled without `aotc --fuel`.
    /// [`FuelError::State`] while a call is suspended, because a preempted call has its count in a
    /// register. A host function for which the guest waits can set the fuel, by its
    /// [`Caller`](crate::Caller).
    pub fn set_fuel(&mut self, fuel: u64) -> Result<(), FuelError> {
        Suspended::none(self.suspended.as_ref(), Operation::SetFuel)?;
        self.member.set_fuel(fuel)
    }
}

impl<T, Q, A> Instance<T, Q, A> {
    /// The resources that the instance has used since it was made, with its start.
    ///
    /// The method works between calls and while a call is suspended. Values that are not measured
    /// are `None`, see [`Measure`](crate::Measure).
    ///
    /// This method compares pages, which takes some 50 ns for each page that was written to.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::of(core::slice::from_ref(&self.member), Pages::Compared)
    }

    /// [`usage`](Self::usage) without [`pages_written`](Usage::pages_written), which is `None`.
    /// This method compares no pages.
    #[must_use]
    pub fn usage_without_pages(&self) -> Usage {
        Usage::of(core::slice::from_ref(&self.member), Pages::Skipped)
    }
}
