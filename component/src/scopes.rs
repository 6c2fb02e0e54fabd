//! [`Scopes`]: the handles of all component instances, and the running calls that borrow handles.

use crate::component::Info;
use crate::error::{AbiError, AbiResult};
use crate::handles::{HANDLES_MAX, Handle, Handles, Kind};
use crate::host_bytes::Account;
use crate::value::Resource;
use pirn_format::component::HandleTable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nested calls whose entries in [`Scopes::calls`] the account does not count.
const CALLS_UNCOUNTED: usize = 4;

/// Bytes that an entry of [`Scopes::host`] counts for. A node of a `BTreeMap` has 11 places of 12
/// bytes, and at most 12 addresses of child nodes. At least 5 places of a node are used.
const OWNED_BY_HOST_BYTES: usize = 64;

/// The handles of all component instances, and the running calls that borrow handles.
#[derive(Debug)]
pub(crate) struct Scopes {
    pub(crate) info: Arc<Info>,
    /// Counts the memory of the host for the guest.
    pub(crate) account: Account,
    /// The handles of each component instance, up to the last instance that has had a handle.
    instances: Vec<Handles>,
    /// The calls that run, the innermost last.
    calls: Vec<Call>,
    /// The resources of the component's types that the host owns. The key is type and number; the
    /// value counts how often the host owns the resource.
    host: BTreeMap<[u32; 2], u32>,
    /// Number of handles of all component instances, with the free handles.
    places: u32,
    /// Number of owned handles that are lent, over all calls.
    lent: u32,
    /// Distinguishes the resources of this instance from the resources of other instances. 0 until
    /// the first resource needs it.
    id: u64,
}

/// A call that may have borrowed handles.
#[derive(Debug, Default)]
struct Call {
    /// Number of borrowed handles that the callee has not dropped.
    borrowed: u32,
    /// The owned handles that are lent to the call, as component instance, handle and resource
    /// type.
    lent: Vec<[u32; 3]>,
}

impl Scopes {
    pub(crate) fn new(info: &Arc<Info>, account: Account) -> Self {
        Self {
            info: Arc::clone(info),
            account,
            instances: vec![],
            calls: vec![],
            host: BTreeMap::new(),
            places: 0,
            lent: 0,
            id: 0,
        }
    }

    fn handles(&mut self, instance: u32) -> AbiResult<&mut Handles> {
        let wanted = instance as usize + 1;
        if self.instances.len() < wanted {
            self.account.room_for(&mut self.instances, wanted)?;
            self.instances.resize_with(wanted, Handles::default);
        }
        Ok(&mut self.instances[instance as usize])
    }

    /// Records that a call begins.
    pub(crate) fn enter(&mut self) -> AbiResult {
        if self.calls.capacity() == 0 {
            // The account does not count these entries, because every instance that calls the host
            // has them.
            self.calls.reserve_exact(CALLS_UNCOUNTED);
        }
        self.account.room(&mut self.calls)?;
        self.calls.push(Call::default());
        Ok(())
    }

    /// Records that the innermost call has returned, and ends its loans.
    pub(crate) fn exit(&mut self) -> AbiResult {
        let call = self.calls.pop().unwrap_or_default();
        if call.borrowed > 0 {
            return Err(AbiError::BorrowsLeft(call.borrowed));
        }
        self.lent -= call.lent.len() as u32;
        self.account
            .shrink(call.lent.capacity() * size_of::<[u32; 3]>());
        for [instance, number, resource] in call.lent {
            let handle = self.handles(instance)?.get(number, resource)?;
            if let Kind::Own(lent) = &mut handle.kind {
                *lent -= 1;
            }
        }
        Ok(())
    }

    /// Adds an owned handle to a table (`lower_own`, `resource.new`).
    pub(crate) fn add_own(&mut self, table: u32, rep: u32) -> AbiResult<u32> {
        let table = self.info.table(table);
        let kind = Kind::Own(0);
        self.add(table, rep, kind)
    }

    fn add(&mut self, table: HandleTable, rep: u32, kind: Kind) -> AbiResult<u32> {
        let handle = Handle {
            resource: table.resource,
            rep,
            kind,
        };
        self.handles(table.instance)?;
        let handles = &mut self.instances[table.instance as usize];
        handles.add(handle, &mut self.places, &mut self.account)
    }

    /// Lends a resource to the innermost call (`lower_borrow`). Returns the number of a new handle,
    /// or the resource's own number if the callee defines its type.
    pub(crate) fn add_borrow(&mut self, table: u32, rep: u32) -> AbiResult<u32> {
        let table = self.info.table(table);
        let defined = self.info.defined_resource(table.resource);
        let defines = defined.is_some_and(|at| {
            self.info.component.resources[at as usize].instance == table.instance
        });
        if defines {
            return Ok(rep);
        }
        let call = self.calls.len().saturating_sub(1);
        let number = self.add(table, rep, Kind::Borrow(call as u32))?;
        if let Some(call) = self.calls.last_mut() {
            call.borrowed += 1;
        }
        Ok(number)
    }

    /// Takes an owned handle from a table (`lift_own`), and returns the resource's number.
    pub(crate) fn take_own(&mut self, table: u32, number: u32) -> AbiResult<u32> {
        let table = self.info.table(table);
        let handles = self.handles(table.instance)?;
        match handles.get(number, table.resource)?.kind {
            Kind::Own(_) => Ok(handles.remove(number, table.resource)?.rep),
            Kind::Borrow(_) => Err(AbiError::NotOwned(number)),
        }
    }

    /// Lends the resource of a handle to the innermost call (`lift_borrow`), and returns the
    /// resource's number.
    pub(crate) fn lend(&mut self, table: u32, number: u32) -> AbiResult<u32> {
        let table = self.info.table(table);
        let handle = self.handles(table.instance)?.get(number, table.resource)?;
        let rep = handle.rep;
        if let Kind::Own(lent) = &mut handle.kind {
            *lent += 1;
            self.lent += 1;
            if self.lent > HANDLES_MAX {
                return Err(AbiError::Handles(HANDLES_MAX));
            }
            if let Some(call) = self.calls.last_mut() {
                self.account.room(&mut call.lent)?;
                call.lent.push([table.instance, number, table.resource]);
            }
        }
        Ok(rep)
    }

    /// The number of the resource that a handle refers to (`resource.rep`).
    pub(crate) fn rep(&mut self, table: u32, number: u32) -> AbiResult<u32> {
        let table = self.info.table(table);
        let handle = self.handles(table.instance)?.get(number, table.resource)?;
        Ok(handle.rep)
    }

    /// Drops a handle (`resource.drop`). Returns the resource's number if the handle owned the
    /// resource, which then ends.
    pub(crate) fn drop_handle(&mut self, table: u32, number: u32) -> AbiResult<Option<u32>> {
        let table = self.info.table(table);
        let handles = self.handles(table.instance)?;
        let handle = handles.remove(number, table.resource)?;
        match handle.kind {
            Kind::Own(_) => Ok(Some(handle.rep)),
            Kind::Borrow(call) => {
                if let Some(call) = self.calls.get_mut(call as usize) {
                    call.borrowed -= 1;
                }
                Ok(None)
            }
        }
    }

    /// A resource of a table's type, in the form that the host gets.
    pub(crate) fn resource(&mut self, table: u32, rep: u32) -> Resource {
        let ty = self.info.table(table).resource;
        match self.info.defines(ty) {
            true => Resource {
                rep,
                of: self.id(),
                ty,
            },
            false => Resource::host(rep),
        }
    }

    /// A resource of a table's type that the host owns from now on.
    pub(crate) fn give_to_host(&mut self, table: u32, rep: u32) -> AbiResult<Resource> {
        let resource = self.resource(table, rep);
        if resource.of != 0 {
            if self.host.len() >= HANDLES_MAX as usize {
                return Err(AbiError::Handles(HANDLES_MAX));
            }
            if !self.host.contains_key(&[resource.ty, rep]) {
                self.account.grow(OWNED_BY_HOST_BYTES)?;
            }
            let count = self.host.entry([resource.ty, rep]).or_default();
            *count = count.checked_add(1).ok_or(AbiError::Handles(u32::MAX))?;
        }
        Ok(resource)
    }

    /// Whether the host can give or lend a resource for a handle of a table.
    pub(crate) fn fits(&mut self, table: u32, resource: Resource) -> bool {
        let ty = self.info.table(table).resource;
        match self.info.defines(ty) {
            true => resource.ty == ty && self.host_owns(resource),
            false => resource.of == 0,
        }
    }

    /// Whether the host owns a resource that this component defines.
    fn host_owns(&mut self, resource: Resource) -> bool {
        resource.of == self.id() && self.host.contains_key(&[resource.ty, resource.rep])
    }

    /// Takes a resource that this component defines from the host, if the host owns it.
    pub(crate) fn take_from_host(&mut self, resource: Resource) -> bool {
        if !self.host_owns(resource) {
            return false;
        }
        let key = [resource.ty, resource.rep];
        match self.host.get_mut(&key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.host.remove(&key);
                self.account.shrink(OWNED_BY_HOST_BYTES);
            }
        }
        true
    }

    pub(crate) fn id(&mut self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.id == 0 {
            self.id = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        self.id
    }
}
