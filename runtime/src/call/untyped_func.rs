//! [`Func`]: a function of a module, for calls with untyped values, and the look-up of functions.

use super::errors::foreign;
use super::typed_func::no_export;
use crate::error::{CallError, InvalidCall, LinkError};
use crate::module::Module;
use crate::store::member::Member;
use crate::value::{Cell, ForeignRef, FuncRef, FuncType, InstanceId};
use pirn_format::metadata::{ExportItem, Metadata};
use std::sync::Arc;

/// A function of a module, for calls with untyped values.
///
/// The look-up of a function is in a preparation or in a member of a group. The host can call the
/// function on every instance of that preparation, or on that member. A clone is a handle to the
/// same function.
#[derive(Debug, Clone)]
pub struct Func(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The preparation of the module.
    prepared: InstanceId,
    /// Index of the function in the module.
    index: u32,
    /// Name of the function in errors.
    name: String,
    ty: FuncType,
}

impl Func {
    /// Function `index` of a module, for the instances of a preparation. `None` if the host cannot
    /// call the function.
    fn new(module: &Module, prepared: InstanceId, index: u32, name: &str) -> Option<Self> {
        let metadata = module.metadata();
        metadata.address_taken_position(index)?;
        let ty = metadata.funcs[index as usize];
        metadata.entries[ty as usize]?;
        Some(Self(Arc::new(Inner {
            prepared,
            index,
            name: name.to_owned(),
            ty: metadata.func_type(ty).clone(),
        })))
    }

    /// The exported function `name` of a module, for the instances of a preparation.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function.
    pub(crate) fn find(
        module: &Module,
        prepared: InstanceId,
        name: &str,
    ) -> Result<Self, LinkError> {
        let Some(ExportItem::Func(index)) = module.metadata().export(name) else {
            return Err(no_export(module, "function", name));
        };
        let found = Self::new(module, prepared, index, name);
        found.ok_or_else(|| no_export(module, "function with an entry trampoline", name))
    }

    /// The function that a reference refers to, and the index of the member whose list of function
    /// references contains that reference.
    ///
    /// # Errors
    ///
    /// [`InvalidCall::ForeignRef`] for a reference of another instance or group,
    /// [`InvalidCall::NoEntry`] for a function that the host cannot call.
    pub(crate) fn referred<T>(
        members: &[Member<T>],
        reference: FuncRef,
    ) -> Result<(usize, Self), CallError> {
        let first = members.first().ok_or_else(|| foreign(ForeignRef))?;
        let instance_id = first.instance_id(true);
        let cell = Cell::from_func_ref(Some(reference), instance_id).map_err(foreign)?;
        let mut members = members.iter().enumerate();
        let found = members.find_map(|(at, member)| {
            let index = member.func_at(cell.u64())?;
            Some((at, &member.inner, index))
        });
        let (at, inner, index) = found.ok_or_else(|| foreign(ForeignRef))?;
        let name = name_of(inner.module.metadata(), index);
        match Self::new(&inner.module, inner.id, index, &name) {
            Some(func) => Ok((at, func)),
            None => Err(InvalidCall::NoEntry { name }.into()),
        }
    }

    /// The index of the member in which the function was looked up.
    ///
    /// # Errors
    ///
    /// [`InvalidCall::OtherPreparation`] if the function was looked up in none of these members.
    pub(crate) fn member<T>(&self, members: &[Member<T>]) -> Result<usize, CallError> {
        let at = members
            .iter()
            .position(|member| member.inner.id == self.0.prepared);
        at.ok_or_else(|| InvalidCall::OtherPreparation.into())
    }

    /// The type of the function. A number in the type is a type index of the function's module.
    #[must_use]
    pub fn ty(&self) -> &FuncType {
        &self.0.ty
    }

    /// The id of the preparation in which the function was looked up.
    pub(super) fn prepared(&self) -> InstanceId {
        self.0.prepared
    }

    /// The index of the function in its module, and its name in errors.
    pub(super) fn index(&self) -> (u32, &str) {
        (self.0.index, &self.0.name)
    }
}

/// The name of a function in errors: the name of its first export, else its name in the name
/// section, else "func" and its index.
fn name_of(metadata: &Metadata, index: u32) -> String {
    let mut exports = metadata.exports.iter();
    if let Some(export) = exports.find(|export| export.item == ExportItem::Func(index)) {
        return export.name.clone();
    }
    let names = &metadata.func_names;
    match names.binary_search_by_key(&index, |(index, _)| *index) {
        Ok(at) => names[at].1.clone(),
        Err(_) => format!("func {index}"),
    }
}

/// The function of an untyped call, as the host names it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// The exported function of this name.
    Export(&'a str),
    /// A function that was looked up before.
    Func(&'a Func),
    /// The function that this reference refers to.
    Reference(FuncRef),
}
