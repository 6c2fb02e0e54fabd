//! [`Instance`]: a module in its own slot, with the host's data.

use super::owner::{Alone, Owner, OwnerMut};
use crate::call::TypedFunc;
use crate::call::{Func, HostState, Wanted, global};
use crate::error::{CallError, FuelError, LinkError, Operation, SetGlobalError};
use crate::memory::{Memory, MemoryMut, SharedMemory};
use crate::stop::kill::KillSwitch;
use crate::store::member::Member;
use crate::store::usage::{Pages, Usage};
use crate::value::typed::{FlatParams, FlatResult, Params, Results};
use crate::value::{FuncRef, Value};
use core::convert::Infallible;
use core::marker::PhantomData;
use pirn_format::metadata::ExportItem;

/// A module in its own slot, with the host's data `T`.
///
/// Dropping an instance resets its slot, which then serves another instance. Another thread than
/// the maker of an instance can drop the instance.
///
/// [`Group::member_mut`](crate::Group::member_mut) lends a member of a group as an instance with
/// the owner [`InGroup`](crate::InGroup). A member shares the host's data, limits, kill switches
/// and suspended calls with its group. The drop of a lent member ends the loan, and changes
/// nothing.
#[derive(Debug)]
pub struct Instance<T, Q = Infallible, A = Infallible, O = Alone<T, Q, A>> {
    pub(crate) owner: O,
    types: PhantomData<Types<T, Q, A>>,
}

/// Names the types of the owner. Only the owner holds values of these types.
type Types<T, Q, A> = fn() -> (T, Q, A);

impl<T, Q, A> Instance<T, Q, A> {
    #[inline(always)]
    pub(crate) fn new(member: Member<HostState<T, Q, A>>, data: T) -> Self {
        Self::of(Alone {
            member,
            store: HostState::new(data),
            suspended: None,
        })
    }

    /// Ends the instance and returns the host's data.
    #[must_use]
    pub fn into_data(self) -> T {
        self.owner.store.data
    }
}

impl<T, Q, A, O> Instance<T, Q, A, O> {
    #[inline(always)]
    pub(super) fn of(owner: O) -> Self {
        let types = PhantomData;
        Self { owner, types }
    }
}

impl<T, Q, A, O: OwnerMut<Data = T, Question = Q, Answer = A>> Instance<T, Q, A, O> {
    /// Runs the rest of the start.
    pub(super) fn run_start(&mut self) -> Result<(), CallError> {
        self.owner.callee().start()
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
        self.owner.callee().call(func, params)
    }

    /// Calls the exported function `name` with values of its parameter types.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); also [`CallError::Invalid`] if there is no such function, or if the
    /// values do not have its parameter types.
    pub fn call_values(&mut self, name: &str, params: &[Value]) -> Result<Vec<Value>, CallError> {
        let wanted = Wanted::Export(name);
        self.owner.callee().call_untyped(wanted, params)
    }

    /// Calls a function with values of its parameter types.
    ///
    /// A function of another member of the group is called in that member.
    ///
    /// # Errors
    ///
    /// As [`call_values`](Self::call_values), but [`CallError::Invalid`] with
    /// [`InvalidCall::OtherPreparation`](crate::InvalidCall::OtherPreparation) for a function of
    /// another preparation.
    pub fn call_func(&mut self, func: &Func, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.owner.callee().call_untyped(Wanted::Func(func), params)
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
        let wanted = Wanted::Reference(reference);
        self.owner.callee().call_untyped(wanted, params)
    }

    /// A switch that ends the guest's calls from any thread, until the instance or its group is
    /// dropped.
    pub fn kill_switch(&mut self) -> KillSwitch {
        self.owner.callee().kill_switch()
    }

    /// Memory 0, mutable. The view is empty in the same cases as the view of
    /// [`memory`](Self::memory).
    pub fn memory_mut(&mut self) -> MemoryMut<'_> {
        self.owner.callee().split().0.memory_mut()
    }

    /// The exported memory `name`, mutable.
    pub fn exported_memory_mut(&mut self, name: &str) -> Option<MemoryMut<'_>> {
        self.owner.callee().split().0.exported_memory_mut(name)
    }

    /// The host's data, mutable.
    pub fn data_mut(&mut self) -> &mut T {
        self.owner.callee().split().1
    }

    /// Mutable borrows of the exported memory `name`, if there is one, and of the host's data at
    /// the same time.
    pub fn exported_split(&mut self, name: &str) -> (Option<MemoryMut<'_>>, &mut T) {
        let (member, data) = self.owner.callee().split();
        (member.exported_memory_mut(name), data)
    }

    /// Mutable borrows of memory 0 and of the host's data at the same time.
    pub fn split(&mut self) -> (MemoryMut<'_>, &mut T) {
        let (member, data) = self.owner.callee().split();
        (member.memory_mut(), data)
    }

    /// Sets the exported global `name`, which must be mutable. Other members of the group that
    /// import the global see the new value.
    ///
    /// A reference must belong to this instance or its group, and refer to a function or an object
    /// of the global's type. The guest must still hold a reference to an exception that the host
    /// gives.
    ///
    /// # Errors
    ///
    /// [`SetGlobalError`]; then nothing has changed. [`SetGlobalError::State`] while a call is
    /// suspended, because a preempted call may have the value in a register.
    pub fn set_global(&mut self, name: &str, value: Value) -> Result<(), SetGlobalError> {
        let callee = self.owner.callee();
        callee.refuse(Operation::SetGlobal)?;
        global::set(callee.members, callee.root, name, value)
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
        let mut callee = self.owner.callee();
        callee.refuse(Operation::SetFuel)?;
        callee.member().set_fuel(fuel)
    }
}

/// Methods that change nothing.
impl<T, Q, A, O: Owner<Data = T, Question = Q, Answer = A>> Instance<T, Q, A, O> {
    /// The member of this instance.
    fn member(&self) -> &Member<HostState<T, Q, A>> {
        let (members, at) = self.owner.members();
        &members[at]
    }

    /// The exported function `name`, for [`call`](Self::call).
    ///
    /// The function serves all instances of the preparation, like a function from
    /// [`Prepared::func`](crate::Prepared::func). A function of a group's member is for calls of
    /// that member.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function; [`LinkError::FuncType`] if its type
    /// does not match `P` and `R`.
    pub fn func<P: Params, R: Results>(&self, name: &str) -> Result<TypedFunc<P, R>, LinkError> {
        let inner = &self.member().inner;
        TypedFunc::find(&inner.module, inner.id, name)
    }

    /// As [`func`](Self::func), for a function whose parameters and result are numbers of types
    /// that are known only when the module is opened.
    ///
    /// # Errors
    ///
    /// As [`Prepared::func_flat`](crate::Prepared::func_flat).
    pub fn func_flat(&self, name: &str) -> Result<TypedFunc<FlatParams, FlatResult>, LinkError> {
        let inner = &self.member().inner;
        TypedFunc::find_flat(&inner.module, inner.id, name)
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
        let inner = &self.member().inner;
        Func::find(&inner.module, inner.id, name)
    }

    /// The function that a reference of the guest refers to, for [`call_func`](Self::call_func).
    ///
    /// The reference belongs to one instance or group, but the [`Func`] serves all instances of the
    /// preparation. In a group, the function may be of any member.
    ///
    /// # Errors
    ///
    /// [`CallError::Invalid`] with [`InvalidCall::ForeignRef`](crate::InvalidCall::ForeignRef) for
    /// a reference of another instance.
    pub fn func_of(&self, reference: FuncRef) -> Result<Func, CallError> {
        let (members, _) = self.owner.members();
        Func::referred(members, reference).map(|(_, func)| func)
    }

    /// Bytes of the host's own memory that are held for the guest, or for all guests of its group.
    ///
    /// These bytes include exceptions that the guest keeps, and the bytes that host functions have
    /// counted by [`Caller::hold_host_bytes`](crate::Caller::hold_host_bytes). Their maximum is
    /// [`RegionBuilder::host_bytes_max`](crate::RegionBuilder::host_bytes_max).
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        self.member().host_bytes()
    }

    /// Memory 0, defined or imported. The view is empty if the module has no memory 0, or if memory
    /// 0 is a shared memory of the host ([`shared_memory`](Self::shared_memory)).
    #[must_use]
    pub fn memory(&self) -> Memory<'_> {
        self.member().memory()
    }

    /// The exported memory `name`. The method works for every exported memory of a module.
    #[must_use]
    pub fn exported_memory(&self, name: &str) -> Option<Memory<'_>> {
        self.member().exported_memory(name)
    }

    /// The exported memory `name`, if it is a shared memory from the host. Such a memory has no
    /// view.
    #[must_use]
    pub fn shared_memory(&self, name: &str) -> Option<&SharedMemory> {
        self.member().exported_shared(name)
    }

    /// The host's data.
    #[must_use]
    pub fn data(&self) -> &T {
        &self.owner.state().data
    }

    /// The value of the exported global `name`, if there is one.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<Value> {
        let member = self.member();
        match member.inner.module.metadata().export(name)? {
            ExportItem::Global(index) => Some(member.global(index)),
            _ => None,
        }
    }

    /// The remaining fuel; `None` if the module was compiled without `aotc --fuel`.
    ///
    /// Each member of a group has its own fuel. The functions of the member's module use up that
    /// fuel, whichever member calls them.
    ///
    /// The number is exact unless a signal ended the guest: an out-of-bounds memory access, a stack
    /// overflow, a kill or a deadline. Then the operators since the last loop header, call or
    /// function entry are not counted. The same applies to a preempted guest until it is resumed.
    #[must_use]
    pub fn fuel(&self) -> Option<u64> {
        self.member().fuel()
    }

    /// The resources that the instance, or all instances of its group together, have used since
    /// they were made, with their starts.
    ///
    /// The method works between calls and while a call is suspended. Values that are not measured
    /// are `None`, see [`Measure`](crate::Measure).
    ///
    /// This method compares pages, which takes some 50 ns for each page that was written to.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::of(self.owner.members().0, Pages::Compared)
    }

    /// [`usage`](Self::usage) without [`pages_written`](Usage::pages_written), which is `None`.
    /// This method compares no pages.
    #[must_use]
    pub fn usage_without_pages(&self) -> Usage {
        Usage::of(self.owner.members().0, Pages::Skipped)
    }

    /// Whether a call of the instance, or of any member of its group, is suspended.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.owner.suspended().is_some()
    }
}
