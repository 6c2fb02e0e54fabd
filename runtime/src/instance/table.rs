//! [`Table`] and [`TableMut`]: the host's views of a guest's tables between calls.

use super::handle::Instance;
use super::owner::{Owner, OwnerMut};
use crate::call::{HostState, table};
use crate::error::{Operation, TableError};
use crate::store::member::Member;
use crate::value::{Cell, InstanceId, TableType, Value};
use core::convert::Infallible;

/// A read-only view of a guest's table.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    elements: &'a [u64],
    ty: TableType,
    instance_id: InstanceId,
}

impl<'a> Table<'a> {
    fn new<T>(member: &'a Member<T>, index: u32) -> Self {
        Self {
            elements: member.elements(index),
            ty: table::type_of(member, index),
            instance_id: member.instance_id(true),
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.elements.len() as u64
    }

    /// Whether the table has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The type of the table, as the exporting module declares it. A number in the type of the
    /// elements is a type index of that module.
    #[must_use]
    pub fn ty(&self) -> TableType {
        self.ty
    }

    /// The element at an index; `None` past the end. A null element is a value, not `None`.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<Value> {
        let word = self.elements.get(usize::try_from(index).ok()?)?;
        Some(Cell::from_u64(*word).value(self.ty.element, self.instance_id))
    }
}

/// A guest's table that the host can change.
///
/// A reference that the host writes must belong to the instance or group of the table. Its type
/// must be the element type or a subtype. The guest must still hold a reference to an exception
/// that the host writes.
#[derive(Debug)]
pub struct TableMut<'a, T, Q = Infallible, A = Infallible> {
    members: &'a mut [Member<HostState<T, Q, A>>],
    at: usize,
    index: u32,
    store: &'a mut HostState<T, Q, A>,
}

impl<T, Q, A> TableMut<'_, T, Q, A> {
    /// A read-only view of the table.
    #[must_use]
    pub fn view(&self) -> Table<'_> {
        Table::new(&self.members[self.at], self.index)
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.view().len()
    }

    /// Whether the table has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// As [`Table::ty`].
    #[must_use]
    pub fn ty(&self) -> TableType {
        self.view().ty()
    }

    /// As [`Table::get`].
    #[must_use]
    pub fn get(&self, index: u64) -> Option<Value> {
        self.view().get(index)
    }

    /// Sets the element at an index.
    ///
    /// # Errors
    ///
    /// [`TableError::OutOfBounds`] past the end, [`TableError::Value`] if the table cannot hold the
    /// value. Nothing has changed then.
    pub fn set(&mut self, index: u64, value: Value) -> Result<(), TableError> {
        self.fill(index, value, 1)
    }

    /// Sets `len` elements from an index on, as `table.fill` of a guest does.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn fill(&mut self, index: u64, value: Value, len: u64) -> Result<(), TableError> {
        table::fill(self.members, self.at, self.index, (index, len), value)
    }

    /// Adds `delta` elements with the value `value`, as `table.grow` of a guest does. Returns the
    /// previous number of elements.
    ///
    /// The table's type, the region and the embedder's [limiter](crate::Linker::table_limiter) must
    /// all allow the growth. If the type or the region does not allow the growth, the runtime calls
    /// the function of [`Linker::growth_failed`](crate::Linker::growth_failed).
    ///
    /// # Errors
    ///
    /// [`TableError::Value`] if the table cannot hold the value, [`TableError::Limit`] and
    /// [`TableError::Refused`] if the table may not grow. Then nothing has changed.
    pub fn grow(&mut self, delta: u64, value: Value) -> Result<u64, TableError> {
        table::grow(self.members, self.at, self.index, delta, value, self.store)
    }
}

/// The error for a table that the member does not export.
fn no_export<T>(member: &Member<T>, name: &str) -> TableError {
    TableError::NoExport {
        name: name.to_owned(),
        found: member.inner.module.listed_exports(),
    }
}

/// Tables.
impl<T, Q, A, O: Owner<Data = T, Question = Q, Answer = A>> Instance<T, Q, A, O> {
    /// The exported table `name`. A member of a group may import that table from another member.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<Table<'_>> {
        let (members, at) = self.owner.members();
        let index = table::exported(&members[at], name)?;
        Some(Table::new(&members[at], index))
    }
}

/// Tables to change.
impl<T, Q, A, O: OwnerMut<Data = T, Question = Q, Answer = A>> Instance<T, Q, A, O> {
    /// The exported table `name`, to change it. Other members of the group that import the table
    /// see the changes.
    ///
    /// # Errors
    ///
    /// [`TableError::NoExport`] if there is no such table. [`TableError::State`] while a call is
    /// suspended, because a preempted call may be in the middle of an instruction that writes to
    /// the table.
    pub fn table_mut(&mut self, name: &str) -> Result<TableMut<'_, T, Q, A>, TableError> {
        let mut callee = self.owner.callee();
        callee.refuse(Operation::ChangeTable)?;
        let index = table::exported(callee.member(), name);
        let index = index.ok_or_else(|| no_export(callee.member(), name))?;
        Ok(TableMut {
            members: callee.members,
            at: callee.root,
            index,
            store: callee.store,
        })
    }
}
