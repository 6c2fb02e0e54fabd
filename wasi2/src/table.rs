//! [`Table`]: the host's resources to which an instance has handles.

use crate::limits::{RESOURCE_BYTES, RESOURCES_MAX};
use pirn_component::{HeldBytes, HostBytes, Own, ResourceType};
use pirn_runtime::HostError;
use slab::Slab;
use std::any::Any;
use std::task::{Context, Poll};

/// A resource of the host. A guest refers to the resource by a handle.
pub trait Resource: Any + Send {
    /// Whether the pollables of the resource are ready. If not, wakes the task of the context when
    /// they become ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Makes a type of the host a resource type of an interface. With `ready`, its pollables are always
/// ready.
macro_rules! resource_type {
    ($type:ty, $interface:expr, $name:literal) => {
        impl pirn_component::ResourceType for $type {
            const INTERFACE: &'static str = $interface;
            const NAME: &'static str = $name;
        }
    };
    ($type:ty, $interface:expr, $name:literal, ready) => {
        $crate::table::resource_type!($type, $interface, $name);
        impl $crate::table::Resource for $type {}
    };
}

pub(crate) use resource_type;

/// The resources of an instance. Each resource has a number, to which the guest's handles refer.
#[derive(Default)]
pub struct Table {
    entries: Slab<Entry>,
    /// Counts the memory of the resources.
    host_bytes: HostBytes,
}

struct Entry {
    resource: Box<dyn Resource>,
    /// Counts the memory of the resource.
    _held: HeldBytes,
    /// The parent: the resource from which this resource was made. The guest must drop this
    /// resource before the parent.
    parent: Option<u32>,
    /// Number of resources that were made from this resource.
    children: u32,
}

impl Table {
    pub(crate) fn new(host_bytes: &HostBytes) -> Self {
        Self {
            entries: Slab::new(),
            host_bytes: host_bytes.clone(),
        }
    }

    /// Adds a resource, and returns its number.
    ///
    /// # Errors
    ///
    /// [`HostError`] if the guest has the maximum number of resources, or if the host may keep no
    /// more memory for the guest. The error ends the guest.
    pub fn add(&mut self, resource: impl Resource) -> Result<u32, HostError> {
        self.add_entry(resource, None)
    }

    /// Adds a resource that was made from the resource `parent`.
    ///
    /// # Errors
    ///
    /// The errors of [`add`](Self::add), or [`HostError`] if there is no resource `parent`.
    pub fn add_child(&mut self, parent: u32, resource: impl Resource) -> Result<u32, HostError> {
        self.entry(parent)?.children += 1;
        self.add_entry(resource, Some(parent))
    }

    /// Adds a resource, and returns the owned handle that the guest gets.
    pub(crate) fn own<R: Resource + ResourceType>(
        &mut self,
        resource: R,
    ) -> Result<Own<R>, HostError> {
        self.add(resource).map(Own::host)
    }

    /// Adds a resource that was made from the resource `parent`, and returns the owned handle that
    /// the guest gets.
    pub(crate) fn own_child<R: Resource + ResourceType>(
        &mut self,
        parent: u32,
        resource: R,
    ) -> Result<Own<R>, HostError> {
        self.add_child(parent, resource).map(Own::host)
    }

    fn add_entry<R: Resource>(
        &mut self,
        resource: R,
        parent: Option<u32>,
    ) -> Result<u32, HostError> {
        if self.entries.len() >= RESOURCES_MAX {
            return Err(HostError::message(format!(
                "the guest has {RESOURCES_MAX} resources, which is the most it may have; drop some"
            )));
        }
        let entry = Entry {
            _held: self.host_bytes.hold(size_of::<R>() + RESOURCE_BYTES)?,
            resource: Box::new(resource),
            parent,
            children: 0,
        };
        Ok(self.entries.insert(entry) as u32)
    }

    fn entry(&mut self, number: u32) -> Result<&mut Entry, HostError> {
        let entry = self.entries.get_mut(number as usize);
        entry.ok_or_else(|| HostError::message(format!("the host has no resource {number}")))
    }

    /// The resource with a number.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such resource, or if it has another type.
    pub fn get<R: Resource>(&mut self, number: u32) -> Result<&mut R, HostError> {
        let resource: &mut dyn Any = &mut *self.entry(number)?.resource;
        resource.downcast_mut().ok_or_else(|| other_type(number))
    }

    /// Removes a resource, which must have no children: no resource that was made from it.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), or [`HostError`] if the resource has children.
    pub fn take<R: Resource>(&mut self, number: u32) -> Result<R, HostError> {
        self.get::<R>(number)?;
        let resource: Box<dyn Any> = self.remove(number)?;
        let resource = resource.downcast().map_err(|_| other_type(number))?;
        Ok(*resource)
    }

    /// Removes a resource of any type, which must have no children.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such resource, or if it has children.
    pub fn remove(&mut self, number: u32) -> Result<Box<dyn Resource>, HostError> {
        let children = self.entry(number)?.children;
        if children > 0 {
            return Err(HostError::message(format!(
                "a resource is dropped before {children} resources that were made from it; drop \
                 those first"
            )));
        }
        let entry = self.entries.remove(number as usize);
        if let Some(parent) = entry.parent {
            self.entry(parent)?.children -= 1;
        }
        Ok(entry.resource)
    }

    /// Polls the resource with a number.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such resource.
    pub fn poll(&mut self, number: u32, context: &mut Context<'_>) -> Result<Poll<()>, HostError> {
        Ok(self.entry(number)?.resource.poll_ready(context))
    }

    /// The number of a resource's parent, if it has one.
    pub(crate) fn parent(&mut self, number: u32) -> Result<Option<u32>, HostError> {
        Ok(self.entry(number)?.parent)
    }

    /// All resources of a type.
    pub(crate) fn all<R: Resource>(&mut self) -> impl Iterator<Item = &mut R> {
        self.entries.iter_mut().filter_map(|(_, entry)| {
            let resource: &mut dyn Any = &mut *entry.resource;
            resource.downcast_mut()
        })
    }

    /// Number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no resources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn other_type(number: u32) -> HostError {
    HostError::message(format!("resource {number} of the host has another type"))
}
