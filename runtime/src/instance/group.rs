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

use super::callee::{Callee, GroupStop};
use super::prepared;
use super::suspended::Suspended;
use crate::call::{HostState, not_of_the_host};
use crate::error::{GroupError, LinkError, NoMember, Operation};
use crate::linker::Linker;
use crate::linker::exports::Linked;
use crate::linker::resolve::Resolved;
use crate::module::Module;
use crate::region::{Region, WaitLimit};
use crate::stop::kill::KillSwitch;
use crate::store::host_func::Hosts;
use crate::store::imports::Imports;
use crate::store::member::Member;
use crate::store::preparation::{Preparation, Share};
use crate::store::usage::{Measure, Pages, Usage};
use crate::switch::{AccountState, Record};
use crate::value::InstanceId;
use core::convert::Infallible;
use std::collections::HashMap;

/// Instances that import from each other, and share the host's data `T`. Each instance has its own
/// slot. All instances are dropped with the group.
///
/// [`member_mut`](Self::member_mut) lends an instance of the group, to call it and to access its
/// state. The group itself has only what concerns all its instances.
///
/// `Q` and `A` are the types of questions and answers of the [`Linker`].
#[derive(Debug)]
pub struct Group<T, Q = Infallible, A = Infallible> {
    pub(super) members: Vec<Member<HostState<T, Q, A>>>,
    names: HashMap<String, MemberId>,
    region: Region,
    instance_id: InstanceId,
    pub(super) stop: GroupStop,
    /// The initial fuel of members; `None` for the maximum.
    start_fuel: Option<u64>,
    /// How members are measured; `None` if they are not measured.
    measure: Option<Measure>,
    pub(super) store: HostState<T, Q, A>,
    /// The suspended call of a member, if there is one.
    pub(super) suspended: Option<Suspended>,
}

/// Identifies an instance of a group. The id is not valid in another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemberId {
    at: usize,
    /// The number of the group's id.
    group: u64,
}

impl<T, Q, A> Group<T, Q, A> {
    /// Borrows the group for a call of member `at`.
    pub(super) fn callee(&mut self, at: usize) -> Callee<'_, T, Q, A> {
        Callee {
            members: &mut self.members,
            root: at,
            store: &mut self.store,
            suspended: &mut self.suspended,
            group: Some(&mut self.stop),
        }
    }
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
            stop: GroupStop::default(),
            start_fuel: None,
            measure: None,
            store: HostState::new(data),
            suspended: None,
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
        Suspended::none(self.suspended.as_ref(), Operation::Instantiate)?;
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
        let started = self.callee(at).start();
        started.map_err(|error| GroupError::Instantiate(error.into()))?;
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

    /// The total usage of the instances of the group, as
    /// [`Instance::usage`](crate::Instance::usage) of any member.
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

    /// Whether a call of any member is suspended.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// Ends the suspended call, if there is one. The guests' changes stay, as after a deadline.
    pub fn cancel(&mut self) {
        self.callee(0).cancel();
    }

    /// A switch that ends the running call of any instance, and prevents all later calls and
    /// starts.
    pub fn kill_switch(&mut self) -> KillSwitch {
        self.callee(0).kill_switch()
    }

    /// Sets the initial fuel of instances that are added from now on, if their modules count fuel.
    ///
    /// See [`Prepared::start_fuel`](crate::Prepared::start_fuel). Without this setting, instances
    /// begin with `u64::MAX` units of fuel.
    pub fn start_fuel(&mut self, fuel: u64) {
        self.start_fuel = Some(fuel);
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

    fn resolve(
        &self,
        module: &Module,
        linker: &Linker<T, Q, A>,
    ) -> Result<Resolved<HostState<T, Q, A>>, LinkError> {
        let metadata = module.metadata();
        let (mut imports, mut hosts) = (Imports::new(), Hosts::new());
        for import in &metadata.imports {
            let owner = self.named(&import.module);
            let owner = owner.and_then(|id| self.position(id).ok());
            let owner = owner.map(|at| &self.members[at]);
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
