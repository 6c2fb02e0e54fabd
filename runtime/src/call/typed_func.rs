//! [`TypedFunc`]: an exported function, looked up and checked once.
//!
//! # Safety
//!
//! This file owns one fact. Code of an imported host function gets the address of its
//! [`FuncImport`] as its first argument. Code of an instance gets that instance's context.
#![allow(unsafe_code)]

use super::errors::foreign;
use crate::error::{CallError, LinkError};
use crate::module::Module;
use crate::store::member::{Member, Target};
use crate::value::typed::{FLAT_MAX, FlatParams, FlatResult, Params, Results, sealed};
use crate::value::{FuncType, InstanceId, ValType};
use core::marker::PhantomData;
use pirn_format::layout::FuncImport;
use pirn_format::metadata::ExportItem;

/// An exported function of a module, looked up and checked once.
///
/// The host can call it on every instance of the preparation in which it was looked up, or on the
/// member of a group in which it was looked up.
#[derive(Debug)]
pub struct TypedFunc<P, R> {
    pub(crate) prepared: InstanceId,
    code: usize,
    entry: usize,
    /// Offset from the instance's context to the address that the code takes as its first argument.
    context: i32,
    /// Number of cells for a call, at least 1. Only functions over [`FlatParams`] use it, because
    /// their Rust types do not tell the number.
    flat_cells: u32,
    types: PhantomData<fn(P) -> R>,
}

impl<P, R> Clone for TypedFunc<P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R> Copy for TypedFunc<P, R> {}

impl<P: Params, R: Results> TypedFunc<P, R> {
    /// The exported function `name` of a module, for the instances of a preparation.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function; [`LinkError::FuncType`] if its type
    /// does not match `P` and `R`.
    pub(crate) fn find(
        module: &Module,
        prepared: InstanceId,
        name: &str,
    ) -> Result<Self, LinkError> {
        let wanted = FuncType {
            params: <P as sealed::List>::TYPES.to_vec(),
            results: <R as sealed::List>::TYPES.to_vec(),
        };
        Self::find_if(module, prepared, name, |found| match *found == wanted {
            true => Ok(()),
            false => Err(wanted.to_string()),
        })
    }

    /// As [`find`](Self::find), for a function whose type passes `check`. If the type does not
    /// pass, `check` returns the wanted type in words.
    fn find_if(
        module: &Module,
        prepared: InstanceId,
        name: &str,
        check: impl FnOnce(&FuncType) -> Result<(), String>,
    ) -> Result<Self, LinkError> {
        let metadata = module.metadata();
        let Some(ExportItem::Func(index)) = module.export(name) else {
            return Err(no_export(module, "function", name));
        };
        let ty = metadata.funcs[index as usize];
        let found = metadata.func_type(ty);
        check(found).map_err(|wanted| LinkError::FuncType {
            name: name.to_owned(),
            found: found.to_string(),
            wanted,
        })?;
        let entry = metadata.entries[ty as usize]
            .ok_or_else(|| no_export(module, "function with an entry trampoline", name))?;
        Ok(Self {
            prepared,
            code: module.code(metadata.code[index as usize]),
            entry: module.code(entry),
            context: match index < module.imported().funcs {
                true => module.layout().import(index),
                false => 0,
            },
            flat_cells: found.params.len().max(found.results.len()).max(1) as u32,
            types: PhantomData,
        })
    }

    /// Writes the parameters to the cells of a member, from which a call reads them.
    ///
    /// # Errors
    ///
    /// A parameter is a reference of another instance.
    #[inline(always)]
    pub(crate) fn store<T>(&self, member: &mut Member<T>, params: P) -> Result<(), CallError> {
        let instance_id = member.instance_id(self.needs_instance_id());
        sealed::List::store(params, member.cells(self.cells()), instance_id).map_err(foreign)
    }

    /// Reads the results from the cells of a member, to which a call has written them.
    #[inline(always)]
    pub(crate) fn load<T>(&self, member: &mut Member<T>) -> R {
        let instance_id = member.instance_id(self.needs_instance_id());
        <R as sealed::List>::load(member.cells(self.cells()), instance_id)
    }

    /// Number of cells for a call: the larger of the numbers of parameters and of results.
    #[inline]
    pub(crate) fn cells(&self) -> usize {
        if <P as sealed::List>::IS_FLAT {
            return self.flat_cells as usize;
        }
        let parameters = <P as sealed::List>::TYPES.len();
        parameters.max(<R as sealed::List>::TYPES.len())
    }

    /// Whether a parameter or a result carries the instance id.
    #[inline]
    pub(crate) fn needs_instance_id(&self) -> bool {
        <P as sealed::List>::NEEDS_INSTANCE_ID || <R as sealed::List>::NEEDS_INSTANCE_ID
    }
}

impl TypedFunc<FlatParams, FlatResult> {
    /// The exported function `name` of a module, whose parameters and results are numbers.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub(crate) fn find_flat(
        module: &Module,
        prepared: InstanceId,
        name: &str,
    ) -> Result<Self, LinkError> {
        Self::find_if(module, prepared, name, |found| match is_flat(found) {
            true => Ok(()),
            false => Err(format!("up to {FLAT_MAX} numbers, with at most one result")),
        })
    }
}

/// Whether a function takes at most 17 numbers and returns at most one number.
pub(crate) fn is_flat(ty: &FuncType) -> bool {
    let number = |ty| {
        matches!(
            ty,
            ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64
        )
    };
    ty.params.len() <= FLAT_MAX && ty.results.len() <= 1 && ty.values().all(number)
}

impl<P, R> TypedFunc<P, R> {
    /// Distinguishes the function from other functions of its preparation. The code alone is not
    /// enough: imported functions of one type share their code.
    pub(crate) fn identity(&self) -> (usize, i32) {
        (self.code, self.context)
    }

    /// The call target in the instance with this context. The instance may import the function from
    /// another member of its group.
    ///
    /// # Safety
    ///
    /// `vmctx` must be the initialised context of an instance of the function's preparation.
    pub(crate) unsafe fn linked_target(&self, vmctx: *mut u8) -> Target {
        let target = self.target(vmctx);
        if self.context == 0 {
            return target;
        }
        // SAFETY: the caller ensures that the context is initialised. `find` took the offset from
        // the layout of the same module.
        let import = unsafe { *target.vmctx.cast::<FuncImport>() };
        Target {
            code: import.code as usize,
            vmctx: import.vmctx as *mut u8,
            ..target
        }
    }

    /// The call target in the instance with this context. Outside a group every imported function
    /// is a host function, so the target needs no look-up. In a group, use
    /// [`linked_target`](Self::linked_target).
    pub(crate) fn target(&self, vmctx: *mut u8) -> Target {
        Target {
            code: self.code,
            entry: self.entry,
            vmctx: vmctx.wrapping_offset(self.context as isize),
        }
    }
}

/// The error for an export that the module does not have.
pub(super) fn no_export(module: &Module, kind: &'static str, name: &str) -> LinkError {
    LinkError::NoExport {
        kind,
        name: name.to_owned(),
        found: module.listed_exports(),
    }
}
