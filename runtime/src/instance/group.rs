//! [`Group`]: instances that import from each other, and share the host's data.
//!
//! A group is a small WebAssembly store (spec 4.2.3). An instance can import functions, tables,
//! memories, globals and tags of earlier instances. All instances live until the group is dropped,
//! because a table may refer to items of another instance. A server that runs one module per
//! request does not need a group: see [`Prepared`](crate::Prepared).
//!
//! # Safety
//!
//! This file owns one fact. Every import of a member points into a slot of a member of its group.
//! No member is dropped before the group, and the slot of a member does not move.
#![allow(unsafe_code)]

use super::callee::Callee;
use super::future::CallAsync;
use super::prepared;
use super::suspended::Suspended;
use crate::call::{
    Func, HostState, TypedFunc, Wanted, enter, global, not_of_the_host, start, untyped,
};
use crate::error::{
    CallError, FuelError, GroupError, LinkError, NoMember, Operation, SetGlobalError, StateError,
};
use crate::linker::Linker;
use crate::linker::exports::Linked;
use crate::linker::resolve::Resolved;
use crate::memory::SharedMemory;
use crate::memory::{Memory, MemoryMut};
use crate::module::Module;
use crate::region::{Region, WaitLimit};
use crate::stop::kill::KillSwitch;
use crate::stop::{Bounds, Owned, Watch};
use crate::store::host_func::Hosts;
use crate::store::imports::Imports;
use crate::store::member::Member;
use crate::store::preparation::{Preparation, Share};
use crate::store::usage::{Measure, Pages, Usage};
use crate::switch::activation::LAST;
use crate::switch::{AccountState, Record};
use crate::value::typed::{FlatParams, FlatResult, Params, Results};
use crate::value::{FuncRef, InstanceId, Value};
use core::convert::Infallible;
use pirn_format::layout::CONTEXT_ACTIVATION;
use pirn_format::metadata::ExportItem;
use std::collections::HashMap;

/// Instances that import from each other, and share the host's data `T`. Each instance has its own
/// slot. All instances are dropped with the group.
///
/// `Q` and `A` are the types of questions and answers of the [`Linker`]. An instance of a group
/// cannot ask its caller: a call of a [`func_ask`](Linker::func_ask) ends the guest's call with
/// [`CallError::State`].
#[derive(Debug)]
pub struct Group<T, Q = Infallible, A = Infallible> {
    pub(super) members: Vec<Member<HostState<T, Q, A>>>,
    names: HashMap<String, MemberId>,
    region: Region,
    instance_id: InstanceId,
    /// The means to stop a call of any member. The watch must be dropped before `control`.
    pub(super) watch: Option<Watch>,
    control: Option<Owned>,
    /// The initial fuel of members; `None` for the maximum.
    start_fuel: Option<u64>,
    /// How members are measured; `None` if they are not measured.
    measure: Option<Measure>,
    pub(super) store: HostState<T, Q, A>,
    /// The suspended call. Between calls it is `Some` only if a future was leaked (`mem::forget`).
    suspended: Option<Suspended>,
    /// The index of the member that the last call by a future called.
    pub(super) suspended_at: usize,
}

/// Identifies an instance of a group. The id is not valid in another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemberId {
    pub(super) at: usize,
    /// The number of the group's id.
    group: u64,
}

impl<T: 'static> Group<T> {
    /// A group without instances. Its instances will take slots of `region`.
    #[must_use]
    pub fn new(region: &Region, data: T) -> Self {
        Self::asking(region, data)
    }
}

impl<T: 'static, Q: 'static, A: 'static> Group<T, Q, A> {
    /// As [`new`](Group::new), for instances whose imports a linker of [`Linker::asking`] provides.
    #[must_use]
    pub fn asking(region: &Region, data: T) -> Self {
        Self {
            members: vec![],
            names: HashMap::new(),
            region: region.clone(),
            instance_id: InstanceId::fresh(),
            watch: None,
            control: None,
            start_fuel: None,
            measure: None,
            store: HostState::new(data),
            suspended: None,
            suspended_at: 0,
        }
    }

    /// Adds an instance.
    ///
    /// Each import is looked up by its module name among the members with a [`name`](Self::name),
    /// and then in the linker.
    ///
    /// If the start of an instance fails, the instance stays in the group, but the caller gets no
    /// id for that instance. Other instances may already refer to it (spec 4.5.4, note to step 16).
    ///
    /// # Errors
    ///
    /// [`GroupError::Link`] if an import is missing or has another type, or if the module does not
    /// fit; [`GroupError::Instantiate`] if all slots are taken or the start failed;
    /// [`GroupError::State`] while a call is suspended.
    pub fn instantiate(
        &mut self,
        module: &Module,
        linker: &Linker<T, Q, A>,
    ) -> Result<MemberId, GroupError> {
        self.refuse(Operation::Instantiate)?;
        let (imports, hosts) = self.resolve(module, linker)?;
        let limiter = linker.limiter.clone();
        let inner = Preparation::linked(module, &self.region, imports, hosts, limiter)?;
        let slot = prepared::take(&self.region, module, WaitLimit::No)?;
        let mut member = Member::new(slot, Share::alone(inner), None);
        // The slot may hold the constants of another instance, which refer to other imports.
        member.slot.set_warm(false);
        let at = self.members.len();
        member.initialise(at);
        member.slot.set_warm(false);
        // SAFETY: `initialise` has just written the context.
        unsafe { *(*Record::of(member.vmctx())).instance_id.get_mut() = self.instance_id.0 };
        self.share_account(&mut member);
        if let Some(fuel) = self.start_fuel {
            // `set_fuel` fails for a module that does not count fuel. Such a module needs no fuel.
            let _ = member.set_fuel(fuel);
        }
        self.members.push(member);
        self.link_calls(at);
        self.watched(at, Bounds::default(), |members, store| {
            start::start(members, at, store).map_err(|error| GroupError::Instantiate(error.into()))
        })?;
        let group = self.instance_id.0;
        Ok(MemberId { at, group })
    }

    /// Makes a new instance use the account of the first instance.
    fn share_account(&self, member: &mut Member<HostState<T, Q, A>>) {
        let first = self.members.first().unwrap_or(member);
        let account: *const _ = first.account();
        // SAFETY: the record belongs to an initialised context, and the account to the group's
        // region.
        unsafe {
            let record = &mut *Record::of(member.vmctx());
            (record.account, record.account_state) = (account, AccountState::Open);
        }
        if let Some(measure) = self.measure {
            member.measure(measure);
        }
    }

    /// From now on, measures the usage of the instances, for [`usage`](Self::usage). The
    /// measurement includes instances that are added later. See [`Measure`] for the costs.
    pub fn measure(&mut self, measure: Measure) {
        self.measure = Some(measure);
        for member in &mut self.members {
            member.measure(measure);
        }
    }

    /// The total usage of the instances of the group. [`Instance::usage`](crate::Instance::usage)
    /// is the usage of one instance.
    ///
    /// The usage lists the memories of all instances, in the order in which the instances were
    /// added.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::of(&self.members, Pages::Compared)
    }

    /// Bytes of the host's own memory that are held for all instances of the group together, as
    /// [`Instance::host_bytes`](crate::Instance::host_bytes) for a single instance.
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        self.members.first().map_or(0, Member::host_bytes)
    }

    /// Makes the exports of an instance importable under a module name. An earlier instance of that
    /// name loses the name. An id of another group makes nothing importable.
    pub fn name(&mut self, name: &str, member: MemberId) {
        self.names.insert(name.to_owned(), member);
    }

    /// The instance with a module name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<MemberId> {
        self.names.get(name).copied()
    }

    /// The exported function `name` of an instance, for [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// [`GroupError::Link`] if there is no such function, or if its type does not match `P` and
    /// `R`; [`GroupError::NoMember`] for an id of another group.
    pub fn func<P: Params, R: Results>(
        &self,
        member: MemberId,
        name: &str,
    ) -> Result<TypedFunc<P, R>, GroupError> {
        let inner = &self.member(member)?.inner;
        Ok(TypedFunc::find(&inner.module, inner.id, name)?)
    }

    /// Calls a function of an instance.
    ///
    /// # Errors
    ///
    /// As [`Instance::call`](crate::Instance::call), and [`CallError::Invalid`] for an id of
    /// another group.
    pub fn call<P: Params, R: Results>(
        &mut self,
        member: MemberId,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        self.call_within(Bounds::default(), member, func, params)
    }

    /// The exported function `name` of an instance, for [`call_func`](Self::call_func).
    ///
    /// # Errors
    ///
    /// [`GroupError::Link`] if there is no such function, [`GroupError::NoMember`] for an id of
    /// another group.
    pub fn func_values(&self, member: MemberId, name: &str) -> Result<Func, GroupError> {
        let inner = &self.member(member)?.inner;
        Ok(Func::find(&inner.module, inner.id, name)?)
    }

    /// The exported function `name` of an instance, for [`call`](Self::call), whose parameters and
    /// result are numbers of types that are known only when the module is opened.
    ///
    /// # Errors
    ///
    /// As [`Prepared::func_flat`](crate::Prepared::func_flat) in [`GroupError::Link`];
    /// [`GroupError::NoMember`] for an id of another group.
    pub fn func_flat(
        &self,
        member: MemberId,
        name: &str,
    ) -> Result<TypedFunc<FlatParams, FlatResult>, GroupError> {
        let inner = &self.member(member)?.inner;
        Ok(TypedFunc::find_flat(&inner.module, inner.id, name)?)
    }

    /// Calls a function of the instance in which the function was looked up, with values of its
    /// parameter types.
    ///
    /// # Errors
    ///
    /// As [`Instance::call_func`](crate::Instance::call_func).
    pub fn call_func(&mut self, func: &Func, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.call_func_within(Bounds::default(), func, params)
    }

    /// Calls the function that a reference of any instance refers to.
    ///
    /// # Errors
    ///
    /// As [`Instance::call_ref`](crate::Instance::call_ref).
    pub fn call_ref(
        &mut self,
        reference: FuncRef,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        self.call_ref_within(Bounds::default(), reference, params)
    }

    /// The function that a reference of any instance refers to, for
    /// [`call_func`](Self::call_func).
    ///
    /// # Errors
    ///
    /// As [`Instance::func_of`](crate::Instance::func_of).
    pub fn func_of(&self, reference: FuncRef) -> Result<Func, CallError> {
        Func::referred(&self.members, reference).map(|(_, func)| func)
    }

    /// Calls the exported function `name` of an instance, with values of its parameter types.
    ///
    /// # Errors
    ///
    /// As [`Instance::call_values`](crate::Instance::call_values), and [`CallError::Invalid`] for
    /// an id of another group.
    pub fn call_values(
        &mut self,
        member: MemberId,
        name: &str,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        let at = self.position(member)?;
        self.call_untyped_within(Bounds::default(), at, Wanted::Export(name), params)
    }

    /// [`call`](Self::call) within limits of time.
    pub(super) fn call_within<P: Params, R: Results>(
        &mut self,
        bounds: Bounds,
        member: MemberId,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        let at = self.prepare_call(member)?;
        self.callee(at).begin(func, params)?;
        // SAFETY: the members of a group are initialised, and `begin` compared the preparations.
        let target = unsafe { func.linked_target(self.members[at].vmctx()) };
        self.watched(at, bounds, |members, store| {
            enter::run(members, at, target, func.cells(), store)
        })?;
        Ok(func.load(&mut self.members[at]))
    }

    /// A call of member `at` with untyped values, within limits of time.
    pub(super) fn call_untyped_within(
        &mut self,
        bounds: Bounds,
        at: usize,
        wanted: Wanted<'_>,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        self.refuse(Operation::Call)?;
        self.link_calls(at);
        self.watched(at, bounds, |members, store| {
            untyped::call(members, at, wanted, params, store)
        })
    }

    /// [`call_func`](Self::call_func) within limits of time.
    pub(super) fn call_func_within(
        &mut self,
        bounds: Bounds,
        func: &Func,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        let at = func.member(&self.members)?;
        self.call_untyped_within(bounds, at, Wanted::Func(func), params)
    }

    /// [`call_ref`](Self::call_ref) within limits of time.
    pub(super) fn call_ref_within(
        &mut self,
        bounds: Bounds,
        reference: FuncRef,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        let (at, func) = Func::referred(&self.members, reference)?;
        self.call_untyped_within(bounds, at, Wanted::Func(&func), params)
    }

    /// [`call_async`](Self::call_async) within limits of time.
    pub(super) fn call_async_within<P: Params, R: Results>(
        &mut self,
        bounds: Bounds,
        member: MemberId,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> CallAsync<'_, Self, P, R> {
        let at = self.prepare_call(member);
        // A kill wakes a waiting guest through the watch.
        self.watch();
        let begun = at.map(|at| self.suspended_at = at);
        CallAsync::new(self, func, params, bounds, begun)
    }

    /// Whether a call is suspended. Only a call whose future was leaked (`mem::forget`) stays
    /// suspended.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// Ends the suspended call, if there is one. The guests' changes stay, as after a deadline.
    pub fn cancel(&mut self) {
        self.callee(self.suspended_at).cancel();
    }

    /// Borrows the group for a call of member `at`.
    pub(super) fn callee(&mut self, at: usize) -> Callee<'_, T, Q, A> {
        Callee {
            members: &mut self.members,
            root: at,
            store: &mut self.store,
            suspended: &mut self.suspended,
            group_watch: Some(&mut self.watch),
        }
    }

    /// Checks that no call is suspended.
    pub(super) fn refuse(&self, operation: Operation) -> Result<(), StateError> {
        Suspended::none(self.suspended.as_ref(), operation)
    }

    /// Prepares a call of a member, and returns its index.
    ///
    /// # Errors
    ///
    /// The id comes from another group, or a call is suspended.
    fn prepare_call(&mut self, member: MemberId) -> Result<usize, CallError> {
        let at = self.position(member)?;
        self.refuse(Operation::Call)?;
        self.link_calls(at);
        Ok(at)
    }

    /// The means to stop a call of any member, created at the first use.
    fn watch(&mut self) -> &mut Watch {
        let control = self.control.get_or_insert_with(Owned::new);
        self.watch.get_or_insert_with(|| Watch::new(control))
    }

    /// A switch that ends the running call of any instance, and prevents all later calls.
    pub fn kill_switch(&mut self) -> KillSwitch {
        let is_suspended = self.is_suspended();
        let control = self.watch().control();
        if is_suspended {
            control.is_suspended();
        }
        KillSwitch::new(control)
    }

    /// Sets the initial fuel of instances that are added from now on, if their modules count fuel.
    ///
    /// See [`Prepared::start_fuel`](crate::Prepared::start_fuel). Without this setting, instances
    /// begin with `u64::MAX` units of fuel.
    pub fn start_fuel(&mut self, fuel: u64) {
        self.start_fuel = Some(fuel);
    }

    /// The remaining fuel of an instance. `None` if its module does not count fuel, or for an id of
    /// another group.
    ///
    /// Each instance has its own fuel. The functions of the instance's module use up that fuel,
    /// whichever instance calls them.
    #[must_use]
    pub fn fuel(&self, member: MemberId) -> Option<u64> {
        self.member(member).ok()?.fuel()
    }

    /// Sets the fuel of an instance, as [`Instance::set_fuel`](crate::Instance::set_fuel).
    ///
    /// # Errors
    ///
    /// [`FuelError::NotCounted`]; [`FuelError::State`] while a call is suspended;
    /// [`FuelError::NoMember`] for an id of another group.
    pub fn set_fuel(&mut self, member: MemberId, fuel: u64) -> Result<(), FuelError> {
        self.refuse(Operation::SetFuel)?;
        self.member_mut(member)?.set_fuel(fuel)
    }

    /// Makes a call of a member within limits of time. The kill switch of the group can stop that
    /// call.
    fn watched<R>(
        &mut self,
        at: usize,
        bounds: Bounds,
        call: impl FnOnce(&mut [Member<HostState<T, Q, A>>], &mut HostState<T, Q, A>) -> R,
    ) -> R {
        if !bounds.is_none() {
            self.watch();
        }
        let mut callee = self.callee(at);
        callee.limit(bounds);
        callee.lend(call)
    }

    /// The value of the exported global `name` of an instance.
    #[must_use]
    pub fn global(&self, member: MemberId, name: &str) -> Option<Value> {
        let member = self.member(member).ok()?;
        match member.inner.module.metadata().export(name)? {
            ExportItem::Global(index) => Some(member.global(index)),
            _ => None,
        }
    }

    /// Sets the exported global `name` of an instance, as
    /// [`Instance::set_global`](crate::Instance::set_global). Other instances that import the
    /// global see the new value.
    ///
    /// # Errors
    ///
    /// [`SetGlobalError`]; then nothing has changed. [`SetGlobalError::State`] while a call is
    /// suspended, [`SetGlobalError::NoMember`] for an id of another group.
    pub fn set_global(
        &mut self,
        member: MemberId,
        name: &str,
        value: Value,
    ) -> Result<(), SetGlobalError> {
        self.refuse(Operation::SetGlobal)?;
        let at = self.position(member)?;
        global::set(&mut self.members, at, name, value)
    }

    /// Memory 0 of an instance, defined or imported; `None` for an id of another group.
    #[must_use]
    pub fn memory(&self, member: MemberId) -> Option<Memory<'_>> {
        Some(self.member(member).ok()?.memory())
    }

    /// Memory 0 of an instance, mutable.
    pub fn memory_mut(&mut self, member: MemberId) -> Option<MemoryMut<'_>> {
        Some(self.member_mut(member).ok()?.memory_mut())
    }

    /// The exported memory `name` of an instance, if it is a shared memory of the host.
    #[must_use]
    pub fn shared_memory(&self, member: MemberId, name: &str) -> Option<&SharedMemory> {
        self.member(member).ok()?.exported_shared(name)
    }

    /// The exported memory `name` of an instance.
    #[must_use]
    pub fn exported_memory(&self, member: MemberId, name: &str) -> Option<Memory<'_>> {
        self.member(member).ok()?.exported_memory(name)
    }

    /// The exported memory `name` of an instance, mutable.
    pub fn exported_memory_mut(&mut self, member: MemberId, name: &str) -> Option<MemoryMut<'_>> {
        self.member_mut(member).ok()?.exported_memory_mut(name)
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

    /// The index of a member.
    ///
    /// # Errors
    ///
    /// [`NoMember`]: the id comes from another group.
    pub(super) fn position(&self, member: MemberId) -> Result<usize, NoMember> {
        if member.group == self.instance_id.0 {
            return Ok(member.at);
        }
        Err(NoMember {
            found: member.at,
            count: self.members.len(),
        })
    }

    pub(super) fn member(&self, member: MemberId) -> Result<&Member<HostState<T, Q, A>>, NoMember> {
        let at = self.position(member)?;
        Ok(&self.members[at])
    }

    fn member_mut(
        &mut self,
        member: MemberId,
    ) -> Result<&mut Member<HostState<T, Q, A>>, NoMember> {
        let at = self.position(member)?;
        Ok(&mut self.members[at])
    }

    /// Prepares a call of member `root`. Every member's context gets the address of the call's
    /// activation. The signal handler gets a list of all members that begins at `root`.
    fn link_calls(&mut self, root: usize) {
        let activation = Record::of(self.members[root].vmctx());
        let mut next = LAST;
        let others = (0..self.members.len()).filter(|at| *at != root);
        for at in others.chain([root]) {
            let member = &self.members[at];
            let record = Record::of(member.vmctx());
            // SAFETY: record and context belong to an initialised member, and no guest runs.
            unsafe {
                (*record).guest.next = next;
                next = &raw const (*record).guest;
                member
                    .cell::<u64>(CONTEXT_ACTIVATION)
                    .write(activation as u64);
            }
        }
    }

    fn resolve(
        &self,
        module: &Module,
        linker: &Linker<T, Q, A>,
    ) -> Result<Resolved<HostState<T, Q, A>>, LinkError> {
        let metadata = module.metadata();
        let (mut imports, mut hosts) = (Imports::new(), Hosts::new());
        for import in &metadata.imports {
            let owner = self.named(&import.module);
            let owner = owner.and_then(|id| self.member(id).ok());
            let item = owner.and_then(|owner| {
                Some((owner, owner.inner.module.metadata().export(&import.name)?))
            });
            if let Some((owner, item)) = item {
                let mut linked = Linked {
                    module,
                    import,
                    imports: &mut imports,
                };
                if linked.member(owner, item)? {
                    // SAFETY: the entry's code takes data `HostState<T, Q, A>`, and reads no
                    // function.
                    unsafe { hosts.skip(not_of_the_host::<HostState<T, Q, A>>()) };
                }
            } else {
                imports.host(metadata, import, linker, &mut hosts)?;
            }
        }
        Ok((imports, hosts))
    }
}
