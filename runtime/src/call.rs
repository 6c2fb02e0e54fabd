//! Every way into a guest and out of it: calls and steps, host functions, and the instructions that
//! the runtime executes.

mod answer;
mod builtin;
mod bulk;
pub(crate) mod caller;
mod end;
pub(crate) mod enter;
mod entry;
pub(crate) mod errors;
mod exception;
pub(crate) mod func;
mod given;
pub(crate) mod global;
mod grow;
mod heap;
mod host_code;
pub(crate) mod host_result;
pub(crate) mod host_state;
pub(crate) mod later;
mod make;
mod nested;
pub(crate) mod parameters;
mod running;
mod segments;
pub(crate) mod start;
pub(crate) mod steps;
pub(crate) mod table;
mod typed_func;
pub(crate) mod untyped;
mod untyped_func;
mod wait;

pub(crate) use answer::not_of_the_host;
pub use caller::{Caller, StopFlag};
pub use func::IntoFunc;
pub use host_result::{HostFuture, HostResult, MaybeFuture};
pub(crate) use host_state::HostState;
pub(crate) use running::{Progress, is_whole};
pub use typed_func::TypedFunc;
pub(crate) use typed_func::is_flat;
pub use untyped_func::Func;
pub(crate) use untyped_func::Wanted;
