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

use super::prepared;
use crate::call::{HostState, not_of_the_host, start, untyped};
use crate::error::{CallError, FuelError, GroupError, LinkError};
use crate::linker::Linker;
use crate::linker::exports::Linked;
use crate::linker::resolve::Resolved;
use crate::memory::SharedMemory;
use crate::memory::{Memory, MemoryMut};
use crate::module::Module;
use crate::region::{Region, WaitLimit};
use crate::stop::kill::KillSwitch;
use crate::stop::{Owned, Watch};
use crate::store::host_func::Hosts;
use crate::store::imports::Imports;
use crate::store::member::Member;
use crate::store::preparation::{Preparation, Share};
use crate::store::usage::{Measure, Usage};
use crate::switch::activation::LAST;
use crate::switch::{AccountState, Record};
use crate::value::{InstanceId, Value};
use core::convert::Infallible;
use pirn_format::layout::CONTEXT_ACTIVATION;
use pirn_format::metadata::ExportItem;
use std::collections::HashMap;

/// Instances that import from each other, and share the host's data `T`. Each instance has its own
/// slot. All are dropped with the group.
#[derive(Debug)]
pub struct Group<T> {
    members: Vec<Member<Alone<T>>>,
    names: HashMap<String, MemberId>,
    region: Region,
    instance_id: InstanceId,
    /// The means to stop a call of any member. It must be dropped before `control`.
    watch: Option<Watch>,
    control: Option<Owned>,
    /// The initial fuel of members; `None` for the maximum.
    start_fuel: Option<u64>,
    /// The measurements that are made of members, if any.
    measure: Option<Measure>,
    store: Alone<T>,
}

/// The host's state of instances that cannot be suspended.
type Alone<T> = HostState<T, Infallible, Infallible>;

/// Identifies an instance of a group. The id is not valid in another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemberId {
    at: usize,
    /// The number of the group's id.
    group: u64,
}

impl<T: 'static> Group<T> {
    /// A group without instances. Its instances will take slots of `region`.
    #[must_use]
    pub fn new(region: &Region, data: T) -> Self {
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
        }
    }

    /// Adds an instance.
    ///
    /// Each import is looked up by its module name among the members with a [`name`](Self::name),
    /// and then in the linker.
    ///
    /// If the start of an instance fails, the instance stays in the group, but the caller gets no
    /// id for it. Other instances may already refer to it (spec 4.5.4, note to step 16).
    ///
    /// # Errors
    ///
    /// [`GroupError::Link`] if an import is missing or has another type, or if the module does not
    /// fit; [`GroupError::Instantiate`] if all slots are taken or the start failed.
    pub fn instantiate(
        &mut self,
        module: &Module,
        linker: &Linker<T>,
    ) -> Result<MemberId, GroupError> {
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
        unsafe { (*Record::of(member.vmctx())).instance_id = self.instance_id.0 };
        self.share_account(&mut member);
        if let Some(fuel) = self.start_fuel {
            // The call fails for a module that does not count fuel, and such a module needs none.
            let _ = member.set_fuel(fuel);
        }
        self.members.push(member);
        self.link_calls(at);
        self.watched(at, |group| {
            start::start(&mut group.members, at, &mut group.store)
                .map_err(|error| GroupError::Instantiate(error.into()))
        })?;
        let group = self.instance_id.0;
        Ok(MemberId { at, group })
    }

    /// Makes a new instance use the account of the first instance.
    fn share_account(&self, member: &mut Member<Alone<T>>) {
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

    /// From now on, measures what the instances use, for [`usage`](Self::usage). This includes
    /// instances that are added later. See [`Measure`] for the costs.
    pub fn measure(&mut self, measure: Measure) {
        self.measure = Some(measure);
        for member in &mut self.members {
            member.measure(measure);
        }
    }

    /// The total usage of the instances of the group, as
    /// [`Instance::usage`](crate::Instance::usage) for one.
    ///
    /// The memories are those of all instances, in the order in which the instances were added.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::of(&self.members)
    }

    /// Bytes of the host's own memory that are held for all instances of the group together, as
    /// [`Instance::host_bytes`](crate::Instance::host_bytes) for one.
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        self.members.first().map_or(0, Member::host_bytes)
    }

    /// Makes the exports of an instance importable under a module name. This replaces an earlier
    /// instance of that name. An id of another group makes nothing importable.
    pub fn name(&mut self, name: &str, member: MemberId) {
        self.names.insert(name.to_owned(), member);
    }

    /// The instance with a module name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<MemberId> {
        self.names.get(name).copied()
    }

    /// Calls the exported function `name` of an instance.
    ///
    /// # Errors
    ///
    /// As [`Instance::call_values`](crate::Instance::call_values).
    pub fn call(
        &mut self,
        member: MemberId,
        name: &str,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        let at = self.check(member)?;
        self.link_calls(at);
        self.watched(at, |group| {
            untyped::call(&mut group.members, at, name, params, &mut group.store)
        })
    }

    /// A switch that ends the running call of any instance, and prevents all later calls.
    pub fn kill_switch(&mut self) -> KillSwitch {
        let control = self.control.get_or_insert_with(Owned::new);
        let watch = self.watch.get_or_insert_with(|| Watch::new(control));
        KillSwitch::new(watch.control())
    }

    /// Sets the initial fuel of instances that are added from now on, if their modules count fuel.
    ///
    /// See [`Prepared::start_fuel`](crate::Prepared::start_fuel). Without this, instances begin
    /// with `u64::MAX`.
    pub fn start_fuel(&mut self, fuel: u64) {
        self.start_fuel = Some(fuel);
    }

    /// The remaining fuel of an instance. `None` if its module does not count fuel, or for an id of
    /// another group.
    ///
    /// Each instance has its own fuel. The functions of its module use it up, whichever instance
    /// calls them.
    #[must_use]
    pub fn fuel(&self, member: MemberId) -> Option<u64> {
        self.member(member)?.fuel()
    }

    /// Sets the fuel of an instance, as [`Instance::set_fuel`](crate::Instance::set_fuel).
    ///
    /// # Errors
    ///
    /// [`FuelError::NotCounted`], and [`FuelError::NoMember`] for an id of another group.
    pub fn set_fuel(&mut self, member: MemberId, fuel: u64) -> Result<(), FuelError> {
        let (found, count) = (member.at, self.members.len());
        let member = self.member_mut(member);
        let member = member.ok_or(FuelError::NoMember { found, count })?;
        member.set_fuel(fuel)
    }

    /// Makes a call of a member. The kill switch of the group can stop that call.
    fn watched<R>(&mut self, at: usize, call: impl FnOnce(&mut Self) -> R) -> R {
        self.members[at].watch = self.watch.take();
        let watched = GroupWatch { group: self, at };
        call(&mut *watched.group)
    }

    /// The value of the exported global `name` of an instance.
    #[must_use]
    pub fn global(&mut self, member: MemberId, name: &str) -> Option<Value> {
        let member = self.member_mut(member)?;
        match member.inner.module.metadata().export(name)? {
            ExportItem::Global(index) => Some(member.global(index)),
            _ => None,
        }
    }

    /// Memory 0 of an instance, defined or imported; `None` for an id of another group.
    #[must_use]
    pub fn memory(&self, member: MemberId) -> Option<Memory<'_>> {
        Some(self.member(member)?.memory())
    }

    /// Memory 0 of an instance, mutable.
    pub fn memory_mut(&mut self, member: MemberId) -> Option<MemoryMut<'_>> {
        Some(self.member_mut(member)?.memory_mut())
    }

    /// The exported memory `name` of an instance, if it is a shared memory of the host.
    #[must_use]
    pub fn shared_memory(&self, member: MemberId, name: &str) -> Option<&SharedMemory> {
        self.member(member)?.exported_shared(name)
    }

    /// The exported memory `name` of an instance.
    #[must_use]
    pub fn exported_memory(&self, member: MemberId, name: &str) -> Option<Memory<'_>> {
        self.member(member)?.exported_memory(name)
    }

    /// The exported memory `name` of an instance, mutable.
    pub fn exported_memory_mut(&mut self, member: MemberId, name: &str) -> Option<MemoryMut<'_>> {
        self.member_mut(member)?.exported_memory_mut(name)
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

    /// The index of a member; `None` for an id of another group.
    fn position(&self, member: MemberId) -> Option<usize> {
        (member.group == self.instance_id.0).then_some(member.at)
    }

    fn member(&self, member: MemberId) -> Option<&Member<Alone<T>>> {
        self.members.get(self.position(member)?)
    }

    fn member_mut(&mut self, member: MemberId) -> Option<&mut Member<Alone<T>>> {
        let at = self.position(member)?;
        self.members.get_mut(at)
    }

    fn check(&self, member: MemberId) -> Result<usize, CallError> {
        self.position(member).ok_or_else(|| {
            let (found, count) = (member.at, self.members.len());
            CallError::Invalid(format!(
                "group has {count} instances, instance {found} of another group is asked for; use the id \
                 that this group gave"
            ))
        })
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
        linker: &Linker<T>,
    ) -> Result<Resolved<Alone<T>>, LinkError> {
        let metadata = module.metadata();
        let (mut imports, mut hosts) = (Imports::new(), Hosts::new());
        for import in &metadata.imports {
            let owner = self.named(&import.module);
            let owner = owner.and_then(|id| self.member(id));
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
                    // SAFETY: the entry's code takes data `Alone<T>`, and reads no function.
                    unsafe { hosts.skip(not_of_the_host::<Alone<T>>()) };
                }
            } else {
                imports.host(metadata, import, linker, &mut hosts)?;
            }
        }
        Ok((imports, hosts))
    }
}

/// Gives a member's watch back to the group when a call ends, also during unwinding. Otherwise a
/// panic of the embedder's code would make the group's kill switch ineffective.
struct GroupWatch<'a, T> {
    group: &'a mut Group<T>,
    at: usize,
}

impl<T> Drop for GroupWatch<'_, T> {
    fn drop(&mut self) {
        self.group.watch = self.group.members[self.at].watch.take();
    }
}
