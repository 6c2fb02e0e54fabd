//! The public face: a prepared module, its instances, and the ways to call them.

mod callee;
mod future;
mod group;
mod handle;
mod limited;
mod limited_group;
mod owner;
mod prepared;
mod snapshot;
mod step;
mod suspended;
mod table;

pub use callee::CallOwner;
pub use future::CallAsync;
pub use group::{Group, MemberId};
pub use handle::Instance;
pub use limited::LimitedCall;
pub use prepared::Prepared;
pub use suspended::Step;
pub use table::{Table, TableMut};
