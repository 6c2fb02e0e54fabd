//! pirn's runtime: modules that `aotc` compiled, run in a region of preallocated slots.
//!
//! ```text
//! Module::open ──▶ Region::prepare(&module, &linker) ──▶ Prepared::instantiate ──▶ Instance::call ──▶ drop
//!   checked, then    imports, types and limits:            a slot is taken,          host functions    the slot
//!   mapped once      everything found wrong here           its state written         run in between    is reset
//! ```
//!
//! The runtime links no compiler. This page shows its public interface; everything else is private.

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!("pirn-runtime runs on 64-bit little-endian Linux");

mod sys;
mod account;
mod value;
mod module;
mod switch;
mod trap;
mod stop;
mod error;
mod signals;
mod region;
mod memory;
mod store;
mod call;
mod linker;
mod instance;

pub use account::HostBytesError;
pub use call::{Caller, Func, HostFuture, HostResult, IntoFunc, MaybeFuture, StopFlag, TypedFunc};
pub use error::{
    CallError, CallState, FuelError, GroupError, HostError, HostPanic, InstantiateError,
    InvalidCall, LinkError, NoMember, Operation, SetGlobalError, SnapshotError, StateError,
    TableError, ValueError,
};
pub use instance::{
    Alone, CallAsync, Group, InGroup, Instance, LimitedCall, MemberId, MemberMut, MemberRef, Owner,
    OwnerMut, Prepared, Step, Table, TableMut,
};
pub use linker::Linker;
pub use memory::{Memory, MemoryMut, ReadStrError, SharedMemory, SharedMemoryError};
pub use module::{ExternType, Module, OpenError};
pub use pirn_signature::{KeyError, KeyId, PublicKey, SignatureError};
pub use region::{Region, RegionBuilder, RegionError, RegionStats, Reset};
pub use stop::kill::{KillError, KillOutcome, KillSwitch};
pub use store::growth::{Growing, Growth, GrowthError};
pub use store::usage::{Measure, Usage};
pub use trap::{Exception, Frame, Interruption, Trap, TrapCode};
pub use value::typed::{FlatParams, FlatResult, Params, Results, WasmTy};
pub use value::{
    AddrType, AnyKind, AnyRef, CompositeKind, ExnRef, ExternRef, FuncRef, FuncType, GlobalType,
    HeapType, MemoryType, PageSize, RefType, TableType, ValType, Value,
};
