//! [`Group`]: instances that import from each other, and share the host's data.
//!
//! This is WebAssembly's store in small (spec 4.2.3): functions, tables, memories, globals and tags of one
//! instance can be imported by the next, and all live until the group is dropped, because a reference
//! to any of them may lie in a table of another. A server that gives every request one module needs
//! none of it: see [`Prepared`](crate::Prepared).
//!
//! # Safety
//!
//! Owns the fact that whatever one member's imports point to lies in a slot of a member of the same
//! group: none is dropped before the group, and a member's slot does not move.
#![allow(unsafe_code)]

use super::imports::{
    GlobalImport, Hosts, Imports, LinkedFunc, Resolved, describe, limits_fit, memory_matches,
    memory_now, mismatch,
};
use super::member::{self, Inner, Member, Share};
use super::memory::{Memory, MemoryMut};
use super::usage::{Measure, Usage};
use super::{builtin, prepared, untyped};
use crate::error::{CallError, FuelError, GroupError, LinkError};
use crate::host::{Linker, Store};
use crate::module::{Module, types};
use crate::region::{Region, Wait};
use crate::shared::SharedMemory;
use crate::stop::kill::KillSwitch;
use crate::stop::{Owned, Watch};
use crate::switch::activation::LAST;
use crate::switch::{AccountState, Record};
use crate::value::{Stamp, Value};
use core::convert::Infallible;
use pirn_format::layout::CONTEXT_ACTIVATION;
use pirn_format::metadata::{ExportItem, Import};
use pirn_format::types::{ExternType, TableType, ValType};
use std::collections::HashMap;

/// Instances that import from each other, and share the host's data `T`. Each has a slot of its own;
/// all are dropped with the group.
#[derive(Debug)]
pub struct Group<T> {
    members: Vec<Member<Alone<T>>>,
    names: HashMap<String, MemberId>,
    region: Region,
    stamp: Stamp,
    /// Whether a call of any member may be stopped; dropped before the control that it is by.
    watch: Option<Watch>,
    control: Option<Owned>,
    /// The fuel that members begin with, if not all.
    start_fuel: Option<u64>,
    /// What is measured of members, if anything.
    measure: Option<Measure>,
    store: Alone<T>,
}

/// What the host keeps of instances that wait for nothing.
type Alone<T> = Store<T, Infallible, Infallible>;

/// Names an instance of a group. It names nothing in another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemberId {
    at: usize,
    /// The number of the group's stamp.
    group: u64,
}

impl<T: 'static> Group<T> {
    /// A group of no instance, whose instances will take slots of this region.
    #[must_use]
    pub fn new(region: &Region, data: T) -> Self {
        Self {
            members: vec![],
            names: HashMap::new(),
            region: region.clone(),
            stamp: Stamp::fresh(),
            watch: None,
            control: None,
            start_fuel: None,
            measure: None,
            store: Store::new(data),
        }
    }

    /// Adds an instance. Its imports are looked for among the exports of the members that were given
    /// the import's module name by [`name`](Self::name), then in the linker.
    ///
    /// An instance whose start fails stays in the group, without an id: others may refer to it already
    /// (spec 4.5.4, note to step 16).
    ///
    /// # Errors
    ///
    /// [`GroupError::Link`] if an import is missing or of another type, or the module does not fit;
    /// [`GroupError::Instantiate`] if all slots are taken or the start failed.
    pub fn instantiate(
        &mut self,
        module: &Module,
        linker: &Linker<T>,
    ) -> Result<MemberId, GroupError> {
        let (imports, hosts) = self.resolve(module, linker)?;
        let limiter = linker.limiter.clone();
        let inner = Inner::linked(module, &self.region, imports, hosts, limiter)?;
        let slot = prepared::take(&self.region, module, Wait::No)?;
        let mut member = Member::new(slot, Share::alone(inner), None);
        // Another's constants are no use: they name other imports.
        member.slot.set_warm(false);
        let at = self.members.len();
        member.initialise(at);
        member.slot.set_warm(false);
        // SAFETY: the context was just initialised.
        unsafe { (*Record::of(member.vmctx())).stamp = self.stamp.0 };
        self.share_account(&mut member);
        if let Some(fuel) = self.start_fuel {
            // A module that does not count has none.
            let _ = member.set_fuel(fuel);
        }
        self.members.push(member);
        self.link_calls(at);
        self.watched(at, |group| {
            member::start(&mut group.members, at, &mut group.store)
                .map_err(|error| GroupError::Instantiate(error.into()))
        })?;
        let group = self.stamp.0;
        Ok(MemberId { at, group })
    }

    /// Has an instance that is added count under the account of the first one.
    fn share_account(&self, member: &mut Member<Alone<T>>) {
        let first = self.members.first().unwrap_or(member);
        let account: *const _ = first.account();
        // SAFETY: the record of an initialised context. The account is one of the group's region.
        unsafe {
            let record = &mut *Record::of(member.vmctx());
            (record.account, record.account_state) = (account, AccountState::Open);
        }
        if let Some(measure) = self.measure {
            member.measure(measure);
        }
    }

    /// Measures what the instances use from now on, those included that are added later, for
    /// [`usage`](Self::usage). See [`Measure`] for what it costs.
    pub fn measure(&mut self, measure: Measure) {
        self.measure = Some(measure);
        for member in &mut self.members {
            member.measure(measure);
        }
    }

    /// What the instances of the group have used together, as
    /// [`Instance::usage`](crate::Instance::usage). The memories are those of all instances, in the
    /// order in which the instances were added.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::of(&self.members)
    }

    /// Bytes of the host's own memory that are held for the instances of the group together, as
    /// [`Instance::host_bytes`](crate::Instance::host_bytes).
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        self.members.first().map_or(0, Member::host_bytes)
    }

    /// Makes the exports of an instance importable under a module name, in place of whatever had
    /// it. An id of another group makes nothing importable.
    pub fn name(&mut self, name: &str, member: MemberId) {
        self.names.insert(name.to_owned(), member);
    }

    /// The instance that has a module name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<MemberId> {
        self.names.get(name).copied()
    }

    /// Calls the exported function of a name of an instance.
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

    /// A switch that ends the call that runs, of whichever instance, and lets none be made any more.
    pub fn kill_switch(&mut self) -> KillSwitch {
        let control = self.control.get_or_insert_with(Owned::new);
        let watch = self.watch.get_or_insert_with(|| Watch::new(control));
        KillSwitch::new(watch.control())
    }

    /// Instances that are added from now on begin with so much fuel, if their modules count it, as with
    /// [`Prepared::start_fuel`](crate::Prepared::start_fuel). Without this, they begin with `u64::MAX`.
    pub fn start_fuel(&mut self, fuel: u64) {
        self.start_fuel = Some(fuel);
    }

    /// The fuel that an instance has left; `None` if its module does not count, or for an id of another
    /// group. Each instance has its own, which what its own module's functions execute is taken from,
    /// whoever calls them.
    #[must_use]
    pub fn fuel(&self, member: MemberId) -> Option<u64> {
        self.member(member)?.fuel()
    }

    /// Has an instance have so much fuel, as [`Instance::set_fuel`](crate::Instance::set_fuel).
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

    /// Makes a call of a member, which may be stopped as the group may.
    fn watched<R>(&mut self, at: usize, call: impl FnOnce(&mut Self) -> R) -> R {
        self.members[at].watch = self.watch.take();
        let watched = Watched { group: self, at };
        call(&mut *watched.group)
    }

    /// The value of the exported global of a name of an instance.
    #[must_use]
    pub fn global(&mut self, member: MemberId, name: &str) -> Option<Value> {
        let member = self.member_mut(member)?;
        match member.inner.module.metadata().export(name)? {
            ExportItem::Global(index) => Some(member.global(index)),
            _ => None,
        }
    }

    /// Memory 0 of an instance, its own or imported; `None` for an id of another group.
    #[must_use]
    pub fn memory(&self, member: MemberId) -> Option<Memory<'_>> {
        Some(self.member(member)?.memory())
    }

    /// Memory 0 of an instance, to be changed.
    pub fn memory_mut(&mut self, member: MemberId) -> Option<MemoryMut<'_>> {
        Some(self.member_mut(member)?.memory_mut())
    }

    /// The exported memory of a name of an instance, if it is a shared one of the host's.
    #[must_use]
    pub fn shared_memory(&self, member: MemberId, name: &str) -> Option<&SharedMemory> {
        self.member(member)?.exported_shared(name)
    }

    /// The exported memory of a name of an instance.
    #[must_use]
    pub fn exported_memory(&self, member: MemberId, name: &str) -> Option<Memory<'_>> {
        self.member(member)?.exported_memory(name)
    }

    /// The exported memory of a name of an instance, to be changed.
    pub fn exported_memory_mut(&mut self, member: MemberId, name: &str) -> Option<MemoryMut<'_>> {
        self.member_mut(member)?.exported_memory_mut(name)
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

    /// Where a member is; `None` for an id of another group.
    fn position(&self, member: MemberId) -> Option<usize> {
        (member.group == self.stamp.0).then_some(member.at)
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

    /// Makes a call of member `root` find its activation from every member, and the signal handler
    /// every member from `root`.
    fn link_calls(&mut self, root: usize) {
        let activation = Record::of(self.members[root].vmctx());
        let mut next = LAST;
        let others = (0..self.members.len()).filter(|at| *at != root);
        for at in others.chain([root]) {
            let member = &self.members[at];
            let record = Record::of(member.vmctx());
            // SAFETY: the record and context of an initialised member; no guest runs.
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
                    hosts.skip();
                }
            } else {
                imports.host(metadata, import, linker, &mut hosts)?;
            }
        }
        Ok((imports, hosts))
    }
}

/// Gives a member's watch back to the group when a call ends, also when the embedder's code panics:
/// the group's kill switch would have no effect otherwise.
struct Watched<'a, T> {
    group: &'a mut Group<T>,
    at: usize,
}

impl<T> Drop for Watched<'_, T> {
    fn drop(&mut self) {
        self.group.watch = self.group.members[self.at].watch.take();
    }
}

/// One import while it is resolved to an export of a member.
struct Linked<'a> {
    module: &'a Module,
    import: &'a Import,
    imports: &'a mut Imports,
}

impl Linked<'_> {
    /// Resolves it; whether it is a function.
    fn member<T>(&mut self, owner: &Member<T>, item: ExportItem) -> Result<bool, LinkError> {
        let matched = match (self.import.ty, item) {
            (ExternType::Func(ty), ExportItem::Func(index)) => {
                self.func(owner, ty, index).then_some(true)
            }
            (ExternType::Global(wanted), ExportItem::Global(index)) => {
                let found = owner.inner.module.metadata().globals[index as usize];
                let (content, into) = self.numbered(owner, found.content, wanted.content);
                let fits = match (found.mutable, wanted.mutable) {
                    (true, true) => content == into,
                    (false, false) => content.matches(into, types::is_subtype),
                    _ => false,
                };
                fits.then(|| self.global(owner, index, wanted.mutable))
            }
            (ExternType::Table(wanted), ExportItem::Table(index)) => {
                let desc = builtin::table(owner, index);
                // SAFETY: the descriptor of a table of a member; no guest runs.
                let now = unsafe { (*desc).elements };
                let found = owner.inner.module.metadata().tables[index as usize];
                let (element, into) = self.numbered(owner, found.element, wanted.element);
                let fits = element == into
                    && found.address == wanted.address
                    && limits_fit(now, found.max, wanted.min, wanted.max);
                fits.then(|| {
                    self.imports.tables.push(desc as u64);
                    false
                })
            }
            (ExternType::Memory(wanted), ExportItem::Memory(index)) => {
                let found = owner.inner.module.metadata().memories[index as usize];
                let desc = builtin::memory(owner, index);
                // SAFETY: the descriptor of a memory of a member.
                let now = unsafe { builtin::bytes_of(desc) };
                memory_matches(&found, now, &wanted).then(|| {
                    self.imports.memories.push(desc as u64);
                    self.imports.shared.push(owner.shared(index));
                    false
                })
            }
            (ExternType::Tag(wanted), ExportItem::Tag(index)) => {
                let module = &owner.inner.module;
                let ty = module.metadata().tags[index as usize];
                let fits =
                    module.type_ids()[ty as usize] == self.module.type_ids()[wanted as usize];
                fits.then(|| {
                    let identity = owner.cell::<u64>(module.layout().tag(index));
                    // SAFETY: the identity of a tag of a member.
                    self.imports.tags.push(unsafe { *identity });
                    false
                })
            }
            _ => None,
        };
        matched.ok_or_else(|| {
            let found = self.found(owner, item);
            mismatch(
                self.module.metadata(),
                self.import,
                found,
                "export what the module wants",
            )
        })
    }

    /// Both types, of which one is the owner's and the other this module's, with numbers that are the process's in place
    /// of each module's own indices.
    fn numbered<T>(
        &self,
        owner: &Member<T>,
        found: ValType,
        wanted: ValType,
    ) -> (ValType, ValType) {
        let number =
            |module: &Module, ty: ValType| ty.renamed(|index| module.type_ids()[index as usize]);
        (
            number(&owner.inner.module, found),
            number(self.module, wanted),
        )
    }

    fn func<T>(&mut self, owner: &Member<T>, ty: u32, index: u32) -> bool {
        let Some((target, type_id)) = owner.linked(index) else {
            return false;
        };
        if !types::is_subtype(type_id, self.module.type_ids()[ty as usize]) {
            return false;
        }
        self.imports.funcs.push(Some(LinkedFunc {
            code: target.code as u64,
            vmctx: target.vmctx as u64,
            type_id,
        }));
        true
    }

    fn global<T>(&mut self, owner: &Member<T>, index: u32, mutable: bool) -> bool {
        let cell = owner.global_cell(index);
        self.imports.globals.push(if mutable {
            GlobalImport::At(cell as u64)
        } else {
            // SAFETY: the cell of a global of a member; no guest runs.
            GlobalImport::Value(unsafe { *cell })
        });
        false
    }

    /// What the export is, in words, with the sizes that it has now.
    fn found<T>(&self, owner: &Member<T>, item: ExportItem) -> String {
        let metadata = owner.inner.module.metadata();
        let ty = match item {
            ExportItem::Func(i) => ExternType::Func(metadata.funcs[i as usize]),
            ExportItem::Table(i) => ExternType::Table(TableType {
                // SAFETY: the descriptor of a table of a member; no guest runs.
                min: unsafe { (*builtin::table(owner, i)).elements },
                ..metadata.tables[i as usize]
            }),
            ExportItem::Memory(i) => {
                let ty = metadata.memories[i as usize];
                // SAFETY: as of a table.
                let bytes = unsafe { builtin::bytes_of(builtin::memory(owner, i)) };
                ExternType::Memory(memory_now(ty, bytes))
            }
            ExportItem::Global(i) => ExternType::Global(metadata.globals[i as usize]),
            ExportItem::Tag(i) => ExternType::Tag(metadata.tags[i as usize]),
        };
        describe(metadata, &ty)
    }
}
