//! Components (component model, WASI 0.2) in the slots of pirn.
//!
//! `aotc component.wasm` makes one module of all core modules of a component. This crate calls the
//! module's exported functions with values of the component model, and gives the module functions
//! of the host.
//!
//! ```no_run
//! use pirn_component::{Component, Linker, Value};
//! use pirn_runtime::{Module, Region};
//!
//! let component = Component::new(&Module::open("add.so")?)?;
//! let region = Region::builder().slots(100).build()?;
//! let prepared = Linker::<()>::new().prepare(&region, &component)?;
//! let add = prepared.func("add")?;
//!
//! let mut instance = prepared.instantiate(())?;
//! let sum = instance.call(&add, &[Value::U32(2), Value::U32(3)])?;
//! assert_eq!(sum, Some(Value::U32(5)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Who converts what:
//!
//! * The traits `Type` and `OwnedType` (`typed.rs`, `typed/`) convert all kinds of values, to and
//!   from core values and memory. [`Value`] is one of the types.
//! * `lower.rs` and `lift.rs` convert and check strings, handles and bytes for these traits.
//! * `instance.rs` converts the parameters and the result of a call of a guest.
//! * `adapter.rs` and `host_values.rs` convert the parameters and the result of a call of a
//!   function of the host.
//! * `transcode.rs` converts strings between two components. Machine code that the compiler makes
//!   converts all other values between them.
//!
//! The specification is the component model's `CanonicalABI.md` and `Explainer.md`. Asynchronous
//! functions of the component (WASI 0.3) are not supported; functions of the host may be
//! asynchronous.

#![forbid(unsafe_code)]

// In this order each module uses only modules before it (`format/tests/layers.rs`).
mod error;
mod host_bytes;
mod stop;
mod names;
mod value;
mod component;
mod handles;
mod strings;
mod scopes;
mod lift;
mod lower;
mod state;
mod transcode;
mod typed;
mod func;
mod host_func;
mod host_values;
mod adapter;
mod instance;
mod prepared;
mod linker;

/// Items for the code that `#[derive(Typed)]` generates. They can change with any version.
#[doc(hidden)]
pub mod derive {
    pub use crate::component::Info;
    pub use crate::error::RequestError;
    pub use crate::lift::{Flat, Lift};
    pub use crate::lower::{Collect, Lower, Words};
    pub use crate::typed::{OwnedType, Type, cases, fields, flags};
}

pub use component::Component;
pub use error::{AbiError, CallError, LinkError, ValueError};
pub use func::{Func, TypedFunc};
pub use host_bytes::{HeldBytes, HostBytes};
pub use host_func::HostFuture;
pub use instance::{Instance, Limits};
pub use linker::Linker;
pub use pirn_component_macros::Typed;
pub use pirn_format::component::{DefinedType, FuncType, ValueType};
pub use prepared::Prepared;
pub use state::State;
pub use typed::{
    AnyResource, Borrow, CallParams, Filled, Own, Param, ResourceType, Typed, TypedParams,
};
pub use value::{Resource, Value};
