//! [`InvalidCall`]: why the runtime refused a call, or could not continue it.

use super::NoMember;
use crate::value::{FuncType, ValType};
use thiserror::Error;

/// Why a call is invalid.
///
/// `NoEntry`, `NoStartEntry`, `ImportNotOfHost` and `UnknownExit` mean that the compiled module
/// does not match this runtime. [`Module::open`](crate::Module::open) should refuse such a module.
/// A guest can cause `NestedCalls` by recursion through a host function. The embedder's code causes
/// the other variants.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidCall {
    /// The function was looked up in another preparation than the instance's.
    #[error(
        "function was looked up in another preparation than the instance's; look it up in the \
         preparation that made the instance"
    )]
    OtherPreparation,
    /// The module has no exported function of this name.
    #[error("module has no exported function {name:?}; it exports {found}")]
    NoExport {
        /// The name that was asked for.
        name: String,
        /// The exports that the module has.
        found: String,
    },
    /// The number of values is not the number of the function's parameters.
    #[error(
        "function {name:?} of type {ty} takes {wanted} values, {found} were given; give one for \
         each parameter"
    )]
    Count {
        /// Name of the function: its export name, its name in the name section, or "func" and its
        /// index.
        name: String,
        /// The type of the function.
        ty: FuncType,
        /// Number of the function's parameters.
        wanted: usize,
        /// Number of the values.
        found: usize,
    },
    /// A value does not have the type of its parameter.
    #[error(
        "function {name:?} takes {wanted} as value {position}, {found} was given; give a value of \
         that type"
    )]
    Type {
        /// Name of the function: its export name, its name in the name section, or "func" and its
        /// index.
        name: String,
        /// Index of the value. The first value has index 0.
        position: usize,
        /// The type of the parameter.
        wanted: ValType,
        /// The type of the value, in words.
        found: String,
    },
    /// A value is a reference to an exception that the instance has freed.
    #[error(
        "function {name:?} takes an exception as value {position}, which the instance has freed; \
         have the guest hold a reference to it"
    )]
    ExceptionNotKept {
        /// Name of the function: its export name, its name in the name section, or "func" and its
        /// index.
        name: String,
        /// Index of the value. The first value has index 0.
        position: usize,
    },
    /// A parameter is a reference of another instance, or an
    /// [`ExternRef`](crate::ExternRef::new) with a number that the runtime reserves.
    #[error("reference of another instance; pass only references that this instance gave")]
    ForeignRef,
    /// The id of a member comes from another group.
    #[error(transparent)]
    NoMember(#[from] NoMember),
    /// The instance was made before a fork(2) whose child did not inherit the instance's memory.
    #[error(
        "instance was made in another process, and a fork did not inherit its memory; make another \
         instance in this process"
    )]
    NotInherited,
    /// The guest waits for an answer in a call that cannot be suspended.
    #[error(
        "guest waits for an answer in a call that cannot be suspended; make the call by `start` or \
         `call_async`"
    )]
    NotResumable,
    /// The guest has the maximum number of nested calls that its region allows.
    #[error(
        "guest has {running} nested calls, its region allows {limit}; return from one, or raise \
         `nested_calls_max`"
    )]
    NestedCalls {
        /// Number of nested calls that run.
        running: u32,
        /// The limit of the region.
        limit: u32,
    },
    /// The module has no entry trampoline for the function, so the host cannot call it. The
    /// function need not be exported.
    #[error(
        "function {name:?} has no entry trampoline; compile the module again with this version of \
         aotc"
    )]
    NoEntry {
        /// Name of the function: its export name, its name in the name section, or "func" and its
        /// index.
        name: String,
    },
    /// The module has no entry trampoline for its start function.
    #[error(
        "start function has no entry trampoline; compile the module again with this version of aotc"
    )]
    NoStartEntry,
    /// The guest called an import from another instance through the routine for host functions.
    #[error(
        "guest called an import of another instance as a host function; compile the module again \
         with this version of aotc"
    )]
    ImportNotOfHost,
    /// The guest exited for a reason that this version of the runtime does not know.
    #[error(
        "guest exited for an unknown reason; compile the module again with this version of aotc"
    )]
    UnknownExit,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One value of each variant.
    fn all() -> Vec<InvalidCall> {
        let (name, ty) = ("run".to_owned(), ValType::I32);
        let func = FuncType {
            params: vec![ty],
            results: vec![],
        };
        let (found, position) = ("i64".to_owned(), 0);
        vec![
            InvalidCall::OtherPreparation,
            InvalidCall::NoExport {
                name: name.clone(),
                found: "nothing".to_owned(),
            },
            InvalidCall::Count {
                name: name.clone(),
                ty: func,
                wanted: 1,
                found: 2,
            },
            InvalidCall::Type {
                name: name.clone(),
                position,
                wanted: ty,
                found,
            },
            InvalidCall::ExceptionNotKept {
                name: name.clone(),
                position,
            },
            InvalidCall::ForeignRef,
            InvalidCall::NoMember(NoMember { found: 1, count: 1 }),
            InvalidCall::NotInherited,
            InvalidCall::NotResumable,
            InvalidCall::NestedCalls {
                running: 32,
                limit: 32,
            },
            InvalidCall::NoEntry { name },
            InvalidCall::NoStartEntry,
            InvalidCall::ImportNotOfHost,
            InvalidCall::UnknownExit,
        ]
    }

    #[test]
    fn messages_are_one_lower_case_line_with_a_remedy() {
        for error in all() {
            let line = error.to_string();
            assert!(line.starts_with(|c: char| c.is_lowercase()), "{line}");
            assert!(!line.contains('\n') && !line.ends_with('.'), "{line}");
            assert_eq!(line.matches("; ").count(), 1, "{line}");
            assert!(!line.contains("  "), "{line}");
        }
    }
}
